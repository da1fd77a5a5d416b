"""A request for a plan: its scope, its hard rules, its caps."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum
from itertools import zip_longest

from shunter.core.planning.cluster import Resource
from shunter.errors import ShunterError
from shunter.model.inventory import OfflineReplica, TopicWish
from shunter.model.partition import BrokerId

SPENT = "the cap on bytes or moves is spent"
"""Why a plan leaves something undone whose copy its caps do not allow."""


class PlanRefused(ShunterError):  # named for the request, as RequestRejected
    """A request that no plan can serve: the text names the request's fault and the reason."""


class Scope(Enum):
    """The part of a cluster that a plan may touch."""

    REBALANCE = "rebalance"
    """Everything may move, until each broker is within the band."""
    DRAIN = "drain"
    """All replicas of `brokers` go to other brokers; nothing else moves."""
    FILL = "fill"
    """Replicas move only to `brokers`, until these are within the band."""
    FIX_RACKS = "fix-racks"
    """Only partitions whose replicas share racks without need change."""
    CHANGE_REPLICATION = "change-replication"
    """Each partition of `topics` gets `replication` replicas (of all topics, if none is named)."""
    REPLACE = "replace"
    """Each of `brokers` hands all its replicas to the broker at the same place in `replacements`."""
    EMPTY_DISKS = "empty-disks"
    """Replicas move only away from brokers whose disk is fuller than `disk_limit`."""
    FILLING_DISKS = "filling-disks"
    """As `empty-disks`, with the sizes and capacities of a day to come."""
    LEADERS = "leaders"
    """Only the order of replicas changes: no byte moves."""
    DEMOTE = "demote"
    """Only the order of replicas changes: `brokers` lead nothing, and stand behind all others."""
    OFFLINE = "offline"
    """Every replica of `offline` (none named: that is known to be offline) goes to another broker; nothing else moves."""
    TOPICS = "topics"
    """Topics change as `wishes` say: how many replicas, in which racks, on which brokers; nothing else moves."""
    DISKS = "disks"
    """Replicas move between the log dirs of their own broker. `plan_disks` plans this, from brokers' own reports."""


BALANCING = (Scope.REBALANCE, Scope.FILL)
"""Scopes that bring every broker into every band."""
EMPTYING = (Scope.EMPTY_DISKS, Scope.FILLING_DISKS)
"""Scopes that move replicas only away from disks that hold too much."""
KEEPING = (*BALANCING, *EMPTYING)
"""Scopes that balance replicas. They never take an offline replica away, so they leave its partition alone."""
MEASURED = (*KEEPING, Scope.LEADERS)
"""Scopes that bring brokers into bands."""
ORDER_ALONE = (Scope.LEADERS, Scope.DEMOTE)
"""Scopes that change only the order of replicas, so that no byte moves."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A request. Shares and headroom are fractions; a cap of None is no cap."""

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
    """EMPTY_DISKS, FILLING_DISKS: the share of its capacity that a disk may fill (of the mean, if that is unknown)."""
    excluded_topics: tuple[str, ...] = ()
    """Topics that do not change, neither their replicas nor the order."""
    excluded_brokers: tuple[int, ...] = ()
    """Brokers that no replica comes to or leaves. They don't count for any mean."""
    band: float = 0.1
    """How far from its share a broker may be."""
    aims: tuple[Resource, ...] = tuple(Resource)
    """Resources to bring into the band, the most important first; those without figures are left out."""
    spread_topics: bool = False
    """Last aim: no broker keeps more of a topic than its share, rounded up, plus one."""
    headroom: float = 0.2
    """The share of each capacity that stays free, also while data is copied."""
    max_replicas: int | None = None
    """The most replicas on one broker."""
    max_bytes_percent: float | None = None
    max_moves: int | None = None

    @property
    def leaving(self) -> tuple[int, ...]:
        """Brokers that all replicas leave; they may be dead."""
        return self.brokers if self.scope in {Scope.DRAIN, Scope.REPLACE} else ()


def without_empty(request: PlanRequest, empty: AbstractSet[BrokerId]) -> tuple[PlanRequest, list[str]]:
    """The request without brokers that hold nothing, and a sentence about each of them that was to be emptied.

    Args:
        request: It may name brokers that are no part of the plan's cluster.
        empty: Brokers that are registered and fenced, and hold no replica. They are no part of the plan's cluster.

    Raises:
        PlanRefused: such a broker is to receive replicas.
    """
    wanted = request.brokers if request.scope is Scope.FILL else request.replacements
    for broker in (*wanted, *(each for wish in request.wishes for each in wish.brokers)):
        if broker in empty:
            raise may_receive_nothing(broker, "is fenced")
    pairs = list(zip_longest(request.brokers, request.replacements))
    kept = [pair for pair in pairs if pair[0] not in empty]
    told = [f"broker {old} is fenced and holds no replica: nothing has to leave it" for old, _ in pairs if old in empty]
    asked = replace(
        request,
        brokers=tuple(old for old, _new in kept),
        replacements=tuple(new for _old, new in kept) if request.replacements else (),
        excluded_brokers=tuple(broker for broker in request.excluded_brokers if broker not in empty),
    )
    return asked, told


def may_receive_nothing(broker: BrokerId, why: str) -> PlanRefused:
    """The refusal of a request by which a broker that may receive nothing gets replicas."""
    way = "bring it back"
    if "cordoned" in why:
        way = f"lift its cordon (`cordoned.log.dirs`; after a drain `shunter undrain {broker}` does)"
    elif "log dir" in why:
        way = "mend that log dir"
    return PlanRefused(f"broker {broker} {why}: it may receive nothing; {way}, or name another broker")
