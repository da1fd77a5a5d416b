"""A cluster, its journal and its executor as the service meets them, without sockets: they behave, and outlive a service."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from shunter.app.evaluation.observation import sighting_of
from shunter.app.evaluation.policy import KeptCluster
from shunter.app.executor.order_costs import Again
from shunter.app.executor.session import Target
from shunter.app.service.driving import Driving, JournalledOrder, PlanFate, Seat
from shunter.app.service.keeping import ClusterKeeper, KeeperParts
from shunter.app.service.orders import OrderDesk
from shunter.app.service.published import Published
from shunter.app.service.records import Records
from shunter.app.service.shared_words import SharedWords
from shunter.app.service.thinking import LookQuestion, Thought, Wish, sketch, think
from shunter.core.executor.ready import CommandReply, MoveResult, PlanReply
from shunter.core.keeper.sighting import PastExecution, Sighting
from shunter.drivers.journal.claimants import ClusterClaimed
from shunter.drivers.journal.execution import ExecutorEnded
from shunter.drivers.journal.order_taker import OrderGate
from shunter.drivers.service.store import ServiceStore, StoreFailed
from shunter.errors import DriverError
from shunter.model.check_up import CheckedJournal, CheckUp, OpenMove
from shunter.model.execution import Command, CommandKind, ExecutionOptions, MoveOrder, OngoingReassignment, ThrottleKey
from shunter.model.inventory import Inventory, InventoryBroker, InventoryPartition
from shunter.model.keeper import DEFAULTS, GuardRails, KeeperPolicy, Mode
from shunter.model.notice import Notice
from shunter.model.partition import TopicPartition
from shunter.model.service import HistoryEvent, KeptProposal, ProposalState, StoreBatch
from shunter.views.execution import ExecutionView, MoveRow

MIB = 1024 * 1024
TURNING = (CommandKind.STOP, CommandKind.ROLL_BACK)
LOPSIDED: tuple[tuple[int, ...], ...] = ((1, 2),) * 6


class Killed(BaseException):
    """The service dies, as by SIGKILL: nothing of it runs any more."""


@dataclass
class Clock:
    """Time that goes on when a test says so."""

    ms: int = 12 * 3_600_000

    def now_ms(self) -> int:
        return self.ms


@dataclass
class Journalled:
    """A move in the journal."""

    plan: str
    target: tuple[int, ...]
    original: tuple[int, ...]
    paused: bool = False
    outcome: str = ""
    ended_at_ms: int | None = None


@dataclass
class Yard:
    """One cluster with one topic, and its journal."""

    clock: Clock
    rows: list[tuple[int, ...]] = field(default_factory=lambda: [*LOPSIDED])
    brokers: tuple[int, ...] = (1, 2, 3)
    moves: dict[int, Journalled] = field(default_factory=dict)
    plans: dict[str, list[int]] = field(default_factory=dict)
    submitted: list[str] = field(default_factory=list)
    """Every plan that reached the journal, once for each time."""
    planned_ms: dict[str, int] = field(default_factory=dict)
    orders: list[Command] = field(default_factory=list)
    ended_ms: list[int] = field(default_factory=list)
    answers: bool = True
    held_by: str = ""
    dies: str = ""
    """"before" or "after" the next plan is in the journal; "order": before any order is."""
    journals: asyncio.Event | None = None
    """Set: the journal takes plans and orders; None: it always does."""
    others: dict[int, OngoingReassignment] = field(default_factory=dict)
    listeners: list[Callable[[], None]] = field(default_factory=list)
    size: int = MIB
    """Bytes of each replica."""
    gate: OrderGate | None = None
    """Judges orders of other shells."""
    price: int = 0
    """What an order would make be copied again."""
    throttles: int = 0
    """Throttles that no execution restores."""
    unheard_ms: int = 0
    """For how long the claim has not been confirmed."""
    silent_ms: int = 0
    """For how long requests of the executor have had no answer."""
    beside: int | None = None
    """Bytes on each broker beside replicas; None: half of its disks is free, whatever it holds."""

    cordoned: tuple[int, ...] = ()
    knows_cordons: bool = True
    cordons: dict[int, str] = field(default_factory=dict)
    """By broker that a plan of the journal cordoned: the plan's id."""
    fenced: tuple[int, ...] = ()
    silent: tuple[int, ...] = ()
    """Brokers that do not tell their log dirs."""
    owes: bool = False
    """Throttles of moves that have ended are still to be given back."""
    journal_read: bool = True
    """Whether looks can read the journal."""

    def _usable(self, broker: int) -> int:
        if self.beside is None:
            return 50 * MIB
        return 100 * MIB - self.beside - self.size * sum(broker in row for row in self.rows)

    def sight(self) -> Sighting:
        """What a look sees."""
        if not self.answers:
            raise DriverError("no broker answers", retriable=True)
        live = tuple(
            InventoryBroker(
                b,
                f"host{b}",
                None,
                100 * MIB,
                self._usable(b),
                cordoned=(b in self.cordoned) if self.knows_cordons else None,
            )
            for b in self.brokers
        )
        fenced = tuple(InventoryBroker(b, f"host{b}", None, None, None, fenced=True) for b in self.fenced)
        partitions = []
        for at, replicas in enumerate(self.rows):
            isr = tuple(b for b in replicas if b in self.brokers)
            sizes = tuple((b, self.size) for b in isr)
            lost = tuple(b for b in replicas if b not in isr)
            leader = isr[0] if isr else -1
            adding = self.others[at].adding if at in self.others else ()
            partitions.append(
                InventoryPartition("t", None, at, replicas, isr, leader, 0, 1, 1, sizes, lost, adding=adding)
            )
        ongoing = {TopicPartition("t", at): each for at, each in self.others.items()}
        opened = tuple(
            OpenMove(
                TopicPartition("t", at), move.original, move.target, "paused" if move.paused else "moving", "forward"
            )
            for at, move in self.moves.items()
            if not move.outcome
        )
        left = tuple(
            (ThrottleKey("broker", str(at), "leader.replication.throttled.rate"), "5") for at in range(self.throttles)
        )
        seen = CheckUp("yard", 1, "Apache (KRaft)", (), (), ongoing, left)
        past = tuple(PastExecution(ms, ms, 1, MIB) for ms in self.ended_ms)
        taken = Inventory("yard", self.clock.ms, live, tuple(partitions), fenced=fenced)
        taken = taken._replace(unanswered=tuple((broker, "no answer") for broker in self.silent))
        if not self.journal_read:
            return sighting_of(taken, seen, CheckedJournal("j"), None)
        return sighting_of(taken, seen, CheckedJournal("j", moves=opened, cordons=self.cordons), past)

    def copy(self) -> None:
        """All copies that are not paused end."""
        for at, move in self.moves.items():
            if not move.outcome and not move.paused:
                self.rows[at], move.outcome, move.ended_at_ms = move.target, "done", self.clock.ms
        self.tell()

    def tell(self) -> None:
        """The executor publishes its view."""
        for listener in [*self.listeners]:
            listener()

    @property
    def open(self) -> list[int]:
        return [at for at, move in self.moves.items() if not move.outcome]

    @contextlib.asynccontextmanager
    async def seat(self, listener: Callable[[Notice], None]) -> AsyncIterator[Driving]:
        """Drive it, unless somebody else does."""
        if self.held_by:
            raise ClusterClaimed(self.held_by)
        if not self.answers:
            raise DriverError("no broker answers", retriable=True)
        self.held_by = "the service"
        try:
            yield YardDriving(self)
        finally:
            self.held_by = ""


