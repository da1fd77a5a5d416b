"""The crash-loop guard: input that brought a controller down is kept from the next controllers for a while.

Before a process ends by a bug, it writes the input that it handled (the suspects) into `/admin/shunter/crashes`. The
next elected controller, on this machine or another, reads the suspects before the cluster. It treats their znodes like
znodes that it may not read (0017): it leaves what belongs to them alone, and reads them again when the time is over. A
caller's request with the same content is refused meanwhile. Each time the same suspects bring a controller down, they
are set aside for twice as long.

Source: docs/decisions/0021-too-much.md.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence

from shunter.core.controller.events import Event
from shunter.core.controller.suspects import Crash, Suspect, SuspectKind, content_of
from shunter.drivers.seams import Clock
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.drivers.zookeeper.requests import NOT_READ, Create, Operation, Put, Znode
from shunter.drivers.zookeeper.store import ZooKeeperStore
from shunter.errors import DriverError, FormatError, RequestRejected
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.crashes import decode_crashes, encode_crashes
from shunter.formats.znodes.text import SET_ASIDE
from shunter.model.crashes import RememberedCrash, with_another
from shunter.model.partition import TopicPartition

LOG = logging.getLogger(__name__)
WRITING_SECONDS = 3.0
"""How long an ending process waits for its crash to be written."""


class GuardedZooKeeper(ZooKeeperClient):
    """A client that returns `SET_ASIDE` as the data of znodes that are set aside, until their time is over."""

    set_aside: Mapping[str, int] = {}
    """By path: until when, in milliseconds of `clock`."""
    clock: Clock | None = None

    async def get(self, path: str, *, watch: bool = False) -> Znode | None:
        """See `ZooKeeperClient.get`."""
        return self._shown(path, await super().get(path, watch=watch))

    async def get_many(self, paths: Sequence[str]) -> tuple[list[Znode | None], int]:
        """See `ZooKeeperClient.get_many`."""
        found, zxid = await super().get_many(paths)
        if self.set_aside:
            found = [self._shown(path, znode) for path, znode in zip(paths, found, strict=True)]
        return found, zxid

    def _shown(self, path: str, znode: Znode | None) -> Znode | None:
        until_ms = self.set_aside.get(path)
        if until_ms is None or self.clock is None or self.clock.now_ms() >= until_ms:
            return znode
        # Withheld znodes are read again every ten seconds, and are treated as changed when they can be read.
        self.withheld.add(path)
        return (NOT_READ if znode is None else znode)._replace(data=SET_ASIDE)


class CrashGuard:
    """Writes down what brought this process down, and reads what brought other controllers down."""

    def __init__(self, client: GuardedZooKeeper, store: ZooKeeperStore, clock: Clock) -> None:
        """Join the parts; nothing is read yet."""
        self._client = client
        self._store = store
        self._clock = clock
        client.clock = clock
        self._refused: dict[str, tuple[int, str]] = {}
        """By a request's digest: until when the request is refused, and the crash that it may have caused."""

    async def recall(self) -> None:
        """Read the remembered crashes and set their suspects aside: at each election, before the cluster is read."""
        now_ms = self._clock.now_ms()
        self._client.set_aside, self._refused = {}, {}
        try:
            found = await self._client.get(znodes.CRASHES)
            crashes = decode_crashes(None if found is None else found.data)
        except (DriverError, FormatError) as failure:
            LOG.warning("what brought controllers down is not known, and nothing is set aside: %s", failure)
            return
        paths: dict[str, int] = {}
        for crash in crashes:
            if crash.until_ms <= now_ms:
                continue
            told = f"a controller ended while it handled {crash.cause}: {crash.error}"
            for kind, name in crash.suspects:
                if kind == SuspectKind.CALLER.value:
                    self._refused[name] = (crash.until_ms, told)
                elif (path := path_of(kind, name)) is not None:
                    paths[path] = crash.until_ms
            seconds = (crash.until_ms - now_ms) // 1_000
            times = "once" if crash.times == 1 else f"{crash.times} times"
            named = ", ".join(f"{kind} {name}".strip() for kind, name in crash.suspects[:5]) or "nothing that can be"
            LOG.warning("%s (%s). Set aside for %d s more: %s", told, times, seconds, named)
        self._client.set_aside = paths

    def refusal(self, event: Event) -> str | None:
        """Say why a caller's request is refused; see `Callers.refuse`."""
        if not self._refused:
            return None
        until_ms, told = self._refused.get(digest_of(content_of(event)), (0, ""))
        seconds = (until_ms - self._clock.now_ms()) // 1_000
        return f"this request is not tried again for {seconds} s, for {told}" if seconds > 0 else None

    async def remember(self, crash: Crash) -> None:
        """Write down what brought this process down, if that is possible in time. The process ends in any case."""
        now_ms = self._clock.now_ms()
        suspects = tuple(map(_remembered, crash.suspects))
        new = RememberedCrash(now_ms, now_ms, 1, crash.cause[:500] or "an event", crash.error or "a bug", suspects)

        async def decide() -> list[Operation]:
            found = await self._client.get(znodes.CRASHES)
            try:
                known = decode_crashes(None if found is None else found.data)
            except FormatError as unreadable:
                LOG.warning("what is there is left alone: %s", unreadable)
                return []
            data = encode_crashes(with_another(known, new))
            return [Create(znodes.CRASHES, data) if found is None else Put(znodes.CRASHES, data, found.version)]

        try:
            async with asyncio.timeout(WRITING_SECONDS):
                await self._store.amend(decide)
        except (TimeoutError, DriverError, RequestRejected) as failure:
            LOG.warning("what brought this controller down could not be written down: %s", failure or "no time")
            return
        named = ", ".join(f"{kind} {name}".strip() for kind, name in suspects[:5]) or "nothing that can be left out"
        LOG.error("what brought this controller down is set aside for the next one: %s", named)


def _remembered(suspect: Suspect) -> tuple[str, str]:
    """Return (kind, name) of a suspect. A request may be large and contain anything, so its name is a digest."""
    if suspect.kind is SuspectKind.CALLER:
        return suspect.kind.value, digest_of(suspect.name)
    return suspect.kind.value, suspect.name


def digest_of(content: str) -> str:
    """Return a short name for a request's content."""
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def path_of(kind: str, name: str) -> str | None:
    """Return the path of a suspect; None if it is not a znode, or if only a later version of Shunter knows its kind."""
    match kind:
        case SuspectKind.PARTITION.value:
            topic, _, number = name.rpartition("-")
            return znodes.state(*TopicPartition(topic, int(number))) if number.isdigit() else None
        case SuspectKind.TOPIC.value:
            return znodes.topic(name)
        case SuspectKind.LEGACY.value:
            return znodes.LEGACY_REASSIGNMENTS
        case SuspectKind.EXTRA.value:
            return znodes.EXTRA_REASSIGNMENTS
        case SuspectKind.REQUEST_ZNODE.value:
            return f"{znodes.REASSIGNMENT_REQUESTS}/{name}"
        case _:
            return None
