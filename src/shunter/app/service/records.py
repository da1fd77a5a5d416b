"""The service's store as the service uses it: in a thread of its own, and its trouble told while the rest goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from shunter.drivers.service_store import ServiceStore, StoreFailed
from shunter.errors import FormatError
from shunter.model.service import StoreBatch

Found = TypeVar("Found")


class Records:
    """One store, or none where it can't be used. Calls are carried out one after another, in the order they came."""

    def __init__(self, store: ServiceStore | None, trouble: str, on_change: Callable[[], None]) -> None:
        """Take a store that was opened; None: `trouble` says why there is none."""
        self._store = store
        self._on_change = on_change
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self.trouble = trouble
        """What is wrong with the store, and what that means; "": nothing."""

    @property
    def lost(self) -> bool:
        """Whether nothing that was kept can be read: then it is not known what is paused, drained or frozen."""
        return self._store is None

    async def write(self, batch: StoreBatch) -> None:
        """Make a batch durable, all or none.

        Raises:
            StoreFailed: it is not durable.
        """
        await self.read(lambda store: store.write(batch))
        self._tell("")

    def lose(self, why: str) -> None:
        """Use the store no more: what it says can't be trusted."""
        self._store = None
        self._tell(why)

    async def read(self, work: Callable[[ServiceStore], Found]) -> Found:
        """Do something with the store.

        Raises:
            StoreFailed: it can't be used; nothing was written.
        """
        store = self._store
        if store is None:
            raise StoreFailed(self.trouble, retriable=False)
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._thread, work, store)
        except (StoreFailed, FormatError) as error:
            self._tell(f"{error}: nothing new is begun until the store can be written; what is under way goes on")
            raise StoreFailed(str(error), retriable=True) from error
        return found

    def _tell(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self._on_change()

    async def close(self) -> None:
        """Let what was begun end, and close the file."""
        store = self._store
        if store is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, store.close)
        self._thread.shutdown()
