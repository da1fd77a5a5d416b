"""Carries out the decisions of the controller's machine: the only place that calls it, one event at a time.

Order (see `Ready`): requests are queued to their channels before a reply is sent. Both follow only from durable writes,
because the machine returns them no earlier. The next batch is sent to ZooKeeper after both.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections import deque
from collections.abc import Callable

from shunter.core.controller.events import ClusterLoaded, Envelope, Event, SessionExpired, TimePassed
from shunter.core.controller.machine import ControllerMachine
from shunter.core.controller.ready import ConnectBrokers, Read, Ready, WriteBatch
from shunter.core.controller.suspects import Crash, of_event
from shunter.drivers.election.loop_stats import LoopStats
from shunter.drivers.listener.callers import Callers
from shunter.drivers.seams import BrokerChannels, Clock, ControllerStore
from shunter.errors import DriverError, ErrorCode, InvariantViolation
from shunter.model.notice import Notice

LOG = logging.getLogger(__name__)
NOTICES = logging.getLogger("shunter.notices")
ERROR_AT_MOST = 500
"""Characters of a bug's error message that are kept."""
TURN_SECONDS = 0.02
"""How long events are handled without a break before sockets get a turn."""


class ControllerLoop:
    """Feeds events to the machine and carries out its `Ready`.

    Args:
        on_resigned: called with the controller epoch of a term that the machine has resigned from, and the reason.
        on_notice: called with each notice, after it was logged.
    """

    def __init__(
        self,
        machine: ControllerMachine,
        clock: Clock,
        *,
        on_resigned: Callable[[int, str], None] | None = None,
        on_notice: Callable[[Notice], None] | None = None,
    ) -> None:
        self.machine = machine
        self.clock = clock
        self.on_resigned = on_resigned
        self.on_notice = on_notice
        self.on_handled: Callable[[Envelope, Ready], None] | None = None
        """Called with each handled event and its `Ready`; must not take long."""
        self.stats = LoopStats()
        self._events: deque[tuple[Event, str, float]] = deque()
        self._arrived = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at_ms: int | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self.crash: Crash | None = None
        """The crash that ended this controller; see `core.controller.suspects`."""
        self._causes = 0
        self._store: ControllerStore | None = None
        self._channels: BrokerChannels | None = None
        self.callers = Callers(self.post)

    def attach(self, store: ControllerStore, channels: BrokerChannels) -> None:
        """Give the loop the drivers that carry out its decisions; they post their outcomes by `post`."""
        self._store = store
        self._channels = channels

    def post(self, event: Event, cause: str | None = None) -> None:
        """Queue an event. `cause` names its origin, for logs and timelines."""
        if cause is None:
            self._causes += 1
            cause = f"{type(event).__name__}#{self._causes}"
        if isinstance(event, SessionExpired):
            # It is handled first: the other waiting events were for a controller whose term is over.
            self._events.appendleft((event, cause, time.monotonic()))
        else:
            self._events.append((event, cause, time.monotonic()))
        self._arrived.set()

    def waiting(self) -> int:
        """Return the number of events that wait."""
        return len(self._events)

    def oldest_s(self) -> float:
        """Return how long the oldest event has waited, in seconds."""
        return time.monotonic() - self._events[0][2] if self._events else 0.0

    async def run(self) -> None:
        """Handle events until cancelled.

        Raises:
            InvariantViolation: a bug; the process must not go on as the controller.
        """
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            turn_ends = loop.time() + TURN_SECONDS
            while self._events:
                event, cause, arrived = self._events.popleft()
                self.stats.waits.add(time.monotonic() - arrived)
                self._handle(event, cause)
                if self._failure is not None:
                    raise self._failure
                if loop.time() >= turn_ends:
                    await asyncio.sleep(0)
                    turn_ends = loop.time() + TURN_SECONDS

    def _handle(self, event: Event, cause: str) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        was_active, epoch = self.machine.view.active, self.machine.view.controller_epoch
        try:
            envelope = Envelope(self.clock.now_ms(), cause, event)
            ready = self.machine.handle(envelope)
        except Exception as bug:
            if isinstance(bug, InvariantViolation):
                LOG.exception("invariant violated while handling %s (%s)", type(event).__name__, cause)
            self.crash = self._crash_of(event, cause, bug)
            raise
        if isinstance(event, ClusterLoaded) or (self.machine.view.active and not was_active):
            # Objects of the start-up live long and have no cycles: the collector need not examine them again.
            gc.freeze()
        self.stats.handled(type(event).__name__, loop.time() - started)
        self._carry_out(ready, cause)
        if self.on_handled is not None:
            self.on_handled(envelope, ready)
        if ready.resigned and self.on_resigned is not None:
            # The seat does not know yet that the machine has resigned. If its term is over already, it does nothing.
            self.on_resigned(epoch, ready.resigned)

    def _crash_of(self, event: Event, cause: str, bug: Exception) -> Crash:
        """Name the suspects: those that the machine knows and those of the requests behind them, else the event's."""
        suspects = [*self.machine.suspects]
        for its_cause in self.machine.suspected_causes:
            asked = self.callers.asked.get(its_cause)
            suspects += () if asked is None else of_event(asked)
        causes = ", ".join(self.machine.suspected_causes[:3]) or cause
        told = f"{type(bug).__name__}: {bug}"[:ERROR_AT_MOST]
        return Crash(causes, told, tuple(dict.fromkeys(suspects or of_event(event))))

    def _carry_out(self, ready: Ready, cause: str) -> None:
        for notice in ready.notices:
            NOTICES.info("%s: %s: %s [%s]", notice.kind, notice.about, notice.text, cause)
            self.stats.noticed(notice.kind)
            if self.on_notice is not None:
                self.on_notice(notice)
        if ready.writes is not None:
            # This only schedules the write. It starts in the loop's next pass, after the requests and replies below
            # were handed over. Channels encode requests still later, while ZooKeeper works.
            self._spawn(self._write(ready.writes, cause))
        if self._channels is not None:
            for request in ready.requests:
                self._channels.send(request)
        for token, reply in ready.replies:
            self.callers.resolve(token, reply)
        for read in ready.reads:
            self._spawn(self._read(read, self.machine.view.controller_epoch))
        if ready.resigned or ready.reloads:
            self.callers.fail_all(ErrorCode.NOT_CONTROLLER, "this node is not the controller any more")
            if self._channels is not None:
                self._channels.send(ConnectBrokers(()))
        if ready.more:
            self.post(TimePassed(), cause)
        self._set_timer(ready.wake_at_ms)

    def _set_timer(self, wake_at_ms: int | None) -> None:
        if self._timer is not None:
            if wake_at_ms == self._wakes_at_ms:
                return
            self._timer.cancel()
            self._timer = None
        self._wakes_at_ms = wake_at_ms
        if wake_at_ms is not None:
            delay = max(0.0, (wake_at_ms - self.clock.now_ms()) / 1000)
            self._timer = asyncio.get_running_loop().call_later(delay, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self.post(TimePassed(), "timer")

    def _spawn(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
            self._arrived.set()
            self._events.append((TimePassed(), "failure", time.monotonic()))

    async def _write(self, batch: WriteBatch, cause: str) -> None:
        started = asyncio.get_running_loop().time()
        if self._store is None:
            raise InvariantViolation("a batch is handed out only to an attached store", batch=batch.batch_id)
        outcome = await self._store.write(batch)
        self.stats.written(len(batch.records), asyncio.get_running_loop().time() - started)
        self.post(outcome, cause)

    async def _read(self, read: Read, epoch: int) -> None:
        if self._store is None:
            raise InvariantViolation("a read is handed out only to an attached store", read=read)
        try:
            await self._store.read(read)
        except DriverError as error:
            LOG.warning("reading the cluster failed: %s", error)
            if self.machine.view.controller_epoch == epoch:
                self.post(SessionExpired(f"reading the cluster failed: {error}"))

    async def close(self) -> None:
        """Cancel the writes and reads under way."""
        self._set_timer(None)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
