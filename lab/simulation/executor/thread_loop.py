"""A process's event loop whose threads take time: work for a thread is done later, or never after a kill."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from lab.simulation.event_loop import ProcessLoop
from lab.simulation.scheduler import Scheduler

_T = TypeVar("_T")

ROUNDS = 20


class ThreadLoop(ProcessLoop):
    """One process's event loop.

    Args:
        thread_us: Draws how long a thread takes to begin its work, and how long to report that it is done.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        name: str,
        on_failure: Callable[[str, BaseException], None],
        thread_us: Callable[[], int],
    ) -> None:
        """Begin alive and idle."""
        super().__init__(scheduler, name, on_failure)
        self._thread_us = thread_us
        self._tasks: list[asyncio.Task[Any]] = []
        self._cleaned_up = False

    def create_task(self, coro: Coroutine[Any, Any, _T], **options: Any) -> asyncio.Task[_T]:  # type: ignore[override]
        """Start a task, and remember it for `clean_up`."""
        task = super().create_task(coro, **options)
        if len(self._tasks) > 64:
            self._tasks = [each for each in self._tasks if not each.done()]
        self._tasks.append(task)
        return task

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback after what is ready now; callbacks of a dying process are kept for `clean_up`."""
        handle = super().call_soon(callback, *args, context=context)
        if self.dead and not self._cleaned_up:
            self._ready.append(handle)
        return handle

    def run_in_executor(  # type: ignore[override]
        self,
        executor: Any,
        func: Callable[..., _T],
        *args: Any,
    ) -> asyncio.Future[_T]:
        """Let a thread call `func`. A kill may come before the call, or after it but before its result is delivered."""
        del executor
        future: asyncio.Future[_T] = self.create_future()
        self._scheduler.after(self._thread_us(), self._work, future, func, args)
        return future

    def _work(self, future: asyncio.Future[_T], func: Callable[..., _T], args: tuple[Any, ...]) -> None:
        if self.dead or future.cancelled():
            return
        if self.paused:  # The process's threads are paused too.
            self._scheduler.after(self._thread_us() + 1_000, self._work, future, func, args)
            return
        try:
            result, failure = func(*args), None
        except Exception as error:  # noqa: BLE001 - the future gets it
            result, failure = None, error
        self._scheduler.after(self._thread_us(), self.deliver, _tell, future, result, failure)

    def clean_up(self) -> None:
        """Cancel a dead process's tasks, so that none of their code runs when Python's garbage collector finds them."""
        self.dead, self.paused, self._draining = False, False, False
        self._on_failure = _ignore
        for _ in range(ROUNDS):
            waiting = [task for task in self._tasks if not task.done()]
            if not waiting:
                break
            for task in waiting:
                task.cancel()
            self._woken = True  # So `call_soon` schedules nothing.
            self._drain()
        self._cleaned_up = True
        self.kill()
        self._tasks.clear()


def _tell(future: asyncio.Future[Any], result: Any, failure: Exception | None) -> None:
    if future.cancelled():
        return
    if failure is not None:
        future.set_exception(failure)
    else:
        future.set_result(result)


def _ignore(name: str, failure: BaseException) -> None:
    """Ignore a failure of a dead process."""
