"""The state by the journal's durable entries, folded without the executor's code; rules compare with it."""

from __future__ import annotations

from dataclasses import dataclass, field

from shunter.model.execution import (
    Command,
    CommandKind,
    Direction,
    ExecutionOptions,
    JournalEntry,
    Outcome,
    StepBegun,
    ThrottleKey,
)
from shunter.model.partition import BrokerId, Replicas, TopicPartition


@dataclass(slots=True)
class LedgerMove:
    """One move, by its durable entries."""

    tp: TopicPartition
    original: Replicas
    target: Replicas
    adopted: bool
    accepted_us: int
    log_dirs: tuple[tuple[BrokerId, str], ...] = ()
    origins: tuple[tuple[BrokerId, str], ...] = ()
    """The log dirs of the originals, as the first entry recorded them."""
    asked_before: frozenset[tuple[BrokerId, str]] = frozenset()
    """The log dirs that former orders of this move may have asked for."""
    copies: dict[BrokerId, int] = field(default_factory=dict[BrokerId, int])
    """Brokers that the journal has as copying to a log dir of the present order, and since when."""
    cancelled: bool = False
    """The journal has that another tool cancelled one of these copies."""
    cancelled_from: dict[BrokerId, int] = field(default_factory=dict[BrokerId, int])
    """The same, with those that were seen to have ended since."""
    direction: Direction = Direction.FORWARD
    paused: bool = False
    paused_us: int = 0
    """When it was paused or resumed last."""
    relaxed: bool = False
    step: StepBegun | None = None
    steps: int = 0
    wanted: set[Replicas] = field(default_factory=set[Replicas])
    """Replicas that its steps have asked for. A request of another tool for the same can't be distinguished."""
    given_up: bool = False
    """Whether its last step was given up."""
    outcome: Outcome | None = None
    elects: bool = False
    """Whether its plan wants the first replica elected."""
    electing: bool = False
    """Whether an election is begun since it was accepted, or turned last."""

    @property
    def goal(self) -> Replicas:
        """The replicas that it heads for."""
        return self.original if self.direction is Direction.BACK else self.target

    @property
    def places(self) -> tuple[tuple[BrokerId, str], ...]:
        """The log dirs that may be asked for its replicas."""
        if self.direction is Direction.STOP:
            return ()
        if self.direction is Direction.BACK:
            return tuple(each for each in self.origins if each[0] in self.original)
        return self.log_dirs

    @property
    def asked_for(self) -> frozenset[tuple[BrokerId, str]]:
        """All log dirs that its orders may have asked for. Copies to them are its own."""
        return self.asked_before.union(self.log_dirs, self.places)

    @property
    def copying(self) -> frozenset[BrokerId]:
        """Brokers that the step under way copies to."""
        return frozenset() if self.step is None else frozenset(self.step.after) - frozenset(self.step.before)


@dataclass(slots=True)
class LedgerThrottle:
    """One setting that was touched: the value before, and all values that the executor set."""

    before: str | None
    since_us: int
    values: list[str] = field(default_factory=list[str])


class JournalLedger:
    """The fold over the journal's entries."""

    def __init__(self) -> None:
        """Begin with an empty journal."""
        self.entries: list[JournalEntry] = []
        self.running = False
        self.options = ExecutionOptions()
        self.moves: dict[TopicPartition, LedgerMove] = {}
        self.throttles: dict[ThrottleKey, LedgerThrottle] = {}
        self.limit: int | None = None
        self.accepted = 0
        self.commands = 0

    def open_moves(self) -> list[LedgerMove]:
        """Moves that have not ended."""
        return [move for move in self.moves.values() if move.outcome is None]

    def open_move(self, tp: TopicPartition) -> LedgerMove | None:
        """The move of a partition that has not ended."""
        move = self.moves.get(tp)
        return move if move is not None and move.outcome is None else None

    def obey(self, command: Command) -> None:
        """Apply an operator's order to every open move that it names."""
        self.commands += 1
        turns = {CommandKind.STOP: Direction.STOP, CommandKind.ROLL_BACK: Direction.BACK}
        for move in self.open_moves():
            if command.partitions and move.tp not in command.partitions:
                continue
            if command.kind in turns:
                move.asked_before, move.copies, move.cancelled_from = move.asked_for, {}, {}
                move.direction, move.paused = turns[command.kind], False
            elif command.kind in (CommandKind.PAUSE, CommandKind.RESUME):
                move.paused = command.kind is CommandKind.PAUSE
            elif command.kind is CommandKind.RELAX:
                move.relaxed = True
