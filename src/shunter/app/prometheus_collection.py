"""`shunter pipeline collect-prometheus`: range queries in spans, written into files for `ingest`. Needs no Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from shunter.app.private_files import replace_file
from shunter.drivers.prometheus_api import MOST_POINTS, PrometheusServer, query_range
from shunter.errors import SettingsError

QUERY = (
    '{__name__=~"kafka_server_brokertopicmetrics_(bytesin|bytesout|messagesin)_total|kafka_log_log_(size|logendoffset)'
    '|kafka_cluster_partition_insyncreplicascount",topic!=""}'
    ' or ({__name__=~"kafka_server_brokertopicmetrics_(bytesin|bytesout|messagesin|replicationbytesin|replicationbytesout)_total'
    '|(?i:java_lang_operatingsystem_(processcpuload|availableprocessors))|process_cpu_seconds_total",topic=""}'
    " and on (instance) kafka_server_brokertopicmetrics_bytesin_total)"
)
"""What `ingest --kind prometheus` reads, by the names that the JMX exporter's usual rules give: of topics and partitions, of brokers,
and of the processes that tell of brokers. Machines' processors are left out: a Prometheus may know ten thousand machines. (`or` passes over
what has the labels of something on its left, whatever its name: series without a topic stand in one selector.)"""


@dataclass(frozen=True, slots=True)
class PrometheusSpan:
    """Which points are asked for: seconds since 1970 and seconds. `since` None goes on where the folder's newest file ends."""

    until: int | None = None
    """None: now."""
    since: int | None = None
    step: int = 60
    span: int = 6 * 3_600
    query: str = QUERY


class AskedSpan(NamedTuple):
    """One answer: its file, from when to when, how many series, and what the server says against it."""

    path: Path
    start: int
    end: int
    series: int
    warnings: tuple[str, ...]


def collect_prometheus(server: PrometheusServer, folder: Path, asked: PrometheusSpan) -> Iterator[AskedSpan]:
    """Ask span by span, each file written whole before the next one is asked for.

    Files overlap by one point, so that no increase between two of them is lost. Run again it goes on behind the newest file.

    Raises:
        DriverError: the server does not answer, or refuses.
        FormatError: a file or the folder can't be used.
        SettingsError: times that make no span.
    """
    if asked.step < 1 or asked.span < asked.step:
        raise SettingsError(f"a span of {asked.span} s holds no step of {asked.step} s")
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
    """Points of all spans lie on one grid, as Grafana's do: then servers answer them from their caches, too."""
    return at - at % step


def _newest_end(folder: Path) -> int:
    ends = [path.stem.rpartition("-")[2] for path in folder.glob("prometheus-*-*.json")]
    if not ends or not all(end.isdigit() for end in ends):
        raise SettingsError(f"{folder} holds no earlier answer to go on from: give --since")
    return max(int(end) for end in ends)


__all__ = ["QUERY", "AskedSpan", "PrometheusServer", "PrometheusSpan", "collect_prometheus"]
