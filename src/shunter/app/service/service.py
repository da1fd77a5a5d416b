"""The service, put together: store, one keeper for each cluster, notifications, and the front."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import multiprocessing
import os
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from shunter.app.client_configuration import configuration_of
from shunter.app.evaluation.observation import Looker
from shunter.app.evaluation.policy import KeptCluster, ServiceFile
from shunter.app.executor.journals import TOPIC_PREFIX
from shunter.app.executor.throttles import clear_loose_throttles
from shunter.app.service.controllers import Controllers
from shunter.app.service.driving import seat_of
from shunter.app.service.front import Front
from shunter.app.service.keeping import ClusterKeeper, KeeperParts
from shunter.app.service.known import UNSURE_MS
from shunter.app.service.notifying import Notifications, standing
from shunter.app.service.orders import OrderDesk
from shunter.app.service.published import Published
from shunter.app.service.records import Records
from shunter.app.service.reports import Reports
from shunter.app.service.shared_words import SharedWords
from shunter.app.service.snapshots import snapshots_into
from shunter.app.service.stories import Stories, journal_of
from shunter.app.service.thinking import (
    Asked,
    Failed,
    Found,
    LookQuestion,
    Thought,
    Wish,
    answered,
    packed,
    worked,
)
from shunter.app.service.words import Clocked
from shunter.app.state_folder import state_folder
from shunter.core.keeper.people import approvals, unsure
from shunter.core.keeper.sighting import Sighting
from shunter.drivers.admin.bootstrap_probe import NoBrokerAnswers
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.host.task_groups import run_together
from shunter.drivers.service.controller_status import ControllersPlace
from shunter.drivers.service.store import ServiceSeat, ServiceStore, ServiceTaken, StoreDamaged, StoreFailed
from shunter.drivers.service.words_topic import WordsTopic
from shunter.errors import DriverError, ShunterError
from shunter.formats.word_records import WordsDriver
from shunter.model.service import (
    EventSearch,
    HistoryEvent,
    KeptProposal,
    OrderDone,
    OrderRefused,
    Refusal,
    ServiceOrder,
    Signature,
    StoreBatch,
)
from shunter.views.contents import Contents
from shunter.views.keeper_picture import FleetAround, view_fleet
from shunter.views.service import (
    ControllersView,
    FleetView,
    KeptClusterView,
    KeptProposalView,
    OrderPreview,
    TimelineView,
)

STORE = "service.sqlite"
SEAT_EVERY_S = 1.0
AGE_EVERY_S = 5.0
LOOK_AGAIN_S = 2.0
NOTHING_KNOWN = (
    "It is unknown what was paused, drained or frozen, so nothing is driven and no order is taken: clusters are only "
    "observed. Restore the file, or move it away and give those orders again"
)


class ClusterService:
    """The service behind the front: the keepers of a fleet, the published views, and the store."""

    def __init__(
        self, keepers: dict[str, ClusterKeeper], published: Published, records: Records, clock: Clocked
    ) -> None:
        """Put the parts together; nothing runs yet."""
        self.keepers = keepers
        self.published = published
        self.records = records
        self.desk = OrderDesk(keepers, records)
        self._stories = {
            name: Stories(journal_of(each.cluster.target, self._id_of(name)), _journal_named(each))
            for name, each in keepers.items()
        }
        self._reports = {name: Reports(each.cluster, self._page_of(name)) for name, each in keepers.items()}
        self._controllers = {name: Controllers(self._place_of(each), clock.now_ms) for name, each in keepers.items()}
        self.policy_trouble = ""
        """Why the current policy file is not in force; "": it is in force."""
        for keeper in keepers.values():
            keeper.known.policy_trouble = lambda: self.policy_trouble
        self._clock = clock
        self._instance = f"{socket.gethostname()}, process {os.getpid()}"
        self.me = next((each.parts.me for each in keepers.values()), "")
        """This service, in a sentence."""

    async def load(self) -> None:
        """Read the store. If a part of it can't be read, no cluster is driven."""
        if self.records.lost:
            return  # `records.trouble` says why the store can't be used.
        try:
            for keeper in self.keepers.values():
                await keeper.load()
        except StoreFailed as error:
            self.records.lose(f"{error}. {NOTHING_KNOWN}")

    async def run(self) -> None:
        """Look at all clusters and drive them, until cancelled."""
        keepers = self.keepers.values()
        # Without the store it is unknown what was paused, so no cluster is driven.
        driving = () if self.records.lost else keepers
        await run_together(
            self._age_forever(),
            *(each.look_forever() for each in keepers),
            *(each.drive_forever() for each in driving),
        )

    async def _age_forever(self) -> None:
        """Publish every few seconds what changes by the passing of time alone: an observation gets old."""
        while True:
            await asyncio.sleep(AGE_EVERY_S)
            for keeper in self.keepers.values():
                keeper.show()

    def _id_of(self, name: str) -> Callable[[], str]:
        return lambda: self.published.page(name).row.cluster_id

    def _page_of(self, name: str) -> Callable[[], KeptClusterView]:
        return lambda: self.published.page(name)

    def _place_of(self, keeper: ClusterKeeper) -> Callable[[], ControllersPlace | None]:
        return lambda: keeper.cluster.controllers

    # ---- calls of the front

    def stories(self, cluster: str) -> Stories:
        """The stories of moves in a cluster's journal."""
        return self._stories[cluster]

    def reports(self, cluster: str) -> Reports:
        """The lake's reports about a cluster."""
        return self._reports[cluster]

    def contents(self, cluster: str) -> Contents:
        """All topics and partitions of a cluster."""
        return self.keepers[cluster].contents

    def fleet(self) -> FleetView:
        """All clusters."""
        rows = tuple(self.published.page(name).row for name in self.published.names)
        orders, why_not = self.desk.fleet_orders()
        around = FleetAround(self._instance, self.desk.fleet_switch, orders, why_not, self.records.trouble)
        now_ms = self._clock.now_ms()
        return view_fleet(self.published.version, now_ms, rows, replace(around, policy_trouble=self.policy_trouble))

    async def proposals(self, cluster: str, *, ended: bool) -> tuple[KeptProposalView, ...]:
        """Gists of a cluster's proposals, the latest first."""
        keeper = self.keepers[cluster]
        try:
            found = await self.records.read(lambda store: store.proposals(cluster, ended=ended))
        except StoreFailed as error:
            raise OrderRefused(Refusal.STORE, str(error)) from error
        return tuple(_viewed(each, keeper) for each in found)

    async def proposal(self, cluster: str, proposal: str) -> KeptProposalView | None:
        """One proposal with the partitions that it changes."""
        keeper = self.keepers[cluster]
        try:
            found = await self.records.read(lambda store: store.proposal(cluster, proposal))
        except StoreFailed as error:
            raise OrderRefused(Refusal.STORE, str(error)) from error
        if found is None:
            return None
        return _viewed(found, keeper)

    async def timeline(self, search: EventSearch) -> TimelineView:
        """The events that a search finds."""
        most = search.most
        try:
            found = await self.records.read(lambda store: store.events(search._replace(most=most + 1)))
            began_ms = await self.records.read(lambda store: store.began_ms())
        except StoreFailed as error:
            raise OrderRefused(Refusal.STORE, str(error)) from error
        host = socket.gethostname()
        return TimelineView(self.published.version, found[-most:], len(found) > most, host=host, host_since_ms=began_ms)

    async def controllers(self, cluster: str) -> ControllersView:
        """The status of Shunter's controllers of a cluster."""
        return await self._controllers[cluster].view()

    async def sketch(self, order: ServiceOrder, who: str) -> KeptProposalView:
        """Plan as a person asks; no proposal is kept."""
        keeper = self.keepers[order.cluster]
        made = await keeper.sketch(order, who)
        return _viewed(made, keeper)

    def preview(self, order: ServiceOrder, who: str) -> OrderPreview:
        """What an order to moves would do now."""
        return self.desk.preview(order, who)

    async def carry_out(self, order: ServiceOrder, signature: Signature) -> OrderDone:
        """Carry an order out, or raise `OrderRefused`."""
        return await self.desk.carry_out(order, signature)

    async def note(self, kind: str, told: str, subject: str = "") -> None:
        """Keep an event of the service itself in the history; if the store refuses it, notifications are sent anyway."""
        keeper = next(iter(self.keepers.values()))
        event = HistoryEvent(0, "", self._clock.now_ms(), kind, told, subject)
        with contextlib.suppress(StoreFailed):
            await self.records.write(StoreBatch(events=(event,)))
        keeper.parts.tell(event)
        self.published.tell()


