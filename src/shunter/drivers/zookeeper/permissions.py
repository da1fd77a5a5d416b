"""The cluster's ACLs, read from ZooKeeper and kept up to date by the announcements of their changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from shunter.core.authorizer import AclAuthorizer
from shunter.drivers.zookeeper.client import CHUNK, SessionState, WatchEvent, ZooKeeperClient, chunks
from shunter.errors import DriverError, FormatError
from shunter.formats.znodes import acls as acl_znodes
from shunter.model.security.acl import DENY_ALL, Acl, ResourcePattern

_LOG = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0
UNREADABLE_SECONDS = 10.0
FIRST_READ_SECONDS = 10.0
"""How long an election waits for the first read of permissions."""
_CHANGES = (acl_znodes.LITERAL_CHANGES, acl_znodes.PREFIXED_CHANGES)


class Permissions:
    """Keeps an authorizer up to date. Before the first read only super users may do anything.

    Args:
        authorizer: gets the ACLs that are read.
    """

    def __init__(self, authorizer: AclAuthorizer) -> None:
        self.authorizer = authorizer
        authorizer.unknown = True
        self.trouble: str | None = "permissions have not been read yet"
        """Why permissions are not known, or may be out of date; None: they are known."""
        self.on_known: Callable[[], None] = lambda: None
        """Called when permissions have become known, at first or again."""
        self._tried = asyncio.Event()
        self._woken = asyncio.Event()
        self._everything = True
        self._last: dict[str, tuple[int, str]] = {}
        """By folder of announcements: the transaction that created it, and the last announcement that was read."""

    def begin(self, client: ZooKeeperClient) -> asyncio.Task[None]:
        """Read and watch from now on. The task only ends by being cancelled."""
        client.listen(states=self._on_state, watches=self._on_watch)
        self._woken.set()
        return asyncio.create_task(self._work(client), name="permissions")

    async def wait_tried(self) -> None:
        """Wait until permissions were read once, or could not be read; not for longer than `FIRST_READ_SECONDS`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_READ_SECONDS):
                await self._tried.wait()

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._woken.set()
        elif state is SessionState.EXPIRED:
            # The watches ended with the session.
            self._everything = True

    def _on_watch(self, event: WatchEvent) -> None:
        if event.path in _CHANGES:
            self._woken.set()

    async def _work(self, client: ZooKeeperClient) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            if not client.connected:
                continue  # `_on_state` wakes this task when the client is connected again.
            try:
                await self._read(client)
            except DriverError as failure:
                self._everything = True
                if self.trouble != str(failure):
                    _LOG.warning("permissions can't be read: %s", failure)
                self.trouble = str(failure)
                self._tried.set()
                await asyncio.sleep(AGAIN_SECONDS)
                self._woken.set()
            else:
                was_unknown, self.trouble = self.trouble is not None, None
                self._tried.set()
                if was_unknown:
                    self.on_known()

    async def _read(self, client: ZooKeeperClient) -> None:
        if self._everything:
            self._everything = False
            await self._read_all(client)
            return
        changed: set[ResourcePattern] = set()
        for folder in _CHANGES:
            changed |= await self._announced(client, folder)
        for pattern, acls in (await self._acls(client, changed)).items():
            self.authorizer.update(pattern, acls)
            _LOG.info("permissions have changed: %s now has %d ACLs", acl_znodes.path(pattern), len(acls))

    async def _announced(self, client: ZooKeeperClient, folder: str) -> set[ResourcePattern]:
        """Return the patterns announced since the last look; the watch is armed before anything is read."""
        new = await self._new_names(client, folder)
        patterns: set[ResourcePattern] = set()
        for portion in chunks(sorted(new), CHUNK):
            paths = [f"{folder}/{name}" for name in portion]
            found, _ = await client.get_many(paths)
            for path, znode in zip(paths, found, strict=True):
                if znode is None:
                    continue  # It was purged. Brokers purge an announcement after a quarter of an hour.
                try:
                    patterns.add(acl_znodes.decode_change(path, znode.data))
                except FormatError as unreadable:
                    _LOG.warning("%s; all permissions are read again", unreadable)
                    self._everything = True
                    self._woken.set()
        return patterns

    async def _new_names(self, client: ZooKeeperClient, folder: str) -> list[str]:
        """Return the announcements since the last look, and watch. If the folder was created again, all are new."""
        listed = await client.children(folder, watch=True)
        names, made = ((), 0) if listed is None else (listed[0], listed[1].czxid)
        before, last = self._last.get(folder, (0, ""))
        new = [name for name in names if name > last or made != before]
        self._last[folder] = made, max(names, default="")
        return new

    async def _read_all(self, client: ZooKeeperClient) -> None:
        """Arm the watches first, then read: a change meanwhile is announced, and read again."""
        for folder in _CHANGES:
            await self._new_names(client, folder)
        patterns: list[ResourcePattern] = []
        for root, prefixed in ((acl_znodes.LITERAL, False), (acl_znodes.PREFIXED, True)):
            types = await client.children(root)
            for name in () if types is None else types[0]:
                kind = acl_znodes.resource_type(name)
                if kind is None:
                    _LOG.warning("%s/%s is of a type that Kafka does not know, and is left out", root, name)
                    continue
                resources = await client.children(f"{root}/{name}")
                patterns += (ResourcePattern(kind, each, prefixed) for each in (resources or ((),))[0])
        self.authorizer.replace(await self._acls(client, patterns))
        _LOG.info("permissions: ACLs of %d resources and prefixes", len(patterns))

    async def _acls(
        self, client: ZooKeeperClient, patterns: Iterable[ResourcePattern]
    ) -> dict[ResourcePattern, frozenset[Acl]]:
        """Read the ACLs of patterns. An unreadable list may deny something, so it is taken to deny everything."""
        acls: dict[ResourcePattern, frozenset[Acl]] = {}
        for portion in chunks(sorted(patterns, key=acl_znodes.path), CHUNK):
            found, _ = await client.get_many([acl_znodes.path(pattern) for pattern in portion])
            for pattern, znode in zip(portion, found, strict=True):
                try:
                    acls[pattern] = (
                        frozenset() if znode is None else acl_znodes.decode_acls(acl_znodes.path(pattern), znode.data)
                    )
                except FormatError as unreadable:
                    _LOG.warning("%s: it denies everything until it can be read", unreadable)
                    acls[pattern] = frozenset({DENY_ALL})
                    self._look_again()
        return acls

    def _look_again(self) -> None:
        """Read everything again after a while: no watch fires when an unreadable ACL becomes readable."""
        self._everything = True
        asyncio.get_running_loop().call_later(UNREADABLE_SECONDS, self._woken.set)
