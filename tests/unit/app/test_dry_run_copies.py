"""A dry run names copies between log dirs that somebody else began, and that the plan would end or take over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from shunter.app.executor.dry_run import dry_run
from shunter.core.executor.state import ExecutorState
from shunter.drivers.admin.answers import SettingsSeen, TopicsSeen
from shunter.drivers.admin.log_dirs import LogDirsSeen
from shunter.model.execution import (
    ExecutionOptions,
    LogDirSpace,
    MoveOrder,
    ObservedPartition,
    ObservedTopic,
    ReplicaSize,
    ThrottleKey,
)
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy

T0 = TopicPartition("t", 0)


class Cluster:
    """Broker 1 copies its replica of t-0 from /a to /b."""

    async def list_reassignments(self) -> dict[TopicPartition, Any]:
        return {}

    async def observe_topics(self, _names: Sequence[str]) -> TopicsSeen:
        return TopicsSeen(
            {"t": ObservedTopic(None, {0: ObservedPartition((1, 2), (1, 2), 1)}, 1)}, {1: None, 2: None}, 1
        )

    async def observe_log_dirs(self, _asked: Mapping[int, Sequence[TopicPartition]]) -> LogDirsSeen:
        sizes = {(broker, T0): ReplicaSize(9, "/a") for broker in (1, 2)}
        spaces = {(broker, path): LogDirSpace(99, 50) for broker in (1, 2) for path in ("/a", "/b")}
        return LogDirsSeen(sizes, {(1, T0): ReplicaSize(2, "/b", future=True)}, spaces, {}, (1, 2))

    async def read_settings(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        return SettingsSeen(dict.fromkeys(keys), {})


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize(
    ("log_dirs", "told"),
    [
        (((1, "/a"),), "cancels it, because the plan says /a"),
        (((1, "/b"),), "takes it over"),
        (((2, "/b"),), None),
        ((), None),
    ],
)
async def test_a_copy_of_others_is_named(
    strategy: Strategy, log_dirs: tuple[tuple[int, str], ...], told: str | None
) -> None:
    order = MoveOrder(T0, (1, 2), strategy, log_dirs)
    found = await dry_run(cast("Any", Cluster()), ExecutorState(), [order], ExecutionOptions())
    (move,) = found.moves
    copied = "somebody else copies it on broker 1 from /a to /b, 2 B of 9 B: this move"
    assert move.taken
    assert move.problem == (None if told is None else f"{copied} {told}")


async def test_what_brokers_copy_within_themselves_is_counted_with_its_way_back() -> None:
    order = MoveOrder(T0, (1, 2), None, ((1, "/b"), (2, "/a")))
    found = await dry_run(cast("Any", Cluster()), ExecutorState(), [order], ExecutionOptions(log_dir_throttle=3))
    (move,) = found.moves
    assert move.placing == (1,), "broker 2 has it there"
    assert (found.forecast.total_bytes, found.forecast.seconds, found.most_rollback_bytes) == (9, 3.0, 9)


@pytest.mark.parametrize("elect", [True, False])
async def test_an_election_is_told_on_paper(elect: bool) -> None:
    order = MoveOrder(T0, (2, 1), elect=elect)
    found = await dry_run(cast("Any", Cluster()), ExecutorState(), [order], ExecutionOptions())
    assert [move.elects for move in found.moves] == [2 if elect else None]
