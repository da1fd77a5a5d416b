"""A cluster at one look: everything that was read, in a fixed order, and the cluster as it would be after a plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from shunter.core.keeper.growth import DiskGrowth
from shunter.core.keeper.log_dirs import LogDir, restacked
from shunter.core.planning.cluster import ABSENT, ClusterLoad
from shunter.core.planning.moves import widened
from shunter.core.under_way import told_stranded
from shunter.core.wording import named
from shunter.model.check_up import CheckedBroker, CheckedJournal, CheckUp
from shunter.model.execution import OngoingReassignment
from shunter.model.inventory import Inventory, InventoryBroker, InventoryPartition
from shunter.model.keeper import GuardRails
from shunter.model.load_model import ModelTold
from shunter.model.partition import BrokerId, TopicPartition
from shunter.model.room import open_log_dirs
from shunter.model.service import PlannedChange

KIB = 1024
NOTHING = ClusterLoad(
    brokers=(),
    racks=(),
    rack_of=np.zeros(0, np.int32),
    topics=(),
    topic_of=np.zeros(0, np.int32),
    numbers=np.zeros(0, np.int32),
    replicas=np.zeros((0, 1), np.int32),
    sizes=np.zeros(0, np.float64),
)
"""The planner's input for a cluster without partitions."""


class PastExecution(NamedTuple):
    """One execution, as the journal has it. `ended_at_ms` None: it goes on. `moves` are copied replicas."""

    began_at_ms: int
    ended_at_ms: int | None
    moves: int
    bytes: int
    balanced_away: tuple[tuple[TopicPartition, BrokerId], ...] = ()
    """Partitions that a balance of the keeper took from a broker, each with that broker."""
    turned_at_ms: int | None = None
    """When somebody last stopped or rolled back any of it; None: nobody did."""
    turned_by: str = ""


@dataclass(frozen=True, slots=True)
class Sighting:
    """Everything that one look saw. `past` None: there is a journal, but it can't be read."""

    inventory: Inventory
    check_up: CheckUp
    journal: CheckedJournal
    load: ClusterLoad
    """The snapshot as the planner's input, sizes in KiB. Dead brokers that hold replicas are in it.

    Rates, and their costs in processor time, are in it if a load model is used.
    """
    past: tuple[PastExecution, ...] | None = ()
    growth: DiskGrowth | None = None
    """The growth of disks, from earlier looks; None: a single look can't know it."""
    model: ModelTold | None = None
    """The age of the load model whose rates are in `load`, or why it is not used; None: the policy names no lake."""

    @property
    def at_ms(self) -> int:
        """When the look was taken, milliseconds since 1970 UTC."""
        return self.inventory.taken_at_ms

    @property
    def dead(self) -> tuple[BrokerId, ...]:
        """Brokers that held replicas when the cluster was read, and were not live, ascending."""
        live = {broker.id for broker in self.inventory.brokers}
        return tuple(broker for broker in self.load.brokers if broker not in live)

    @property
    def down(self) -> tuple[BrokerId, ...]:
        """Brokers that are not live, ascending: the dead ones, and those that are registered and fenced."""
        return tuple(sorted({*self.dead, *(broker.id for broker in self.inventory.fenced)}))


def in_order(sighting: Sighting) -> Sighting:
    """The sighting with everything sorted, so that decisions do not depend on the order in which brokers answered."""
    taken, seen, load = sighting.inventory, sighting.check_up, sighting.load
    rows = np.lexsort((load.numbers, load.topic_of))
    return replace(
        sighting,
        inventory=taken._replace(
            brokers=tuple(sorted(taken.brokers, key=lambda broker: broker.id)),
            partitions=tuple(sorted(taken.partitions, key=lambda each: (each.topic, each.partition))),
            unanswered=tuple(sorted(taken.unanswered)),
            disks=tuple(sorted(taken.disks, key=lambda each: each.broker)),
            untold_throttles=tuple(sorted(taken.untold_throttles)),
        ),
        check_up=replace(
            seen,
            brokers=tuple(sorted(seen.brokers, key=lambda broker: broker.broker)),
            throttles=tuple(sorted(seen.throttles)),
            unread=tuple(sorted(seen.unread)),
        ),
        load=replace(
            load,
            topic_of=load.topic_of[rows],
            numbers=load.numbers[rows],
            replicas=load.replicas[rows],
            sizes=load.sizes[rows],
            bytes_in=None if load.bytes_in is None else load.bytes_in[rows],
            bytes_out=None if load.bytes_out is None else load.bytes_out[rows],
            min_isr=None if load.min_isr is None else load.min_isr[rows],
            isr=None if load.isr is None else load.isr[rows],
            offline=None if load.offline is None else load.offline[rows],
            leader=None if load.leader is None else load.leader[rows],
        ),
        past=None if sighting.past is None else tuple(sorted(sighting.past, key=lambda each: each.began_at_ms)),
    )


