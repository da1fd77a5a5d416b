"""A plan that a person asks for: planned as the keeper plans, within the same guard rails and intents."""

from __future__ import annotations

from dataclasses import replace

from shunter.core.keeper.docket import keep, review
from shunter.core.keeper.guards import held_back
from shunter.core.keeper.intents import contradiction, with_intents
from shunter.core.keeper.judgement import judge
from shunter.core.keeper.proposals import Proposal, copied, planned_for
from shunter.core.keeper.requests import BANDS, MENDS, balance_request, for_brokers, log_dirs_request
from shunter.core.keeper.rules import split_rules
from shunter.core.keeper.sighting import Sighting, in_order
from shunter.core.planning.request import PlanRequest, Scope
from shunter.model.inventory import TopicWish
from shunter.model.keeper import Condition, KeeperPolicy, Memory, Mode
from shunter.model.service import IntentKind, KeptIntent, KeptProposal, OrderRefused, Refusal

WISHES = ("rebalance", "leaders", "fix-racks", "fill", "drain", "demote", "replace", "topics", "move", "disks")
"""Scopes that a person may ask for. `move` moves partitions and topics that were picked by hand: a plan of `topics`."""
_WITH_BROKERS = ("fill", "drain", "demote")
_PLANNED = {
    each.value: each
    for each in (IntentKind.DRAIN, IntentKind.REPLACE, IntentKind.DEMOTE, IntentKind.ADD, IntentKind.REPLICATION)
}
"""Intents that ask for a plan; each has the name of the condition that holds because of it."""


