"""Where rows go: numbers that Spark's own hash sends to a task each.

Spark sends a row to the task that the hash of its key names. Few keys and nearly as many tasks collide: some tasks get three
keys, a third gets none, and the last one to end is waited for.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def numbers_of_tasks(spark: SparkSession, tasks: int) -> list[int]:
    """For each of so many tasks a number (bigint) that `repartition(tasks, …)` sends there."""
    found: dict[int, int] = {}
    tried = 0
    while len(found) < tasks:
        candidates = spark.range(tried, tried + tasks * 16).select(
            "id", F.pmod(F.hash("id"), F.lit(tasks)).alias("task")
        )
        for row in candidates.collect():
            found.setdefault(row["task"], row["id"])
        tried += tasks * 16
    return [found[task] for task in range(tasks)]
