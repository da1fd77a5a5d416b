"""A controller's metrics: what is collected, how Prometheus reads it, and the page that serves it."""

import asyncio
import time
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from shunter.app.controller.kafka_metrics import EVENTS
from shunter.app.controller.metric_rows import ControllerParts
from shunter.app.controller.metrics import PrometheusPage
from shunter.app.controller.process import ControllerProcess
from shunter.app.controller.settings import load_controller_config
from shunter.core.controller.events import Elected, Event
from shunter.core.controller.ready import ConnectBrokers, SendStopReplica
from shunter.core.controller.state import TopicState
from shunter.drivers.election.loop_stats import NEVER, Durations, together
from shunter.drivers.host.loop_lag import INTERVAL_SECONDS, LoopLag
from shunter.drivers.host.metrics_endpoint import MetricsEndpoint
from shunter.errors import InvariantViolation
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import LeaderAndIsr, PartitionState, ReplicaAssignment, TopicPartition
from shunter.views.controller_status import decode_status
from shunter.wire.versions import UPDATE_METADATA


def process(**given: object) -> ControllerProcess:
    told = {"zookeeper": "nowhere:1", "listener": ["PLAINTEXT://127.0.0.1:0"], "broker_id": 1000, **given}
    return ControllerProcess(load_controller_config(None, told))


def collected(of: ControllerProcess) -> ControllerParts:
    return ControllerParts(of.machine, of.loop, of.channels, of.lag, of.server)


