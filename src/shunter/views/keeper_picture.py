"""A cluster at the last observation, as page and API show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shunter.core.keeper.cluster_facts import Age, ClusterFacts, ClusterObservation, Held, OpenExecution, ServiceRole
from shunter.core.keeper.judgement import Judgement
from shunter.core.keeper.memory import Holding
from shunter.core.keeper.requests import scopes_of
from shunter.core.keeper.runway import DiskRunway
from shunter.core.keeper.sighting import Sighting, external, no_end
from shunter.core.keeper.signs import under_min_isr
from shunter.core.keeper.situation import ClusterSeverity, doing_about, severity_of, situation, unseen, worst
from shunter.core.keeper.words import held_by_word
from shunter.core.quorum import needs
from shunter.core.wording import counted, gathered, named, told_brokers
from shunter.model.check_up import MOVES, QUORUM
from shunter.model.inventory import BrokerFacts, InventoryPartition
from shunter.model.keeper import MENDED, Condition, KeeperPolicy, Mode
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.service import IntentKind, KeptIntent, KillSwitch, OrderKind, ProposalState
from shunter.views.contents import topics_of
from shunter.views.execution import OPEN_STATES, ExecutionView, told_eta
from shunter.views.keeper import view_condition, view_proposal
from shunter.views.service import (
    EXTERNAL,
    MOST_FLOWS,
    MOST_NAMED,
    MOST_TOPICS,
    OURS,
    UNKNOWN,
    FleetRow,
    FleetView,
    FlowView,
    KeptBrokerView,
    KeptClusterView,
    KeptConditionView,
    MovesView,
    MoveView,
)


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """The result of the last look at a cluster."""

    sighting: Sighting
    judgement: Judgement
    policy: KeeperPolicy
    """The policy with all intents."""
    runway: DiskRunway


@dataclass(frozen=True, slots=True)
class Surrounding:
    """What is known of a cluster beside its page of the last observation."""

    facts: ClusterFacts
    intents: tuple[KeptIntent, ...] = ()
    execution: ExecutionView | None = None
    """None: this service does not drive the cluster."""


def dressed(page: KeptClusterView, around: Surrounding) -> KeptClusterView:
    """The page of a cluster with the parts that change between two observations. Cheap, whatever the cluster's size."""
    facts = around.facts
    execution = around.execution if around.execution is not None and around.execution.running else None
    stands = situation(facts)
    row = replace(
        page.row,
        situation=stands,
        moves_open=None if stands.moves is Age.UNKNOWN else facts.open_moves,
        share=None if execution is None else execution.share,
        left_ms=None if execution is None or execution.held else execution.left_ms,
        proposals_waiting=sum(each.state is ProposalState.WAITING for each in facts.proposals),
        paused=facts.paused,
        intents=tuple(map(_told_intent, around.intents)),
    )
    receives, gives = _traffic(execution)
    brokers = tuple(replace(each, receives=receives[each.id], gives=gives[each.id]) for each in page.brokers)
    held = () if facts.observation is None else facts.observation.conditions
    conditions = tuple(
        replace(each, doing=doing_about(why, facts)) for each, why in zip(page.conditions, held, strict=True)
    )
    return replace(
        page, row=row, brokers=brokers, intents=around.intents, conditions=conditions, flows=_flows(execution)
    )


def _told_intent(intent: KeptIntent) -> str:
    valued = intent.kind in (IntentKind.REPLACE, IntentKind.REPLICATION)
    return f"{intent.kind.value} {intent.about}{f'={intent.value}' if valued else ''}"


@dataclass(frozen=True, slots=True)
class FleetAround:
    """What is known of the fleet beside its clusters' rows."""

    instance: str
    switch: KillSwitch | None = None
    orders: tuple[OrderKind, ...] = ()
    why_not: str = ""
    store_trouble: str = ""
    policy_trouble: str = ""


_TROUBLE = (ClusterSeverity.CRITICAL, ClusterSeverity.WARNING)


