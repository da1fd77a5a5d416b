"""Shunter observes Apache's controller on real brokers: it decides the same, writes nothing, asks no broker."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka import TopicPartition as ClientPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError, UnknownTopicOrPartitionError
from kazoo.client import KazooClient

from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.probes import zookeeper_get
from lab.testbed.waiting import wait_until
from shunter.app.controller.observe import ControllerObserver, _Lines
from shunter.app.controller.settings import ControllerConfig
from shunter.drivers.brokers.observing import ReadOnlyZooKeeper
from shunter.drivers.zookeeper.requests import Create
from shunter.errors import DriverError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.brokers import encode_controller_epoch

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Observing:
    """`shunter controller --observe --json` as a process."""

    def __init__(self, connect_string):
        command = [sys.executable, "-m", "shunter", "controller", "--observe", "--zookeeper", connect_string]
        command += ["--json", "--settle", "60"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.lines = []
        self.reading = threading.Thread(target=self._read, daemon=True)
        self.reading.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def of(self, kind):
        return [line for line in list(self.lines) if line["kind"] == kind]

    def wait_agreed(self, *words, count=1):
        """Wait until so many decisions of this origin agree with Apache's."""

        def enough():
            assert self.of("difference") == []
            told = self.of("agreed")
            return sum(line["count"] for line in told if any(each in line["cause"] for each in words)) >= count

        wait_until(enough, what=f"{count} decisions by {words} are Apache's too", timeout_s=120)

    def all_alike(self):
        told = self.of("open")
        return not told or told[-1]["count"] == 0

    def peers(self):
        """Ports at the other end of this process' TCP connections."""
        folder = Path(f"/proc/{self.process.pid}")
        sockets = set()
        for each in (folder / "fd").iterdir():
            with suppress(FileNotFoundError):  # It was closed a moment ago.
                sockets.add(str(each.readlink()))
        ports = set()
        for name in ("tcp", "tcp6"):
            for line in (folder / "net" / name).read_text().splitlines()[1:]:
                words = line.split()
                if f"socket:[{words[9]}]" in sockets:
                    ports.add(int(words[2].rpartition(":")[2], 16))
        return ports

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=30)
        self.reading.join(timeout=10)
        return status, self.of("summary")[0]


@contextmanager
def observing(cluster):
    found = Observing(cluster.zookeeper_connect)
    try:
        wait_until(lambda: found.of("start"), what="it observes", timeout_s=60)
        yield found
    finally:
        found.process.kill()
        found.process.wait()
        found.reading.join(timeout=10)
        found.process.stdout.close()


@contextmanager
def apache_cluster(folder):
    properties = {
        "zookeeper.session.timeout.ms": 4000,
        "replica.lag.time.max.ms": 5000,
        "auto.leader.rebalance.enable": "false",
    }
    with ZooKeeperCluster(folder, broker_ids=(1, 2, 3), properties=properties, heap_mib=160) as cluster:
        yield cluster


@contextmanager
def admin_of(cluster):
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        yield client
    finally:
        client.close()


def asked(cluster, question, done=()):
    """Ask until an answer comes: for a while brokers name a controller that has just been stopped.

    `done` are errors that show that an earlier attempt was carried out.
    """

    def answered():
        try:
            with admin_of(cluster) as admin:
                question(admin)
        except done:
            return True
        except (KafkaError, RuntimeError):
            return False
        return True

    wait_until(answered, what="whoever the brokers name is the controller", timeout_s=90)


def create(cluster, name, replicas, partitions):
    placed = {number: list(replicas) for number in range(partitions)}
    new = NewTopic(name, -1, -1, replica_assignments=placed)
    asked(cluster, lambda admin: admin.create_topics([new]), TopicAlreadyExistsError)


def delete(cluster, name):
    asked(cluster, lambda admin: admin.delete_topics([name]), UnknownTopicOrPartitionError)


def move(cluster, name, partitions, target):
    wanted = {ClientPartition(name, each): target for each in range(partitions)}
    asked(cluster, lambda admin: admin.alter_partition_reassignments(wanted))


def assert_nothing_differs(found, cluster):
    wait_until(found.all_alike, what="no difference is open", timeout_s=120)
    assert found.peers() <= {cluster.zookeeper.port}
    status, summary = found.stop()
    assert found.of("difference") == []
    assert summary["differences"] == 0
    assert summary["agreed"] + summary["not_seen_yet"] == summary["decisions"]
    assert summary["zookeeper_writes_refused"] == 0
    assert status == 0
    return summary


def controller_of(cluster):
    found = zookeeper_get(cluster.zookeeper_connect, "/controller")
    return None if found is None else json.loads(found[0])["brokerid"]


