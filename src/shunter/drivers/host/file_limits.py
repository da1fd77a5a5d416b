"""The limit on this process's open files: each connection is one."""

from __future__ import annotations

import resource
from typing import NamedTuple

SPARE_FILES = 1_024
"""Files kept for brokers' connections, connections to brokers (one each, the relay's up to four), ZooKeeper, logs."""
LEAST_CONNECTIONS = 16


class FileLimit(NamedTuple):
    """The present limit, the limit before (the same if it was not raised), and the connections that fit below it."""

    files: int
    raised_from: int
    connections: int


def make_room(connections: int) -> FileLimit:
    """Raise the limit on open files as far as necessary, and as far as an unprivileged process may.

    Args:
        connections: the wanted number of clients' connections.

    Returns:
        The limits, and the connections that fit: the wanted number or fewer, at least 16.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_FILES
    limit = soft
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        except (OSError, ValueError):
            limit = soft
    if limit == resource.RLIM_INFINITY or limit >= wanted:
        return FileLimit(limit, soft, connections)
    # If open files are scarce, half of them are kept for brokers and for ZooKeeper.
    fit = max(limit - SPARE_FILES, limit // 2)
    return FileLimit(limit, soft, max(LEAST_CONNECTIONS, min(connections, fit)))