def view_fleet(version: int, at_ms: int, rows: tuple[FleetRow, ...], around: FleetAround) -> FleetView:
    """The fleet: its clusters, and how all of them stand in a sentence."""
    troubled = bool(around.store_trouble or around.policy_trouble)
    severity = worst([*(row.situation.severity for row in rows), *([ClusterSeverity.WARNING] if troubled else [])])
    bad = [row.name for severity in _TROUBLE for row in rows if row.situation.severity is severity]
    told = f"{counted(len(bad), 'cluster needs', 'clusters need')} attention: {named(bad)}" if bad else ""
    theirs = tuple(row.name for row in rows if row.situation.role is ServiceRole.STANDBY)
    return FleetView(
        version=version,
        at_ms=at_ms,
        instance=around.instance,
        clusters=rows,
        severity=severity,
        headline=told or f"no cluster of {counted(len(rows), 'cluster')} needs attention",
        orders=around.orders,
        why_not=around.why_not,
        paused=around.switch,
        not_paused=theirs if around.switch is not None else (),
        store_trouble=around.store_trouble,
        policy_trouble=around.policy_trouble,
    )


def facts_of_execution(view: ExecutionView) -> OpenExecution:
    """What a situation needs to know of the execution that this service drives."""
    return OpenExecution(
        _open_count(view),
        view.counts.get("paused", 0),
        sum(bool(row.stuck) for row in view.moves if row.state in OPEN_STATES),
        view.at_ms - view.silent_ms if view.silent_ms else None,
        next((f"{row.partition}: {row.stuck}" for row in view.moves if row.stuck and row.state in OPEN_STATES), ""),
        sum(row.state == "paused" and row.step is not None and not row.stuck for row in view.moves),
        *(sum(row.direction == way and row.state in OPEN_STATES for row in view.moves) for way in ("back", "stop")),
    )


def observation_of(seen: SeenCluster) -> ClusterObservation:
    """What a situation needs to know of an observation. Cost: O(partitions)."""
    sighting = seen.sighting
    partitions = sighting.inventory.partitions
    empty = emptied(sighting, seen.policy)
    return ClusterObservation(
        at_ms=sighting.at_ms,
        offline=sum(each.leader < 0 for each in partitions),
        under_min_isr=sum(each.under_min_isr for each in partitions),
        under_replicated=sum(each.under_replicated for each in partitions),
        brokers_down=sighting.down,
        down_empty=tuple(broker for broker in sighting.down if broker not in sighting.dead),
        conditions=tuple(
            Held(
                each.sign.subject.condition,
                each.sign.text,
                *_planned_by(each.sign.subject.condition, seen),
                _comes(each, seen),
            )
            for each in seen.judgement.holding
        ),
        journal_open=len(sighting.journal.open_moves),
        external=len(external(sighting)),
        unattributed=len(sighting.check_up.ongoing) if sighting.past is None else 0,
        throttles_left=len(sighting.check_up.left_behind),
        safe=tuple(broker for broker, why in empty if not why),
        kept=tuple(
            f"broker {broker} empty, as intended, and not to be removed now: {why}" for broker, why in empty if why
        ),
    )


def page_of(seen: SeenCluster, name: str, file: Mapping[str, Any]) -> KeptClusterView:
    """The page of a cluster as an observation saw it; `file` is its table of the policy file. Cost: O(partitions)."""
    sighting, judgement = seen.sighting, seen.judgement
    partitions = sighting.inventory.partitions
    lacking = [_name(each.topic, each.partition) for each in partitions if each.under_replicated]
    offline = [_name(each.topic, each.partition) for each in partitions if each.leader < 0]
    below = sorted(map(str, under_min_isr(sighting)))
    counts = (len(lacking), len(below), len(offline))
    topics, model = topics_of(sighting, seen.policy.rails), sighting.model
    return KeptClusterView(
        version=0,
        row=_row(seen, name, counts),
        brokers=_brokers(seen),
        conditions=tuple(_condition(each, seen) for each in judgement.holding),
        prospects=tuple(map(view_proposal, judgement.proposals)),
        policy=dict(file),
        topics=tuple(topics[:MOST_TOPICS]),
        topics_in_all=len(topics),
        under_replicated=tuple(lacking[:MOST_NAMED]),
        under_min_isr=tuple(below[:MOST_NAMED]),
        offline=tuple(offline[:MOST_NAMED]),
        throttles_left=tuple(
            f"{key.kind} {key.name}: {key.setting} = {value}" for key, value in sighting.check_up.left_behind
        ),
        rates_until_ms=None if model is None else model.until_ms,
        rates_unused="" if model is None else model.unused,
    )


