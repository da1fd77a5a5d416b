"""A plan that a person asks for: planned as the keeper plans, within the same guard rails and intents."""

from __future__ import annotations

from dataclasses import replace

from shunter.core.keeper.docket import keep, review
from shunter.core.keeper.guards import held_back
from shunter.core.keeper.intents import contradiction, named_by, with_intents
from shunter.core.keeper.judgement import judge
from shunter.core.keeper.proposals import Proposal, copied, planned_for
from shunter.core.keeper.requests import BANDS, MENDS, balance_request, for_brokers, log_dirs_request
from shunter.core.keeper.sighting import Sighting, in_order
from shunter.core.planning.request import PlanRefused, PlanRequest, Scope
from shunter.core.planning.wishes import picked_wishes
from shunter.core.wording import gathered
from shunter.model.inventory import TopicWish
from shunter.model.keeper import Condition, KeeperPolicy, Memory, Mode
from shunter.model.service import IntentKind, KeptIntent, KeptProposal, OrderRefused, Refusal, ServiceOrder

WISHES = (
    "rebalance",
    "offline",
    "leaders",
    "fix-racks",
    "fill",
    "drain",
    "demote",
    "replace",
    "topics",
    "move",
    "disks",
)
"""Scopes that a person may ask for. `move` moves partitions and topics that were picked by hand: a plan of `topics`."""
_NAMING = ("brokers", "replacements", "topics", "replicas", "partitions", "to")
_TAKES = {
    "fill": ("brokers",),
    "drain": ("brokers",),
    "demote": ("brokers",),
    "disks": ("brokers",),
    "replace": ("replacements",),
    "topics": ("topics", "replicas"),
    "move": ("partitions", "to"),
}
"""The fields by which an order says what a plan of a scope is about; a scope that is not here takes none."""
_AS = {
    "fill": "7",
    "drain": "3",
    "demote": "3",
    "replace": "3=7",
    "topics": "orders --replicas 3",
    "move": "orders-3 --to 4,5,6",
}
PLANNED = (IntentKind.DRAIN, IntentKind.REPLACE, IntentKind.DEMOTE, IntentKind.ADD, IntentKind.REPLICATION)
"""Intents that ask for a plan; each has the name of the condition that holds because of it."""


def wished(order: ServiceOrder, sighting: Sighting, policy: KeeperPolicy, cluster: str, who: str) -> KeptProposal:
    """Plan what a person asks for.

    Args:
        order: The scope; brokers (fill, drain, demote; disks: none means all), replacements (replace), topics and
            replicas (topics), or partitions and the brokers that may hold them (move); and rules.
        sighting: The last look.
        policy: The policy with all intents. Rules narrow its guard rails, and never widen them.
        cluster: The cluster's name in the policy file.
        who: The person who asks.

    Raises:
        OrderRefused: there is no such scope, a broker or topic that it names does not exist, or nothing would change.
    """
    seen, asked = in_order(sighting), " ".join(order.about)
    _see_known(order.without_brokers, seen)
    policy = narrowed(policy, order)
    request = _request(order, seen, policy)
    if order.band_percent is not None:
        request = replace(request, band=order.band_percent / 100)
    planned = planned_for(request, seen, policy)
    changes, undone = planned.changes, planned.undone
    scope = request.scope
    if not changes:
        told = "; ".join(gathered(undone)) or "everything is as it is asked for"
        raise OrderRefused(Refusal.NOT_ALLOWED, f"{asked}: there is nothing to move: {told}")
    moves, size = copied(changes, seen)
    proposal = Proposal(
        scope=scope,
        mode=Mode.PROPOSE,
        conditions=(),
        reasons=(f"{who} asked for: {asked}",),
        changes=changes,
        moves=moves,
        bytes=size,
        leader_changes=sum(each.elect or each.replicas[0] != each.original[0] for each in changes),
        undone=undone,
        held_back=held_back(seen, scope, policy),
        least_bytes=planned.least_bytes,
    )
    made = keep(proposal, seen, cluster)
    stand = review(made, seen, judge(seen, policy, Memory(seen.inventory.cluster_id, seen.at_ms)), policy)
    if stand.stale:
        raise OrderRefused(Refusal.NOT_ALLOWED, f"{asked}: {stand.stale}")
    return replace(made, held_back=stand.held_back)