def external(sighting: Sighting) -> list[tuple[TopicPartition, OngoingReassignment]]:
    """Reassignments under way that the journal has nothing to do with, ascending; none while it can't be read."""
    if sighting.past is None:
        return []
    ours = sighting.journal.open_moves | sighting.journal.just_ended
    return sorted((tp, move) for tp, move in sighting.check_up.ongoing.items() if tp not in ours)


def no_end(sighting: Sighting, tp: TopicPartition, move: OngoingReassignment) -> str:
    """Why another tool's reassignment does not end, with the way out; "": nothing is known that keeps it."""
    if move.stranded:
        return f"{told_stranded(move)}: `shunter rollback {tp}` cancels it"
    down = sorted(set(move.adding).intersection(sighting.down))
    if not down:
        return ""
    which = named(f"broker {broker}" for broker in down)
    return f"it waits for {which}, which {'is' if len(down) == 1 else 'are'} down: `shunter rollback {tp}` cancels it"


def frozen_topics(sighting: Sighting, rails: GuardRails) -> frozenset[str]:
    """Topics of the cluster that a name or a pattern of the policy freezes."""
    patterns = rails.frozen_topics
    return frozenset(name for name in sighting.load.topics if any(fnmatchcase(name, each) for each in patterns))


def with_capacities(sighting: Sighting, capacities: Mapping[BrokerId, int]) -> Sighting:
    """The sighting with the sizes of disks that the policy names, for brokers that do not say so themselves."""
    unsaid = {each.id for each in sighting.inventory.brokers if each.disk_total_bytes is None} & capacities.keys()
    if not unsaid:
        return sighting
    held, load = held_bytes(sighting), sighting.load
    brokers = tuple(
        each._replace(
            disk_total_bytes=capacities[each.id],
            disk_usable_bytes=max(0, capacities[each.id] - round(held.get(each.id, 0.0))),
        )
        if each.id in unsaid
        else each
        for each in sighting.inventory.brokers
    )
    sizes = np.full(len(load.brokers), np.inf) if load.disk_capacity is None else load.disk_capacity.copy()
    for at, broker in enumerate(load.brokers):
        if broker in unsaid:
            sizes[at] = capacities[broker] / KIB
    inventory = sighting.inventory._replace(brokers=brokers)
    return replace(sighting, inventory=inventory, load=replace(load, disk_capacity=sizes))


def held_bytes(sighting: Sighting) -> dict[BrokerId, float]:
    """Bytes of replicas on each broker, as the planner counts them."""
    load = sighting.load
    held = np.zeros(len(load.brokers) + 1)  # The last is for ABSENT, which is -1.
    np.add.at(held, load.replicas, np.broadcast_to(load.sizes[:, None], load.replicas.shape))
    return {broker: float(held[at]) * KIB for at, broker in enumerate(load.brokers)}


