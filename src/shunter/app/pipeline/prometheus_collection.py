"""`shunter pipeline collect-prometheus`: range queries in spans, written into files for `ingest`. It needs no Spark."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from shunter.app.access.private_files import replace_file
from shunter.drivers.service.prometheus_api import MOST_POINTS, PrometheusServer, query_range
from shunter.errors import SettingsError
from shunter.formats.metric_names import query_of

QUERY = query_of()
"""The metrics for `ingest --kind prometheus`: of topics and partitions, of brokers, and of processes that report them."""

_ANSWER = re.compile(r"prometheus-[0-9]+-(?P<end>[0-9]+)\.json")


@dataclass(frozen=True, slots=True)
class PrometheusSpan:
    """The points to ask for: times in seconds since 1970, lengths in seconds. `since` None: the folder's newest end."""

    until: int | None = None
    """None: now."""
    since: int | None = None
    step: int = 60
    span: int = 6 * 3_600
    query: str = QUERY


class AskedSpan(NamedTuple):
    """One answer: its file, its begin and end (seconds since 1970), its number of series, and the server's warnings."""

    path: Path
    start: int
    end: int
    series: int
    warnings: tuple[str, ...]


def collect_prometheus(server: PrometheusServer, folder: Path, asked: PrometheusSpan) -> Iterator[AskedSpan]:
    """Ask span by span; each file is written before the next span is asked for.

    Files overlap by one point, so that no increase between two of them is lost. A later run goes on after the newest
    file.

    Raises:
        DriverError: the server does not answer, or refuses.
        FormatError: a file or the folder can't be used.
        SettingsError: the times make no span.
    """
    if asked.step < 1 or asked.span < asked.step:
        raise SettingsError(f"a span of {asked.span} s is shorter than a step of {asked.step} s")
    start = _aligned(_newest_end(folder) if asked.since is None else asked.since, asked.step)
    until = _aligned(int(time.time()) if asked.until is None else asked.until, asked.step)
    most = min(asked.span // asked.step, MOST_POINTS - 1) * asked.step
    if asked.since is not None and start >= until:
        raise SettingsError("--since is not before --until: nothing lies between them")
    while start < until:
        end = min(start + most, until)
        found = query_range(server, asked.query, start, end, asked.step)
        path = folder / f"prometheus-{start}-{end}.json"
        replace_file(path, found.raw)
        yield AskedSpan(path, start, end, found.series, found.warnings)
        start = end


def _aligned(at: int, step: int) -> int:
    """The time on the grid of all spans. Grafana uses this grid too, so servers can answer from their caches."""
    return at - at % step


def _newest_end(folder: Path) -> int:
    # A person may have put another file beside the answers, such as a copy of one. Its name gives no time.
    answers = [_ANSWER.fullmatch(path.name) for path in folder.glob("prometheus-*-*.json")]
    ends = [int(answer["end"]) for answer in answers if answer is not None]
    if not ends:
        raise SettingsError(f"{folder} has no earlier answer to continue from: give --since")
    return max(ends)


__all__ = ["QUERY", "AskedSpan", "PrometheusServer", "PrometheusSpan", "collect_prometheus", "query_of"]
