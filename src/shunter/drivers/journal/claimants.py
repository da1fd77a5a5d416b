"""The description of an executor that drives a cluster, for other executors. The claim itself is in `cluster_claim`."""

from __future__ import annotations

import getpass
import os
import socket
import time
from dataclasses import dataclass

from shunter.errors import DriverError


@dataclass(frozen=True, slots=True)
class Claimant:
    """An executor's description of itself. `since_ms` is by its host's clock; `journal` names the host of a file."""

    user: str
    host: str
    process: int
    since_ms: int
    journal: str
    address: str = ""
    """Where its service is reached, if it is one that says so."""

    def __str__(self) -> str:
        who = f"{self.user} on {self.host}, process {self.process}"
        if self.address:
            who = f"{self.address} of {self.host} ({self.user}, process {self.process})"
        if not self.journal:
            return who
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since_ms / 1000))
        return f"{who}, since {since}, under journal {self.journal}"


def this_user() -> str:
    """The UNIX user of this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def this_claimant(journal: str, address: str = "") -> Claimant:
    """Describe this process."""
    return Claimant(this_user(), socket.gethostname(), os.getpid(), int(time.time() * 1000), journal, address)


class ClusterClaimed(DriverError):
    """Another executor drives the cluster; `holder` is its description of itself."""

    def __init__(
        self, holder: str, way_out: str = "ask there, or if it is dead say --take-over-cluster", *, lost: bool = False
    ) -> None:
        """Make the error. `way_out`: what a command can do about it; `lost`: this executor had the claim."""
        self.holder = holder
        told = f"{'the claim was lost: ' if lost else ''}this cluster is driven by {holder}"
        super().__init__(told, retriable=False, flags=f": {way_out}")
