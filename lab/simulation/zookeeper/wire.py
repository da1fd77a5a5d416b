"""ZooKeeper's side of the bytes that `drivers.zookeeper_requests` prints and reads: requests in, answers out.

Written from `zookeeper.jute` without the driver's codecs, so that a mistake there is not repeated here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from shunter.drivers.zookeeper.requests import CheckVersion, Create, Operation, Put, Remove, Znode

EXISTS, GET_DATA, SYNC, GET_CHILDREN_2, MULTI, MULTI_READ, SET_WATCHES = 3, 4, 9, 12, 14, 22, 101
_CREATE, _DELETE, _SET_DATA, _CHECK, _GET_CHILDREN = 1, 2, 5, 13, 8
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_HEADER = struct.Struct(">iqi")
_MULTI_HEADER = struct.Struct(">i?i")
_STAT = struct.Struct(">qqqqiiiqiiq")
_END = _MULTI_HEADER.pack(-1, True, -1)


class ReadMany(NamedTuple):
    """A multi-read: paths, and whether each asks for children instead of data."""

    paths: tuple[str, ...]
    children: tuple[bool, ...]


class WatchesAgain(NamedTuple):
    """A SetWatches."""

    since: int
    data: tuple[str, ...]
    exist: tuple[str, ...]
    children: tuple[str, ...]


class _Reader:
    def __init__(self, buffer: bytes) -> None:
        self.buffer = buffer
        self.offset = 0

    def integer(self) -> int:
        (value,) = _INT.unpack_from(self.buffer, self.offset)
        self.offset += 4
        return int(value)

    def long(self) -> int:
        (value,) = _LONG.unpack_from(self.buffer, self.offset)
        self.offset += 8
        return int(value)

    def flag(self) -> bool:
        self.offset += 1
        return bool(self.buffer[self.offset - 1])

    def data(self) -> bytes | None:
        length = self.integer()
        if length < 0:
            return None
        self.offset += length
        return self.buffer[self.offset - length : self.offset]

    def text(self) -> str:
        return (self.data() or b"").decode()

    def texts(self) -> tuple[str, ...]:
        return tuple(self.text() for _ in range(self.integer()))


def read_path(body: bytes) -> tuple[str, bool]:
    """Path and watch of exists, getData and getChildren2."""
    reader = _Reader(body)
    return reader.text(), reader.flag()


def read_multi(body: bytes) -> list[Operation]:
    """Operations of a multi."""
    reader = _Reader(body)
    operations: list[Operation] = []
    while True:
        kind, done = reader.integer(), reader.flag()
        reader.integer()
        if done:
            return operations
        path = reader.text()
        if kind == _CREATE:
            data = reader.data()
            for _ in range(reader.integer()):
                reader.integer(), reader.text(), reader.text()
            flags = reader.integer()
            operations.append(Create(path, data, bool(flags & 1), bool(flags & 2)))
        elif kind == _SET_DATA:
            data = reader.data()
            operations.append(Put(path, data or b"", reader.integer()))
        elif kind == _CHECK:
            operations.append(CheckVersion(path, reader.integer()))
        else:
            operations.append(Remove(path, reader.integer()))


def read_many(body: bytes) -> ReadMany:
    """Paths of a multi-read."""
    reader = _Reader(body)
    paths: list[str] = []
    children: list[bool] = []
    while True:
        kind, done = reader.integer(), reader.flag()
        reader.integer()
        if done:
            return ReadMany(tuple(paths), tuple(children))
        paths.append(reader.text())
        reader.flag()
        children.append(kind == _GET_CHILDREN)


def read_set_watches(body: bytes) -> WatchesAgain:
    """Lists of a SetWatches."""
    reader = _Reader(body)
    since = reader.long()
    return WatchesAgain(since, reader.texts(), reader.texts(), reader.texts())


def answer(zxid: int, body: bytes) -> bytes:
    """Put a reply header before a body."""
    return _HEADER.pack(1, zxid, 0) + body


def stat(znode: Znode) -> bytes:
    """Print a stat."""
    length = len(znode.data or b"")
    return _STAT.pack(
        znode.czxid,
        znode.mzxid,
        0,
        0,
        znode.version,
        znode.children_version,
        0,
        znode.owner,
        length,
        0,
        znode.pzxid,
    )


def data_and_stat(znode: Znode) -> bytes:
    """Print a getData answer."""
    return _data(znode.data) + stat(znode)


def children_and_stat(names: Sequence[str], znode: Znode) -> bytes:
    """Print a getChildren2 answer."""
    return _texts(names) + stat(znode)


def many(found: Sequence[Znode | tuple[str, ...] | int | None], missing: int) -> bytes:
    """Print a multi-read's answer: data and stat, names of children, or an error's code (None: `missing`)."""
    parts: list[bytes] = []
    for each in found:
        if each is None or isinstance(each, int):
            code = missing if each is None else each
            parts += (_MULTI_HEADER.pack(-1, False, code), _INT.pack(code))
        elif isinstance(each, Znode):
            parts += (_MULTI_HEADER.pack(GET_DATA, False, 0), data_and_stat(each))
        else:
            parts += (_MULTI_HEADER.pack(_GET_CHILDREN, False, 0), _texts(each))
    return b"".join((*parts, _END))


def multi_done(operations: Sequence[Operation], after: Sequence[Znode | None]) -> bytes:
    """Print the answer to a multi that happened; `after` has the znode at each operation's path right after it."""
    parts: list[bytes] = []
    for operation, znode in zip(operations, after, strict=True):
        if isinstance(operation, Create):
            parts += (_MULTI_HEADER.pack(_CREATE, False, 0), _text(operation.path))
        elif isinstance(operation, Put):
            assert znode is not None
            parts += (_MULTI_HEADER.pack(_SET_DATA, False, 0), stat(znode))
        else:
            parts.append(_MULTI_HEADER.pack(_CHECK if isinstance(operation, CheckVersion) else _DELETE, False, 0))
    return b"".join((*parts, _END))


def multi_refused(operations: Sequence[Operation], index: int, code: int) -> bytes:
    """Print the answer to a multi that did not happen."""
    parts: list[bytes] = []
    for number in range(len(operations)):
        error = code if number == index else 0 if number < index else -2
        parts += (_MULTI_HEADER.pack(-1, False, error), _INT.pack(error))
    return b"".join((*parts, _END))


def _data(data: bytes | None) -> bytes:
    return _INT.pack(-1) if data is None else _INT.pack(len(data)) + data


def _text(text: str) -> bytes:
    return _data(text.encode())


def _texts(texts: Sequence[str]) -> bytes:
    return _INT.pack(len(texts)) + b"".join(map(_text, texts))
