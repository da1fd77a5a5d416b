"""Drives the executor's core: carries out each `Ready` in its order, and returns the outcomes as events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from shunter.core.executor import events as ev
from shunter.core.executor.machine import Executor
from shunter.core.executor.ready import (
    AlterLogDirs,
    AlterReassignments,
    AlterSettings,
    CommandReply,
    ElectLeaders,
    Finish,
    JournalBatch,
    ListReassignments,
    ObserveLogDirs,
    ObserveTopics,
    PlanReply,
    Read,
    ReadSettings,
    Ready,
    Reply,
    Request,
)
from shunter.drivers.admin.protocol import AdminClient, SettingsDenied
from shunter.drivers.host.whole_calls import to_its_end
from shunter.drivers.journal.claimants import ClusterClaimed
from shunter.drivers.journal.journals import (
    JournalBusy,
    JournalFenced,
    JournalForsaken,
    JournalUnusable,
    JournalUnwritten,
    LeasedJournal,
)
from shunter.drivers.seams import ProcessClock
from shunter.errors import DriverError
from shunter.model.execution import Command, ExecutionOptions, MoveOrder
from shunter.model.notice import Notice

Answer = TypeVar("Answer")

BUSY_S = 1.0
"""How long to wait before a locked journal is tried again."""
HELD_MS = 1_000
"""How long the lease counts as held without another check.