def _name(topic: str, partition: int) -> str:
    return str(TopicPartition(topic, partition))


def _row(seen: SeenCluster, name: str, counts: tuple[int, int, int]) -> FleetRow:
    sighting = seen.sighting
    held = _held(sighting)
    leaving = {*seen.policy.intents.drain, *seen.policy.intents.replace}
    live = {each.id: held.get(each.id, 0) for each in sighting.inventory.brokers if each.id not in leaving}
    mean = sum(live.values()) / len(live) if live else 0.0
    untold = sighting.inventory.unsized
    furthest = max(live, key=lambda broker: abs(live[broker] - mean)) if mean > 0 and not untold else None
    of = "" if furthest is None else _balance_of(furthest, len(live), leaving)
    used = [
        1 - broker.disk_usable_bytes / broker.disk_total_bytes
        for broker in sighting.inventory.brokers
        if broker.disk_total_bytes and broker.disk_usable_bytes is not None
    ]
    return FleetRow(
        name=name,
        cluster_id=sighting.inventory.cluster_id,
        situation=unseen(name),
        brokers=len(sighting.inventory.brokers),
        brokers_down=sighting.down,
        partitions=len(sighting.inventory.partitions),
        under_replicated=counts[0],
        under_min_isr=counts[1],
        offline=counts[2],
        balance=None if furthest is None else abs(live[furthest] / mean - 1),
        balance_of=f"{told_brokers(untold)} did not tell its log dirs" if untold else of,
        disk_used=max(used, default=None),
        runway_days=seen.runway.days,
        runway_why=seen.runway.why,
        conditions=len(seen.judgement.holding),
    )


def _balance_of(furthest: BrokerId, brokers: int, leaving: Iterable[BrokerId]) -> str:
    told = f"bytes of broker {furthest} against the mean of {counted(brokers, 'live broker')}"
    gone = sorted(leaving)
    return f"{told}, without {told_brokers(gone)} to be emptied" if gone else told


def _open_count(execution: ExecutionView) -> int:
    return sum(execution.counts.get(state, 0) for state in OPEN_STATES)


def _held(sighting: Sighting) -> Mapping[int, int]:
    held: Counter[int] = Counter()
    for partition in sighting.inventory.partitions:
        for broker, size in partition.sizes:
            held[broker] += size
    return held


def _brokers(seen: SeenCluster) -> tuple[KeptBrokerView, ...]:
    sighting, policy = seen.sighting, seen.policy
    held = _held(sighting)
    replicas, leaders, preferred, offline = Counter[int](), Counter[int](), Counter[int](), Counter[int]()
    for each in sighting.inventory.partitions:
        replicas.update(each.replicas)
        leaders[each.leader] += 1
        preferred.update(each.replicas[:1])
        offline.update(each.offline)
    safe = safe_to_remove(sighting, policy)
    bytes_in, bytes_out = _rates(sighting)
    live = {broker.id: broker for broker in sighting.inventory.brokers}
    fenced = {broker.id for broker in sighting.inventory.fenced}
    untold = {broker for broker, _why in sighting.inventory.unanswered}
    found: list[KeptBrokerView] = []
    for broker in sorted({*live, *replicas, *fenced}):
        known = live.get(broker)
        facts = BrokerFacts(live=False, fenced=broker in fenced) if known is None else known.facts
        found.append(
            KeptBrokerView(
                id=broker,
                rack=None if known is None else known.rack,
                live=known is not None,
                replica_bytes=held.get(broker, 0) if broker in live and broker not in untold else None,
                disk_total=None if known is None else known.disk_total_bytes,
                disk_usable=None if known is None else known.disk_usable_bytes,
                replicas=replicas[broker],
                leaders=leaders[broker],
                preferred=preferred[broker],
                offline=offline[broker],
                drained=broker in policy.intents.drain,
                demoted=broker in policy.intents.demote,
                frozen=broker in policy.rails.frozen_brokers,
                replaced_by=policy.intents.replace.get(broker),
                added=broker in policy.intents.add,
                safe_to_remove=broker in safe,
                barred=facts.barred,
                bytes_in=bytes_in.get(broker),
                bytes_out=bytes_out.get(broker),
            )
        )
    return tuple(found)


