"""The story of one move, from its journal: each step with its replicas, and all other events with cause and duration.

Times are milliseconds since 1970 UTC, durations milliseconds, sizes bytes. None: it was not seen, or is not over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shunter.core.executor.apply import apply
from shunter.core.executor.choice import Begin, ahead
from shunter.core.executor.history import Execution
from shunter.core.executor.state import ExecutorState, Move
from shunter.model.execution import (
    Command,
    CommandTaken,
    Direction,
    DirectionChanged,
    ElectionBegun,
    FloorRelaxed,
    JournalEntry,
    LimitChanged,
    MoveAccepted,
    MoveClosed,
    MovePaused,
    PlanAccepted,
    StepAccepted,
    StepBegun,
    StepDropped,
    StepFinished,
)
from shunter.model.partition import BrokerId, Replicas
from shunter.views.execution import told_state


@dataclass(frozen=True, slots=True)
class StoryStep:
    """A step of a move. `state`: to come, asked for, under way, done, or dropped."""

    number: int
    state: str
    before: tuple[int, ...]
    after: tuple[int, ...]
    isr: tuple[int, ...]
    """The replicas in sync when the step ended; empty: it has not ended, or they were not seen."""
    reason: str
    """Why the step was begun; of a dropped step, why it was dropped."""
    begun_at_ms: int | None = None
    ended_at_ms: int | None = None
    copied_bytes: int | None = None
    rollback_bytes: int = 0
    """Bytes that a rollback from the step's end copies: originals that are deleted at that point."""


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """An event of a move. `number` counts from 1. `until_ms`: its end, if it lasted. `cause`: a reason or a person."""

    number: int
    at_ms: int
    kind: str
    """accepted, waited, step, election, paused, turned, relaxed, throttle or ended."""
    text: str
    cause: str = ""
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class MoveStory:
    """One move of one execution, from its acceptance to its end or to now."""

    partition: str
    execution: int
    """The execution's number, as `shunter history` counts."""
    executions: tuple[int, ...]
    """All executions that moved the partition, ascending."""
    plan: str
    """The id of its plan, or of the proposal if the plan was a proposal."""
    state: str
    """pending, moving or paused; the outcome if the move has ended."""
    direction: str
    strategy: str
    adopted: bool
    """The move ran already when the executor adopted it, so the order of `original` is a guess."""
    original: tuple[int, ...]
    target: tuple[int, ...]
    replicas: tuple[int, ...]
    """The partition's replicas when no step was under way last; at the move's end, if it has ended."""
    size_bytes: int
    copied_bytes: int
    accepted_at_ms: int
    ended_at_ms: int | None
    reason: str
    """Why the move ended in this way; empty: it is open."""
    steps: tuple[StoryStep, ...]
    waits: str
    """What the move will wait for after the steps to come, as far as is known now; empty: it reaches its goal."""
    events: tuple[StoryEvent, ...]


@dataclass(frozen=True, slots=True)
class PastMove:
    """A move of an execution in one row. `state` is as in its story."""

    partition: str
    state: str
    original: tuple[int, ...]
    target: tuple[int, ...]
    replicas: tuple[int, ...]
    steps: int
    copied_bytes: int
    accepted_at_ms: int
    ended_at_ms: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class ExecutionGist:
    """An execution. `number`: the one that `shunter undo` takes. `counts`: its moves by state or outcome."""

    number: int
    plans: tuple[str, ...]
    """The ids of the plans that it carried out, or of proposals if the plans were proposals."""
    began_at_ms: int
    ended_at_ms: int | None
    counts: dict[str, int]
    copied_bytes: int
    throttle: int | None
    turned: tuple[str, ...]
    """Orders that stopped or rolled back the execution or a part of it."""


OPEN = "open"


def state_of(move: Move) -> str:
    """The state or the outcome of a move, in the words of the page."""
    return told_state(move).replace("_", "-")


def view_execution_gist(execution: Execution) -> ExecutionGist:
    """The view of an execution."""
    counts: dict[str, int] = {}
    for move in execution.every_move:
        state = OPEN if move.open else state_of(move)
        counts[state] = counts.get(state, 0) + 1
    return ExecutionGist(
        execution.number,
        tuple(execution.plans),
        execution.began_at_ms,
        execution.ended_at_ms,
        counts,
        execution.copied_bytes,
        execution.options.throttle,
        tuple(_told(order) for order in execution.turned),
    )


