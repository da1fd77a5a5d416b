"""Puts an executor together from cluster, journal and core; and reads the view that another executor writes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson

from shunter.app.client_configuration import configuration_of
from shunter.app.executor.dry_run import DryRun, dry_run
from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.lease_acquisition import standing_in, take_seat
from shunter.app.state_folder import state_folder
from shunter.core.executor import events as ev
from shunter.core.executor.apply import apply
from shunter.core.executor.machine import Executor
from shunter.core.executor.ready import CommandReply
from shunter.core.executor.state import ExecutorState
from shunter.core.own_topics import GROUPS_TOPIC
from shunter.core.wording import counted
from shunter.drivers.admin.protocol import AdminClient
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.host.whole_calls import to_its_end
from shunter.drivers.journal.claimants import ClusterClaimed, this_claimant
from shunter.drivers.journal.execution import ExecutionDriver, refused
from shunter.drivers.journal.host_lock import DriverSeat, SeatTaken, StillDriver
from shunter.drivers.journal.journals import (
    JournalDamaged,
    JournalFenced,
    JournalHeld,
    JournalUnusable,
    LeasedJournal,
)
from shunter.drivers.journal.sqlite import SqliteJournal
from shunter.errors import DriverError, FormatError, SettingsError, ShunterError
from shunter.formats.reassignment_json import decode_plan
from shunter.model.execution import Command, ExecutionOptions, JournalEntry, LeaseHolder, MoveOrder
from shunter.model.notice import Notice
from shunter.views.execution import (
    ExecutionView,
    view_execution,
    view_from_json,
    view_to_json,
)

if TYPE_CHECKING:
    # Importing the client library takes half of a command's start. A command that asks no cluster does not import it:
    # for instance, an order to the executor that drives a named journal.
    from shunter.drivers.admin.cluster import KafkaPythonAdmin
    from shunter.drivers.journal.claim import ClusterClaim

NO_JOURNAL = "there is no journal: nothing was executed under it"
VIEW_EVERY_S = 1.0
LOADED_EVERY_S = 0.05
SIZED_WITHIN_S = 3.0
"""A view waits no longer than this for the first sizes of copies that another process began."""
VIEW_SHARE = 40
"""Time between two views, as a multiple of one view's processor time: with thousands of moves there are fewer views."""
VIEW_MOVES = 200
VIEW_FRESH_MS = 60_000
"""An older view does not count, because its executor has ended or runs on another host."""


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster, a login and a journal. With no file and no topic, the journal is the cluster's in the state folder."""

    bootstrap: str
    properties: Path | None = None
    journal: Path | None = None
    journal_topic: str | None = None
    take_over_cluster: bool = False
    """Drive the cluster even if another executor claims it, dead or alive."""
    address: str = ""
    """Where others reach the service that drives it; "": there is none, or it is not known."""


def only_journal() -> Path:
    """The journal in the state folder, if there is exactly one.

    Raises:
        SettingsError: there is none, or there are several; names them.
    """
    found = sorted(state_folder().glob("*.journal"))
    if len(found) != 1:
        told = f"there are {', '.join(str(path) for path in found)}" if found else f"there is none in {state_folder()}"
        raise SettingsError(f"no journal was named, and {told}: use --journal or --bootstrap-server")
    return found[0]


async def connect(target: Target, *, patient: bool = True) -> KafkaPythonAdmin:
    """Connect to a cluster. `patient`: for a look or an order, which has no later turn to try again.

    Raises:
        DriverError: no broker answers, or the login is refused.
        SettingsError, FormatError: the properties file can't be used.
    """
    from shunter.drivers.admin.cluster import KafkaPythonAdmin  # noqa: PLC0415 - as above

    return await KafkaPythonAdmin.connect(configuration_of(target.bootstrap, target.properties), patient=patient)


async def journal_place(target: Target, admin: AdminClient | None) -> JournalPlace:
    """The journal: the topic or file that was named, else the file that is named after the cluster's id."""
    if is_named(target):
        return place_of(target, "")
    assert admin is not None, "without --journal the cluster has to be asked for its id"
    return place_of(target, await admin.cluster_id())


