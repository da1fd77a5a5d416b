"""A dry run foretells the steps, waits and prices of the executor beside a dead broker, by the executor's own choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from shunter.app.executor.dry_run import DryRun, dry_run
from shunter.core.executor.state import ExecutorState
from shunter.drivers.admin.answers import SettingsSeen, TopicsSeen
from shunter.drivers.admin.log_dirs import LogDirsSeen
from shunter.model.execution import (
    ExecutionOptions,
    MoveOrder,
    ObservedPartition,
    ObservedTopic,
    ReplicaSize,
    ThrottleKey,
)
from shunter.model.partition import TopicPartition

T0 = TopicPartition("t", 0)
BESIDE_3 = ObservedPartition((1, 2, 3), (1, 2), 1)


class Cluster:
    """Broker 3 of t-0 is dead; `needs_all`: the controller is older than Kafka 4.3."""

    def __init__(self, *, needs_all: bool, seen: ObservedPartition = BESIDE_3) -> None:
        self.needs_all, self.seen = needs_all, seen

    async def list_reassignments(self) -> dict[TopicPartition, Any]:
        return {}

    async def observe_topics(self, _names: Sequence[str]) -> TopicsSeen:
        return TopicsSeen({"t": ObservedTopic(None, {0: self.seen}, 1)}, dict.fromkeys((1, 2, 4, 5)), 1, self.needs_all)

    async def observe_log_dirs(self, _asked: Mapping[int, Sequence[TopicPartition]]) -> LogDirsSeen:
        return LogDirsSeen({(1, T0): ReplicaSize(100, "/a")}, {}, {}, {}, (1, 2, 4, 5))

    async def read_settings(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        return SettingsSeen(dict.fromkeys(keys), dict.fromkeys(keys))


async def told(target: tuple[int, ...], *, needs_all: bool, goes_around: bool = False) -> DryRun:
    cluster = cast("Any", Cluster(needs_all=needs_all))
    return await dry_run(cluster, ExecutorState(), [MoveOrder(T0, target)], ExecutionOptions(), goes_around=goes_around)


async def test_a_newer_cluster_ends_a_step_beside_a_dead_replica_that_stays_and_a_rollback_then_copies() -> None:
    """An outsider's find on 4.4.0: "waits for broker 3 to be live and in sync; a rollback copies 0 B at the most"."""
    found = await told((1, 4, 3), needs_all=False)
    (move,) = found.moves
    assert (move.problem, move.held_up) == (None, "")
    assert [step.replicas for step in move.steps] == [(1, 4, 3)]
    assert found.most_rollback_bytes == 100


@pytest.mark.parametrize(
    ("target", "needs_all", "held"),
    [
        ((1, 4, 3), True, "it can't end without broker 3, which is down and part of its target"),
        ((4, 5, 3), False, "it can't end without broker 3, which is down and part of its target"),  # By its last step.
        ((1, 4, 5), True, ""),
    ],
)
async def test_what_never_ends_says_so_once(target: tuple[int, ...], held: str, *, needs_all: bool) -> None:
    (move,) = (await told(target, needs_all=needs_all)).moves
    assert move.held_up[: len(held) or None] == held
    assert move.problem is None


@pytest.mark.parametrize(
    ("seen", "held"),
    [
        (ObservedPartition((3,), (), -1, (3,)), "broker 3, which is down: {}; start broker 3, which has its data"),
        (ObservedPartition((3,), (3,), -1, (3,)), "broker 3, which is down: {}; start broker 3, which has its data"),
        # Broker 1 is live, but not eligible: it would lead.
        (ObservedPartition((3, 1), (), -1, (3,)), "broker 3, which is down: {}; start broker 3, which has its data"),
        (
            ObservedPartition((3, 6), (), -1, (3, 6)),
            (
                "one of brokers 3, 6, which are down: {}; start broker 3 or start broker 6, whichever has its data, as"
                " `shunter doctor` tells"
            ),
        ),
    ],
)
async def test_where_no_live_broker_has_the_data_it_has_to_come_back(seen: ObservedPartition, held: str) -> None:
    """An outsider's find: "`shunter plan --scope offline` gives offline replicas other brokers first": that leaves it."""
    cluster = cast("Any", Cluster(needs_all=False, seen=seen))
    found = await dry_run(cluster, ExecutorState(), [MoveOrder(T0, (4,))], ExecutionOptions())
    assert found.moves[0].held_up == f"it can't end without {held.format('no live broker has all records')}"


async def test_a_rollback_onto_a_dead_broker_needs_it() -> None:
    (move,) = (await told((1, 2, 4), needs_all=False)).moves
    assert [step.needs for step in move.steps] == [(3,)]
    (kept,) = (await told((1, 4, 3), needs_all=False)).moves
    assert [step.needs for step in kept.steps] == [()], "broker 3 keeps its replica"


async def test_shunters_controller_goes_its_own_way() -> None:
    (move,) = (await told((1, 4, 3), needs_all=False, goes_around=True)).moves
    assert move.held_up == ""
    assert move.problem is not None
    assert move.problem.startswith("waits for broker 3 to be live and in sync")
