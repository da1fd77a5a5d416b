"""Plans the clusters of one Spark task, each in a process of its own, within a time limit.

No Spark in here: batches of Arrow in, batches of Arrow out. If a cluster is slow, broken or too big for memory, its process
ends, its row says so, and the task goes on with the next one.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from shunter.core.planning.balance import plan
from shunter.core.planning.bounds import byte_bound, joint_bound
from shunter.core.planning.cluster import (
    ABSENT,
    UNKNOWN,
    UNKNOWN_OUT_AT_MOST,
    ClusterLoad,
    ProcessorCosts,
    known_bytes_out,
    without_bytes_out,
)
from shunter.core.planning.explain import broker_changes, move_reasons, summarise
from shunter.core.planning.moves import BalancedPlan
from shunter.core.planning.request import BALANCING, PlanRequest
from shunter.core.wording import counted
from shunter.errors import FormatError, ShunterError
from shunter.formats.broker_facts import facts_row, read_facts
from shunter.model.inventory import NOTHING_KNOWN, BrokerFacts, unknown_rack
from shunter.pipeline.ingest.runs import runs_of

PLANNED, FAILED, TIMED_OUT = "planned", "failed", "timed_out"
_NO_RACKS = "no broker has a rack: all are taken for one, and a partition's replicas may end in one place"

_MOVE = pa.struct(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("source", pa.int32()), ("target", pa.int32()),
        ("bytes", pa.float64()), ("reason", pa.string()),
    ]
)  # fmt: skip
ASSIGNMENT = pa.struct(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("replicas", pa.list_(pa.int32())),
        ("original_replicas", pa.list_(pa.int32())), ("elect", pa.bool_()),
    ]
)  # fmt: skip
_LOAD = pa.struct(
    [
        ("broker", pa.int32()),
        ("rack", pa.string()),
        ("resource", pa.string()),
        ("before", pa.float64()),
        ("after", pa.float64()),
    ]
)
UNDONE = pa.struct([("what", pa.string()), ("why", pa.string())])
RESULT = pa.schema(
    [
        ("cluster_id", pa.string()), ("status", pa.string()), ("message", pa.string()), ("seconds", pa.float64()),
        ("partitions", pa.int64()), ("bytes_moved", pa.float64()), ("bytes_percent", pa.float64()),
        ("bound_percent", pa.float64()), ("joint_bound_percent", pa.float64()), ("leader_changes", pa.int64()), ("moves", pa.list_(_MOVE)),
        ("assignments", pa.list_(ASSIGNMENT)), ("loads", pa.list_(_LOAD)), ("undone", pa.list_(UNDONE)),
    ]
)  # fmt: skip
"""One row per cluster. `RESULT_DDL` has the same columns in Spark's notation."""

RESULT_DDL = """
    cluster_id string, status string, message string, seconds double, partitions bigint, bytes_moved double,
    bytes_percent double, bound_percent double, joint_bound_percent double, leader_changes bigint,
    moves array<struct<topic: string, partition: int, source: int, target: int, bytes: double, reason: string>>,
    assignments array<struct<topic: string, partition: int, replicas: array<int>, original_replicas: array<int>, elect: boolean>>,
    loads array<struct<broker: int, rack: string, resource: string, before: double, after: double>>,
    undone array<struct<what: string, why: string>>
"""


@dataclass(frozen=True, slots=True)
class ClusterLimit:
    """Limits of planning one cluster. `joint_bound` adds a bound that takes seconds for a hundred brokers."""

    seconds: float = 600.0
    joint_bound: bool = False


def plan_batches(
    batches: Iterable[pa.RecordBatch], request: PlanRequest, limit: ClusterLimit
) -> Iterator[pa.RecordBatch]:
    """Plan every cluster of a task; rows of one cluster must follow one another.

    Args:
        batches: Columns of `fleet.FLEET_ROWS`: a row per partition, and a row per broker whose `topic` is null.
    """
    for cluster_id, table in clusters_of(batches):
        yield pa.RecordBatch.from_pylist([plan_within(cluster_id, table, request, limit)], schema=RESULT)


def plan_within(cluster_id: str, table: pa.Table, request: PlanRequest, limit: ClusterLimit) -> dict[str, Any]:
    """Plan one cluster in a child process. If the child fails, the row says why."""
    return within(
        cluster_id, RESULT, limit.seconds, lambda: plan_cluster(cluster_id, table, request, limit.joint_bound)
    )


