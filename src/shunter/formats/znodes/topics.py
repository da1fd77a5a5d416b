"""Znodes of topics: the assignment of a topic, and leader and ISR of each of its partitions.

This is the hot path of a start: 100,000 states are read at once.
Source: Apache Kafka 3.9, `TopicZNode` (v1 to v3) and `TopicPartitionStateZNode`; KIP-455's draft for `targetReplicas`.
"""

from __future__ import annotations

from shunter.errors import FormatError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.text import (
    INT32,
    Document,
    SharedReplicas,
    read_document,
    read_object,
    read_partition_number,
    read_replicas,
    read_topic_id,
    read_version,
    topic_id_text,
    write_document,
)
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, Replicas
from shunter.model.topic import Topic

_STATE = b'{"controller_epoch":%d,"leader":%d,"version":1,"leader_epoch":%d,"isr":[%b]%b}'
_LEAST_LEADER = -2
_LEAST_EPOCH = -2


def decode_topic(
    name: str, data: bytes | None, version: int, shared: SharedReplicas, odd: list[str] | None = None
) -> Topic:
    """Read a topic's assignment; partitions come in the order of their numbers.

    A broker that is repeated in a list counts once, and what is added or removed counts where it is among the replicas.
    Apache's controller serves such a topic, and a topic that nobody can read could not even be deleted.

    Args:
        name: The topic's name.
        data: What the znode holds.
        version: The znode's version.
        shared: Equal replica lists become one object across calls.
        odd: Gets a sentence for each part that is not taken as it is written.

    Raises:
        FormatError: a part of it can't be read. A topic is never taken in part, because it is written as a whole.
    """
    place = znodes.topic(name)
    document = read_document(data, place)
    format_version = read_version(document, place, (1, 2, 3))
    partitions = document.get("partitions")
    if type(partitions) is not dict:
        raise FormatError(place, f"partitions is {partitions!r} where an object is expected")
    odd = [] if odd is None else odd
    assignments: dict[int, ReplicaAssignment] = {}
    for number in sorted(read_partition_number(text, place) for text in partitions):
        # Apache lets people assign a new topic to ids below 0, which no broker can have.
        text, what = str(number), f"replicas of partition {number}"
        replicas = _replicas(partitions[text], what, place, shared, odd, low=-INT32 - 1)
        assignments[number] = ReplicaAssignment(replicas)
    if format_version > 1:
        _add_motion(document, assignments, place, shared, odd)
    return Topic(name, read_topic_id(document.get("topic_id"), place), assignments, version)


def encode_topic(topic: Topic) -> bytes:
    """Print a topic's assignment, version 3."""
    assignments = topic.assignments
    document: Document = {
        "version": 3,
        "partitions": {str(number): assignment.replicas for number, assignment in assignments.items()},
        "adding_replicas": {str(number): each.adding for number, each in assignments.items() if each.adding},
        "removing_replicas": {str(number): each.removing for number, each in assignments.items() if each.removing},
    }
    if topic.topic_id is not None:
        document["topic_id"] = topic_id_text(topic.topic_id)
    return write_document(document)


def decode_state(place: str, data: bytes | None, version: int, shared: SharedReplicas) -> LeaderAndIsr:
    """Read a partition's leader and ISR; unknown fields are ignored, as Apache does.

    Args:
        place: The znode's path.
        data: What the znode holds.
        version: The znode's version: the partition epoch.
        shared: Equal replica lists become one object across calls.

    Raises:
        FormatError: it can't be read, or its leader is not in its ISR.
    Cost: about 2 us.
    """
    document = read_document(data, place)
    if document.get("version", 1) != 1:
        read_version(document, place, (1,))
    leader = document.get("leader")
    leader_epoch = document.get("leader_epoch")
    controller_epoch = document.get("controller_epoch")
    if not (type(leader) is int and type(leader_epoch) is int and type(controller_epoch) is int):
        told = f"{leader!r}, {leader_epoch!r}, {controller_epoch!r}"
        raise FormatError(place, f"leader, leader_epoch, controller_epoch are {told} where whole numbers are expected")
    if not (leader <= INT32 and _LEAST_EPOCH <= leader_epoch <= INT32 and 0 <= controller_epoch <= INT32):
        told = f"{leader}, {leader_epoch}, {controller_epoch}"
        raise FormatError(place, f"leader, leader_epoch, controller_epoch {told} are out of range")
    isr = read_replicas(document.get("isr"), "isr", place, shared)
    if leader not in isr and not _LEAST_LEADER <= leader < 0:
        raise FormatError(place, f"leader {leader} is not in the isr {list(isr)}")
    if len(document) == 5:
        return LeaderAndIsr(leader, leader_epoch, isr, version, controller_epoch)
    recovering = document.get("leader_recovery_state", 0)
    if type(recovering) is not int or recovering not in (0, 1):
        raise FormatError(place, f"leader_recovery_state is {recovering!r} where 0 or 1 is expected")
    target = document.get("targetReplicas")
    if target is not None:
        target = read_replicas(target, "targetReplicas", place, shared)
    return LeaderAndIsr(leader, leader_epoch, isr, version, controller_epoch, bool(recovering), target)


def encode_state(leadership: LeaderAndIsr) -> bytes:
    """Print a partition's leader and ISR as Apache does; `targetReplicas` only if it is set."""
    extra = b',"leader_recovery_state":1' if leadership.recovering else b""
    if leadership.target_replicas is not None:
        extra += b',"targetReplicas":[%b]' % _numbers(leadership.target_replicas)
    isr = _numbers(leadership.isr)
    return _STATE % (leadership.controller_epoch, leadership.leader, leadership.leader_epoch, isr, extra)


def _numbers(replicas: Replicas) -> bytes:
    return ",".join(map(str, replicas)).encode("ascii")


def _replicas(
    value: object, what: str, place: str, shared: SharedReplicas, odd: list[str], *, low: int = 0
) -> Replicas:
    """Read a list of broker ids of which each counts once."""
    replicas = read_replicas(value, what, place, shared, low=low, repeats=True)
    once = tuple(dict.fromkeys(replicas))
    if once == replicas:
        return replicas
    odd.append(f"{what} {list(replicas)} repeat a broker: each counts once")
    return once


def _add_motion(
    document: Document, assignments: dict[int, ReplicaAssignment], place: str, shared: SharedReplicas, odd: list[str]
) -> None:
    """Complete assignments by what is being added and removed."""
    adding = read_object(document, "adding_replicas", place)
    removing = read_object(document, "removing_replicas", place)
    for text in sorted({*adding, *removing}):
        number = read_partition_number(text, place)
        added = _replicas(adding.get(text, []), f"adding replicas of partition {number}", place, shared, odd)
        removed = _replicas(removing.get(text, []), f"removing replicas of partition {number}", place, shared, odd)
        replicas = assignments[number].replicas if number in assignments else ()
        if not set(replicas).issuperset(added + removed) or set(added) & set(removed):
            told = f"adding {list(added)} and removing {list(removed)} of partition {number}"
            odd.append(f"{told} are not disjoint parts of its replicas {list(replicas)}: the rest does not count")
            removed = tuple(broker for broker in removed if broker in replicas)
            added = tuple(broker for broker in added if broker in replicas and broker not in removed)
        if number in assignments:
            assignments[number] = ReplicaAssignment(replicas, added, removed)