def wished(
    about: tuple[str, ...], replicas: int | None, sighting: Sighting, policy: KeeperPolicy, cluster: str, who: str
) -> KeptProposal:
    """Plan what a person asks for.

    Args:
        about: The scope; then brokers (fill, drain, demote; disks: none means all), pairs OLD=NEW (replace), or topics
            (topics); topics and partitions, and the brokers that may hold them as `to=4,5,6` (move). Rules may stand among them, as `band=5` (`rules.RULES`).
        replicas: How many replicas each of the topics shall have.
        sighting: The last look.
        policy: The policy with all intents.
        cluster: The cluster's name in the policy file.
        who: The person who asks.

    Raises:
        OrderRefused: there is no such scope, a broker or topic that it names does not exist, or nothing would change.
    """
    seen = in_order(sighting)
    items, rules = split_rules(about)
    policy = rules.narrowed(policy)
    for broker in rules.brokers:
        _broker(str(broker), seen)
    request = _request(items, replicas, seen, policy, rules.to)
    planned = planned_for(rules.applied(request), seen, policy)
    changes, undone = planned.changes, planned.undone
    scope = request.scope
    if not changes:
        told = "; ".join(undone) or "everything is as it is asked for"
        raise OrderRefused(Refusal.NOT_ALLOWED, f"{' '.join(about)}: there is nothing to move: {told}")
    moves, size = copied(changes, seen)
    proposal = Proposal(
        scope=scope,
        mode=Mode.PROPOSE,
        conditions=(),
        reasons=(f"{who} asked for: {' '.join(about)}",),
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
        raise OrderRefused(Refusal.NOT_ALLOWED, f"{' '.join(about)}: {stand.stale}")
    return replace(made, held_back=stand.held_back)


def intended(
    about: tuple[str, ...],
    value: int | None,
    sighting: Sighting,
    policy: KeeperPolicy,
    cluster: str,
    memory: Memory | None,
) -> KeptProposal:
    """The proposal that the next observation makes if an intent is given now and nothing else changes.

    Args:
        about: The intent's kind and what it is about, as `drain 3`.
        value: The broker that takes over (replace), or how many replicas (replication).
        sighting: The last look.
        policy: The policy with all intents that are in force.
        cluster: The cluster's name in the policy file.
        memory: What the last look left.

    Raises:
        OrderRefused: there is no such intent, others contradict it, or nothing would be proposed for it; it says why.
    """
    seen, told = in_order(sighting), " ".join(about)
    kind, name = _PLANNED.get(about[0]) if about else None, about[1] if len(about) == 2 else ""
    by_name = kind is IntentKind.REPLICATION
    if kind is None or not name or not (by_name or name.isdecimal()):
        raise OrderRefused(
            Refusal.INVALID, f"{told!r} is no intent with a plan: one of {', '.join(_PLANNED)}, and a name"
        )
    wanted = KeptIntent(kind, name, value or 0, "", seen.at_ms)
    against = contradiction(policy, wanted)
    if against:
        raise OrderRefused(Refusal.NOT_ALLOWED, against)
    policy = with_intents(policy, (wanted,))
    judgement = judge(seen, policy, memory)
    condition = Condition(kind.value)
    made = next((each for each in judgement.proposals if condition in MENDS[each.scope]), None)
    if made is None:
        holds = next((each for each in judgement.holding if each.sign.subject.condition is condition), None)
        why = "everything is as it is asked for" if holds is None else "the policy only lets it be reported"
        raise OrderRefused(Refusal.NOT_ALLOWED, f"{told}: there is nothing to move: {why}")
    if not made.changes:
        why = "; ".join(made.undone or made.held_back) or "the planner finds nothing"
        raise OrderRefused(Refusal.NOT_ALLOWED, f"{told}: {why}")
    kept = keep(made, seen, cluster)
    stand = review(kept, seen, judgement, policy)
    if stand.stale:
        raise OrderRefused(Refusal.NOT_ALLOWED, f"{told}: {stand.stale}")
    return replace(kept, held_back=tuple(dict.fromkeys((*made.held_back, *stand.held_back))))


def _request(
    about: tuple[str, ...], replicas: int | None, seen: Sighting, policy: KeeperPolicy, to: tuple[int, ...]
) -> PlanRequest:
    scope, items = about[0] if about else "", about[1:]
    if scope not in WISHES:
        raise OrderRefused(Refusal.INVALID, f"{scope!r} is no scope: one of {', '.join(WISHES)} is wanted")
    if scope == "disks":
        brokers = tuple(_broker(each, seen) for each in items)
        return log_dirs_request(seen, policy, brokers or tuple(each.broker for each in seen.inventory.disks))
    band = min(policy.watches[each].end for each in BANDS)
    known = Scope.TOPICS if scope == "move" else Scope(scope)
    request = replace(balance_request(seen, policy, band, tuple(BANDS.values())), scope=known)
    if scope == "move":
        return replace(request, wishes=_picked(items, to, seen))
    if scope in _WITH_BROKERS:
        brokers = tuple(_broker(each, seen) for each in items)
        if not brokers:
            raise OrderRefused(Refusal.INVALID, f"{scope}: name at least one broker")
        return for_brokers(request, brokers)
    if scope == "replace":
        pairs = [each.partition("=") for each in items]
        if not pairs:
            raise OrderRefused(Refusal.INVALID, "replace: OLD=NEW is wanted, as 3=7")
        old = tuple(_broker(each[0], seen) for each in pairs)
        new = tuple(_broker(each[2], seen) for each in pairs)
        return replace(for_brokers(request, (*old, *new)), brokers=old, replacements=new)
    if scope == "topics":
        return replace(request, wishes=tuple(_wish(each, replicas, seen) for each in items))
    if items:
        raise OrderRefused(Refusal.INVALID, f"{scope} takes no names: {' '.join(items)}")
    return request


def _picked(items: tuple[str, ...], to: tuple[int, ...], seen: Sighting) -> tuple[TopicWish, ...]:
    """Wishes for topics and partitions that were picked by hand: their replicas go to these brokers."""
    if not items or not to:
        raise OrderRefused(
            Refusal.INVALID, "move: topics or partitions are wanted, and brokers: move orders-3 to=4,5,6"
        )
    brokers = tuple(_broker(str(each), seen) for each in to)
    known = {(each.topic, each.partition) for each in seen.inventory.partitions}
    whole: set[str] = set()
    picked: dict[str, set[int]] = {}
    for item in items:
        topic, _, number = item.rpartition("-")
        if item in seen.load.topics:  # A topic may have the name that a partition of another topic has.
            whole.add(item)
        elif number.isdecimal() and (topic, int(number[:10])) in known:
            picked.setdefault(topic, set()).add(int(number))
        else:
            raise OrderRefused(Refusal.NOT_FOUND, f"move: there is no topic and no partition {item!r}")
    parts = {**{topic: tuple(sorted(numbers)) for topic, numbers in picked.items()}, **dict.fromkeys(whole, ())}
    return tuple(TopicWish(topic, brokers=brokers, partitions=parts[topic]) for topic in sorted(parts))


def _broker(name: str, seen: Sighting) -> int:
    known = sorted({*seen.load.brokers, *(broker.id for broker in seen.inventory.brokers)})
    if not name.isdecimal() or int(name) not in known:
        raise OrderRefused(Refusal.NOT_FOUND, f"there is no broker {name!r}; there are {', '.join(map(str, known))}")
    return int(name)


def _wish(topic: str, replicas: int | None, seen: Sighting) -> TopicWish:
    if topic not in seen.load.topics:
        raise OrderRefused(Refusal.NOT_FOUND, f"there is no topic {topic!r}")
    if replicas is None or replicas < 1:
        raise OrderRefused(Refusal.INVALID, f"topics {topic}: how many replicas? At least 1 is wanted")
    return TopicWish(topic, replication=replicas)
