"""An asyncio event loop for each simulated process, on virtual time, so that the drivers run unchanged.

A process can be killed, and paused as by a long garbage collection or SIGSTOP: none of its code runs, and what arrives
waits.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from lab.simulation.scheduler import SECOND, Scheduler

_T = TypeVar("_T")


class ProcessLoop(asyncio.AbstractEventLoop):
    """One process's event loop. What reaches the process goes through `deliver`.

    Args:
        on_failure: called with an exception that a callback or a task raised and did not catch.
    """

    def __init__(self, scheduler: Scheduler, name: str, on_failure: Callable[[str, BaseException], None]) -> None:
        """Begin alive and idle."""
        self.name = name
        self.paused = False
        self.dead = False
        self._scheduler = scheduler
        self._on_failure = on_failure
        self._ready: deque[asyncio.Handle] = deque()
        self._draining = False
        self._woken = False

    # ---- for the world

    def deliver(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Run a callback for something that arrives from outside, and all callbacks that become ready by it."""
        if self.dead:
            return
        self._ready.append(asyncio.Handle(callback, arguments, self))
        self._drain()

    def pause(self) -> None:
        """Run nothing until `resume`."""
        self.paused = True

    def resume(self) -> None:
        """Go on, and run what has arrived meanwhile."""
        self.paused = False
        self._drain()

    def kill(self) -> None:
        """End at once: no callback ever runs again."""
        self.dead = True
        self._ready.clear()

    def _drain(self) -> None:
        if self._draining or self.paused or self.dead:
            return
        self._draining = True
        outer = events._get_running_loop()  # noqa: SLF001 - set and restored, as asyncio's own loops do
        events._set_running_loop(self)  # noqa: SLF001
        ready = self._ready
        try:
            while ready and not self.dead:
                handle = ready.popleft()
                if not handle.cancelled():
                    handle._run()  # noqa: SLF001
        finally:
            events._set_running_loop(outer)  # noqa: SLF001
            self._draining = False

    def _wake(self) -> None:
        self._woken = False
        self._drain()

    def _fire(self, handle: asyncio.TimerHandle) -> None:
        if not self.dead and not handle.cancelled():
            self._ready.append(handle)
            self._drain()

    # ---- for asyncio

    def time(self) -> float:
        """Seconds since the world began."""
        return self._scheduler.now_us / SECOND

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback after what is ready now."""
        handle = asyncio.Handle(callback, args, self, context)
        if not self.dead:
            self._ready.append(handle)
            if not self._draining and not self._woken:
                self._woken = True
                self._scheduler.after(0, self._wake)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback; there is one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run a callback in `delay` seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run a callback at a moment of `time()`; never before it."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._scheduler.at(-int(-when * SECOND // 1), self._fire, handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, _T], **options: Any) -> asyncio.Task[_T]:  # type: ignore[override]
        """Start a task."""
        task = asyncio.Task(coro, loop=self, name=options.get("name"))
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if self.dead or task.cancelled():
            return
        failure = task.exception()
        if failure is not None and (isinstance(failure, AssertionError) or type(failure).__name__ in _BUGS):
            self._on_failure(self.name, failure)

    def run_in_executor(  # type: ignore[override]
        self,
        executor: Any,
        func: Callable[..., _T],
        *args: Any,
    ) -> asyncio.Future[_T]:
        """Run at once; there is one thread."""
        del executor
        future: asyncio.Future[_T] = self.create_future()
        future.set_result(func(*args))
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report an exception that was not caught."""
        failure = context.get("exception")
        if failure is not None and not self.dead:
            self._on_failure(self.name, failure)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Do as `call_exception_handler`."""
        self.call_exception_handler(context)

    def get_debug(self) -> bool:
        """Return False: asyncio's debug mode is off."""
        return False

    def is_running(self) -> bool:
        """Whether a callback of this process runs now."""
        return self._draining

    def is_closed(self) -> bool:
        """Whether the process is dead."""
        return self.dead

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Ignore it: a cancelled timer is passed over when it is due."""


_BUGS = frozenset(
    {
        "InvariantViolation",
        "AttributeError",
        "IndexError",
        "KeyError",
        "NameError",
        "RuntimeError",
        "TypeError",
        "ValueError",
        "ZeroDivisionError",
        "FormatError",
    }
)
"""Exceptions by name that are a bug in Shunter when a task ends by them."""
