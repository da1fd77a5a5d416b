"""Real brokers and clients at a controller with few connections: brokers are served, idle clients reconnect quietly."""

import asyncio
import gc
import json
import logging
import re
import subprocess
import sys
import time
import urllib.request
import uuid
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient
from yard import running_yard

from lab.testbed.ports import free_port
from lab.testbed.probes import zookeeper_get
from lab.testbed.waiting import wait_until
from shunter.app.service.controllers import Controllers
from shunter.drivers.service.controller_status import ControllersPlace

# kafka-python leaves its socket to the garbage collector when a broker dies.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

CLIENTS = 40
IDLE_MS = 1_500


@pytest.fixture(scope="module")
def metrics_port():
    return free_port()


@pytest.fixture(scope="module")
def narrow(tmp_path_factory, metrics_port):
    """A cluster whose controller accepts few clients."""
    settings = {
        "max-connections": CLIENTS,
        "connections-max-idle-ms": IDLE_MS,
        "queued-max-requests": 20,
        "metrics-port": metrics_port,
    }
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    with running_yard(tmp_path_factory.mktemp("narrow"), *options) as started:
        yield started
        # kafka-python does not close sockets that the other side has closed.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def counted(metrics_port, name, **labels):
    """A metric's value now; 0 while it has none."""
    page = urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=10).read().decode()
    told = "".join(f'{key}="{value}"' for key, value in labels.items())
    found = re.search(rf"^shunter_{name}(?:\{{{re.escape(told)}\}})? (\S+)$", page, re.MULTILINE)
    return float(found[1]) if found else 0.0


@contextmanager
def flood(port, connections):
    script = Path(__file__).with_name("flood_process.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(port), str(connections)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "flooding\n"
        yield
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def isrs(narrow, topic):
    """The ISRs, read from ZooKeeper: a tool that asks the controller would need a connection to it."""
    connect = narrow.cluster.zookeeper_connect
    states = [zookeeper_get(connect, f"/brokers/topics/{topic}/partitions/{number}/state") for number in range(2)]
    return [set(json.loads(state[0])["isr"]) for state in states if state is not None]


def test_a_service_sees_how_it_stands(narrow, metrics_port):
    """By the addresses in the policy file. The greatest lag is not shown, because it is for Prometheus."""
    url = f"http://127.0.0.1:{metrics_port}"
    (seen,) = asyncio.run(Controllers(lambda: ControllersPlace((url,)), lambda: 5).view()).controllers
    assert seen.status, seen.trouble
    epoch, _czxid = zookeeper_get(narrow.cluster.zookeeper_connect, "/controller_epoch")
    assert (seen.status.active, seen.status.broker_id, seen.status.controller_epoch) == (True, 1000, int(epoch))
    assert seen.status.told == (f"in charge: controller epoch {int(epoch)}",)
    assert (seen.status.brokers, seen.status.unreachable_brokers) == (4, 0)


def test_brokers_are_heard_while_clients_take_all_they_can_get(narrow, metrics_port):
    """ISR changes, producer ids and a controlled shutdown, while 300 connections come for 40 places."""
    topic = f"r-{uuid.uuid4().hex[:8]}"
    narrow.create(topic, (1, 2, 3), partitions=2)
    with flood(narrow.controller.port, 300):
        wait_until(
            lambda: counted(metrics_port, "connections_refused_total", reason="max.connections") > 100,
            what="clients are turned away",
            timeout_s=30,
        )
        assert counted(metrics_port, "connections", kind="client") <= CLIENTS
        narrow.cluster.brokers[3].kill()
        wait_until(lambda: isrs(narrow, topic) == [{1, 2}] * 2, what="the ISR is without 3", timeout_s=40)
        narrow.cluster.brokers[3].restart()
        wait_until(lambda: isrs(narrow, topic) == [{1, 2, 3}] * 2, what="the ISR has 3 again", timeout_s=60)
        assert counted(metrics_port, "requests_total", api="AlterPartition") > 0
        assert counted(metrics_port, "connections", kind="broker") > 0
        producer = Producer({"bootstrap.servers": narrow.bootstrap, "enable.idempotence": True})
        for number in range(100):
            producer.produce(topic, str(number).encode())
        assert producer.flush(40) == 0
        began = time.monotonic()
        narrow.cluster.brokers[2].stop(60)
        assert counted(metrics_port, "requests_total", api="ControlledShutdown") == 1
        log = (narrow.cluster.brokers[2].folder / f"{narrow.cluster.brokers[2].name}.log").read_text(errors="replace")
        assert "Controlled shutdown request returned successfully" in log, time.monotonic() - began
        wait_until(lambda: isrs(narrow, topic) == [{1, 3}] * 2, what="2 has left every ISR", timeout_s=40)
        narrow.cluster.brokers[2].restart()
        wait_until(lambda: isrs(narrow, topic) == [{1, 2, 3}] * 2, what="the ISR has 2 again", timeout_s=60)
    assert counted(metrics_port, "active") == 1


def idle_closed(metrics_port):
    return counted(metrics_port, "connections_closed_total", reason="idle")


def wait_idle_closed(metrics_port, poll=lambda: None):
    before = idle_closed(metrics_port)
    wait_until(lambda: poll() or idle_closed(metrics_port) > before, what="it is closed", timeout_s=20)


def test_an_idle_python_client_comes_back_quietly(narrow, metrics_port, caplog):
    with caplog.at_level(logging.ERROR, "kafka"):
        admin = KafkaAdminClient(bootstrap_servers=narrow.controller.address)
        for _ in range(2):
            assert admin.describe_cluster()["controller_id"] == 1000
            admin.list_partition_reassignments()
            wait_idle_closed(metrics_port)
        assert admin.describe_cluster()["controller_id"] == 1000
        admin.close()
    # kafka-python logs every connection that the other side closes, of Apache's brokers too, with what it then cancels, and
    # goes on.
    told = [record.getMessage() for record in caplog.records if record.name.startswith("kafka")]
    assert [line for line in told if "disconnected" not in line and "Cancelled" not in line] == []