def within(cluster_id: str, schema: pa.Schema, seconds: float, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Do one cluster's work in a child process, within a time. If the child fails, the row says why.

    Args:
        schema: Of the row; it has cluster_id, status, message and seconds.
        work: Returns the row; `seconds` is added.
    """
    # A fork shares the table's memory instead of copying it. The child touches numpy alone and starts no thread.
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(theirs, work), daemon=True)
    empty: dict[str, Any] = dict.fromkeys(schema.names) | {"cluster_id": cluster_id}
    began = time.monotonic()
    child.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            told = {"status": TIMED_OUT, "message": f"no plan within {seconds:g} s"}
            return {**empty, **told, "seconds": time.monotonic() - began}
        status, found = ours.recv()
    except EOFError:
        child.join()
        told = {"status": FAILED, "message": f"the planner's process ended with {child.exitcode} (out of memory?)"}
        return {**empty, **told, "seconds": time.monotonic() - began}
    finally:
        if child.is_alive():
            child.kill()
        child.join()
        ours.close()
    took = {"seconds": time.monotonic() - began}
    return {**empty, "status": status, "message": found, **took} if status == FAILED else {**found, **took}


def plan_cluster(cluster_id: str, table: pa.Table, request: PlanRequest, joint: bool = False) -> dict[str, Any]:
    """Plan one cluster in this process.

    Raises:
        FormatError: the rows do not make up a cluster, as only some brokers have a rack.
        PlanRefused: the request can't be served on this cluster.
    """
    cluster = cluster_load(cluster_id, table)
    snapshot = table["topic"].null_count > 0
    made = plan(cluster, request)
    jointly = joint_bound(made.cluster, made.targets) if joint and request.scope in BALANCING else None
    summary = summarise(made, byte_bound(made.cluster, made.request, made.targets), jointly)
    reachable = summary.joint_percent is not None and np.isfinite(summary.joint_percent)
    no_racks = _NO_RACKS if cluster.racks == ("",) and len(cluster.brokers) > 1 else None
    return {
        "cluster_id": cluster_id,
        "status": PLANNED,
        "message": "; ".join(filter(None, (no_racks, told_of_bytes_out(table), *made.notes))) or None,
        "partitions": len(cluster.sizes),
        "bytes_moved": summary.bytes_moved,
        "bytes_percent": summary.bytes_percent,
        "bound_percent": summary.bound_percent,
        "joint_bound_percent": summary.joint_percent if reachable else None,
        "leader_changes": summary.leader_changes,
        "moves": _moves(made),
        "assignments": assignments_of(made, with_original=snapshot),
        "loads": [
            {"broker": change.broker, "rack": change.rack, "resource": name, "before": before, "after": after}
            for change in broker_changes(made)
            for name, before, after in change.loads
        ],
        "undone": [{"what": what, "why": why} for what, why in summary.undone],
    }


def assignments_of(made: BalancedPlan, *, with_original: bool) -> list[dict[str, Any]]:
    """The partitions that a plan changes, as rows of `plan_assignments`.

    Args:
        with_original: Add the replicas before the plan. Only a snapshot has their order; samples show only which
            brokers held one.
    """
    elected = made.elections()
    return [
        {
            "topic": topic,
            "partition": number,
            "replicas": replicas,
            "original_replicas": original if with_original else None,
            "elect": (topic, number) in elected,
        }
        for topic, number, replicas, original in made.assignments()
    ]


def cluster_load(cluster_id: str, table: pa.Table) -> ClusterLoad:
    """Bring a cluster's rows into the planner's arrays; all columns at once, no loop over partitions.

    Args:
        cluster_id: The cluster's name in errors.
        table: Its rows, as `plan_batches` gets them. A broker that holds a replica and has no row is dead.

    Raises:
        FormatError: names the cluster and the broker or partition that does not fit.
    """
    is_broker = pc.is_null(table["topic"])
    broker_rows, rows = table.filter(is_broker).sort_by("number"), table.filter(pc.invert(is_broker))
    # The planner takes equal partitions in the order in which they come, and Spark's rows come in any order.
    rows = rows.sort_by([("topic", "ascending"), ("number", "ascending")])
    if rows.num_rows == 0:
        raise FormatError(f"cluster {cluster_id}", "has no partitions in its model or snapshot")
    lists = rows["replicas"].combine_chunks()
    flat = lists.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    broker_rows = _that_count(broker_rows, flat)
    known = broker_rows["number"].to_numpy().astype(np.int64)
    if len(known) == 0:
        known = np.unique(flat)
    elif dead := np.setdiff1d(flat, known).tolist():
        broker_rows = _with_dead(broker_rows, dead)
        known = broker_rows["number"].to_numpy().astype(np.int64)
    _check_replicas(cluster_id, rows, flat, lengths)
    names = rows["topic"].combine_chunks().dictionary_encode()  # In the order of the rows, which is the names' own.
    racks, rack_of = _racks(cluster_id, broker_rows, known)
    return ClusterLoad(
        brokers=tuple(int(broker) for broker in known),
        racks=racks,
        rack_of=rack_of,
        topics=tuple(names.dictionary.to_pylist()),
        topic_of=names.indices.to_numpy(zero_copy_only=False).astype(np.int32),
        numbers=rows["number"].to_numpy().astype(np.int32),
        replicas=_matrix(np.searchsorted(known, flat).astype(np.int32), lengths),
        sizes=_floats(rows, "size"),
        bytes_in=_optional(rows, "bytes_in"),
        bytes_out=known_bytes_out(*_rates(rows)),
        min_isr=pc.fill_null(rows["min_insync"], 1).to_numpy().astype(np.int32),
        disk_capacity=_capacity(broker_rows["size"]),
        bytes_in_capacity=_capacity(broker_rows["bytes_in"]),
        bytes_out_capacity=_capacity(broker_rows["bytes_out"]),
        processor_costs=_costs(broker_rows["costs"]),
        processor_capacity=_capacity(broker_rows["processors"]),
        facts=_facts(cluster_id, broker_rows),
        isr=_known_brokers(rows["isr"], known),
        offline=_known_brokers(rows["offline"], known),
        leader=_leaders(rows["leader"], known),
    )


def told_of_bytes_out(table: pa.Table) -> str | None:
    """How a plan treats partitions with bytes in but no bytes out; None: there are none, or no bytes out are known.

    Args:
        table: A cluster's rows, as `plan_batches` gets them.
    """
    rows = table.filter(pc.is_valid(table["topic"]))
    if rows["bytes_out"].null_count == rows.num_rows:
        return None  # No source counts consumers (snapshots don't), so nobody expects that aim.
    count, share = without_bytes_out(*_rates(rows))
    if not count:
        return None
    whose = f"bytes out of {counted(count, 'partition')}, with {share:.0%} of the bytes in, are unknown"
    if share <= UNKNOWN_OUT_AT_MOST:
        return f"{whose} and counted as 0"
    return f"{whose}: they are neither an aim nor bound by a capacity. Which brokers or topics did not tell them?"


def _rates(rows: pa.Table) -> tuple[Any, Any]:
    """Bytes in and out, NaN if not known."""
    came, went = (pc.fill_null(rows[name], float("nan")).to_numpy() for name in ("bytes_in", "bytes_out"))
    return came, went


def _child(pipe: Connection, work: Callable[[], dict[str, Any]]) -> None:
    try:
        pipe.send((PLANNED, work()))
    except ShunterError as error:
        pipe.send((FAILED, str(error)))
    # An error that a cluster's rows cause in numpy must become the row of this cluster alone.
    except Exception as error:  # noqa: BLE001
        pipe.send((FAILED, f"planning broke down: {error!r}"))
    finally:
        pipe.close()


def clusters_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
    """Cut a task's rows into clusters; those of one cluster follow one another."""
    for name, held in runs_of(batches, "cluster_id"):
        yield str(name), pa.Table.from_batches(held)


def _that_count(broker_rows: pa.Table, held: Any) -> pa.Table:
    """Without rows of brokers that are not live and hold nothing: no plan has to do with them."""
    told = zip(broker_rows["number"].to_pylist(), broker_rows["facts"].to_pylist(), strict=True)
    holders = set(held.tolist())
    counts = [number in holders or not facts or orjson.loads(facts).get("live") is not False for number, facts in told]
    return broker_rows.filter(pa.array(counts, pa.bool_()))


def _with_dead(broker_rows: pa.Table, dead: Sequence[int]) -> pa.Table:
    """Add rows of brokers that hold replicas and are not live; in a rack of their own, where there are racks."""
    rackless = broker_rows["rack"].null_count == broker_rows.num_rows
    facts = orjson.dumps(facts_row(BrokerFacts(live=False))).decode()
    added = [{"number": each, "rack": None if rackless else unknown_rack(each), "facts": facts} for each in dead]
    return pa.concat_tables([broker_rows, pa.Table.from_pylist(added, schema=broker_rows.schema)]).sort_by("number")


def _facts(cluster_id: str, broker_rows: pa.Table) -> tuple[BrokerFacts, ...]:
    """What is known of each broker; () if nothing is known of any. Log dirs are in bytes, as sizes are."""
    told = broker_rows["facts"].to_pylist()
    if not any(told):
        return ()
    return tuple(
        read_facts(orjson.loads(each), f"cluster {cluster_id}: broker {number}") if each else NOTHING_KNOWN
        for number, each in zip(broker_rows["number"].to_pylist(), told, strict=True)
    )


def _known_brokers(column: pa.ChunkedArray, known: Any) -> Any:
    """(P, V) indexes of the brokers in each row's list, padded by ABSENT; UNKNOWN first where a row has none."""
    if column.null_count == len(column):
        return None
    lists = column.combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = lists.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    table = np.full((len(lengths), max(1, int(lengths.max(initial=0)))), ABSENT, dtype=np.int32)
    table[np.arange(table.shape[1]) < lengths[:, None]] = np.searchsorted(known, flat)
    table[lists.is_null().to_numpy(zero_copy_only=False), 0] = UNKNOWN
    return table


def _leaders(column: pa.ChunkedArray, known: Any) -> Any:
    if column.null_count == len(column):
        return None
    ids = pc.fill_null(column, UNKNOWN).to_numpy().astype(np.int64)
    return np.where(ids < 0, ids, np.searchsorted(known, ids)).astype(np.int32)


def _check_replicas(cluster_id: str, rows: pa.Table, flat: Any, lengths: Any) -> None:
    if (lengths == 0).any():
        at = int(np.argmin(lengths))
        where = f"{rows['topic'][at].as_py()}-{rows['number'][at].as_py()}"
        raise FormatError(f"cluster {cluster_id}, {where}", "has no replicas")
    row_of = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((flat, row_of))
    repeated = (np.diff(row_of[order]) == 0) & (np.diff(flat[order]) == 0)
    if repeated.any():
        first = order[int(np.argmax(repeated))]
        at, broker = int(row_of[first]), int(flat[first])
        name = f"{rows['topic'][at].as_py()}-{rows['number'][at].as_py()}"
        raise FormatError(
            f"cluster {cluster_id}", f"replicas {rows['replicas'][at].as_py()} for {name} repeat broker {broker}"
        )


def _racks(cluster_id: str, broker_rows: pa.Table, known: Any) -> tuple[tuple[str, ...], Any]:
    given = broker_rows["rack"].to_pylist() or [None] * len(known)
    without = [int(broker) for broker, rack in zip(known, given, strict=True) if rack is None]
    if without and len(without) < len(given):
        raise FormatError(
            f"cluster {cluster_id}", f"broker {without[0]} has no rack and others have: set broker.rack on all"
        )
    names = sorted({rack or "" for rack in given})
    index = {name: at for at, name in enumerate(names)}
    return tuple(names), np.array([index[rack or ""] for rack in given], dtype=np.int32)


def _matrix(flat: Any, lengths: Any) -> Any:
    matrix = np.full((len(lengths), int(lengths.max())), ABSENT, dtype=np.int32)
    matrix[np.arange(matrix.shape[1])[None, :] < lengths[:, None]] = flat
    return matrix


def _floats(rows: pa.Table, name: str) -> Any:
    return np.maximum(pc.fill_null(rows[name].cast(pa.float64()), 0.0).to_numpy(), 0.0)


def _optional(rows: pa.Table, name: str) -> Any:
    return None if rows[name].null_count == rows.num_rows else _floats(rows, name)


def _capacity(column: pa.ChunkedArray) -> Any:
    if len(column) == column.null_count:
        return None
    return pc.fill_null(column.cast(pa.float64()), float("inf")).to_numpy()


def _costs(column: pa.ChunkedArray) -> ProcessorCosts | None:
    told = next((costs for costs in column.to_pylist() if costs is not None), None)
    return None if told is None else ProcessorCosts(*told)


def _moves(made: BalancedPlan) -> list[dict[str, Any]]:
    moves: list[dict[str, Any]] = []
    for move in move_reasons(made):
        topic, _, number = move.partition.rpartition("-")
        moves.append(
            {
                "topic": topic, "partition": int(number), "source": move.source, "target": move.target,
                "bytes": move.size, "reason": move.reason,
            }
        )  # fmt: skip
    return moves