def _rates(sighting: Sighting) -> tuple[Mapping[int, float], Mapping[int, float]]:
    """What each broker receives and what clients read from it, in bytes per second; empty: no load model is used."""
    load = sighting.load
    if load.bytes_in is None:
        return {}, {}
    came, went = (
        np.zeros(len(load.brokers) + 1),
        np.zeros(len(load.brokers) + 1),
    )  # The last is for ABSENT, which is -1.
    np.add.at(came, load.replicas, np.broadcast_to(load.bytes_in[:, None], load.replicas.shape))
    if load.bytes_out is not None:
        np.add.at(went, load.replicas[:, 0], load.bytes_out)
    received = {broker: float(came[at]) for at, broker in enumerate(load.brokers)}
    return received, {} if load.bytes_out is None else {b: float(went[at]) for at, b in enumerate(load.brokers)}


def safe_to_remove(sighting: Sighting, policy: KeeperPolicy) -> tuple[int, ...]:
    """Brokers that are empty as intended, and that nothing needs."""
    return tuple(broker for broker, why in emptied(sighting, policy) if not why)


def emptied(sighting: Sighting, policy: KeeperPolicy) -> tuple[tuple[int, str], ...]:
    """Brokers that are drained or replaced, hold no replica, and get none; and why they are to stay all the same ("").

    Empty while the moves could not be read.
    """
    if any(what == MOVES for what, _why in sighting.check_up.unread):
        return ()
    busy = {broker for each in sighting.inventory.partitions for broker in each.replicas}
    busy |= {broker for each in sighting.check_up.ongoing.values() for broker in (*each.replicas, *each.adding)}
    leaving = {*policy.intents.drain, *policy.intents.replace}
    return tuple((broker, _why_needed(sighting, broker)) for broker in sorted(leaving) if broker not in busy)


def _why_needed(sighting: Sighting, broker: BrokerId) -> str:
    seen, dead = sighting.check_up, [each for each in sighting.dead if each != broker]
    if dead:
        return f"{told_brokers(dead)} {'is' if len(dead) == 1 else 'are'} down, and what it can take may be needed"
    if any(what == QUORUM for what, _why in seen.unread):
        return "whether the metadata quorum needs it is not known"
    return (
        "the metadata quorum needs it as a controller" if seen.quorum is not None and needs(seen.quorum, broker) else ""
    )


def _flows(execution: ExecutionView | None) -> tuple[FlowView, ...]:
    """What moves between brokers. A replica that only comes, or only goes, flows nowhere."""
    found: dict[tuple[int, int], tuple[int, int, int]] = {}
    for row in () if execution is None else execution.moves:
        if row.state not in OPEN_STATES:
            continue
        home, goal = (row.target, row.original) if row.direction == "back" else (row.original, row.target)
        comes = [broker for broker in reversed(goal) if broker not in home]
        goes = [broker for broker in reversed(row.current) if broker not in goal]
        # Steps begin with the first of both, so those that are left are the last ones.
        for source, target in zip(goes, comes, strict=False):
            moves, moving, left = found.get((source, target), (0, 0, 0))
            size = max(0, row.total_bytes - row.copied_bytes) // max(1, len(comes))
            found[source, target] = (moves + 1, moving + (row.state == "moving"), left + size)
    rows = [FlowView(*ends, *sums) for ends, sums in found.items()]
    return tuple(sorted(rows, key=lambda row: (-row.moves, row.source, row.target))[:MOST_FLOWS])


