"""SCRAM's users in ZooKeeper, where Kafka stores them: read at each login, so that a change takes effect at once."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict

from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.errors import DriverError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.configs import decode_config, decode_scram_credential, sanitized
from shunter.model.security.listeners import ScramCredential

_LOG = logging.getLogger(__name__)
READ_SECONDS = 3.0
"""How long a login waits for ZooKeeper, which may be silent though the connection seems to live."""
_REMEMBERED = 1_000


class ScramUsers:
    """Reads credentials. While ZooKeeper can't be reached, users who logged in before are checked by their last one."""

    def __init__(self) -> None:
        self.client: ZooKeeperClient | None = None
        self._known: OrderedDict[tuple[str, str], ScramCredential] = OrderedDict()

    async def credential(self, user: str, mechanism: str) -> ScramCredential | None:
        """Return the credential to check a login against; None if the user has none for this mechanism.

        Raises:
            DriverError: ZooKeeper can't be asked, and no credential of the user is remembered.
            FormatError: the user's znode can't be read.
        """
        if user in {".", ".."}:
            return None  # A znode can't have this name.
        try:
            found = await self._read(user, mechanism)
        except DriverError as failure:
            known = self._known.get((user, mechanism))
            if known is None:
                raise
            _LOG.info("user %r is judged by the credential from before: %s", user, failure)
            return known
        self._known.pop((user, mechanism), None)
        if found is not None:
            self._known[user, mechanism] = found
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found

    async def _read(self, user: str, mechanism: str) -> ScramCredential | None:
        if self.client is None or not self.client.connected:
            raise DriverError("ZooKeeper is not connected", retriable=True)
        path = znodes.config("users", sanitized(user))
        try:
            async with asyncio.timeout(READ_SECONDS):
                znode = await self.client.get(path)
        except TimeoutError:
            raise DriverError(f"ZooKeeper has not answered within {READ_SECONDS:g} s", retriable=True) from None
        text = None if znode is None else decode_config(path, znode.data).get(mechanism)
        return None if text is None else decode_scram_credential(path, text)
