"""Supervision of long-lived tasks: if one of them ends, the process ends too, with a reason.

If a task ended by an exception that no code retrieves, the process would seem to run but not do its work. So every task
that should live as long as its owner is watched here. A cancelled task has ended on purpose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from shunter.errors import InvariantViolation, ShunterError

Supervise: TypeAlias = Callable[[asyncio.Task[Any]], None]
"""Takes a task that must not end by itself."""


class Supervisor:
    """Waits for the first failure among all tasks that it watches."""

    def __init__(self) -> None:
        self._failure: BaseException | None = None
        self._failed = asyncio.Event()

    @property
    def failure(self) -> BaseException | None:
        """Why the process has to end; None while all tasks run."""
        return self._failure

    def watch(self, task: asyncio.Task[Any]) -> None:
        """End the process when this task ends without being cancelled."""
        task.add_done_callback(self._ended)

    def watch_for_errors(self, task: asyncio.Task[Any]) -> None:
        """End the process when this task ends by an exception; the task may return."""
        task.add_done_callback(self._maybe_failed)

    def fail(self, failure: BaseException) -> None:
        """End the process for this reason; only the first reason is kept."""
        if self._failure is None:
            self._failure = failure
        self._failed.set()

    async def wait(self) -> None:
        """Wait for the first failure and raise it.

        Raises:
            ShunterError: something outside failed, so that its task could not go on.
            InvariantViolation: a task ended that should not; this is a bug.
        """
        await self._failed.wait()
        assert self._failure is not None
        raise self._failure

    def _maybe_failed(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._ended(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, ShunterError):
            self.fail(error)
            return
        failure = InvariantViolation("a long-lived task ended by itself", task=task.get_name(), error=error)
        failure.__cause__ = error
        self.fail(failure)
