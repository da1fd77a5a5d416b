"""Clusters as the keeper sees them: drawn ones for properties, small ones that can be checked by eye."""

import random
from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st

from shunter.app.evaluation.observation import sighting_of
from shunter.core.keeper.judgement import Judgement, judge
from shunter.core.keeper.load_model import with_model
from shunter.core.keeper.proposals import Proposal
from shunter.core.keeper.sighting import PastExecution, Sighting, after, in_order
from shunter.model.check_up import CheckedBroker, CheckedJournal, CheckedLogDir, CheckUp, OpenMove
from shunter.model.execution import OngoingReassignment, ThrottleKey
from shunter.model.inventory import (
    BrokerDisks,
    Disk,
    DiskReplica,
    Inventory,
    InventoryBroker,
    InventoryPartition,
)
from shunter.model.keeper import DEFAULTS, Condition, GuardRails, Intents, KeeperPolicy, Memory, Mode
from shunter.model.load_model import LoadModel, PartitionRates, ProcessorModel
from shunter.model.partition import TopicPartition

NOON_MS = 12 * 3_600_000
MINUTE_MS = 60_000
MIB = 1024 * 1024
AT_ONCE = KeeperPolicy({each: replace(watch, minutes=0) for each, watch in DEFAULTS.items()})
"""The default policy, except that no condition has to last."""


def only(*conditions: Condition, rails: GuardRails | None = None, intents: Intents | None = None) -> KeeperPolicy:
    """A policy that watches these conditions alone, at once."""
    watches = {
        each: watch if each in conditions else replace(watch, mode=Mode.OFF) for each, watch in AT_ONCE.watches.items()
    }
    return KeeperPolicy(watches, rails or GuardRails(), intents or Intents())


def cluster(
    rows: dict[str, list[list[int]]],
    *,
    brokers: tuple[int, ...] = (1, 2, 3),
    racks: dict[int, str] | None = None,
    size: int = MIB,
    min_isr: int = 1,
    failed: tuple[tuple[str, int, int], ...] = (),
    cordoned: tuple[int, ...] = (),
    used: dict[int, float] | None = None,
    ongoing: dict[TopicPartition, OngoingReassignment] | None = None,
    throttles: tuple[tuple[ThrottleKey, str], ...] = (),
    log_dirs: dict[int, tuple[CheckedLogDir, ...]] | None = None,
    open_moves: frozenset[TopicPartition] = frozenset(),
    past: tuple[PastExecution, ...] | None = (),
    at_ms: int = NOON_MS,
) -> Sighting:
    """Live brokers, and topics by their partitions' replicas. Other brokers that hold replicas are dead.

    `failed`: (topic, partition, broker) on failed log dirs; `cordoned`: brokers with all their log dirs; `used`: the share of each broker's disk of 100 MiB.
    """
    partitions: list[InventoryPartition] = []
    for topic, assignment in rows.items():
        for number, replicas in enumerate(assignment):
            lost = tuple(b for b in replicas if b not in brokers or (topic, number, b) in failed)
            held = tuple(b for b in replicas if b not in lost)
            sizes = tuple((broker, size) for broker in held)
            leader = held[0] if held else -1
            move = (ongoing or {}).get(TopicPartition(topic, number))
            adding = () if move is None else move.adding
            partitions.append(
                InventoryPartition(
                    topic, None, number, tuple(replicas), held, leader, 0, 1, min_isr, sizes, lost, adding=adding
                )
            )
    total = 100 * MIB
    live = tuple(
        InventoryBroker(
            broker,
            f"host{broker}",
            (racks or {}).get(broker),
            total if used and broker in used else None,
            round(total * (1 - used[broker])) if used and broker in used else None,
            cordoned=broker in cordoned or None,
            log_dirs=(Disk("/broken", None, None, failed=True),) if any(broker == at for _, _, at in failed) else None,
        )
        for broker in brokers
    )
    taken = Inventory("yard", at_ms, live, tuple(partitions))
    broken = (CheckedLogDir("/broken", -1, -1, "KafkaStorageError"),)
    damaged = {broker: broken for _, _, broker in failed}
    checked = tuple(
        CheckedBroker(b, None, "4.1", log_dirs=(log_dirs or {}).get(b, ()) + damaged.get(b, ())) for b in brokers
    )
    seen = CheckUp("yard", 1, "Apache (KRaft)", checked, (), ongoing or {}, throttles)
    return sighting_of(
        taken,
        seen,
        CheckedJournal("j", moves=tuple(OpenMove(tp, (), (), "moving", "forward") for tp in open_moves)),
        past,
    )


def shelved(
    made: Sighting, place: Callable[[str, int, int], str], *paths: str, total: int | None = None, coming: int = 0
) -> Sighting:
    """The same cluster where each broker has these log dirs; `place` says in which of them a replica is.

    Args:
        made: A cluster without log dirs.
        place: The log dir of a replica, by topic, partition and broker.
        paths: The log dirs of each broker.
        total: The size of each log dir; None: brokers don't report it.
        coming: How many replicas of each broker are on their way to another log dir.
    """
    taken = made.inventory
    disks: list[BrokerDisks] = []
    for broker in taken.brokers:
        held = [
            DiskReplica(
                each.topic, each.partition, place(each.topic, each.partition, broker.id), dict(each.sizes)[broker.id]
            )
            for each in taken.partitions
            if broker.id in dict(each.sizes)
        ]
        used = {path: sum(each.size_bytes for each in held if each.log_dir == path) for path in paths}
        shelves = tuple(Disk(path, total, None if total is None else total - used[path]) for path in paths)
        disks.append(BrokerDisks(broker.id, shelves, tuple(held), coming))
    return replace(made, inventory=taken._replace(disks=tuple(disks)))


