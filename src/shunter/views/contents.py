"""All topics and partitions of a cluster at the last observation, in pages that can be searched.

A large cluster has 100,000 partitions, so rows are made of the observation only for the page that is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shunter.core.keeper.sighting import Sighting, frozen_topics
from shunter.model.inventory import InventoryPartition
from shunter.model.keeper import GuardRails
from shunter.views.service import PartitionsPage, PartitionView, TopicGist, TopicsPage

OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED, HEALTHY = "offline", "under min ISR", "under-replicated", "healthy"
STATES = (OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED, HEALTHY)
"""`PartitionView.state`, the worst first."""


@dataclass(frozen=True, slots=True)
class PartitionSearch:
    """Which partitions are asked for; each empty field fits all."""

    search: str = ""
    """A part of the partition's name, in any case."""
    topic: str = ""
    broker: int | None = None
    """A broker that holds a replica."""
    state: str = ""
    """One of the states that the partition is in."""


_ORDERS: dict[str, Callable[[TopicGist], Any]] = {
    "bytes": lambda row: (-row.bytes, row.name),
    "name": lambda row: row.name,
    "partitions": lambda row: (-row.partitions, row.name),
    "under_replicated": lambda row: (-row.under_replicated, row.name),
}


class Contents:
    """The topics and partitions of an observation. Topics are counted when they are asked for first."""

    def __init__(self, seen: Sighting | None = None, rails: GuardRails | None = None) -> None:
        """Take an observation, and the policy's guard rails; None: the cluster was not observed yet."""
        self._seen = seen
        self._rails = rails or GuardRails()
        self._topics: list[TopicGist] | None = None

    @property
    def _at_ms(self) -> int | None:
        return None if self._seen is None else self._seen.at_ms

    def topics(self, search: str, order: str, offset: int, limit: int) -> TopicsPage:
        """Topics whose name has `search` in it, or whose partition it names. Cost: O(partitions)."""
        if self._topics is None:
            self._topics = [] if self._seen is None else topics_of(self._seen, self._rails)
        wanted = search.lower()
        every = () if self._seen is None or not search[-1:].isdecimal() else self._seen.inventory.partitions
        named = next((each for each in every if f"{each.topic}-{each.partition}" == search.replace("/", "-")), None)
        topic, partition = ("", "") if named is None else (named.topic, f"{named.topic}-{named.partition}")
        fitting = (row for row in self._topics if wanted in row.name.lower() or row.name == topic)
        found = sorted(fitting, key=_ORDERS[order])
        return TopicsPage(self._at_ms, len(found), offset, tuple(found[offset : offset + limit]), partition)

    def partitions(self, asked: PartitionSearch, offset: int, limit: int) -> PartitionsPage:
        """Partitions that fit a search. Cost: O(partitions)."""
        every = () if self._seen is None else self._seen.inventory.partitions
        fitting = [(each, _states(each)) for each in _fitting(every, asked)]
        counts = Counter(state for _each, states in fitting for state in states)
        found = [each for each, states in fitting if not asked.state or asked.state in states]
        rows = tuple(map(view_partition, found[offset : offset + limit]))
        ordered = {state: counts[state] for state in STATES if counts[state]}
        return PartitionsPage(self._at_ms, ordered, len(found), offset, rows, len(fitting))


def _fitting(every: Sequence[InventoryPartition], asked: PartitionSearch) -> Iterable[InventoryPartition]:
    wanted = asked.search.lower().replace("/", "-")
    for each in every:
        if asked.topic and each.topic != asked.topic:
            continue
        if asked.broker is not None and asked.broker not in each.replicas:
            continue
        if not wanted or wanted in f"{each.topic}-{each.partition}".lower():
            yield each


def _states(partition: InventoryPartition) -> list[str]:
    """The states that a partition is in, the worst first: one without a leader may be under-replicated, too."""
    holds = (partition.leader < 0, partition.under_min_isr, partition.under_replicated)
    return [state for state, is_so in zip(STATES, holds, strict=False) if is_so] or [HEALTHY]


def view_partition(partition: InventoryPartition) -> PartitionView:
    """The view of a partition."""
    return PartitionView(
        partition=f"{partition.topic}-{partition.partition}",
        topic=partition.topic,
        replicas=partition.replicas,
        isr=partition.isr,
        offline=partition.offline,
        leader=partition.leader,
        bytes=max((size for _broker, size in partition.sizes), default=None),
        state=_states(partition)[0],
        adding=partition.adding,
        removing=partition.removing,
    )


def topics_of(seen: Sighting, rails: GuardRails) -> list[TopicGist]:
    """All topics, the largest first. Cost: O(partitions)."""
    frozen = frozen_topics(seen, rails)
    count, size, lacking = Counter[str](), Counter[str](), Counter[str]()
    factors: dict[str, set[int]] = {}
    for each in seen.inventory.partitions:
        count[each.topic] += 1
        size[each.topic] += sum(held for _broker, held in each.sizes)
        lacking[each.topic] += each.under_replicated
        factors.setdefault(each.topic, set()).add(len(each.replicas))
    rows = [
        TopicGist(name, count[name], tuple(sorted(factors[name])), size[name], lacking[name], name in frozen)
        for name in count
    ]
    return sorted(rows, key=_ORDERS["bytes"])
