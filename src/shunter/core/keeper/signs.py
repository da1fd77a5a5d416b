"""Finds the conditions that hold in a sighting."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator

import numpy as np

from shunter.core.keeper.log_dirs import outside, uneven
from shunter.core.keeper.requests import BANDS, balance_request, kept_out, takes_over
from shunter.core.keeper.runway import filling
from shunter.core.keeper.sighting import Sighting, external, frozen_topics, no_end
from shunter.core.keeper.sign import ABOVE, BELOW, Sign
from shunter.core.keeper.words import held_by_word
from shunter.core.planning.aims import Targets, targets
from shunter.core.planning.cluster import ROUNDING, Floats, Resource, broker_loads
from shunter.core.planning.facts import CORDONED
from shunter.core.planning.request import Scope
from shunter.core.wording import counted, named
from shunter.model.inventory import InventoryPartition, OfflineReplica, TopicWish
from shunter.model.keeper import DEFAULTS, Condition, KeeperPolicy, Mode, Subject
from shunter.model.partition import BrokerId, TopicPartition

RATES = (Resource.BYTES_IN, Resource.BYTES_OUT, Resource.PROCESSORS)
Goals = Callable[[float], Targets]
"""Targets by their band."""


def signs(sighting: Sighting, policy: KeeperPolicy, holding: Collection[Subject]) -> tuple[Sign, ...]:
    """Judge a sighting.

    Args:
        sighting: A sighting in order.
        policy: The policy; it says which conditions are watched, and by which bounds.
        holding: Conditions that held at the look before. These go on until the figure is within the narrower bound.

    Returns:
        Signs of every condition that is not off, by condition, then subject.
    """
    found = [*_log_dirs(sighting, policy, holding), *_left_over(sighting), *_model_unused(sighting)]
    if sighting.load.brokers:
        found += _of_replicas(sighting, policy, holding)
    places = {condition: at for at, condition in enumerate(Condition)}
    kept = [sign for sign in found if policy.mode(sign.subject.condition) is not Mode.OFF]
    return tuple(sorted(kept, key=lambda sign: (places[sign.subject.condition], sign.subject.about)))


def _of_replicas(sighting: Sighting, policy: KeeperPolicy, holding: Collection[Subject]) -> list[Sign]:
    found = [
        *_dead(sighting, policy),
        *_intents(sighting, policy),
        *_replaced(sighting, policy),
        *_disks(sighting, policy, holding),
        *_filling_disks(sighting, policy, holding),
        *_uneven_log_dirs(sighting, policy, holding),
        *_empty(sighting, policy),
        *_partitions(sighting, policy, holding),
    ]
    if len(kept_out(sighting, policy)) < len(sighting.load.brokers):
        # The targets for a band are worked out once, for all conditions that have this band.
        goals = functools.cache(
            lambda band: targets(sighting.load, balance_request(sighting, policy, band, tuple(BANDS.values())))
        )
        found += [
            *_racks(sighting, goals),
            *_added(sighting, policy, holding, goals),
            *_bands(sighting, policy, holding, goals),
        ]
    return found


def _dead(sighting: Sighting, policy: KeeperPolicy) -> Iterator[Sign]:
    replacing = policy.proposes(Condition.REPLACE) and not held_by_word(Scope.REPLACE, policy.rails, sighting.at_ms)
    for broker in sighting.dead:
        held = [each for each in sighting.inventory.partitions if broker in each.replicas]
        if not held:
            continue
        rest = ", which stay there: it is frozen" if broker in policy.rails.frozen_brokers else ""
        # If a replacement is up and may be planned, it takes the dead broker's replicas.
        new = takes_over(sighting, policy, broker) if replacing else None
        if new is not None and not rest:
            rest = f", which go to broker {new}"
        replicas = () if rest else tuple(OfflineReplica(each.topic, each.partition, broker) for each in held)
        text = f"broker {broker} is dead and holds {counted(len(held), 'replica')}{rest}"
        yield Sign(Subject(Condition.BROKER_DEAD, f"broker {broker}"), text, (broker,), replicas)


def _log_dirs(sighting: Sighting, policy: KeeperPolicy, holding: Collection[Subject]) -> Iterator[Sign]:
    """Log dirs that failed, by broker, and single log dirs that are full."""
    offline: dict[BrokerId, list[OfflineReplica]] = {}
    for each in sighting.inventory.partitions:
        for broker_id in set(each.offline) & set(each.replicas):
            offline.setdefault(broker_id, []).append(OfflineReplica(each.topic, each.partition, broker_id))
    unanswered = dict(sighting.inventory.unanswered)
    for live in sighting.inventory.brokers:
        lost = tuple(offline.get(live.id, ()))
        # A broker that has just died may still be listed as live. It told of no failed log dir, or does not answer.
        failed = any(each.failed for each in live.log_dirs) if live.log_dirs else live.id not in unanswered
        if lost and failed and live.id not in policy.rails.frozen_brokers:
            text = f"{counted(len(lost), 'replica')} of broker {live.id}, which is up, are on failed log dirs"
            yield Sign(Subject(Condition.LOG_DIR_FAILED, f"broker {live.id}"), text, (live.id,), lost)
    for broker in sighting.check_up.brokers:
        for log_dir in () if broker.broker in policy.rails.frozen_brokers else broker.log_dirs:
            subject = Subject(Condition.LOG_DIR_FULL, f"broker {broker.broker} {log_dir.path}")
            used = 1 - log_dir.usable / log_dir.total if log_dir.total > 0 and not log_dir.error else 0.0
            if _beyond(used, subject, policy, holding):
                text = f"log dir {log_dir.path} of broker {broker.broker} is {used:.1%} full"
                yield Sign(subject, text, (broker.broker,))


def _uneven_log_dirs(sighting: Sighting, policy: KeeperPolicy, holding: Collection[Subject]) -> Iterator[Sign]:
    """Brokers whose log dirs are filled unevenly, judged as the planner itself judges them."""
    watch = policy.watches[Condition.LOG_DIR_BAND]
    if watch.mode is Mode.OFF:
        return
    fixed = frozen_topics(sighting, policy.rails)
    for broker, least, most in uneven(sighting.inventory.disks, kept_out(sighting, policy), fixed):
        subject = Subject(Condition.LOG_DIR_BAND, f"broker {broker}")
        if outside(least, most, watch.end if subject in holding else watch.begin):
            told = f"filled {least:.2f} to {most:.2f} times as much as their mean"
            within = not outside(least, most, watch.begin)
            band = _band(within, *((1 - each, 1 + each) for each in (watch.begin, watch.end)))
            text = f"log dirs of broker {broker} are {told} ({band})"
            yield Sign(subject, text, (broker,))


def _beyond(value: float, subject: Subject, policy: KeeperPolicy, holding: Collection[Subject]) -> bool:
    """Whether a figure is beyond its bound: the narrower one (`end`) for a condition that held already, else `begin`."""
    watch = policy.watches[subject.condition]
    return value > (watch.end if subject in holding else watch.begin) + ROUNDING


def _intents(sighting: Sighting, policy: KeeperPolicy) -> Iterator[Sign]:
    intents, frozen = policy.intents, policy.rails.frozen_brokers
    fixed = frozen_topics(sighting, policy.rails)
    loose = [each for each in sighting.inventory.partitions if each.topic not in fixed]
    for broker in sorted({*intents.drain} - {*frozen}):
        held, stay = _held(sighting, broker, fixed)
        if held or stay:
            text = f"broker {broker} is to be drained and holds {counted(held + stay, 'replica')}{_told_frozen(stay)}"
            yield Sign(Subject(Condition.DRAIN, f"broker {broker}"), text, (broker,) if held else ())
    for broker in sorted({*intents.demote} - {*frozen} - {*sighting.dead}):
        first = sum(each.replicas[0] == broker for each in loose)
        leads = sum(each.leader == broker for each in loose)
        if first or leads:
            text = f"broker {broker} is to lead nothing"
            text += f" and leads {counted(leads, 'partition')}" if leads else ""
            text += f" and is the preferred leader of {counted(first, 'partition')}" if first else ""
            yield Sign(Subject(Condition.DEMOTE, f"broker {broker}"), text, (broker,))
    factors: dict[str, set[int]] = {}
    for each in loose:
        factors.setdefault(each.topic, set()).add(len(each.replicas))
    for topic, found in sorted(factors.items()):
        wanted = intents.replication.get(topic) or max(*found, intents.least_replication)
        if found != {wanted} and _asks(policy, topic, found):
            told = " and ".join(map(str, sorted(found)))
            text = f"topic {topic} has {told} replicas a partition and shall have {wanted}"
            wish = TopicWish(topic, replication=wanted)
            yield Sign(Subject(Condition.REPLICATION, f"topic {topic}"), text, wishes=(wish,))


def _held(sighting: Sighting, broker: BrokerId, fixed: Collection[str]) -> tuple[int, int]:
    """How many replicas of a broker may go, and how many stay because their topics are frozen."""
    topics = [each.topic for each in sighting.inventory.partitions if broker in each.replicas]
    stay = sum(topic in fixed for topic in topics)
    return len(topics) - stay, stay


def _told_frozen(stay: int) -> str:
    return f"; of frozen topics, which stay there until these are unfrozen: {stay:,}" if stay else ""


def _replaced(sighting: Sighting, policy: KeeperPolicy) -> Iterator[Sign]:
    fixed = frozen_topics(sighting, policy.rails)
    for broker, new in sorted(policy.intents.replace.items()):
        held, stay = _held(sighting, broker, fixed)
        if not held + stay or broker in policy.rails.frozen_brokers:
            continue
        up = takes_over(sighting, policy, broker) is not None
        text = f"broker {broker} is to be replaced by broker {new} and holds {counted(held + stay, 'replica')}"
        text += _told_frozen(stay)
        text += "" if up else f"; broker {new} is not up, or not well"
        yield Sign(Subject(Condition.REPLACE, f"broker {broker}"), text, (broker,) if up and held else ())


def _added(sighting: Sighting, policy: KeeperPolicy, holding: Collection[Subject], goals: Goals) -> Iterator[Sign]:
    """Brokers that are to get their share, and have less by the planner's own bands for bytes or replicas."""
    out = kept_out(sighting, policy)
    live = {broker.id for broker in sighting.inventory.brokers}
    for broker in sorted(policy.intents.add):
        subject = Subject(Condition.ADD, f"broker {broker}")
        if broker not in live:
            yield Sign(subject, f"broker {broker} is to get its share and is not up")
        elif broker not in out and broker in sighting.load.brokers:
            lacking = [
                f"{load:.2f} of the mean in {BANDS[condition].label}, at least {low:.2f} wanted"
                for condition in (Condition.DISK_BAND, Condition.REPLICAS_BAND)
                for load, low in [_below(sighting, broker, condition, policy, goals, begun=subject not in holding)]
                if load < low - ROUNDING
            ]
            if lacking:
                yield Sign(subject, f"broker {broker} is to get its share and has {' and '.join(lacking)}", (broker,))


