"""An asyncio interface to kazoo: sessions, watches, pipelined reads, atomic writes. Callers never see kazoo's threads.

kazoo finds a server, keeps the session alive, and orders requests and answers. But it forgets all watches when a
connection breaks. Here a watch stays armed until it fires or the session ends: after a reconnect all watches are armed
again by SetWatches, relative to the last transaction seen, so that no change in between is missed, as in Java's client.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, IntEnum
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from kazoo.client import KazooState
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    SessionExpiredError,
    ZookeeperError,
)
from kazoo.protocol.serialization import Watch
from kazoo.retry import KazooRetry

from shunter.drivers.host.supervision import Supervise
from shunter.drivers.zookeeper import requests as wire
from shunter.drivers.zookeeper.access import (
    PLAIN_ZOOKEEPER_ACCESS,
    Waiter,
    ZooKeeperAccess,
    no_answer,
    not_let_in,
    split_connect_string,
)
from shunter.drivers.zookeeper.requests import (
    Committed,
    ConnectionLost,
    Create,
    Operation,
    RequestTooGreat,
    SessionLost,
    Znode,
    ZooKeeperRefused,
    ZooKeeperRequest,
)
from shunter.errors import DriverError
from shunter.formats.znodes import brokers as broker_znodes
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.text import WITHHELD

logger = logging.getLogger(__name__)

CHUNK = 1_000
"""Paths of one multi-read: so many states have some 160 KB, and take 5 ms to decode."""

_SILENT_SECONDS = 2.0
"""How long a first connection may take before the log says what is waited for."""

_REARMED_AGAIN_SECONDS = 1.0
"""Time from a refusal to arm watches again to the next attempt."""
_THROTTLED_SECONDS = 0.1
"""Time from the refusal of an overloaded server to the next attempt."""

_Item = TypeVar("_Item")


class SessionState(Enum):
    """The states that listeners are called with."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"


class WatchKind(IntEnum):
    """The kind of change of a watched znode (ZooKeeper's numbers)."""

    CREATED = 1
    DELETED = 2
    CHANGED = 3
    CHILDREN = 4


class WatchEvent(NamedTuple):
    """A watch that fired, and so is no longer armed."""

    kind: WatchKind
    path: str


class ZooKeeperAnswer(NamedTuple):
    """An undecoded answer, and the transaction that it belongs to."""

    buffer: bytes
    offset: int

    @property
    def zxid(self) -> int:
        """The last transaction that the server had applied."""
        return wire.decode_zxid(self.buffer)


