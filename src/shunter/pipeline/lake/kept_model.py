"""The newest load model of one cluster, read from the lake without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shunter.model.load_model import LoadModel, PartitionRates, ProcessorModel
from shunter.pipeline.lake.kept_tables import KeptTable, in_utc

MODEL, PROCESSORS = "load_model", "processor_model"
PEAK, SHARE = "p95", 0.95
"""The statistic that plans of the pipeline carry by default, and its share of the time."""
_ROLES = ("leader", "unknown", "follower")
"""Rates of an earlier role count before those of a later one, because they are more exact (as in `fleet.fleet_rows`)."""
_RATES = (
    "topic_id",
    "partition",
    "role",
    "windows",
    "covered_seconds",
    "last_window",
    f"bytes_in_{PEAK}",
    f"bytes_out_{PEAK}",
)
_AMOUNTS = ("bytes_in", "bytes_out")
_COSTS = ("broker_id", "power", "idling", "received_cost", "led_cost", "sent_cost", "usable")
_MB = 1e6
_NOTHING = PartitionRates(None, None)


class KeptModels:
    """Reads the models of a lake, a model again only after it changed. Only one thread at a time per cluster."""

    def __init__(self, root: Path) -> None:
        """`root`: the lake's folder, as `shunter pipeline --root`."""
        self._root = root
        self._read: dict[str, tuple[object, LoadModel]] = {}

    def of(self, cluster_id: str) -> LoadModel:
        """The newest model of a cluster; an empty one where the lake has none.

        Raises:
            FormatError: the model can't be read.
        """
        tables = [KeptTable(self._root, name, cluster_id) for name in (MODEL, PROCESSORS)]
        stamp = [table.files for table in tables]
        known = self._read.get(cluster_id)
        if known is None or known[0] != stamp:
            known = (stamp, _read_model(*tables))
            self._read[cluster_id] = known
        return known[1]


def _read_model(model: KeptTable, processors: KeptTable) -> LoadModel:
    rows = model.rows(_RATES).to_pylist()
    shown: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        shown.setdefault((str(row["topic_id"]), int(row["partition"])), []).append(row)
    rates = {
        key: PartitionRates(*(_rate(known, f"{name}_{PEAK}") for name in _AMOUNTS)) for key, known in shown.items()
    }
    newest = [row["last_window"] for row in rows if row["windows"]]
    until_ms = round(in_utc(max(newest)).timestamp() * 1000) if newest else None
    usable = [row for row in processors.rows(_COSTS).to_pylist() if row["usable"]]
    return LoadModel({key: told for key, told in rates.items() if told != _NOTHING}, until_ms, _processors(usable))


def _rate(rows: Sequence[dict[str, Any]], name: str) -> float | None:
    by_role = (in_turns([row for row in rows if row["role"] == role], name) for role in _ROLES)
    return next((rate for rate in by_role if rate is not None), None)


def in_turns(rows: Sequence[dict[str, Any]], name: str) -> float | None:
    """One rate for replicas that took turns, weighted by how long each was measured; None if none has a rate (as in `fleet.fleet_rows`).

    It is the lowest of their rates that replicas with the statistic's share of all seconds don't exceed.
    """
    known = sorted((row[name], max(row["covered_seconds"] or 0, 1)) for row in rows if row[name] is not None)
    of_all, seen = sum(seconds for _, seconds in known), 0
    for rate, seconds in known:
        seen += seconds
        if seen >= of_all * SHARE:
            return float(rate)
    return None


def _processors(rows: Sequence[dict[str, Any]]) -> ProcessorModel | None:
    if not rows:
        return None
    shared = rows[0]  # Brokers of a cluster share their costs.
    received, led, sent = (float(shared[f"{name}_cost"]) / _MB for name in ("received", "led", "sent"))
    powers = {int(row["broker_id"]): float(row["power"]) for row in rows}
    return ProcessorModel(float(shared["idling"]), received, led, sent, powers)