def _below(
    sighting: Sighting, broker: BrokerId, condition: Condition, policy: KeeperPolicy, goals: Goals, *, begun: bool
) -> tuple[float, float]:
    """A broker's load, and the least that it should carry, whatever the mode of that condition."""
    watch = policy.watches[condition]
    goal = goals(watch.begin if begun else watch.end)
    column = goal.column(BANDS[condition])
    assert column is not None, "sizes and counts are always known"
    at = sighting.load.brokers.index(broker)
    return float(_carried(sighting, goal)[at, column]), float(goal.low[at, column])


def _carried(sighting: Sighting, goal: Targets) -> Floats:
    """(B, K) the load of each broker, in shares of the mean."""
    return broker_loads(sighting.load.replicas, len(sighting.load.brokers), goal.every, goal.leading)


def _asks(policy: KeeperPolicy, topic: str, factors: Collection[int]) -> bool:
    """Whether an intent applies to a topic with these replication factors."""
    return topic in policy.intents.replication or min(factors) < policy.intents.least_replication


def _disks(sighting: Sighting, policy: KeeperPolicy, holding: Collection[Subject]) -> Iterator[Sign]:
    for broker in sighting.inventory.brokers:
        if not broker.disk_total_bytes or broker.disk_usable_bytes is None or broker.id in policy.rails.frozen_brokers:
            continue
        used = 1 - broker.disk_usable_bytes / broker.disk_total_bytes
        subject = Subject(Condition.DISK_FULL, f"broker {broker.id}")
        if _beyond(used, subject, policy, holding):
            yield Sign(subject, f"the disks of broker {broker.id} are {used:.1%} full", (broker.id,))


