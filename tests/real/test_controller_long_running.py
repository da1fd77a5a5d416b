"""Controller redesign, "long-running processes", and Apache's bugs in them: on real brokers, with live producers."""

import json
from functools import partial

import pytest
from yard import cli, plan_of

from lab.testbed.failures import PartFailed
from lab.testbed.waiting import wait_until

# kafka-python leaves its socket to the garbage collector when a broker dies.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SLOW_BYTES_PER_S = 20_000
BOUND_S = 60


class Watched:
    """A partition: as ZooKeeper has it, and as `shunter reassign` shows it."""

    def __init__(self, yard, zk, tp):
        self.yard, self.zk, self.tp = yard, zk, tp
        self.name = f"{tp.topic}-{tp.partition}"

    @property
    def replicas(self):
        return tuple(
            json.loads(self.zk.get(f"/brokers/topics/{self.tp.topic}")[0])["partitions"][str(self.tp.partition)]
        )

    @property
    def state(self):
        return json.loads(self.zk.get(f"/brokers/topics/{self.tp.topic}/partitions/{self.tp.partition}/state")[0])

    @property
    def status(self):
        return cli("status", "--bootstrap-server", self.yard.bootstrap, self.name)[1]

    def wait(self, *words):
        """Wait until its status has these words."""
        try:
            wait_until(lambda: all(word in self.status for word in words), what=f"{words}", timeout_s=BOUND_S)
        except PartFailed as failed:
            raise AssertionError(self.status) from failed

    def wait_until(self, condition, what):
        try:
            wait_until(partial(condition, self), what=f"{self.name}: {what}", timeout_s=BOUND_S)
        except PartFailed as failed:
            raise AssertionError(f"{failed}: {self.replicas}, {self.state}, {self.status}") from failed

    def roll_back(self):
        status, out = cli("rollback", "--yes", "--bootstrap-server", self.yard.bootstrap, self.name)
        assert status == 0, out


@pytest.fixture
def create(yard, zk, topic):
    """Partitions on some brokers, watched."""

    def make(replicas, count=1, **configs):
        return [Watched(yard, zk, tp) for tp in yard.create(topic, replicas, partitions=count, **configs)]

    return make


@pytest.fixture
def dead(yard, zk):
    """Kill brokers. The fixture starts them again at the end, even after a failure."""
    gone = []

    def kill(*ids):
        for id_ in ids:
            yard.cluster.brokers[id_].kill()
            gone.append(id_)
        for id_ in ids:
            wait_until(lambda id_=id_: not zk.exists(f"/brokers/ids/{id_}"), what=f"{id_} is gone", timeout_s=BOUND_S)

    def revive():
        while gone:
            yard.cluster.brokers[gone.pop()].start()

    kill.revive = revive
    yield kill
    revive()


def begin(yard, partitions, target):
    """Begin moves so slowly that they last until `yard.throttle(topic, None)`."""
    yard.throttle(partitions[0].tp.topic, SLOW_BYTES_PER_S)
    yard.move([each.tp for each in partitions], target)
    wait_until(
        lambda: {each.tp for each in partitions} <= (yard.moving() or set()), what="under way", timeout_s=BOUND_S
    )


def test_a_target_dies_and_the_others_go_on(yard, topic, create, dead):
    """2.A: the move waits and names the dead broker. An operator rolls it back while the broker is still dead."""
    waiting, other = create((1, 2), 2)
    with yard.traffic([waiting.tp, other.tp]):
        begin(yard, [waiting], (1, 4))
        begin(yard, [other], (1, 3))
        dead(4)
        yard.throttle(topic, None)
        wait_until(lambda: yard.moving() == {waiting.tp}, what="the other move is over", timeout_s=BOUND_S)
        assert other.replicas == (1, 3)
        waiting.wait("waits for broker 4")
        waiting.roll_back()
        wait_until(lambda: yard.moving() == set(), what="it is rolled back", timeout_s=BOUND_S)
        assert waiting.replicas == (1, 2)
        dead.revive()
    yard.throttle(topic, None)
    yard.wait_moved([waiting.tp], (1, 2))
    yard.wait_moved([other.tp], (1, 3))
    wait_until(lambda: not folders_of(yard, 4, topic), what="what 4 had begun to copy is deleted", timeout_s=BOUND_S)


def folders_of(yard, id_, topic):
    """Partitions of a topic that a broker holds on its disk."""
    return {found.name for found in yard.cluster.brokers[id_].folder.glob(f"**/{topic}-[0-9]") if found.is_dir()}


def test_a_dead_targets_move_goes_on_when_it_returns(yard, topic, create, dead):
    """2.A, the other outcome: the move is not cancelled, and the broker returns."""
    (moved,) = create((1, 2))
    with yard.traffic([moved.tp]):
        begin(yard, [moved], (3, 4))
        dead(4)
        yard.throttle(topic, None)
        moved.wait("waits for broker 4")
        dead.revive()
        yard.throttle(topic, None)
        yard.wait_moved([moved.tp], (3, 4))