def place_of(target: Target, cluster_id: str) -> JournalPlace:
    """The journal of a cluster whose id is known; the id counts only if the target names neither topic nor file."""
    if target.journal_topic is not None:
        beside = state_folder() / target.journal_topic
        return JournalPlace(beside, target.journal_topic, configuration_of(target.bootstrap, target.properties))
    return JournalPlace(target.journal or state_folder() / f"{cluster_id}.journal")


def is_named(target: Target) -> bool:
    """Whether the journal can be found without asking the cluster for its id."""
    return target.journal is not None or target.journal_topic is not None


@dataclass(slots=True)
class Session:
    """An execution that this process drives: it holds the journal's lease, and runs the core."""

    admin: AdminClient
    journal: LeasedJournal
    core: Executor
    driver: ExecutionDriver
    view_path: Path
    bootstrap: str = ""
    """The bootstrap servers as given; a shell that gives the same finds this executor without asking the cluster."""
    in_words: Callable[[ExecutionView], ExecutionView] = lambda view: view
    """Tells a view in the words of the program that drives, also to other shells."""

    def view(self) -> ExecutionView:
        """The view of the execution now."""
        core = self.core
        now_ms = self.driver.clock.now_ms()
        return self.in_words(view_execution(core.state, core.meter, core.state.limit, now_ms, core.book.lower_in_force))

    async def command(self, command: Command) -> CommandReply:
        """Hand in an order; answered once it is durable."""
        return await self.driver.command(command)

    async def publish(self, listener: Callable[[ExecutionView], None] | None, *, idle: bool = True) -> None:
        """Until cancelled, write the view beside the journal for other shells, and call the listener, periodically.

        Nothing is told before the journal is read: a view of no moves would say that nothing is left. Nor before copies
        that another process began were looked at: nothing of them would seem to be copied. Without `idle` the listener
        hears nothing of an execution that had ended before this session.
        """
        until_s: float | None = None
        while True:
            if self.core.loaded and until_s is None:
                until_s = time.monotonic() + SIZED_WITHIN_S
            told = until_s is not None and (time.monotonic() >= until_s or not self._unsized())
            cost_s = await self._publish_once(listener, idle=idle) if told else None
            await asyncio.sleep(LOADED_EVERY_S if cost_s is None else max(VIEW_EVERY_S, cost_s * VIEW_SHARE))

    def _unsized(self) -> bool:
        """Whether copies are under way that another process began, and none was looked at."""
        steps = (move.step for move in self.core.state.stepping() if move.copying)
        return not self.core.meter.samples and any(step is not None and step.read_at_ms is not None for step in steps)

    async def _publish_once(self, listener: Callable[[ExecutionView], None] | None, *, idle: bool) -> float:
        """Write and tell a view; returns its cost, in seconds of this thread's processor time."""
        began = time.thread_time()
        view = self.view()
        beside = {"bootstrap": self.bootstrap, "process": os.getpid()}
        text = orjson.dumps({**view_to_json(view, most_moves=VIEW_MOVES), **beside})
        if listener is not None and (idle or self.core.worked):
            listener(view)
        cost_s = time.thread_time() - began
        await asyncio.to_thread(_replace, self.view_path, text)
        return cost_s


def _replace(path: Path, text: bytes) -> None:
    """Replace a view's file atomically. It is only a view, so it is not synced.

    A full disk is no reason to stop moves: readers then find the view too old, and read the journal.
    """
    beside = path.with_suffix(".new")
    with contextlib.suppress(OSError):
        beside.write_bytes(text)
        beside.replace(path)


