"""Intents that operators gave to the service: merged with the policy file, or refused if they contradict it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from shunter.core.keeper.requests import MENDS
from shunter.core.keeper.words import hold_of
from shunter.core.wording import counted
from shunter.model.execution import MoveOrder
from shunter.model.keeper import KeeperPolicy
from shunter.model.service import IntentKind, KeptIntent, OrderRefused, Refusal, ServiceOrder


def with_intents(policy: KeeperPolicy, kept: Iterable[KeptIntent]) -> KeeperPolicy:
    """The policy in force: the file's, and intents given since. Replication factors given since override the file's."""
    rails, intents = policy.rails, policy.intents
    by_kind: dict[IntentKind, list[KeptIntent]] = {kind: [] for kind in IntentKind}
    for each in kept:
        by_kind[each.kind].append(each)

    def brokers(kind: IntentKind, named: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted({*named, *(int(each.about) for each in by_kind[kind])}))

    topics = {*rails.frozen_topics, *(each.about for each in by_kind[IntentKind.FREEZE_TOPIC])}
    asked = {each.about: each.value for each in by_kind[IntentKind.REPLICATION]}
    return replace(
        policy,
        rails=replace(
            rails,
            frozen_topics=tuple(sorted(topics)),
            frozen_brokers=brokers(IntentKind.FREEZE_BROKER, rails.frozen_brokers),
            holds=(*rails.holds, *map(hold_of, by_kind[IntentKind.HOLD])),
        ),
        intents=replace(
            intents,
            drain=brokers(IntentKind.DRAIN, intents.drain),
            demote=brokers(IntentKind.DEMOTE, intents.demote),
            replace={**intents.replace, **{int(each.about): each.value for each in by_kind[IntentKind.REPLACE]}},
            add=brokers(IntentKind.ADD, intents.add),
            replication={**intents.replication, **asked},
        ),
    )


_ABOUT_BROKERS = (IntentKind.DRAIN, IntentKind.DEMOTE, IntentKind.ADD, IntentKind.FREEZE_BROKER)
_WANTED = {
    IntentKind.REPLACE: "brokers and their replacements are wanted, as 3=7",
    IntentKind.REPLICATION: "topics are wanted, and how many replicas each shall have",
    IntentKind.HOLD: "a scope is wanted, as rebalance",
    IntentKind.FREEZE_TOPIC: "topics are wanted, or patterns with * and ?",
} | dict.fromkeys(_ABOUT_BROKERS, "brokers are wanted, as 3")


def named_by(order: ServiceOrder, *, gives: bool = True) -> tuple[tuple[IntentKind, str, int], ...]:
    """(kind, what it is about, value) of each intent that an order gives, or withdraws.

    Raises:
        OrderRefused: it names none.
    """
    kind = order.intent
    if kind is None:
        told = f"{order.kind.value}: an intent is wanted: {', '.join(each.value for each in IntentKind)}"
        raise OrderRefused(Refusal.INVALID, told)
    found: list[tuple[str, int]] = []
    if kind in _ABOUT_BROKERS or (kind is IntentKind.REPLACE and not gives):
        found = [(str(each), 0) for each in order.brokers]
    elif kind is IntentKind.REPLACE:
        found = [(str(old), new) for old, new in order.replacements]
    elif kind is IntentKind.HOLD:
        found = [(order.scope, 0)] if order.scope else []
    elif kind is IntentKind.FREEZE_TOPIC or not gives or order.replicas is not None:
        found = [(each, order.replicas or 0) for each in order.topics]
    if not found:
        wanted = "brokers are wanted, as 3" if kind is IntentKind.REPLACE and not gives else _WANTED[kind]
        raise OrderRefused(Refusal.INVALID, f"{' '.join((order.kind.value, *order.about))}: {wanted}")
    return tuple((kind, *each) for each in dict(found).items())


def told_against(kept: Iterable[KeptIntent], moves: Collection[MoveOrder]) -> Iterator[str]:
    """Which intents of a service take back what moves of somebody else bring to brokers: each with the way out."""
    for each in kept:
        kind, who = each.kind.value, each.about
        if each.kind in (IntentKind.DRAIN, IntentKind.REPLACE):
            come = sum(int(who) in move.target and int(who) not in move.planned_from for move in moves)
            what = counted(come, "replica")
        elif each.kind is IntentKind.DEMOTE:
            come = sum(move.target[:1] == (int(who),) != move.planned_from[:1] for move in moves)
            what = f"the lead of {counted(come, 'partition')}"
        else:
            continue
        if come:
            meant = f"broker {who} gets {what}, and a service has the intent to {kind} it (by {each.who})"
            yield f"{meant}: it takes that away again; `shunter withdraw {kind} {who}` ends the intent"


_AGAINST: Mapping[IntentKind, tuple[str, ...]] = MappingProxyType(
    {
        IntentKind.DRAIN: ("frozen", "to be replaced", "to take another one's place", "to get its share"),
        IntentKind.DEMOTE: ("frozen", "to take another one's place", "to get its share"),
        IntentKind.REPLACE: ("frozen", "to be drained", "to take another one's place", "to get its share"),
        IntentKind.ADD: ("frozen", "to be drained", "to be demoted", "to be replaced"),
        IntentKind.FREEZE_BROKER: (
            "to be drained", "to be demoted", "to be replaced", "to take another one's place", "to get its share",
        ),
    }
)  # fmt: skip
"""Roles that a broker must not have already, by the intent that is asked for."""
_AGAINST_NEW = ("frozen", "to be drained", "to be demoted", "to be replaced", "to take another one's place")
"""Roles that a broker must not have already if it is to take another broker's place."""


def contradiction(policy: KeeperPolicy, *wanted: KeptIntent) -> str:
    """Why intents contradict those that hold, or one another; "" if they do not."""
    for each in wanted:
        against = _contradiction(policy, each)
        if against:
            return against
        policy = with_intents(policy, (each,))
    return ""


def _contradiction(policy: KeeperPolicy, wanted: KeptIntent) -> str:
    if wanted.kind is IntentKind.REPLICATION:
        told = f"topic {wanted.about}: {counted(wanted.value or 0, 'replica')}: at least 1 is wanted"
        return told if wanted.value < 1 else ""
    if wanted.kind is IntentKind.HOLD:
        scopes = [scope.value for scope in MENDS]
        return "" if wanted.about in scopes else f"{wanted.about!r} is no scope: {', '.join(scopes)} are"
    if wanted.kind not in _AGAINST:
        return ""
    broker = int(wanted.about)
    against = _against(policy, broker, _AGAINST[wanted.kind])
    if wanted.kind is not IntentKind.REPLACE or against:
        return against
    if wanted.value == broker:
        return f"broker {broker} can't take its own place: name another one"
    others = {old: new for old, new in policy.intents.replace.items() if old != broker}
    return _against(replace(policy, intents=replace(policy.intents, replace=others)), wanted.value, _AGAINST_NEW)


def _against(policy: KeeperPolicy, broker: int, roles: Sequence[str]) -> str:
    intents = policy.intents
    meant: dict[str, Collection[int]] = {
        "frozen": policy.rails.frozen_brokers,
        "to be drained": intents.drain,
        "to be demoted": intents.demote,
        "to be replaced": intents.replace.keys(),
        "to take another one's place": intents.replace.values(),
        "to get its share": intents.add,
    }
    role = next((each for each in roles if broker in meant[each]), "")
    if role == "frozen":
        return f"broker {broker} is frozen, and nothing of a frozen broker changes: withdraw that first"
    return f"broker {broker} is {role}: withdraw that first" if role else ""
