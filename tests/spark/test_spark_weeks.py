"""A broker's week, compared with one that is counted by hand: two partitions that are busy at different hours."""

from datetime import datetime

import pytest
from test_spark_outlook import frame

from shunter.pipeline.lake.outlook_schemas import BROKER_WEEKS
from shunter.pipeline.lake.schemas import BROKERS, LOAD_MODEL, REPLICAS, SHAPES
from shunter.pipeline.load.weeks import at_busiest_hours, broker_weeks, partition_weeks
from shunter.pipeline.planning.fleet import WEEK, fleet_rows

pytestmark = pytest.mark.spark

NOON, NIGHT = 12, 24 + 3


def shape(hour):
    """Ten times as much in one hour as in the others; one hour was never measured."""
    ratios = [0.9] * 168
    ratios[hour], ratios[100] = 9.0, None
    return ratios


def test_the_peak_of_the_sum(spark):
    names = {"cluster_id": "yard", "topic_id": "id-t", "topic": "t", "schema_version": 1}
    taken = datetime(2025, 2, 1)

    def modelled(partition, broker, role, **rates):
        stands = {"partition": partition, "broker_id": broker, "role": role, "windows": 9, "last_window": taken}
        return names | stands | {"basis": "rates", "size_bytes": 5} | rates

    model = [
        modelled(0, 1, "leader", bytes_in_mean=10.0, bytes_in_p95=80.0, bytes_out_mean=20.0, bytes_out_p95=170.0),
        modelled(0, 2, "follower", bytes_in_mean=10.0, bytes_in_p95=80.0),
        modelled(1, 1, "leader", bytes_in_mean=10.0, bytes_in_p95=80.0),
        # This partition has no week, and no consumer read it.
        modelled(2, 2, "unknown", bytes_in_mean=1.0, bytes_in_p95=2.0),
    ]
    shapes = [
        names | {"partition": number, "broker_id": 1, "role": "leader", "bytes_in_by_hour_of_week": shape(hour), "bytes_out_by_hour_of_week": shape(hour) if number == 0 else None}
        for number, hour in ((0, NOON), (1, NIGHT))
    ]  # fmt: skip
    places = [(0, 1, 0), (0, 2, 1), (1, 1, 0), (2, 2, 0), (3, 2, 0)]
    replicas = [
        {"cluster_id": "yard", "taken_at": taken, "topic_id": "id-t", "topic": "t", "partition": number, "broker_id": broker, "position": place, "is_leader": place == 0, "in_sync": True, "size_bytes": 5}
        for number, broker, place in places
    ]  # fmt: skip
    model, shapes, replicas = (
        frame(spark, LOAD_MODEL, model),
        frame(spark, SHAPES, shapes),
        frame(spark, REPLICAS, replicas),
    )
    found = {row["broker_id"]: row for row in broker_weeks(partition_weeks(model, shapes), replicas).collect()}
    one, two = found[1], found[2]
    assert (one["receives"][NOON], one["receives"][NIGHT], one["receives"][0], one["receives"][100]) == (99, 99, 18, 20)
    # No hour has 80 + 80.
    assert (one["receives_peak"], one["receives_p95"]) == (99, 160)
    # The bytes that consumers read from partition 0, and those that its follower copies.
    assert (one["sends_peak"], one["sends_at"], one["sends_p95"]) == (180 + 90, NOON, 170 + 80)
    assert (two["receives_peak"], two["receives_at"], two["sends_peak"]) == (90 + 2, NOON, 0)

    weeks = frame(spark, BROKER_WEEKS, [row.asDict() for row in (one, two)])
    brokers = frame(
        spark, BROKERS, [{"cluster_id": "yard", "taken_at": taken, "broker_id": broker} for broker in (1, 2)]
    )
    at_noon = at_busiest_hours(model, shapes, weeks)
    assert at_noon.count() == 4
    rows = fleet_rows(at_noon, brokers, replicas, peak=WEEK).where("topic IS NOT NULL").orderBy("number").collect()
    assert [(row["bytes_in"], row["bytes_out"]) for row in rows] == [(90, 180), (9, None), (2, None), (None, None)]
