"""Past executions of a journal: what each moved, how it ended, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from shunter.core.executor.apply import apply
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.throttles import ALL_LOG_DIRS, CORDONED_LOG_DIRS
from shunter.model.execution import (
    Command,
    CommandKind,
    CommandTaken,
    ExecutionOptions,
    JournalEntry,
    MoveOrder,
    Outcome,
    PlanAccepted,
    ThrottleRemembered,
    ThrottleRestored,
)
from shunter.model.partition import BrokerId, TopicPartition

_TURNING = (CommandKind.STOP, CommandKind.ROLL_BACK, CommandKind.LEAVE)
_OTHERS = (Outcome.SUPERSEDED, Outcome.FOREIGN, Outcome.GONE)
"""After these outcomes another tool decided where the partition is, or deleted it."""


@dataclass(slots=True)
class Execution:
    """One execution: from its first plan to the end of its last move. `number` counts from 1, as people name it."""

    number: int
    began_at_ms: int
    plans: list[str]
    options: ExecutionOptions
    moves: dict[TopicPartition, Move]
    earlier: list[Move] = field(default_factory=list[Move])
    """Moves that had ended when a later plan of the same execution moved their partition again."""
    first_sequence: int = 1
    """The journal's entry that began it."""
    turned: list[Command] = field(default_factory=list[Command])
    """Orders that stopped, rolled back or left it, as a whole or in part."""
    turned_at_ms: int | None = None
    """When the last of them was given."""
    throttles: list[int | None] = field(default_factory=list[int | None])
    """Rates that plans and orders set one after another, bytes per second and broker, None: no throttle.

    Rates that `--throttle-floor` led to meanwhile are not among them.
    """
    refused: int = 0
    """How many partitions of its plans were not taken on."""
    cordons: dict[BrokerId, str] = field(default_factory=dict[BrokerId, str])
    """The former `cordoned.log.dirs` of brokers, if the execution changed it and left it changed; "": not set."""

    @property
    def every_move(self) -> list[Move]:
        """All moves; a partition that was moved again has several, in the order in which they were begun."""
        return [*self.earlier, *self.moves.values()]

    @property
    def ended_at_ms(self) -> int | None:
        """When its last move ended; None: it goes on."""
        ends = [move.ended for move in self.moves.values()]
        return None if None in ends else max((ended.at_ms for ended in ends if ended is not None), default=0)

    @property
    def copied_bytes(self) -> int:
        """Bytes that were copied in all steps that were seen to their end."""
        return sum(move.copied_bytes for move in self.every_move)


@dataclass(frozen=True, slots=True)
class Undoing:
    """The reverse of an execution: the moves back, and sentences about what stays or is uncertain (`told`)."""

    moves: tuple[MoveOrder, ...]
    told: tuple[str, ...]
    copied_bytes: int = 0
    """Bytes that the moves back copy, by the sizes at the time of the execution."""


class Past:
    """The executions of a journal, found entry by entry, so that a journal can be followed while it is written."""

    def __init__(self) -> None:
        """Begin without any entry."""
        self._state = ExecutorState()
        self.found: list[Execution] = []

    def take(self, entry: JournalEntry) -> None:
        """Take the next entry.

        Raises:
            InvariantViolation: the entry does not follow from the entries before it.
        """
        record = entry.record
        begins = isinstance(record, PlanAccepted) and not self._state.at_work
        apply(self._state, entry)
        if isinstance(record, PlanAccepted):
            if begins:
                number, state = len(self.found) + 1, self._state
                begun = Execution(number, entry.at_ms, [], record.options, state.moves, state.earlier, entry.sequence)
                self.found.append(begun)
            self.found[-1].plans.append(record.plan_id)
            self.found[-1].refused += record.refused
            self._throttled(record.options.throttle)
        elif isinstance(record, CommandTaken) and self.found:
            self._ordered(record.command, entry.at_ms)
        elif isinstance(record, ThrottleRemembered | ThrottleRestored) and self.found:
            self._cordoned(record)

    def _ordered(self, command: Command, at_ms: int) -> None:
        if command.kind in _TURNING:
            self.found[-1].turned.append(command)
            self.found[-1].turned_at_ms = at_ms
        elif command.kind is CommandKind.LIMIT:
            self._throttled(command.bytes_per_s)

    def _cordoned(self, record: ThrottleRemembered | ThrottleRestored) -> None:
        if record.key.setting != CORDONED_LOG_DIRS:
            return
        broker = int(record.key.name)
        if isinstance(record, ThrottleRemembered):
            self.found[-1].cordons[broker] = record.value or ""
        elif not record.left:
            # An undo that was turned gave back the cordon of the execution before it.
            again = self.found[-1].cordons.get(broker) == ALL_LOG_DIRS
            for execution in self.found[-1:] if again else self.found:
                execution.cordons.pop(broker, None)

    def _throttled(self, rate: int | None) -> None:
        throttles = self.found[-1].throttles
        if throttles[-1:] != [rate]:
            throttles.append(rate)


