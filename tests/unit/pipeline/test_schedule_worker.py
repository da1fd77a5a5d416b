"""Schedules: the duration of a plan, the basis of that figure, and what-if scenarios."""

from dataclasses import replace

import pyarrow as pa
import pytest

from shunter.pipeline.planning.schedule_worker import STRETCHES, Scenario, ScheduleOptions, schedule_cluster


def table(*rows):
    names = ("topic", "partition", "source", "other", "target", "bytes", "growth", "traffic_in", "traffic_out")
    kinds = [pa.string(), *[pa.int32()] * 4, *[pa.float64()] * 4]
    columns = {name: pa.array([row[at] for row in rows], kinds[at]) for at, name in enumerate(names)}
    return pa.table({"cluster_id": ["c1"] * len(rows), "plan_id": ["p1"] * len(rows), **columns})


def test_one_copy_at_a_throttle():
    (row,) = schedule_cluster(table(("t", 0, 1, 2, 3, 1000.0, 0.0, None, None)), ScheduleOptions(rate=10.0))
    assert (row["scenario"], row["seconds_low"], row["seconds"], row["seconds_high"]) == (
        "as planned",
        100.0,
        100.0,
        200.0,
    )
    assert row["rests_on"] == "a throttle of 10 bytes/s"
    assert row["moves"] == [
        {"topic": "t", "partition": 0, "source": 1, "target": 3, "bytes": 1000.0, "start": 0.0, "end": 100.0}
    ]
    sends = [load for load in row["loads"] if load["broker"] == 1]
    assert len(sends) == STRETCHES
    assert sum((load["end"] - load["start"]) * load["sends"] for load in sends) == pytest.approx(1000)
    assert all(load["receives"] == 0 for load in sends)


def test_growth_traffic_and_a_lost_broker():
    moves = table(
        ("t", 0, 1, 2, 3, 1000.0, 2.0, 40.0, 60.0),
        ("t", 1, 2, 1, 4, 100.0, 0.0, 0.0, 0.0),
    )
    options = ScheduleOptions(
        rate=30.0,
        capacity=70.0,
        scenarios=(Scenario(), Scenario(traffic=1.1), Scenario(traffic=1.5), Scenario(lost=3), Scenario(lost=1)),
    )
    rows = {row["scenario"]: row for row in schedule_cluster(moves, options)}
    assert rows["as planned"]["seconds"] == pytest.approx(1000 / (10 - 2))
    assert rows["traffic x 1.1"]["seconds"] == pytest.approx(1000 / (4 - 2.2))
    assert rows["traffic x 1.5"]["warning"].startswith("no schedule: bandwidth sent")
    assert rows["without broker 3"]["warning"] == "1 copy waits until broker 3 is back"
    assert rows["without broker 3"]["seconds"] == pytest.approx(100 / 30)
    assert [move["source"] for move in rows["without broker 1"]["moves"]] == [2, 2]


def test_what_never_ends_is_told():
    (row,) = schedule_cluster(table(("t", 7, 1, 2, 3, 1000.0, 20.0, None, None)), ScheduleOptions(rate=10.0))
    assert row["warning"] == "t-7 grows faster than it is copied: raise the rate"
    assert row.get("seconds") is None
    assert row["moves"][0]["end"] is None


def test_nothing_left_to_copy_takes_no_time():
    options = ScheduleOptions(rate=10.0, scenarios=(Scenario(lost=3),))
    (row,) = schedule_cluster(table(("t", 0, 1, 2, 3, 1000.0, 0.0, None, None)), options)
    assert (row["seconds"], row["rate"], row["moves"], row["loads"]) == (0.0, 10.0, [], [])


def test_what_was_learnt_decides_rate_and_interval():
    options = ScheduleOptions(
        learnt_rates=(("c1", 1, 20.0), ("c1", 3, 50.0), ("c2", 1, 1.0)), past_ratios=(1.5, 1.5, 1.5)
    )
    (row,) = schedule_cluster(table(("t", 0, 1, 2, 3, 1000.0, 0.0, None, None)), options)
    assert (row["seconds_low"], row["seconds"], row["seconds_high"]) == (75.0, 75.0, 75.0)
    assert row["rests_on"] == "rates of past moves"


def test_moves_begin_in_a_quiet_hour_and_it_is_said_what_it_costs_not_to_wait():
    busy = [90.0 if 8 <= hour % 24 < 20 else 10.0 for hour in range(168)]
    moves = table(("t", 0, 1, 2, 3, 72_000.0, 0.0, None, None))
    options = ScheduleOptions(rate=10.0, weeks={("c1", 1): (busy, busy), ("c1", 3): ([0.0] * 168, [0.0] * 168)}, hour=9)
    (row,) = schedule_cluster(moves, options)
    assert (row["quiet_in_hours"], row["quiet_share"], row["now_share"]) == (11, pytest.approx(0.2), pytest.approx(1.0))
    (row,) = schedule_cluster(moves, replace(options, capacity=125.0))
    assert (row["quiet_in_hours"], row["quiet_share"], row["now_share"]) == (
        11,
        pytest.approx(0.16),
        pytest.approx(0.8),
    )
    assert row["quiet"] == (
        "begun in 11 h (Monday 20:00 UTC) broker 1 sends 16% of its capacity on Monday 20:00 UTC at most; "
        "begun now broker 1 sends 80% of its capacity on Monday 09:00 UTC"
    )
    (row,) = schedule_cluster(moves, replace(options, capacity=125.0, hour=21))
    assert row["quiet"].startswith("no hour is quieter than this one: broker 1 sends 16% of its capacity")
    (row,) = schedule_cluster(moves, replace(options, weeks={("c2", 1): (busy, busy)}))
    assert "quiet" not in row
