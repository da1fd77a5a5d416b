"""Proposals that are kept: which become stale, which are new, which are approved, and which one is begun next.

A kept plan never changes. After each look it is either still valid as it was made, or it is stale; a new plan gets
another id. So the plan that is carried out is always the plan that was approved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from shunter.core.keeper.guards import held_back, not_now, remaining
from shunter.core.keeper.judgement import Judgement
from shunter.core.keeper.log_dirs import elsewhere
from shunter.core.keeper.people import account_of, approvals, approved_before
from shunter.core.keeper.proposals import Proposal, out_of_hard_bands, sizes_of, undone_next
from shunter.core.keeper.requests import MENDS, kept_out
from shunter.core.keeper.sighting import Sighting, after, frozen_topics, held_bytes, in_order
from shunter.core.keeper.words import held_by_word
from shunter.core.planning.request import ORDER_ALONE, Scope
from shunter.core.wording import counted, told_bytes
from shunter.model.keeper import Condition, GuardRails, KeeperPolicy, Mode
from shunter.model.partition import BrokerId, TopicPartition
from shunter.model.service import (
    UNBEGUN,
    BrokerEffect,
    KeptProposal,
    OrderRefused,
    PlannedChange,
    ProposalState,
    Refusal,
    Vote,
)

FILES_MS = 180_000
"""How long files of replicas that left a broker may stay on its disks: Kafka deletes them after a minute, by default."""
_REACHED_OR_NOT = {Scope.DRAIN.value, Scope.REPLACE.value, Scope.OFFLINE.value}
"""Scopes whose plans leave undone what rules and facts forbid, not what a band allows. So the counts can be compared."""
_BEGUN = (ProposalState.STARTING, ProposalState.RUNNING)
_OF_FILES = (Condition.DISK_FULL, Condition.DISK_RUNWAY, Condition.LOG_DIR_FULL, Condition.LOG_DIR_BAND)
"""Conditions that such files may keep up for a while after a plan."""


class Stand(NamedTuple):
    """Whether a kept plan may be carried out after a look. `stale`: why it no longer may; "": it may."""

    stale: str
    held_back: tuple[str, ...] = ()


def after_look(
    kept: Sequence[KeptProposal], sighting: Sighting, judgement: Judgement, policy: KeeperPolicy, cluster: str
) -> tuple[KeptProposal, ...]:
    """Decide what a look means for the proposals of a cluster.

    Args:
        kept: The open proposals.
        sighting: The cluster as seen.
        judgement: The judgement of the sighting by the same policy.
        policy: The policy with all intents.
        cluster: The cluster's name in the policy file.

    Returns:
        Proposals that changed, and at most one that is new.
    """
    seen = in_order(sighting)
    now_ms = seen.at_ms
    changed: list[KeptProposal] = []
    standing = {each.scope for each in kept if each.state in _BEGUN}
    for each in kept:
        if each.state is ProposalState.CARRIED_OUT:
            ended = after_its_plan(each, now_ms, judgement)
            if ended is None:
                standing.add(each.scope)
            else:
                changed.append(ended)
        if each.state not in UNBEGUN:
            continue
        stand = review(each, seen, judgement, policy)
        if stand.stale:
            changed.append(replace(each, state=ProposalState.STALE, changed_at_ms=now_ms, outcome=stand.stale))
            continue
        standing.add(each.scope)
        renewed = replace(each, held_back=stand.held_back, reasons=_reasons_now(each, judgement))
        renewed = _as_allowed(renewed, policy, now_ms)
        if renewed != each:
            changed.append(renewed)
    if not any(each.state in _BEGUN for each in kept):
        later = set(not_now(seen, policy.rails))
        first = next((each for each in judgement.proposals if each.changes and set(each.held_back) <= later), None)
        if first is not None and first.scope.value not in standing:
            made = keep(first, seen, cluster)
            stand = review(made, seen, judgement, policy)
            if not stand.stale:
                changed.append(_as_allowed(replace(made, held_back=stand.held_back), policy, now_ms))
    return tuple(changed)


def _reasons_now(proposal: KeptProposal, judgement: Judgement) -> tuple[str, ...]:
    """What asks for a proposal, by this look. A plan that a person asked for has a reason that stays."""
    holding = [each for each in judgement.holding if each.sign.subject.condition.value in proposal.conditions]
    chosen = [each for each in holding if each.lasted] or holding
    return tuple(each.sign.text for each in chosen) or proposal.reasons


def after_its_plan(proposal: KeptProposal, now_ms: int, judgement: Judgement) -> KeptProposal | None:
    """Say how a proposal ended whose plan was carried out, by a look; None: a later look will tell.

    It is done if no condition that asked for it holds any more. Otherwise its outcome says what holds, and what is next.
    """
    if now_ms <= proposal.changed_at_ms:
        return None  # The look began before the plan had ended.
    holding = [each.sign for each in judgement.holding if each.sign.subject.condition.value in proposal.conditions]
    if not holding:
        told = f"{proposal.outcome}; over: {', '.join(proposal.conditions)}"
        return replace(proposal, state=ProposalState.DONE, changed_at_ms=now_ms, outcome=told)
    late = now_ms - proposal.changed_at_ms < FILES_MS
    if late and all(sign.subject.condition in _OF_FILES for sign in holding):
        return None
    told = f"{proposal.outcome}, but {holding[0].subject.condition.label} still holds: {holding[0].text}"
    told += f" (and {len(holding) - 1} more)" if len(holding) > 1 else ""
    told = f"{told}; {_what_is_next(proposal.scope, judgement)}"
    return replace(proposal, state=ProposalState.PARTLY, changed_at_ms=now_ms, outcome=told)


def _what_is_next(scope: str, judgement: Judgement) -> str:
    """What a look proposes for the conditions of a scope, in words."""
    planned = next((each for each in judgement.proposals if each.scope.value == scope), None)
    if planned is None:
        return "nothing more is planned for it now"
    if planned.held_back:
        return f"the next plan waits: {planned.held_back[0]}"
    if planned.changes:
        return "another plan is proposed"
    return f"no plan mends it: {planned.undone[0]}" if planned.undone else "no plan mends it now"


def _as_allowed(proposal: KeptProposal, policy: KeeperPolicy, now_ms: int) -> KeptProposal:
    """Approve a proposal whose conditions may act; one whose conditions may no longer act waits for approval again."""
    acts = bool(proposal.conditions) and all(policy.mode(Condition(each)) is Mode.ACT for each in proposal.conditions)
    if acts and proposal.state is ProposalState.WAITING:
        return replace(proposal, acts=True, state=ProposalState.APPROVED, changed_at_ms=now_ms)
    if proposal.acts and not acts and proposal.state is ProposalState.APPROVED:
        return replace(proposal, acts=False, state=ProposalState.WAITING, changed_at_ms=now_ms)
    return proposal


def review(proposal: KeptProposal, seen: Sighting, judgement: Judgement, policy: KeeperPolicy) -> Stand:
    """Say whether a kept plan may still be carried out as it is. Pre: `seen` is in order."""
    scope = Scope(proposal.scope)
    stale = _elsewhere(proposal, seen) or _forbidden(proposal, seen, policy) or _not_wanted(proposal, judgement)
    stale = stale or _outdone(proposal, judgement)
    back = held_back(seen, scope, policy)
    # A plan on paper needs a cluster in which nothing is being moved.
    if not stale and not back and scope is not Scope.OFFLINE and not _was_tried(proposal, judgement, policy):
        subjects = [each.sign.subject for each in judgement.holding]
        stale = next(iter(undone_next(proposal.changes, seen, policy, subjects).values()), "")
    if stale:
        return Stand(stale)
    # A plan that a person asked for is a later word than the one that holds its scope back.
    words = held_by_word(scope, policy.rails, seen.at_ms) if proposal.conditions else ()
    hard = () if back else out_of_hard_bands(scope, proposal.changes, seen, policy)
    return Stand("", (*words, *back, *hard, *_too_much(proposal, seen, policy)))


def _was_tried(proposal: KeptProposal, judgement: Judgement, policy: KeeperPolicy) -> bool:
    """Whether this look has tried the same plan on paper already, as it does with the plan that is ready."""
    first = next((each for each in judgement.proposals if each.ready), None)
    return first is not None and first.changes == proposal.changes and judgement.policy == policy


def _elsewhere(proposal: KeptProposal, seen: Sighting) -> str:
    """Say why the cluster is not as it was planned from: name the first partition that is elsewhere, or gone."""
    if proposal.cluster_id != seen.inventory.cluster_id:
        return f"it was made for cluster {proposal.cluster_id}, and this is {seen.inventory.cluster_id}"
    under_way = seen.journal.open_moves | seen.check_up.ongoing.keys()
    now = {TopicPartition(each.topic, each.partition): each.replicas for each in seen.inventory.partitions}
    for change in proposal.changes:
        tp = TopicPartition(change.topic, change.partition)
        if tp not in now:
            return f"{tp} does not exist any more"
        if tuple(now[tp]) != change.original and tp not in under_way:
            return f"{tp} is at {list(now[tp])}, and was planned from {list(change.original)}"
    return "" if under_way & _partitions(proposal) else elsewhere(proposal.changes, seen.inventory.disks)


def _partitions(proposal: KeptProposal) -> set[TopicPartition]:
    return {TopicPartition(each.topic, each.partition) for each in proposal.changes}


def _not_wanted(proposal: KeptProposal, judgement: Judgement) -> str:
    holds = {each.sign.subject.condition.value for each in judgement.holding}
    if proposal.conditions and not holds & set(proposal.conditions):
        return f"nothing asks for it any more: {', '.join(proposal.conditions)} does not hold"
    return ""


def _outdone(proposal: KeptProposal, judgement: Judgement) -> str:
    """Why another plan is to take the place of one that nobody has approved: it leaves less undone; "": none does."""
    if proposal.state is not ProposalState.WAITING or proposal.scope not in _REACHED_OR_NOT or not proposal.undone:
        return ""
    now = next((each for each in judgement.proposals if each.scope.value == proposal.scope and each.ready), None)
    if now is None or len(now.undone) >= len(proposal.undone) or now.moves <= proposal.moves:
        return ""
    return f"a plan that leaves less undone is possible now: {counted(now.moves, 'replica')} to copy"


def _forbidden(proposal: KeptProposal, seen: Sighting, policy: KeeperPolicy) -> str:
    """Why a plan is forbidden now: it touches frozen topics or brokers, or brokers that take no replicas; "" if not."""
    frozen = frozen_topics(seen, policy.rails)
    live = {broker.id for broker in seen.inventory.brokers}
    out = set(kept_out(seen, policy))
    if Scope(proposal.scope) is Scope.REPLACE:
        # A broker that is to take another broker's place receives only that broker's replicas.
        unreserved = replace(policy, intents=replace(policy.intents, replace={}))
        out = {*kept_out(seen, unreserved), *policy.intents.replace}
    demoted = set(policy.intents.demote)
    for change in proposal.changes:
        if change.topic in frozen:
            return f"topic {change.topic} is frozen since"
        coming = set(change.replicas) - set(change.original)
        for broker in sorted(coming):
            if broker not in live:
                return f"broker {broker}, which is to get {change.topic}-{change.partition}, is not live"
            if broker in out - demoted:
                return f"broker {broker}, which is to get {change.topic}-{change.partition}, may no longer get replicas"
        copying = {each.broker for each in change.log_dirs}
        for broker in sorted(copying & out):
            return f"broker {broker}, whose log dirs are to be balanced, no longer takes part in balancing"
        touched = (coming | (set(change.original) - set(change.replicas))) & set(policy.rails.frozen_brokers)
        if touched:
            return f"broker {min(touched)} is frozen since"
        if change.replicas[0] in demoted and (change.elect or change.replicas[0] != change.original[0]):
            return f"broker {change.replicas[0]}, which is to lead {change.topic}-{change.partition}, is demoted since"
    return ""


def _too_much(proposal: KeptProposal, seen: Sighting, policy: KeeperPolicy) -> tuple[str, ...]:
    """Say if a plan exceeds what the bounds leave now: part of the day's bound may have been used since it was made."""
    if Scope(proposal.scope) in ORDER_ALONE:
        return ()
    allowed = remaining(seen, policy.rails)
    told: list[str] = []
    if allowed.moves is not None and proposal.moves > allowed.moves:
        told.append(f"it copies {counted(proposal.moves, 'replica')}, and the limits leave {allowed.moves:,}")
    if allowed.bytes is not None and proposal.bytes > allowed.bytes:
        told.append(f"it copies {told_bytes(proposal.bytes)}, and the limits leave {told_bytes(allowed.bytes)}")
    return tuple(told)


