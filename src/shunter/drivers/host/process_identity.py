"""The identity of this process, and whether another process is still running.

A controller that was killed leaves its ephemeral znodes behind until its session expires. A successor need not wait for
that if it can PROVE that the writer of a registration is dead: same boot of the same kernel, same pid namespace, and no
process with that pid and start time. If that can't be proven (another machine, another container, no Linux), it waits.
"""

from __future__ import annotations

import os
from pathlib import Path

from shunter.formats.znodes.brokers import ProcessIdentity

_PROC = Path("/proc")
_STATE, _STARTED = 0, 19
_GONE = {"Z", "X"}
_STOPPED = {"T", "t"}


def this_process() -> ProcessIdentity | None:
    """Return the identity of this process; None if the system does not show it."""
    try:
        boot_id, namespace = _surroundings()
        return ProcessIdentity(boot_id, namespace, os.getpid(), int(_stat(os.getpid())[_STARTED]))
    except (OSError, ValueError, IndexError):
        return None


def is_dead(process: ProcessIdentity, proc: Path = _PROC) -> bool:
    """Whether a process is certainly dead; False if it runs, or if that can't be known here.

    `/proc` may hide other users' processes (mount option `hidepid`, gVisor, some containers). So a missing `/proc/PID`
    is no proof: the kernel is also asked by signal 0, for which no process is hidden.
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
    """Whether a process certainly runs, in this pid namespace; False if that can't be known here."""
    try:
        stat = _stat(process.pid, proc)
        here = _surroundings(proc) == (process.boot_id, process.pid_namespace)
        return here and stat[_STATE] not in _GONE and int(stat[_STARTED]) == process.started
    except (OSError, ValueError, IndexError):
        return False


def is_stopped(process: ProcessIdentity, proc: Path = _PROC) -> bool | None:
    """Whether a signal or a debugger has stopped a process; None: that can't be known here."""
    try:
        return _stat(process.pid, proc)[_STATE] in _STOPPED if is_alive_here(process, proc) else None
    except (OSError, IndexError):
        return None


def _no_such_process(pid: int) -> bool:
    if pid <= 0:
        return False  # Such a number means a group of processes, and no Shunter process writes it.
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
    """Return the fields of `/proc/PID/stat` after the command, which may itself contain blanks and brackets."""
    return (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
