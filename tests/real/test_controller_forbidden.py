"""ZooKeeper denies writes to two znodes of a topic in a busy cluster: work that needs them waits, the rest goes on."""

import json
import uuid

import pytest
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from lab.testbed.waiting import wait_until
from shunter.drivers.reassignment_rpc import alter_reassignments
from shunter.wire.reassignments import AlteredPartition, AlteredTopic, AlterReassignmentsRequest

# kafka-python leaves its socket to the garbage collector when a broker dies.
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

MAY_BE_READ = [make_digest_acl("owner", "secret", all=True), make_acl("world", "anyone", read=True)]


@pytest.fixture
def owner(yard):
    client = KazooClient(yard.cluster.zookeeper_connect, auth_data=[("digest", "owner:secret")])
    client.start()
    yield client
    client.stop()
    client.close()


def state_path(tp):
    return f"/brokers/topics/{tp.topic}/partitions/{tp.partition}/state"


def leader(client, tp):
    return json.loads(client.get(state_path(tp))[0])["leader"]


def reassign(yard, moves):
    """Send one request 45 for all of them; the answer for each: (error, message)."""
    topics = [
        AlteredTopic(name, tuple(AlteredPartition(tp.partition, to) for tp, to in moves.items() if tp.topic == name))
        for name in sorted({tp.topic for tp in moves})
    ]
    answer = alter_reassignments("127.0.0.1", yard.controller.port, AlterReassignmentsRequest(tuple(topics)))
    return {
        f"{topic.name}-{one.partition}": (one.error.name, one.message or "")
        for topic in answer.topics
        for one in topic.partitions
    }


def test_a_topic_whose_znodes_may_not_be_written_holds_up_nobody(yard, owner):
    """A move and a broker's death need these znodes. Once the ACL is restored, the controller does the waiting work."""
    name = uuid.uuid4().hex[:8]
    open_ones = yard.create(f"open-{name}", (4, 2, 3))
    closed, beside = yard.create(f"closed-{name}", (1, 2, 3), partitions=2)
    forbidden = [f"/brokers/topics/{closed.topic}", state_path(closed)]
    broker = yard.cluster.brokers[1]
    try:
        for path in forbidden:
            owner.set_acls(path, MAY_BE_READ)
        with yard.traffic(open_ones):
            told = reassign(yard, {**dict.fromkeys(open_ones, (1, 2, 3)), closed: (4, 2, 3)})
            assert {told[str(tp)] for tp in open_ones} == {("NONE", "")}
            error, message = told[str(closed)]
            assert error == "UNKNOWN_SERVER_ERROR"
            assert f"{forbidden[0]} with code -102 (its ACL does not let us): see that Shunter may write it" in message
            yard.wait_moved(open_ones, (1, 2, 3))
            broker.kill()
            wait_until(
                lambda: {leader(owner, tp) for tp in (*open_ones, beside)} <= {2, 3},
                what="all partitions that may be written are led",
                timeout_s=60,
            )
            assert leader(owner, closed) == 1
            for path in forbidden:
                wait_until(lambda path=path: named(yard, path), what=f"{path} is named", timeout_s=60)
        for path in forbidden:
            owner.set_acls(path, OPEN_ACL_UNSAFE)
        wait_until(lambda: leader(owner, closed) in {2, 3}, what="nothing is lost", timeout_s=60)
    finally:
        for path in forbidden:
            owner.set_acls(path, OPEN_ACL_UNSAFE)
        if not broker.alive:
            broker.start()
    assert reassign(yard, {closed: (4, 2, 3)}) == {str(closed): ("NONE", "")}
    yard.wait_moved([closed], (4, 2, 3))
    log = yard.controller.log_tail(10_000)
    assert [line for line in log.splitlines() if " ERROR " in line and closed.topic in line] == [], (
        "a notice tells it once"
    )


def named(yard, path):
    told = f"ZooKeeper refused Put {path} with code -102 (its ACL does not let us): what depends on it waits"
    return told in yard.controller.log_tail(10_000)
