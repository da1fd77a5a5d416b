"""The demo's claims, checked against records and ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import orjson
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from lab.demo.account import ProvedOrNot
from lab.demo.traffic import Acks
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.topics import decode_topic
from shunter.model.partition import ReplicaAssignment, Replicas, TopicPartition


def check_records(
    acks: Mapping[TopicPartition, Acks], found: Mapping[TopicPartition, list[int]]
) -> tuple[ProvedOrNot, ...]:
    """Check that every acknowledged record is there, once, in order."""
    missing = doubled = disordered = 0
    for tp, written in acks.items():
        there = found[tp]
        missing += len(set(written.sequence) - set(there))
        doubled += len(there) - len(set(there))
        disordered += sum(later < earlier for earlier, later in pairwise(there))
    total = sum(len(written.sequence) for written in acks.values())
    return (
        ProvedOrNot("no acknowledged record is missing", missing == 0, f"{missing} of {total:,} missing"),
        ProvedOrNot("no record is there twice", doubled == 0, f"{doubled} doubled"),
        ProvedOrNot("records are in order", disordered == 0, f"{disordered} out of order"),
    )


class Leftovers:
    """Looks into ZooKeeper for leftovers of finished moves, and for assignments."""

    def __init__(self, zookeeper_connect: str) -> None:
        self._client = KazooClient(zookeeper_connect)
        self._client.start()

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()

    def exists(self, path: str) -> bool:
        """Whether there is such a znode."""
        return self._client.exists(path) is not None

    def assignments(self, topics: list[str]) -> dict[TopicPartition, ReplicaAssignment]:
        """The assignments of `topics` in ZooKeeper."""
        found: dict[TopicPartition, ReplicaAssignment] = {}
        for name in topics:
            data, stat = self._client.get(znodes.topic(name))
            topic = decode_topic(name, data, stat.version, {})
            found.update({TopicPartition(name, number): value for number, value in topic.assignments.items()})
        return found

    def check_znodes(self) -> ProvedOrNot:
        """Check that no record, queue or owed deletion is left."""
        left = [
            *self._children("/admin/reassignments"),
            *self._children("/admin/shunter/owed_deletions"),
            *self._children("/admin/shunter/owed_replicas"),
            *(path for path in ("/admin/reassign_partitions",) if self.exists(path)),
        ]
        return ProvedOrNot("no znode is left over", not left, ", ".join(left[:5]) or "none")

    def _children(self, path: str) -> list[str]:
        try:
            return [f"{path}/{name}" for name in sorted(self._client.get_children(path))]
        except NoNodeError:
            return []

    def check_throttles(self, topics: list[str], brokers: list[int]) -> ProvedOrNot:
        """Check that no throttle is left on any topic or broker."""
        places = [f"/config/topics/{name}" for name in topics] + [f"/config/brokers/{broker}" for broker in brokers]
        left = [path for path in places if self._is_throttled(path)]
        return ProvedOrNot("no throttle is left over", not left, ", ".join(left) or "none")

    def _is_throttled(self, path: str) -> bool:
        try:
            data, _ = self._client.get(path)
        except NoNodeError:
            return False
        return any("throttled" in name for name in orjson.loads(data).get("config", {}))


def check_assignments(
    found: Mapping[TopicPartition, ReplicaAssignment],
    targets: Mapping[TopicPartition, Replicas],
    originals: Mapping[TopicPartition, Replicas],
    stopped: TopicPartition,
    rolled_back: TopicPartition,
) -> tuple[ProvedOrNot, ...]:
    """Check the assignments: partitions moved, one stopped where it stood, one rolled back in its original order."""
    moved = [tp for tp in targets if tp not in (stopped, rolled_back)]
    wrong = [tp for tp in moved if found[tp] != ReplicaAssignment(targets[tp])]
    back = found[rolled_back]
    stood = found[stopped]
    return (
        ProvedOrNot("the assignment is what was asked", not wrong, f"{len(moved) - len(wrong)} of {len(moved)}"),
        ProvedOrNot(
            "the move that was rolled back is where it began, in order",
            back == ReplicaAssignment(originals[rolled_back]),
            f"{rolled_back}: {list(back.replicas)}, was {list(originals[rolled_back])}",
        ),
        ProvedOrNot(
            "the move that was stopped stands still, complete",
            not stood.in_motion and len(stood.replicas) >= len(originals[stopped]),
            f"{stopped}: {list(stood.replicas)}",
        ),
    )