def _traffic(execution: ExecutionView | None) -> tuple[Counter[int], Counter[int]]:
    receives, gives = Counter[int](), Counter[int]()
    for row in () if execution is None else execution.moves:
        if row.state in OPEN_STATES:
            goal = row.original if row.direction == "back" else row.target
            receives.update(set(goal) - set(row.current))
            gives.update(set(row.current) - set(goal))
    return receives, gives


def _condition(holding: Holding, seen: SeenCluster) -> KeptConditionView:
    condition = holding.sign.subject.condition
    return KeptConditionView(view_condition(holding), seen.policy.mode(condition).value, severity_of(condition))


def _planned_by(condition: Condition, seen: SeenCluster) -> tuple[tuple[str, ...], str]:
    """Why the observation proposed no plan that mends a condition, and the scope of such a plan.

    No reason: it proposed one, there is never one, or only a person's hold keeps it back, which may be lifted meanwhile.
    """
    if condition not in MENDED:
        return (), ""
    if seen.policy.mode(condition) is Mode.NOTIFY:
        return ("the policy only lets it be reported",), ""
    (scope,) = scopes_of([condition])
    words = held_by_word(scope, seen.policy.rails, seen.sighting.at_ms)
    for proposal in seen.judgement.proposals:
        if proposal.scope is scope and condition in proposal.conditions:
            why = tuple(each for each in proposal.held_back if each not in words)
            if not proposal.changes and not proposal.behind:
                why = (*why, *_told_undone(proposal.undone, seen.policy)) or ("the planner finds nothing",)
            return why, scope.value
    return ("it has not held for long enough",), scope.value


def _told_undone(undone: Sequence[str], policy: KeeperPolicy) -> Iterator[str]:
    """Why nothing is planned, a sentence for each reason; and the intent that keeps brokers from taking replicas."""
    yield from gathered(undone)
    drained = policy.intents.drain
    if drained and any("excluded" in each for each in undone):
        allows = ", ".join(f"`shunter withdraw drain {broker}`" for broker in drained)
        yield f"{told_brokers(drained)} {'is' if len(drained) == 1 else 'are'} to be drained, so nothing comes there: {allows} allows it"


def _comes(holding: Holding, seen: SeenCluster) -> str:
    """What is done about a condition by itself once it has held for its minutes."""
    condition = holding.sign.subject.condition
    if holding.lasted or condition not in MENDED or seen.policy.mode(condition) is not Mode.ACT:
        return ""
    return (
        f"{condition.label}: a plan begins by itself once it has held for {counted(holding.wanted_minutes, 'minute')}"
    )


