"""What is asked of a plan: its scope, its hard rules, its caps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from shunter.core.planning.cluster import Resource
from shunter.errors import ShunterError
from shunter.model.inventory import OfflineReplica, TopicWish


class PlanRefused(ShunterError):  # as RequestRejected: said of the request
    """A request that no plan can serve: names what was asked and why it can't be."""


class Scope(Enum):
    """What a plan may touch."""

    REBALANCE = "rebalance"
    """Everything may move, until each broker is within the band."""
    DRAIN = "drain"
    """What `brokers` hold goes elsewhere; nothing else moves."""
    FILL = "fill"
    """Replicas move only to `brokers`, until these are within the band."""
    FIX_RACKS = "fix-racks"
    """Only partitions change whose replicas share racks without need."""
    CHANGE_REPLICATION = "change-replication"
    """`replication` replicas for each partition of `topics` (all of them, when none is named)."""
    REPLACE = "replace"
    """Each of `brokers` hands all it has to the broker at the same place in `replacements`."""
    EMPTY_DISKS = "empty-disks"
    """Replicas move only away from brokers whose disk is fuller than `disk_limit`."""
    FILLING_DISKS = "filling-disks"
    """As `empty-disks`, where sizes and capacities are those of a day to come."""
    LEADERS = "leaders"
    """Only the order of replicas changes: no byte moves."""
    DEMOTE = "demote"
    """Only the order of replicas changes: `brokers` lead nothing, and stand behind all others."""
    OFFLINE = "offline"
    """Every replica of `offline` goes to another broker; nothing else moves. `brokers` are dead."""
    TOPICS = "topics"
    """What `wishes` say of topics: how many replicas, in which racks, on which brokers; nothing else moves."""
    DISKS = "disks"
    """Replicas move between the log dirs of their own broker: `plan_disks` plans it, from what brokers tell of them."""


EMPTYING = (Scope.EMPTY_DISKS, Scope.FILLING_DISKS)
"""Scopes that move replicas only away from disks that hold too much."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A request. Shares and headroom are fractions; caps are None where there is none."""

    scope: Scope = Scope.REBALANCE
    brokers: tuple[int, ...] = ()
    """Broker ids that `scope` is about."""
    replacements: tuple[int, ...] = ()
    """REPLACE: the brokers that take the place of `brokers`, in the same order."""
    replication: int = 0
    offline: tuple[OfflineReplica, ...] = ()
    wishes: tuple[TopicWish, ...] = ()
    topics: tuple[str, ...] = ()
    """Topics whose replication changes; none named: all."""
    disk_limit: float | None = None
    """EMPTY_DISKS, FILLING_DISKS: the share of its capacity that a disk may fill (of the mean, where no capacity is known)."""
    excluded_topics: tuple[str, ...] = ()
    """Nothing of these changes, neither replicas nor order."""
    excluded_brokers: tuple[int, ...] = ()
    """Nothing comes to these and nothing leaves them; they are no part of any mean."""
    band: float = 0.1
    """How far from its share a broker may be."""
    aims: tuple[Resource, ...] = tuple(Resource)
    """What to bring into the band, the most important first; aims without figures are left out."""
    spread_topics: bool = False
    """Last aim: no broker keeps more of a topic than its share, rounded up, and one."""
    headroom: float = 0.2
    """The share of each capacity that stays free, also while data is copied."""
    max_replicas: int | None = None
    """The most replicas on one broker."""
    max_bytes_percent: float | None = None
    max_moves: int | None = None

    @property
    def leaving(self) -> tuple[int, ...]:
        """Brokers that all replicas leave: these may be dead."""
        return self.brokers if self.scope in {Scope.DRAIN, Scope.REPLACE, Scope.OFFLINE} else ()
