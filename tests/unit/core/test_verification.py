"""What is under way, who moves it, and whether a plan has been reached; what is not known is no success."""

import pytest

from shunter.core.throttles import FOLLOWER_RATE, LEADER_REPLICAS, LOG_DIR_RATE
from shunter.core.under_way import UnderWay, copies_among, held_by, told_copy
from shunter.core.verification import PlanDifference, differences, replicas_to_place
from shunter.model.execution import MoveOrder, OngoingReassignment, ReplicaSize, ThrottleKey
from shunter.model.log_dirs import LogDirCopies, LogDirCopy, ReplicaDir, ReplicaDirs
from shunter.model.partition import Replicas, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ORDER = MoveOrder(T0, (1, 2), log_dirs=((1, "/b"),))
"""Broker 2 may have it in any log dir."""
TP0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
COPY = LogDirCopy(U0, 3, "/a", "/b", 2, 9)
MOVE = OngoingReassignment((1, 2), (2,), (1,))


def found(
    places: dict[int, ReplicaDir],
    failed: dict[int, str] | None = None,
    order: MoveOrder = ORDER,
    moving: dict[TopicPartition, str] | None = None,
    replicas: dict[TopicPartition, Replicas] | None = None,
) -> list[PlanDifference]:
    """The differences of one order."""
    dirs = ReplicaDirs({(broker, T0): place for broker, place in places.items()}, failed or {})
    return list(differences([order], moving or {}, {T0: (1, 2)} if replicas is None else replicas, dirs))


def test_a_replica_in_the_log_dir_of_the_plan_is_where_it_says() -> None:
    assert found({1: ReplicaDir("/b", None, 5), 2: ReplicaDir("/a", None, 5)}) == []
    assert found({}, order=ORDER._replace(log_dirs=())) == [], "any log dir will do"


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (ReplicaDir("/a", None, 5), "on broker 1 is in /a, the plan says /b, and nothing moves it there"),
        (ReplicaDir("/a", "/b", 9000, 2000), "on broker 1 is still being copied from /a to /b: 2.0 kB of 9.0 kB"),
        (ReplicaDir("/a", "/c", 9, 2), "on broker 1 is being copied from /a to /c, the plan says /b: 2 B of 9 B"),
        (ReplicaDir("/b", "/a", 9, 2), "on broker 1 is being copied from /b to /a, the plan says /b: 2 B of 9 B"),
        (
            ReplicaDir(None, None, 0),
            "on broker 1: its log dir is not known, the plan says /b; no log dir that the broker shows has it",
        ),
    ],
)
def test_a_replica_that_is_not_in_its_log_dir_is_told_with_both(place: ReplicaDir, told: str) -> None:
    (difference,) = found({1: place})
    assert difference.texts == (told,)
    (replica,) = difference.log_dirs
    assert (replica.broker, replica.wanted, replica.now, replica.coming) == (1, "/b", place.current, place.future)
    assert (replica.copied_bytes, replica.bytes) == (place.copied, place.size)


def test_a_broker_that_does_not_tell_its_log_dirs_is_no_success() -> None:
    (difference,) = found({}, {1: "it is not live"})
    assert difference.texts == (
        "on broker 1: its log dir is not known, the plan says /b; the broker does not tell it: it is not live",
    )


def test_each_replica_has_a_sentence_of_its_own() -> None:
    order = ORDER._replace(log_dirs=((1, "/b"), (2, "/b")))
    (difference,) = found({1: ReplicaDir("/a", None, 5), 2: ReplicaDir("/a", "/b", 5, 1)}, order=order)
    assert [text.split(" is ")[0] for text in difference.texts] == ["on broker 1", "on broker 2"]


def test_a_partition_on_other_brokers_is_told_without_its_log_dirs() -> None:
    assert found({}, moving={T0: "to [1, 2]"})[0].texts == ("is still being moved: to [1, 2]",)
    assert found({}, replicas={})[0].texts == ("does not exist",)
    assert found({}, replicas={T0: (2, 1)})[0].texts == ("is on [2, 1], not on [1, 2], and nothing moves it",)
    orders = [ORDER, MoveOrder(T1, (1,), log_dirs=((1, "/b"),))]
    assert replicas_to_place(orders, [], {T0: (1, 2), T1: (3,)}) == [(1, T0)]
    assert replicas_to_place(orders, [T0], {T0: (1, 2), T1: (3,)}) == []


def test_a_cancel_is_reached_when_nothing_moves_the_partition() -> None:
    cancel = MoveOrder(T0, ())
    assert found({}, order=cancel) == []
    assert found({}, order=cancel, moving={T0: "to [3]"})[0].texts == ("is still being moved: to [3]",)


def test_future_replicas_are_copies_from_where_the_replicas_are() -> None:
    sizes = {(3, U0): ReplicaSize(9, "/a"), (1, TP0): ReplicaSize(7, "/a")}
    futures = {(3, U0): ReplicaSize(2, "/b", future=True), (1, U0): ReplicaSize(4, "/c", future=True)}
    assert copies_among(sizes, futures) == (LogDirCopy(U0, 1, "", "/c", 4, 0), COPY)
    assert copies_among(sizes, {}) == ()
    assert told_copy(COPY) == "on broker 3 from /a to /b, 2 B of 9 B"
    assert told_copy(COPY._replace(source="")) == "on broker 3 from a log dir that failed to /b, 2 B of 9 B"


@pytest.mark.parametrize(
    ("key", "held"),
    [
        (ThrottleKey("broker", "3", LOG_DIR_RATE), ["u-0 on broker 3 from /a to /b, 2 B of 9 B"]),
        (ThrottleKey("broker", "1", LOG_DIR_RATE), []),
        (ThrottleKey("broker", "2", FOLLOWER_RATE), ["t-0 to [2]"]),
        (ThrottleKey("broker", "3", FOLLOWER_RATE), []),
        (ThrottleKey("topic", "t", LEADER_REPLICAS), ["t-0 to [2]"]),
        (ThrottleKey("topic", "u", LEADER_REPLICAS), []),
        (ThrottleKey("broker", "4", LOG_DIR_RATE), ["copies of broker 4, which does not tell its log dirs"]),
        (ThrottleKey("broker", "4", FOLLOWER_RATE), []),
    ],
)
def test_a_throttle_holds_what_its_broker_or_topic_copies(key: ThrottleKey, held: list[str]) -> None:
    assert held_by([key], UnderWay({TP0: MOVE}, LogDirCopies((COPY,), {4: "timed out"}))) == held
