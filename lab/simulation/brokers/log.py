"""A replica's log: entries with leader epochs, a high watermark, and Kafka's search for where two logs diverge."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class LogEntry(NamedTuple):
    """One record. `value` is unique in the world."""

    epoch: int
    value: int


class Log:
    """A broker's data of one partition on disk. A kill loses nothing, because the page cache survives the process."""

    __slots__ = ("checkpoint", "directory", "entries", "high_watermark", "topic_id")

    def __init__(self, topic_id: UUID | None, directory: int) -> None:
        """Begin empty."""
        self.topic_id = topic_id
        self.directory = directory
        self.entries: list[LogEntry] = []
        self.high_watermark = 0
        self.checkpoint = 0
        """The high watermark as last written to disk; a restart begins with it."""

    @property
    def end(self) -> int:
        """Offset of the next record."""
        return len(self.entries)

    def last_epoch(self) -> int:
        """Epoch of the last record; -1 for none."""
        return self.entries[-1].epoch if self.entries else -1

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The greatest epoch in the log that is at most `epoch` (-1: none), and the offset at which it ends.

        Source: KIP-101 and KIP-320, `LeaderEpochFileCache.endOffsetFor`.
        """
        offset = len(self.entries)
        while offset and self.entries[offset - 1].epoch > epoch:
            offset -= 1
        return (self.entries[offset - 1].epoch if offset else -1), offset

    def truncate(self, offset: int) -> None:
        """Drop everything from `offset` on."""
        del self.entries[offset:]
        self.high_watermark = min(self.high_watermark, offset)
        self.checkpoint = min(self.checkpoint, offset)
