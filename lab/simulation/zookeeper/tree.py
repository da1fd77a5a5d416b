"""ZooKeeper's data: znodes, sessions with their ephemeral znodes, watches, and atomic transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shunter.drivers.zookeeper import requests as wire
from shunter.drivers.zookeeper.requests import ANY_VERSION, CheckVersion, Create, Operation, Put, Remove, Znode

CREATED, DELETED, CHANGED, CHILDREN = 1, 2, 3, 4


class RefusedTransaction(NamedTuple):
    """A transaction that was refused: the position of the failed operation, and ZooKeeper's error code."""

    position: int
    code: int


class Change(NamedTuple):
    """One znode of a transaction, before and after (None: absent)."""

    path: str
    before: Znode | None
    after: Znode | None


class Transaction(NamedTuple):
    """A transaction that happened. `session` is 0 for the ensemble itself (an expiry).

    `seen`: the znode at each operation's path right after that operation. A later operation may have removed it.
    """

    zxid: int
    session: int
    changes: tuple[Change, ...]
    operations: tuple[Operation, ...]
    seen: tuple[Znode | None, ...]


@dataclass(slots=True)
class _Node:
    data: bytes | None
    czxid: int
    mzxid: int
    pzxid: int
    version: int = 0
    children_version: int = 0
    owner: int = 0
    sequence: int = 0
    children: dict[str, None] = field(default_factory=dict[str, None])

    def seen(self) -> Znode:
        return Znode(self.data, self.czxid, self.mzxid, self.version, self.children_version, self.owner, self.pzxid)


Watcher = Callable[[int, str], None]
"""Called once with (kind, path)."""


