"""The scope of the planner that mends each condition, and the request that the planner gets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from shunter.core.keeper.runway import filling, load_ahead
from shunter.core.keeper.sighting import KIB, Sighting, frozen_topics, held_bytes
from shunter.core.keeper.sign import Sign
from shunter.core.planning.cluster import ClusterLoad, Resource
from shunter.core.planning.request import EMPTYING, PlanRequest, Scope
from shunter.model.keeper import Condition, KeeperPolicy
from shunter.model.partition import BrokerId

MENDS: Mapping[Scope, tuple[Condition, ...]] = MappingProxyType(
    {
        Scope.OFFLINE: (Condition.BROKER_DEAD, Condition.LOG_DIR_FAILED),
        Scope.DRAIN: (Condition.DRAIN,),
        Scope.REPLACE: (Condition.REPLACE,),
        Scope.EMPTY_DISKS: (Condition.DISK_FULL,),
        Scope.FILLING_DISKS: (Condition.DISK_RUNWAY,),
        Scope.DISKS: (Condition.LOG_DIR_FULL, Condition.LOG_DIR_BAND),
        Scope.TOPICS: (Condition.REPLICATION,),
        Scope.FIX_RACKS: (Condition.RACKS,),
        Scope.DEMOTE: (Condition.DEMOTE,),
        Scope.FILL: (Condition.ADD, Condition.BROKER_EMPTY),
        Scope.REBALANCE: (
            Condition.DISK_BAND,
            Condition.BYTES_IN_BAND,
            Condition.BYTES_OUT_BAND,
            Condition.PROCESSORS_BAND,
            Condition.REPLICAS_BAND,
        ),
        Scope.LEADERS: (Condition.LEADERS_BAND,),
    }
)
"""The most urgent scope first. One scope at a time changes the cluster."""

BANDS: Mapping[Condition, Resource] = MappingProxyType(
    {
        Condition.DISK_BAND: Resource.DISK,
        Condition.BYTES_IN_BAND: Resource.BYTES_IN,
        Condition.BYTES_OUT_BAND: Resource.BYTES_OUT,
        Condition.PROCESSORS_BAND: Resource.PROCESSORS,
        Condition.REPLICAS_BAND: Resource.REPLICAS,
        Condition.LEADERS_BAND: Resource.LEADERS,
    }
)


def kept_out(sighting: Sighting, policy: KeeperPolicy) -> tuple[BrokerId, ...]:
    """Brokers that neither give nor take replicas.

    These are frozen, drained, replaced, demoted and dead brokers, brokers with a failed log dir, and brokers that take
    another broker's place, until they have done so.
    """
    intents = policy.intents
    named = {*policy.rails.frozen_brokers, *intents.drain, *intents.replace, *intents.demote}
    named |= {*reserved(sighting, policy), *sighting.dead, *_damaged(sighting)}
    return tuple(broker for broker in sighting.load.brokers if broker in named)


def reserved(sighting: Sighting, policy: KeeperPolicy) -> frozenset[BrokerId]:
    """Brokers that take the place of a broker that still holds replicas which may move."""
    pairs = policy.intents.replace
    if not pairs:
        return frozenset()
    fixed = frozen_topics(sighting, policy.rails)
    held = {broker for each in sighting.inventory.partitions if each.topic not in fixed for broker in each.replicas}
    return frozenset(new for old, new in pairs.items() if old in held)


def takes_over(sighting: Sighting, policy: KeeperPolicy, broker: BrokerId) -> BrokerId | None:
    """The broker that takes over a broker's replicas; None: there is none, or it is not up, not well, or frozen."""
    new = policy.intents.replace.get(broker)
    able = {each.id for each in sighting.inventory.brokers} - {*policy.rails.frozen_brokers} - _damaged(sighting)
    return new if new in able else None


def _damaged(sighting: Sighting) -> set[BrokerId]:
    """Brokers with a failed log dir: a replica that came to such a broker might meet the next failure of its disks."""
    told = {each.broker for each in sighting.check_up.brokers if any(log_dir.error for log_dir in each.log_dirs)}
    return told | {broker for each in sighting.inventory.partitions for broker in each.offline}


def balance_request(sighting: Sighting, policy: KeeperPolicy, band: float, aims: tuple[Resource, ...]) -> PlanRequest:
    """The request by which balance is judged and restored: both leave out the same frozen topics and brokers."""
    return PlanRequest(
        scope=Scope.REBALANCE,
        excluded_topics=tuple(sorted(frozen_topics(sighting, policy.rails))),
        excluded_brokers=kept_out(sighting, policy),
        band=band,
        aims=aims,
    )


