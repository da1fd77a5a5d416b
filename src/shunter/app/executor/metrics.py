"""An executor's metrics: how its execution stands, for Prometheus, while `shunter executor --metrics-port` runs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from shunter.drivers.host.metrics_endpoint import MetricsEndpoint
from shunter.errors import DriverError
from shunter.views.execution import ExecutionView

Samples = Iterable[tuple[tuple[str, ...], float]]


class ExecutionRow(NamedTuple):
    """One metric: its name after `shunter_executor_`, its meaning, its samples by labels' values, and its labels."""

    name: str
    meaning: str
    samples: Callable[[ExecutionView], Samples]
    labels: tuple[str, ...] = ()


def _one(name: str, meaning: str, value: Callable[[ExecutionView], float | None]) -> ExecutionRow:
    """A metric with one figure; there is no sample while the figure is unknown."""
    return ExecutionRow(name, meaning, lambda view: [] if (told := value(view)) is None else [((), float(told))])


def _left(view: ExecutionView) -> Samples:
    told = {"middle": view.left_ms, "low": view.low_ms, "high": view.high_ms}
    return [((which,), left / 1000) for which, left in told.items() if left is not None]


ROWS = (
    _one("running", "1: an execution is open.", lambda view: view.running),
    ExecutionRow(
        "moves",
        "Moves of the execution by state: pending, moving, paused, or how they ended.",
        lambda view: [((state,), count) for state, count in sorted(view.counts.items())],
        ("state",),
    ),
    _one("stuck_moves", "Moves that can't end now.", lambda view: sum(bool(row.stuck) for row in view.moves)),
    _one("total_bytes", "Bytes that the execution copies in all.", lambda view: view.total_bytes),
    _one("copied_bytes", "Bytes of these that are copied.", lambda view: view.copied_bytes),
    _one("done_share", "How much is done, 0 to 1.", lambda view: view.share),
    _one("bytes_per_second", "Bytes per second that are copied; no sample: unknown.", lambda view: view.bytes_per_s),
    _one("throttle_bytes_per_second", "The throttle of a broker; no sample: there is none.", lambda view: view.limit),
    ExecutionRow("left_seconds", "Time left, and its interval of 80 %; no sample: unknown.", _left, ("bound",)),
    _one("rollback_bytes", "Bytes that a rollback of all that is open would copy.", lambda view: view.rollback_bytes),
    _one("brokers_down", "Brokers that the execution needs and that are down.", lambda view: len(view.brokers_down)),
    _one(
        "silent_seconds", "For how long the cluster has not answered; 0: it does.", lambda view: view.silent_ms / 1000
    ),
    _one("throttles_set", "Throttles that are set and not restored yet.", lambda view: view.throttles_left),
    _one("viewed_timestamp_seconds", "When these figures were made, since 1970 UTC.", lambda view: view.at_ms / 1000),
)
"""The metrics, in the order of the page."""


class ExecutionPage:
    """Renders the latest view; every sample has the cluster's id as `cluster_id`."""

    def __init__(self) -> None:
        """Begin without a view."""
        self._view: ExecutionView | None = None
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Families(lambda: self._view))

    def see(self, view: ExecutionView) -> None:
        """Take the latest view of the execution."""
        self._view = view

    def render(self) -> tuple[str, bytes]:
        """Return (content type, page)."""
        return CONTENT_TYPE_LATEST, generate_latest(self._registry)

    def ready(self) -> tuple[bool, tuple[str, ...]]:
        """Whether the journal was read and the cluster is driven, with a sentence about it."""
        if self._view is None:
            return False, ("the journal is being read",)
        return True, (f"drives cluster {self._view.cluster_id}",)


class _Families(Collector):
    def __init__(self, latest: Callable[[], ExecutionView | None]) -> None:
        self._latest = latest

    def collect(self) -> Iterator[Metric]:
        """Yield every family, from one view; none before the first view."""
        view = self._latest()
        if view is None:
            return
        for row in ROWS:
            name = f"shunter_executor_{row.name}"
            family = GaugeMetricFamily(name, row.meaning, labels=("cluster_id", *row.labels))
            for labels, value in row.samples(view):
                family.add_metric((view.cluster_id, *labels), value)
            yield family


@contextlib.asynccontextmanager
async def metrics_served(port: int) -> AsyncIterator[Callable[[ExecutionView], None]]:
    """Serve metrics on the loopback while the block runs; yields the function that takes each view.

    Raises:
        DriverError: the port is taken.
    """
    page = ExecutionPage()
    endpoint = MetricsEndpoint(page.render, page.ready)
    try:
        await endpoint.start(port)
    except OSError as error:
        raise DriverError(f"can't serve metrics on 127.0.0.1:{port}: {error.strerror}", retriable=False) from error
    try:
        yield page.see
    finally:
        await endpoint.close()
