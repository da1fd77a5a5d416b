"""Which conditions hold in a sighting."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from shunter.core.keeper.requests import BANDS, balance_request, kept_out
from shunter.core.keeper.sighting import Sighting, frozen_topics
from shunter.core.keeper.sign import Sign
from shunter.core.planning.aims import targets
from shunter.core.planning.cluster import Resource, broker_loads
from shunter.model.inventory import InventoryPartition, OfflineReplica, TopicWish
from shunter.model.keeper import Condition, KeeperPolicy, Mode, Subject
from shunter.model.partition import BrokerId, TopicPartition

NAMED = 3
"""So many partitions of a kind are named, the others counted."""
_ROUNDING = 1e-6


def signs(sighting: Sighting, policy: KeeperPolicy, holding: Collection[Subject]) -> tuple[Sign, ...]:
    """Judge a sighting.

    Args:
        sighting: What was seen, in order.
        policy: What is watched.
        holding: What held at the look before: it holds on until it is within the narrower bound.

    Returns:
        Signs of every condition that is not off, by condition, then subject.
    """
    found = [*_log_dirs(sighting, policy, holding), *_left_over(sighting)]
    if sighting.load.brokers:
        found += _of_replicas(sighting, policy, holding)
    places = {condition: at for at, condition in enumerate(Condition)}
    kept = [sign for sign in found if policy.mode(sign.subject.condition) is not Mode.OFF]
    return tuple(sorted(kept, key=lambda sign: (places[sign.subject.condition], sign.subject.about)))


def _of_replicas(sighting: Sighting, policy: KeeperPolicy, holding: Collection[Subject]) -> list[Sign]:
    return [
        *_dead(sighting, policy),
        *_intents(sighting, policy),
        *_disks(sighting, policy, holding),
        *_racks(sighting, policy),
        *_empty(sighting, policy),
        *_bands(sighting, policy, holding),
        *_partitions(sighting, policy, holding),
    ]


def _dead(sighting: Sighting, policy: KeeperPolicy) -> Iterator[Sign]:
    for broker in sighting.dead:
        held = [each for each in sighting.inventory.partitions if broker in each.replicas]
        if not held:
            continue
        frozen = broker in policy.rails.frozen_brokers
        replicas = () if frozen else tuple(OfflineReplica(each.topic, each.partition, broker) for each in held)
        text = f"broker {broker} is dead and holds {count(len(held), 'replica')}"
        subject = Subject(Condition.BROKER_DEAD, f"broker {broker}")
        yield Sign(subject, text + (", which stay there: it is frozen" if frozen else ""), (broker,), replicas)


def _log_dirs(sighting: Sighting, policy: KeeperPolicy, holding: Collection[Subject]) -> Iterator[Sign]:
    """Log dirs that failed, by broker, and log dirs that are full on brokers whose disks together are not."""
    offline: dict[BrokerId, list[OfflineReplica]] = {}
    for each in sighting.inventory.partitions:
        for broker_id in set(each.offline) & set(each.replicas):
            offline.setdefault(broker_id, []).append(OfflineReplica(each.topic, each.partition, broker_id))
    for live in sighting.inventory.brokers:
        lost = tuple(offline.get(live.id, ()))
        if lost and live.id not in policy.rails.frozen_brokers:
            text = f"{count(len(lost), 'replica')} of broker {live.id}, which is up, are on failed log dirs"
            yield Sign(Subject(Condition.LOG_DIR_FAILED, f"broker {live.id}"), text, (live.id,), lost)
    for broker in sighting.check_up.brokers:
        for log_dir in broker.log_dirs:
            subject = Subject(Condition.LOG_DIR_FULL, f"broker {broker.broker} {log_dir.path}")
            used = 1 - log_dir.usable / log_dir.total if log_dir.total > 0 and not log_dir.error else 0.0
            if _beyond(used, subject, policy, holding):
                text = f"log dir {log_dir.path} of broker {broker.broker} is {used:.1%} full"
                yield Sign(subject, f"{text}; `shunter plan --scope disks` balances log dirs", (broker.broker,))


def _beyond(value: float, subject: Subject, policy: KeeperPolicy, holding: Collection[Subject]) -> bool:
    """Whether a figure is beyond the bound that counts: the narrower one for what held already."""
    watch = policy.watches[subject.condition]
    return value > (watch.end if subject in holding else watch.begin) + _ROUNDING


def _intents(sighting: Sighting, policy: KeeperPolicy) -> Iterator[Sign]:
    intents, frozen = policy.intents, policy.rails.frozen_brokers
    fixed = frozen_topics(sighting, policy.rails)
    loose = [each for each in sighting.inventory.partitions if each.topic not in fixed]
    for broker in sorted({*intents.drain} - {*frozen}):
        held = sum(broker in each.replicas for each in loose)
        if held:
            text = f"broker {broker} is to be drained and holds {count(held, 'replica')}"
            yield Sign(Subject(Condition.DRAIN, f"broker {broker}"), text, (broker,))
    for broker in sorted({*intents.demote} - {*frozen} - {*sighting.dead}):
        led = sum(each.replicas[0] == broker for each in loose)
        if led:
            text = f"broker {broker} is to lead nothing and is the preferred leader of {count(led, 'partition')}"
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


def _asks(policy: KeeperPolicy, topic: str, factors: Collection[int]) -> bool:
    """Whether an intent says anything of a topic with these replication factors."""
    return topic in policy.intents.replication or min(factors) < policy.intents.least_replication


def _disks(sighting: Sighting, policy: KeeperPolicy, holding: Collection[Subject]) -> Iterator[Sign]:
    for broker in sighting.inventory.brokers:
        if not broker.disk_total_bytes or broker.disk_usable_bytes is None or broker.id in policy.rails.frozen_brokers:
            continue
        used = 1 - broker.disk_usable_bytes / broker.disk_total_bytes
        subject = Subject(Condition.DISK_FULL, f"broker {broker.id}")
        if _beyond(used, subject, policy, holding):
            yield Sign(subject, f"the disks of broker {broker.id} are {used:.1%} full", (broker.id,))


def _racks(sighting: Sighting, policy: KeeperPolicy) -> Iterator[Sign]:
    if not _anybody_left(sighting, policy):
        return
    goal = targets(sighting.load, balance_request(sighting, policy, 0.1, (Resource.REPLICAS,)))
    uneven = np.flatnonzero(goal.rules.uneven(sighting.load.replicas) & goal.movable).tolist()
    if uneven:
        names = named([sighting.load.partition_name(at) for at in uneven])
        text = f"{count(len(uneven), 'partition')} with replicas that share racks without need ({names})"
        yield Sign(Subject(Condition.RACKS), text)


def _anybody_left(sighting: Sighting, policy: KeeperPolicy) -> bool:
    return len(kept_out(sighting, policy)) < len(sighting.load.brokers)


def _empty(sighting: Sighting, policy: KeeperPolicy) -> Iterator[Sign]:
    busy = {broker for each in sighting.inventory.partitions for broker in each.replicas}
    out = kept_out(sighting, policy)
    for broker in sighting.inventory.brokers:
        if broker.id not in busy and broker.id not in out:
            text = f"broker {broker.id} is up and holds no replica"
            yield Sign(Subject(Condition.BROKER_EMPTY, f"broker {broker.id}"), text, (broker.id,))


def _bands(sighting: Sighting, policy: KeeperPolicy, holding: Collection[Subject]) -> Iterator[Sign]:
    """Brokers outside the band, judged as the planner itself judges them."""
    if not _anybody_left(sighting, policy):
        return
    for condition, resource in BANDS.items():
        watch = policy.watches[condition]
        if watch.mode is Mode.OFF:
            continue
        begun, ended = (
            targets(sighting.load, balance_request(sighting, policy, band, (resource,)))
            for band in (watch.begin, watch.end)
        )
        column = begun.column(resource)
        assert column is not None, "sizes and counts are always known"
        loads = broker_loads(sighting.load.replicas, len(sighting.load.brokers), begun.every, begun.leading)[:, column]
        for at, broker in enumerate(sighting.load.brokers):
            subject = Subject(condition, f"broker {broker}")
            goal = ended if subject in holding else begun
            low, high = goal.low[at, column], goal.high[at, column]
            if goal.members[at] and not low - _ROUNDING <= loads[at] <= high + _ROUNDING:
                band = f"outside {low:.2f} to {high:.2f}"
                text = f"broker {broker} carries {loads[at]:.2f} of the mean in {resource.label}, {band}"
                yield Sign(subject, text, (broker,))


def _partitions(sighting: Sighting, policy: KeeperPolicy, holding: Collection[Subject]) -> Iterator[Sign]:
    below = under_min_isr(sighting)
    if below:
        text = f"{count(len(below), 'partition')} with fewer replicas in sync than min.insync.replicas ({named(below)})"
        yield Sign(Subject(Condition.UNDER_MIN_ISR), text)
    late = [_tp(each) for each in sighting.inventory.partitions if len(each.isr) < len(_settled(sighting, each))]
    if late:
        text = f"{count(len(late), 'partition')} with replicas out of sync ({named(late)})"
        yield Sign(Subject(Condition.UNDER_REPLICATED), text)
    led = [each for each in sighting.inventory.partitions if each.leader >= 0]
    away = [_tp(each) for each in led if each.leader != each.replicas[0] and each.replicas[0] in each.isr]
    subject = Subject(Condition.LEADERS_AWAY)
    if away and _beyond(len(away) / len(led), subject, policy, holding):
        told = f"{count(len(away), 'partition')} of {len(led):,} not led by the first of their replicas ({named(away)})"
        yield Sign(subject, f"{told}; auto.leader.rebalance.enable or kafka-leader-election.sh elects it")


def under_min_isr(sighting: Sighting) -> list[TopicPartition]:
    """Partitions that refuse acks=all, ascending. One that can't have as many replicas is no matter of its ISR."""
    return [
        _tp(each)
        for each in sighting.inventory.partitions
        if len(each.isr) < min(each.min_insync, len(_settled(sighting, each)))
    ]