def executions(entries: Iterable[JournalEntry]) -> tuple[Execution, ...]:
    """All executions of a journal, the first one first.

    Raises:
        InvariantViolation: the entries are not a journal.
    """
    past = Past()
    for entry in entries:
        past.take(entry)
    return tuple(past.found)


def _log_dirs_before(move: Move) -> tuple[tuple[BrokerId, str], ...]:
    """The former log dirs of replicas that left their log dir or their broker, and were not brought back."""
    if move.outcome is Outcome.ROLLED_BACK:
        return ()
    return tuple(each for each in move.origins if each[0] in move.placed or each[0] not in move.current)


def _joined(chain: list[Move]) -> Move:
    """Moves of one partition that followed one another, as one: from the first one's start to the last one's end."""
    first, last = chain[0], chain[-1]
    origins = {**dict(last.origins), **dict(first.origins)}
    kept = tuple((broker, path) for broker, path in sorted(origins.items()) if broker in first.original)
    return replace(last, original=first.original, origins=kept, led_by=first.led_by, adopted=first.adopted)


def reverse(execution: Execution, why_left_out: Callable[[MoveOrder], str] = lambda _order: "") -> Undoing:
    """The way back from an execution. Pre: all its moves have ended.

    Each partition is taken back only from where the execution left it. A partition that was moved since stays.

    Args:
        execution: As the journal has it.
        why_left_out: Tells why a partition stays that would be moved back; "": it is moved back.
    """
    moves: list[MoveOrder] = []
    told: list[str] = []
    copied = 0
    for tp in sorted(execution.moves):
        move = execution.moves[tp]
        chain = [*(each for each in execution.earlier if each.tp == tp), move]
        if strange := [each for each in chain if each.outcome in _OTHERS]:
            told.append(f"{tp} stays: {strange[0].reason}")
            continue
        if len(chain) > 1:
            move = _joined(chain)
        log_dirs = _log_dirs_before(move)
        placed = [broker for broker, _path in log_dirs if broker in move.placed]
        led_before = move.led_by is not None and move.led_by == move.original[0]
        back = MoveOrder(tp, move.original, move.strategy, log_dirs, move.current, led_before)
        goes = bool(move.current) and (move.current != move.original or bool(placed))
        if goes and (why := why_left_out(back)):
            told.append(f"{tp} stays: {why}")
            continue
        if move.placed - dict(log_dirs).keys() and move.outcome is Outcome.DONE:
            told.append(f"{tp}: its log dirs stay as they are, for the journal does not know those before")
        if move.led_by is not None and move.led_by >= 0 and not led_before and move.outcome is Outcome.DONE:
            told.append(f"{tp}: its leader stays, for broker {move.led_by}, which led it, was not its first replica")
        if not goes:
            continue
        if move.adopted:
            told.append(f"{tp}: it was taken over, so the order of its original replicas is a guess")
        copied += move.size_bytes * (sum(broker not in move.current for broker in move.original) + len(placed))
        moves.append(back)
    return Undoing(tuple(moves), tuple(told), copied)
