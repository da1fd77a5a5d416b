"""Applies journal entries to the state. A restart applies the same entries again.

Only this module changes the durable part of the state, with one exception: after a journal was read, times that lie in
the future are set to now (`Move.begun_before`). The status of a step is soft, but entries change it too, because they
record that a step was begun, taken on or ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shunter.core.executor.state import (
    LATE_MS,
    CurrentStep,
    ElectionStatus,
    ExecutorState,
    GivenBack,
    LogDirStatus,
    Move,
    MoveEnd,
    StandingCordon,
    Throttle,
    yield_of,
)
from shunter.core.executor.step_status import StepTrigger
from shunter.core.executor.waits import NO_WAIT
from shunter.core.throttles import CORDONED_LOG_DIRS
from shunter.errors import InvariantViolation
from shunter.model.execution import (
    BoundsChanged,
    CommandKind,
    CommandTaken,
    CopySeen,
    CopySight,
    DirectionChanged,
    ElectionBegun,
    ExecutionClosed,
    FloorRelaxed,
    JournalEntry,
    LimitChanged,
    MoveAccepted,
    MoveClosed,
    MovePaused,
    PlanAccepted,
    RateObserved,
    SizeObserved,
    StepAccepted,
    StepBegun,
    StepDropped,
    StepFinished,
    ThrottleRemembered,
    ThrottleRestored,
    ThrottleSet,
)
from shunter.model.inventory import OF_USE_BYTES_PER_S
from shunter.model.partition import TopicPartition

RATES_KEPT = 64
"""Observed rates that are kept per broker: enough for a median, few enough to follow a changed cluster."""


def apply(state: ExecutorState, entry: JournalEntry) -> None:
    """Make what the entry says true of the state.

    Raises:
        InvariantViolation: the entry doesn't follow from the entries before it (a gap, a step without an open move).
    """
    if entry.sequence != state.next_sequence:
        raise InvariantViolation("journal entries follow one another", found=entry.sequence, due=state.next_sequence)
    state.next_sequence += 1
    _APPLIERS[type(entry.record)](state, entry)


def _move(state: ExecutorState, tp: TopicPartition, entry: JournalEntry) -> Move:
    move = state.moves.get(tp)
    if move is None or not move.open:
        raise InvariantViolation("an entry names an open move", entry=entry)
    return move


def _plan_accepted(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, PlanAccepted)
    if not state.at_work:
        # A new execution begins. Throttles that an earlier execution still owes stay in `throttles`.
        lately = {tp: move for tp, move in state.former_moves.items() if move.ended_lately(entry.at_ms)}
        state.former_moves, state.moves, state.earlier = {**lately, **state.moves}, {}, []
        state.cordoned_by = {}
    state.plan_id, state.cluster_id, state.options = record.plan_id, record.cluster_id, record.options
    state.limit = record.options.throttle
    for broker, _value in record.options.cordons:  # A later plan names those of the plans before it, too.
        state.cordoned_by.setdefault(broker, record.plan_id)
    state.running = True


def _move_accepted(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, MoveAccepted)
    move = Move(
        record.tp,
        record.topic_id,
        record.original,
        record.target,
        record.strategy,
        record.size_bytes,
        record.log_dirs,
        record.adopted,
        entry.at_ms,
        current=record.original,
        placing=record.placing,
        origins=record.origins,
        led_by=record.led_by,
        sized=record.sized,
    )
    move.passed.add(frozenset(record.original))
    move.log_dir_status = LogDirStatus(since_ms=entry.at_ms)
    before = state.moves.get(record.tp)
    former = state.former_moves.get(record.tp) if before is None else before
    if former is not None:
        # Late metadata may show replicas that a former move went through. That is not another tool's change.
        move.passed |= former.passed
    if before is not None and before.open:
        # A copy between log dirs is not a step: the former order may have moved replicas between log dirs already.
        move.origins = tuple(sorted({**dict(record.origins), **dict(before.origins)}.items()))
        move.placed_before = before.placed_before.union(dict(before.log_dirs)).intersection(before.original)
        move.asked_before = before.asked_for
        move.asking, move.answered_at_ms, move.begun_within = before.asking, before.answered_at_ms, before.begun_within
        move.log_dir_status = replace(move.log_dir_status, given_up=before.log_dir_status.given_up)
        if not record.sized:
            move.size_bytes, move.sized = before.size_bytes, before.sized
    if before is not None and before.open and before.steps:
        # A second plan for a partition in motion keeps the first original, and its running step.
        move.original, move.current = before.original, before.current
        move.step, move.steps, move.status = before.step, before.steps, before.status
        move.copied_bytes, move.began_at_ms = before.copied_bytes, before.began_at_ms
        move.stepped_at_ms = before.stepped_at_ms
        move.relaxed, move.again = before.relaxed, before.again
        if move.led_by is not None and before.led_by is not None:
            move.led_by = before.led_by
        _turn(move, entry)
    if before is not None and before.outcome is not None:
        state.earlier.append(before)
    state.moves[record.tp] = move


def _turn(move: Move, entry: JournalEntry) -> None:
    """Note that the move heads elsewhere now. A step that was not asked for yet is looked at again first."""
    _want_again(move)
    move.turned_at_ms = None if move.step is None else entry.at_ms
    move.note(StepTrigger.TURNED)


def _want_again(move: Move) -> None:
    """Note originals that were dropped and are wanted again: they are copied again."""
    move.again |= {broker for broker in move.original if broker in move.goal and broker not in move.held}


def _step_begun(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, StepBegun)
    move = _move(state, record.tp, entry)
    if record.number != move.steps + 1:
        raise InvariantViolation("steps of a move are numbered without gaps", entry=entry, steps=move.steps)
    superseded = move.step
    move.step = CurrentStep(record.number, record.before, record.after, record.reason, record.cancels, entry.at_ms)
    if superseded is not None:
        # If the journal does not say that the former step was taken on, the steps before it may still run, or be done.
        perhaps = () if superseded.accepted else superseded.redirected_from
        move.step.redirected_from = (*perhaps, superseded.after)
        move.step.perhaps_ended = tuple(dict.fromkeys(superseded.perhaps_ended + superseded.redirected_from))
        move.step.moved = superseded.moved
    move.step.returns = move.went_through(record.after)
    move.steps = record.number
    move.passed |= {frozenset(record.before), frozenset(record.after), frozenset(record.before + record.after)}
    # A step that another tool began may lead elsewhere than this plan. Then it is treated as a step of a turned move.
    move.turned_at_ms = entry.at_ms if move.adopted and record.number == 1 and record.after != move.target else None
    move.note(StepTrigger.BEGUN)
    if move.began_at_ms is None:
        move.began_at_ms = entry.at_ms


def _running_step(
    state: ExecutorState, tp: TopicPartition, number: int, entry: JournalEntry
) -> tuple[Move, CurrentStep]:
    move = _move(state, tp, entry)
    if move.step is None or move.step.number != number:
        raise InvariantViolation("an entry names the step under way", entry=entry, step=move.step)
    return move, move.step


def _step_accepted(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, StepAccepted)
    move, step = _running_step(state, record.tp, record.number, entry)
    step.accepted = True
    move.note(StepTrigger.RECORDED)


def _step_finished(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, StepFinished)
    move, step = _running_step(state, record.tp, record.number, entry)
    move.current, move.turned_at_ms = record.replicas, None
    lost = step.cancels and record.replicas != step.after and set(record.replicas) == set(step.after)
    move.order = step.after if lost else ()
    move.copied_bytes += record.copied_bytes
    move.step, move.stepped_at_ms = None, entry.at_ms
    move.note(StepTrigger.FINISHED)
    _want_again(move)
    move.blocked_since_ms = None
    asked = {broker: at_ms for broker, at_ms in move.log_dir_status.asked.items() if broker not in step.adding}
    move.log_dir_status = replace(move.log_dir_status, asked=asked)


def _step_dropped(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, StepDropped)
    move, _step = _running_step(state, record.tp, record.number, entry)
    move.step = None
    move.note(StepTrigger.DROPPED)


def _election_begun(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, ElectionBegun)
    move = _move(state, record.tp, entry)
    if move.step is not None or record.leader != move.wanted_leader:
        raise InvariantViolation("an election follows the last step", entry=entry, step=move.step, goal=move.goal)
    move.election = move.election._replace(begun=True)
    if move.began_at_ms is None:
        move.began_at_ms = entry.at_ms


def _copy_seen(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, CopySeen)
    move, one = _move(state, record.tp, entry), frozenset({record.broker})
    move.copies = move.copies | one if record.sight is CopySight.RUNS else move.copies - one
    if record.sight is CopySight.CANCELLED:
        move.cancelled |= one


def _direction_changed(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, DirectionChanged)
    move = _move(state, record.tp, entry)
    move.asked_before = move.asked_for
    move.direction, move.paused, move.forced = record.direction, False, record.forced
    move.log_dir_status = LogDirStatus(since_ms=entry.at_ms, given_up=move.log_dir_status.given_up)
    move.copies = move.cancelled = frozenset()
    move.election = ElectionStatus()
    _turn(move, entry)


def _move_paused(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, MovePaused)
    _move(state, record.tp, entry).paused = record.paused


def _floor_relaxed(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, FloorRelaxed)
    _move(state, record.tp, entry).relaxed = True


def _move_closed(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, MoveClosed)
    move = _move(state, record.tp, entry)
    move.ended, move.heard_of_end_at_ms = MoveEnd(record.outcome, record.reason, entry.at_ms), entry.at_ms
    move.current, move.step, move.waits = record.replicas, None, NO_WAIT
    move.note(StepTrigger.CLOSED)


def _throttle_remembered(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, ThrottleRemembered)
    if record.key not in state.throttles:
        state.throttles[record.key] = Throttle(record.value)


def _throttle_set(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, ThrottleSet)
    throttle = state.throttles.get(record.key)
    if throttle is None:
        raise InvariantViolation("a setting is remembered before it is changed", entry=entry)
    throttle.value, throttle.retry_at_ms = record.value, 0
    throttle.ours.add(record.value)


def _throttle_restored(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, ThrottleRestored)
    throttle = state.throttles.pop(record.key, None)
    if throttle is None:
        return
    if record.key.setting == CORDONED_LOG_DIRS:
        _cordon_left(state, record, throttle)
        # It is open when a look shows that; the controller may learn of it late. A journal that is read shows nothing.
        if not record.left and state.cluster.brokers:
            state.cluster.cordoned |= {int(record.key.name)}
    # A cordon that stays was not given back: a broker that shows it is not late.
    if record.forgotten or record.key in state.cordons:
        state.given_back.pop(record.key, None)
        return
    former = state.given_back.get(record.key)
    ours = throttle.ours - {throttle.before}  # After a pause it had the former value: that is not late.
    if former is not None and abs(entry.at_ms - former.at_ms) <= LATE_MS:
        ours |= former.ours
    state.given_back[record.key] = GivenBack(ours, entry.at_ms)


def _cordon_left(state: ExecutorState, record: ThrottleRestored, throttle: Throttle) -> None:
    """Keep in mind a cordon that stays, unless it was the former value that an undo brought back.

    An undo that is turned gives back the cordon of the plan that it should have undone, and that one stands again.
    """
    standing = state.cordons.pop(record.key, None)
    if standing is not None and not record.left and throttle.before == standing.value:
        state.cordons[record.key] = standing
    former = "" if standing is None else standing.before or ""
    value = dict(state.options.cordons).get(int(record.key.name), "")
    if record.left and value not in ("", former):
        state.cordons[record.key] = StandingCordon(throttle.before, value, state.cordoned_by[int(record.key.name)])


def _command_taken(state: ExecutorState, entry: JournalEntry) -> None:
    """Make cordons settings to be restored. The effects of all other commands have entries of their own."""
    record = entry.record
    assert isinstance(record, CommandTaken)
    if record.command.kind is not CommandKind.UNCORDON:
        return
    brokers = record.command.brokers
    kept = tuple(each for each in state.options.cordons if each[0] not in brokers)
    state.options = replace(state.options, cordons=kept)
    for broker in brokers:
        state.cordoned_by.pop(broker, None)
    for key in [key for key in state.cordons if int(key.name) in brokers]:
        standing = state.cordons.pop(key)
        state.throttles.setdefault(key, Throttle(standing.before, standing.value, {standing.value}))


def _limit_changed(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, LimitChanged)
    state.limit = record.bytes_per_s


def _bounds_changed(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, BoundsChanged)
    changes: dict[str, Any] = dict(record.bounds)
    state.options = replace(state.options, **changes)


def _rate_observed(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, RateObserved)
    if record.limited:
        share = None if state.limit is None else yield_of(record.bytes_per_s, state.limit)
        if share is not None:
            state.learnt_yields.append(share)
            del state.learnt_yields[:-RATES_KEPT]
        return
    if record.bytes_per_s < OF_USE_BYTES_PER_S:
        return  # Without a limit nobody looks for somebody else's throttle: no broker is that slow by itself.
    rates = state.learnt_rates.setdefault(record.broker, [])
    rates.append(record.bytes_per_s)
    del rates[:-RATES_KEPT]


def _size_observed(state: ExecutorState, entry: JournalEntry) -> None:
    record = entry.record
    assert isinstance(record, SizeObserved)
    move = _move(state, record.tp, entry)
    move.size_bytes, move.sized = record.size_bytes, True


def _execution_closed(state: ExecutorState, entry: JournalEntry) -> None:
    if state.at_work:
        raise InvariantViolation("an execution is closed when all its moves ended", entry=entry)
    state.running = False


_APPLIERS: dict[type, Callable[[ExecutorState, JournalEntry], None]] = {
    PlanAccepted: _plan_accepted,
    MoveAccepted: _move_accepted,
    StepBegun: _step_begun,
    StepAccepted: _step_accepted,
    StepFinished: _step_finished,
    StepDropped: _step_dropped,
    ElectionBegun: _election_begun,
    CopySeen: _copy_seen,
    DirectionChanged: _direction_changed,
    MovePaused: _move_paused,
    FloorRelaxed: _floor_relaxed,
    MoveClosed: _move_closed,
    ThrottleRemembered: _throttle_remembered,
    ThrottleSet: _throttle_set,
    ThrottleRestored: _throttle_restored,
    LimitChanged: _limit_changed,
    BoundsChanged: _bounds_changed,
    CommandTaken: _command_taken,
    RateObserved: _rate_observed,
    SizeObserved: _size_observed,
    ExecutionClosed: _execution_closed,
}