def look(sighting: Sighting, policy: KeeperPolicy = AT_ONCE, memory: Memory | None = None) -> Judgement:
    return judge(sighting, policy, memory)


def ready(judgement: Judgement) -> Proposal | None:
    """The proposal that may be begun, if there is one."""
    return next((each for each in judgement.proposals if each.ready), None)


def later(sighting: Sighting, minutes: int) -> Sighting:
    """The same sighting some minutes later."""
    taken = sighting.inventory
    return replace(sighting, inventory=taken._replace(taken_at_ms=taken.taken_at_ms + minutes * MINUTE_MS))


def carried_out(sighting: Sighting, proposal: Proposal) -> Sighting:
    """The cluster after a proposal, a minute later."""
    return later(after(in_order(sighting), proposal.changes), 1)


@st.composite
def sightings(draw: st.DrawFn, *, healthy: bool = False) -> Sighting:
    """Clusters of 3 to 7 brokers and up to 30 partitions, skewed at will; some brokers are dead, cordoned or damaged."""
    drawn = random.Random(draw(st.integers(0, 2**32 - 1)))
    brokers = list(range(1, drawn.randint(3, 7) + 1))
    dead = [] if healthy or drawn.random() < 0.6 else drawn.sample(brokers, 1)
    empty = drawn.sample(brokers, drawn.choice([0, 0, 1]))
    holders = [broker for broker in brokers if broker not in empty]
    racks = drawn.choice([None, 2, 3])
    rows: dict[str, list[list[int]]] = {}
    for number in range(drawn.randint(1, 5)):
        factor = drawn.randint(1, min(3, len(holders)))
        favoured = sorted(holders, key=lambda broker: drawn.random() * broker)
        rows[f"t{number}"] = [
            sorted(favoured, key=lambda _: drawn.random() * drawn.choice([1, 3]))[:factor]
            for _ in range(drawn.randint(1, 6))
        ]
    failed: tuple[tuple[str, int, int], ...] = ()
    if not healthy and drawn.random() < 0.3:
        topic = drawn.choice(sorted(rows))
        failed = ((topic, 0, rows[topic][0][0]),)
    used = drawn.choice([None, {broker: drawn.uniform(0.1, 0.95) for broker in brokers}])
    made = cluster(
        rows,
        brokers=tuple(broker for broker in brokers if broker not in dead),
        racks=None if racks is None else {broker: f"r{broker % racks}" for broker in brokers},
        failed=failed,
        used=used,
        min_isr=drawn.choice([1, 1, 2]),
        cordoned=() if healthy or drawn.random() < 0.7 else tuple(drawn.sample(brokers, 1)),
    )
    return _with_sizes(made, drawn)


def _with_sizes(made: Sighting, drawn: random.Random) -> Sighting:
    partitions: list[InventoryPartition] = []
    for each in made.inventory.partitions:
        size = round(MIB * drawn.choice([0, 0.1, 1, 1, 1, 3]) * drawn.random())
        partitions.append(each._replace(sizes=tuple((broker, size) for broker, _ in each.sizes)))
    taken = made.inventory._replace(partitions=tuple(partitions))
    found = sighting_of(taken, made.check_up, made.journal, made.past)
    if drawn.random() < 0.4:
        skew = drawn.choice([1, 2, 5])
        paths = ("/a", "/b", "/c")[: drawn.choice([2, 2, 3])]
        found = shelved(found, lambda _topic, _number, _broker: paths[int(len(paths) * drawn.random() ** skew)], *paths)
    return found if drawn.random() < 0.6 else with_model(found, _with_rates(found, drawn), 24)


def _with_rates(made: Sighting, drawn: random.Random) -> LoadModel:
    rates = {
        (f"name:{each.topic}", each.partition): PartitionRates(drawn.random() ** 3 * 1e6, drawn.random() ** 3 * 1e6)
        for each in made.inventory.partitions
    }
    processors = ProcessorModel(0.1, 1e-7, 1e-7, 5e-8, {1: 1.5}) if drawn.random() < 0.5 else None
    return LoadModel(rates, made.at_ms, processors)


@st.composite
def policies(draw: st.DrawFn, *, capped: bool = True) -> KeeperPolicy:
    """Policies with frozen parts, intents, and tight bounds."""
    few = st.lists(st.integers(1, 7), max_size=2, unique=True).map(tuple)
    bound = st.none() | st.integers(0, 8) if capped else st.none()
    rails = GuardRails(
        moves=draw(bound),
        bytes=draw(bound.map(lambda n: None if n is None else n * MIB)),
        frozen_topics=draw(st.sampled_from([(), ("t0",), ("t[01]", "t3"), ("t*",)])),
        frozen_brokers=draw(few),
    )
    intents = Intents(
        drain=draw(st.sampled_from([(), (), (2,)])),
        demote=draw(st.sampled_from([(), (), (3,)])),
        least_replication=draw(st.sampled_from([0, 0, 2])),
        replication=draw(st.sampled_from([{}, {"t1": 2}])),
        replace=draw(st.sampled_from([{}, {}, {1: 4}])),
        add=draw(st.sampled_from([(), (), (5,)])),
    )
    band = draw(st.sampled_from([(0.2, 0.1), (0.5, 0.1), (0.1, 0.1)]))
    watches = {
        each: replace(watch, begin=band[0], end=band[1]) if each.value.endswith("-band") else watch
        for each, watch in AT_ONCE.watches.items()
    }
    return KeeperPolicy(watches, rails, intents)
