"""A look at the cluster beside a journal takes in all that holds up its moves."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from shunter.app.executor.status import ended_since
from shunter.app.executor.under_way import look_at
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.foresight.hold_ups import hold_up
from shunter.core.executor.state import CurrentStep, ExecutorState, GivenBack, Move
from shunter.core.executor.waits import OVER
from shunter.core.throttles import ALL_LOG_DIRS, CORDONED_LOG_DIRS
from shunter.drivers.admin.answers import TopicsSeen
from shunter.drivers.admin.log_dirs import LogDirsSeen
from shunter.model.execution import LogDirSpace, ObservedPartition, ObservedTopic, OngoingReassignment, ThrottleKey
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.execution import view_execution

T0 = TopicPartition("t", 0)


class Cluster:
    """Somebody cordoned broker 3, or nobody did."""

    def __init__(self, *, cordoned: bool) -> None:
        self.cordoned = cordoned

    async def observe_topics(self, _names: Sequence[str]) -> TopicsSeen:
        seen = {0: ObservedPartition((1, 2), (1, 2), 1)}
        return TopicsSeen({"t": ObservedTopic(None, seen, 1)}, dict.fromkeys((1, 2, 3)), 1, needs_all=False)

    async def observe_log_dirs(self, asked: Mapping[int, Sequence[TopicPartition]]) -> LogDirsSeen:
        spaces = {(broker, "/a"): LogDirSpace(99, 50, cordoned=self.cordoned and broker == 3) for broker in asked}
        return LogDirsSeen({}, {}, spaces, {}, tuple(asked))


@pytest.mark.parametrize("ours_before", [False, True])
@pytest.mark.parametrize("cordoned", [False, True])
async def test_a_cordon_that_is_seen_now_holds_a_move_up(*, ours_before: bool, cordoned: bool) -> None:
    """Also where the journal says that the executor gave a cordon of its own back."""
    state = ExecutorState(running=True)
    move = Move(T0, None, (1, 2), (1, 3), Strategy.INCREMENTAL, 100, (), False, 0, current=(1, 2))
    state.moves[T0] = move
    if ours_before:
        state.cluster.cordoned = frozenset({3})
        state.given_back[ThrottleKey("broker", "3", CORDONED_LOG_DIRS)] = GivenBack({ALL_LOG_DIRS}, at_ms=1)
    await look_at(cast("Any", Cluster(cordoned=cordoned)), state.cluster, {T0: (1, 2, 3)})
    assert ("while broker 3 has its log dirs cordoned" in hold_up(state, move).stuck) == cordoned


def test_a_driver_that_can_not_look_is_not_believed_where_the_cluster_shows_the_end() -> None:
    """An outsider's find: "stuck" and "has finished its step; the journal does not know yet" of one move."""
    state = ExecutorState(running=True)
    move = Move(T0, None, (1, 2), (1, 3), Strategy.INCREMENTAL, 100, (), False, 0, current=(1, 2))
    move.step = CurrentStep(1, (1, 2), (1, 3), "", cancels=False, begun_at_ms=0, accepted=True)
    state.moves[T0] = move
    state.cluster.brokers = {1: None, 2: None}
    state.cluster.topics["t"] = ObservedTopic(None, {0: ObservedPartition((1, 2, 3), (1, 2), 1)})
    state.cluster.ongoing[T0] = OngoingReassignment((1, 2, 3), (3,), (2,))
    view = view_execution(state, Meter(), None, 0)
    assert "can't end without broker 3" in view.held
    assert view.moves[0].stuck
    assert ended_since(view, state) == view
    state.cluster.topics["t"] = ObservedTopic(None, {0: ObservedPartition((1, 3), (1,), 1)})
    del state.cluster.ongoing[T0]
    seen = ended_since(view, state)
    assert (seen.moves[0].stuck, seen.moves[0].waits) == ("", OVER.text)
    assert seen.held == "no end: 1 waiting for a look at it: its step is over in the cluster"
    silent = ended_since(replace(view, held="the cluster does not answer"), state)
    assert silent.held.startswith("the cluster does not answer; 1 waiting for a look at it")
