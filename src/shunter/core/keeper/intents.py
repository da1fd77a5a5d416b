"""What operators asked the service for, beside the policy file: put together with it, or refused where they contradict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from shunter.core.keeper.requests import MENDS
from shunter.core.planning.request import Scope
from shunter.model.keeper import KeeperPolicy, Mode
from shunter.model.service import IntentKind, KeptIntent


def with_intents(policy: KeeperPolicy, kept: Iterable[KeptIntent]) -> KeeperPolicy:
    """The policy that holds: the file's, and what was asked for since. A replication factor of the latter goes first."""
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
        ),
        intents=replace(
            intents,
            drain=brokers(IntentKind.DRAIN, intents.drain),
            demote=brokers(IntentKind.DEMOTE, intents.demote),
            replication={**intents.replication, **asked},
        ),
    )


def contradiction(policy: KeeperPolicy, wanted: KeptIntent) -> str:
    """Why an intent can't stand beside those that hold; "": it can."""
    about = wanted.about
    if wanted.kind in (IntentKind.DRAIN, IntentKind.DEMOTE) and int(about) in policy.rails.frozen_brokers:
        return f"broker {about} is frozen, and nothing of a frozen broker changes: unfreeze it first"
    if wanted.kind is IntentKind.FREEZE_BROKER:
        for name, brokers in (("drained", policy.intents.drain), ("demoted", policy.intents.demote)):
            if int(about) in brokers:
                return f"broker {about} is to be {name}, and nothing of a frozen broker changes: take that back first"
    if wanted.kind is IntentKind.REPLICATION and wanted.value < 1:
        return f"topic {about}: {wanted.value} replicas: at least 1 is wanted"
    return ""


def quieted(policy: KeeperPolicy, scopes: Iterable[str]) -> KeeperPolicy:
    """The policy while these scopes are not to be proposed: what they mend is told, and others get their turn."""
    quiet = {condition for scope in scopes for condition in MENDS.get(Scope(scope), ())}
    if not quiet:
        return policy
    watches = {
        condition: replace(watch, mode=Mode.NOTIFY) if condition in quiet and policy.proposes(condition) else watch
        for condition, watch in policy.watches.items()
    }
    return replace(policy, watches=watches)
