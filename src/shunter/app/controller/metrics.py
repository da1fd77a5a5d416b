"""A controller's metrics for Prometheus, read from its parts at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from shunter.app.controller.kafka_metrics import KAFKA_ROWS
from shunter.app.controller.metric_rows import ROWS, ControllerParts


class PrometheusPage:
    """Renders the metrics of the parts that `parts` returns, which are read once a page."""

    def __init__(self, parts: Callable[[], ControllerParts]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Families(parts))

    def render(self) -> tuple[str, bytes]:
        """Return (content type, page)."""
        return CONTENT_TYPE_LATEST, generate_latest(self._registry)


class _Families(Collector):
    def __init__(self, parts: Callable[[], ControllerParts]) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Metric]:
        """Yield every family, from one look."""
        parts = self._parts()
        for row in (*ROWS, *KAFKA_ROWS):
            yield row.family(parts)
