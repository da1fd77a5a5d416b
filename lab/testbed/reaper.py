"""The reaper: a tiny process that ends what its parent started, however the parent ended.

A parent that got SIGKILL cannot clean up. So each process of the testbed announces its process group to the reaper
before it becomes Java, through a pipe that the parent holds open, too. When the parent is gone, the pipe is closed (or
the reaper has a new parent), and the reaper kills the groups that are still on its list.

It runs as a single file and imports only the standard library, so it starts in some 20 ms and works even while the
package is broken. Lines on standard input: `+PGID` (a group to kill), `-PGID` (a group that has ended).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

CHECK_INTERVAL_S = 0.5
ORPHAN_GRACE_S = 1.0


def updated(groups: set[int], line: bytes) -> None:
    """Apply one line to the list of process groups."""
    sign, number = line[:1], line[1:]
    if not number.isdigit():
        return
    if sign == b"+":
        groups.add(int(number))
    else:
        groups.discard(int(number))


def watch(parent: int) -> set[int]:
    """Read announcements until the parent is gone; return the process groups that it left behind.

    The end of the pipe is the sure sign, because then no process is left that could announce a group. If a forked
    copy of the parent holds the pipe open, that end does not come. Then a new parent is the sign, after a grace time
    for children that are about to announce themselves.
    """
    groups: set[int] = set()
    rest = b""
    orphaned_at: float | None = None
    while orphaned_at is None or time.monotonic() - orphaned_at < ORPHAN_GRACE_S:
        if orphaned_at is None and os.getppid() != parent:
            orphaned_at = time.monotonic()
        readable, _, _ = select.select([0], [], [], CHECK_INTERVAL_S)
        if not readable:
            continue
        chunk = os.read(0, 4096)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            updated(groups, line)
    return groups


def main() -> None:
    """Watch the process named by the first argument, then kill what it left."""
    # The parent handles ctrl-C and a closing terminal: it stops things in order, and the reaper ends last.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for group in sorted(watch(int(sys.argv[1]))):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