def _journal_named(keeper: ClusterKeeper) -> str:
    return "" if keeper.topic_of_words is None else keeper.topic_of_words.mine.journal


def _viewed(proposal: KeptProposal, keeper: ClusterKeeper) -> KeptProposalView:
    rails, least_ms = keeper.policy.rails, _least_ms(proposal, keeper.cluster)
    given, why = approvals(proposal.votes, rails.people), unsure(proposal.votes, rails.people)
    return KeptProposalView(proposal, rails.approvals, least_ms, given, why, rails.declined_minutes)


def _least_ms(proposal: KeptProposal, cluster: KeptCluster) -> int | None:
    """The least time in which the busiest broker receives its new bytes, at the throttle."""
    throttle = cluster.options.throttle
    if throttle is None:
        return None
    grown = max((each.after[0] - each.before[0] for each in proposal.brokers), default=0)
    return max(0, grown) * 1000 // throttle


class PlanningFailed(ShunterError):
    """A look could not be judged."""


@dataclass(slots=True)
class Thinkers:
    """Processes that judge looks and make plans. A process that dies (perhaps for its memory) is replaced."""

    make: Callable[[], Executor]
    pool: Executor | None = None

    async def think(self, question: LookQuestion) -> Thought:
        """Judge a look, in another process.

        Raises:
            DriverError: that process died.
        """
        thought = await self._elsewhere(answered, await asyncio.to_thread(packed, question))
        assert isinstance(thought, Thought)
        return thought

    async def sketch(self, wish: Wish) -> KeptProposal:
        """Plan as a person asks, in another process.

        Raises:
            OrderRefused: there is no such plan.
            DriverError: that process died.
        """
        sketched = await self._elsewhere(answered, await asyncio.to_thread(packed, wish))
        assert isinstance(sketched, KeptProposal)
        return sketched

    async def _elsewhere(self, work: Callable[[Asked], Found], asked: Asked) -> Found:
        if self.pool is None:
            self.pool = self.make()
        pool = self.pool
        try:
            found = await asyncio.get_running_loop().run_in_executor(pool, worked, work, asked)
        except BrokenExecutor as error:
            if self.pool is pool:
                self.pool = None
            raise DriverError("the process that plans died, perhaps for lack of memory", retriable=True) from error
        if not isinstance(found, Failed):
            return found
        if found.refusal is not None:
            raise OrderRefused(found.refusal, found.text)
        raise PlanningFailed(found.text)

    def close(self) -> None:
        """Shut the processes down."""
        if self.pool is not None:
            self.pool.shutdown(wait=False, cancel_futures=True)


