"""An execution as people see it: the read model for the terminal, JSON lines, the web and metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeGuard

from shunter.core.executor.ending import FEWEST_ENDED, Ending, when_it_ends
from shunter.core.executor.estimates.eta import LEAST_MS, Estimate, bytes_left, placing_left, size_unknown
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.foresight.hold_ups import hold_up
from shunter.core.executor.orders import rollback_cost
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.throttling.debts import told_debts
from shunter.core.throttles import told_rates
from shunter.core.wording import told_bytes, told_ms
from shunter.model.execution import BOUNDS, Direction, Outcome, ThrottleKey
from shunter.model.partition import BrokerId

MOST_WHILE_OPEN = 0.999


@dataclass(frozen=True, slots=True)
class MoveRow:
    """One move. `state`: pending, moving, paused, or how it ended; bytes are of this move alone."""

    partition: str
    state: str
    direction: str
    original: tuple[int, ...]
    current: tuple[int, ...]
    target: tuple[int, ...]
    step: tuple[int, ...] | None
    steps: int
    waits: str
    """What it waits for, and why it may not end; "": nothing is known."""
    stuck: str
    """Why the move can't end now, and the way out; "": nothing is known that keeps it from ending."""
    total_bytes: int
    copied_bytes: int
    rollback_bytes: int


