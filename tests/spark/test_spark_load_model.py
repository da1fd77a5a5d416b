"""The load model has the measured figures, leader and follower apart, and a confidence."""

import math
from datetime import datetime, timedelta

import pytest

from shunter.pipeline.lake.schemas import LOAD_MODEL, SAMPLES
from shunter.pipeline.load.modelling import load_model, load_shape

pytestmark = pytest.mark.spark

START = datetime(2025, 2, 3)  # a Monday


def rows(count, *, step=3600, partition=0, broker=1, role="leader", seconds=3600, **amounts):
    """`count` windows of one replica; each amount is a function of the window's number, or None."""
    made = []
    for number in range(count):
        start = START + timedelta(seconds=step * number)
        values = dict.fromkeys(("bytes_in", "bytes_out", "messages_in", "size_bytes"))
        values.update({name: amount(number) for name, amount in amounts.items()})
        made.append(
            {
                "cluster_id": "c1", "topic_id": "t", "topic": "orders", "partition": partition, "broker_id": broker,
                "role": role, "window_start": start, "window_seconds": seconds, **values, "source": "test",
                "file": "here", "schema_version": 1, "date": start.date(), "ingest_id": "i",
            }
        )  # fmt: skip
    return made


@pytest.fixture(scope="module")
def modelled(spark):
    """One model of six replicas, so that Spark runs once for all tests of this file."""
    samples = [
        *rows(200, bytes_in=lambda n: 3600 * (n + 1), size_bytes=lambda n: 1000 * n),
        *rows(200, broker=2, role="follower", bytes_in=lambda n: 7200),
        *rows(10, partition=1, size_bytes=lambda n: 5_000_000),
        *rows(10, partition=2, step=7200, bytes_in=lambda n: None if n == 4 else 3600, bytes_out=lambda n: 0),
        *rows(3, partition=3, seconds=60, step=60, bytes_in=lambda n: 600, size_bytes=lambda n: n),
        # A long window that ends after one that began later.
        *rows(1, partition=4, seconds=7200, size_bytes=lambda n: 700),
        *rows(2, partition=4, seconds=60, size_bytes=lambda n: 600)[1:],
    ]
    frame = spark.createDataFrame(samples, SAMPLES.schema)
    found = load_model(frame).collect()
    assert [field.name for field in load_model(frame).schema] == list(LOAD_MODEL.columns)
    return {(row["partition"], row["role"]): row for row in found}


def test_one_row_for_each_replica_and_role(modelled):
    assert sorted(modelled) == [
        (0, "follower"),
        (0, "leader"),
        (1, "leader"),
        (2, "leader"),
        (3, "leader"),
        (4, "leader"),
    ]


def test_the_size_is_the_one_of_the_window_that_ends_last(modelled):
    assert [modelled[partition, "leader"]["size_bytes"] for partition in (0, 3, 4)] == [199_000, 2, 700]


def test_percentiles_are_nearest_rank(modelled):
    leader = modelled[0, "leader"]
    assert leader["windows"] == 200
    assert [leader[f"bytes_in_{p}"] for p in ("p50", "p95", "p99", "max")] == [100.0, 190.0, 198.0, 200.0]
    assert leader["bytes_in_mean"] == 100.5
    assert leader["bytes_out_mean"] is None
    assert leader["bytes_out_p99"] is None


def test_size_grows_by_its_slope(modelled):
    leader = modelled[0, "leader"]
    assert leader["growth_bytes_per_day"] == pytest.approx(24_000)
    assert (leader["size_bytes"], leader["size_max"], leader["size_p95"]) == (199_000, 199_000, 189_000.0)
    assert modelled[3, "leader"]["growth_bytes_per_day"] is None


def test_leader_and_follower_are_apart(modelled):
    assert modelled[0, "follower"]["bytes_in_max"] == 2.0
    assert modelled[0, "follower"]["size_bytes"] is None


def test_sizes_alone_are_enough_for_a_model_and_earn_no_confidence(modelled):
    sizes = modelled[1, "leader"]
    assert (sizes["basis"], sizes["windows"], sizes["confidence"], sizes["size_bytes"]) == ("sizes", 0, 0.0, 5_000_000)


def test_gaps_lower_the_confidence_and_not_the_mean(modelled):
    gaps = modelled[2, "leader"]
    assert gaps["bytes_in_mean"] == 1.0
    assert gaps["bytes_out_max"] == 0.0
    span = 9 * 7200 + 3600
    assert gaps["coverage"] == pytest.approx(36_000 / span)
    assert gaps["confidence"] == pytest.approx(gaps["coverage"] * (1 - 0.99**10) * span / (7 * 86_400))
    full = modelled[0, "leader"]
    assert full["confidence"] == pytest.approx(1 - 0.99**200)
    assert not math.isclose(full["confidence"], 1.0)


def test_the_week_has_its_shape_once_there_are_two_of_them(spark):
    office = lambda n: 3600 * (2 if n % 24 in (9, 10) and (n // 24) % 7 < 5 else 1)  # noqa: E731
    samples = [*rows(24 * 14, bytes_in=office), *rows(24 * 13, partition=1, bytes_in=office)]
    found = load_shape(spark.createDataFrame(samples, SAMPLES.schema)).collect()
    assert [row["partition"] for row in found] == [0]
    week = found[0]["bytes_in_by_hour_of_week"]
    mean = (2 * 10 + 158) / 168
    assert len(week) == 168
    assert week[9] == pytest.approx(2 / mean)
    assert week[5 * 24 + 9] == pytest.approx(1 / mean)
    assert week[0] == pytest.approx(1 / mean)
    assert found[0]["bytes_out_by_hour_of_week"] == [None] * 168
    assert found[0]["weeks"] == pytest.approx(2.0)