def processes() -> Executor:
    """The pool for planning: one process, because planning takes a whole core."""
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=end_with_parent)


def end_with_parent() -> None:
    """End this process when its parent ends, also by SIGKILL: a pool's process would wait for work for ever."""
    parent = multiprocessing.parent_process()

    def follow() -> None:
        assert parent is not None
        parent.join()
        os._exit(0)

    threading.Thread(target=follow, daemon=True).start()


def _looker(cluster: KeptCluster, readers: Executor) -> Callable[[], Awaitable[Sighting]]:
    looker = Looker(cluster)

    async def look() -> Sighting:
        return await asyncio.get_running_loop().run_in_executor(readers, looker.look)

    return sure(look)


def sure(
    look: Callable[[], Awaitable[Sighting]], within_s: float = UNSURE_MS / 1000, again_s: float = LOOK_AGAIN_S
) -> Callable[[], Awaitable[Sighting]]:
    """A look that looks again, because one failure may be of one broker that has just died and is still named.

    A failure counts once looks have failed for `within_s`, or if no broker answers at all. Then each counts.
    """
    failed_s: float | None = None

    async def look_again() -> Sighting:
        nonlocal failed_s
        while True:
            try:
                seen = await look()
            except DriverError as error:
                now_s = asyncio.get_running_loop().time()
                failed_s = now_s if failed_s is None else failed_s
                if isinstance(error, NoBrokerAnswers) or not error.retriable or now_s - failed_s >= within_s:
                    failed_s = now_s - within_s
                    raise
            else:
                failed_s = None
                return seen
            await asyncio.sleep(again_s)

    return look_again


