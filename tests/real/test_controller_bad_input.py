"""Broken znodes, frames and requests against a controller of real brokers: each is named and affects nothing else."""

import json
import struct

import pytest
from raw_connection import RawConnection

from lab.testbed.probes import brokers_known_at
from lab.testbed.waiting import wait_until
from shunter.drivers.reassignment_rpc import alter_reassignments
from shunter.model.partition import TopicPartition
from shunter.wire.reassignments import AlteredPartition, AlteredTopic, AlterReassignmentsRequest
from shunter.wire.requests import API_VERSIONS, CREATE_TOPICS, METADATA

NOT_JSON = b"{ this is no JSON"


@pytest.fixture
def connection(yard):
    with RawConnection(yard.controller.port) as opened:
        yield opened


def log_of(yard):
    """The controller's whole log, of all its restarts."""
    return (yard.controller.folder / f"{yard.controller.name}.log").read_text(errors="replace")


def wait_named(yard, path):
    wait_until(lambda: path in log_of(yard), what=f"{path} is named in the log", timeout_s=20)


def reassign(yard, moves):
    """Send request 45 for single partitions; the answer for each: (error, message)."""
    by_topic = {}
    for tp, target in moves.items():
        by_topic.setdefault(tp.topic, []).append(AlteredPartition(tp.partition, target))
    asked = AlterReassignmentsRequest(tuple(AlteredTopic(name, tuple(parts)) for name, parts in by_topic.items()))
    answer = alter_reassignments("127.0.0.1", yard.controller.port, asked)
    return {
        TopicPartition(each.name, one.partition): (one.error.name, one.message or "")
        for each in answer.topics
        for one in each.partitions
    }


def state_path(tp):
    return f"/brokers/topics/{tp.topic}/partitions/{tp.partition}/state"


class Vandal:
    """Overwrites znodes, and puts everything back."""

    def __init__(self, zk):
        self.zk = zk
        self.before = {}

    def overwrite(self, path, data):
        if self.zk.exists(path):
            self.before.setdefault(path, self.zk.get(path)[0])
            self.zk.set(path, data)
        else:
            parent = path.rpartition("/")[0]
            if not self.zk.exists(parent):
                self.zk.create(parent)
                self.before.setdefault(parent, None)
            self.before.setdefault(path, None)
            self.zk.create(path, data)

    def mend(self, *paths):
        for path in paths or tuple(reversed(self.before)):
            before = self.before.pop(path)
            if before is not None:
                self.zk.set(path, before)
            elif self.zk.exists(path):
                self.zk.delete(path)


@pytest.fixture
def vandal(zk):
    hand = Vandal(zk)
    yield hand
    hand.mend()


@pytest.fixture
def long_session(yard):
    """A killed controller restarts before any broker is elected: Apache's would overwrite some of the broken znodes."""
    before = yard.controller.options
    restart(yard, (*before, "--set", "session-timeout-ms=40000", "--takeover", "preempt"))
    yield
    restart(yard, (*before, "--takeover", "preempt"))


def restart(yard, options):
    """Start the controller with other options; return when all brokers know it."""
    yard.controller.options = options
    yard.controller.restart()
    for broker in yard.cluster.brokers.values():
        wait_until(
            lambda port=broker.port: yard.controller.broker_id in brokers_known_at(port),
            what=f"{broker.name} knows the controller",
            timeout_s=30,
        )


@pytest.mark.usefixtures("long_session")
def test_broken_znodes_at_start_up(yard, topic, zk, vandal):
    """Each is named by its path and skipped; the partitions beside them are led, moved and written."""
    good, no_json, no_types, no_version = yard.create(topic, (1, 2, 3), partitions=4)
    lost, config = f"{topic}-lost", f"{topic}-config"
    yard.create(lost, (1, 2), partitions=1)
    (configured,) = yard.create(config, (1, 2, 3), partitions=1)
    wrong = json.loads(zk.get(state_path(no_types))[0])
    broken = {
        state_path(no_json): NOT_JSON,
        state_path(no_types): json.dumps(wrong | {"isr": "everybody"}).encode(),
        state_path(no_version): json.dumps(wrong | {"version": 99}).encode(),
        f"/brokers/topics/{lost}": NOT_JSON,
        f"/config/topics/{config}": b"[]",
        "/admin/reassign_partitions": b'{"version": 1, "partitions": 7}',
        "/admin/reassignments/" + f"{config}/0": NOT_JSON,
        "/brokers/ids/77": NOT_JSON,
    }
    for path, data in broken.items():
        vandal.overwrite(path, data)
    yard.controller.kill()
    yard.controller.start()
    wait_until(lambda: yard.moving() is not None, what="the controller is in charge", timeout_s=30)
    log = log_of(yard)
    assert [path for path in broken if path not in log] == []
    with yard.traffic([good]):
        answered = reassign(yard, dict.fromkeys((good, no_json, configured), (1, 2, 4)))
        assert answered[good] == ("NONE", "")
        assert answered[no_json][0] == "LEADER_NOT_AVAILABLE"
        assert f"leader and ISR of {no_json} can't be read" in answered[no_json][1]
        assert answered[configured][0] == "REASSIGNMENT_IN_PROGRESS"
        assert "durable record" in answered[configured][1]
        wait_until(lambda: yard.moving() == set(), what="the sound partition is moved", timeout_s=30)
    assert json.loads(zk.get(f"/brokers/topics/{topic}")[0])["partitions"]["0"] == [1, 2, 4]
    assert zk.get(state_path(no_json))[0] == NOT_JSON
    told = yard.cluster.kafka_tool(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", yard.controller.bootstrap, "--create", "--topic", lost, "--partitions", "1"),
    )
    assert "already exists, but its znode can't be read" in told.stdout + told.stderr
    vandal.mend()
    wait_until(lambda: reassign(yard, {no_json: (1, 2, 4)})[no_json][0] == "NONE", what="it is mended", timeout_s=30)
    wait_until(lambda: lost in leaders(yard, lost), what="the topic is back", timeout_s=20)
    wait_until(lambda: yard.moving() == set(), what="the mended partition is moved", timeout_s=30)