async def _claim(
    target: Target, place: JournalPlace, listener: Callable[[Notice], None], *, forever: bool, urgent: bool
) -> ClusterClaim:
    """Check that no other executor drives the cluster, on any host, and take nothing yet."""
    configuration = configuration_of(target.bootstrap, target.properties)
    from shunter.drivers.journal.claim import (  # noqa: PLC0415 - as above
        COORDINATOR_WITHIN_S,
        URGENT_WITHIN_S,
        ClusterClaim,
    )

    mine = this_claimant(claim_name(place), target.address)
    claim = ClusterClaim(
        await ClusterClaim.client(configuration, mine),
        mine,
        take_over=target.take_over_cluster,
        required=forever and not target.take_over_cluster,
        within_s=URGENT_WITHIN_S if urgent else COORDINATOR_WITHIN_S,
        listener=listener,
    )
    try:
        await claim.look()
    except BaseException:
        await claim.leave()
        raise
    return claim


def _claim_lost(driver: ExecutionDriver, ended: asyncio.Task[None]) -> None:
    error = None if ended.cancelled() else ended.exception()
    if isinstance(error, DriverError):
        driver.post(refused(error), "claim")


async def _give_back(claim: ClusterClaim, keeping: asyncio.Task[None] | None) -> None:
    if keeping is not None:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
    await claim.leave()


def claim_name(place: JournalPlace) -> str:
    """The name of a journal in a claim: the topic, or the file with its host."""
    return str(place) if place.topic is not None else f"{socket.gethostname()}:{place.path.resolve()}"


async def claimed_by(target: Target, place: JournalPlace) -> str:
    """The executor that drives the cluster under another journal; "": none does, or it can't be found out."""
    if not target.bootstrap:
        return ""
    from shunter.drivers.admin.bootstrap_probe import probe  # noqa: PLC0415 - as above
    from shunter.drivers.journal.claim import see_claim  # noqa: PLC0415 - as above

    with contextlib.suppress(DriverError):
        configuration = configuration_of(target.bootstrap, target.properties)
        # The probe fails at once if connections are refused; the group's client would retry for many seconds.
        protocol = str(configuration.get("security_protocol", "PLAINTEXT"))
        await asyncio.to_thread(probe, target.bootstrap.split(","), protocol)
        return (await see_claim(configuration, claim_name(place))).claimant
    return ""


async def no_journal(target: Target, place: JournalPlace) -> FormatError:
    """The error that there is no journal; it also names an executor that drives the cluster under another one."""
    claimant = await claimed_by(target, place)
    other = f"; {claimant} drives this cluster under another journal: ask there" if claimant else ""
    return FormatError(str(place), NO_JOURNAL + other)


@contextlib.asynccontextmanager
async def open_session(
    target: Target, listener: Callable[[Notice], None], *, forever: bool = False, urgent: bool = False
) -> AsyncIterator[Session]:
    """Connect, take the host's seat and the journal's lease, and load the journal; gives both back at the end.

    Each step may refuse, and the steps before it take nothing from another executor: so a command that is refused
    leaves the executor that is there as it was, even one that is suspended.

    Args:
        target: The cluster and the journal.
        listener: Gets notices; it must not block.
        forever: Nobody watches this session, so it never drives a cluster that it can't claim (decision 0207).
        urgent: An order that ends moves: the claim's coordinator is hardly waited for.

    Raises:
        JournalHeld, SeatTaken, ClusterClaimed: another executor drives the journal, or the cluster under another
            journal.
        JournalDamaged: the journal can't be trusted; the error has the entries that can be read.
        DriverError: the cluster does not answer.
    """
    admin = await connect(target, patient=False)
    journal: LeasedJournal | None = None
    seat: DriverSeat | None = None
    claim: ClusterClaim | None = None
    keeping: asyncio.Task[None] | None = None
    try:
        clock = SystemClock()
        cluster_id = await admin.cluster_id()
        place = await journal_place(target, admin)
        journal = await to_its_end(place.open, uuid.uuid4().hex, target.address)
        seat = await take_seat(place, journal, cluster_id, listener, take_over=target.take_over_cluster)
        claim = await _claim(target, place, listener, forever=forever, urgent=urgent)
        await to_its_end(journal.acquire, clock.now_ms())
        await claim.clear()
        if isinstance(journal, SqliteJournal) and (made := await to_its_end(journal.take_rebuilt)):
            listener(
                Notice(
                    "journal-rebuilt",
                    "",
                    f"{place} was missing: it was rebuilt from {counted(made, 'entry', 'entries')} of its copy",
                )
            )
        core = Executor()
        core.state.needed_topics |= {place.topic} if place.topic is not None else set()
        driver = ExecutionDriver(core, journal, admin, clock, listener, claim)
        keeping = asyncio.create_task(claim.keep())
        keeping.add_done_callback(lambda ended: _claim_lost(driver, ended))
        entries = await to_its_end(journal.load)
        driver.post(ev.JournalLoaded(entries, cluster_id), "start")
        yield Session(admin, journal, core, driver, place.view_path, target.bootstrap)
    finally:
        if claim is not None:
            await _give_back(claim, keeping)
        if seat is not None:
            seat.leave()
        if journal is not None:
            # The lease goes last: once no executor drives the journal, a shell that waits carries its order out itself.
            with contextlib.suppress(DriverError):
                await to_its_end(journal.release)
            await to_its_end(journal.close)
        await admin.close()


