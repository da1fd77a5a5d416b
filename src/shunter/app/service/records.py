"""The service's store, in a thread of its own. Its failures are reported, and the rest of the service goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from shunter.drivers.service.store import ServiceStore, StoreFailed
from shunter.errors import FormatError
from shunter.model.service import StoreBatch

Found = TypeVar("Found")


class Records:
    """One store, or none if it can't be used. Calls are carried out one after another, in the order of requests."""

    def __init__(self, store: ServiceStore | None, trouble: str, on_change: Callable[[], None]) -> None:
        """Take an open store; None: `trouble` says why there is none."""
        self._store = store
        self._on_change = on_change
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self.trouble = trouble
        """What is wrong with the store, and the consequence; "": nothing is wrong."""

    @property
    def lost(self) -> bool:
        """Whether the store can't be read at all, so that it is unknown what is paused, drained or frozen."""
        return self._store is None

    async def write(self, batch: StoreBatch) -> None:
        """Make a batch durable, all of it or none.

        Raises:
            StoreFailed: the batch is not durable.
        """
        await self.read(lambda store: store.write(batch))
        self._tell("")

    def lose(self, why: str) -> None:
        """Stop using the store, because its contents can't be trusted."""
        if self._store is not None:
            self._thread.submit(self._store.close)
        self._store = None
        self._tell(why)

    async def read(self, work: Callable[[ServiceStore], Found]) -> Found:
        """Call a function with the store, in its thread.

        Raises:
            StoreFailed: the store can't be used; nothing was written.
        """
        store = self._store
        if store is None:
            raise StoreFailed(self.trouble, retriable=False)
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._thread, work, store)
        except (StoreFailed, FormatError) as error:
            self._tell(f"{error}: nothing new begins until the store can be written; moves under way go on")
            raise StoreFailed(str(error), retriable=True) from error
        return found

    def _tell(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self._on_change()

    async def close(self) -> None:
        """Wait for running calls, and close the file."""
        store = self._store
        if store is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, store.close)
        self._thread.shutdown()
