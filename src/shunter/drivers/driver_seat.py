"""One executor per cluster and host: a locked file beside the journals, which the kernel unlocks whatever ends us.

A journal's lease keeps a second executor off the journal; this keeps off one that was given another journal for the
same cluster. On another host nothing can: its executor finds our moves under way, and leaves them alone.
"""

from __future__ import annotations

import os
from pathlib import Path

from shunter.drivers.locked_file import FileTaken, LockedFile
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
        try:
            self._lock = LockedFile(folder / f"{cluster_id}.driver", f"process {os.getpid()} under journal {journal}")
        except FileTaken as taken:
            told = f"cluster {cluster_id} is driven by {taken}: name that journal, or wait for its end"
            raise SeatTaken(told, retriable=False) from None

    def leave(self) -> None:
        """Give it back."""
        self._lock.leave()
