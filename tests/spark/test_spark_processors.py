"""Processors, from Prometheus' series of brokers and machines to an aim of the plan."""

import json
import random

import pytest
from pyspark.sql import functions as F
from test_spark_exact_plans import ANY_AGE, T0, save

from shunter.app.pipeline.stages import FleetPlanOptions, Inputs, ingest, model_lake, plan
from shunter.formats.series_labels import SeriesLabels
from shunter.model.inventory import Inventory, InventoryBroker, InventoryPartition
from shunter.pipeline.ingest.broker_check import broker_loads
from shunter.pipeline.lake.account_schemas import PLAN_LOADS
from shunter.pipeline.lake.outlook_schemas import PROCESSOR_MODEL
from shunter.pipeline.lake.schemas import BROKER_SAMPLES, SAMPLES
from shunter.pipeline.sources.prometheus_brokers import prometheus_brokers

pytestmark = pytest.mark.spark

MINUTES = 80
PROCESSORS = {1: 8, 2: 8, 3: 16}
MEAN = sum(PROCESSORS.values()) / 3
IDLING, RECEIVED, LED, SENT = 0.02, 0.002, 0.001, 0.0005
"""Costs in average brokers: idling, then for each MB/s."""
MB = 10**6
TOTAL = "kafka_server_brokertopicmetrics"


def load(seed=1):
    """From (broker, minute) to the MB/s that producers write to it and consumers read from it."""
    drawn = random.Random(seed)
    return {(b, m): (drawn.randrange(10, 60), drawn.randrange(0, 120)) for b in PROCESSORS for m in range(MINUTES)}


def before(broker):
    """The brokers whose partitions each broker follows."""
    return (broker - 2) % 3 + 1


def busy(rates, broker, minute):
    (led, read), followed = rates[broker, minute], rates[before(broker), minute][0]
    work = IDLING + RECEIVED * (led + followed) + LED * led + SENT * (read + led)
    return work / (PROCESSORS[broker] / MEAN)


def counter(name, broker, amounts, *, port=7071, **labels):
    """A counter that grows by an amount each minute."""
    at, values = 10**9, [[T0, str(10**9)]]
    for minute, amount in enumerate(amounts):
        at += amount
        values.append([T0 + 60 * (minute + 1), repr(at)])
    return {"metric": {"__name__": name, "instance": f"kafka{broker}:{port}", **labels}, "values": values}


def answers(rates):
    """Brokers 1 and 2 report their processes, broker 3 its machine. Each exporter also reports its own process."""
    for broker, count in PROCESSORS.items():
        minutes = range(MINUTES)
        led = [60 * MB * rates[broker, m][0] for m in minutes]
        read = [60 * MB * rates[broker, m][1] for m in minutes]
        followed = [60 * MB * rates[before(broker), m][0] for m in minutes]
        for labels in ({}, {"topic": "t"}):
            yield counter(f"{TOTAL}_bytesin_total", broker, led, **labels)
            yield counter(f"{TOTAL}_bytesout_total", broker, read, **labels)
        yield counter(f"{TOTAL}_replicationbytesin_total", broker, followed)
        yield counter(f"{TOTAL}_replicationbytesout_total", broker, led)
        for number in range(6):
            if number % 3 + 1 in (broker, before(broker)):
                leads = number % 3 + 1 == broker
                for name, value in (
                    ("kafka_log_log_size", 5),
                    ("kafka_cluster_partition_insyncreplicascount", 2 * leads),
                ):
                    labels = {"topic": "t", "partition": str(number)}
                    values = [[T0 + 60 * m, str(value)] for m in range(MINUTES + 1)]
                    yield {"metric": {"__name__": name, "instance": f"kafka{broker}:7071", **labels}, "values": values}
        used = [60 * count * busy(rates, broker, m) for m in minutes]
        if broker < 3:
            yield counter("process_cpu_seconds_total", broker, used)
            yield {
                "metric": {
                    "__name__": "java_lang_OperatingSystem_AvailableProcessors",
                    "instance": f"kafka{broker}:7071",
                },
                "values": [[T0 + 60 * m, str(count)] for m in range(MINUTES + 1)],
            }
        else:
            idle = [(60 * 16 - one) / 16 for one in used]
            for processor in range(16):
                yield counter("node_cpu_seconds_total", broker, idle, port=9100, cpu=str(processor), mode="idle")
            yield counter("node_cpu_seconds_total", broker, used, port=9100, cpu="0", mode="user")
        yield counter("process_cpu_seconds_total", broker, [1.0] * MINUTES, port=9100)
    yield counter("process_cpu_seconds_total", 77, [1.0] * MINUTES)


