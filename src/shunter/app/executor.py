"""Puts an execution together: cluster, journal, core; and what other shells ask of one that runs elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from shunter.app.client_configuration import configuration_of
from shunter.app.dry_run import DryRun, dry_run
from shunter.app.journals import JournalPlace
from shunter.core.executor import events as ev
from shunter.core.executor.apply import apply
from shunter.core.executor.debts import told_way_out
from shunter.core.executor.machine import Executor
from shunter.core.executor.rates import Meter
from shunter.core.executor.ready import CommandReply, Finish, PlanReply
from shunter.core.executor.state import ExecutorState, Move
from shunter.drivers.admin.protocol import AdminClient
from shunter.drivers.claimants import ClusterClaimed, this_claimant
from shunter.drivers.clock import SystemClock
from shunter.drivers.driver_seat import DriverSeat, SeatTaken
from shunter.drivers.execution import ExecutionDriver, refused
from shunter.drivers.journal_sqlite import SqliteJournal
from shunter.drivers.journals import (
    JournalDamaged,
    JournalFenced,
    JournalHeld,
    JournalUnusable,
    LeasedJournal,
)
from shunter.drivers.order_taker import take_orders
from shunter.errors import DriverError, FormatError, SettingsError, ShunterError
from shunter.formats.reassignment_json import decode_plan
from shunter.model.execution import Command, CommandKind, ExecutionOptions, LeaseHolder, MoveOrder
from shunter.model.notice import Notice
from shunter.model.partition import BrokerId, TopicPartition
from shunter.views.execution import ExecutionView, undriven, view_execution, view_from_json, view_to_json

if TYPE_CHECKING:
    # The client library is half of a command's start: what asks no cluster, as an order to whoever drives a journal
    # that is named, goes without it.
    from shunter.drivers.admin.cluster import KafkaPythonAdmin
    from shunter.drivers.cluster_claim import ClusterClaim

NO_JOURNAL = "there is no journal: nothing was executed under it"
VIEW_EVERY_S = 1.0
VIEW_SHARE = 40
"""Time between two views in processor time of one: thousands of moves are looked at less often."""
VIEW_MOVES = 200
VIEW_FRESH_MS = 60_000
"""What a driver left longer ago is of another time, or of another host's."""


@dataclass(frozen=True, slots=True)
class Target:
    """Which cluster, as whom, and under which journal (neither file nor topic: the cluster's in our state folder)."""

    bootstrap: str
    properties: Path | None = None
    journal: Path | None = None
    journal_topic: str | None = None
    take_over_cluster: bool = False
    """Whoever drives the cluster loses it, dead or alive."""


