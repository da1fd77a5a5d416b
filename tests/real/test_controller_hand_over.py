"""During moves the controllership goes from Apache to one Shunter, to another with another id, and back to Apache; and
twice from Apache to one Shunter, which dies in the middle of moves in between.

Each controller finds and ends the topics and moves of the one before it, while producers with acks=all go on.
"""

from contextlib import ExitStack

import pytest
from yard import HELD_BACK, Yard, cli

from lab.demo.proof import Leftovers
from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.probes import brokers_known_at
from lab.testbed.waiting import wait_until
from shunter.drivers.zookeeper.leadership_view import LeadershipView

pytestmark = [pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

BOUND_S = 120
IDS = (1, 2, 3)
RECORDS = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hand-over")
    with ZooKeeperCluster(folder, broker_ids=IDS, properties=HELD_BACK, heap_mib=160) as started:
        yield started


@pytest.fixture
def yard(cluster):
    """Three brokers, of which one is the controller, after the test too."""
    made = Yard(cluster, None, None)
    yield made
    follow(made, None)


def shunter(yard, broker_id):
    """A controller that takes the seat from its holder once. It does not take it back from a later holder."""
    options = ("--takeover", "preempt", "--set", "takeover-cool-down-ms=600000")
    folder = yard.cluster.folder / f"controller-{broker_id}"
    return ShunterController(
        folder, yard.cluster.zookeeper_connect, broker_id=broker_id, options=options, start_timeout_s=BOUND_S
    )


def take_the_seat(yard, controller):
    controller.start()
    follow(yard, controller)
    yard.controller = controller


def follow(yard, controller):
    """Wait until brokers know this Shunter controller; None: until a broker has taken the seat from Shunter."""
    ours = set() if controller is None else {controller.broker_id}
    for broker in yard.cluster.brokers.values():
        wait_until(
            lambda port=broker.port: brokers_known_at(port) == {*IDS, *ours},
            what=f"{broker.name} follows {controller.name if controller else 'a broker'}",
            timeout_s=BOUND_S,
        )


def begin(yard, topic, replicas, target, stack):
    """Make a topic, write to it until `stack` ends, and begin a move of it that a throttle holds back."""
    partitions = yard.create(topic, replicas, partitions=2)
    stack.enter_context(yard.traffic(partitions, records=RECORDS))
    yard.throttle(topic, 1)
    yard.move(partitions, target)
    wait_until(lambda: under_way(yard, partitions), what=f"{topic} is under way", timeout_s=BOUND_S)
    return partitions


def under_way(yard, partitions):
    """Whether all these partitions of one topic are being moved, by ZooKeeper."""
    leftovers = Leftovers(yard.cluster.zookeeper_connect)
    try:
        found = leftovers.assignments([partitions[0].topic])
    finally:
        leftovers.close()
    return all(found[tp].in_motion for tp in partitions)


def wait_deleted(yard, broker_id, partitions):
    folder = yard.cluster.brokers[broker_id].data_folder
    wait_until(
        lambda: not any((folder / f"{tp.topic}-{tp.partition}").exists() for tp in partitions),
        what=f"broker {broker_id} has deleted {partitions}",
        timeout_s=BOUND_S,
    )


def test_apache_and_two_shunters_take_turns_under_moves(yard):
    with ExitStack() as stack:
        first, second = shunter(yard, 1000), shunter(yard, 1001)
        for controller in (first, second):
            stack.callback(controller.stop)
        of_apache = begin(yard, "apache", (1, 2), (2, 3), stack)
        take_the_seat(yard, first)
        assert under_way(yard, of_apache)
        of_first = begin(yard, "first", (2, 3), (3, 1), stack)
        take_the_seat(yard, second)  # The first still runs, and learns from ZooKeeper that it has lost the seat.
        assert under_way(yard, of_apache)
        assert under_way(yard, of_first)
        moves = {*of_apache, *of_first}
        wait_until(lambda: yard.moving() == moves, what=f"the second lists {moves}", timeout_s=BOUND_S)
        told = "standing by: broker 1001 became the controller"
        wait_until(lambda: told in first.log_tail(10_000), what="the first stands by", timeout_s=BOUND_S)
        of_second = begin(yard, "second", (3, 1), (1, 2), stack)

        ends = ((of_apache, (2, 3), 1), (of_first, (3, 1), 2), (of_second, (1, 2), 3))
        for partitions, _, _ in ends:
            yard.throttle(partitions[0].topic, None)
        for partitions, target, left in ends:
            yard.wait_moved(partitions, target, timeout_s=BOUND_S)
            wait_deleted(yard, left, partitions)

        first.stop()
        yard.move(of_apache, (3, 1))
        at = ("--zookeeper", yard.cluster.zookeeper_connect, "--bootstrap-server", yard.bootstrap)
        status, said = cli("hand-back", *at, "--timeout", "300")
        assert status == 0, said
        yard.wait_moved(of_apache, (3, 1), timeout_s=BOUND_S)
        apache = yard.create("apache-again", (1, 2))
        stack.enter_context(yard.traffic(apache))
        yard.move(apache, (2, 3))
        yard.wait_moved(apache, (2, 3), timeout_s=BOUND_S)


def standby(yard, broker_id):
    options = ("--takeover", "standby", "--set", "session-timeout-ms=20000")
    folder = yard.cluster.folder / f"standby-{broker_id}"
    made = ShunterController(
        folder, yard.cluster.zookeeper_connect, broker_id=broker_id, options=options, start_timeout_s=BOUND_S
    )
    made.launch()
    stands_by(made, "")
    return made


def stands_by(controller, holder):
    told = f"standing by: broker {holder}"
    wait_until(lambda: told in controller.log_tail(10_000), what=f"{controller.name} stands by", timeout_s=BOUND_S)


def test_a_standby_leads_soon_though_an_apache_broker_won_the_election(yard):
    """The standby is frozen while the session of the controller ends, so that a broker is faster for certain."""
    options = ("--takeover", "preempt", "--set", "session-timeout-ms=4000", "--set", "takeover-cool-down-ms=600000")
    first = ShunterController(
        yard.cluster.folder / "first", yard.cluster.zookeeper_connect, options=options, start_timeout_s=BOUND_S
    )
    with ExitStack() as stack:
        stack.callback(first.stop)
        first.start()
        second = standby(yard, 1001)
        stack.callback(second.stop)
        second.process.pause()
        first.process.kill()
        view = LeadershipView(yard.cluster.zookeeper_connect)
        stack.callback(view.close)
        wait_until(
            lambda: (held := view.holder()) is not None and not held.shunter,
            what="a broker has won the election",
            timeout_s=15,
        )
        second.process.resume()
        wait_until(second.is_leading, what="the standby leads", timeout_s=10)

        third = standby(yard, 1002)
        stack.callback(third.stop)
        stands_by(third, "1001 is the controller")
        assert second.is_leading()
        second.process.kill()
        # On one machine the standby sees that the process is dead. The session would last for 20 s.
        wait_until(third.is_leading, what="the other standby leads", timeout_s=10)


@pytest.mark.long
def test_apache_and_shunter_take_two_turns_each_in_the_middle_of_moves(yard):
    """Each controller makes a topic, begins to move it, and finds all earlier moves under way. The last ends them."""
    turns = (
        ("apache", (1, 2), (2, 3)),
        ("shunter", (2, 3), (3, 1)),
        ("apache-again", (3, 1), (1, 2)),
        ("shunter-again", (1, 2), (2, 3)),
    )
    ours = shunter(yard, 1000)
    begun = {}
    with ExitStack() as stack:
        stack.callback(ours.stop)
        for topic, replicas, target in turns:
            if topic.startswith("shunter"):
                take_the_seat(yard, ours)
            elif begun:
                ours.kill()
                follow(yard, None)
            assert {name: under_way(yard, partitions) for name, partitions in begun.items()} == dict.fromkeys(
                begun, True
            )
            begun[topic] = begin(yard, topic, replicas, target, stack)
        wanted = {tp for partitions in begun.values() for tp in partitions}
        wait_until(lambda: yard.moving() == wanted, what=f"{wanted} are listed", timeout_s=BOUND_S)
        for topic in begun:
            yard.throttle(topic, None)
        for topic, replicas, target in turns:
            yard.wait_moved(begun[topic], target, timeout_s=BOUND_S)
            (left,) = {*replicas} - {*target}
            wait_deleted(yard, left, begun[topic])
    leftovers = Leftovers(yard.cluster.zookeeper_connect)
    try:
        throttled = leftovers.check_throttles(list(begun), list(IDS))
    finally:
        leftovers.close()
    assert throttled.holds, throttled