def keep(proposal: Proposal, seen: Sighting, cluster: str) -> KeptProposal:
    """Give a proposal an id, and work out what it would change. Pre: `seen` is in order."""
    changes = proposal.changes
    sizes = sizes_of(seen)
    dropped = [
        (TopicPartition(each.topic, each.partition), set(each.original) - set(each.replicas)) for each in changes
    ]
    now_ms, cluster_id = seen.at_ms, seen.inventory.cluster_id
    return KeptProposal(
        id=_id(proposal.scope, cluster_id, changes, now_ms),
        cluster=cluster,
        cluster_id=cluster_id,
        scope=proposal.scope.value,
        conditions=tuple(each.value for each in proposal.conditions),
        reasons=proposal.reasons,
        changes=changes,
        moves=proposal.moves,
        bytes=proposal.bytes,
        leader_changes=proposal.leader_changes,
        rollback_bytes=round(sum(len(gone) * sizes[tp] for tp, gone in dropped))
        + sum(each.bytes for change in changes for each in change.log_dirs),
        brokers=_effects(seen, after(seen, proposal.changes)),
        made_at_ms=now_ms,
        state=ProposalState.WAITING,
        changed_at_ms=now_ms,
        held_back=proposal.held_back,
        undone=proposal.undone,
        partitions=len(changes),
        least_bytes=proposal.least_bytes,
    )


