"""Processor time and memory of a process, by the kernel (Linux)."""

from __future__ import annotations

import os
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, all threads, to 10 ms."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    fields = stat[stat.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def forget_peak(pid: int) -> None:
    """Reset the peak of a process's resident memory, if that is permitted."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except PermissionError:
        return


def peak_mib(pid: int) -> float:
    """Peak resident memory of a process since it began, or since `forget_peak`."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0
