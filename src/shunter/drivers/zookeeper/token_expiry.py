"""Deletes delegation tokens that have expired, as Apache's controller does.

In ZooKeeper mode a broker never deletes a token itself, and accepts logins with any token that is still stored.
"""

from __future__ import annotations

import logging

from shunter.drivers.zookeeper.reader import ClusterReader
from shunter.drivers.zookeeper.requests import Create, Operation, Remove, Znode
from shunter.drivers.zookeeper.store import ZooKeeperStore
from shunter.errors import DriverError, FormatError, RequestRejected
from shunter.formats.znodes.tokens import TOKEN_CHANGE_PREFIX, TOKENS, decode_token, encode_token_change

_LOG = logging.getLogger(__name__)
CHECK_INTERVAL_MS = 3_600_000
"""Kafka's default of `delegation.token.expiry.check.interval.ms`. Until a check, brokers accept an expired token."""


class TokenExpiry:
    """Checks all tokens after each election, and once per interval.

    Args:
        reader: reads the tokens.
        store: deletes expired tokens behind the controller's fence.
        interval_ms: the time from one check to the next.
    """

    def __init__(self, reader: ClusterReader, store: ZooKeeperStore, interval_ms: int = CHECK_INTERVAL_MS) -> None:
        self._reader = reader
        self._store = store
        self._interval_ms = interval_ms
        self._looked: tuple[int, int] | None = None

    async def maybe_look(self, controller_epoch: int, now_ms: int) -> None:
        """Check all tokens if a check is due. A deletion that ZooKeeper refuses is tried again in the next check."""
        if self._looked is not None:
            epoch, at_ms = self._looked
            if epoch == controller_epoch and 0 <= now_ms - at_ms < self._interval_ms:
                return
        try:
            for token, znode in await self._reader.children_with_data(TOKENS):
                if _expired(token, znode, now_ms):
                    await self._delete(token, now_ms)
        except RequestRejected:
            return  # Another process is the controller now.
        except DriverError as failure:
            _LOG.warning("expired delegation tokens are not deleted yet: %s", failure)
        self._looked = (controller_epoch, now_ms)

    async def _delete(self, token: str, now_ms: int) -> None:
        """Delete a token and announce the deletion, unless a broker has renewed the token meanwhile."""
        path = f"{TOKENS}/{token}"
        announced = Create(TOKEN_CHANGE_PREFIX, encode_token_change(token), sequential=True)
        renewed = False

        async def decide() -> list[Operation]:
            nonlocal renewed
            znode = await self._reader.znode(path)
            renewed = znode is not None and not _expired(token, znode, now_ms)
            return [] if znode is None or renewed else [Remove(path, znode.version), announced]

        await self._store.amend(decide)
        if not renewed:
            _LOG.info("delegation token %s has expired", token)


def _expired(token: str, znode: Znode, now_ms: int) -> bool:
    try:
        times = decode_token(f"{TOKENS}/{token}", znode.data)
    except FormatError as unreadable:
        _LOG.warning("a delegation token is left alone: %s", unreadable)
        return False
    return min(times) < now_ms