def after(sighting: Sighting, changes: Collection[PlannedChange]) -> Sighting:
    """The sighting as it would be after a plan: every moved replica is in sync, and the first live replica leads.

    Pre: the sighting is in order, and no partition is being moved.
    """
    if not changes:
        return sighting
    by_partition = {TopicPartition(each.topic, each.partition): each for each in changes}
    live = frozenset(broker.id for broker in sighting.inventory.brokers)
    partitions: list[InventoryPartition] = []
    moved: dict[BrokerId, float] = {}
    sizes: dict[TopicPartition, int] = {}
    for at, partition in enumerate(sighting.inventory.partitions):
        change = by_partition.get(TopicPartition(partition.topic, partition.partition))
        if change is None:
            partitions.append(partition)
            continue
        size = float(sighting.load.sizes[at]) * KIB
        sizes[TopicPartition(partition.topic, partition.partition)] = round(size)
        partitions.append(_changed(partition, change, live, round(size)))
        for broker in set(change.replicas) ^ set(change.original):
            moved[broker] = moved.get(broker, 0.0) + (size if broker in change.replicas else -size)
    brokers = tuple(_refilled(broker, moved) for broker in sighting.inventory.brokers)
    disks, grown = restacked(sighting.inventory.disks, by_partition, sizes)
    inventory = sighting.inventory._replace(partitions=tuple(partitions), brokers=brokers, disks=disks)
    checked = tuple(_restocked(broker, grown) for broker in sighting.check_up.brokers)
    return replace(
        sighting,
        inventory=inventory,
        check_up=replace(sighting.check_up, brokers=checked),
        load=_reassigned(sighting.load, by_partition, inventory),
    )


def _changed(
    partition: InventoryPartition, change: PlannedChange, live: Collection[BrokerId], size: int
) -> InventoryPartition:
    told = dict(partition.sizes)
    lost = tuple(broker for broker in partition.offline if broker in change.replicas)
    held = tuple(broker for broker in change.replicas if broker in live and broker not in lost)
    return partition._replace(
        replicas=tuple(change.replicas),
        isr=held,
        leader=held[0] if held else -1,
        sizes=tuple(sorted((broker, told.get(broker, size)) for broker in held)),
        offline=lost,
    )


def _refilled(broker: InventoryBroker, moved: Mapping[BrokerId, float]) -> InventoryBroker:
    if broker.disk_usable_bytes is None:
        return broker
    more, able = moved.get(broker.id, 0.0), open_log_dirs(broker.log_dirs or ())
    # Nobody knows the log dirs that a broker will choose, so all get the same.
    log_dirs = tuple(
        each._replace(usable_bytes=each.usable_bytes - more / len(able))
        if each in able and each.usable_bytes is not None
        else each
        for each in broker.log_dirs or ()
    )
    return broker._replace(
        disk_usable_bytes=broker.disk_usable_bytes - round(more),
        log_dirs=None if broker.log_dirs is None else log_dirs,
    )


def _restocked(broker: CheckedBroker, grown: Mapping[LogDir, int]) -> CheckedBroker:
    """A broker with the room that its log dirs have after a plan."""
    log_dirs = tuple(
        each if each.usable < 0 else replace(each, usable=each.usable - grown.get((broker.broker, each.path), 0))
        for each in broker.log_dirs
    )
    return replace(broker, log_dirs=log_dirs)


def _reassigned(
    load: ClusterLoad, changes: Mapping[TopicPartition, PlannedChange], inventory: Inventory
) -> ClusterLoad:
    """The planner's input after changes. `inventory` is the cluster as it is then."""
    index = {broker: at for at, broker in enumerate(load.brokers)}
    width = max(load.replicas.shape[1], *(len(change.replicas) for change in changes.values()))
    replicas = widened(load.replicas, width).copy()
    isr, offline = (None if table is None else widened(table, width).copy() for table in (load.isr, load.offline))
    leader = None if load.leader is None else load.leader.copy()
    for at, partition in enumerate(inventory.partitions):
        if TopicPartition(partition.topic, partition.partition) not in changes:
            continue
        for table, brokers in ((replicas, partition.replicas), (isr, partition.isr), (offline, partition.offline)):
            if table is not None:
                table[at] = ABSENT
                table[at, : len(brokers)] = [index[broker] for broker in brokers]
        if leader is not None:
            leader[at] = index.get(partition.leader, ABSENT)
    known = {broker.id: broker.facts.in_units(KIB) for broker in inventory.brokers}
    facts = tuple(known.get(broker, each) for broker, each in zip(load.brokers, load.facts, strict=bool(load.facts)))
    return replace(load, replicas=replicas, isr=isr, offline=offline, leader=leader, facts=facts)