def test_a_second_reassignment_takes_over(yard, topic, create):
    """Step 3: another target in mid-move. Replicas that only the first target had are dropped, those of both stay."""
    first, second = create((1, 2, 3), 2)
    with yard.traffic([first.tp, second.tp]):
        begin(yard, [first, second], (4, 3, 2))
        yard.move([first.tp, second.tp], (1, 2, 4))
        first.wait("[1, 2, 3] → [1, 2, 4]")
        yard.move([first.tp], (3, 2, 1))
        yard.throttle(topic, None)
        yard.wait_moved([first.tp], (3, 2, 1))
        yard.wait_moved([second.tp], (1, 2, 4))


def test_a_cancel_with_dead_originals(yard, topic, create, dead):
    """KAFKA-14424: never unclean, never leaderless: the replica in sync leads until an original is back."""
    (moved,) = create((1, 2))
    with yard.traffic([moved.tp]) as traffic:
        begin(yard, [moved], (3, 4))
        dead(4)
        yard.throttle(topic, None)
        moved.wait_until(lambda each: 3 in each.state["isr"], "broker 3 is in sync")
        dead(1, 2)
        moved.wait_until(lambda each: each.state["leader"] == 3, "broker 3 leads")
        moved.roll_back()
        moved.wait("rolling back", "waits for")
        assert moved.state["leader"] == 3
        written = acknowledged(traffic)
        wait_until(lambda: acknowledged(traffic) > written, what="records are still acknowledged", timeout_s=BOUND_S)
        dead.revive()
        yard.throttle(topic, None)
        yard.wait_moved([moved.tp], (1, 2))


def acknowledged(traffic):
    return sum(len(acks.sequence) for acks in traffic.acks.values())


def test_an_unhealthy_replica_in_both_sets(yard, topic, create, dead):
    """KAFKA-19975: the move waits for it by name, keeps its copies meanwhile, and ends when it is back."""
    (moved,) = create((1, 2, 3))
    with yard.traffic([moved.tp]):
        begin(yard, [moved], (1, 2, 4))
        dead(2)
        yard.throttle(topic, None)
        moved.wait_until(lambda each: 4 in each.state["isr"], "broker 4 is in sync")
        moved.wait("waits for", "2")
        assert set(moved.replicas) == {1, 2, 3, 4}, "no live copy goes while another is missing"
        dead.revive()
        yard.throttle(topic, None)
        yard.wait_moved([moved.tp], (1, 2, 4))


def test_a_topic_is_deleted_in_mid_move(yard, topic, create, zk):
    """The move ends with the topic, no broker keeps its files, and a topic of the same name starts empty."""
    partitions = create((1, 2, 3), 2)
    with yard.traffic([each.tp for each in partitions]):
        pass
    begin(yard, partitions, (4, 3, 2))
    yard.asked(lambda admin: admin.delete_topics([topic]))
    wait_until(lambda: yard.moving() == set(), what="nothing moves any more", timeout_s=BOUND_S)
    wait_until(lambda: not zk.exists(f"/brokers/topics/{topic}"), what="the topic is gone", timeout_s=BOUND_S)
    wait_until(
        lambda: not any(folders_of(yard, id_, topic) for id_ in yard.cluster.brokers),
        what="no broker holds anything of it",
        timeout_s=BOUND_S,
    )
    yard.throttle(topic, None)
    again = [each.tp for each in create((1, 2), 2)]
    with yard.traffic(again):
        yard.move(again, (3, 4))
        yard.wait_moved(again, (3, 4))


def test_a_target_below_min_insync_replicas(yard, create, tmp_path):
    """The move is refused, and the rule named. It is accepted when the operator forces it."""
    (moved,) = create((1, 2, 3), **{"min.insync.replicas": "2"})
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_of([moved.tp], (4,))))
    at = ("--bootstrap-server", yard.bootstrap)
    status, out = cli("submit", *at, "--yes", plan)
    assert status != 0
    assert "min.insync.replicas" in out, out
    assert moved.replicas == (1, 2, 3)
    status, out = cli("submit", *at, "--yes", "--force", plan)
    assert status == 0, out
    yard.wait_moved([moved.tp], (4,))


MOMENTS = {
    "the first copy is under way": lambda each: 3 in each.replicas,
    "the first target is in sync": lambda each: 3 in each.state["isr"],
    "the second copy is under way": lambda each: 4 in each.replicas,
}


@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("victim", [1, 2, 3, 4])
def test_every_broker_dies_at_every_point(yard, topic, create, dead, victim, moment):
    """A dozen of the cases that the model test goes through in full."""
    (moved,) = create((1, 2))
    with yard.traffic([moved.tp]):
        yard.throttle(topic, 300_000)
        yard.move([moved.tp], (3, 4))
        moved.wait_until(MOMENTS[moment], moment)
        dead(victim)
        yard.throttle(topic, None)
        wait_until(
            lambda: yard.moving() == set() or "waits for" in moved.status,
            what="it ends, or says what it waits for",
            timeout_s=BOUND_S,
        )
        dead.revive()
        yard.throttle(topic, None)
        yard.wait_moved([moved.tp], (3, 4))
