"""A move that stands still at somebody's word: nothing is forgotten, and what is being fetched stops.

An addition that is out of sync is told to stop, not to delete (StopReplica without deletion): what it has fetched stays
on its disk, and it goes on from there when the move is resumed. An addition in sync is left alone.

Source: docs/decisions/0111-pause.md and 0112-pausing-what-waits.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shunter.core.controller.draft import Draft
from shunter.core.controller.lifecycle import Trigger
from shunter.core.controller.state import ControllerState
from shunter.errors import ErrorCode
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.reassignment import Phase, Reassignment


def pause(draft: Draft, tp: TopicPartition, move: Reassignment) -> tuple[ErrorCode, str | None]:
    """Let a move stand still; a second time changes nothing."""
    if move.phase is Phase.ROLLING_BACK:
        return ErrorCode.INVALID_REQUEST, f"{tp} is being rolled back: a rollback is not paused"
    return stand_still(draft, tp, move, Trigger.PAUSED)


def stand_still(draft: Draft, tp: TopicPartition, move: Reassignment, trigger: Trigger) -> tuple[ErrorCode, str | None]:
    """Write a move as paused, new or as it was, and stop what it has being fetched."""
    if draft.reassignment(tp) != move._replace(phase=Phase.PAUSED):
        draft.transition(tp, trigger, move)
    for broker in fetching(draft.state, tp):
        if broker in draft.state.brokers:
            draft.stopped.setdefault(tp, set()).add(broker)
    return ErrorCode.NONE, None


def resume(draft: Draft, tp: TopicPartition, move: Reassignment) -> bool:
    """Let a paused move go on; False when it was not paused.

    A new leader epoch makes the brokers take the replicas up again: every addition, for one that was told to stop may
    have been taken into the ISR just before, and is in it now though it fetches no more.
    """
    partition = draft.partition(tp)
    if move.phase is not Phase.PAUSED or partition is None:
        return False
    begun = partition.assignment.in_motion or partition.assignment.replicas != move.original
    draft.transition(tp, Trigger.RESUMED if begun else Trigger.REQUEUED, move)
    leadership = partition.leadership
    if leadership is not None and begun:
        draft.lead(tp, leadership.in_new_epoch())
    return True


def fetching(state: ControllerState, tp: TopicPartition) -> Replicas:
    """Additions of a partition that are out of sync, in assignment order."""
    partition, move = state.partition(tp), state.reassignments.get(tp)
    if partition is None or partition.leadership is None or move is None:
        return ()
    isr, adding = partition.leadership.isr, partition.assignment.adding
    return tuple(
        broker
        for broker in partition.assignment.replicas
        if broker not in isr and (broker in adding or broker not in move.original)
    )


def still(
    state: ControllerState, stopped: Mapping[TopicPartition, set[BrokerId]]
) -> dict[TopicPartition, set[BrokerId]]:
    """Those replicas to stop that are paused still: a pause may end in the write in which it began."""
    paused = {tp for tp in stopped if tp in state.reassignments and state.reassignments[tp].phase is Phase.PAUSED}
    return {tp: brokers for tp, brokers in stopped.items() if tp in paused}


def woken(
    state: ControllerState, told: Iterable[TopicPartition], only: frozenset[BrokerId] | None = None
) -> dict[TopicPartition, set[BrokerId]]:
    """Additions of paused moves that a LeaderAndIsr has just set going again: they have to be stopped again.

    Args:
        told: Partitions that LeaderAndIsr requests were about.
        only: Brokers that heard it; None: all.
    """
    stop: dict[TopicPartition, set[BrokerId]] = {}
    for tp in told:
        move = state.reassignments.get(tp)
        partition = state.partition(tp)
        if move is None or move.phase is not Phase.PAUSED or partition is None:
            continue
        if partition.assignment != move.written:
            continue  # Somebody else has moved it on: what is being added is not ours to hold back.
        heard = {broker for broker in fetching(state, tp) if broker in state.brokers and (not only or broker in only)}
        if heard:
            stop[tp] = heard
    return stop
