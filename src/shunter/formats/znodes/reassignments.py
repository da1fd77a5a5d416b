"""Shunter's own znodes: the durable record of each move, and the replicas that dead brokers still have to delete.

`/admin/reassignments/$topic/$partition` is KIP-236's path. Its `top` and `legacy` are KIP-236's, its other fields
Shunter's. Apache's brokers do not know these znodes and leave them alone.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeVar
from uuid import UUID

from shunter.errors import FormatError
from shunter.formats.znodes.text import (
    INT64,
    Document,
    SharedReplicas,
    read_document,
    read_flag,
    read_integer,
    read_object,
    read_objects,
    read_replicas,
    read_text,
    read_topic_id,
    read_topic_partition,
    read_version,
    topic_id_text,
    write_document,
)
from shunter.model.partition import EPOCH_DURING_DELETE, ReplicaAssignment, Replicas, TopicPartition
from shunter.model.reassignment import Phase, Reassignment, Strategy
from shunter.model.snapshot import OwedDeletions, OwedReplicas

_STRATEGIES = {"incremental": Strategy.INCREMENTAL, "all-at-once": Strategy.ALL_AT_ONCE}
_STRATEGY_NAMES = {strategy: name for name, strategy in _STRATEGIES.items()}
_PHASES = {phase.value: phase for phase in Phase}
_Named = TypeVar("_Named", bound=Enum)


def decode_reassignment(place: str, data: bytes | None, *, version: int, czxid: int) -> Reassignment:
    """Read a move's durable record.

    Args:
        place: The znode's path.
        data: What the znode holds.
        version: The znode's version.
        czxid: The znode's creation: the move's identity (KIP-236).

    Raises:
        FormatError: it can't be read.
    """
    document = read_document(data, place)
    read_version(document, place, (1,))
    shared: SharedReplicas = {}
    relaxed = document.get("relaxed_since_ms")
    return Reassignment(
        topic_id=read_topic_id(document.get("topic_id"), place),
        original=read_replicas(document.get("original"), "original", place, shared),
        target=read_replicas(document.get("target"), "target", place, shared),
        strategy=_named(document, "strategy", _STRATEGIES, place),
        phase=_named(document, "phase", _PHASES, place),
        written=_assignment(read_object(document, "written", place), place, shared),
        accepted_at_ms=read_integer(document, "accepted_at_ms", place, high=INT64),
        top=read_integer(document, "top", place),
        legacy=read_flag(document, "legacy", place),
        forced=read_flag(document, "forced", place),
        relaxed_since_ms=None if relaxed is None else read_integer(document, "relaxed_since_ms", place, high=INT64),
        version=version,
        czxid=czxid,
        requested=read_flag(document, "requested", place),
        changes=read_integer(document, "changes", place) if "changes" in document else 0,
    )


def encode_reassignment(reassignment: Reassignment) -> bytes:
    """Print a move's durable record; the znode's version and czxid are not part of it."""
    written = reassignment.written
    document: Document = {
        "version": 1,
        "original": reassignment.original,
        "target": reassignment.target,
        "strategy": _STRATEGY_NAMES[reassignment.strategy],
        "phase": reassignment.phase.value,
        "written": {"replicas": written.replicas, "adding": written.adding, "removing": written.removing},
        "accepted_at_ms": reassignment.accepted_at_ms,
        "top": reassignment.top,
        "legacy": reassignment.legacy,
        "forced": reassignment.forced,
    }
    if reassignment.requested:
        document["requested"] = True
    if reassignment.changes:
        document["changes"] = reassignment.changes
    if reassignment.topic_id is not None:
        document["topic_id"] = topic_id_text(reassignment.topic_id)
    if reassignment.relaxed_since_ms is not None:
        document["relaxed_since_ms"] = reassignment.relaxed_since_ms
    return write_document(document)


def decode_owed_deletions(place: str, data: bytes | None, version: int) -> OwedDeletions:
    """Read the replicas that a broker still has to delete: (partition, leader epoch at which it was dropped)."""
    document = read_document(data, place)
    read_version(document, place, (1,))
    owed = tuple(
        (read_topic_partition(entry, place), read_integer(entry, "leader_epoch", place, low=EPOCH_DURING_DELETE))
        for entry in read_objects(document, "partitions", place)
    )
    return OwedDeletions(owed, version)


def encode_owed_deletions(partitions: tuple[tuple[TopicPartition, int], ...]) -> bytes:
    """Print the replicas that a broker still has to delete."""
    entries = [{"topic": tp.topic, "partition": tp.partition, "leader_epoch": epoch} for tp, epoch in partitions]
    return write_document({"version": 1, "partitions": entries})


def decode_owed_replicas(place: str, data: bytes | None, version: int) -> OwedReplicas:
    """Read the replicas that a topic's partitions lack: (partition, number asked for, replicas that it got)."""
    document = read_document(data, place)
    read_version(document, place, (1,))
    shared: SharedReplicas = {}
    owed = tuple(
        sorted(
            (
                read_integer(entry, "partition", place),
                read_integer(entry, "wanted", place, low=1, high=32767),
                read_replicas(entry.get("replicas"), "replicas", place, shared),
            )
            for entry in read_objects(document, "partitions", place)
        )
    )
    return OwedReplicas(read_topic_id(document.get("topic_id"), place), owed, version)


def encode_owed_replicas(topic_id: UUID | None, partitions: tuple[tuple[int, int, Replicas], ...]) -> bytes:
    """Print the replicas that a topic's partitions lack."""
    entries = [{"partition": number, "wanted": wanted, "replicas": replicas} for number, wanted, replicas in partitions]
    document: Document = {"version": 1, "partitions": entries}
    if topic_id is not None:
        document["topic_id"] = topic_id_text(topic_id)
    return write_document(document)


def _assignment(document: Document, place: str, shared: SharedReplicas) -> ReplicaAssignment:
    replicas, adding, removing = (
        read_replicas(document.get(field), f"written {field}", place, shared)
        for field in ("replicas", "adding", "removing")
    )
    return ReplicaAssignment(replicas, adding, removing)


def _named(document: Document, field: str, known: dict[str, _Named], place: str) -> _Named:
    name = read_text(document, field, place)
    if name not in known:
        raise FormatError(place, f"{field} {name!r} is not one of {', '.join(known)}")
    return known[name]