def view_past_move(entries: Sequence[JournalEntry]) -> PastMove:
    """The view of a move of an execution, from all entries about its partition in that execution."""
    move = _move_of(entries)
    return PastMove(
        str(move.tp),
        state_of(move),
        move.original,
        move.target,
        move.current,
        move.steps,
        move.copied_bytes,
        move.accepted_at_ms,
        None if move.ended is None else move.ended.at_ms,
        move.reason,
    )


def tell_story(
    execution: int,
    executions: tuple[int, ...],
    entries: Sequence[JournalEntry],
    shared: Sequence[JournalEntry],
    live: frozenset[BrokerId] | None,
) -> MoveStory:
    """Tell of one move.

    Args:
        execution: The number of its execution.
        executions: All executions that moved the partition, ascending.
        entries: All entries about its partition in that execution, in order; not empty.
        shared: Entries of that execution that are not about a partition: plans, orders, limits.
        live: Brokers that are up; None: not known, so all are taken for live.
    """
    move = _move_of(entries)
    steps = _steps(entries, move)
    waits = ""
    if move.open:
        after = move.current if move.step is None else move.step.after
        brokers = frozenset((*move.original, *move.target, *after)) if live is None else live
        to_come, waiting = ahead(move, after, brokers)
        waits = "" if waiting is None else waiting.reason
        steps += [
            _priced(StoryStep(move.steps + 1 + index, "to come", each.before, each.after, (), _change(each)), move)
            for index, each in enumerate(to_come)
        ]
    first = next(entry for entry in entries if isinstance(entry.record, MoveAccepted))
    return MoveStory(
        partition=str(move.tp),
        execution=execution,
        executions=executions,
        plan=_plan(first, shared),
        state=state_of(move),
        direction=move.direction.value,
        strategy=move.strategy.name.lower().replace("_", "-"),
        adopted=move.adopted,
        original=move.original,
        target=move.target,
        replicas=move.current,
        size_bytes=move.size_bytes,
        copied_bytes=move.copied_bytes,
        accepted_at_ms=first.at_ms,
        ended_at_ms=None if move.ended is None else move.ended.at_ms,
        reason=move.reason,
        steps=tuple(steps),
        waits=waits,
        events=_events(entries, shared, move),
    )


def _move_of(entries: Sequence[JournalEntry]) -> Move:
    """The move after all its entries, by the executor's own fold over them."""
    state = ExecutorState()
    for number, entry in enumerate(entries, 1):
        apply(state, entry._replace(sequence=number))
    (move,) = state.moves.values()
    return move


def _plan(first: JournalEntry, shared: Sequence[JournalEntry]) -> str:
    plans = [
        entry.record.plan_id
        for entry in shared
        if isinstance(entry.record, PlanAccepted) and entry.sequence < first.sequence
    ]
    return plans[-1] if plans else ""


# ---- steps


def _steps(entries: Sequence[JournalEntry], move: Move) -> list[StoryStep]:
    found: dict[int, StoryStep] = {}
    for entry in entries:
        record = entry.record
        match record:
            case StepBegun():
                _end_last(found, entry, "another step took its place")
                step = StoryStep(
                    record.number, "asked for", record.before, record.after, (), record.reason, entry.at_ms
                )
                found[record.number] = _priced(step, move)
            case StepAccepted():
                found[record.number] = replace(found[record.number], state="under way")
            case StepFinished():
                done = replace(found[record.number], state="done", after=record.replicas, isr=record.isr)
                found[record.number] = replace(done, ended_at_ms=entry.at_ms, copied_bytes=record.copied_bytes)
            case StepDropped():
                dropped = replace(found[record.number], state="dropped", reason=record.reason)
                found[record.number] = replace(dropped, ended_at_ms=entry.at_ms)
            case MoveClosed():
                _end_last(found, entry, "the move was ended")
            case _:
                pass
    return list(found.values())


def _end_last(found: dict[int, StoryStep], entry: JournalEntry, why: str) -> None:
    """Drop the step under way, because another step begins or the move is closed."""
    last = next(reversed(found.values()), None)
    if last is not None and last.ended_at_ms is None:
        found[last.number] = replace(last, state="dropped", ended_at_ms=entry.at_ms, reason=why)


def _priced(step: StoryStep, move: Move) -> StoryStep:
    gone = sum(broker not in step.after for broker in move.original)
    return replace(step, rollback_bytes=gone * move.size_bytes)


def _change(step: Begin) -> str:
    return step.reason.partition(": ")[2] or step.reason


# ---- events