def _id(scope: Scope, cluster_id: str, changes: Sequence[PlannedChange], now_ms: int) -> str:
    told = repr((cluster_id, scope.value, tuple(changes), now_ms)).encode()
    return f"{scope.value}-{hashlib.sha256(told).hexdigest()[:10]}"


def _effects(before: Sighting, later: Sighting) -> tuple[BrokerEffect, ...]:
    """Every broker's bytes, replicas and preferred leaders, before and after a plan."""
    old, new = _figures(before), _figures(later)
    return tuple(BrokerEffect(broker, old[broker], new[broker]) for broker in before.load.brokers)


def _figures(seen: Sighting) -> dict[BrokerId, tuple[int, int, int]]:
    """For each broker: bytes of replicas, the number of replicas, and of partitions whose preferred leader it is."""
    load, brokers = seen.load, len(seen.load.brokers)
    held = held_bytes(seen)
    replicas = np.bincount(load.replicas[load.replicas >= 0], minlength=brokers).tolist()
    leaders = np.bincount(load.replicas[:, 0], minlength=brokers).tolist()
    return {
        broker: (round(held[broker]), int(replicas[at]), int(leaders[at])) for at, broker in enumerate(load.brokers)
    }


def voted(proposal: KeptProposal, vote: Vote, rails: GuardRails) -> KeptProposal:
    """A proposal after a person approved or declined it. It is approved once so many people did as the rails want.

    Raises:
        OrderRefused: the proposal is stale or decided already, or this person has approved it before.
    """
    state = proposal.state
    if state is ProposalState.STALE:
        raise OrderRefused(Refusal.STALE, f"{proposal.id} is stale: {proposal.outcome}")
    if state not in UNBEGUN or (vote.approves and state is ProposalState.APPROVED):
        told = f"{proposal.id} is {state.told} already"
        way_out = "; `stop` and `rollback` turn what is under way" if state in _BEGUN else ""
        raise OrderRefused(Refusal.ALREADY_DECIDED, told + way_out)
    before = approved_before(proposal.votes, vote, rails.people) if vote.approves else None
    if before is not None:
        as_other = "" if before.who == vote.who else f" as {account_of(before)}"
        told = (
            f"{vote.who} has approved {proposal.id} already{as_other}, and {rails.approvals} different people have to"
        )
        raise OrderRefused(Refusal.ALREADY_DECIDED, told)
    votes = (*proposal.votes, vote)
    if not vote.approves:
        outcome = f"declined by {vote.who}" + (f": {vote.comment}" if vote.comment else "")
        return replace(proposal, votes=votes, state=ProposalState.DECLINED, changed_at_ms=vote.at_ms, outcome=outcome)
    if approvals(votes, rails.people) < rails.approvals:
        return replace(proposal, votes=votes)
    return replace(proposal, votes=votes, state=ProposalState.APPROVED, changed_at_ms=vote.at_ms)


def next_to_begin(kept: Sequence[KeptProposal]) -> KeptProposal | None:
    """The approved proposal that is begun now: nothing holds it back, and no other one is under way."""
    if any(each.state in _BEGUN for each in kept):
        return None
    places = {scope.value: at for at, scope in enumerate(MENDS)}
    able = [each for each in kept if each.state is ProposalState.APPROVED and not each.held_back]
    return min(able, key=lambda each: (places.get(each.scope, len(places)), each.made_at_ms), default=None)