This is far shorter than the lease: if two executors found it free at the same time, the later one takes it from the
earlier one at any moment.
"""
RENEW_S = 4.0
"""How often the lease is renewed when nothing is written."""


class Claim(Protocol):
    """The right to drive the cluster, which other executors see."""

    async def granted(self) -> None:
        """Wait for the claim; raise `DriverError` if another executor has it."""
        ...

    def unheard_ms(self) -> int:
        """For how long the claim has not been confirmed."""
        ...


_FATAL: tuple[tuple[type[DriverError], ev.Fatal], ...] = (
    (JournalForsaken, ev.Fatal.FORSAKEN),
    (JournalFenced, ev.Fatal.TAKEN),
    (ClusterClaimed, ev.Fatal.CLAIMED),
    (JournalUnwritten, ev.Fatal.UNWRITTEN),
    (JournalUnusable, ev.Fatal.JOURNAL),
)
"""What each error means to the core; the first match counts."""


class ExecutorEnded(DriverError):
    """The executor ended before it answered a request."""


def refused(error: DriverError, batch_id: int = 0) -> ev.JournalRefused:
    """Make the event for the core that the journal or the claim was lost."""
    kind = next((kind for kinds, kind in _FATAL if isinstance(error, kinds)), ev.Fatal.CLUSTER)
    return ev.JournalRefused(batch_id, str(error), kind)


class ExecutionDriver:
    """Runs one executor. `listener` gets the notices; it must not block."""

    def __init__(
        self,
        core: Executor,
        journal: LeasedJournal,
        admin: AdminClient,
        clock: ProcessClock,
        listener: Callable[[Notice], None],
        claim: Claim | None = None,
    ) -> None:
        """Put the parts together; nothing runs yet. Without a `claim` only the journal's lease is checked."""
        self.core = core
        self.clock = clock
        self._journal = journal
        self._admin = admin
        self._listener = listener
        self._claim, self._claimed_at_ms = claim, 0
        self._queue: asyncio.Queue[tuple[str, ev.Event]] = asyncio.Queue()
        self._journal_lock = asyncio.Lock()
        self._waiting: dict[ev.ReplyToken, asyncio.Future[Reply]] = {}
        self._last_token = 0
        self._events = 0
        self._held_ms = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._bug: BaseException | None = None

    def post(self, event: ev.Event, cause: str) -> None:
        """Hand an event to the core. `cause` names its origin."""
        self._queue.put_nowait((cause, event))

    def backlog(self) -> int:
        """Return the number of events that wait for the core."""
        return self._queue.qsize()

    def under_way(self) -> int:
        """Return the number of reads and requests that are not answered yet."""
        return len(self._tasks)

    def lease_seen_ms(self) -> int:
        """Return when the last successful look at the lease began, by this process's clock; 0: never."""
        return self._held_ms

    def unanswered(self) -> int:
        """Return the number of callers that wait for an answer."""
        return len(self._waiting)

    async def ask(self, cause: str, make: Callable[[ev.ReplyToken], ev.Event]) -> Reply:
        """Hand in an event that has an answer, and wait for the answer, which comes once the event is durable."""
        self._last_token += 1
        token = self._last_token
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[token] = answer
        self.post(make(token), cause)
        return await answer

    async def submit(self, plan_id: str, moves: Sequence[MoveOrder], options: ExecutionOptions) -> PlanReply:
        """Hand in a plan; return when it is durable."""
        reply = await self.ask("plan", lambda token: ev.PlanSubmitted(plan_id, tuple(moves), options, token))
        assert isinstance(reply, PlanReply)
        return reply

    async def command(self, command: Command) -> CommandReply:
        """Hand in an order; return when it is durable."""
        reply = await self.ask("command", lambda token: ev.CommandReceived(command, token))
        assert isinstance(reply, CommandReply)
        return reply

    async def with_journal(self, work: Callable[[], Answer]) -> Answer:
        """Use the journal in a thread, one use at a time; try again while another process keeps it locked."""
        while True:
            try:
                async with self._journal_lock:
                    return await to_its_end(work)
            except JournalBusy as error:
                self._listener(Notice("journal-busy", "", str(error)))
            await asyncio.sleep(BUSY_S)

    async def run(self, *, forever: bool = False) -> Finish:
        """Work until everything is done (or, if `forever`, until a fatal error), and return how it ended."""
        renewing = asyncio.create_task(self._renew())
        try:
            while True:
                finish = await self._turn()
                if finish is not None and (finish.fatal is not None or not forever):
                    return finish
        finally:
            for task in (renewing, *self._tasks):
                task.cancel()
            await asyncio.gather(renewing, *self._tasks, return_exceptions=True)
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(ExecutorEnded("the executor ended before it could answer", retriable=False))

    _wake_at_ms: int | None = None

    async def _turn(self) -> Finish | None:
        """Handle one event, and the outcomes of its writes."""
        cause, event = await self._next()
        if self._bug is not None:
            raise self._bug
        written = False
        while True:
            self._events += 1
            now_ms = self.clock.now_ms()
            ready = self.core.handle(ev.Envelope(now_ms, cause, event, self.clock.utc_offset_minutes(now_ms)))
            for notice in ready.notices:
                self._listener(notice)
            outcome = None
            if ready.writes is not None:
                outcome = await self._write(ready.writes)
                written = True
            if ready.requests and not isinstance(outcome, ev.JournalRefused):
                outcome = await self._check(written=written) or outcome
            if isinstance(outcome, ev.JournalRefused):
                ready = replace(ready, requests=())  # An executor that lost its journal sends no requests.
            self._carry_out(ready)
            self._wake_at_ms = ready.wake_at_ms
            if ready.finish is not None and self._queue.empty():
                return ready.finish
            if outcome is None:
                return None
            event = outcome

    async def _next(self) -> tuple[str, ev.Event]:
        if not self._queue.empty() or self._wake_at_ms is None:
            return await self._queue.get()
        delay = max(0.0, (self._wake_at_ms - self.clock.now_ms()) / 1000)
        try:
            async with asyncio.timeout(delay):
                return await self._queue.get()
        except TimeoutError:
            return f"time-{self._events}", ev.TimePassed()

    async def _write(self, batch: JournalBatch) -> ev.JournalWritten | ev.JournalRefused:
        try:
            await self._hold(lambda: self._journal.append(batch.entries, self.clock.now_ms()))
        except DriverError as error:
            return refused(error, batch.batch_id)
        return ev.JournalWritten(batch.batch_id)

    async def _hold(self, work: Callable[[], None]) -> None:
        """Do something that fails if another executor has the lease, and remember when this executor had it.

        The time is taken in the thread, when the work itself begins. The wait for the journal before it says nothing
        about the lease, and would make a look that is quick count as one that takes long.
        """

        def look() -> int:
            began_ms = self.clock.now_ms()
            work()
            return began_ms

        self._held_ms = await self.with_journal(look)

    async def _check(self, *, written: bool) -> ev.JournalRefused | None:
        """Check the lease before requests are sent; `written`: a write of this turn has shown that it is held."""
        try:
            await self._still_ours(known=written)
        except DriverError as error:
            return refused(error)
        return None

    async def granted(self) -> None:
        """Wait until this executor has the cluster's claim; raises `DriverError` if another one has it."""
        if self._claim is not None:
            await self._claim.granted()

    def claimed_at_ms(self) -> int | None:
        """When both the cluster's claim and the journal's lease were confirmed, by this process's clock; None: no claim is kept.

        Who takes the lease may end the claim of this process, which learns of that later.
        """
        if self._claim is None:
            return None
        at_ms = self.clock.now_ms() - self._claim.unheard_ms()
        at_ms = min(at_ms, self._held_ms) if self._held_ms else at_ms
        if abs(at_ms - self._claimed_at_ms) >= 1_000:  # Two clocks are read: they differ a little from call to call.
            self._claimed_at_ms = at_ms
        return self._claimed_at_ms

    async def _still_ours(self, *, known: bool = False) -> None:
        """Check that this executor has the lease now; also between the requests of a change of settings, which is slow.

        If the process stood still since the last check, another executor may have the lease: then it is checked again.

        Raises:
            JournalFenced: another executor drives the journal.
        """
        await self.granted()
        if not known:
            await self._hold(self._journal.check)
        enough_ms = HELD_MS
        while (age_ms := self.clock.now_ms() - self._held_ms) > enough_ms:
            enough_ms = age_ms  # If each check takes this long, no check would ever be fresh enough.
            await self._hold(self._journal.check)

    def _carry_out(self, ready: Ready) -> None:
        for request in ready.requests:
            self._begin(self._request(request))
        for token, reply in ready.replies:
            answer = self._waiting.pop(token, None)
            if answer is not None and not answer.done():
                answer.set_result(reply)
        for read in ready.reads:
            self._begin(self._read(read))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """End the executor if a read or request ended in a bug: the core would wait for its answer for ever."""
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._bug = task.exception()
            self.post(ev.TimePassed(), "bug")

    async def _request(self, request: Request) -> None:
        cause = f"request-{request.request_id}"
        try:
            event = await self._ask_admin(request)
        except DriverError as error:
            denied = error.settings if isinstance(error, SettingsDenied) else ()
            event = ev.AdminFailed(request.request_id, type(request).__name__, str(error), error.retriable, denied)
        self.post(event, cause)

    async def _ask_admin(self, request: Request) -> ev.Event:
        match request:
            case AlterReassignments():
                results = await self._admin.alter_reassignments(request.targets, keeps_factor=request.keeps_factor)
                return ev.ReassignmentsAnswered(request.request_id, results)
            case AlterSettings():
                missing = await self._admin.alter_settings(request.settings, self._still_ours)
                errors = {key: why.told for key, why in missing.items()}
                refused = frozenset(key for key, why in missing.items() if why.refused)
                return ev.SettingsAltered(request.request_id, errors, refused)
            case AlterLogDirs():
                placed = await self._admin.alter_log_dirs(request.replicas)
                return ev.LogDirsAltered(request.request_id, placed)
            case ElectLeaders():
                elected = await self._admin.elect_preferred(request.partitions)
                return ev.LeadersElected(request.request_id, elected)

    async def _read(self, read: Read) -> None:
        what = "others" if isinstance(read, ReadSettings) and read.of_others else _WHAT[type(read)]
        try:
            event = await self._look(read)
        except DriverError as error:
            settings = read.keys if isinstance(read, ReadSettings) else ()
            event = ev.AdminFailed(0, what, str(error), error.retriable, settings)
        self.post(event, what)

    async def _look(self, read: Read) -> ev.Event:
        asked_at_ms, began = self.clock.now_ms(), self.clock.processor_s()

        def cost_ms() -> int:
            return int((self.clock.processor_s() - began) * 1000)

        match read:
            case ListReassignments():
                ongoing = await self._admin.list_reassignments()
                return ev.ReassignmentsListed(ongoing, asked_at_ms, cost_ms())
            case ObserveTopics():
                seen = await self._admin.observe_topics(read.topics, sure=read.sure)
                topics = {"": None, **seen.topics} if not read.topics else seen.topics
                return ev.TopicsObserved(topics, seen.brokers, seen.controller, asked_at_ms, cost_ms(), seen.needs_all)
            case ObserveLogDirs():
                asked = dict(read.partitions)
                dirs = await self._admin.observe_log_dirs(asked)
                return ev.LogDirsObserved(
                    dirs.sizes, dirs.spaces, dirs.brokers, asked_at_ms, cost_ms(), dirs.futures, asked, dirs.broken
                )
            case ReadSettings():
                settings = await self._admin.read_settings(read.keys)
                return ev.SettingsRead(settings.own, settings.effective, read.of_others)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            try:
                await self._hold(lambda: self._journal.renew(self.clock.now_ms()))
            except DriverError as error:
                self.post(refused(error), "lease")
                return


_WHAT: dict[type, str] = {
    ListReassignments: "list",
    ObserveTopics: "topics",
    ObserveLogDirs: "log-dirs",
    ReadSettings: "settings",
}
