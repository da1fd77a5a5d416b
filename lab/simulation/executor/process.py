"""An executor's process: the real core, driver and journal in a simulated world. It can be paused and killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from lab.simulation.executor.admin import SimulatedAdmin
from lab.simulation.executor.thread_loop import ThreadLoop
from lab.simulation.scheduler import MS, Scheduler
from shunter.core.executor import events as ev
from shunter.core.executor.machine import Executor
from shunter.core.executor.ready import Ready
from shunter.drivers.journal.execution import ExecutionDriver
from shunter.drivers.journal.journals import JournalDamaged, LeasedJournal, Presence
from shunter.drivers.journal.order_taker import take_orders
from shunter.errors import DriverError
from shunter.model.execution import Command, ExecutionOptions, JournalEntry, MoveOrder
from shunter.model.notice import Notice

if TYPE_CHECKING:
    from lab.simulation.executor.world import ExecutorWorld


CPU_PER_EVENT_S = 0.0002


class ExecutorClock:
    """A process's clock. Its error is fixed at the start of the process, as with `SystemClock`."""

    def __init__(self, scheduler: Scheduler, skew_ms: int, local_minutes: Callable[[], int]) -> None:
        """Remember the clock's error; `local_minutes` returns how far local time is ahead of UTC."""
        self._local_minutes = local_minutes
        self._scheduler = scheduler
        self.skew_ms = skew_ms
        self.events = 0

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return self._scheduler.now_ms + self.skew_ms

    def processor_s(self) -> float:
        """Every event costs the same."""
        return self.events * CPU_PER_EVENT_S

    def utc_offset_minutes(self, now_ms: int) -> int:
        """How far local time is ahead of UTC."""
        del now_ms
        return self._local_minutes()


class ObservedExecutor(Executor):
    """The core, observed by the checkers."""

    observe: Callable[[ev.Envelope, Ready], None]

    def handle(self, envelope: ev.Envelope) -> Ready:
        """Handle an event, and pass it and its `Ready` to the checkers."""
        ready = super().handle(envelope)
        self.observe(envelope, ready)
        return ready


