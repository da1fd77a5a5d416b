"""Znodes by which tools and brokers inform the controller: queues, announcements, producer ids.

Source: Apache Kafka 3.9, `ReassignPartitionsZNode`, `PreferredReplicaElectionZNode`, `IsrChangeNotificationSequenceZNode`,
`LogDirEventNotificationSequenceZNode`, `ProducerIdBlockZNode`; KIP-236 for `original_replicas`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shunter.errors import FormatError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.text import (
    INT32,
    INT64,
    Document,
    read_document,
    read_integer,
    read_objects,
    read_replicas,
    read_text,
    read_topic_partition,
    read_version,
    write_document,
)
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.snapshot import LegacyReassignments


class ProducerIdBlock(NamedTuple):
    """The block of producer ids that was claimed last, from `first` up to and including `last`, and its broker."""

    broker: BrokerId
    first: int
    last: int


def decode_legacy_reassignments(
    data: bytes | None, version: int, place: str = znodes.LEGACY_REASSIGNMENTS
) -> LegacyReassignments:
    """Read `/admin/reassign_partitions`; of a partition that is named twice the last entry counts, as in Apache.

    `original_replicas` is read if a tool wrote it. A missing version counts as 1, because people write this znode by
    hand and Apache does not check the version. Targets may repeat brokers or name ids below 0: the core refuses these
    one by one.
    """
    document = read_document(data, place)
    read_version(document, place, (1,), absent=1)
    targets: dict[TopicPartition, Replicas] = {}
    originals: dict[TopicPartition, Replicas] = {}
    for entry in read_objects(document, "partitions", place):
        tp = read_topic_partition(entry, place)
        what, low = f"replicas of {tp}", -INT32 - 1
        targets[tp] = read_replicas(entry.get("replicas"), what, place, {}, low=low, repeats=True)
        if entry.get("original_replicas") is not None:
            originals[tp] = read_replicas(entry["original_replicas"], f"original replicas of {tp}", place, {})
        else:
            originals.pop(tp, None)
    return LegacyReassignments(targets, originals, version)


def encode_legacy_reassignments(
    targets: Iterable[tuple[TopicPartition, Replicas]], originals: Mapping[TopicPartition, Replicas] | None = None
) -> bytes:
    """Print `/admin/reassign_partitions`.

    Args:
        targets: The remaining partitions, with the replicas that they shall have.
        originals: Written as KIP-236's `original_replicas`. Apache's parser refuses the WHOLE document for that field
            and deletes the znode: give it only in a cluster that no Apache controller may take over.
    """
    entries: list[Document] = []
    for tp, replicas in targets:
        entry: Document = {"topic": tp.topic, "partition": tp.partition, "replicas": replicas}
        if originals and tp in originals:
            entry["original_replicas"] = originals[tp]
        entries.append(entry)
    return write_document({"version": 1, "partitions": entries})


def decode_partitions(place: str, data: bytes | None) -> tuple[TopicPartition, ...]:
    """Read the partitions of a preferred election or of an ISR announcement, in order, each once."""
    document = read_document(data, place)
    read_version(document, place, (1,), absent=1)
    entries = read_objects(document, "partitions", place)
    return tuple(dict.fromkeys(read_topic_partition(entry, place) for entry in entries))


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """Print the partitions of a preferred election or of an ISR announcement."""
    return write_document(
        {"version": 1, "partitions": [{"topic": tp.topic, "partition": tp.partition} for tp in partitions]}
    )


def decode_log_dir_event(place: str, data: bytes | None) -> BrokerId:
    """Read which broker announced that a log dir of its own failed."""
    document = read_document(data, place)
    read_version(document, place, (1,), absent=1)
    return read_integer(document, "broker", place)


def encode_log_dir_event(broker: BrokerId) -> bytes:
    """Print a log dir announcement. Event 1, a failure, is the only event."""
    return write_document({"version": 1, "broker": broker, "event": 1})


def decode_producer_id_block(data: bytes | None) -> ProducerIdBlock | None:
    """Read `/latest_producer_id_block`; None if no block was ever claimed. Its bounds are numbers as text."""
    if not data:
        return None
    place = znodes.PRODUCER_ID_BLOCK
    document = read_document(data, place)
    read_version(document, place, (1,))
    broker = read_integer(document, "broker", place, low=-1)
    first, last = (_long_text(document, field) for field in ("block_start", "block_end"))
    if last < first:
        raise FormatError(place, f"block_end {last} is before block_start {first}")
    return ProducerIdBlock(broker, first, last)


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    """Print `/latest_producer_id_block`."""
    return write_document(
        {"version": 1, "broker": block.broker, "block_start": str(block.first), "block_end": str(block.last)}
    )


def _long_text(document: Document, field: str) -> int:
    text = read_text(document, field, znodes.PRODUCER_ID_BLOCK)
    if not (text.isascii() and text.isdigit()) or int(text) > INT64:
        raise FormatError(znodes.PRODUCER_ID_BLOCK, f"{field} {text!r} is not a number from 0 to {INT64}")
    return int(text)
