"""The durable note that this id is a controller's, and no broker's: a successor has to know.

Brokers may place replicas on this id as soon as it is registered, and the controllership may be lost a moment later. So
the note is written with the election. If that is not possible, it is written as soon as ZooKeeper allows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.drivers.zookeeper.requests import (
    BAD_VERSION,
    NO_NODE,
    NODE_EXISTS,
    CheckVersion,
    Committed,
    ConnectionLost,
    Create,
    Operation,
    ZooKeeperRefused,
)
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.brokers import encode_controller_id
from shunter.model.partition import BrokerId

logger = logging.getLogger(__name__)

NOTED_WITHIN_S = 1.0
"""How often to try again to note this controller's id durably, while it leads without the note."""


class IdNote:
    """Writes the note, and remembers whether it exists."""

    def __init__(self, client: ZooKeeperClient, broker_id: BrokerId) -> None:
        self.path = znodes.controller_id(broker_id)
        self._client = client
        self._exists = False
        self._refused: str | None = None

    def forget(self) -> None:
        """Forget that the note exists: it has changed, or its watch is over."""
        self._exists = False

    async def look(self) -> None:
        """Find out, while there is time, whether the note exists: then the election need not try to write it."""
        if self._exists:
            return
        with contextlib.suppress(TimeoutError, ConnectionLost, ZooKeeperRefused):
            async with asyncio.timeout(NOTED_WITHIN_S):
                self._exists = await self._client.exists(self.path, watch=True) is not None

    async def win(self, operations: list[Operation]) -> tuple[Committed, bool]:
        """Write an election and the note; return also whether the note was written.

        If the note can't be written, or exists already, the election is written without it, and the caller makes sure
        of the note by `write`.
        """
        self._refused = None
        if self._exists:
            return await self._client.multi(operations), False
        try:
            return await self._client.multi((*operations, self._creation())), True
        except ZooKeeperRefused as refusal:
            if refusal.index != len(operations):
                raise
        return await self._client.multi(operations), False

    def _creation(self) -> Create:
        return Create(self.path, encode_controller_id())

    async def write(self, epoch_version: int, leads: Callable[[], bool]) -> bool:
        """Write the note, if the election could not: fenced by the term of `epoch_version`.

        If the write fails, this process leads without the note, and False says to try again.
        """
        operations = (CheckVersion(znodes.CONTROLLER_EPOCH, epoch_version), self._creation())
        while leads():
            try:
                await self._client.multi(operations)
            except ConnectionLost:
                continue  # The note may have been written or not.
            except ZooKeeperRefused as refusal:
                if refusal.code == BAD_VERSION:
                    break  # Another process was elected.
                if refusal.code != NODE_EXISTS:
                    self._could_not(str(refusal))
                    if refusal.code == NO_NODE and refusal.index > 0:
                        await self._make_the_folder()
                    return False
            if self._refused is not None:
                logger.info("our id is noted now; a successor will know that we are no broker")
            break
        return True

    async def _make_the_folder(self) -> None:
        """Create the folder of controllers' ids again: the client creates it when it connects, but it was deleted."""
        with contextlib.suppress(ConnectionLost, ZooKeeperRefused):
            await self._client.ensure((znodes.CONTROLLERS,))

    def _could_not(self, refusal: str) -> None:
        if refusal != self._refused:
            logger.warning(
                "a successor of another id will not know that we are no broker, and leaves replicas on our id where"
                " brokers place them; this is tried again every %g s: %s",
                NOTED_WITHIN_S,
                refusal,
            )
        self._refused = refusal
