"""Answers of Prometheus from exporters whose truth is known (`exporter_cases.py`), thousands of them.

`SHUNTER_EXPORTER_SECONDS` says how long the long one looks for a case that differs (600 s), `SHUNTER_EXPORTER_SEED` where
it begins. A case that differs is shown with its seed: `SHUNTER_EXPORTER_SEED=… SHUNTER_EXPORTER_CASES=1` is that case alone.
"""

import os
import time

import pytest
from exporter_cases import T0, answers_of, faults_of, faults_of_snapshots, made, snapshot_rows
from pyspark.sql import functions as F

from shunter.formats.series_labels import SeriesLabels
from shunter.pipeline.sources.prometheus import read_prometheus
from shunter.pipeline.sources.snapshots import logs_left_out, snapshot_samples

pytestmark = pytest.mark.spark

CASES = int(os.environ.get("SHUNTER_EXPORTER_CASES", "150"))
"""How many cases one job of Spark reads."""
_REPLICAS = (
    "cluster_id string, at bigint, topic string, partition int, broker_id int, is_leader boolean, size_bytes bigint, "
    "start_offset bigint, end_offset bigint, cleanup_policy string"
)


def differing(spark, folder, seeds):
    """The faults of each case that has some, by seed."""
    cases = {case.name: case for case in map(made, seeds)}
    folder.mkdir(exist_ok=True)
    for number, text in enumerate(answers_of(cases.values())):
        (folder / f"{number}.json").write_text(text)
    seen = spark.createDataFrame([row for case in cases.values() for row in snapshot_rows(case)], _REPLICAS)
    taken_at = F.timestamp_seconds("at")
    replicas = seen.withColumns({"taken_at": taken_at, "date": F.to_date(taken_at), "topic_id": F.col("topic")})
    brokers = {f"kafka-{broker}:7071": broker for broker in range(1, 5)}
    rows = read_prometheus(spark, [str(folder)], labels=SeriesLabels(tuple(brokers.items())), replicas=replicas)
    of_answers, of_snapshots = {}, {}
    for row in rows.collect():
        told = (
            row["role"],
            _start(row),
            row["window_seconds"],
            row["bytes_in"],
            row["bytes_out"],
            row["messages_in"],
            row["size_bytes"],
        )
        of_answers.setdefault(row["cluster_id"], []).append((*_which(row), *told, row["reader_rule"]))
    for row in snapshot_samples(replicas).unionByName(logs_left_out(replicas)).collect():
        told = (
            _start(row),
            row["window_seconds"],
            row["bytes_in"],
            row["messages_in"],
            row["reader_rule"],
            row["reader_detail"],
        )
        of_snapshots.setdefault(row["cluster_id"], []).append((*_which(row), *told))
    faults = {
        case.seed: [
            *faults_of(case, of_answers.get(case.name, [])),
            *faults_of_snapshots(case, of_snapshots.get(case.name, [])),
        ]
        for case in cases.values()
    }
    return {seed: found for seed, found in faults.items() if found}


def _which(row):
    return row["topic"], row["partition"], row["broker_id"]


def _start(row):
    return None if row["window_start"] is None else round(row["window_start"].timestamp() - T0)


def told(found, folder):
    for seed, faults in found.items():
        case = made(seed)
        print(f"seed {seed} ({', '.join(case.notes)}):", *faults[:6], sep="\n    ")
    print(f"answers: {folder}")


def test_no_answer_of_an_exporter_is_misread(spark, tmp_path):
    first = int(os.environ.get("SHUNTER_EXPORTER_SEED", "1"))
    found = differing(spark, tmp_path / "answers", range(first, first + CASES))
    told(found, tmp_path / "answers")
    assert not found


@pytest.mark.long
@pytest.mark.timeout(8_000)
def test_no_answer_of_an_exporter_is_misread_for_long(spark, tmp_path):
    end = time.monotonic() + float(os.environ.get("SHUNTER_EXPORTER_SECONDS", "600"))
    first = seed = int(os.environ.get("SHUNTER_EXPORTER_SEED", "1"))
    while time.monotonic() < end:
        found = differing(spark, tmp_path / "answers", range(seed, seed + CASES))
        told(found, tmp_path / "answers")
        assert not found
        seed += CASES
    print(f"{seed - first} cases, seeds {first} to {seed - 1}: none differs")
