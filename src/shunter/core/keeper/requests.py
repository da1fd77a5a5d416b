"""Which scope of the planner mends which condition, and what the planner is asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from shunter.core.keeper.sighting import KIB, Sighting, frozen_topics
from shunter.core.keeper.sign import Sign
from shunter.core.planning.cluster import ClusterLoad, Resource
from shunter.core.planning.request import PlanRequest, Scope
from shunter.model.keeper import Condition, KeeperPolicy
from shunter.model.partition import BrokerId

MENDS: Mapping[Scope, tuple[Condition, ...]] = MappingProxyType(
    {
        Scope.OFFLINE: (Condition.BROKER_DEAD, Condition.LOG_DIR_FAILED),
        Scope.DRAIN: (Condition.DRAIN,),
        Scope.EMPTY_DISKS: (Condition.DISK_FULL,),
        Scope.TOPICS: (Condition.REPLICATION,),
        Scope.FIX_RACKS: (Condition.RACKS,),
        Scope.DEMOTE: (Condition.DEMOTE,),
        Scope.FILL: (Condition.BROKER_EMPTY,),
        Scope.REBALANCE: (Condition.DISK_BAND, Condition.REPLICAS_BAND),
        Scope.LEADERS: (Condition.LEADERS_BAND,),
    }
)
"""The most urgent first: one of them changes the cluster at a time."""

BANDS: Mapping[Condition, Resource] = MappingProxyType(
    {
        Condition.DISK_BAND: Resource.DISK,
        Condition.REPLICAS_BAND: Resource.REPLICAS,
        Condition.LEADERS_BAND: Resource.LEADERS,
    }
)


def kept_out(sighting: Sighting, policy: KeeperPolicy) -> tuple[BrokerId, ...]:
    """Brokers that neither give nor take: frozen, drained, demoted and dead ones, and those with a failed log dir."""
    intents = policy.intents
    named = {*policy.rails.frozen_brokers, *intents.drain, *intents.demote, *sighting.dead, *_damaged(sighting)}
    return tuple(broker for broker in sighting.load.brokers if broker in named)


def _damaged(sighting: Sighting) -> set[BrokerId]:
    """Brokers with a log dir that failed: what came to one of these might meet the next failure of its disks."""
    told = {each.broker for each in sighting.check_up.brokers if any(log_dir.error for log_dir in each.log_dirs)}
    return told | {broker for each in sighting.inventory.partitions for broker in each.offline}


def balance_request(sighting: Sighting, policy: KeeperPolicy, band: float, aims: tuple[Resource, ...]) -> PlanRequest:
    """What the planner is asked for where balance is judged and restored: the same frozen topics, the same brokers."""
    return PlanRequest(
        scope=Scope.REBALANCE,
        excluded_topics=tuple(sorted(frozen_topics(sighting, policy.rails))),
        excluded_brokers=kept_out(sighting, policy),
        band=band,
        aims=aims,
    )


def request_for(scope: Scope, signs: Sequence[Sign], sighting: Sighting, policy: KeeperPolicy) -> PlanRequest:
    """What mends these signs; caps are left to the caller. Pre: `signs` are of conditions that the scope mends."""
    aims = _aims(scope, policy)
    band = min(policy.watches[each].end for each in aims)
    request = replace(balance_request(sighting, policy, band, tuple(BANDS[each] for each in aims)), scope=scope)
    brokers = tuple(sorted({broker for sign in signs for broker in sign.brokers}))
    if scope is Scope.OFFLINE:
        offline = tuple(sorted({replica for sign in signs for replica in sign.replicas}))
        rest = tuple(broker for broker in request.excluded_brokers if broker not in _leaving(sighting, policy))
        return replace(request, brokers=_leaving(sighting, policy), excluded_brokers=rest, offline=offline)
    if scope in (Scope.DRAIN, Scope.DEMOTE):
        return _without(request, brokers)
    if scope is Scope.FILL:
        return replace(request, brokers=brokers)
    if scope is Scope.TOPICS:
        return replace(request, wishes=tuple(sorted(wish for sign in signs for wish in sign.wishes)))
    if scope is Scope.EMPTY_DISKS:
        return _empty_disks(request, sighting, policy)
    return request


def _aims(scope: Scope, policy: KeeperPolicy) -> tuple[Condition, ...]:
    """Which bands a plan keeps to: where balance itself is asked for, those that may propose; elsewhere all."""
    if scope in (Scope.EMPTY_DISKS, Scope.LEADERS):
        return (Condition.DISK_BAND,) if scope is Scope.EMPTY_DISKS else (Condition.LEADERS_BAND,)
    if scope is Scope.REBALANCE:
        return tuple(each for each in BANDS if policy.proposes(each))
    return tuple(BANDS)


def _leaving(sighting: Sighting, policy: KeeperPolicy) -> tuple[BrokerId, ...]:
    """Dead brokers, which nothing may come to; a frozen one is kept out as it is."""
    return tuple(broker for broker in sighting.dead if broker not in policy.rails.frozen_brokers)


def _without(request: PlanRequest, brokers: tuple[BrokerId, ...]) -> PlanRequest:
    """A request that is about brokers can't leave them out at the same time."""
    rest = tuple(broker for broker in request.excluded_brokers if broker not in brokers)
    return replace(request, brokers=brokers, excluded_brokers=rest)


def _empty_disks(request: PlanRequest, sighting: Sighting, policy: KeeperPolicy) -> PlanRequest:
    limit = policy.watches[Condition.DISK_FULL].end
    crowded = {broker for broker, room in replica_room(sighting, limit).items() if room <= 0}
    excluded = tuple(broker for broker in sighting.load.brokers if broker in {*request.excluded_brokers, *crowded})
    return replace(request, disk_limit=limit, headroom=1 - limit, excluded_brokers=excluded)


def load_for(scope: Scope, sighting: Sighting, policy: KeeperPolicy) -> ClusterLoad:
    """The planner's input: for disks that are too full, capacities without what is there beside replicas."""
    if scope is not Scope.EMPTY_DISKS:
        return sighting.load
    limit = policy.watches[Condition.DISK_FULL].end
    rooms = replica_room(sighting, limit)
    capacity = [max(rooms.get(broker, np.inf), 1.0) / KIB / limit for broker in sighting.load.brokers]
    return replace(sighting.load, disk_capacity=np.array(capacity, np.float64))


def replica_room(sighting: Sighting, limit: float) -> dict[BrokerId, float]:
    """Bytes of replicas that each broker may hold until its disks are at `limit`, a share; brokers that tell alone."""
    held = held_bytes(sighting)
    return {
        broker.id: limit * broker.disk_total_bytes
        - max(0.0, broker.disk_total_bytes - broker.disk_usable_bytes - held[broker.id])
        for broker in sighting.inventory.brokers
        if broker.disk_total_bytes and broker.disk_usable_bytes is not None and broker.id in held
    }


def held_bytes(sighting: Sighting) -> dict[BrokerId, float]:
    """Bytes of replicas on each broker, as the planner counts them."""
    load = sighting.load
    held = np.zeros(len(load.brokers) + 1)  # The last is for ABSENT, which is -1.
    np.add.at(held, load.replicas, np.broadcast_to(load.sizes[:, None], load.replicas.shape))
    return {broker: float(held[at]) * KIB for at, broker in enumerate(load.brokers)}


def scopes_of(conditions: Collection[Condition]) -> tuple[Scope, ...]:
    """Scopes that mend any of these conditions, the most urgent first."""
    return tuple(scope for scope, mended in MENDS.items() if set(mended) & set(conditions))
