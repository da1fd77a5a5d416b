"""What is measured: memory, descriptors and threads of each process, znodes, and bytes of files; and the table of it."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from lab.soak.growth import Reading, Slope, growth_of
from lab.testbed.process_figures import resident_mib

LEAST_S = 300.0
"""A shorter series of a process is not judged."""
ZNODES_EVERY_S = 60.0
CONFIG_CHANGES = "/config/changes"
BOUNDS: Mapping[str, str] = {
    "journal": "the history: a few entries a step, and nothing deletes them",
    "service's folder": "kept: observations for 90 days, events for 400, 2,000 proposals, 5 audit logs of 10 MB",
    "write-ahead logs": "SQLite writes each back at 4 MB",
    "service's log": "standard error: whoever starts the service rotates it",
    "controllers' logs": "8 state-change logs of 64 MiB, 5 audit logs; standard error: whoever starts them rotates it",
    "znodes of config changes": "brokers delete these after 15 minutes",
}
"""Why a series may grow, and how far. The journal's bound is one of the work done, not of time."""


class Series(NamedTuple):
    """What is measured of whom. `life` counts a process's starts; 0: the series is no process's."""

    of: str
    life: int
    what: str


class Judged(NamedTuple):
    """A judged series."""

    series: Series
    minutes: float
    first: float
    last: float
    growth: Slope
    bound: str

    @property
    def holds(self) -> bool:
        """Whether it is flat, or may grow."""
        return not self.growth.grows or bool(self.bound)


class Gauges:
    """Reads all figures, and keeps them."""

    def __init__(
        self,
        processes: Callable[[], Mapping[str, int]],
        files: Mapping[str, Callable[[], Sequence[Path]]],
        zookeeper: str,
    ) -> None:
        """Describe what is measured.

        Args:
            processes: The process id of each process that lives, by name.
            files: Files and folders whose bytes are added up, by the name of the series.
            zookeeper: `HOST:PORT` of the server whose znodes are counted.
        """
        self._processes, self._files, self._zookeeper = processes, files, zookeeper
        self._began = time.monotonic()
        self._lives: dict[str, tuple[int, int]] = {}
        self._counted_s = -ZNODES_EVERY_S
        self.samples: dict[Series, list[Reading]] = {}

    def look(self) -> None:
        """Read everything once. What can't be read now (a process that just died) has no sample."""
        now = time.monotonic() - self._began
        for name, pid in self._processes().items():
            life, known = self._lives.get(name, (0, 0))
            if pid != known:
                self._lives[name] = (life + 1, pid)
            for what, value in _of_process(pid).items():
                self._keep(Series(name, self._lives[name][0], what), now, value)
        for name, paths in self._files.items():
            self._keep(Series("files", 0, name), now, sum(map(_bytes_of, paths())))
        if now - self._counted_s >= ZNODES_EVERY_S:
            self._counted_s = now
            for name, count in _znodes(self._zookeeper).items():
                self._keep(Series("ZooKeeper", 0, name), now, count)

    def _keep(self, series: Series, at_s: float, value: float) -> None:
        self.samples.setdefault(series, []).append(Reading(at_s, value))

    def judged(self) -> list[Judged]:
        """A row for each series that is long enough."""
        rows = []
        for series, samples in sorted(self.samples.items()):
            lasted_s = samples[-1].at_s - samples[0].at_s
            if series.life == 0 or lasted_s > LEAST_S:
                growth, bound = growth_of(samples), BOUNDS.get(series.what, "")
                rows.append(Judged(series, lasted_s / 60, samples[0].value, samples[-1].value, growth, bound))
        return rows

    def write(self, path: Path) -> None:
        """All samples as CSV."""
        with path.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(("seconds", "of", "life", "what", "value"))
            for series, samples in sorted(self.samples.items()):
                rows.writerows((f"{each.at_s:.1f}", *series, f"{each.value:g}") for each in samples)


def table_of(rows: Sequence[Judged]) -> str:
    """The table as text."""
    head = ("series", "minutes", "first", "last", "slope per hour", "error", "verdict")
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head) - 1)]
    return "\n".join(
        "  ".join([*(f"{cell:{width}}" for cell, width in zip(line, widths, strict=False)), line[-1]]) for line in lines
    )


def _cells(row: Judged) -> tuple[str, ...]:
    of, life, what = row.series
    name = f"{of} #{life}: {what}" if life else what
    figures = (row.first, row.last, row.growth.per_hour, row.growth.error)
    bound = f" ({row.bound})" if row.growth.grows and row.bound else ""
    return (name, f"{row.minutes:.1f}", *(f"{figure:,.5g}" for figure in figures), row.growth.verdict + bound)


def _of_process(pid: int) -> dict[str, float]:
    """Figures of a process; {}: it is gone."""
    try:
        descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
        memory = resident_mib(pid)
    except OSError:
        return {}
    return {"descriptors": descriptors, "memory, MiB": memory, "threads": threads} if memory else {}


def _bytes_of(path: Path) -> int:
    try:
        return sum(map(_bytes_of, path.iterdir())) if path.is_dir() else path.stat().st_size
    except OSError:  # Deleted meanwhile.
        return 0


def _znodes(connect: str) -> dict[str, int]:
    """How many znodes there are; {}: ZooKeeper does not answer."""
    client = KazooClient(connect, timeout=10)
    try:
        client.start(timeout=10)
        changes = _below(client, CONFIG_CHANGES)
        return {"znodes": _below(client, "/") - changes, "znodes of config changes": changes}
    except (KazooException, KazooTimeoutError):
        return {}
    finally:
        client.stop()
        client.close()


def _below(client: KazooClient, path: str) -> int:
    """Count a znode's children, and theirs."""
    try:
        names = client.get_children(path)
    except NoNodeError:
        return 0
    return sum(1 + _below(client, f"{path.rstrip('/')}/{name}") for name in names)
