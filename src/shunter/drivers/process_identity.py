"""Which process we are, and whether another one still lives.

A controller that was killed leaves its ephemeral znodes behind until its session expires. A successor need not wait
for that where it can PROVE that the writer of a registration is dead: same boot of the same kernel, same pid
namespace, and no process with that pid and start time. Where that can't be proven (another machine, another
container, no Linux), it waits.
"""

from __future__ import annotations

import os
from pathlib import Path

from shunter.formats.broker_znodes import ProcessIdentity

_PROC = Path("/proc")
_STATE, _STARTED = 0, 19
_GONE = {"Z", "X"}


def this_process() -> ProcessIdentity | None:
    """Who we are; None where the system does not tell."""
    try:
        boot_id, namespace = _surroundings()
        return ProcessIdentity(boot_id, namespace, os.getpid(), int(_stat(os.getpid())[_STARTED]))
    except (OSError, ValueError, IndexError):
        return None


def is_dead(process: ProcessIdentity, proc: Path = _PROC) -> bool:
    """Whether a process is certainly dead; False where it lives or nobody here can know.

    `/proc` may hide other users' processes (mount option `hidepid`, gVisor, some containers), so that a missing
    `/proc/PID` proves nothing by itself: the kernel is asked by signal 0, which nothing hides.
    """
    try:
        if _surroundings(proc) != (process.boot_id, process.pid_namespace):
            return False
    except OSError:
        return False
    try:
        stat = _stat(process.pid, proc)
        return stat[_STATE] in _GONE or int(stat[_STARTED]) != process.started
    except (FileNotFoundError, ProcessLookupError):
        return _no_such_process(process.pid)
    except (OSError, ValueError, IndexError):
        return False


def is_alive_here(process: ProcessIdentity, proc: Path = _PROC) -> bool:
    """Whether a process certainly lives, and where we can send it signals; False where nobody here can know."""
    try:
        stat = _stat(process.pid, proc)
        here = _surroundings(proc) == (process.boot_id, process.pid_namespace)
        return here and stat[_STATE] not in _GONE and int(stat[_STARTED]) == process.started
    except (OSError, ValueError, IndexError):
        return False


def _no_such_process(pid: int) -> bool:
    if pid <= 0:
        return False  # Such a number means groups of processes, and was written by no process of ours.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _surroundings(proc: Path = _PROC) -> tuple[str, str]:
    boot_id = (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return boot_id, str((proc / "self/ns/pid").readlink())


def _stat(pid: int, proc: Path = _PROC) -> list[str]:
    """Fields of `/proc/PID/stat` after the command, which may hold blanks and brackets of its own."""
    return (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
