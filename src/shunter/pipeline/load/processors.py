"""How busy brokers' processors are: costs of a byte for each cluster, fitted to the brokers' own counters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from shunter.core.planning.processors import BrokerWindows, fit_processors
from shunter.pipeline.lake.outlook_schemas import PROCESSOR_MODEL
from shunter.pipeline.lake.schemas import SCHEMA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ERROR = 0.25
"""A model that misses the held-back windows by more than this part of their mean is not used by plans."""
_HELD_BACK_FROM = 0.75
"""The last quarter of a cluster's windows is held back."""
_MB = 1e6
_VALUES = ("one", "received", "led", "sent", "cpu")
_PARTS = ("fitted", "held_back")
_DDL = """
    cluster_id string, broker_id int, windows bigint, held_back_windows bigint, processors double, power double, fitted_powers boolean,
    idling double, received_cost double, led_cost double, sent_cost double, cpu_mean double, modelled_mean double,
    error double, cluster_error double, usable boolean
"""


class ToldProcessors(NamedTuple):
    """How well the model explains one cluster's processors. `error`: of held-back windows, divided by their mean."""

    cluster_id: str
    brokers: int
    error: float
    usable: bool


def processor_model(brokers: DataFrame) -> DataFrame:
    """Explain each broker's processors by what it receives, leads and sends.

    Grain: one row per broker of a cluster that has windows with processors and all four counters of bytes; columns of
    `processor_model`.

    Args:
        brokers: Columns of `broker_samples`.
    """

    def work(table: pa.Table) -> pa.Table:
        import pyarrow as pa  # noqa: PLC0415  on the executor

        return pa.Table.from_pylist(list(_explained(table.to_pylist())), schema=_schema())

    # Least squares with bounds: scipy, on a few rows a cluster.
    found = _products(brokers).groupBy("cluster_id").applyInArrow(work, _DDL)
    return found.withColumn("schema_version", F.lit(SCHEMA_VERSION)).select(*PROCESSOR_MODEL.columns)


def told_processors(model: DataFrame) -> tuple[ToldProcessors, ...]:
    """Sum the model up by cluster; a small result."""
    summed = model.groupBy("cluster_id").agg(
        F.count("*").alias("brokers"), F.max("cluster_error").alias("error"), F.min("usable").alias("usable")
    )
    return tuple(ToldProcessors(*row) for row in summed.orderBy("cluster_id").collect())


def _products(brokers: DataFrame) -> DataFrame:
    """Sums of products of (1, received, led, sent, cpu), of earlier and later windows. Grain: one row per broker."""
    start = F.unix_seconds("window_start")
    megabytes = {name: F.col(f"{name}_rate") / _MB for name in ("bytes_in", "bytes_out")}
    copied = {name: F.col(f"replication_{name}_rate") / _MB for name in ("bytes_in", "bytes_out")}
    values = brokers.select(
        "cluster_id", "broker_id", start.alias("start"), "processors",
        F.lit(1.0).alias("one"),
        (megabytes["bytes_in"] + copied["bytes_in"]).alias("received"),
        megabytes["bytes_in"].alias("led"),
        (megabytes["bytes_out"] + copied["bytes_out"]).alias("sent"),
        "cpu",
    ).dropna(subset=list(_VALUES))  # fmt: skip
    cut = values.groupBy("cluster_id").agg(F.percentile("start", _HELD_BACK_FROM).alias("cut"))
    with_cut = values.join(F.broadcast(cut), on="cluster_id", how="inner")
    is_later = F.col("start") > F.col("cut")
    parts = {"fitted": ~is_later, "held_back": is_later}
    sums = [
        F.coalesce(F.sum(F.when(parts[part], F.col(one) * F.col(other))), F.lit(0.0)).alias(f"{part}_{at}_{to}")
        for part in _PARTS
        for at, one in enumerate(_VALUES)
        for to, other in enumerate(_VALUES)
        if at <= to
    ]
    newest: Column = F.max_by("processors", F.when(F.col("processors").isNotNull(), F.col("start")))
    return with_cut.groupBy("cluster_id", "broker_id").agg(newest.alias("processors"), *sums)


def _explained(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    rows = sorted(rows, key=lambda row: row["broker_id"])
    windows = [
        BrokerWindows(row["broker_id"], _matrix(row, "fitted"), _matrix(row, "held_back"), row["processors"])
        for row in rows
    ]
    fit = fit_processors(windows)
    if fit is None:
        return
    costs = np.array([fit.idling, fit.received, fit.led, fit.sent])
    usable = fit.relative_error <= MOST_ERROR and bool((costs[1:] > 0).any())
    for row, one, power in zip(rows, windows, fit.powers, strict=True):
        both, later = one.fitted + one.held_back, one.held_back
        miss = np.append(costs / power, -1.0)
        error = float(np.sqrt(max(float(miss @ later @ miss), 0.0) / later[0, 0])) if later[0, 0] else None
        yield {
            "cluster_id": row["cluster_id"], "broker_id": one.broker, "windows": int(one.fitted[0, 0]),
            "held_back_windows": int(later[0, 0]), "processors": one.processors, "power": power, "fitted_powers": fit.fitted_powers,
            "idling": fit.idling, "received_cost": fit.received, "led_cost": fit.led, "sent_cost": fit.sent,
            "cpu_mean": float(both[0, 4] / both[0, 0]), "modelled_mean": float(both[0, :4] @ costs / power / both[0, 0]),
            "error": error, "cluster_error": fit.relative_error, "usable": usable,
        }  # fmt: skip


def _matrix(row: dict[str, Any], part: str) -> Any:
    size = len(_VALUES)
    return np.array([[row[f"{part}_{min(at, to)}_{max(at, to)}"] for to in range(size)] for at in range(size)])


def _schema() -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415  on the executor

    kinds = {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
    }
    return pa.schema([(name, kinds[kind]) for name, kind in (field.split() for field in _DDL.split(","))])