def leaders(yard, name):
    with RawConnection(yard.controller.port) as connection:
        response = connection.ask(METADATA, 1, {"topics": [{"name": name}]})
    return {each.name: [one.leader_id for one in each.partitions] for each in response.topics if not each.error_code}


def test_broken_znodes_while_running(yard, topic, zk, vandal):
    """A partition with a broken state znode is not moved until the znode is repaired, nor overwritten. Others move."""
    sound, broken = yard.create(topic, (4, 1, 2), partitions=2)
    epoch = zk.get("/controller_epoch")[0]
    vandal.overwrite("/admin/reassign_partitions", NOT_JSON)
    vandal.overwrite(state_path(broken), NOT_JSON)
    vandal.overwrite(f"/brokers/topics/{topic}-strange", b'{"version": 3, "partitions": {"zero": [1]}}')
    wait_named(yard, "/admin/reassign_partitions")
    wait_named(yard, f"/brokers/topics/{topic}-strange")
    answered = reassign(yard, {sound: (4, 1, 3), broken: (4, 1, 3)})
    assert answered[sound] == ("NONE", "")
    assert answered[broken][0] == "LEADER_NOT_AVAILABLE"
    assert state_path(broken) in log_of(yard)
    assert zk.get(state_path(broken))[0] == NOT_JSON
    wait_until(lambda: yard.moving() == set(), what="the sound partition is moved", timeout_s=30)
    vandal.mend()
    wait_until(lambda: reassign(yard, {broken: (4, 1, 3)})[broken][0] == "NONE", what="it is mended", timeout_s=30)
    wait_until(lambda: yard.moving() == set(), what="the mended partition is moved", timeout_s=30)
    assert zk.get("/controller_epoch")[0] == epoch, "nothing of this cost an election"


def test_an_unknown_api_version_is_answered_as_kafka_does(yard, connection):
    """ApiVersions is answered in version 0 with error 35, so that clients go on; others with error 35 or a close."""
    for port in (yard.controller.port, yard.cluster.brokers[1].port):
        with RawConnection(port) as other:
            other.send(struct.pack(">ihhihb", 11, API_VERSIONS, 99, 9, -1, 0))
            correlation_id, error = struct.unpack_from(">ih", other.answer())
            assert (correlation_id, error) == (9, 35)
        with RawConnection(port) as other:
            other.send(struct.pack(">ihhihb", 11, CREATE_TOPICS, 99, 9, -1, 0))
            assert closed_or_unsupported(other.answer())
    assert connection.ask(API_VERSIONS, 0, {}).error_code == 0


def closed_or_unsupported(answer):
    return answer is None or struct.pack(">h", 35) in answer


def test_reassignments_refuse_each_partition_for_itself(yard, topic):
    good, unknown, ours, repeated, negative = yard.create(topic, (1, 2), partitions=5)
    us = yard.controller.broker_id
    targets = {good: (1, 3), unknown: (1, 77), ours: (us, 1), repeated: (3, 3), negative: (1, -4)}
    absent = {TopicPartition(topic, 99): (1, 2), TopicPartition(f"{topic}-absent", 0): (1, 2)}
    told = reassign(yard, targets | absent)
    assert told.pop(good) == ("NONE", "")
    assert {told[tp][0] for tp in absent} == {"UNKNOWN_TOPIC_OR_PARTITION"}
    assert {told[tp][0] for tp in (unknown, ours, repeated, negative)} == {"INVALID_REPLICA_ASSIGNMENT"}
    for tp, (_, message) in told.items():
        assert message == "The partition does not exist." if tp in absent else str(tp) in message
    wait_until(lambda: yard.moving() == set(), what="the good one is done", timeout_s=30)