def _events(entries: Sequence[JournalEntry], shared: Sequence[JournalEntry], move: Move) -> tuple[StoryEvent, ...]:
    orders = {
        (entry.at_ms, entry.cause): entry.record.command for entry in shared if isinstance(entry.record, CommandTaken)
    }
    found: list[StoryEvent] = []
    begun: dict[str, StoryEvent] = {}
    """Events that have not ended yet, by their kind."""
    for entry in entries:
        order = orders.get((entry.at_ms, entry.cause))
        _add_event(found, begun, entry, "" if order is None else _told(order))
    found += begun.values()
    found += _limits(entries, shared, move)
    found.sort(key=lambda event: event.at_ms)
    return tuple(replace(event, number=number) for number, event in enumerate(found, 1))


def _add_event(found: list[StoryEvent], begun: dict[str, StoryEvent], entry: JournalEntry, cause: str) -> None:
    record, at_ms = entry.record, entry.at_ms
    match record:
        case MoveAccepted():
            how = "taken over from another tool" if record.adopted else "taken on"
            found.append(StoryEvent(0, at_ms, "accepted", f"{how}: {_path(record.original, record.target)}", cause))
            if "step" not in begun:  # Another plan may take on a move whose step goes on.
                begun.setdefault("waited", StoryEvent(0, at_ms, "waited", "no step was under way"))
        case StepBegun():
            _end(found, begun, "waited", at_ms)
            _end(found, begun, "step", at_ms, "; another step took its place")
            same = record.before == record.after
            told = f"step {record.number}: {'back to ' if same else ''}{_path(record.before, record.after)}"
            begun["step"] = StoryEvent(0, at_ms, "step", told, cause or record.reason)
        case StepFinished():
            _end(found, begun, "step", at_ms)
            begun["waited"] = StoryEvent(0, at_ms, "waited", "no step was under way")
        case StepDropped():
            _end(found, begun, "step", at_ms, f"; dropped: {record.reason}")
            begun["waited"] = StoryEvent(0, at_ms, "waited", "no step was under way")
        case ElectionBegun():
            _end(found, begun, "waited", at_ms)
            told = f"broker {record.leader} is elected, for it shall lead"
            begun["election"] = StoryEvent(0, at_ms, "election", told, cause)
        case MovePaused():
            if record.paused:
                begun["paused"] = StoryEvent(0, at_ms, "paused", "paused", cause)
            else:
                _end(found, begun, "paused", at_ms, f", until {cause or 'it was resumed'}")
        case DirectionChanged():
            for kind in ("paused", "election"):
                _end(found, begun, kind, at_ms)
            found.append(StoryEvent(0, at_ms, "turned", _DIRECTIONS[record.direction], cause))
        case FloorRelaxed():
            told = "the floor was relaxed: it may go on without replicas that are out of sync"
            found.append(StoryEvent(0, at_ms, "relaxed", told, cause))
        case MoveClosed():
            for kind in ("waited", "step", "paused", "election"):
                _end(found, begun, kind, at_ms)
            told = f"{record.outcome.told}, at {_listed(record.replicas)}"
            found.append(StoryEvent(0, at_ms, "ended", told, cause or record.reason))
        case _:
            pass


_DIRECTIONS = {
    Direction.FORWARD: "goes to its target again",
    Direction.STOP: "to be stopped where it is",
    Direction.BACK: "to be rolled back",
}


def _end(found: list[StoryEvent], begun: dict[str, StoryEvent], kind: str, at_ms: int, more: str = "") -> None:
    """Add an event that has ended; a wait that took no time is left out."""
    event = begun.pop(kind, None)
    if event is not None and (kind != "waited" or at_ms > event.at_ms):
        found.append(replace(event, until_ms=at_ms, text=event.text + more))


def _limits(entries: Sequence[JournalEntry], shared: Sequence[JournalEntry], move: Move) -> Iterable[StoryEvent]:
    """Changes of the throttle while the move was open."""
    for entry in shared:
        began = entry.sequence > entries[0].sequence
        if isinstance(entry.record, LimitChanged) and began and (move.open or entry.sequence < entries[-1].sequence):
            rate = entry.record.bytes_per_s
            told = "the throttle was lifted" if rate is None else f"the throttle became {rate:,} bytes per second"
            yield StoryEvent(0, entry.at_ms, "throttle", told, entry.record.reason)


def _told(order: Command) -> str:
    by = f", asked for by {order.given_by}" if order.given_by else ""
    return f"{order.kind.value.replace('_', ' ')}{by}"


def _listed(replicas: Replicas) -> str:
    return ", ".join(map(str, replicas))


def _path(before: Replicas, after: Replicas) -> str:
    return _listed(after) if before == after else f"{_listed(before)} → {_listed(after)}"