class SimulatedExecutor:
    """One process that wants to drive the journal. It is never started twice."""

    def __init__(self, world: ExecutorWorld, number: int, host: str) -> None:
        """Begin stopped. `number` is its process id on `host`."""
        self.world = world
        self.number = number
        self.host = host
        self.name = f"executor {number}"
        self.owner = f"owner-{number}"
        self.dead = False
        self.ended = ""
        """Why it ended by itself."""
        self.driving = False
        """Whether it took the lease and loaded the journal."""
        self.drives_since_us = 0
        self.countdown = 0
        """It dies when this many more events or requests have entered or left it; 0: it does not."""
        self.clock = ExecutorClock(world.scheduler, world.draw_skew_ms(), lambda: world.local_minutes)
        self.loop = ThreadLoop(world.scheduler, self.name, self._failed, self._thread_us)  # type: ignore[abstract]
        self.admin = SimulatedAdmin(self, world.cluster, world.network)
        self.core = ObservedExecutor()
        self.core.observe = self._observe
        self.driver: ExecutionDriver | None = None
        self._task: asyncio.Task[None] | None = None

    def _thread_us(self) -> int:
        return self.world.scheduler.between(MS // 10, self.world.disk_us)

    # ---- start to end

    @property
    def alive(self) -> bool:
        """Whether the process runs, or is paused."""
        return not self.dead

    def start(self) -> None:
        """Start it."""
        self.loop.deliver(self._begin)

    def _begin(self) -> None:
        self._task = self.loop.create_task(self._live())

    async def _live(self) -> None:
        """Open a session and drive, as `app.executor.open_session` and `drive` do."""
        try:
            self.ended = await self._session()
        except (DriverError, JournalDamaged) as error:
            self.ended = f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001 - its operator would see a traceback
            self._failed(self.name, error)
        self.world.scheduler.after(0, self.world.process_ended, self)

    async def _session(self) -> str:
        await self.admin.cluster_id()
        disk = self.world.disk
        presence = Presence(self.host, self.number, self.world.is_process_alive)
        opening: Callable[[str, Presence], LeasedJournal] = disk.journal
        journal = await asyncio.to_thread(opening, self.owner, presence)
        await asyncio.to_thread(self._take_lease, journal, self.clock.now_ms())
        entries = await asyncio.to_thread(self._load, journal)
        driver = ExecutionDriver(self.core, journal, self.admin, self.clock, self._take_notice)
        driver.post(ev.JournalLoaded(entries, "simulated"), "start")
        self.driver, self.driving = driver, True
        self.drives_since_us = self.world.scheduler.now_us
        self.world.process_ready(self)
        await asyncio.sleep(0)  # The first requests are queued before the core can decide that it is idle.
        orders = asyncio.create_task(take_orders(driver, journal))
        running = asyncio.create_task(driver.run(forever=self.world.shape.daemon))
        await asyncio.wait({running, orders}, return_when=asyncio.FIRST_COMPLETED)
        self.driving = False
        for task in (running, orders):
            task.cancel()
        ended = await asyncio.gather(running, orders, return_exceptions=True)
        for each in ended:
            if isinstance(each, Exception):
                raise each
        await asyncio.to_thread(journal.release)
        finish = ended[0]
        return "left" if isinstance(finish, BaseException) else finish.fatal or "finished"

    def _take_lease(self, journal: LeasedJournal, now_ms: int) -> None:
        """Take the lease, in a thread. Rules see it when the journal has it, not when the process learns of that."""
        journal.acquire(now_ms)
        self.world.rules.lease_taken(self)

    def _load(self, journal: LeasedJournal) -> tuple[JournalEntry, ...]:
        """Read the journal, in a thread. It may be damaged after the read, before the process gets the entries."""
        entries = journal.load()
        self.world.rules.journal_loaded(self, entries)
        return entries

    def pause(self) -> None:
        """SIGSTOP, or a machine that was suspended."""
        if self.alive and not self.loop.paused:
            self.loop.pause()

    def resume(self) -> None:
        """Go on, with what the process knew before."""
        if self.alive and self.loop.paused:
            self.loop.resume()

    def kill(self) -> None:
        """SIGKILL: none of its code runs again. Requests that it sent still arrive."""
        if self.alive:
            self.dead = True
            self.driving = False
            self.loop.clean_up()

    def cross(self) -> None:
        """Count an event or request that enters or leaves the process, which may die at that."""
        if self.countdown > 0:
            self.countdown -= 1
            if self.countdown == 0:
                self.die()

    def die(self) -> None:
        """SIGKILL at once; its tasks are cleaned up when this event is over."""
        self.loop.dead = True
        self.world.scheduler.after(0, self.world.kill_executor, self)

    # ---- requests

    def submit(self, plan_id: str, moves: tuple[MoveOrder, ...], options: ExecutionOptions) -> None:
        """Hand in a plan as the process's own command line does."""
        self.loop.deliver(self._submit, plan_id, moves, options)

    def _submit(self, plan_id: str, moves: tuple[MoveOrder, ...], options: ExecutionOptions) -> None:
        async def work() -> None:
            assert self.driver is not None
            asked_us = self.world.scheduler.now_us
            try:
                reply = await self.driver.submit(plan_id, moves, options)
            except DriverError:
                return
            self.world.rules.plan_answered(self, asked_us, reply)

        if self.driving:
            self.loop.create_task(work())

    def command(self, command: Command) -> None:
        """Hand in an order as the process's own command line does."""
        self.loop.deliver(self._command, command)

    def _command(self, command: Command) -> None:
        async def work() -> None:
            assert self.driver is not None
            asked = self.world.rules.command_asked(self, command)
            try:
                reply = await self.driver.command(command)
            except DriverError:
                return
            asked(reply)

        if self.driving:
            self.loop.create_task(work())

    # ---- for the checkers

    def _observe(self, envelope: ev.Envelope, ready: Ready) -> None:
        self.clock.events += 1
        if self.alive:
            self.world.core_handled(self, envelope, ready)
            self.cross()

    def _take_notice(self, notice: Notice) -> None:
        self.world.coverage.count("notice", notice.kind)

    def _failed(self, name: str, failure: BaseException) -> None:
        self.world.process_failed(name, failure)