def intended(
    order: ServiceOrder, sighting: Sighting, policy: KeeperPolicy, cluster: str, memory: Memory | None
) -> KeptProposal:
    """The proposal that the next observation makes if an intent is given now and nothing else changes.

    Args:
        order: The order that gives it.
        sighting: The last look.
        policy: The policy with all intents that are in force.
        cluster: The cluster's name in the policy file.
        memory: What the last look left.

    Raises:
        OrderRefused: there is no such intent, others contradict it, or nothing would be proposed for it; it says why.
    """
    seen, told, kind = in_order(sighting), " ".join(order.about), order.intent
    if kind not in PLANNED:
        names = ", ".join(each.value for each in PLANNED)
        raise OrderRefused(Refusal.INVALID, f"{told}: is no intent with a plan: one of {names} is wanted")
    wanted = tuple(KeptIntent(*each, "", seen.at_ms) for each in named_by(order))
    against = contradiction(policy, *wanted)
    if against:
        raise OrderRefused(Refusal.NOT_ALLOWED, against)
    policy = with_intents(policy, wanted)
    judgement = judge(seen, policy, memory)
    condition = Condition(kind.value)
    made = next((each for each in judgement.proposals if condition in MENDS[each.scope]), None)
    if made is None:
        holds = next((each for each in judgement.holding if each.sign.subject.condition is condition), None)
        why = "everything is as it is asked for" if holds is None else "the policy only lets it be reported"
        raise OrderRefused(Refusal.NOT_ALLOWED, f"{told}: there is nothing to move: {why}")
    if not made.changes:
        why = "; ".join((*made.held_back, *gathered(made.undone))) or "the planner finds nothing"
        raise OrderRefused(Refusal.NOT_ALLOWED, f"{told}: {why}")
    kept = keep(made, seen, cluster)
    stand = review(kept, seen, judgement, policy)
    if stand.stale:
        raise OrderRefused(Refusal.NOT_ALLOWED, f"{told}: {stand.stale}")
    return replace(kept, held_back=tuple(dict.fromkeys((*made.held_back, *stand.held_back))))


def narrowed(policy: KeeperPolicy, order: ServiceOrder) -> KeeperPolicy:
    """The policy with the caps of an order, and with what it leaves out."""
    rails = policy.rails
    size = None if order.most_gigabytes is None else round(order.most_gigabytes * 10**9)
    return replace(
        policy,
        rails=replace(
            rails,
            moves=_least(rails.moves, order.most_moves),
            bytes=_least(rails.bytes, size),
            frozen_brokers=(*rails.frozen_brokers, *order.without_brokers),
            frozen_topics=(*rails.frozen_topics, *order.without_topics),
        ),
    )


def _least(before: int | None, asked: int | None) -> int | None:
    return asked if before is None else before if asked is None else min(before, asked)


def _request(order: ServiceOrder, seen: Sighting, policy: KeeperPolicy) -> PlanRequest:
    scope, brokers = order.scope, order.brokers
    if scope not in WISHES:
        raise OrderRefused(Refusal.INVALID, f"{scope!r} is no scope: one of {', '.join(WISHES)} is wanted")
    taken = _TAKES.get(scope, ())
    strange = [name for name in _NAMING if name not in taken and getattr(order, name)]
    missing = [name for name in taken if not getattr(order, name) and scope != "disks"]
    if strange:
        raise OrderRefused(Refusal.INVALID, f"{scope} takes no {strange[0]}: leave them out")
    if missing:
        raise OrderRefused(Refusal.INVALID, f"{scope}: {' and '.join(taken)} are wanted, for instance {_AS[scope]}")
    old, new = tuple(each[0] for each in order.replacements), tuple(each[1] for each in order.replacements)
    _see_known((*brokers, *old, *new, *order.to), seen)
    if scope == "disks":
        return log_dirs_request(seen, policy, brokers or tuple(each.broker for each in seen.inventory.disks))
    band = min(policy.watches[each].end for each in BANDS)
    known = Scope.TOPICS if scope == "move" else Scope(scope)
    request = replace(balance_request(seen, policy, band, tuple(BANDS.values())), scope=known)
    if scope == "move":
        return replace(request, wishes=_picked(order.partitions, order.to, seen))
    if scope in ("fill", "drain", "demote"):
        return for_brokers(request, brokers)
    if scope == "replace":
        return replace(for_brokers(request, (*old, *new)), brokers=old, replacements=new)
    if scope == "topics":
        return replace(request, wishes=tuple(_wish(each, order.replicas or 0, seen) for each in order.topics))
    return request


def _picked(items: tuple[str, ...], brokers: tuple[int, ...], seen: Sighting) -> tuple[TopicWish, ...]:
    known = {(each.topic, each.partition) for each in seen.inventory.partitions}
    try:
        return picked_wishes(items, brokers, known)
    except PlanRefused as error:
        raise OrderRefused(Refusal.NOT_FOUND, str(error)) from error


def _see_known(brokers: tuple[int, ...], seen: Sighting) -> None:
    registered = (*seen.inventory.brokers, *seen.inventory.fenced)
    known = sorted({*seen.load.brokers, *(broker.id for broker in registered)})
    for broker in brokers:
        if broker not in known:
            told = f"there is no broker {broker}; there are {', '.join(map(str, known))}"
            raise OrderRefused(Refusal.NOT_FOUND, told)


def _wish(topic: str, replicas: int, seen: Sighting) -> TopicWish:
    if topic not in seen.load.topics:
        raise OrderRefused(Refusal.NOT_FOUND, f"there is no topic {topic!r}")
    return TopicWish(topic, replication=replicas)
