"""Numbers that Spark's own hash sends to one task each.

Spark sends a row to the task that the hash of its key names. If there are few keys and about as many tasks, hashes
collide: some tasks get three keys, a third of the tasks gets none, and the job waits for the slowest task.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def numbers_of_tasks(spark: SparkSession, tasks: int) -> list[int]:
    """A number (bigint) for each task that `repartition(tasks, …)` sends to that task."""
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