def _filling_disks(sighting: Sighting, policy: KeeperPolicy, holding: Collection[Subject]) -> Iterator[Sign]:
    watch = policy.watches[Condition.DISK_RUNWAY]
    for broker, found in sorted(filling(sighting).items()):
        subject = Subject(Condition.DISK_RUNWAY, f"broker {broker}")
        if (
            found.days < (watch.end if subject in holding else watch.begin)
            and broker not in policy.rails.frozen_brokers
        ):
            yield Sign(subject, f"the disks of broker {broker} are {found.told}", (broker,))


def _racks(sighting: Sighting, goals: Goals) -> Iterator[Sign]:
    goal = goals(DEFAULTS[Condition.REPLICAS_BAND].end)  # Racks have no band, so any band will do.
    able = goal.movable | goal.beside[CORDONED]  # A plan for racks may take the replica off a cordoned broker.
    uneven = np.flatnonzero(goal.rules.uneven(sighting.load.replicas) & able).tolist()
    if uneven:
        names = named([sighting.load.partition_name(at) for at in uneven])
        text = f"{counted(len(uneven), 'partition')} with replicas that share racks without need ({names})"
        yield Sign(Subject(Condition.RACKS), text)


def _empty(sighting: Sighting, policy: KeeperPolicy) -> Iterator[Sign]:
    busy = {broker for each in sighting.inventory.partitions for broker in each.replicas}
    out = kept_out(sighting, policy)
    for broker in sighting.inventory.brokers:
        if broker.id not in busy and broker.id not in out and broker.id not in policy.intents.add:
            text = f"broker {broker.id} is up and holds no replica"
            yield Sign(Subject(Condition.BROKER_EMPTY, f"broker {broker.id}"), text, (broker.id,))