async def take_seat(folder: Path, waiting: Callable[[str], None]) -> ServiceSeat:
    """Wait for the right to serve from a folder; `waiting` gets a sentence about the process that has it now.

    Raises:
        StoreFailed: the folder can't be used.
    """
    told = ""
    while True:
        try:
            return ServiceSeat(folder)
        except ServiceTaken as error:
            if told != str(error):
                told = str(error)
                waiting(f"{error}: this process stands by")
        await asyncio.sleep(SEAT_EVERY_S)


@contextlib.asynccontextmanager
async def open_service(file: ServiceFile, folder: Path) -> AsyncIterator[tuple[ClusterService, Front]]:
    """Put the service together from a policy file and a state folder. Pre: this process has the folder's seat."""
    published = Published([cluster.name for cluster in file.clusters])
    clock = SystemClock()
    store, trouble = open_store(folder / STORE)
    records = Records(store, trouble, published.tell)
    me = str(_this_service(file.address, clock, ""))
    notifications = Notifications(file.notify, me=me)
    published.notifiers = lambda: notifications.figures
    readers = ThreadPoolExecutor(len(file.clusters), thread_name_prefix="look")
    thinkers = Thinkers(processes)
    keepers = {
        cluster.name: ClusterKeeper(
            cluster,
            KeeperParts(
                records=records,
                published=published,
                clock=clock,
                look=_looker(cluster, readers),
                think=thinkers.think,
                sketch=thinkers.sketch,
                seat=seat_of(cluster.target),
                tell=notifications.tell,
                shared=shared_words(cluster, clock),
                clear_throttles=functools.partial(clear_loose_throttles, cluster.target),
                snapshot=snapshots_into(file.snapshots, file.snapshot_every_s, clock),
                look_every_s=file.look_every_s,
                me=me,
            ),
        )
        for cluster in file.clusters
    }
    service = ClusterService(keepers, published, records, clock)
    await service.load()
    notifications.stands = lambda name: standing(keepers[name].facts()) if name in keepers else {}
    sending = asyncio.create_task(notifications.run(service.note))
    try:
        yield service, Front(service)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        thinkers.close()
        readers.shutdown(wait=False, cancel_futures=True)
        await asyncio.gather(
            *(each.topic_of_words.close() for each in keepers.values() if each.topic_of_words is not None)
        )
        await records.close()


def shared_words(cluster: KeptCluster, clock: Clocked) -> SharedWords:
    """The words that live with a cluster."""
    target = cluster.target
    host = socket.gethostname()
    file = f"{host}:{target.journal.resolve() if target.journal is not None else state_folder()}"
    named = f"{TOPIC_PREFIX}{target.journal_topic}" if target.journal_topic is not None else file
    mine = _this_service(target.address, clock, named)

    def topic() -> WordsTopic:
        return WordsTopic(configuration_of(target.bootstrap, target.properties), cluster.name)

    return SharedWords(topic, mine)


def _this_service(address: str, clock: Clocked, journal: str) -> WordsDriver:
    return WordsDriver(socket.gethostname(), os.getpid(), clock.now_ms(), journal, address)


def open_store(path: Path) -> tuple[ServiceStore | None, str]:
    """The store; or None, with a sentence about the reason and the consequence."""
    try:
        return ServiceStore(path), ""
    except StoreDamaged as error:
        return None, f"{error}. {NOTHING_KNOWN}"
    except StoreFailed as error:
        return None, f"{error}. Nothing is driven and no order is taken: repair the store and restart the service"
