"""ZooKeeper's requests and answers as bytes: the few that Shunter needs, some of which kazoo lacks.

kazoo has neither multi-read (opcode 22) nor SetWatches (101). Its own multi hides the transaction's zxid, and is
several times slower. Requests here are plain values that kazoo's connection sends like its own. Answers come back
undecoded, so that they are decoded on the event loop, in portions.

Source: ZooKeeper 3.9 `zookeeper.jute` and `MultiOperationRecord`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from shunter.errors import DriverError
from shunter.formats.znodes.text import WITHHELD

JUTE_LIMIT = 1_040_000
"""The largest body that a server with the default `jute.maxbuffer` (0xfffff) accepts; there is room for its header."""

NO_NODE = -101
NO_AUTH = -102
BAD_VERSION = -103
NODE_EXISTS = -110
INVALID_ACL = -114
SASL_REQUIRED = -124
NOT_EMPTY = -111
UNIMPLEMENTED = -6
THROTTLED = -127
ANY_VERSION = -1

_EXISTS, _GET_DATA, _SET_DATA, _GET_ACL, _SYNC, _CREATE, _DELETE = 3, 4, 5, 6, 9, 1, 2
_GET_CHILDREN, _GET_CHILDREN_2, _CHECK, _MULTI, _MULTI_READ, _SET_WATCHES = 8, 12, 13, 14, 22, 101
READING = frozenset({_EXISTS, _GET_DATA, _GET_ACL, _SYNC, _GET_CHILDREN, _GET_CHILDREN_2, _MULTI_READ, _SET_WATCHES})
"""Types of the requests that change nothing."""
_READ, _ALL_RIGHTS = 1, 31
_ERROR = -1
_NOT_TRIED = -2
_INT = struct.Struct("!i")
_LONG = struct.Struct("!q")
_HEADER = struct.Struct("!iBi")
_DATA_HEADER = struct.Struct("!iBii")
_STAT = struct.Struct("!qq16xii4xq8xq")
_END = _HEADER.pack(-1, True, -1)
_READ_DATA = _HEADER.pack(_GET_DATA, False, -1)
_READ_CHILDREN = _HEADER.pack(_GET_CHILDREN, False, -1)
_PERSISTENT, _EPHEMERAL, _SEQUENTIAL = 0, 1, 2

Acl: TypeAlias = bytes
"""An encoded access control list."""


class ConnectionLost(DriverError):
    """The connection broke before the answer came: the request may have been carried out or not."""

    def __init__(self, message: str = "the connection to ZooKeeper was lost") -> None:
        super().__init__(message, retriable=True)


class SessionLost(DriverError):
    """The session is over: ZooKeeper has deleted its ephemeral znodes or will, and answers no more requests in it."""

    def __init__(self, message: str = "the ZooKeeper session is over") -> None:
        super().__init__(message, retriable=False)


class RequestTooGreat(DriverError):
    """No server accepts a request of this size; nothing was sent."""

    def __init__(self, size: int, operations: int) -> None:
        told = f"a request of {operations} operations has {size} bytes, and ZooKeeper takes {JUTE_LIMIT}"
        super().__init__(told, retriable=False)


_MEANINGS = {
    NO_NODE: " (it is not there)",
    NO_AUTH: " (its ACL does not let us)",
    BAD_VERSION: " (somebody else has written it)",
    NODE_EXISTS: " (it is there already)",
    NOT_EMPTY: " (it has children)",
    INVALID_ACL: " (it does not take the ACL)",
    SASL_REQUIRED: ": it wants everybody to log in by SASL (SESSIONCLOSEDREQUIRESASLAUTH), and nothing says how we do; name a"
    " login in zookeeper.sasl.jaas.config, or the brokers' JAAS file in java.security.auth.login.config",
}
"""Error code -> what it means, for messages."""


class ZooKeeperRefused(DriverError):
    """ZooKeeper answered with an error code. In a multi, `index` is the operation that it belongs to."""

    def __init__(self, code: int, about: str, index: int = 0) -> None:
        self.code = code
        self.index = index
        meaning = _MEANINGS.get(code, "")
        super().__init__(f"ZooKeeper refused {about} with code {code}{meaning}", retriable=False)


class Znode(NamedTuple):
    """A znode. `data` is None if the znode has no data, or if only its existence was asked for.

    If ZooKeeper does not let this client read the znode, `data` is `WITHHELD`, and the rest may be that of `NOT_READ`.
    """

    data: bytes | None
    czxid: int
    mzxid: int
    version: int
    children_version: int
    owner: int
    pzxid: int


NOT_READ = Znode(WITHHELD, 0, 0, -1, -1, 0, 0)
"""Stands for a znode that may not be read: only its existence is known."""


class CheckVersion(NamedTuple):
    """Fail the multi unless the znode has this version."""

    path: str
    version: int


class Create(NamedTuple):
    """Create a znode."""

    path: str
    data: bytes | None
    ephemeral: bool = False
    sequential: bool = False


class Put(NamedTuple):
    """Set a znode's data, if it has this version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Remove(NamedTuple):
    """Delete a znode, if it has this version."""

    path: str
    version: int = ANY_VERSION