def a_broker_that_does_not_lead(cluster):
    return next(broker for broker in cluster.brokers if broker != controller_of(cluster))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_topics_a_move_and_a_dead_broker(tmp_path):
    with apache_cluster(tmp_path) as cluster, observing(cluster) as found:
        create(cluster, "t", (1, 2), 4)
        found.wait_agreed("topic t was made", count=4)
        move(cluster, "t", 2, [3, 1])
        found.wait_agreed("in sync", "changed their ISRs", count=2)
        dead = a_broker_that_does_not_lead(cluster)
        cluster.brokers[dead].kill()
        found.wait_agreed(f"broker {dead} is gone")
        cluster.brokers[dead].start()
        delete(cluster, "t")
        found.wait_agreed("deletion of t")
        summary = assert_nothing_differs(found, cluster)
        assert summary["agreed"] >= 8
        assert summary["requests_not_sent"] > 0


def wait_all_in_sync(cluster, name, partitions):
    def in_sync():
        for number in range(partitions):
            found = zookeeper_get(cluster.zookeeper_connect, f"/brokers/topics/{name}/partitions/{number}/state")
            if found is None or len(json.loads(found[0])["isr"]) < 2:
                return False
        return True

    wait_until(in_sync, what=f"all replicas of {name} are in sync", timeout_s=120)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_rolling_restart_with_moves_and_topics_in_between(tmp_path):
    with apache_cluster(tmp_path) as cluster, observing(cluster) as found:
        create(cluster, "t", (1, 2), 4)
        create(cluster, "u", (2, 3), 4)
        found.wait_agreed("topic t was made", count=4)
        found.wait_agreed("topic u was made", count=4)
        controllers = [controller_of(cluster)]
        for broker in sorted(cluster.brokers):
            cluster.brokers[broker].stop(60)
            wait_until(lambda: controller_of(cluster) is not None, what="an Apache broker leads", timeout_s=60)
            controllers.append(controller_of(cluster))
            create(cluster, f"while-{broker}-is-down", [each for each in cluster.brokers if each != broker], 2)
            found.wait_agreed(f"topic while-{broker}-is-down was made", count=2)
            cluster.brokers[broker].start()
            for name in ("t", "u"):
                wait_all_in_sync(cluster, name, 4)
            delete(cluster, f"while-{broker}-is-down")
            found.wait_agreed(f"deletion of while-{broker}-is-down")
        assert len(set(controllers)) > 1
        move(cluster, "u", 4, [3, 1])
        found.wait_agreed("in sync", "changed their ISRs", count=4)
        summary = assert_nothing_differs(found, cluster)
        assert summary["decisions"] > 20


async def _refused_write(connect_string):
    client = ReadOnlyZooKeeper(connect_string)
    await client.start()
    try:
        with pytest.raises(DriverError, match="writes nothing"):
            await client.multi((Create("/written-by-an-observer", b""),))
        assert await client.exists("/written-by-an-observer") is None
        assert client.refused == 1
    finally:
        await client.close()


def test_an_observers_session_writes_nothing(zookeeper):
    asyncio.run(_refused_write(zookeeper.connect_string))


def test_a_migration_to_kraft_is_told_and_its_end_too(zookeeper, chroot):
    root = KazooClient(zookeeper.connect_string)
    root.start()
    place = f"{zookeeper.connect_string}{chroot}"
    kraft = b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":4}'
    apache = b'{"version":2,"brokerid":2,"timestamp":"1","kraftControllerEpoch":-1}'
    contents = {znodes.CONTROLLER: kraft, znodes.CONTROLLER_EPOCH: encode_controller_epoch(5), znodes.MIGRATION: b"{}"}
    for path, data in contents.items():
        root.create(f"{chroot}{path}", data, makepath=True)
    lines = []

    def show(line):
        lines.append(line)
        if "observing" in line:
            root.set(f"{chroot}{znodes.CONTROLLER}", apache)
            root.delete(f"{chroot}{znodes.MIGRATION}")

    observer = ControllerObserver(
        ControllerConfig(zookeeper=place, listener=["PLAINTEXT://127.0.0.1:0"], broker_id=1000),
        _Lines(show, as_json=False),
        1.0,
    )
    asyncio.run(observer.run(6.0))
    root.stop()
    root.close()
    held = "KRaft controller 3000 holds /controller, and a migration to KRaft is under way, because /migration is there"
    assert f"observing: {held}: nothing is compared; 0 brokers" in lines[0]
    assert any("KRaft has left this cluster: decisions are compared" in line for line in lines)
    assert any("broker 2 is the controller now, with epoch 5" in line for line in lines)