@dataclass
class YardDriving:
    """The executor of a yard, in the hands of one service."""

    yard: Yard
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def granted(self) -> None:
        await asyncio.sleep(0)

    def claimed_at_ms(self) -> int | None:
        return self.yard.clock.ms - self.yard.unheard_ms

    async def fates(self) -> Mapping[str, PlanFate]:
        return {
            plan: fate_of([self.yard.moves[at] for at in rows if self.yard.moves[at].plan == plan])._replace(
                turned=next((e for e in reversed(self.yard.orders) if e.kind in TURNING), None)
            )
            for plan, rows in self.yard.plans.items()
        }

    async def submit(self, plan_id: str, moves: Sequence[MoveOrder], options: ExecutionOptions) -> PlanReply:
        yard = self.yard
        await asyncio.sleep(0)
        if yard.journals is not None:
            await yard.journals.wait()
        if yard.dies == "before":
            yard.dies = ""
            raise ExecutorEnded("the executor ended before it could answer", retriable=False)
        results, taken = [], []
        for move in moves:
            at = move.tp.partition
            fits = yard.rows[at] == tuple(move.planned_from) and at not in yard.open
            results.append(MoveResult(move.tp, None if fits else "it is elsewhere"))
            if fits:
                yard.moves[at] = Journalled(plan_id, tuple(move.target), yard.rows[at])
                taken.append(at)
        if not taken:
            return PlanReply("nothing of the plan can be moved", tuple(results))
        yard.plans[plan_id], yard.planned_ms[plan_id] = taken, yard.clock.ms
        yard.submitted.append(plan_id)
        yard.cordons |= {broker: plan_id for broker, _value in options.cordons}
        if yard.dies == "after":
            yard.dies = ""
            raise ExecutorEnded("the executor ended before it could answer", retriable=False)
        return PlanReply(None, tuple(results))

    async def command(self, command: Command) -> CommandReply:
        yard = self.yard
        if yard.journals is not None:
            await yard.journals.wait()
        if yard.dies == "order":
            raise ExecutorEnded("the executor ended before it could answer", retriable=False)
        yard.orders.append(command)
        if command.kind is CommandKind.UNCORDON:
            yard.cordons = {at: plan for at, plan in yard.cordons.items() if at not in command.brokers}
            return CommandReply(True, "given back")
        named = [tp.partition for tp in command.partitions] or yard.open
        if not yard.open:
            return CommandReply(False, "nothing is under way")
        for at in named:
            move = yard.moves[at]
            if command.kind is CommandKind.ROLL_BACK:
                move.outcome = "rolled_back"
            elif command.kind is CommandKind.STOP:
                move.outcome = "stopped"
            elif command.kind in (CommandKind.PAUSE, CommandKind.RESUME):
                move.paused = command.kind is CommandKind.PAUSE
        yard.tell()
        return CommandReply(True, f"{command.kind.value} {len(named)}")

    def price(self, command: Command) -> Again:
        return Again(self.yard.price, "a paused copy is cancelled" if self.yard.price else "")

    async def heard(self, key: str, given_ms: int) -> JournalledOrder:
        if any(each.key == key for each in self.yard.orders):
            return JournalledOrder(self.yard.clock.ms)
        later = [plan for plan, at_ms in self.yard.planned_ms.items() if at_ms > given_ms]
        return JournalledOrder(None, later[0] if later else "")

    def view(self) -> ExecutionView:
        rows = tuple(self._row(at, move) for at, move in self.yard.moves.items())
        counts: dict[str, int] = {}
        for row in rows:
            counts[row.state] = counts.get(row.state, 0) + 1
        running = bool(self.yard.open) or self.yard.owes
        told = (0, 0, None, None, None, None, "", 0, (), self.yard.silent_ms, 0, "")
        return ExecutionView(self.yard.clock.ms, "yard", "", running, None, counts, *told, rows)

    def _row(self, at: int, move: Journalled) -> MoveRow:
        state = move.outcome or ("paused" if move.paused else "moving")
        current = self.yard.rows[at]
        return MoveRow(f"t-{at}", state, "forward", move.original, current, move.target, None, 1, "", "", MIB, 0, 7)

    def in_sync(self) -> Mapping[str, tuple[int, ...]]:
        return {f"t-{at}": self.yard.rows[at] for at in self.yard.moves}

    async def run(self, on_view: Callable[[ExecutionView], None], gate: OrderGate) -> str:
        self.yard.gate = gate

        def told() -> None:
            on_view(self.view())

        self.yard.listeners.append(told)
        try:
            told()
            await self.gone.wait()
            return "the executor ended"
        finally:
            self.yard.listeners.remove(told)


