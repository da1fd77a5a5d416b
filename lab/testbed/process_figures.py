"""Processor time and memory of a process, by the kernel (Linux)."""

from __future__ import annotations

import os
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """Seconds that a process has spent so far in user and system mode, all threads, to 10 ms.

    Raises:
        OSError: the process is gone.
    """
    stat = Path(f"/proc/{pid}/stat").read_text()
    # The second field is the command's name in parentheses, which may have blanks and parentheses of its own.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def forget_peak(pid: int) -> None:
    """Reset the peak of a process's resident memory, if that is permitted."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except PermissionError:
        return


def resident_mib(pid: int) -> float:
    """Resident memory of a process now, in MiB; 0 if it has ended.

    Raises:
        OSError: the process is gone.
    """
    return _status_mib(pid, "VmRSS:")


def peak_mib(pid: int) -> float:
    """Peak resident memory of a process since it began, or since `forget_peak`, in MiB; 0 if it has ended.

    Raises:
        OSError: the process is gone.
    """
    return _status_mib(pid, "VmHWM:")


def _status_mib(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    return 0.0
