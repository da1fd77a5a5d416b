"""What is under way, whoever began it, and which throttles hold it."""

from __future__ import annotations

import pytest

from shunter.core.throttles import FOLLOWER_RATE, LEADER_REPLICAS, LOG_DIR_RATE
from shunter.core.under_way import UnderWay, copies_among, held_by, told_copy
from shunter.model.execution import OngoingReassignment, ReplicaSize, ThrottleKey
from shunter.model.log_dirs import LogDirCopies, LogDirCopy
from shunter.model.partition import TopicPartition

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
COPY = LogDirCopy(U0, 3, "/a", "/b", 2, 9)
MOVE = OngoingReassignment((1, 2), (2,), (1,))


def test_future_replicas_are_copies_from_where_the_replicas_are() -> None:
    sizes = {(3, U0): ReplicaSize(9, "/a"), (1, T0): ReplicaSize(7, "/a")}
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
    assert held_by([key], UnderWay({T0: MOVE}, LogDirCopies((COPY,), {4: "timed out"}))) == held
