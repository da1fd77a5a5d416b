"""One executor per cluster and host: a locked file beside the journals. The kernel unlocks it however the process ends.

A journal's lease keeps a second executor off the journal. This lock keeps off an executor that was given another
journal for the same cluster. No file can keep off an executor on another host, but it finds this executor's moves under
way and leaves them alone.

An executor that is suspended keeps the lock, but not its lease. `standing_still` finds out whether that is the case.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

import orjson

from shunter.core.own_topics import Shortage
from shunter.drivers.host.locked_file import FileTaken, LockedFile
from shunter.drivers.host.process_identity import is_dead, is_stopped, this_process
from shunter.drivers.journal.journals import LEASE_MS
from shunter.errors import DriverError
from shunter.formats.znodes.brokers import ProcessIdentity
from shunter.model.execution import LeaseHolder

_SUFFIX = ".driver"


class Sitter(NamedTuple):
    """What a process wrote into the file that it locked. `identity` None: its system does not show it."""

    process: int
    journal: str
    identity: ProcessIdentity | None

    def __str__(self) -> str:
        return f"process {self.process} under journal {self.journal}"


class SeatTaken(DriverError):
    """Another executor of this host drives the cluster."""

    def __init__(self, told: str, holder: Sitter | None = None) -> None:
        """Make the error; `holder` None: the file does not say which process locked it."""
        self.holder = holder
        super().__init__(told, retriable=False)


class StillDriver(NamedTuple):
    """A process of this host that has a cluster's seat, but has not renewed its journal's lease in time.

    `stopped`: by a signal or a debugger; None: not known. `short`: why nobody can write to its journal; None: not known.
    """

    process: int
    renewed_ms: int
    stopped: bool | None = None
    short: Shortage | None = None

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.renewed_ms / 1000))
        why = "it is suspended" if self.stopped else "it may stand still or be suspended"
        if self.stopped is False:
            why = "it runs, so it waits for something, or hangs"
        if self.short is not None:
            why = f"it can't renew it: {self.short.told}"
        return f"process {self.process} has not renewed its lease since {since}: {why}"

    @property
    def ends_it(self) -> str:
        """What ends it."""
        if self.short is not None:
            return self.short.way_out
        if self.stopped is False:
            return f"give it a minute; if that does not help, see in its log why, or end it (kill {self.process})"
        return f"continue it (kill -CONT {self.process}) or end it (kill -9 {self.process})"

    @property
    def way_out(self) -> str:
        """What to do about it, for a command."""
        return f"{self.ends_it}, then repeat this"


class StandsStill(SeatTaken):
    """The executor that would carry this out, or has to end first, stands still."""

    def __init__(self, standing: StillDriver, hint: str = "") -> None:
        self.standing = standing
        super().__init__(f"{standing}; {standing.way_out}{hint}")


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
        mine = {"process": os.getpid(), "journal": journal, "identity": list(this_process() or ())}
        try:
            self._lock = LockedFile(folder / f"{cluster_id}{_SUFFIX}", orjson.dumps(mine).decode())
        except FileTaken as taken:
            holder = _holder(str(taken))
            told = f"cluster {cluster_id} is driven by {holder or taken}: name that journal, or wait for its end"
            raise SeatTaken(told, holder) from None

    def leave(self) -> None:
        """Give the seat back."""
        self._lock.leave()


def standing_still(folder: Path, journal: str, lease: LeaseHolder | None, host: str, now_ms: int) -> StillDriver | None:
    """The process of this host that has the seat under a journal, but has let the journal's lease run out.

    Args:
        folder: As for `DriverSeat`.
        journal: As `DriverSeat` was given it.
        lease: The journal's lease, even if it has run out.
        host: This host's name.
        now_ms: The time now.
    """
    if lease is None or lease.host != host or lease.expires_at_ms > now_ms:
        return None
    for path in folder.glob(f"*{_SUFFIX}"):
        holder = _read(path)
        if holder is not None and (holder.process, holder.journal) == (lease.process, journal) and not _ended(holder):
            stopped = None if holder.identity is None else is_stopped(holder.identity)
            return StillDriver(lease.process, lease.expires_at_ms - LEASE_MS, stopped)
    return None


def _read(path: Path) -> Sitter | None:
    try:
        return _holder(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def _holder(told: str) -> Sitter | None:
    try:
        found = orjson.loads(told)
        identity = ProcessIdentity(*found["identity"]) if found["identity"] else None
        return Sitter(int(found["process"]), str(found["journal"]), identity)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return None


def _ended(holder: Sitter) -> bool:
    """Whether the process has certainly ended. The file keeps its text when a process is killed."""
    return holder.identity is not None and is_dead(holder.identity)