Operation: TypeAlias = CheckVersion | Create | Put | Remove


class Committed(NamedTuple):
    """A multi that was carried out: its zxid, and each operation's new version (-1 for checks and deletions)."""

    zxid: int
    versions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ZooKeeperRequest:
    """A request in the form that kazoo's connection needs. The answer stays undecoded."""

    type: int
    body: bytes

    def serialize(self) -> bytes:
        """Bytes after the request header."""
        return self.body

    def deserialize(self, buffer: bytes, offset: int) -> tuple[bytes, int]:
        """Return the answer undecoded: this runs on kazoo's thread, which should not do the work."""
        return buffer, offset


def open_acl() -> Acl:
    """Make an ACL that lets every client do anything."""
    return _INT.pack(1) + _INT.pack(_ALL_RIGHTS) + _text("world") + _text("anyone")


def creator_acl(*, readable: bool) -> Acl:
    """Make an ACL that lets the creator do anything, and all other clients only read (`readable`) or nothing."""
    creator = _INT.pack(_ALL_RIGHTS) + _text("auth") + _INT.pack(0)
    if not readable:
        return _INT.pack(1) + creator
    return _INT.pack(2) + creator + _INT.pack(_READ) + _text("world") + _text("anyone")


def exists_request(path: str, *, watch: bool) -> ZooKeeperRequest:
    """Ask for a znode's stat."""
    return ZooKeeperRequest(_EXISTS, _text(path) + bytes((watch,)))


def get_request(path: str, *, watch: bool) -> ZooKeeperRequest:
    """Ask for a znode's data and stat."""
    return ZooKeeperRequest(_GET_DATA, _text(path) + bytes((watch,)))


def children_request(path: str, *, watch: bool) -> ZooKeeperRequest:
    """Ask for the names of a znode's children, and for the znode's stat."""
    return ZooKeeperRequest(_GET_CHILDREN_2, _text(path) + bytes((watch,)))


def acl_request(path: str) -> ZooKeeperRequest:
    """Ask for a znode's ACL."""
    return ZooKeeperRequest(_GET_ACL, _text(path))


def sync_request(path: str) -> ZooKeeperRequest:
    """Ask the server to catch up with the leader."""
    return ZooKeeperRequest(_SYNC, _text(path))


def read_many_request(paths: Iterable[str], *, children: bool = False) -> ZooKeeperRequest:
    """Ask for the data and stats, or for the children's names, of many znodes at once."""
    header = _READ_CHILDREN if children else _READ_DATA
    parts: list[bytes] = []
    for path in paths:
        encoded = path.encode()
        parts += (header, _INT.pack(len(encoded)), encoded, b"\0")
    parts.append(_END)
    return ZooKeeperRequest(_MULTI_READ, b"".join(parts))


def set_watches_request(
    since: int, data: Sequence[str], exist: Sequence[str], children: Sequence[str]
) -> ZooKeeperRequest:
    """Arm many watches in one request. A watch whose znode changed after the transaction `since` fires at once."""
    parts = [_LONG.pack(since)]
    for paths in (data, exist, children):
        parts.append(_INT.pack(len(paths)))
        parts += map(_text, paths)
    return ZooKeeperRequest(_SET_WATCHES, b"".join(parts))


def multi_request(operations: Iterable[Operation], acl_of: Callable[[str], Acl], chroot: str = "") -> ZooKeeperRequest:
    """Ask for many changes below `chroot`, all or none. `acl_of` returns the ACL of a path that is created."""
    parts: list[bytes] = []
    for operation in operations:
        parts += _operation(operation, acl_of, chroot)
    parts.append(_END)
    return ZooKeeperRequest(_MULTI, b"".join(parts))


def decode_zxid(buffer: bytes) -> int:
    """Return an answer's transaction (for a read: the last one that the server had applied)."""
    return int(_LONG.unpack_from(buffer, 4)[0])


def decode_exists(buffer: bytes, offset: int) -> Znode:
    """Decode the answer to `exists_request`; its data is None."""
    return Znode(None, *_STAT.unpack_from(buffer, offset))


def decode_get(buffer: bytes, offset: int) -> Znode:
    """Decode the answer to `get_request`."""
    data, offset = _buffer(buffer, offset)
    return Znode(data, *_STAT.unpack_from(buffer, offset))


def decode_children(buffer: bytes, offset: int) -> tuple[tuple[str, ...], Znode]:
    """Decode the answer to `children_request`: names in ZooKeeper's order, and the parent's stat."""
    names, offset = _texts(buffer, offset)
    return names, Znode(None, *_STAT.unpack_from(buffer, offset))