def fate_of(moves: Iterable[Journalled]) -> PlanFate:
    every = [*moves]
    outcomes = {move.outcome for move in every}
    if "" in outcomes:
        return PlanFate(ProposalState.RUNNING, "")
    state = ProposalState.DONE if outcomes == {"done"} else ProposalState.TURNED
    ended_at_ms = max((move.ended_at_ms for move in every if move.ended_at_ms is not None), default=None)
    return PlanFate(state, ", ".join(sorted(outcomes)), ended_at_ms=ended_at_ms)


class MortalStore(ServiceStore):
    """A store whose service is killed at the n-th write, before or after it is durable; and whose disk may be full."""

    def __init__(self, path: Path, kill_at: int = 0, *, before: bool = False) -> None:
        super().__init__(path)
        self.writes = 0
        self.kill_at = kill_at
        self.before = before
        self.full = False
        self.dead = False

    def write(self, batch: StoreBatch) -> None:
        if self.dead:
            raise Killed
        if self.full:
            raise StoreFailed("database or disk is full", retriable=True)
        self.writes += 1
        if self.writes == self.kill_at:
            self.dead = True
            if not self.before:
                super().write(batch)
            raise Killed
        super().write(batch)


def policy(mode: Mode = Mode.PROPOSE, **rails: object) -> KeeperPolicy:
    """Everything at once; balance may do what `mode` says."""
    watches = {
        condition: replace(watch, minutes=0, mode=mode if watch.mode is Mode.PROPOSE else Mode.OFF)
        for condition, watch in DEFAULTS.items()
    }
    return KeeperPolicy(watches, GuardRails(**rails))  # type: ignore[arg-type]


