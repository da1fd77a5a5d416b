"""Whichever process dies in the middle of a move: no acknowledged record is lost, and the target is reached."""

import uuid
from functools import partial

import pytest
from yard import plan_of

from lab.testbed.waiting import wait_until

# kafka-python leaves its socket to the garbage collector when a broker dies.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SLOW_BYTES_PER_S = 700_000


@pytest.fixture
def partitions(yard):
    return yard.create(f"f-{uuid.uuid4().hex[:8]}", (1, 2, 3))


def slowly(yard, partitions, target):
    """Begin to move 4 partitions of 1.2 MB so slowly that it lasts some seconds."""
    yard.throttle(partitions[0].topic, SLOW_BYTES_PER_S)
    yard.move(partitions, target)
    wait_until(lambda: bool(yard.moving()), what="the move is under way", timeout_s=20)


def full_speed(yard, partitions):
    yard.throttle(partitions[0].topic, None)


def is_over(looks):
    """Whether the wait has checked often enough: it checks 20 times a second."""
    return next(looks, None) is None


def kill_controller_times(yard, partitions, times):
    with yard.traffic(partitions):
        slowly(yard, partitions, (4, 3, 2))
        for _ in range(times):
            left = len(yard.moving() or ())
            looks = iter(range(yard.random.randrange(30)))
            wait_until(partial(is_over, looks), what="a random moment of the move", timeout_s=10)
            yard.controller.kill()
            yard.controller.start()
            wait_until(lambda: yard.moving() is not None, what="the controller answers again", timeout_s=30)
            assert len(yard.moving() or ()) <= left
        full_speed(yard, partitions)
        yard.wait_moved(partitions, (4, 3, 2))


def test_the_controller_is_killed(yard, partitions):
    kill_controller_times(yard, partitions, 2)


@pytest.mark.long
def test_the_controller_is_killed_ten_times(yard, partitions):
    kill_controller_times(yard, partitions, 10)


@pytest.mark.parametrize(
    "victim",
    [
        pytest.param(1, id="leader"),
        pytest.param(2, id="follower", marks=pytest.mark.long),
        pytest.param(4, id="target"),
    ],
)
def test_a_broker_is_killed(yard, partitions, victim):
    with yard.traffic(partitions):
        slowly(yard, partitions, (4, 3, 2))
        broker = yard.cluster.brokers[victim]
        broker.kill()
        wait_until(lambda: yard.moving() is not None, what="the controller goes on", timeout_s=30)
        broker.start()
        full_speed(yard, partitions)
        yard.wait_moved(partitions, (4, 3, 2))


def test_a_broker_is_frozen(yard, partitions):
    """SIGSTOP: its session ends while its process lives. It resumes with its old, stale state."""
    with yard.traffic(partitions):
        slowly(yard, partitions, (4, 3, 2))
        broker = yard.cluster.brokers[1]
        broker.pause()
        try:
            wait_until(
                lambda: not yard.has_znode("/brokers/ids/1"),
                what="ZooKeeper has noticed that broker 1 is gone",
                timeout_s=30,
            )
        finally:
            broker.resume()
        wait_until(lambda: yard.has_znode("/brokers/ids/1"), what="broker 1 is back", timeout_s=40)
        full_speed(yard, partitions)
        yard.wait_moved(partitions, (4, 3, 2))


def test_an_apache_broker_takes_over_and_gives_back(yard, partitions):
    """Shunter is killed in the middle, an Apache broker finishes the step, a restarted Shunter finishes the move."""
    with yard.traffic(partitions):
        slowly(yard, partitions, (4, 3, 2))
        yard.controller.kill()
        wait_until(
            lambda: not yard.controller.is_leading() and yard.has_znode("/controller"),
            what="an Apache broker is the controller",
            timeout_s=40,
        )
        full_speed(yard, partitions)
        yard.controller.start()
        wait_until(lambda: yard.moving() is not None, what="the controller answers again", timeout_s=30)
        yard.wait_moved(partitions, (4, 3, 2))
        described = yard.reassign_tool(plan_of(partitions, (4, 3, 2)), "--verify")
        assert described.stdout.count("is completed.") == 4
