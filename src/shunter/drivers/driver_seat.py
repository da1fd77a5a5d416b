"""One executor per cluster and host: a locked file beside the journals, which the kernel unlocks whatever ends us.

A journal's lease keeps a second executor off the journal; this keeps off one that was given another journal for the
same cluster. On another host nothing can: its executor finds our moves under way, and leaves them alone.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import NoReturn

from shunter.errors import DriverError


class SeatTaken(DriverError):
    """Another executor of this host drives the cluster."""


class DriverSeat:
    """The right to drive one cluster from this host; kept until `leave`, or until the process ends."""

    def __init__(self, folder: Path, cluster_id: str, journal: str) -> None:
        """Take it.

        Args:
            folder: Where journals live by default, the same for all executors of one user.
            cluster_id: Of the cluster.
            journal: Ours, named to whoever comes second.

        Raises:
            SeatTaken: Somebody else has it; says who, and under which journal.
        """
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{cluster_id}.driver"
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._refuse(cluster_id)
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"process {os.getpid()} under journal {journal}".encode(), 0)

    def _refuse(self, cluster_id: str) -> NoReturn:
        holder = os.pread(self._descriptor, 4096, 0).decode(errors="replace") or "another process"
        os.close(self._descriptor)
        told = f"cluster {cluster_id} is driven by {holder}: name that journal, or wait for its end"
        raise SeatTaken(told, retriable=False)

    def leave(self) -> None:
        """Give it back. The file stays: a name that goes away could be locked twice."""
        os.close(self._descriptor)