def write(path, rates):
    document = {"status": "success", "data": {"resultType": "matrix", "result": list(answers(rates))}}
    path.write_text(json.dumps(document))
    return str(path)


OF_BROKERS = SeriesLabels(tuple((f"kafka{broker}:{port}", broker) for broker in PROCESSORS for port in (7071, 9100)))


def test_prometheus_tells_of_brokers_as_a_whole(spark, tmp_path):
    rates = load()
    told = prometheus_brokers(spark, [write(tmp_path / "a.json", rates)], cluster="yard", labels=OF_BROKERS).collect()
    assert len(told) == 3 * MINUTES
    for row in told:
        broker, minute = row["broker_id"], (int(row["window_start"].timestamp()) - T0) // 60
        assert row["cpu"] == pytest.approx(busy(rates, broker, minute), rel=1e-6)
        assert (row["processors"], row["bytes_in_rate"]) == (PROCESSORS[broker], MB * rates[broker, minute][0])
        assert row["replication_bytes_in_rate"] == MB * rates[before(broker), minute][0]
        assert (row["window_seconds"], row["handler_idle"]) == (60, None)


@pytest.mark.long
def test_processors_by_prometheus_are_explained_and_balanced(spark, lake, tmp_path):
    rates = load()
    inputs = Inputs((write(tmp_path / "a.json", rates),), "prometheus", "yard", OF_BROKERS)
    brought = ingest(spark, lake, inputs)
    assert (brought.good, brought.rejected, brought.broker_rows) == (12 * MINUTES, 0, 3 * MINUTES)
    assert ingest(spark, lake, inputs).ingest_id is None
    (one, *_) = broker_loads(lake.read(spark, BROKER_SAMPLES), lake.read(spark, SAMPLES)).orderBy("broker_id").collect()
    assert (one["compared_windows"], one["size_bytes"]) == (MINUTES, None)
    assert one["explained_bytes_in"] == pytest.approx(1.0)

    brokers = tuple(InventoryBroker(broker, "h", "r", 10**13, 10**12) for broker in PROCESSORS)
    partitions = tuple(
        InventoryPartition("t", "id-t", n, (n % 3 + 1, (n + 1) % 3 + 1), (1, 2, 3), n % 3 + 1, 0, 1, 1, ((n % 3 + 1, 5),))
        for n in range(6)
    )  # fmt: skip
    taken = Inventory("yard", (T0 + 60) * 1000, brokers, partitions)
    ingest(spark, lake, Inputs((save(tmp_path / "s" / "1.jsonl", taken),), "snapshots"))
    (explained,) = model_lake(spark, lake).processors
    assert (explained.cluster_id, explained.brokers, explained.usable) == ("yard", 3, True)
    assert explained.error < 0.01
    rows = lake.read(spark, PROCESSOR_MODEL).orderBy("broker_id").collect()
    assert [row["power"] for row in rows] == pytest.approx([count / MEAN for count in PROCESSORS.values()], rel=1e-3)
    costs = [rows[0][name] for name in ("idling", "received_cost", "led_cost", "sent_cost")]
    assert costs == pytest.approx([IDLING, RECEIVED, LED, SENT], rel=0.02)
    assert [row["modelled_mean"] for row in rows] == pytest.approx([row["cpu_mean"] for row in rows], rel=1e-3)

    plan_id, (outcome,) = plan(
        spark, lake, FleetPlanOptions(peak="mean", snapshot_age=ANY_AGE, aims=("processors",)), None
    )
    assert outcome.status == "planned", outcome.message
    of_plan = lake.read(spark, PLAN_LOADS).where((F.col("plan_id") == plan_id) & (F.col("resource") == "processors"))
    work = {row["broker"]: (row["before"], row["after"]) for row in of_plan.collect()}
    for broker, count in PROCESSORS.items():
        mean = sum(busy(rates, broker, m) for m in range(MINUTES)) / MINUTES
        assert work[broker][0] == pytest.approx(mean * count / MEAN - IDLING, rel=0.02)
    # The machine with twice the processors takes more than each of the others.
    assert work[3][1] > 1.3 * max(work[1][1], work[2][1])