def state_folder() -> Path:
    """Where journals live: `$SHUNTER_STATE`, else `$XDG_STATE_HOME/shunter`, else `~/.local/state/shunter`."""
    named = os.environ.get("SHUNTER_STATE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "shunter"


def only_journal() -> Path:
    """The journal in our state folder, where there is one alone.

    Raises:
        SettingsError: there is none, or there are several; names them.
    """
    found = sorted(state_folder().glob("*.journal"))
    if len(found) != 1:
        told = f"there are {', '.join(str(path) for path in found)}" if found else f"there is none in {state_folder()}"
        raise SettingsError(f"which journal? {told}: name one by --journal, or the cluster by --bootstrap-server")
    return found[0]


async def connect(target: Target) -> KafkaPythonAdmin:
    """Connect to a cluster.

    Raises:
        DriverError: nobody answers, or we are not let in.
        SettingsError, FormatError: the properties file can't be used.
    """
    from shunter.drivers.admin.cluster import KafkaPythonAdmin  # noqa: PLC0415 - as above

    return await KafkaPythonAdmin.connect(configuration_of(target.bootstrap, target.properties))


async def journal_place(target: Target, admin: AdminClient | None) -> JournalPlace:
    """The journal: a topic or a file as named, else the file of the cluster's id."""
    if target.journal_topic is not None:
        beside = state_folder() / target.journal_topic
        return JournalPlace(beside, target.journal_topic, configuration_of(target.bootstrap, target.properties))
    if target.journal is not None:
        return JournalPlace(target.journal)
    assert admin is not None, "without --journal the cluster has to be asked for its id"
    return JournalPlace(state_folder() / f"{await admin.cluster_id()}.journal")


def is_named(target: Target) -> bool:
    """Whether the journal can be found without asking the cluster for its id."""
    return target.journal is not None or target.journal_topic is not None


@dataclass(slots=True)
class Session:
    """An execution that this process drives: it has the lease, and the core at work."""

    admin: AdminClient
    journal: LeasedJournal
    core: Executor
    driver: ExecutionDriver
    view_path: Path
    bootstrap: str = ""
    """As it was named to this process; a shell that names it alike finds us by it, without asking the cluster."""

    def view(self) -> ExecutionView:
        """How it stands."""
        core = self.core
        others = {key: int(value) for key, value in core.book.told_lower.items()}
        return view_execution(core.state, core.meter, core.state.limit, self.driver.clock.now_ms(), others)

    async def command(self, command: Command) -> CommandReply:
        """Hand in an order; answered once it is durable."""
        return await self.driver.command(command)

    async def publish(self, listener: Callable[[ExecutionView], None] | None) -> None:
        """Write the view beside the journal for other shells, and tell the listener, until cancelled."""
        while True:
            began = time.process_time()
            view = self.view()
            text = orjson.dumps({**view_to_json(view, most_moves=VIEW_MOVES), "bootstrap": self.bootstrap})
            if listener is not None:
                listener(view)
            cost_s = time.process_time() - began
            await asyncio.to_thread(_replace, self.view_path, text)
            await asyncio.sleep(max(VIEW_EVERY_S, cost_s * VIEW_SHARE))


def _replace(path: Path, text: bytes) -> None:
    """Readers see the old file or the new one, never half of one; it is a glance, so it is not synced.

    Where the disk is full, readers find the glance too old and look at the journal: no reason to stop moves.
    """
    beside = path.with_suffix(".new")
    with contextlib.suppress(OSError):
        beside.write_bytes(text)
        beside.replace(path)


async def _claim(target: Target, place: JournalPlace, listener: Callable[[Notice], None]) -> ClusterClaim:
    """See that nobody else drives the cluster, wherever; the claim is taken by its `keep`."""
    configuration = configuration_of(target.bootstrap, target.properties)
    from shunter.drivers.cluster_claim import ClusterClaim  # noqa: PLC0415 - as above

    mine = this_claimant(claim_name(place))
    claim = await ClusterClaim.connect(configuration, mine, take_over=target.take_over_cluster)
    try:
        await claim.look()
    except BaseException:
        await claim.leave()
        raise
    if claim.unclaimed:
        listener(Notice("cluster-unclaimed", "", claim.unclaimed))
    return claim


def _claim_lost(driver: ExecutionDriver, ended: asyncio.Task[None]) -> None:
    error = None if ended.cancelled() else ended.exception()
    if isinstance(error, DriverError):
        driver.post("claim", refused(error))


async def _give_back(claim: ClusterClaim, keeping: asyncio.Task[None] | None) -> None:
    if keeping is not None:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
    await claim.leave()


def claim_name(place: JournalPlace) -> str:
    """A journal as a claim names it: a file with its host."""
    return str(place) if place.topic is not None else f"{socket.gethostname()}:{place.path.resolve()}"


async def claimed_by(target: Target, place: JournalPlace) -> str:
    """Who drives the cluster under another journal; "" where nobody does, or where we can't know."""
    if not target.bootstrap:
        return ""
    from shunter.drivers.admin.bootstrap_probe import probe  # noqa: PLC0415 - as above
    from shunter.drivers.cluster_claim import see_claim  # noqa: PLC0415 - as above

    with contextlib.suppress(DriverError):
        configuration = configuration_of(target.bootstrap, target.properties)
        # The group's client would try for many seconds what refuses connections at once.
        protocol = str(configuration.get("security_protocol", "PLAINTEXT"))
        await asyncio.to_thread(probe, target.bootstrap.split(","), protocol)
        return (await see_claim(configuration, claim_name(place))).claimant
    return ""


async def no_journal(target: Target, place: JournalPlace) -> FormatError:
    """That there is no journal, and who drives the cluster under another one."""
    claimant = await claimed_by(target, place)
    other = f"; but under another one this cluster is driven by {claimant}: ask there" if claimant else ""
    return FormatError(str(place), NO_JOURNAL + other)


async def nothing_journalled(target: Target) -> bool:
    """Whether the journal of this target is not there, and nobody drives the cluster under another one either."""
    place = await journal_place(target, None)
    return not place.exists() and not await claimed_by(target, place)


@contextlib.asynccontextmanager
async def open_session(target: Target, listener: Callable[[Notice], None]) -> AsyncIterator[Session]:
    """Connect, take the journal's lease, and load it; gives the lease back at the end.

    Raises:
        JournalHeld, SeatTaken, ClusterClaimed: another executor drives the journal, or the cluster under another one.
        JournalDamaged: it can't be trusted; says what can be read.
        DriverError: the cluster does not answer.
    """
    admin = await connect(target)
    journal: LeasedJournal | None = None
    seat: DriverSeat | None = None
    claim: ClusterClaim | None = None
    keeping: asyncio.Task[None] | None = None
    try:
        clock = SystemClock()
        cluster_id = await admin.cluster_id()
        place = await journal_place(target, admin)
        journal = await asyncio.to_thread(place.open, uuid.uuid4().hex)
        await asyncio.to_thread(journal.acquire, clock.now_ms())
        if isinstance(journal, SqliteJournal) and (made := await asyncio.to_thread(journal.take_rebuilt)):
            listener(Notice("journal-rebuilt", "", f"{place} was gone: it was made anew of {made} entries of its copy"))
        seat = DriverSeat(state_folder(), cluster_id, str(place))
        claim = await _claim(target, place, listener)
        core = Executor()
        driver = ExecutionDriver(core, journal, admin, clock, listener, claim)
        keeping = asyncio.create_task(claim.keep())
        keeping.add_done_callback(lambda ended: _claim_lost(driver, ended))
        entries = await asyncio.to_thread(journal.load)
        driver.post("start", ev.JournalLoaded(entries, cluster_id))
        yield Session(admin, journal, core, driver, place.view_path, target.bootstrap)
    finally:
        if claim is not None:
            await _give_back(claim, keeping)
        if seat is not None:
            seat.leave()
        if journal is not None:
            # Last, for whoever waits for an answer carries its order out by itself once nobody drives the journal.
            with contextlib.suppress(DriverError):
                await asyncio.to_thread(journal.release)
            await asyncio.to_thread(journal.close)
        await admin.close()


@dataclass(frozen=True, slots=True)
class SessionStart:
    """What a session shall do first: a plan, or a command, or both absent (go on with what the journal says)."""

    moves: tuple[MoveOrder, ...] = ()
    options: ExecutionOptions = field(default_factory=ExecutionOptions)
    command: Command | None = None
    unpause: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """How a session ended: the core's word, the last view, what the plan or the work's command was answered.

    `worked`: an execution was open at some time of the session.
    """

    finish: Finish | None
    view: ExecutionView
    plan: PlanReply | None = None
    command: CommandReply | None = None
    worked: bool = True


async def drive(
    session: Session,
    work: SessionStart,
    *,
    on_view: Callable[[ExecutionView], None] | None = None,
    on_plan: Callable[[PlanReply], None] | None = None,
    leave: asyncio.Event | None = None,
    forever: bool = False,
) -> Ended:
    """Drive a session until all is done, something fatal happens, or `leave` is set (then the journal keeps it)."""
    asked: list[asyncio.Task[Any]] = []
    plan: asyncio.Task[PlanReply] | None = None
    command: asyncio.Task[CommandReply] | None = None
    if work.moves:
        plan_id = uuid.uuid4().hex[:12]
        plan = asyncio.create_task(session.driver.submit(plan_id, work.moves, work.options))
        if on_plan is not None:
            plan.add_done_callback(lambda done: on_plan(done.result()) if _answered(done) else None)
        asked.append(plan)
    first = work.command or (Command(CommandKind.RESUME, given_by="resume") if work.unpause else None)
    if first is not None:
        command = asyncio.create_task(session.command(first))
        asked.append(command)
    await asyncio.sleep(0)  # What is asked for first stands in the queue before the core can find itself idle.
    background = [
        asyncio.create_task(take_orders(session.driver, session.journal)),
        asyncio.create_task(session.publish(on_view)),
    ]
    running = asyncio.create_task(session.driver.run(forever=forever))
    leave = leave or asyncio.Event()
    if work.command is not None and command is not None:
        command.add_done_callback(lambda done: leave.set() if _answered(done) and not done.result().accepted else None)
    leaving = asyncio.create_task(leave.wait())
    await asyncio.wait({running, leaving, *background}, return_when=asyncio.FIRST_COMPLETED)
    failed = [task for task in background if task.done()]
    finish = running.result() if running.done() else None
    for task in (running, leaving, *background):
        task.cancel()
    await asyncio.gather(running, leaving, *background, *asked, return_exceptions=True)
    for task in failed:
        task.result()
    return Ended(
        finish,
        session.view(),
        plan.result() if plan is not None and _answered(plan) else None,
        command.result() if work.command is not None and command is not None and _answered(command) else None,
        session.core.worked,
    )


def _answered(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


@dataclass(frozen=True, slots=True)
class Status:
    """What a journal says, whether somebody drives it, and how it compares with the cluster where that was asked."""

    place: JournalPlace
    view: ExecutionView
    holder: LeaseHolder | None
    differences: tuple[str, ...] = ()
    live: ExecutionView | None = None
    """The driver's own view, where somebody on this host drives it."""
    claimant: str = ""
    """Who drives the cluster under another journal, where nobody drives this one."""
    debts: str = ""
    """How throttles that are owed are given back, or forgotten; "" where none are."""

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "journal": str(self.place),
            "holder": None if self.holder is None else self.holder._asdict(),
            "claimant": self.claimant or None,
            "differences": list(self.differences),
            **view_to_json(self.view),
            "live": None if self.live is None else view_to_json(self.live),
        }


def read_journal(place: JournalPlace) -> tuple[ExecutorState, LeaseHolder | None]:
    """Fold a journal, without driving it.

    Raises:
        FormatError: there is no journal, or it is damaged.
    """
    if not place.exists():
        raise FormatError(str(place), NO_JOURNAL)
    journal = place.open("reader")
    try:
        state = ExecutorState()
        for entry in journal.load():
            apply(state, entry)
        return state, journal.holder(SystemClock().now_ms())
    finally:
        journal.close()


def salvage(damaged: JournalDamaged) -> list[str]:
    """What a damaged journal still tells of the moves that were open before the damage, a sentence each."""
    state = ExecutorState()
    try:
        for entry in damaged.readable:
            apply(state, entry)
    except ShunterError:
        pass  # What came before it is worth telling all the same.
    told = [
        f"{move.tp}: originally {list(move.original)}, last known at {list(move.current)}, on its way to "
        f"{list(move.goal)}"
        for move in state.open_moves()
    ]
    told += [
        f"{key.kind} {key.name}: {key.setting} is ours, it was {'not set' if throttle.before is None else throttle.before}"
        for key, throttle in state.throttles.items()
    ]
    if damaged.readable:
        told.append("move the damaged file away: `shunter resume` then goes on from the copy beside it")
    return told


async def read_status(target: Target, *, check: bool) -> Status:
    """What the journal says, checked against the cluster if asked."""
    admin = await connect(target) if check or not is_named(target) else None
    try:
        place = await journal_place(target, admin)
        if check and not place.exists():
            raise await no_journal(target, place)
        state, holder = await asyncio.to_thread(read_journal, place)
        claimant = await claimed_by(target, place) if check and holder is None else ""
        differences = await _differences(state, admin) if admin is not None and state.running else ()
        live = read_view(place) if holder is not None else None
        meter = Meter()
        if check and admin is not None and live is None:
            meter.present.update(await replica_bytes(state.stepping(), admin))
    finally:
        if admin is not None:
            await admin.close()
    view = view_execution(state, meter, state.limit, SystemClock().now_ms())
    if holder is None and view.running:
        view = undriven(view)
    owed = state.owed()
    return Status(place, view, holder, differences, live, claimant, told_way_out(owed) if owed else "")


async def replica_bytes(stepping: Iterable[Move], admin: AdminClient) -> dict[tuple[BrokerId, TopicPartition], int]:
    """Bytes of the copies that running steps make, by who makes them; a broker that does not answer is left out."""
    copies: dict[BrokerId, list[TopicPartition]] = {}
    for move in stepping:
        assert move.step is not None
        for broker in move.step.adding:
            copies.setdefault(broker, []).append(move.tp)
    sized = await admin.observe_log_dirs(copies)
    return {key: size.bytes for key, size in sized.sizes.items()}


async def _differences(state: ExecutorState, admin: AdminClient) -> tuple[str, ...]:
    """How the cluster differs from what the journal would lead one to expect."""
    ongoing = await admin.list_reassignments()
    moves = state.open_moves()
    names = sorted({move.tp.topic for move in moves})
    seen = await admin.observe_topics(names)
    told: list[str] = []
    for move in moves:
        topic = seen.topics.get(move.tp.topic)
        partition = None if topic is None else topic.partitions.get(move.tp.partition)
        if topic is None or partition is None:
            told.append(f"{move.tp} does not exist any more")
        elif move.step is None and partition.replicas != move.current:
            told.append(f"{move.tp} is at {list(partition.replicas)}, the journal says {list(move.current)}")
        elif move.step is not None and move.tp not in ongoing and partition.replicas == move.step.after:
            told.append(f"{move.tp} has finished its step to {list(move.step.after)}; the journal does not know yet")
        elif move.step is not None and move.tp not in ongoing:
            told.append(f"{move.tp} is at {list(partition.replicas)}, its step to {list(move.step.after)} does not run")
    return tuple(told)


def read_view(place: JournalPlace) -> ExecutionView | None:
    """The view that a driver left beside its journal a moment ago."""
    try:
        view = view_from_json(orjson.loads(place.view_path.read_bytes()))
    except (OSError, orjson.JSONDecodeError):
        return None
    return None if view is None or abs(SystemClock().now_ms() - view.at_ms) > VIEW_FRESH_MS else view


def journals_reached_by(bootstrap: str) -> list[JournalPlace]:
    """Journals in our state folder whose driver left a glance a moment ago and was started by the same words."""
    found: list[JournalPlace] = []
    for path in sorted(state_folder().glob("*.journal.view")):
        place = JournalPlace(path.with_suffix(""))
        with contextlib.suppress(OSError, orjson.JSONDecodeError):
            if orjson.loads(path.read_bytes()).get("bootstrap") == bootstrap and read_view(place) is not None:
                found.append(place)
    return found


def read_plan(path: Path) -> tuple[MoveOrder, ...]:
    """Read a plan file.

    Raises:
        FormatError: it can't be read, or is no plan.
    """
    try:
        return decode_plan(path.read_bytes(), str(path))
    except OSError as error:
        raise FormatError(str(path), f"can't be read: {error.strerror}") from error


async def lay_out(target: Target, moves: Sequence[MoveOrder], options: ExecutionOptions) -> DryRun:
    """A plan on paper, with what the cluster's journal has learnt; sees that the journal can be made.

    Raises:
        FormatError: it can't, or it is damaged.
        DriverError: the cluster does not answer.
    """
    if is_named(target):
        await asyncio.to_thread((await journal_place(target, None)).check)
    admin = await connect(target)
    try:
        place = await journal_place(target, admin)
        await asyncio.to_thread(place.check)
        state = read_journal(place)[0] if place.exists() else ExecutorState()
        return await dry_run(admin, state, moves, options)
    finally:
        await admin.close()


__all__ = [
    "ClusterClaimed",
    "Ended",
    "JournalDamaged",
    "JournalFenced",
    "JournalHeld",
    "JournalUnusable",
    "SeatTaken",
    "Session",
    "SessionStart",
    "Status",
    "Target",
    "claim_name",
    "claimed_by",
    "connect",
    "decode_plan",
    "drive",
    "journal_place",
    "journals_reached_by",
    "lay_out",
    "no_journal",
    "nothing_journalled",
    "only_journal",
    "open_session",
    "read_journal",
    "read_plan",
    "read_status",
    "read_view",
    "replica_bytes",
    "salvage",
    "state_folder",
]