def decode_owners(buffer: bytes, offset: int) -> tuple[str, ...]:
    """Decode the answer to `acl_request`: the identities that may do anything, as `scheme:id`."""
    (count,) = _INT.unpack_from(buffer, offset)
    offset += 4
    found: list[str] = []
    for _ in range(count):
        (rights,) = _INT.unpack_from(buffer, offset)
        scheme, offset = _buffer(buffer, offset + 4)
        name, offset = _buffer(buffer, offset)
        if rights == _ALL_RIGHTS:
            found.append(f"{(scheme or b'').decode()}:{(name or b'').decode()}")
    return tuple(found)


def decode_many(buffer: bytes, offset: int, paths: Sequence[str]) -> list[Znode | None]:
    """Decode the answer to `read_many_request`, in the order of its paths; None for a znode that does not exist.

    A znode that may not be read is `NOT_READ`.

    Raises:
        ZooKeeperRefused: a znode can't be read for another reason.
    """
    znodes: list[Znode | None] = []
    stat_of = _STAT.unpack_from
    head_of = _DATA_HEADER.unpack_from
    for path in paths:
        kind, _, _, length = head_of(buffer, offset)
        offset += 13
        if kind == _ERROR:
            if length not in {NO_NODE, NO_AUTH}:
                raise ZooKeeperRefused(length, f"to read {path}")
            znodes.append(None if length == NO_NODE else NOT_READ)
            continue
        data = None
        if length >= 0:
            data = buffer[offset : offset + length]
            offset += length
        znodes.append(Znode(data, *stat_of(buffer, offset)))
        offset += 68
    return znodes


def decode_many_children(buffer: bytes, offset: int, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
    """Decode the answer to `read_many_request(children=True)`; None for a znode that does not exist."""
    found: list[tuple[str, ...] | None] = []
    for path in paths:
        kind, _, _ = _HEADER.unpack_from(buffer, offset)
        offset += 9
        if kind == _ERROR:
            (code,) = _INT.unpack_from(buffer, offset)
            offset += 4
            if code != NO_NODE:
                raise ZooKeeperRefused(code, f"to list {path}")
            found.append(None)
            continue
        names, offset = _texts(buffer, offset)
        found.append(names)
    return found


def decode_multi(buffer: bytes, offset: int, operations: Sequence[Operation]) -> Committed:
    """Decode the answer to `multi_request`.

    Raises:
        ZooKeeperRefused: nothing was changed; `index` is the operation that failed.
    """
    versions: list[int] = []
    for index, operation in enumerate(operations):
        kind, _, _ = _HEADER.unpack_from(buffer, offset)
        offset += 9
        version = -1
        if kind == _ERROR:
            (code,) = _INT.unpack_from(buffer, offset)
            offset += 4
            if code not in {0, _NOT_TRIED}:
                raise ZooKeeperRefused(code, f"{type(operation).__name__} {operation.path}", index)
        elif kind == _CREATE:
            _, offset = _buffer(buffer, offset)
            version = 0
        elif kind == _SET_DATA:
            version = _STAT.unpack_from(buffer, offset)[2]
            offset += 68
        versions.append(version)
    return Committed(decode_zxid(buffer), tuple(versions))


def _operation(operation: Operation, acl_of: Callable[[str], Acl], chroot: str) -> tuple[bytes, ...]:
    path = _text(chroot + operation.path)
    if type(operation) is Put:
        data = operation.data
        return (
            _HEADER.pack(_SET_DATA, False, -1),
            path,
            _INT.pack(len(data)),
            data,
            _INT.pack(operation.version),
        )
    if type(operation) is Create:
        flags = operation.ephemeral * _EPHEMERAL | operation.sequential * _SEQUENTIAL
        created = operation.data
        body = _INT.pack(-1) if created is None else _INT.pack(len(created)) + created
        return (_HEADER.pack(_CREATE, False, -1), path, body, acl_of(operation.path), _INT.pack(flags))
    kind = _CHECK if type(operation) is CheckVersion else _DELETE
    assert isinstance(operation, CheckVersion | Remove)
    return (_HEADER.pack(kind, False, -1), path, _INT.pack(operation.version))


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _INT.pack(len(encoded)) + encoded


def _buffer(buffer: bytes, offset: int) -> tuple[bytes | None, int]:
    (length,) = _INT.unpack_from(buffer, offset)
    offset += 4
    if length < 0:
        return None, offset
    return buffer[offset : offset + length], offset + length


def _texts(buffer: bytes, offset: int) -> tuple[tuple[str, ...], int]:
    (count,) = _INT.unpack_from(buffer, offset)
    offset += 4
    texts: list[str] = []
    for _ in range(count):
        (length,) = _INT.unpack_from(buffer, offset)
        offset += 4
        texts.append(buffer[offset : offset + length].decode())
        offset += length
    return tuple(texts), offset