def view_moves(
    execution: ExecutionView | None,
    isr: Mapping[str, tuple[int, ...]],
    observed: Sequence[MoveView],
    facts: ClusterFacts,
) -> MovesView:
    """The moves in a cluster: this execution's as the executor reports them, all others as the last observation saw them.

    Args:
        execution: None: this process does not drive the cluster.
        isr: In-sync replicas by partition's name, as the executor saw them last.
        observed: As the last observation saw them; those of the journal count only without an execution.
        facts: All that is known about the cluster.
    """
    stands = situation(facts)
    silent_ms = 0 if facts.unanswered_since_ms is None else facts.now_ms - facts.unanswered_since_ms
    if execution is None:
        why = "this service does not drive these moves" if observed else stands.doing
        return MovesView(0, facts.now_ms, "", stands, tuple(observed), why_no_eta=why, silent_ms=silent_ms or None)
    ours = tuple(_ours(execution, isr))
    opened = tuple(row for row in ours if row.state in OPEN_STATES)
    ended = tuple(row for row in ours if row.state not in OPEN_STATES)
    names = {row.partition for row in opened}
    foreign = tuple(row for row in observed if row.whose != OURS and row.partition not in names)
    if not execution.running:
        why = "the end of external moves is not known" if foreign else "nothing is being moved"
        return MovesView(0, execution.at_ms, "", stands, (*foreign, *ended), why_no_eta=why, silent_ms=silent_ms)
    # While any move is stuck or paused the whole has no end: an end of the others is told in words alone.
    ends = execution.left_ms is not None and not execution.held
    why = "" if ends else told_eta(execution)
    carried_out = facts.carried_out
    left_bytes, plan_bytes = execution.to_copy
    return MovesView(
        version=0,
        at_ms=execution.at_ms,
        proposal="" if carried_out is None else carried_out.id,
        situation=stands,
        moves=(*opened, *foreign, *ended),
        plan_bytes=plan_bytes,
        left_bytes=left_bytes,
        share=execution.share,
        copy_bytes_per_s=execution.bytes_per_s,
        throttle_bytes_per_s=execution.limit,
        bounds=execution.bounds,
        left_ms=execution.left_ms if ends else None,
        low_ms=execution.low_ms if ends else None,
        high_ms=execution.high_ms if ends else None,
        why_no_eta=why,
        rollback_bytes=execution.rollback_bytes,
        silent_ms=silent_ms,
    )


def _ours(execution: ExecutionView, isr: Mapping[str, tuple[int, ...]]) -> Iterable[MoveView]:
    for row in execution.moves:
        yield MoveView(
            partition=row.partition,
            whose=OURS,
            state=row.state,
            direction=row.direction,
            original=row.original,
            # A replica that a step copies is one, as the cluster lists it.
            replicas=tuple(dict.fromkeys((*row.current, *(row.step or ())))),
            isr=isr.get(row.partition) if row.state in OPEN_STATES else None,
            target=row.target,
            step=row.step,
            steps=row.steps,
            total_bytes=row.total_bytes,
            copied_bytes=row.copied_bytes,
            rollback_bytes=row.rollback_bytes,
            waits=row.waits,
            stuck=row.stuck,
            adding=tuple(each for each in row.step or () if each not in row.current),
        )


def observed_moves(sighting: Sighting) -> tuple[MoveView, ...]:
    """Moves as an observation saw them: open ones of the journal, then external ones."""
    partitions = {TopicPartition(each.topic, each.partition): each for each in sighting.inventory.partitions}
    found: list[MoveView] = []
    for move in sorted(sighting.journal.moves):
        at = partitions.get(move.tp)
        row = _observed(str(move.tp), OURS, move.state, move.direction, move.original, move.target, at)
        ongoing = sighting.check_up.ongoing.get(move.tp)
        found.append(row if ongoing is None else replace(row, adding=ongoing.adding))
    # Without the journal it is not known whose a move is.
    others = sorted(sighting.check_up.ongoing.items()) if sighting.past is None else external(sighting)
    whose = UNKNOWN if sighting.past is None else EXTERNAL
    for tp, ongoing in others:
        row = _observed(str(tp), whose, "moving", "forward", ongoing.original, ongoing.target, partitions.get(tp))
        stuck = no_end(sighting, tp, ongoing)
        found.append(replace(row, replicas=ongoing.replicas, adding=ongoing.adding, stuck=stuck))
    return tuple(found)


def _observed(
    name: str,
    whose: str,
    state: str,
    direction: str,
    original: Replicas,
    target: Replicas,
    at: InventoryPartition | None,
) -> MoveView:
    return MoveView(
        partition=name,
        whose=whose,
        state=state,
        direction=direction,
        original=original,
        replicas=() if at is None else at.replicas,
        isr=None if at is None else at.isr,
        target=target,
        step=None,
        steps=0,
        total_bytes=None,
        copied_bytes=None,
        rollback_bytes=None,
        waits="",
        stuck="",
    )
