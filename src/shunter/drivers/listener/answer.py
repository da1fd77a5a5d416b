"""An answer to be sent: its own bytes around pieces that other answers share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

CHUNK_BYTES = 65_536
"""Bytes that are handed to the kernel at a time; one such call takes some tens of microseconds."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole frame: size, header and body. `pieces` may be shared, and stand between `head` and `tail`."""

    head: bytes
    pieces: Sequence[bytes] = ()
    tail: bytes = b""
    shared: int = 0
    """Bytes of `pieces` together."""

    @property
    def own(self) -> int:
        """Bytes that no other answer shares."""
        return len(self.head) + len(self.tail)

    @property
    def size(self) -> int:
        """Bytes of the whole frame."""
        return self.own + self.shared

    def chunks(self) -> Iterator[bytes | memoryview]:
        """Yield the frame in chunks of about `CHUNK_BYTES`."""
        gathered: list[bytes] = [self.head]
        size = len(self.head)
        for piece in self.pieces:
            if size >= CHUNK_BYTES:
                yield from _cut(b"".join(gathered))
                gathered, size = [], 0
            gathered.append(piece)
            size += len(piece)
        gathered.append(self.tail)
        yield from _cut(b"".join(gathered))


def _cut(joined: bytes) -> Iterator[bytes | memoryview]:
    if len(joined) <= 2 * CHUNK_BYTES:
        yield joined
        return
    view = memoryview(joined)
    for start in range(0, len(joined), CHUNK_BYTES):
        yield view[start : start + CHUNK_BYTES]
