"""A what-if question in a Spark task: each cluster is answered in a process of its own. No Spark in here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from shunter.core.planning.moves import percent_of
from shunter.core.planning.request import PlanRequest
from shunter.core.planning.what_if import ClusterChange, answer, fewest_brokers
from shunter.pipeline.planning.fleet_worker import (
    ASSIGNMENT,
    PLANNED,
    UNDONE,
    assignments_of,
    cluster_load,
    clusters_of,
    told_of_bytes_out,
    within,
)

_TOLD = 20
"""At most so many partitions are named; all are counted."""

_FILL = pa.struct(
    [
        ("broker", pa.int32()), ("rack", pa.string()), ("resource", pa.string()), ("capacity", pa.float64()),
        ("before", pa.float64()), ("stood_in", pa.float64()), ("after", pa.float64()),
    ]
)  # fmt: skip
RESULT = pa.schema(
    [
        ("cluster_id", pa.string()), ("status", pa.string()), ("message", pa.string()), ("seconds", pa.float64()),
        ("fits", pa.bool_()), ("added", pa.list_(pa.int32())), ("lost", pa.list_(pa.int32())), ("unavailable", pa.int64()),
        ("below_min_isr", pa.int64()), ("examples", pa.list_(pa.string())), ("moves", pa.int64()), ("bytes_moved", pa.float64()),
        ("bytes_percent", pa.float64()), ("copy_seconds", pa.float64()), ("fills", pa.list_(_FILL)),
        ("assignments", pa.list_(ASSIGNMENT)), ("undone", pa.list_(UNDONE)),
    ]
)  # fmt: skip
RESULT_DDL = """
    cluster_id string, status string, message string, seconds double, fits boolean, added array<int>, lost array<int>,
    unavailable bigint, below_min_isr bigint, examples array<string>, moves bigint, bytes_moved double, bytes_percent double,
    copy_seconds double,
    fills array<struct<broker: int, rack: string, resource: string, capacity: double, before: double, stood_in: double, after: double>>,
    assignments array<struct<topic: string, partition: int, replicas: array<int>, original_replicas: array<int>, elect: boolean>>,
    undone array<struct<what: string, why: string>>
"""


@dataclass(frozen=True, slots=True)
class ChangeQuestion:
    """The question to each cluster. `rate`: copies of a broker each way (bytes/s); `seconds`: time for an answer."""

    change: ClusterChange = field(default_factory=ClusterChange)
    request: PlanRequest = field(default_factory=PlanRequest)
    fewest: bool = False
    """Find the fewest additional brokers that suffice, instead of taking those that the change names."""
    rate: float = 50e6
    seconds: float = 600.0


def answer_batches(batches: Iterable[pa.RecordBatch], asked: ChangeQuestion) -> Iterator[pa.RecordBatch]:
    """Answer the question for every cluster of a task; rows of one cluster must follow one another.

    Args:
        batches: Columns of `fleet.FLEET_ROWS`.
    """
    for cluster_id, table in clusters_of(batches):

        def work(name: str = cluster_id, rows: pa.Table = table) -> dict[str, Any]:
            return answer_cluster(name, rows, asked)

        yield pa.RecordBatch.from_pylist([within(cluster_id, RESULT, asked.seconds, work)], schema=RESULT)


def answer_cluster(cluster_id: str, table: pa.Table, asked: ChangeQuestion) -> dict[str, Any]:
    """Answer the question for one cluster, in this process.

    Raises:
        FormatError: the rows do not make up a cluster.
        PlanRefused: the question can't be answered for this cluster.
    """
    cluster = cluster_load(cluster_id, table)
    found = (fewest_brokers if asked.fewest else answer)(cluster, asked.change, asked.request)
    made, hit = found.plan, found.survival
    unavailable = () if hit is None else hit.unavailable
    below = () if hit is None else hit.below_min_isr
    return {
        "cluster_id": cluster_id,
        "status": PLANNED,
        "message": told_of_bytes_out(table),
        "fits": found.fits,
        "added": list(found.added),
        "lost": list(found.lost),
        "unavailable": len(unavailable),
        "below_min_isr": len(below),
        "examples": [*unavailable, *below][:_TOLD],
        "moves": len(made.moves),
        "bytes_moved": made.bytes_moved,
        "bytes_percent": percent_of(made.bytes_moved, made.total_bytes),
        "copy_seconds": found.least_seconds(asked.rate),
        "fills": [one._asdict() for one in found.fills()],
        "assignments": assignments_of(made, with_original=table["topic"].null_count > 0),
        "undone": [{"what": what, "why": why} for what, why in made.undone],
    }
