"""How much a record takes in a ZooKeeper request, as an upper bound, so that no batch becomes too great for one.

The unit is a byte, but nothing here knows a layout: each bound is generous, and a test compares it with real writes.
A path in ZooKeeper may begin with a chroot of up to `CHROOT` characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shunter.model.partition import ReplicaAssignment, Replicas, TopicPartition
from shunter.model.records import DeleteTopic, PutTopic, Record

BATCH_FULL = 450_000
"""From this weight on a slice takes no more decisions."""
DECISION_AT_MOST = 500_000
"""The most that one decision may weigh: together with a batch that is almost full it fits into a ZooKeeper request."""
NAMES_AT_MOST = 4_000_000
"""The most that the names of all topics may weigh: brokers list them, and their client takes an answer of 4 MiB."""
CHROOT = 40
ZNODE = 64 + 80 + CHROOT
"""One operation on one znode, without the topic's name in its path."""
_ID = 11
"""A broker id or an epoch with its comma."""
_PARTITION_ENTRY = 60
"""A partition's entry in a list, without the topic's name and broker ids."""
DELETED_AT_ONCE = 500
"""A topic with more partitions is deleted in portions, which are not part of the batch."""


def replicas_weight(assignment: ReplicaAssignment) -> int:
    """A partition's entry in its topic's znode."""
    numbers = len(assignment.replicas) + len(assignment.adding) + len(assignment.removing)
    return 3 * _ID + _ID * numbers


def placed_weight(partition_count: int, replication_factor: int, highest_broker: int) -> int:
    """The entries of new partitions in their topic's znode, before they are placed."""
    replicas = partition_count * replication_factor
    return _entries(partition_count, len(str(partition_count)), replicas, len(str(highest_broker)))


def _entries(count: int, partition_digits: int, replicas: int, broker_digits: int) -> int:
    """`"12":[1,2,3],` for each: five signs, the number, and a comma or bracket behind each of all their replicas."""
    return count * (5 + partition_digits) + replicas * (broker_digits + 1)


def topic_weight(name: str, assignments: Mapping[int, ReplicaAssignment]) -> int:
    """A topic's znode."""
    highest = replicas = in_motion = moved = 0
    for each in assignments.values():
        replicas += len(each.replicas)
        highest = max((highest, *each.replicas))
        if each.adding or each.removing:
            in_motion, moved = in_motion + 1, moved + len(each.adding) + len(each.removing)
    digits, numbers = len(str(highest)), len(str(max(assignments, default=0)))
    # A partition in motion has at most two more entries: one with its adding and one with its removing replicas.
    entries = _entries(len(assignments) + 2 * in_motion, numbers, replicas + 2 * moved, digits)
    return ZNODE + 120 + len(name) + entries


def configs_weight(name: str, configs: Iterable[tuple[str, str]]) -> int:
    """The znode of a topic's configuration."""
    return ZNODE + 60 + len(name) + sum(_text(key) + _text(value) + 8 for key, value in configs)


def _text(text: str) -> int:
    """The bound of a text: a character that JSON escapes takes up to six bytes, and twelve beyond 16 bits."""
    plain = text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
    return len(text) if plain else 12 * len(text)


def leadership_weight(tp: TopicPartition, isr: Replicas, targets: Replicas | None) -> int:
    """A partition's state, with the two folders above it, which may be missing."""
    return 3 * (ZNODE + len(tp.topic)) + 160 + _ID * (len(isr) + len(targets or ()))


def move_weight(tp: TopicPartition, numbers: int) -> int:
    """A move's record with its folder; `numbers` counts the broker ids in it."""
    return 2 * (ZNODE + len(tp.topic)) + 400 + _ID * numbers


def name_weight(name: str) -> int:
    """A name in the list of a folder's children."""
    return 4 + len(name)


def entry_weight(tp: TopicPartition, numbers: int = 1) -> int:
    """A partition's entry in a list of partitions."""
    return _PARTITION_ENTRY + len(tp.topic) + _ID * numbers


def record_weight(record: Record) -> int:
    """A record that is small, or that names a whole topic."""
    if type(record) is PutTopic:
        weight = topic_weight(record.topic.name, record.topic.assignments)
        return weight + (configs_weight(record.topic.name, record.configs) if record.topic.version < 0 else 0)
    if type(record) is DeleteTopic:
        count = len(record.partitions)
        states = 2 * count if count <= DELETED_AT_ONCE else 0
        return (states + 6) * (ZNODE + len(record.name))
    name = getattr(record, "name", "")
    return 2 * (ZNODE + len(name)) + 200
