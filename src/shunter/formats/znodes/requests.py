"""KIP-236's request znodes: `/admin/reassignment_requests/request_NNNN`.

Source: KIP-236, "The supporting the legacy znode protocol": `{"version":1,"assignments":{"my-topic":{"0":[1,2,3]}},
"legacy":true}`.
"""

from __future__ import annotations

from collections.abc import Iterable

from shunter.errors import FormatError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.text import (
    Document,
    SharedReplicas,
    read_document,
    read_flag,
    read_object,
    read_partition_number,
    read_replicas,
    read_version,
    write_document,
)
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.snapshot import ReassignmentRequest


def decode_request(name: str, data: bytes | None, *, czxid: int, version: int = 0) -> ReassignmentRequest:
    """Read a request; partitions come sorted.

    Raises:
        FormatError: a part of it can't be read. A request is never taken in part.
    """
    place = znodes.reassignment_request(name)
    document = read_document(data, place)
    read_version(document, place, (1,), absent=1)
    shared: SharedReplicas = {}
    targets: dict[TopicPartition, Replicas] = {}
    topics = read_object(document, "assignments", place)
    for topic in sorted(topics):
        if not topic:
            raise FormatError(place, "assignments name a topic that is empty")
        for text, replicas in read_object(topics, topic, place).items():
            tp = TopicPartition(topic, read_partition_number(text, place))
            targets[tp] = read_replicas(replicas, f"replicas of {tp}", place, shared)
    legacy = read_flag(document, "legacy", place)
    return ReassignmentRequest(name, dict(sorted(targets.items())), legacy, czxid, version)


def encode_request(targets: Iterable[tuple[TopicPartition, Replicas]], *, legacy: bool) -> bytes:
    """Print a request; `legacy` is written only if it is true."""
    assignments: dict[str, dict[str, Replicas]] = {}
    for tp, replicas in targets:
        assignments.setdefault(tp.topic, {})[str(tp.partition)] = replicas
    document: Document = {"version": 1, "assignments": assignments}
    if legacy:
        document["legacy"] = True
    return write_document(document)