def samples(page: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_the_page_tells_what_was_counted() -> None:
    ours = process()
    ours.channels.stats.written(UPDATE_METADATA, 1_234)
    ours.channels.stats.written(UPDATE_METADATA, 6)
    ours.channels.stats.answered(UPDATE_METADATA)
    ours.channels.stats.encode_seconds = 0.25
    ours.loop.stats.handled("BrokersRead", 0.5)
    ours.loop.stats.written(7, 0.125)
    ours.loop.post(Elected(3, 3))
    kind, page = PrometheusPage(lambda: collected(ours)).render()
    assert kind.startswith("text/plain")
    found = samples(page)
    api = (("api", "UpdateMetadata"),)
    assert found["shunter_control_requests_total", api] == 2
    assert found["shunter_control_request_bytes_total", api] == 1_240
    assert found["shunter_control_answers_total", api] == 1
    assert found["shunter_control_requests_total", (("api", "LeaderAndIsr"),)] == 0
    assert found["shunter_encode_seconds_total", ()] == 0.25
    assert found["shunter_events_total", (("event", "BrokersRead"),)] == 1
    assert found["shunter_event_handling_longest_seconds", ()] == 0.5
    assert found["shunter_written_records_total", ()] == 7
    assert found["shunter_events_waiting", ()] == 1
    assert found["shunter_events_oldest_seconds", ()] >= 0
    assert found["shunter_active", ()] == 0


def kafka(name: str, **labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return f"kafka_controller_{name}", tuple(sorted(labels.items()))


async def test_kafkas_names_tell_the_same_cluster() -> None:
    ours = process()
    ours.machine.state.active = True
    ours.machine.state.brokers = {
        id_: Broker(id_, 1, (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 1),)) for id_ in (1, 1000)
    }
    led = PartitionState(ReplicaAssignment((1, 2)), LeaderAndIsr(1, 0, (1,), 0))
    dead = PartitionState(ReplicaAssignment((2, 1)), LeaderAndIsr(2, 0, (2,), 0))
    ours.machine.state.topics["t"] = TopicState("t", None, 0, dict.fromkeys(range(5_000), led) | {5_000: dead})
    ours.machine.intake.deletions.remaining["gone"] = {(TopicPartition("gone", 0), 2)}
    for seconds in (0.25, 0.75):
        ours.loop.stats.handled("BrokersRead", seconds)
    ours.loop.stats.noticed("unclean-election")
    port = await ours.metrics.start(0)
    found = samples((await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")).partition(b"\r\n\r\n")[2])
    expected = {
        "activecontrollercount": 1,
        "offlinepartitionscount": 1,
        "preferredreplicaimbalancecount": 0,
        "globaltopiccount": 1,
        "globalpartitioncount": 5_001,
        "topicstodeletecount": 1,
        "replicastodeletecount": 1,
        "topicsineligibletodeletecount": 1,
        "replicasineligibletodeletecount": 1,
        "activebrokercount": 1,
        "fencedbrokercount": 0,
    }
    assert {name: found[kafka(f"kafkacontroller_{name}")] for name in expected} == expected
    assert found[kafka("controllerstats_leaderelectionrateandtimems_count")] == 2
    assert found[kafka("controllerstats_leaderelectionrateandtimems", quantile="0.99")] == 750
    assert found[kafka("controllerstats_leaderelectionrateandtimems", quantile="0.50")] == 750
    assert found[kafka("controllerstats_isrchangerateandtimems_count")] == 0
    assert found[kafka("controllerstats_uncleanleaderelections_total")] == 1
    assert found[kafka("controllereventmanager_eventqueuesize")] == 0
    assert found[kafka("controllerchannelmanager_totalqueuesize")] == 0
    ours.machine.state.active = False
    ours.loop.stats.handled("SessionExpired", 0.1)
    found = samples((await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")).partition(b"\r\n\r\n")[2])
    assert {found[kafka(f"kafkacontroller_{name}")] for name in expected} == {0}
    await ours.metrics.close()


TOLD_BY_A_BROKER = {
    "controllerchannelmanager": "queuesize totalqueuesize requestrateandqueuetimems",
    "controllereventmanager": "eventqueuesize eventqueuetimems",
    "controllerstats": "uncleanleaderelections_total autoleaderbalance controlledshutdown controllerchange "
    "controllershutdown isrchange leaderandisrresponsereceived leaderelection listpartitionreassignment logdirchange "
    "manualleaderbalance partitionreassignment topicchange topicdeletion topicuncleanleaderelectionenable "
    "uncleanleaderelectionenable updatefeatures",
    "kafkacontroller": "activebrokercount activecontrollercount controllerstate fencedbrokercount globalpartitioncount "
    "globaltopiccount offlinepartitionscount preferredreplicaimbalancecount replicasineligibletodeletecount "
    "replicastodeletecount topicsineligibletodeletecount topicstodeletecount zkmigrationstate",
}
"""Every `kafka_controller_…` of a broker of Kafka 3.9.1 that is the controller, with jmx_prometheus_javaagent 0.20.0 and the
rules of `example_configs/kafka-2_0_0.yml`, scraped on 2026-11-23. Timers have `_count` and six quantiles each."""
COUNTED_ALONE = {"autoleaderbalance", "listpartitionreassignment", "updatefeatures"}
"""Timers whose quantiles we don't have: docs/controller.md says so."""
QUANTILES = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")


def wanted_by_dashboards() -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    wanted = set()
    for kind, names in TOLD_BY_A_BROKER.items():
        for name in names.split():
            timed = kind == "controllerstats" and not name.endswith("_total")
            full = f"{kind}_{name}rateandtimems" if timed else f"{kind}_{name}"
            by_broker = {"broker_id": "7"} if name in {"queuesize", "requestrateandqueuetimems"} else {}
            if not timed and not name.endswith("timems"):
                wanted.add(kafka(full, **by_broker))
                continue
            wanted.add(kafka(f"{full}_count", **by_broker))
            if name not in COUNTED_ALONE:
                wanted |= {kafka(full, quantile=quantile, **by_broker) for quantile in QUANTILES}
    return wanted


async def test_whatever_a_broker_tells_by_the_jmx_exporter_we_tell_by_the_same_name(free_port: int) -> None:
    ours = process()
    nobody = Broker(7, 1, (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", free_port),))
    ours.channels.send(ConnectBrokers((nobody,)))
    found = samples(PrometheusPage(lambda: collected(ours)).render()[1])
    assert sorted(wanted_by_dashboards() - found.keys()) == []
    assert found[kafka("kafkacontroller_zkmigrationstate")] == 4
    await ours.channels.close()


def test_every_event_that_kafkas_metrics_are_made_of_is_one_of_ours() -> None:
    known = {kind.__name__ for kind in get_args(Event)}
    assert {event for ours in EVENTS.values() for event in ours} <= known


def test_quantiles_are_of_what_was_measured() -> None:
    durations = Durations()
    for seconds in (4.0, 1.0, 3.0, 2.0):
        durations.add(seconds)
    assert [durations.quantile(share) for share in (0.0, 0.5, 0.75, 0.999)] == [1.0, 3.0, 4.0, 4.0]
    assert NEVER.quantile(0.5) == 0.0
    assert together([durations, durations]).count == 8
    assert NEVER.count == 0


async def test_queues_are_told_by_broker(free_port: int) -> None:
    ours = process()
    nobody = Broker(7, 1, (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", free_port),))
    ours.channels.send(ConnectBrokers((nobody,)))
    ours.channels.send(SendStopReplica(1, 7, 1, 1, ()))
    found = samples(PrometheusPage(lambda: collected(ours)).render()[1])
    label = (("broker", "7"),)
    assert found["shunter_broker_queue", label] == 1
    assert found["shunter_broker_connected", label] == 0
    assert found["shunter_broker_oldest_seconds", label] >= 0
    assert found[kafka("controllerchannelmanager_queuesize", broker_id="7")] == 1
    assert found[kafka("controllerchannelmanager_requestrateandqueuetimems_count", broker_id="7")] == 0
    await ours.channels.close()


async def test_a_controller_says_how_it_stands_in_a_few_figures() -> None:
    ours = process()
    port = await ours.metrics.start(0)
    try:
        answer = await ask(port, b"GET /status HTTP/1.1\r\n\r\n")
    finally:
        await ours.metrics.close()
    status = decode_status(answer.partition(b"\r\n\r\n")[2], "here")
    assert (status.broker_id, status.active, status.ready, status.told) == (1000, False, False, ("starting",))
    assert (status.controller_epoch, status.moves, status.events_waiting) == (0, {}, 0)


async def test_the_endpoint_serves_its_pages_and_refuses_the_rest() -> None:
    states = [(True, ("in charge",)), (False, ("no connection to ZooKeeper", "another"))]
    failures: list[BaseException | None] = [InvariantViolation("a long-lived task ended by itself"), None]
    endpoint = MetricsEndpoint(lambda: ("text/plain", b"shunter_active 0\n"), states.pop, failure=failures.pop)
    port = await endpoint.start(0)
    try:
        answer = await ask(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\nshunter_active 0\n")
        answer = await ask(port, b"GET /ready HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert answer.endswith(b"\r\n\r\nno connection to ZooKeeper\nanother\n")
        assert (await ask(port, b"GET /ready HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert (await ask(port, b"GET /health HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\nalive\n")
        answer = await ask(port, b"GET /health HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"a long-lived task ended by itself" in answer
        assert (await ask(port, b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404")
        assert (await ask(port, b"POST /metrics HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405")
        assert await ask(port, b"x" * 20_000 + b"\r\n\r\n") == b""
    finally:
        await endpoint.close()
    with pytest.raises(OSError):
        await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")


async def test_a_blocked_loop_is_seen() -> None:
    lag = LoopLag()
    lag.start()
    held = 8 * INTERVAL_SECONDS
    until = time.monotonic() + held
    while time.monotonic() < until:
        pass
    for _ in range(1_000):
        await asyncio.sleep(0)
        if lag.longest_s:
            break
    lag.stop()
    assert lag.longest_s >= held / 2
    assert lag.lately_s == lag.lately_s == lag.longest_s, "whoever asks takes nothing away from others"
    assert lag.take_worst() == lag.longest_s
    assert lag.take_worst() == 0.0


async def test_reloading_changes_what_the_core_decides_by_and_leaves_what_is_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours = process(control_request_epoch="per-broker")
    given = {"zookeeper": "elsewhere:1", "listener": ["PLAINTEXT://127.0.0.1:0"], "broker_id": 1000}
    ours.reload(load_controller_config(None, {**given, "control_request_epoch": "max"}))
    assert ours.config.control_request_epoch == "max"
    assert ours.config.zookeeper == "nowhere:1"
    assert "count only from the next start" in caplog.text
    assert "zookeeper" in caplog.text
    assert ours.loop.waiting() == 1


async def test_a_process_of_which_a_task_has_ended_is_not_ready() -> None:
    ours = process()
    assert ours.readiness().lines == ("starting",)

    async def broken() -> None:
        raise KeyError("orders")

    task = asyncio.create_task(broken(), name="worker")
    ours.supervisor.watch(task)
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0)
    assert not ours.readiness().ready
    assert ours.readiness().lines[0].startswith("a task has ended, and the process ends: a long-lived task ended")