def chunks(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """Cut a sequence into portions of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


class ZooKeeperClient:
    """One ZooKeeper session after another. Paths are relative to the chroot. Use a client from one event loop only."""

    def __init__(
        self,
        connect_string: str,
        *,
        session_timeout_ms: int = 18_000,
        access: ZooKeeperAccess = PLAIN_ZOOKEEPER_ACCESS,
        furnish: bool = True,
        kazoo_client: Callable[..., Any] | None = None,
    ) -> None:
        """Prepare; nothing is connected yet.

        Args:
            connect_string: `host:port,host:port/chroot`.
            session_timeout_ms: How long ZooKeeper keeps a session from which it hears nothing.
            access: How this client connects and logs in, and which ACLs the znodes that it creates get.
            furnish: Whether `start` creates the znodes that must exist.
            kazoo_client: Makes the client that talks to the servers, in place of `access`: the simulation uses it.
        """
        self._asked_for_s = session_timeout_ms / 1000
        self.supervise: Supervise = lambda _: None
        """Gets each task whose failure would leave watches unarmed."""
        self._connect_string = connect_string
        self._furnishes = furnish
        servers, self._chroot = split_connect_string(connect_string)
        self.access = access
        self._kazoo = (kazoo_client or access.kazoo_client)(
            hosts=servers,
            timeout=session_timeout_ms / 1000,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=1.5, max_delay=1.0),
        )
        self._kazoo._connection._read_watch_event = self._take_watch_event  # noqa: SLF001 - the one hook that kazoo lacks
        self._kazoo.add_listener(self._take_state)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session_id = 0
        self._connected = asyncio.Event()
        self._changed = asyncio.Event()
        self._kazoo.on_trouble = lambda: self._hand_over(self._changed.set)
        self._closing = False
        self._multi_read = True
        self._state_listeners: list[Callable[[SessionState], None]] = []
        self._watch_listeners: list[Callable[[WatchEvent], None]] = []
        self._armed_data: set[str] = set()
        self.withheld: set[str] = set()
        """Znodes that existed when they were last read, and that ZooKeeper does not let this client read."""
        self._armed_exist: set[str] = set()
        self._armed_children: set[str] = set()
        self._seen_zxid: int | None = None
        self._suspensions = 0
        self._rearming: set[asyncio.Task[None]] = set()

    # Session

    @property
    def session_id(self) -> int:
        """The session's id, which is also the `owner` of its ephemeral znodes; 0 before the first session."""
        return self._session_id

    @property
    def session_timeout_s(self) -> float:
        """How long ZooKeeper keeps a session from which it hears nothing: what it granted, or else what we asked for."""
        granted: float | None = self._kazoo.session_s
        return self._asked_for_s if granted is None else granted

    @property
    def session_ends_s(self) -> float:
        """When ZooKeeper may end the session, by the event loop's clock, if it hears nothing from now on."""
        heard_s: float = self._kazoo.heard_s
        return heard_s + self.session_timeout_s

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connected.is_set()

    @property
    def dead(self) -> bool:
        """Whether kazoo's thread has ended though this client was not closed: no request would ever be answered."""
        thread = getattr(self._kazoo._connection, "_connection_routine", None)  # noqa: SLF001 - kazoo keeps it private
        return not self._closing and thread is not None and not thread.is_alive()

    @property
    def refusal(self) -> str | None:
        """Why ZooKeeper will never accept this client's login; None if it did accept it, or still may."""
        found: str | None = self._kazoo.refusal
        return found

    @property
    def unarmed(self) -> bool:
        """Whether there is a new connection, but the watches of the lost one are not armed again yet."""
        return self._connected.is_set() and self._seen_zxid is not None

    def listen(
        self,
        *,
        states: Callable[[SessionState], None] | None = None,
        watches: Callable[[WatchEvent], None] | None = None,
    ) -> None:
        """Register callbacks on the event loop, for changes of the session's state and for watches that fire."""
        if states is not None:
            self._state_listeners.append(states)
        if watches is not None:
            self._watch_listeners.append(watches)

    async def start(self, timeout_seconds: float = 30.0) -> None:
        """Connect, and create the znodes that must exist: the chroot, Kafka's persistent paths, the cluster's id.

        Raises:
            DriverError: no server answered in time.
        """
        self._loop = asyncio.get_running_loop()
        self._kazoo.start_async()
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._first_connection(timeout_seconds)
        except TimeoutError:
            await self.close()
            told = no_answer(self._connect_string, timeout_seconds, self._kazoo.told)
            raise DriverError(told, retriable=True) from None
        while self._furnishes:
            try:
                await self._furnish()
            except SessionLost:
                if self._closing:
                    raise
                await self.wait_connected()  # The next session goes on: no znode created here belongs to a session.
            else:
                return

    async def _furnish(self) -> None:
        await self.ensure(znodes.PERSISTENT)
        if await self.exists(znodes.CLUSTER_ID) is None:
            await self.ensure(("/cluster",))
            cluster_id = urlsafe_b64encode(uuid4().bytes)[:22].decode("ascii")
            await self.create_if_absent(znodes.CLUSTER_ID, broker_znodes.encode_cluster_id(cluster_id))

    async def _first_connection(self, timeout_seconds: float) -> None:
        try:
            async with asyncio.timeout(_SILENT_SECONDS):
                await self._news()
        except TimeoutError:
            told = self._kazoo.told or "nobody answers yet"
            logger.info(
                "waiting for ZooKeeper at %s, %g s at the most (%s)", self._connect_string, timeout_seconds, told
            )
            await self._news()

    async def _news(self) -> None:
        """Wait for the first connection.

        Raises:
            DriverError: no server will ever accept the connection.
        """
        while not self._connected.is_set():
            self._changed.clear()
            hopeless = self._kazoo.hopeless
            if hopeless is not None:
                await self.close()
                raise DriverError(not_let_in(self._connect_string, hopeless), retriable=False)
            await self._changed.wait()

    async def wait_connected(self) -> None:
        """Wait until there is a connection."""
        await self._connected.wait()

    async def close(self) -> None:
        """End the session: ZooKeeper deletes its ephemeral znodes at once."""
        self._closing = True
        self._connected.clear()
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        self._kazoo.stop()
        self._kazoo.close()

    # Reads: repeated after a lost connection

    async def get(self, path: str, *, watch: bool = False) -> Znode | None:
        """Read a znode; None if it does not exist (then no watch is armed: use `exists` to wait for the znode)."""
        try:
            answer = await self._read(wire.get_request(self._full(path), watch=watch))
        except ZooKeeperRefused as refusal:
            if refusal.code == wire.NO_NODE:
                return None
            if refusal.code != wire.NO_AUTH:
                raise
            return await self._withheld_znode(path)
        if watch:
            self._armed_data.add(path)
        self.withheld.discard(path)
        return wire.decode_get(*answer)

    async def _withheld_znode(self, path: str) -> Znode | None:
        """Read the stat of a znode whose data this client may not read: `NOT_READ` from servers later than 3.9.1."""
        try:
            found = await self.exists(path)
        except ZooKeeperRefused as refusal:
            if refusal.code != wire.NO_AUTH:
                raise
            found = wire.NOT_READ
        if found is None:
            self.withheld.discard(path)
            return None
        self.withheld.add(path)
        return found._replace(data=WITHHELD)

    async def exists(self, path: str, *, watch: bool = False) -> Znode | None:
        """Read a znode's stat. A watch fires when the znode is created, changed or deleted."""
        answer = await self._read(wire.exists_request(self._full(path), watch=watch))
        if watch:
            (self._armed_exist if answer is None else self._armed_data).add(path)
        return None if answer is None else wire.decode_exists(*answer)

    async def children(self, path: str, *, watch: bool = False) -> tuple[tuple[str, ...], Znode] | None:
        """Read the names of a znode's children, in no order, and the znode's stat; None if it does not exist.

        A watch on a znode that does not exist fires when the znode is created.
        """
        while True:
            try:
                answer = await self._read(wire.children_request(self._full(path), watch=watch))
            except ZooKeeperRefused as refusal:
                if refusal.code != wire.NO_NODE:
                    raise
                if watch and await self.exists(path, watch=True) is not None:
                    continue
                return None
            if watch:
                self._armed_children.add(path)
            return wire.decode_children(*answer)

    async def get_many(self, paths: Sequence[str]) -> tuple[list[Znode | None], int]:
        """Read znodes by one multi-read; None for each that does not exist. Pass at most about `CHUNK` paths.

        Returns:
            The znodes in the order of `paths`, and the last transaction that the server had applied.
        """
        if not paths:
            return [], 0
        if self._multi_read:
            try:
                answer = await self._read(wire.read_many_request(map(self._full, paths)))
            except ZooKeeperRefused as refusal:
                self._give_multi_read_up(refusal)
            else:
                found = wire.decode_many(answer.buffer, answer.offset, paths)
                if self.withheld:
                    self.withheld.difference_update(paths)
                for index, znode in enumerate(found):
                    if znode is wire.NOT_READ:
                        found[index] = await self._withheld_znode(paths[index])
                return found, answer.zxid
        zxid = (await self._read(wire.exists_request(self._full("/"), watch=False))).zxid
        return list(await asyncio.gather(*map(self.get, paths))), zxid

    async def children_of_many(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
        """Read the names of many znodes' children by one multi-read; None for each znode that does not exist."""
        if not paths:
            return []
        if self._multi_read:
            try:
                request = wire.read_many_request(map(self._full, paths), children=True)
                answer = await self._read(request)
                return wire.decode_many_children(answer.buffer, answer.offset, paths)
            except ZooKeeperRefused as refusal:
                self._give_multi_read_up(refusal)
        found = await asyncio.gather(*map(self.children, paths))
        return [None if each is None else each[0] for each in found]

    async def owners(self, path: str) -> tuple[str, ...]:
        """Return the identities that have all rights on a znode, as `scheme:id`. ZooKeeper may refuse this request."""
        return wire.decode_owners(*await self._read(wire.acl_request(self._full(path))))

    async def sync(self) -> None:
        """Make sure that reads from now on see every write that was acknowledged to any client before."""
        await self._read(wire.sync_request(self._full("/")))

    async def arm_data_watches(self, paths: Iterable[str], since_zxid: int) -> None:
        """Watch the data of existing znodes, many in one request; one changed after `since_zxid` fires at once."""
        for portion in chunks(tuple(paths), CHUNK):
            self._armed_data.update(portion)
            await self._read(wire.set_watches_request(since_zxid, [*map(self._full, portion)], (), ()))

    # Writes: `multi` is never repeated

    async def multi(self, operations: Sequence[Operation]) -> Committed:
        """Carry out changes, all or none.

        Raises:
            ZooKeeperRefused: nothing happened; `index` says which operation was in the way.
            ConnectionLost: the changes may have been made or not.
            SessionLost: as above, and the session is over.
            RequestTooGreat: the request is larger than a server accepts; the caller has to send fewer operations.
        """
        return await self._multi(operations, self._chroot)

    async def _multi(self, operations: Sequence[Operation], chroot: str) -> Committed:
        request = wire.multi_request(operations, self.access.acl_of, chroot)
        if len(request.body) > wire.JUTE_LIMIT:
            raise RequestTooGreat(len(request.body), len(operations))
        answer = await self._ask(request)
        return wire.decode_multi(answer.buffer, answer.offset, operations)

    async def create_if_absent(self, path: str, data: bytes | None) -> bool:
        """Create a persistent znode; False if it exists already. Repeated after a lost connection."""
        return await self._create_if_absent(path, data, self._chroot)

    async def _create_if_absent(self, path: str, data: bytes | None, chroot: str) -> bool:
        while True:
            try:
                await self._multi((Create(path, data),), chroot)
            except ConnectionLost:
                continue
            except ZooKeeperRefused as refusal:
                if refusal.code == wire.NODE_EXISTS:
                    return False
                raise
            return True

    async def ensure(self, paths: Iterable[str]) -> None:
        """Create those of some persistent znodes, and of their parents, that are absent; without data."""
        if self._chroot:
            await self._ensure_chroot()
        wanted = znodes.with_parents(paths)
        found, _ = await self.get_many(wanted)
        for path, znode in zip(wanted, found, strict=True):
            if znode is None:
                await self.create_if_absent(path, None)

    async def _ensure_chroot(self) -> None:
        for path in znodes.with_parents((self._chroot,)):
            try:
                await self._read(wire.get_request(path, watch=False))
            except ZooKeeperRefused as refusal:
                if refusal.code == wire.NO_NODE:
                    await self._create_if_absent(path, None, chroot="")
                elif refusal.code != wire.NO_AUTH:
                    raise

    # Internals

    def _full(self, path: str) -> str:
        if not self._chroot:
            return path
        return self._chroot if path == "/" else self._chroot + path

    async def _read(self, request: ZooKeeperRequest) -> Any:
        """Repeat a request until it is answered; None for a znode that `exists` did not find."""
        while True:
            try:
                return await self._ask(request)
            except ConnectionLost:
                continue
            except ZooKeeperRefused as refusal:
                if refusal.code != wire.THROTTLED:
                    raise
                await asyncio.sleep(_THROTTLED_SECONDS)

    async def _ask(self, request: ZooKeeperRequest) -> Any:
        assert self._loop is not None, "start() first"
        future: asyncio.Future[Any] = self._loop.create_future()
        self._kazoo._call(request, Waiter(self._loop, future))  # noqa: SLF001 - kazoo has no public way for own requests
        try:
            answer = await future
        except ConnectionLoss:
            if self._closing:
                raise SessionLost from None
            raise ConnectionLost from None
        except (SessionExpiredError, ConnectionClosedError, AuthFailedError):
            raise SessionLost from None
        except ZookeeperError as refusal:
            code = getattr(refusal, "code", 0)
            raise ZooKeeperRefused(code, f"a request of type {request.type} ({refusal})") from None
        finally:
            del future  # The future holds its exception, which refers to this frame.
        return None if answer is None else ZooKeeperAnswer(*answer)

    def _give_multi_read_up(self, refusal: ZooKeeperRefused) -> None:
        if refusal.code != wire.UNIMPLEMENTED:
            raise refusal
        logger.warning("ZooKeeper knows no multi-read (it came with 3.6): reading znodes one by one")
        self._multi_read = False

    def _take_watch_event(self, buffer: bytes, offset: int) -> None:
        """Called on kazoo's thread, in place of kazoo's own dispatch."""
        watch, _ = Watch.deserialize(buffer, offset)
        if watch.type in WatchKind.__members__.values():
            self._hand_over(self._on_watch, WatchEvent(WatchKind(watch.type), watch.path.removeprefix(self._chroot)))

    def _take_state(self, state: str) -> None:
        """Called on kazoo's thread."""
        client_id = self._kazoo.client_id
        self._hand_over(self._on_state, state, self._kazoo.last_zxid, client_id[0] if client_id else 0)

    def _hand_over(self, callback: Callable[..., None], *arguments: Any) -> None:
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            logger.debug("news of ZooKeeper came after the event loop had ended")

    def _on_watch(self, event: WatchEvent) -> None:
        if event.kind in {WatchKind.CHILDREN, WatchKind.DELETED}:
            self._armed_children.discard(event.path)
        if event.kind is not WatchKind.CHILDREN:
            self._armed_data.discard(event.path)
            self._armed_exist.discard(event.path)
        for listener in self._watch_listeners:
            listener(event)

    def _on_state(self, state: str, zxid: int, session_id: int) -> None:
        if state == KazooState.CONNECTED:
            self._session_id = session_id
            self._connected.set()
            self._changed.set()
            told = SessionState.CONNECTED
            self._rearm()
        elif state == KazooState.SUSPENDED:
            self._connected.clear()
            told = SessionState.SUSPENDED
            self._suspensions += 1
            if self._seen_zxid is None:
                self._seen_zxid = zxid
        else:
            self._connected.clear()
            told = SessionState.EXPIRED
            self._seen_zxid = None
            for armed in (self._armed_data, self._armed_exist, self._armed_children):
                armed.clear()
        logger.info("ZooKeeper session %s", "closed" if self._closing else told.value)
        for listener in self._state_listeners:
            listener(told)

    def _rearm(self) -> None:
        if self._seen_zxid is None or not (self._armed_data or self._armed_exist or self._armed_children):
            self._seen_zxid = None
            return
        assert self._loop is not None
        task = self._loop.create_task(self._rearm_since(self._seen_zxid))
        self._rearming.add(task)
        self.supervise(task)
        task.add_done_callback(self._rearming.discard)

    async def _rearm_since(self, zxid: int) -> None:
        """Arm the watches of the lost connection again. The watch of a znode that changed meanwhile fires at once."""
        suspensions = self._suspensions
        kinds = (self._armed_data, self._armed_exist, self._armed_children)
        armed = [(kind, path) for kind, paths in enumerate(kinds) for path in sorted(paths)]
        try:
            while True:
                if await self._rearmed(armed, zxid):
                    break
                await asyncio.sleep(_REARMED_AGAIN_SECONDS)
        except (ConnectionLost, SessionLost):
            return  # The next reconnect starts from the same transaction. A new session has no watches to arm again.
        if suspensions == self._suspensions:
            self._seen_zxid = None  # Otherwise this connection is lost too, and the next one starts from the same zxid.

    async def _rearmed(self, armed: Sequence[tuple[int, str]], zxid: int) -> bool:
        try:
            for portion in chunks(armed, CHUNK):
                lists = ([self._full(path) for kind, path in portion if kind == wanted] for wanted in range(3))
                await self._ask(wire.set_watches_request(zxid, *lists))
        except ZooKeeperRefused as refusal:
            logger.warning("arming the watches again is refused, and tried again: %s", refusal)
            return False
        return True
