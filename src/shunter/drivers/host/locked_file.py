"""A file that one process of this host locks. The kernel unlocks it however the process ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from shunter.errors import DriverError

_MOST_TOLD = 4096


class FileTaken(DriverError):
    """Another process has the lock; the message is the text that the process wrote into the file."""


class LockedFile:
    """The lock, kept until `leave`, or until the process ends."""

    def __init__(self, path: Path, holder: str) -> None:
        """Take the lock.

        Args:
            path: Created with mode 0600 if it does not exist; its folder must exist.
            holder: A text about this process, for the error of a process that finds the lock taken.

        Raises:
            FileTaken: another process has the lock.
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
        """Release the lock. The file is not deleted: otherwise two processes could each lock a file of this name.

        It is emptied first: a process that lives on after it has left must not seem to have the lock.
        """
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
