"""One executor per cluster and host: a locked file beside the journals. The kernel unlocks it however the process ends.

A journal's lease keeps a second executor off the journal. This lock keeps off an executor that was given another
journal for the same cluster. No file can keep off an executor on another host, but it finds this executor's moves under
way and leaves them alone.
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
        """Take the seat.

        Args:
            folder: The default folder of journals, the same for all executors of one user.
            cluster_id: Of the cluster.
            journal: This executor's journal; an executor that finds the seat taken names it in its error.

        Raises:
            SeatTaken: Another process has the seat; the message names the process and its journal.
        """
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = LockedFile(folder / f"{cluster_id}.driver", f"process {os.getpid()} under journal {journal}")
        except FileTaken as taken:
            told = f"cluster {cluster_id} is driven by {taken}: name that journal, or wait for its end"
            raise SeatTaken(told, retriable=False) from None

    def leave(self) -> None:
        """Give the seat back."""
        self._lock.leave()