@dataclass(frozen=True, slots=True)
class ExecutionView:
    """An execution at one moment. Times are milliseconds; `left_ms` None: unknown yet."""

    at_ms: int
    cluster_id: str
    plan_id: str
    running: bool
    limit: int | None
    counts: dict[str, int]
    total_bytes: int
    copied_bytes: int
    bytes_per_s: float | None
    left_ms: int | None
    low_ms: int | None
    high_ms: int | None
    held: str
    """Shown beside the ETA, or instead of it: which moves are paused or stuck, and why; "": none."""
    rollback_bytes: int
    """The most that a rollback of all open moves would copy."""
    brokers_down: tuple[int, ...]
    silent_ms: int
    """For how long the cluster has not answered; 0: it answers."""
    throttles_left: int
    owed: str
    """Brokers and topics whose throttles are still to be given back, and which no open move needs; "": none."""
    moves: tuple[MoveRow, ...]
    cordons: dict[str, str] = field(default_factory=dict[str, str])
    """By broker that an execution cordoned: the id of its plan."""
    bounds: dict[str, int] = field(default_factory=dict[str, int])
    """The most copies at a time, by the names of `BOUNDS`; 0: no bound."""
    plan_bytes: int = 0
    """The bytes of all its moves as they were accepted, however they go on or end."""
    added_bytes: int = 0
    """Those of them that came with later plans."""
    unsized: int = 0
    """Open moves of which nobody knows yet how many bytes they copy; no sum has them."""
    lower: str = ""
    """Brokers that somebody else's throttle holds below the limit, with its rate; "": none."""
    age_ms: int = 0
    """How old the figures are that only the driver measures: bytes, what holds moves up, brokers that are down."""

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1: by the bytes of the plan if they are known and not 0, else by moves.

        A move that is stopped or rolled back changes what is left and not the base. So the share falls only if a plan is
        added, or if bytes have to be copied again; and it is 1 only if no move is open.
        """
        left, base = self.to_copy
        if base > 0 and not self.unsized:
            going = any(self.counts.get(state) for state in OPEN_STATES)
            return min(MOST_WHILE_OPEN if going else 1.0, max(0, base - left) / base)
        ended = sum(count for state, count in self.counts.items() if state not in OPEN_STATES)
        everything = sum(self.counts.values())
        return 1.0 if everything == 0 else ended / everything

    @property
    def to_copy(self) -> tuple[int, int]:
        """Bytes that are still to be copied, and those of the whole plan, on which `share` rests."""
        return max(0, self.total_bytes - self.copied_bytes), self.plan_bytes or self.total_bytes


_VIEW = tuple(each.name for each in fields(ExecutionView))
_VIEW_KINDS: Mapping[str, type] = {
    "at_ms": int,
    "counts": dict,
    "moves": list,
    "brokers_down": list,
    "cordons": dict,
    "bounds": dict,
}
_ROW = tuple(each.name for each in fields(MoveRow))
_ROW_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "original": list,
    "current": list,
    "target": list,
    "step": (list, type(None)),
}
OPEN_STATES = ("pending", "moving", "paused")
OLD_MS = 10_000
"""A driver writes its view every second, or less often if it has thousands of moves. Older figures are told as old."""


def as_its_driver_sees_it(view: ExecutionView, live: ExecutionView) -> ExecutionView:
    """A journal's view with the figures that only its driver measures: copied bytes, the ETA, what moves wait for.

    A move that has ended, or was turned, after the driver's view was made stays as in the journal. So does a move that
    is not in the driver's view, which lists a limited number of moves; its sums are of all moves. Figures that are old
    tell no end.
    """
    age_ms = max(0, view.at_ms - live.at_ms)
    if age_ms >= OLD_MS:
        live = replace(live, bytes_per_s=None, left_ms=None, low_ms=None, high_ms=None)
    seen = {(row.partition, row.direction, row.target): row for row in live.moves}
    rows = tuple(_measured(row, seen.get((row.partition, row.direction, row.target))) for row in view.moves)
    return replace(
        view,
        total_bytes=live.total_bytes,
        copied_bytes=live.copied_bytes,
        bytes_per_s=live.bytes_per_s,
        left_ms=live.left_ms,
        low_ms=live.low_ms,
        high_ms=live.high_ms,
        held=live.held,
        unsized=live.unsized,
        lower=live.lower,
        rollback_bytes=live.rollback_bytes,
        brokers_down=live.brokers_down,
        silent_ms=live.silent_ms,
        age_ms=age_ms,
        moves=rows,
    )


def _measured(row: MoveRow, seen: MoveRow | None) -> MoveRow:
    if seen is None or row.state not in OPEN_STATES:
        return row
    now = replace(row, copied_bytes=seen.copied_bytes, rollback_bytes=seen.rollback_bytes)
    # What it waited for before this step began is over.
    return now if seen.step != row.step else replace(now, waits=seen.waits, stuck=seen.stuck)


def view_execution(
    state: ExecutorState,
    meter: Meter,
    limit: int | None,
    now_ms: int,
    others: Mapping[ThrottleKey, int] | None = None,
) -> ExecutionView:
    """Make the view of an execution, open moves first. `others`: others' throttles that hold instead of its own."""
    rows = [_row(state, meter, move) for move in state.moves.values()]
    moves = [*state.earlier, *state.moves.values()]
    every = [*(_row(state, meter, move) for move in state.earlier), *rows]
    counts = dict(Counter(row.state for row in every))
    ending = when_it_ends(state, meter, now_ms, others or {}) if state.running else Ending(None, "")
    guess: Estimate | None = ending.estimate
    first_ms = min((move.accepted_at_ms for move in moves), default=0)
    rows.sort(key=lambda row: OPEN_STATES.index(row.state) if row.state in OPEN_STATES else len(OPEN_STATES))
    return ExecutionView(
        at_ms=now_ms,
        cluster_id=state.cluster_id,
        plan_id=state.plan_id,
        running=state.running,
        limit=limit,
        counts=counts,
        total_bytes=sum(row.total_bytes for row in every),
        copied_bytes=sum(row.copied_bytes for row in every),
        bytes_per_s=None if guess is None else guess.bytes_per_s,
        left_ms=None if guess is None else guess.left_ms,
        low_ms=None if guess is None else guess.low_ms,
        high_ms=None if guess is None else guess.high_ms,
        held=ending.held,
        rollback_bytes=sum(row.rollback_bytes for row in rows),
        brokers_down=tuple(sorted(state.cluster.down_since_ms.keys() | _down(state))),
        silent_ms=0 if state.cluster.silent_since_ms is None else max(1, now_ms - state.cluster.silent_since_ms),
        throttles_left=len(state.throttles),
        owed=told_debts(state.owed()),
        moves=tuple(rows),
        cordons={str(broker): plan_id for broker, plan_id in sorted(state.cordoned().items())},
        bounds={name: getattr(state.options, name) for name in BOUNDS},
        plan_bytes=sum(map(_planned, moves)),
        unsized=sum(size_unknown(state, move) for move in state.open_moves()),
        lower=told_rates(others or {}),
        added_bytes=sum(_planned(move) for move in moves if move.accepted_at_ms > first_ms),
    )


def view_of(view: ExecutionView, state: ExecutorState, meter: Meter, moves: Iterable[Move]) -> ExecutionView:
    """The view with the rows and counts of these moves alone; its sums stay those of the execution."""
    rows = tuple(_row(state, meter, move) for move in moves)
    return replace(view, counts=dict(Counter(row.state for row in rows)), moves=rows)


def _down(state: ExecutorState) -> set[BrokerId]:
    """Brokers that open moves have to do with and that are not live, as far as the live ones are known."""
    live = state.cluster.brokers
    named = {broker for move in state.open_moves() for broker in (*move.original, *move.current, *move.target)}
    return named.difference(live) if live else set()


