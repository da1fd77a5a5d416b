"""Long-lived tasks, and what happens when one of them ends: the process does, with a reason.

A task that ends by an exception nobody looks at leaves a process that seems to run and does not do its work. Every task
that is meant to live as long as its owner is watched here; who cancels it means it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from shunter.errors import InvariantViolation, ShunterError

Supervise: TypeAlias = Callable[[asyncio.Task[Any]], None]
"""Takes a task that must not end by itself."""


class Supervisor:
    """Waits for the first failure among everything that it was given."""

    def __init__(self) -> None:
        self._failure: BaseException | None = None
        self._failed = asyncio.Event()

    @property
    def failure(self) -> BaseException | None:
        """Why the process has to end; None while everything lives."""
        return self._failure

    def watch(self, task: asyncio.Task[Any]) -> None:
        """Have the process end when this task ends without having been cancelled."""
        task.add_done_callback(self._ended)

    def watch_for_errors(self, task: asyncio.Task[Any]) -> None:
        """Have the process end when this task ends by an exception; it may return."""
        task.add_done_callback(self._maybe_failed)

    def fail(self, failure: BaseException) -> None:
        """Have the process end for this reason; the first one counts."""
        if self._failure is None:
            self._failure = failure
        self._failed.set()

    async def wait(self) -> None:
        """Wait for the first failure and raise it.

        Raises:
            ShunterError: the outside failed in a way that its task can't go on after.
            InvariantViolation: a task ended that never should; a bug of ours.
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