def request_for(scope: Scope, signs: Sequence[Sign], sighting: Sighting, policy: KeeperPolicy) -> PlanRequest:
    """The request that mends these signs; the caller adds caps. Pre: the scope mends the conditions of `signs`."""
    if scope is Scope.DISKS:
        return log_dirs_request(sighting, policy, tuple(sorted({broker for sign in signs for broker in sign.brokers})))
    aims = _aims(scope, policy)
    band = min(policy.watches[each].end for each in aims)
    request = replace(balance_request(sighting, policy, band, tuple(BANDS[each] for each in aims)), scope=scope)
    brokers = tuple(sorted({broker for sign in signs for broker in sign.brokers}))
    if scope is Scope.OFFLINE:
        offline = tuple(sorted({replica for sign in signs for replica in sign.replicas}))
        return replace(for_brokers(request, _leaving(sighting, policy)), offline=offline)
    if scope in (Scope.DRAIN, Scope.DEMOTE):
        return for_brokers(request, brokers)
    if scope is Scope.REPLACE:
        replacements = tuple(policy.intents.replace[broker] for broker in brokers)
        return replace(for_brokers(request, (*brokers, *replacements)), brokers=brokers, replacements=replacements)
    if scope is Scope.FILL:
        return replace(request, brokers=brokers)
    if scope is Scope.TOPICS:
        return replace(request, wishes=tuple(sorted(wish for sign in signs for wish in sign.wishes)))
    if scope is Scope.EMPTY_DISKS:
        return _empty_disks(request, sighting, policy)
    if scope is Scope.FILLING_DISKS:
        unknown = set(sighting.load.brokers) - filling(sighting).keys()
        excluded = {*request.excluded_brokers, *unknown}
        return replace(request, disk_limit=1.0, headroom=0.0, excluded_brokers=tuple(sorted(excluded)))
    return request


def log_dirs_request(sighting: Sighting, policy: KeeperPolicy, brokers: tuple[BrokerId, ...]) -> PlanRequest:
    """The request that balances log dirs within brokers."""
    request = balance_request(sighting, policy, policy.watches[Condition.LOG_DIR_BAND].end, ())
    headroom = 1 - policy.watches[Condition.LOG_DIR_FULL].begin
    return replace(request, scope=Scope.DISKS, brokers=brokers, headroom=headroom)


def _aims(scope: Scope, policy: KeeperPolicy) -> tuple[Condition, ...]:
    """The conditions whose bands a plan keeps to.

    Plans that empty disks keep to the disks' band alone, plans for leaders to the leaders' band alone. A rebalance
    keeps to the bands that may propose, any other plan to all bands.
    """
    if scope in EMPTYING or scope is Scope.LEADERS:
        return (Condition.DISK_BAND,) if scope in EMPTYING else (Condition.LEADERS_BAND,)
    if scope is Scope.REBALANCE:
        return tuple(each for each in BANDS if policy.proposes(each))
    return tuple(BANDS)


def _leaving(sighting: Sighting, policy: KeeperPolicy) -> tuple[BrokerId, ...]:
    """Dead brokers whose replicas leave them. A frozen dead broker is not among them: it stays excluded."""
    return tuple(broker for broker in sighting.dead if broker not in policy.rails.frozen_brokers)


def for_brokers(request: PlanRequest, brokers: tuple[BrokerId, ...]) -> PlanRequest:
    """The request for these brokers, which it then does not exclude."""
    rest = tuple(broker for broker in request.excluded_brokers if broker not in brokers)
    return replace(request, brokers=brokers, excluded_brokers=rest)


def _empty_disks(request: PlanRequest, sighting: Sighting, policy: KeeperPolicy) -> PlanRequest:
    limit = policy.watches[Condition.DISK_FULL].end
    crowded = {broker for broker, room in replica_room(sighting, limit).items() if room <= 0}
    excluded = tuple(broker for broker in sighting.load.brokers if broker in {*request.excluded_brokers, *crowded})
    return replace(request, disk_limit=limit, headroom=1 - limit, excluded_brokers=excluded)


def load_for(scope: Scope, sighting: Sighting, policy: KeeperPolicy) -> ClusterLoad:
    """The planner's input. For disks that are too full, capacities are without the data that is there beside replicas.

    For disks that will be too full, the input has the sizes and capacities of that day (`load_ahead`).
    """
    if scope is Scope.FILLING_DISKS:
        days, most = policy.watches[Condition.DISK_RUNWAY].end, policy.watches[Condition.DISK_FULL].begin
        return load_ahead(sighting, days, most)
    if scope is not Scope.EMPTY_DISKS:
        return sighting.load
    limit = policy.watches[Condition.DISK_FULL].end
    rooms = replica_room(sighting, limit)
    capacity = [max(rooms.get(broker, np.inf), 1.0) / KIB / limit for broker in sighting.load.brokers]
    return replace(sighting.load, disk_capacity=np.array(capacity, np.float64))


def replica_room(sighting: Sighting, limit: float) -> dict[BrokerId, float]:
    """Bytes of replicas that each broker may hold until its disks are at `limit`, a share; if it reports its disks."""
    held = held_bytes(sighting)
    return {
        broker.id: limit * broker.disk_total_bytes
        - max(0.0, broker.disk_total_bytes - broker.disk_usable_bytes - held[broker.id])
        for broker in sighting.inventory.brokers
        if broker.disk_total_bytes and broker.disk_usable_bytes is not None and broker.id in held
    }


def scopes_of(conditions: Collection[Condition]) -> tuple[Scope, ...]:
    """Scopes that mend any of these conditions, the most urgent first."""
    return tuple(scope for scope, mended in MENDS.items() if set(mended) & set(conditions))
