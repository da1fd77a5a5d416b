"""A cluster handed back to Apache's controller in mid-move: no move remains that only Shunter could end."""

import json
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient
from yard import cli, plan_of, znode

from lab.demo.proof import Leftovers
from lab.testbed.probes import brokers_known_at
from lab.testbed.waiting import wait_until

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def yard(yard):
    """The shared cluster. Shunter takes it over again after each test, which handed it back."""
    yield yard
    if not yard.controller.alive:
        yard.controller.start()
    for broker in yard.cluster.brokers.values():
        if not broker.alive:
            broker.start()
    everybody = {*yard.cluster.brokers, yard.controller.broker_id}
    for broker in yard.cluster.brokers.values():
        wait_until(
            lambda port=broker.port: brokers_known_at(port) == everybody, what=f"{broker.name} knows all", timeout_s=120
        )


def hand_back(yard, *options):
    at = ("--zookeeper", yard.cluster.zookeeper_connect, "--bootstrap-server", yard.bootstrap)
    return cli("hand-back", *at, *options)


@contextmanager
def zookeeper(yard):
    zk = KazooClient(yard.cluster.zookeeper_connect)
    zk.start()
    try:
        yield zk
    finally:
        zk.stop()
        zk.close()


def znode_of(yard, path):
    with zookeeper(yard) as zk:
        return znode(zk, path)


def assert_apache_leads(yard):
    holder = znode_of(yard, "/controller")
    assert holder["brokerid"] in yard.cluster.brokers
    assert "shunter_process" not in holder
    leftovers = Leftovers(yard.cluster.zookeeper_connect)
    try:
        assert leftovers.check_znodes().holds, leftovers.check_znodes()
    finally:
        leftovers.close()
    wait_until(lambda: not yard.controller.alive, what="the end of the process that gave it back", timeout_s=30)


@pytest.mark.timeout(600)
def test_in_mid_move_and_again_when_apache_leads(yard):
    partitions = yard.create("t", (1, 2), partitions=2)
    with yard.traffic(partitions, records=50):
        yard.move(partitions, (3, 4))
        status, told = hand_back(yard, "--timeout", "300")
        assert status == 0, told
    assert "no move is under way, and no broker owes anything" in told
    assert "nothing is under-replicated because of it" in told
    assert_apache_leads(yard)
    assignment = znode_of(yard, "/brokers/topics/t")
    assert assignment["partitions"] == {"0": [3, 4], "1": [3, 4]}
    assert not assignment["adding_replicas"]
    status, told = hand_back(yard)
    assert status == 0
    assert "there is nothing to hand back" in told


@pytest.mark.timeout(600)
def test_brokers_that_do_not_answer_are_found_before_the_controller_is_ended(yard):
    at = ("--zookeeper", yard.cluster.zookeeper_connect, "--bootstrap-server", "127.0.0.1:1")
    status, told = cli("hand-back", *at)
    assert status == 3, told
    assert "no broker answers" in told
    assert yard.controller.is_leading()


@pytest.mark.timeout(600)
def test_what_shunter_leaves_when_a_migration_begins_is_told(yard, tmp_path):
    """Shunter leaves in mid-move, because `/migration` appears. Apache ends the step, which is not the target."""
    partitions = yard.create("left", (1, 2), partitions=1)
    with yard.traffic(partitions, records=200):
        yard.throttle("left", 1)
        yard.move(partitions, (3, 4))
        wait_until(lambda: places(yard, "left") == [[1, 2, 3]], what="the first step is under way", timeout_s=60)
        with zookeeper(yard) as zk:
            zk.create("/migration", b"{}")
            try:
                wait_until(lambda: "moves-left" in yard.controller.log_tail(10_000), what="it leaves", timeout_s=60)
                wait_until(lambda: apache_leads(yard), what="an Apache broker leads", timeout_s=60)
                status, told = hand_back(yard, "--plan", tmp_path / "plan.json")
            finally:
                zk.delete("/migration")
                wait_until(yard.controller.is_leading, what="Shunter leads again", timeout_s=90)
        yard.throttle("left", None)
        assert status == 1, told
        assert "but Shunter has left work that is not done" in told
        assert "ends 1 short of the target: left-0 at [1, 2, 3], not at [3, 4]" in told
        assert json.loads((tmp_path / "plan.json").read_text()) == plan_of(partitions, (3, 4))
        assert "left-0 at [1, 2, 3], not at [3, 4]" in yard.controller.log_tail(20_000)
        yard.wait_moved(partitions, (3, 4))


def apache_leads(yard):
    with zookeeper(yard) as zk:
        return (znode(zk, "/controller") or {}).get("brokerid") in yard.cluster.brokers


def stuck_in_the_middle(yard, topic):
    """Begin a move from (1, 2) to (3, 4) that waits at (1, 3): broker 4 is dead, and a znode's move waits for it."""
    partitions = yard.create(topic, (1, 2), partitions=2)
    yard.cluster.brokers[4].kill()
    wait_until(lambda: not yard.has_znode("/brokers/ids/4"), what="broker 4 is known to be dead", timeout_s=60)
    with yard.traffic(partitions, records=50), zookeeper(yard) as zk:
        zk.create("/admin/reassign_partitions", json.dumps(plan_of(partitions, (3, 4))).encode())
        wait_until(lambda: places(yard, topic) == [[1, 3], [1, 3]], what="it waits for broker 4", timeout_s=120)


def places(yard, topic):
    found = znode_of(yard, f"/brokers/topics/{topic}")
    return [found["partitions"][number] for number in sorted(found["partitions"])]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_moves_are_stopped(yard):
    stuck_in_the_middle(yard, "stopped")
    status, told = hand_back(yard, "--moves", "finish", "--timeout", "2")
    assert status == 1, told
    assert "Shunter goes on leading: nothing was handed back" in told
    assert yard.controller.is_leading()

    status, told = hand_back(yard, "--moves", "stop", "--timeout", "120")
    assert status == 0, told
    assert places(yard, "stopped") == [[1, 3], [1, 3]]
    assert_apache_leads(yard)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_moves_are_rolled_back(yard):
    stuck_in_the_middle(yard, "back")
    status, told = hand_back(yard, "--moves", "rollback", "--timeout", "120")
    assert status == 0, told
    assert places(yard, "back") == [[1, 2], [1, 2]]
    assert "nothing is under-replicated because of it" in told
    assert_apache_leads(yard)
