"""A replacement for kazoo in one simulated process: a connection to ZooKeeper with delays, which breaks now and then.

It offers the few parts of kazoo's client that `drivers.zookeeper` uses, so that the driver itself runs unchanged.
Within one connection requests and answers keep their order. When it breaks, some requests have arrived and some have
not, all answers are lost, and the server forgets the watches. When it stays broken for too long, the session expires.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kazoo.client import KazooState
from kazoo.exceptions import (
    EXCEPTIONS,
    ConnectionClosedError,
    ConnectionLoss,
    NoAuthError,
    NoNodeError,
    SessionExpiredError,
)

from lab.simulation.event_loop import ProcessLoop
from lab.simulation.network import Delays, Link
from lab.simulation.scheduler import MS, SECOND, Scheduler, Timer
from lab.simulation.zookeeper import wire
from lab.simulation.zookeeper.tree import RefusedTransaction, ZooKeeperTree
from shunter.drivers.zookeeper import requests
from shunter.drivers.zookeeper.requests import CheckVersion, Operation

MAX_BUFFER = 0xFFFFF
"""`jute.maxbuffer`: a server that gets a longer request closes the connection."""
RECONNECT_US = (20 * MS, 400 * MS)


class SimulatedKazoo:
    """One process's connection to ZooKeeper, and its session.

    Args:
        loop: the process; everything reaches it through `deliver`.
        session_timeout_us: how long the server keeps a session whose client is silent.
        on_session: called with each new session's id.
        on_refused: called with the process and the path of each refused request; "" if the server is overloaded.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        tree: ZooKeeperTree,
        loop: ProcessLoop,
        delays: Delays,
        session_timeout_us: int,
        on_session: Callable[[int], None],
        on_refused: Callable[[str, str], None],
    ) -> None:
        """Prepare; nothing is connected before `start_async`."""
        self._scheduler = scheduler
        self._tree = tree
        self._loop = loop
        self._delays = delays
        self._timeout_us = session_timeout_us
        self._on_session = on_session
        self._on_refused = on_refused
        self._connection = SimpleNamespace(_read_watch_event=None)
        self._listeners: list[Callable[[str], None]] = []
        self._waiting: deque[tuple[requests.ZooKeeperRequest, Any]] = deque()
        self._up: Link | None = None
        self._down: Link | None = None
        self._flying: deque[tuple[requests.ZooKeeperRequest, Any]] = deque()
        self._expiry: Timer | None = None
        self._silent_us = 0
        self._closed = False
        self.reachable = True
        self.forbidden_reads: list[str] = []
        self.forbidden_writes: list[str] = []
        """Prefixes of the paths that this client may not write; `forbidden_reads`: that it may not read."""
        self.throttled = 0.0
        """The share of requests that the overloaded server refuses."""
        self.session = 0
        self.last_zxid = 0
        self.hosts = "simulated"
        self.refusal = self.hopeless = None
        self.told = ""
        self.session_s = session_timeout_us / SECOND

    # ---- for drivers.zookeeper

    @property
    def client_id(self) -> tuple[int, bytes] | None:
        """The session's id and password."""
        return (self.session, b"") if self.session else None

    @property
    def heard_s(self) -> float:
        """When the server last heard of the session, on the process's clock."""
        now_us = self._scheduler.now_us
        return (now_us if self._up is not None and self._expiry is None else self._silent_us) / SECOND

    def add_listener(self, listener: Callable[[str], None]) -> None:
        """Add a callback for each change of state."""
        self._listeners.append(listener)

    def start_async(self) -> None:
        """Begin to connect."""
        self._connect_later()

    def stop(self) -> None:
        """End the session, as a clean end of the process does."""
        if not self._closed:
            self._closed = True
            self._break()
            self._fail(ConnectionClosedError())
            if self.session:
                self._tree.close_session(self.session)

    def close(self) -> None:
        """Do nothing more than `stop`."""

    def _call(self, request: requests.ZooKeeperRequest, waiter: Any) -> None:
        if self._closed:
            waiter.set_exception(ConnectionClosedError())
            return
        self._waiting.append((request, waiter))
        self._flush()

    # ---- the connection

    @property
    def connected(self) -> bool:
        """Whether there is a connection."""
        return self._up is not None

    def _connect_later(self) -> None:
        self._scheduler.after(self._scheduler.between(*RECONNECT_US), self._connect)

    def _connect(self) -> None:
        if self._closed or self._loop.dead or self._up is not None:
            return
        if not self.reachable or self._loop.paused:
            self._connect_later()
            return
        if self.session and self.session not in self._tree.sessions:
            self.session = 0
            self._fail(SessionExpiredError())
            self._tell(KazooState.LOST)
        if not self.session:
            self.session = self._tree.open_session()
            self._on_session(self.session)
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self._up = Link(self._scheduler, self._delays)
        self._down = Link(self._scheduler, self._delays)
        self._tell(KazooState.CONNECTED)
        self._flush()

    def _flush(self) -> None:
        while self._up is not None and self._waiting:
            request, waiter = self._waiting.popleft()
            self._flying.append((request, waiter))
            self._up.send(self._serve, self._up, request, waiter)

    def drop(self) -> None:
        """The connection breaks; the last requests may not have arrived."""
        if self._up is None:
            return
        self._up.cut()
        self._break()
        self._fail(ConnectionLoss())
        self._tell(KazooState.SUSPENDED)
        self._connect_later()

    def _break(self) -> None:
        if self._up is not None and self._down is not None:
            self._up.close()
            self._down.close()
        self._up = self._down = None
        self._tree.drop_watches(self.session)
        self.silent()

    def silent(self) -> None:
        """From now on the server receives nothing: the session expires after its timeout."""
        if self._expiry is None:
            self._silent_us = self._scheduler.now_us
        if self._expiry is None and self.session in self._tree.sessions:
            self._expiry = self._scheduler.after(self._timeout_us, self.expire)

    def heard(self) -> None:
        """The process runs again, and its pings keep the session alive, if there is still a connection."""
        if self._up is not None and self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def expire(self) -> None:
        """The server ends the session, and with it the connection."""
        self._expiry = None
        session = self.session
        if session not in self._tree.sessions:
            return
        self._scheduler.note(f"zookeeper: session of {self._loop.name} expires")
        if self._up is not None:
            self.drop()
            if self._expiry is not None:
                self._expiry.cancel()
                self._expiry = None
        self._tree.close_session(session)

    def _fail(self, failure: Exception) -> None:
        failed = [*self._flying, *self._waiting]
        self._flying.clear()
        self._waiting.clear()
        for _, waiter in failed:
            waiter.set_exception(failure)

    def _tell(self, state: str) -> None:
        zxid = self.last_zxid
        self._loop.deliver(self._told, state, zxid)

    def _told(self, state: str, zxid: int) -> None:
        self.last_zxid = max(zxid, self.last_zxid)
        for listener in self._listeners:
            listener(state)

    # ---- the server's side

    def _serve(self, link: Link, request: requests.ZooKeeperRequest, waiter: Any) -> None:
        if len(request.body) > MAX_BUFFER:
            self._scheduler.note(f"zookeeper: a request of {len(request.body)} bytes ends a connection")
            self._scheduler.after(0, self.drop)
            return
        body, failure = self._handle(request)
        if self._down is None or link is not self._up:
            return  # The request arrived, but the connection broke before the answer.
        payload = None if body is None else wire.answer(self._tree.zxid, body)
        self._down.send(self._answered, waiter, payload, self._tree.zxid, failure)

    def _answered(self, waiter: Any, payload: bytes | None, zxid: int, failure: Exception | None) -> None:
        if self._flying and self._flying[0][1] is waiter:
            self._flying.popleft()
        self.last_zxid = max(self.last_zxid, zxid)
        if failure is not None:
            self._loop.deliver(waiter.set_exception, failure)
        else:
            self._loop.deliver(waiter.set, None if payload is None else (payload, 16))

    def _watch_fired(self, kind: int, path: str) -> None:
        if self._down is not None:
            encoded = path.encode()
            buffer = kind.to_bytes(4, "big") + (3).to_bytes(4, "big") + len(encoded).to_bytes(4, "big") + encoded
            self._down.send(self._tell_watch, buffer)

    def _tell_watch(self, buffer: bytes) -> None:
        # The event has no zxid, because another watch of the same transaction may still be lost.
        self._loop.deliver(self._connection._read_watch_event, buffer, 0)  # noqa: SLF001 - the hook that the driver fills

    def _handle(self, request: requests.ZooKeeperRequest) -> tuple[bytes | None, Exception | None]:
        kind, body, tree = request.type, request.body, self._tree
        if self.session not in tree.sessions:
            return b"", SessionExpiredError()
        if self.throttled and self._scheduler.chance(self.throttled):
            self._on_refused(self._loop.name, "")
            return b"", EXCEPTIONS[requests.THROTTLED]()
        if kind == wire.MULTI:
            return self._multi(wire.read_multi(body)), None
        if kind == wire.MULTI_READ:
            asked = wire.read_many(body)
            forbidden = next(filter(self._forbids, asked.paths), None)
            if forbidden is not None:
                self._on_refused(self._loop.name, forbidden)
            found = [
                requests.NO_AUTH if self._forbids(path) else tree.children(path) if children else tree.get(path)
                for path, children in zip(asked.paths, asked.children, strict=True)
            ]
            return wire.many(found, requests.NO_NODE), None
        if kind == wire.SET_WATCHES:
            again = wire.read_set_watches(body)
            tree.set_watches(again.since, again.data, again.exist, again.children, self.session, self._watch_fired)
            return b"", None
        if kind == wire.SYNC:
            return body, None
        return self._read(kind, *wire.read_path(body))

    def _read(self, kind: int, path: str, watch: bool) -> tuple[bytes | None, Exception | None]:
        if kind != wire.EXISTS and self._forbids(path):
            self._on_refused(self._loop.name, path)
            return b"", NoAuthError()  # `exists` needs no read permission.
        znode = self._tree.get(path)
        if watch and kind == wire.EXISTS:
            self._tree.watch_data(path, self.session, self._watch_fired)
        if znode is None:
            return (None, None) if kind == wire.EXISTS else (b"", NoNodeError())
        if watch and kind == wire.GET_DATA:
            self._tree.watch_data(path, self.session, self._watch_fired)
        if kind == wire.GET_CHILDREN_2:
            if watch:
                self._tree.watch_children(path, self.session, self._watch_fired)
            return wire.children_and_stat(self._tree.children(path) or (), znode), None
        return (wire.stat(znode) if kind == wire.EXISTS else wire.data_and_stat(znode)), None

    def _forbids(self, path: str) -> bool:
        return any(path.startswith(prefix) for prefix in self.forbidden_reads)

    def _multi(self, operations: list[Operation]) -> bytes:
        for index, operation in enumerate(operations):
            if not isinstance(operation, CheckVersion) and operation.path.startswith(tuple(self.forbidden_writes)):
                self._on_refused(self._loop.name, operation.path)
                return wire.multi_refused(operations, index, requests.NO_AUTH)
        done = self._tree.commit(operations, self.session)
        if isinstance(done, RefusedTransaction):
            return wire.multi_refused(operations, done.position, done.code)
        return wire.multi_done(operations, done.seen)