class ZooKeeperTree:
    """The znodes of a single server: every read is up to date.

    Args:
        on_commit: called after each transaction, before its watches fire.
    """

    def __init__(self, on_commit: Callable[[Transaction], None]) -> None:
        """Begin with the root alone."""
        self._nodes: dict[str, _Node] = {"/": _Node(b"", 0, 0, 0)}
        self._on_commit = on_commit
        self.zxid = 0
        self._next_session = 0
        self.sessions: dict[int, dict[str, None]] = {}
        """Ephemeral paths of each live session."""
        self._data_watches: dict[str, dict[int, Watcher]] = {}
        self._child_watches: dict[str, dict[int, Watcher]] = {}

    # ---- sessions

    def open_session(self) -> int:
        """Begin a session."""
        self._next_session += 1
        self.sessions[self._next_session] = {}
        return self._next_session

    def close_session(self, session: int) -> None:
        """End a session: one transaction removes all its ephemeral znodes."""
        ephemerals = self.sessions.pop(session, None)
        self.drop_watches(session)
        if ephemerals:
            self.commit([Remove(path) for path in ephemerals], 0)

    def paths(self) -> list[str]:
        """Every znode's path, in the order of creation."""
        return list(self._nodes)

    # ---- writes

    def commit(self, operations: Sequence[Operation], session: int) -> Transaction | RefusedTransaction:
        """Carry out operations, all or none; their watches fire afterwards."""
        zxid = self.zxid + 1
        undo: list[Callable[[], None]] = []
        fired: list[tuple[int, str]] = []
        before: dict[str, Znode | None] = {}
        seen: list[Znode | None] = []
        for index, operation in enumerate(operations):
            code = self._apply(operation, session, zxid, undo, fired, before)
            if code:
                for action in reversed(undo):
                    action()
                return RefusedTransaction(index, code)
            seen.append(self.get(operation.path))
        self.zxid = zxid
        changes = tuple(Change(path, was, self.get(path)) for path, was in before.items())
        transaction = Transaction(zxid, session, changes, tuple(operations), tuple(seen))
        self._on_commit(transaction)
        for kind, path in fired:
            self._fire(kind, path)
        return transaction

    def _apply(
        self,
        operation: Operation,
        session: int,
        zxid: int,
        undo: list[Callable[[], None]],
        fired: list[tuple[int, str]],
        before: dict[str, Znode | None],
    ) -> int:
        """Carry out one operation; returns ZooKeeper's error code, or 0."""
        path = operation.path
        node = self._nodes.get(path)
        if isinstance(operation, Create):
            return self._create(operation, session, zxid, undo, fired, before)
        if node is None:
            return wire.NO_NODE
        if operation.version not in {ANY_VERSION, node.version}:
            return wire.BAD_VERSION
        if isinstance(operation, CheckVersion):
            return 0
        before.setdefault(path, node.seen())
        if isinstance(operation, Put):
            old = (node.data, node.version, node.mzxid)
            node.data, node.version, node.mzxid = operation.data, node.version + 1, zxid

            def put_back() -> None:
                node.data, node.version, node.mzxid = old

            undo.append(put_back)
            fired.append((CHANGED, path))
            return 0
        if node.children:
            return wire.NOT_EMPTY
        self._unlink(path, node, zxid, undo, fired)
        return 0

    def _create(
        self,
        operation: Create,
        session: int,
        zxid: int,
        undo: list[Callable[[], None]],
        fired: list[tuple[int, str]],
        before: dict[str, Znode | None],
    ) -> int:
        path = operation.path
        parent_path, _, name = path.rpartition("/")
        parent_path = parent_path or "/"
        parent = self._nodes.get(parent_path)
        if parent is None:
            return wire.NO_NODE
        if operation.sequential:
            name = f"{name}{parent.sequence:010d}"
            path = f"{parent_path}/{name}"
        if path in self._nodes:
            return wire.NODE_EXISTS
        before.setdefault(path, None)
        owner = session if operation.ephemeral else 0
        old = (parent.pzxid, parent.children_version, parent.sequence)
        self._nodes[path] = _Node(operation.data, zxid, zxid, zxid, owner=owner)
        parent.children[name] = None
        parent.pzxid, parent.children_version, parent.sequence = zxid, old[1] + 1, old[2] + 1
        if owner:
            self.sessions[owner][path] = None

        def take_away() -> None:
            del self._nodes[path]
            del parent.children[name]
            parent.pzxid, parent.children_version, parent.sequence = old
            if owner:
                del self.sessions[owner][path]

        undo.append(take_away)
        fired += [(CREATED, path), (CHILDREN, parent_path)]
        return 0

    def _unlink(
        self, path: str, node: _Node, zxid: int, undo: list[Callable[[], None]], fired: list[tuple[int, str]]
    ) -> None:
        parent_path, _, name = path.rpartition("/")
        parent_path = parent_path or "/"
        parent = self._nodes[parent_path]
        old = (parent.pzxid, parent.children_version)
        del self._nodes[path]
        del parent.children[name]
        parent.pzxid, parent.children_version = zxid, old[1] + 1
        ephemerals = self.sessions.get(node.owner)
        if ephemerals is not None:
            ephemerals.pop(path, None)

        def put_back() -> None:
            self._nodes[path] = node
            parent.children[name] = None
            parent.pzxid, parent.children_version = old
            if ephemerals is not None and node.owner:
                ephemerals[path] = None

        undo.append(put_back)
        fired += [(DELETED, path), (CHILDREN, parent_path)]

    # ---- reads

    def get(self, path: str) -> Znode | None:
        """Look at a znode."""
        node = self._nodes.get(path)
        return None if node is None else node.seen()

    def children(self, path: str) -> tuple[str, ...] | None:
        """Names of a znode's children, oldest first; None where there is no such znode."""
        node = self._nodes.get(path)
        return None if node is None else tuple(node.children)

    # ---- watches

    def watch_data(self, path: str, session: int, watcher: Watcher) -> None:
        """Fire once when the znode is created, changed or deleted."""
        self._data_watches.setdefault(path, {})[session] = watcher

    def watch_children(self, path: str, session: int, watcher: Watcher) -> None:
        """Fire once when the znode's children change or it is deleted."""
        self._child_watches.setdefault(path, {})[session] = watcher

    def drop_watches(self, session: int) -> None:
        """Forget a session's watches, because its connection broke."""
        for table in (self._data_watches, self._child_watches):
            for path in [path for path, watchers in table.items() if session in watchers]:
                del table[path][session]
                if not table[path]:
                    del table[path]

    def set_watches(
        self,
        since: int,
        data: Iterable[str],
        exist: Iterable[str],
        children: Iterable[str],
        session: int,
        told: Watcher,
    ) -> None:
        """Arm many watches again; those for changes after transaction `since` fire at once (ZooKeeper's SetWatches)."""
        for path in data:
            node = self._nodes.get(path)
            if node is None:
                told(DELETED, path)
            elif node.mzxid > since:
                told(CHANGED, path)
            else:
                self.watch_data(path, session, told)
        for path in exist:
            if path in self._nodes:
                told(CREATED, path)
            else:
                self.watch_data(path, session, told)
        for path in children:
            node = self._nodes.get(path)
            if node is None:
                told(DELETED, path)
            elif node.pzxid > since:
                told(CHILDREN, path)
            else:
                self.watch_children(path, session, told)

    def _fire(self, kind: int, path: str) -> None:
        watchers: dict[int, Watcher] = {}
        if kind != CHILDREN:
            watchers.update(self._data_watches.pop(path, {}))
        if kind in {CHILDREN, DELETED}:
            watchers.update(self._child_watches.pop(path, {}))
        for watcher in watchers.values():
            watcher(kind, path)
