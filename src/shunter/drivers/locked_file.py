"""A file that one process of this host locks: the kernel unlocks it, whatever ends its holder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from shunter.errors import DriverError

_MOST_TOLD = 4096


class FileTaken(DriverError):
    """Another process has the lock; the message is what that one says of itself."""


class LockedFile:
    """The lock, kept until `leave`, or until the process ends."""

    def __init__(self, path: Path, holder: str) -> None:
        """Take it.

        Args:
            path: Made, 0600, if it is not there; its folder is.
            holder: What whoever comes second is told of us.

        Raises:
            FileTaken: somebody else has it.
            OSError: the file can't be opened.
        """
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            told = os.pread(self._descriptor, _MOST_TOLD, 0).decode(errors="replace") or "another process"
            os.close(self._descriptor)
            raise FileTaken(told, retriable=True) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, holder.encode(), 0)

    def leave(self) -> None:
        """Give it back. The file stays: a name that goes away could be locked twice."""
        os.close(self._descriptor)