def told_eta(view: ExecutionView) -> str:
    """When the execution ends, with its interval; or why it does not end, or that the end is not known yet."""
    if view.left_ms is None or view.low_ms is None or view.high_ms is None or view.bytes_per_s is None:
        by_bytes = view.copied_bytes < view.total_bytes
        wanted = f"about {LEAST_MS // 1000} s of copying" if by_bytes else f"{FEWEST_ENDED} moves have ended"
        if view.age_ms >= OLD_MS:
            return view.held or "no ETA: these figures are old"
        return view.held or f"no ETA yet: it is known after {wanted}"
    rate = f"{told_bytes(int(view.bytes_per_s))}/s, " if view.bytes_per_s else ""
    what = "the moves that go on end" if view.held else "ends"
    told = f"{rate}{what} in {told_ms(view.left_ms)} ({told_ms(view.low_ms)} to {told_ms(view.high_ms)})"
    return f"{told}; {view.held}" if view.held else told


def undriven(view: ExecutionView) -> ExecutionView:
    """The view of an execution that no executor drives: steps that were asked for go on, and no other step begins."""
    nobody = "no end: no executor drives it until `shunter resume`, or a service that stands by takes over"
    return replace(view, bytes_per_s=None, left_ms=None, low_ms=None, high_ms=None, held=nobody)


def view_to_json(view: ExecutionView, *, most_moves: int | None = None) -> dict[str, Any]:
    """The view as a JSON object, with the share done; at most so many moves, open ones first."""
    # `asdict` would copy deeply: with thousands of moves that would cost more than all decisions.
    document = {name: getattr(view, name) for name in _VIEW}
    document["moves"] = [row_to_json(row) for row in view.moves[:most_moves]]
    document["share"] = round(view.share, 6)
    return document


def row_to_json(row: MoveRow) -> dict[str, Any]:
    """A move as a JSON object."""
    return {name: getattr(row, name) for name in _ROW}


def view_from_json(document: object) -> ExecutionView | None:
    """A view that another process left; None: it is not a view, or another version of this program wrote it."""
    if not _has(document, _VIEW, _VIEW_KINDS):
        return None
    rows = tuple(_row_from_json(row) for row in document["moves"] if _has(row, _ROW, _ROW_KINDS))
    if len(rows) < len(document["moves"]):
        return None
    found = {name: document[name] for name in _VIEW}
    return ExecutionView(**found | {"brokers_down": tuple(found["brokers_down"]), "moves": rows})


def _has(
    document: object, names: Collection[str], kinds: Mapping[str, type | tuple[type, ...]]
) -> TypeGuard[dict[str, Any]]:
    """Whether a JSON value is an object with all these members, and some of them are of these kinds."""
    if not isinstance(document, dict) or not set(names) <= document.keys():
        return False
    return all(isinstance(document[name], kind) for name, kind in kinds.items())


def _row_from_json(document: dict[str, Any]) -> MoveRow:
    replicas = {name: tuple(document[name]) for name in ("original", "current", "target")}
    step = None if document["step"] is None else tuple(document["step"])
    return MoveRow(**{name: document[name] for name in _ROW} | replicas | {"step": step})


def told_state(move: Move) -> str:
    """The state of a move: pending, moving, paused, or its outcome."""
    if move.outcome is not None:
        return move.outcome.value
    if move.paused:
        return "paused"
    return "pending" if move.began_at_ms is None else "moving"


def _row(state: ExecutorState, meter: Meter, move: Move) -> MoveRow:
    left = sum(bytes_left(state, move, meter.present).values()) + sum(placing_left(state, move).values())
    total, found = _total(move) + (left if move.direction is Direction.STOP else 0), hold_up(state, move)
    waits = "; ".join(filter(None, (move.waits.text, found.doubt))) if move.open else move.reason
    return MoveRow(
        partition=str(move.tp),
        state=told_state(move),
        direction=move.direction.value,
        original=move.original,
        current=move.current,
        target=move.target,
        step=None if move.step is None else move.step.after,
        steps=move.steps,
        waits=waits,
        stuck=found.stuck,
        total_bytes=total,
        copied_bytes=max(0, total - left) if move.open else total,
        rollback_bytes=rollback_cost(move),
    )


def _planned(move: Move) -> int:
    """Bytes that a move copies to its target in all, whatever becomes of it."""
    new = sum(broker not in move.original for broker in move.target)
    return move.size_bytes * (new + len(move.placing))


def _total(move: Move) -> int:
    """Bytes that a move has to copy in all, to its target or back; if it ended elsewhere, the bytes that it copied."""
    if move.direction is Direction.STOP or move.outcome not in (None, Outcome.DONE, Outcome.ROLLED_BACK):
        return move.copied_bytes
    if move.direction is Direction.BACK:
        return move.size_bytes * len(move.again)
    return _planned(move) + move.size_bytes * len(move.again)