def _settled(sighting: Sighting, partition: InventoryPartition) -> Sequence[BrokerId]:
    """A partition's replicas without those that a move under way has not brought yet."""
    ongoing = sighting.check_up.ongoing.get(_tp(partition))
    adding = () if ongoing is None else ongoing.adding
    return [broker for broker in partition.replicas if broker not in adding]


def _left_over(sighting: Sighting) -> Iterator[Sign]:
    seen = sighting.check_up
    if seen.throttles and not seen.ongoing:
        told = named(f"{key.kind} {key.name} {key.setting} = {value}" for key, value in seen.throttles)
        text = (
            f"{count(len(seen.throttles), 'throttle')} that no execution restores, and nothing is being moved ({told})"
        )
        yield Sign(Subject(Condition.THROTTLES_LEFT), f"{text}; `shunter throttles clear` takes them away")
    partitions = {_tp(each): each for each in sighting.inventory.partitions}
    for tp, move in sorted(seen.ongoing.items()):
        if tp in sighting.journal.open_moves or tp not in partitions:
            continue
        at = partitions[tp]
        copied = [(broker, size) for broker, size in at.sizes if broker in move.adding]
        text = f"{tp} is being moved to {list(move.target)} by somebody else"
        mark = f"{list(at.isr)} {list(move.target)} {copied}"
        yield Sign(Subject(Condition.MOVES_STUCK, str(tp)), text, mark=mark)


def _tp(partition: InventoryPartition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)


def count(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def named(names: Iterable[object]) -> str:
    """The first few names, and how many more there are."""
    listed = [str(name) for name in names]
    more = f" and {len(listed) - NAMED:,} more" if len(listed) > NAMED else ""
    return ", ".join(listed[:NAMED]) + more


__all__ = ["count", "named", "signs", "under_min_isr"]