class LoadedJournal(NamedTuple):
    """A journal's entries, their fold, and the executor that drives the journal."""

    entries: Sequence[JournalEntry]
    state: ExecutorState
    holder: LeaseHolder | None
    standing: StillDriver | None = None
    """The process of this host that would drive the journal, but has let its lease run out."""


def read_journal(place: JournalPlace) -> tuple[ExecutorState, LeaseHolder | None]:
    """Fold a journal without taking its lease.

    Raises:
        FormatError: there is no journal, or it is damaged.
    """
    loaded = load_journal(place)
    return loaded.state, loaded.holder


def load_journal(place: JournalPlace) -> LoadedJournal:
    """Read a journal and fold it.

    Raises:
        FormatError: there is no journal, or it is damaged.
    """
    if not place.exists():
        raise FormatError(str(place), NO_JOURNAL)
    journal = place.open("reader")
    try:
        state = ExecutorState()
        entries = journal.load()
        for entry in entries:
            apply(state, entry)
        holder = journal.holder(SystemClock().now_ms())
        return LoadedJournal(entries, state, holder, standing_in(place, journal) if holder is None else None)
    finally:
        journal.close()


def salvage(damaged: JournalDamaged) -> list[str]:
    """Sentences about moves and throttles, from the readable entries of a damaged journal."""
    state = ExecutorState()
    try:
        for entry in damaged.readable:
            apply(state, entry)
    except ShunterError:
        pass  # The entries before this one are still useful.
    told = [
        f"{move.tp}: originally {list(move.original)}, last known at {list(move.current)}, on its way to "
        f"{list(move.goal)}"
        for move in state.open_moves()
    ]
    told += [
        f"{key.kind} {key.name}: executor set {key.setting}, was {'not set' if throttle.before is None else throttle.before}"
        for key, throttle in state.throttles.items()
    ]
    if damaged.readable:
        told.append("move the damaged file away: `shunter resume` then goes on from the copy beside it")
    return told