class Life:
    """One life of a service over a yard: from its start to its death."""

    def __init__(
        self,
        yard: Yard,
        store: ServiceStore,
        wanted: KeeperPolicy | None = None,
        *,
        shared: SharedWords | None = None,
        seat: Seat | None = None,
        look: Callable[[], Sighting] | None = None,
        name: str = "yard",
        me: str = "this service",
    ) -> None:
        self.yard = yard
        self.store = store
        self.published = Published([name])
        self.records = Records(store, "", self.published.tell)
        self.events: list[HistoryEvent] = []
        self.cleared = 0

        async def looks() -> Sighting:
            return (look or yard.sight)()

        async def thinks(question: LookQuestion) -> Thought:
            return think(question)

        async def sketches(wish: Wish) -> KeptProposal:
            return sketch(wish)

        parts = KeeperParts(
            records=self.records,
            published=self.published,
            clock=yard.clock,
            look=looks,
            think=thinks,
            sketch=sketches,
            seat=seat or yard.seat,
            tell=self.events.append,
            clear_throttles=self.clear,
            shared=shared,
            drive_again_s=0.001,
            me=me,
        )
        self.keeper = ClusterKeeper(KeptCluster(name, Target("here:1"), wanted or policy()), parts)
        self.desk = OrderDesk({name: self.keeper}, self.records)
        self.driving: asyncio.Task[None] | None = None

    async def clear(self) -> str:
        self.cleared += 1
        return "1 throttle setting is removed"

    async def __aenter__(self) -> Self:
        await self.keeper.load()
        self.driving = asyncio.create_task(self.keeper.drive_forever())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self.driving is not None
        self.driving.cancel()
        await asyncio.gather(self.driving, return_exceptions=True)
        await self.records.close()
        self.yard.held_by = "" if self.yard.held_by == "the service" else self.yard.held_by

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the loop turn until something holds."""
        async with asyncio.timeout(10):
            while not condition():
                if getattr(self.store, "dead", False):
                    raise Killed
                if self.driving is not None and self.driving.done():
                    self.driving.result()
                await asyncio.to_thread(int)  # A loop that only yields to itself starves the threads that it waits for.

    async def look(self) -> None:
        """One look, and what it begins is in the journal."""
        await self.keeper.look_once()
        await self.keeper.handed_over()

    async def driven(self) -> None:
        """Until the executor is driven, and the journal was asked what became of what."""
        await self.until(lambda: self.keeper.reconciled)

    async def first_look(self) -> None:
        """One look, once the executor is driven."""
        await self.driven()
        await self.look()
