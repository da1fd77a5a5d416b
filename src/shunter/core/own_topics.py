"""The topics that a driver writes to or needs for that, and why a partition of one takes no write now."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from shunter.model.execution import ObservedPartition
from shunter.model.partition import BrokerId, Replicas

WORDS_TOPIC = "__shunter_words"
GROUPS_TOPIC = "__consumer_offsets"
"""Brokers create it when a client asks for a group's coordinator for the first time."""
TRANSACTIONS_TOPIC = "__transaction_state"
"""Without it, neither words nor a journal in a topic can be written."""
OWN_PREFIX = "__shunter_"
"""Of the names of topics that only Shunter writes to: the words, and a journal that is named so."""
NEEDED_TOPICS = frozenset({WORDS_TOPIC, GROUPS_TOPIC, TRANSACTIONS_TOPIC})


class Shortage(NamedTuple):
    """Why a partition takes no write with acks=all, and what ends that."""

    told: str
    way_out: str

    def __str__(self) -> str:
        return f"{self.told}; {self.way_out}"


def partition_of(name: str, partitions: int) -> int:
    """The partition of an internal topic that has a group or a transactional id: by Java's hash, as in Kafka."""
    code = 0
    for letter in name.encode("ascii"):
        code = (31 * code + letter) & 0xFFFFFFFF
    return min(code, 2**32 - code) % partitions


def shortage(name: str, seen: ObservedPartition, min_isr: int, live: Collection[BrokerId]) -> Shortage | None:
    """Why a partition takes no write with acks=all; None: it takes them, as far as its metadata show.

    Args:
        name: `topic NAME`, or the partition's name.
        seen: The partition.
        min_isr: The topic's min.insync.replicas.
        live: Brokers that are up.
    """
    of = f"({_ids(seen.isr, ',') or 'none'} of {_ids(seen.replicas, ',')})"
    if seen.leader < 0:
        return Shortage(f"{name} has no leader {of}", _start(seen.isr or seen.replicas, 1, live))
    needed = min(min_isr, len(seen.replicas))
    lacking = needed - len(seen.isr)
    if lacking <= 0:
        return None
    late = tuple(broker for broker in seen.replicas if broker not in seen.isr)
    return Shortage(f"{name} has {len(seen.isr)} of {needed} needed replicas in sync {of}", _start(late, lacking, live))


def _start(brokers: Replicas, needed: int, live: Collection[BrokerId]) -> str:
    """What brings enough of these brokers back."""
    down = tuple(broker for broker in brokers if broker not in live)
    joined = " or " if needed < len(down or brokers) else " and "
    if down:
        return f"start broker {_ids(down, joined)}"
    return f"see in its log why broker {_ids(brokers, joined)}, which is up, is not in sync"


def _ids(brokers: Replicas, joined: str) -> str:
    return joined.join(map(str, brokers))


__all__ = [
    "GROUPS_TOPIC",
    "NEEDED_TOPICS",
    "OWN_PREFIX",
    "TRANSACTIONS_TOPIC",
    "WORDS_TOPIC",
    "Shortage",
    "partition_of",
    "shortage",
]