def read_view(place: JournalPlace, driver: LeaseHolder | None = None) -> ExecutionView | None:
    """The view that an executor wrote beside its journal; None: there is none, or it is older than `VIEW_FRESH_MS`.

    `driver`: only its view counts. On the host of a former driver the file may be fresh, and tells what was.
    """
    try:
        document = orjson.loads(place.view_path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    view = view_from_json(document)
    if driver is not None and (driver.host, driver.process) != (socket.gethostname(), document.get("process")):
        return None
    return None if view is None or abs(SystemClock().now_ms() - view.at_ms) > VIEW_FRESH_MS else view


def journals_reached_by(bootstrap: str) -> list[JournalPlace]:
    """Journals in the state folder whose executor has a fresh view and was given the same bootstrap servers."""
    found: list[JournalPlace] = []
    for path in sorted(state_folder().glob("*.journal.view")):
        place = JournalPlace(path.with_suffix(""))
        with contextlib.suppress(OSError, orjson.JSONDecodeError):
            if orjson.loads(path.read_bytes()).get("bootstrap") == bootstrap and read_view(place) is not None:
                found.append(place)
    return found


def journals_that_reached(bootstrap: str) -> list[JournalPlace]:
    """Journals in the state folder whose executor was given one of these bootstrap servers, the latest first."""
    servers = set(bootstrap.split(","))
    found: list[tuple[float, JournalPlace]] = []
    for path in state_folder().glob("*.journal.view"):
        with contextlib.suppress(OSError, orjson.JSONDecodeError):
            if servers & set(str(orjson.loads(path.read_bytes()).get("bootstrap", "")).split(",")):
                found.append((path.stat().st_mtime, JournalPlace(path.with_suffix(""))))
    return [place for _at, place in sorted(found, key=lambda each: -each[0]) if place.exists()]


def journal_without_cluster(target: Target, error: DriverError) -> JournalPlace:
    """The journal file of a cluster that does not answer: the named one, or the last one with these servers.

    Raises:
        DriverError: `error`, because no journal file is known to be this cluster's; it lists the files in the state
            folder.
    """
    found = [JournalPlace(target.journal)] if target.journal is not None else []
    if not is_named(target):
        found = journals_that_reached(target.bootstrap)
    if found and found[0].exists():
        return found[0]
    there = [] if is_named(target) else sorted(state_folder().glob("*.journal"))
    named = ", ".join(str(path) for path in there)
    hint = f"; `shunter status --offline --journal FILE` shows a journal of this host: {named}" if there else ""
    raise DriverError(f"{error}{hint}", retriable=error.retriable) from error


def read_plan(path: Path) -> tuple[MoveOrder, ...]:
    """Read a plan file.

    Raises:
        FormatError: it can't be read, or is not a plan.
    """
    try:
        return decode_plan(path.read_bytes(), str(path))
    except OSError as error:
        raise FormatError(str(path), f"can't be read: {error.strerror}") from error


async def lay_out(
    target: Target,
    moves: Sequence[MoveOrder],
    options: ExecutionOptions,
    *,
    submitted: bool = False,
    goes_around: bool = False,
) -> DryRun:
    """A plan on paper, with the rates that the cluster's journal has learnt.

    Args:
        target: The cluster, and the journal, which has to be one that can be made.
        moves: The plan.
        options: As for the execution.
        submitted: The plan goes to the controller: no journal is made, and no claim.
        goes_around: See `dry_run`.

    Raises:
        FormatError: the journal can't be made, or it is damaged.
        DriverError: the cluster does not answer.
    """
    if is_named(target) and not submitted:
        await asyncio.to_thread((await journal_place(target, None)).check)
    admin = await connect(target)
    try:
        place = await journal_place(target, admin)
        if not submitted:
            await asyncio.to_thread(place.check)
        state = read_journal(place)[0] if place.exists() else ExecutorState()
        if submitted:
            state.limit = None
        found = await dry_run(admin, state, moves, options, goes_around=goes_around)
        if submitted:
            return found
        groups = (await admin.observe_topics([GROUPS_TOPIC])).topics.get(GROUPS_TOPIC)
        return replace(found, makes=GROUPS_TOPIC if groups is None else "")
    finally:
        await admin.close()


__all__ = [
    "ClusterClaimed",
    "JournalDamaged",
    "JournalFenced",
    "JournalHeld",
    "JournalUnusable",
    "LoadedJournal",
    "SeatTaken",
    "Session",
    "Target",
    "claim_name",
    "claimed_by",
    "connect",
    "decode_plan",
    "journal_place",
    "journal_without_cluster",
    "journals_reached_by",
    "lay_out",
    "load_journal",
    "no_journal",
    "only_journal",
    "open_session",
    "read_journal",
    "read_plan",
    "read_view",
    "salvage",
    "state_folder",
]