def _bands(sighting: Sighting, policy: KeeperPolicy, holding: Collection[Subject], goals: Goals) -> Iterator[Sign]:
    """Brokers outside the band, judged as the planner itself judges them."""
    for condition, resource in BANDS.items():
        watch = policy.watches[condition]
        if watch.mode is Mode.OFF:
            continue
        begun, ended = goals(watch.begin), goals(watch.end)
        column = begun.column(resource)
        if column is None:
            continue  # Rates are known only with a load model.
        by_model = _told_model(sighting) if resource in RATES else ""
        loads = _carried(sighting, begun)[:, column]
        if not loads.any():
            continue  # No broker has any of it: none has too little.
        label = "preferred leaders" if resource is Resource.LEADERS else resource.label
        leading = _led_now(sighting) / begun.scale[column] if resource is Resource.LEADERS else loads
        for at, broker in enumerate(sighting.load.brokers):
            subject = Subject(condition, f"broker {broker}")
            goal = ended if subject in holding else begun
            low, high = goal.low[at, column], goal.high[at, column]
            if goal.members[at] and not low - ROUNDING <= loads[at] <= high + ROUNDING:
                text = f"broker {broker} carries {loads[at]:.2f} of the mean in {label} ({_threshold(loads[at], begun, ended, at, column)}{by_model})"
                yield Sign(subject, text, (broker,), side=ABOVE if loads[at] > high else BELOW)
            elif goal.members[at] and not low - ROUNDING <= leading[at] <= high + ROUNDING:
                text = f"broker {broker} leads {leading[at]:.2f} of the mean now, and not as preferred ({_threshold(leading[at], begun, ended, at, column)})"
                yield Sign(subject, text, (broker,), side=ABOVE if leading[at] > high else BELOW)


def _threshold(value: float, begun: Targets, ended: Targets, at: int, column: int) -> str:
    """The threshold of a broker, and where the condition ends again."""
    outer, inner = ((goal.low[at, column], goal.high[at, column]) for goal in (begun, ended))
    return _band(outer[0] - ROUNDING <= value <= outer[1] + ROUNDING, outer, inner)


