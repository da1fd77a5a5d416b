"""The scope of the planner that mends each condition, and the request that the planner gets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from shunter.core.keeper.runway import filling, load_ahead
from shunter.core.keeper.sighting import Sighting, frozen_topics
from shunter.core.keeper.sign import Sign
from shunter.core.planning.cluster import ClusterLoad, Resource
from shunter.core.planning.facts import barred
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
    """Brokers that take no part in a balance: those that the policy leaves out, and those that may receive nothing."""
    out = {*_left_out(sighting, policy), *_barred(sighting)}
    return tuple(broker for broker in sighting.load.brokers if broker in out)


def _left_out(sighting: Sighting, policy: KeeperPolicy) -> tuple[BrokerId, ...]:
    """Brokers that by the policy neither give nor take replicas.

    These are frozen, drained, replaced and demoted brokers, and brokers that take another broker's place, until they
    have done so. The planner itself knows the brokers that are dead or damaged.
    """
    intents = policy.intents
    named = {*policy.rails.frozen_brokers, *intents.drain, *intents.replace, *intents.demote}
    named |= reserved(sighting, policy)
    return tuple(broker for broker in sighting.load.brokers if broker in named)


def _barred(sighting: Sighting) -> set[BrokerId]:
    """Brokers that may receive nothing, as the planner judges it: dead, fenced, cordoned, or with a failed log dir."""
    return {sighting.load.brokers[at] for at in barred(sighting.load)}


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
    able = {each.id for each in sighting.inventory.brokers} - {*policy.rails.frozen_brokers} - _barred(sighting)
    return new if new in able else None


def balance_request(sighting: Sighting, policy: KeeperPolicy, band: float, aims: tuple[Resource, ...]) -> PlanRequest:
    """The request by which balance is judged and restored: both leave out the same frozen topics and brokers."""
    return PlanRequest(
        scope=Scope.REBALANCE,
        excluded_topics=tuple(sorted(frozen_topics(sighting, policy.rails))),
        excluded_brokers=_left_out(sighting, policy),
        band=band,
        aims=_by_importance(aims, policy),
        headroom=policy.balance.headroom,
        max_replicas=policy.balance.max_replicas,
    )


def _by_importance(aims: tuple[Resource, ...], policy: KeeperPolicy) -> tuple[Resource, ...]:
    """The aims in the order of the policy's goals; the planner gives up no earlier one for a later one."""
    first = [BANDS[goal] for goal in policy.balance.goals]
    return tuple(sorted(aims, key=lambda aim: first.index(aim) if aim in first else len(first)))


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
        return replace(request, offline=offline)
    if scope in (Scope.DRAIN, Scope.DEMOTE):
        return for_brokers(request, brokers)
    if scope is Scope.REPLACE:
        replacements = tuple(policy.intents.replace[broker] for broker in brokers)
        return replace(for_brokers(request, (*brokers, *replacements)), brokers=brokers, replacements=replacements)
    if scope is Scope.FILL:
        # A broker that is to get its share is filled too, so that no plan fills another one from it.
        able = {*sighting.load.brokers}.difference(kept_out(sighting, policy))
        return replace(request, brokers=tuple(sorted({*brokers, *able.intersection(policy.intents.add)})))
    if scope is Scope.TOPICS:
        return replace(request, wishes=tuple(sorted(wish for sign in signs for wish in sign.wishes)))
    if scope is Scope.EMPTY_DISKS:
        limit = policy.watches[Condition.DISK_FULL].end
        return replace(request, disk_limit=limit, headroom=1 - limit)
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


def for_brokers(request: PlanRequest, brokers: tuple[BrokerId, ...]) -> PlanRequest:
    """The request for these brokers, which it then does not exclude."""
    rest = tuple(broker for broker in request.excluded_brokers if broker not in brokers)
    return replace(request, brokers=brokers, excluded_brokers=rest)


def load_for(scope: Scope, sighting: Sighting, policy: KeeperPolicy) -> ClusterLoad:
    """The planner's input. For disks that will be too full, it has the sizes and capacities of that day (`load_ahead`)."""
    if scope is not Scope.FILLING_DISKS:
        return sighting.load
    days, most = policy.watches[Condition.DISK_RUNWAY].end, policy.watches[Condition.DISK_FULL].begin
    return load_ahead(sighting, days, most)


def scopes_of(conditions: Collection[Condition]) -> tuple[Scope, ...]:
    """Scopes that mend any of these conditions, the most urgent first."""
    return tuple(scope for scope, mended in MENDS.items() if set(mended) & set(conditions))
