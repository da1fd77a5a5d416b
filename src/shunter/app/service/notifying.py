"""Notifications: events go to a webhook, to Slack, to Alertmanager or to a command. None of them delays the service."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from shunter.drivers.service.notifier import notify
from shunter.errors import DriverError
from shunter.model.service import HistoryEvent, Notifier

LOG = logging.getLogger(__name__)
MOST_WAITING = 1_000
"""The most events that wait for one receiver. Beyond it the oldest are left out, and the next message says how many."""
TRIES = 3
AGAIN_S = 5.0


class Notifications:
    """One queue for each receiver. `tell` never waits."""

    def __init__(self, receivers: Sequence[Notifier], again_s: float = AGAIN_S) -> None:
        """Make the queues; nothing is sent before `run`."""
        self._again_s = again_s
        self._queues = [(each, deque[HistoryEvent](maxlen=MOST_WAITING)) for each in receivers]
        self._left_out = [0] * len(self._queues)
        self._came = asyncio.Event()
        self.trouble = [""] * len(self._queues)
        """By receiver: why the last message was not delivered; "": it was."""

    def tell(self, event: HistoryEvent) -> None:
        """Queue an event for every receiver that wants its kind."""
        for at, (receiver, queue) in enumerate(self._queues):
            if receiver.wants(event.kind):
                self._left_out[at] += len(queue) == MOST_WAITING
                queue.append(event)
        self._came.set()

    async def run(self) -> None:
        """Send until cancelled."""
        if self._queues:
            await asyncio.gather(*(self._send_forever(at) for at in range(len(self._queues))))

    async def _send_forever(self, at: int) -> None:
        receiver, queue = self._queues[at]
        # A thread for each receiver: one that does not answer delays only its own messages.
        pool = ThreadPoolExecutor(1, thread_name_prefix="notify")
        try:
            while True:
                while not queue:
                    self._came.clear()
                    await self._came.wait()
                event = queue.popleft()
                left_out, self._left_out[at] = self._left_out[at], 0
                trouble = await self._sent(receiver, event, left_out, pool)
                if trouble and not self.trouble[at]:
                    LOG.warning("notifications can't be delivered: %s", trouble)
                self.trouble[at] = trouble
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    async def _sent(self, receiver: Notifier, event: HistoryEvent, left_out: int, pool: ThreadPoolExecutor) -> str:
        """Try to send an event a few times; returns why it was not delivered, or ""."""
        for again in range(TRIES):
            try:
                await asyncio.get_running_loop().run_in_executor(pool, notify, receiver, event, left_out)
            except DriverError as error:
                if not error.retriable or again == TRIES - 1:
                    return str(error)
                await asyncio.sleep(self._again_s)
            except Exception as error:
                LOG.exception("a message could not be sent")  # Later messages are still tried.
                return f"a bug of Shunter's: {error!r}"
            else:
                return ""
        return ""