def _band(within: bool, outer: tuple[float, float], inner: tuple[float, float]) -> str:
    ends = f"ends within {inner[0]:.2f} to {inner[1]:.2f}"
    told = f"threshold {outer[0]:.2f} to {outer[1]:.2f}"
    if within:
        return f"again within its {told}, but the condition {ends}"
    return told if outer == inner else f"{told}, {ends}"


def _led_now(sighting: Sighting) -> Floats:
    """(B,) the partitions that each broker leads now. One whose first replica can't lead counts for that replica."""
    index = {broker: at for at, broker in enumerate(sighting.load.brokers)}
    led = np.zeros(len(index))
    for each in sighting.inventory.partitions:
        able = each.leader in index and each.replicas[0] in each.isr
        led[index[each.leader if able else each.replicas[0]]] += 1
    return led


def _told_model(sighting: Sighting) -> str:
    """The age of the rates by which a broker is judged, as the end of a sentence."""
    if sighting.model is None or sighting.model.until_ms is None:
        return ""
    return f"; by rates up to {(sighting.at_ms - sighting.model.until_ms) / 3_600_000:.1f} hours ago"


def _model_unused(sighting: Sighting) -> Iterator[Sign]:
    if sighting.model is not None and sighting.model.unused:
        text = f"the load model is not used: {sighting.model.unused}"
        yield Sign(Subject(Condition.MODEL_UNUSED), text)


def _partitions(sighting: Sighting, policy: KeeperPolicy, holding: Collection[Subject]) -> Iterator[Sign]:
    below = under_min_isr(sighting)
    if below:
        text = (
            f"{counted(len(below), 'partition')} with fewer replicas in sync than min.insync.replicas ({named(below)})"
        )
        yield Sign(Subject(Condition.UNDER_MIN_ISR), text)
    late = [_tp(each) for each in sighting.inventory.partitions if each.under_replicated]
    if late:
        text = f"{counted(len(late), 'partition')} with replicas out of sync ({named(late)})"
        yield Sign(Subject(Condition.UNDER_REPLICATED), text)
    led = [each for each in sighting.inventory.partitions if each.leader >= 0]
    away = [_tp(each) for each in led if each.leader != each.replicas[0] and each.replicas[0] in each.isr]
    subject = Subject(Condition.LEADERS_AWAY)
    if away and _beyond(len(away) / len(led), subject, policy, holding):
        told = (
            f"{counted(len(away), 'partition')} of {len(led):,} not led by the first of their replicas ({named(away)})"
        )
        yield Sign(subject, f"{told}; auto.leader.rebalance.enable or kafka-leader-election.sh elects it")


def under_min_isr(sighting: Sighting) -> list[TopicPartition]:
    """Partitions that refuse acks=all because replicas are out of sync, ascending."""
    return [_tp(each) for each in sighting.inventory.partitions if each.under_min_isr]


def _left_over(sighting: Sighting) -> Iterator[Sign]:
    left = sighting.check_up.left_behind
    if left:
        told = named(f"{key.kind} {key.name} {key.setting} = {value}" for key, value in left)
        text = f"{counted(len(left), 'throttle')} that no execution restores, and nothing is being moved ({told})"
        yield Sign(
            Subject(Condition.THROTTLES_LEFT), f"{text}; `shunter throttles clear --service SERVICE` takes them away"
        )
    strange = external(sighting)
    partitions = {_tp(each): each for each in sighting.inventory.partitions} if strange else {}
    for tp, move in strange:
        if tp not in partitions:
            continue
        at = partitions[tp]
        copied = [(broker, size) for broker, size in at.sizes if broker in move.adding]
        text = f"{tp} is being moved to {list(move.target)} by another tool"
        why = no_end(sighting, tp, move)
        text = f"{text}; {why}" if why else text
        mark = f"{list(at.isr)} {list(move.target)} {copied}"
        yield Sign(Subject(Condition.MOVES_STUCK, str(tp)), text, mark=mark)


def _tp(partition: InventoryPartition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)


__all__ = ["signs", "under_min_isr"]
