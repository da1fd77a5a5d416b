"""Pausing a move and resuming it: a paused move stands still, forgets nothing, and its fetching stops.

`lifecycle.TABLE` says when a move may be paused: while it is pending, moving, or paused already. A rollback may not.

An addition that is out of sync is told to stop, not to delete (StopReplica without deletion): what it has fetched stays
on its disk, and it goes on from there when the move is resumed. An addition in sync is left alone.

Source: docs/decisions/0111-pause.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shunter.core.controller.draft import Draft
from shunter.core.controller.moves.lifecycle import Trigger
from shunter.core.controller.state import ControllerState
from shunter.errors import ErrorCode
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.reassignment import Phase, Reassignment


def pause(draft: Draft, tp: TopicPartition, move: Reassignment) -> tuple[ErrorCode, str | None]:
    """Let a move stand still. Pausing a paused move changes nothing."""
    if move.phase is Phase.ROLLING_BACK:
        return ErrorCode.INVALID_REQUEST, f"{tp} is being rolled back: a rollback is not paused"
    return stand_still(draft, tp, move, Trigger.PAUSED)


def stand_still(draft: Draft, tp: TopicPartition, move: Reassignment, trigger: Trigger) -> tuple[ErrorCode, str | None]:
    """Write a move as paused, whether it is new or was under way, and stop its additions that are fetching."""
    if draft.reassignment(tp) != move._replace(phase=Phase.PAUSED):
        draft.transition(tp, trigger, move)
    for broker in fetching(draft.state, tp):
        if broker in draft.state.brokers:
            draft.stopped.setdefault(tp, set()).add(broker)
    return ErrorCode.NONE, None


def resume(draft: Draft, tp: TopicPartition, move: Reassignment) -> bool:
    """Let a paused move go on; False when it was not paused.

    Only a new leader epoch makes brokers fetch again. It goes to every addition, not only to those out of sync: an
    addition may have joined the ISR just before it was told to stop, and then it is in sync and does not fetch.
    """
    if move.phase is not Phase.PAUSED or draft.partition(tp) is None:
        return False
    draft.transition(tp, Trigger.RESUMED if _begun(draft, tp, move) else Trigger.REQUEUED, move)
    wake(draft, tp, move)
    return True


def wake(draft: Draft, tp: TopicPartition, move: Reassignment) -> None:
    """The pause of a move ends, in any way: have the brokers that it stopped fetch again, by a new leader epoch."""
    partition = draft.partition(tp)
    leadership = None if partition is None else partition.leadership
    if move.phase is Phase.PAUSED and leadership is not None and _begun(draft, tp, move):
        draft.lead(tp, leadership.in_new_epoch())


def _begun(draft: Draft, tp: TopicPartition, move: Reassignment) -> bool:
    partition = draft.partition(tp)
    return partition is not None and (partition.assignment.in_motion or partition.assignment.replicas != move.original)


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
    """Keep the replicas to stop whose move is still paused: a pause may end in the write in which it began."""
    paused = {tp for tp in stopped if tp in state.reassignments and state.reassignments[tp].phase is Phase.PAUSED}
    return {tp: brokers for tp, brokers in stopped.items() if tp in paused}


def woken(
    state: ControllerState, told: Iterable[TopicPartition], only: frozenset[BrokerId] | None = None
) -> dict[TopicPartition, set[BrokerId]]:
    """Additions of paused moves that a LeaderAndIsr has just made fetch again: they have to be stopped again.

    Args:
        told: Partitions that LeaderAndIsr requests were about.
        only: Brokers that these requests were sent to; None: all.
    """
    stop: dict[TopicPartition, set[BrokerId]] = {}
    for tp in told:
        move = state.reassignments.get(tp)
        partition = state.partition(tp)
        if move is None or move.phase is not Phase.PAUSED or partition is None:
            continue
        if partition.assignment != move.written:
            continue  # Another tool has moved the partition on: its additions are not this controller's to hold back.
        heard = {
            broker for broker in fetching(state, tp) if broker in state.brokers and (only is None or broker in only)
        }
        if heard:
            stop[tp] = heard
    return stop
