"""Sizes and settings of a world, drawn from its seed. Most worlds are small, because these find most per second."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from lab.simulation.actions import ASIDE, ASIDE_OF, EDGE_WEIGHTS, ISOLATION_WEIGHTS
from lab.simulation.scheduler import MS, SECOND
from shunter.model.reassignment import Intervention, Strategy
from shunter.model.settings import ControllerSettings, ControlRequestEpoch, Takeover


class Size(NamedTuple):
    """The choices from which a world's size is drawn."""

    brokers: tuple[int, ...]
    topics: tuple[int, ...]
    partitions: int
    """The most partitions of one topic."""
    steps: tuple[int, int]
    produce_ms: tuple[int, ...]
    """Time between two records, whatever their partitions."""


NEWEST_ALTER_PARTITION = 3
ISOLATED_AFTER_MS = 2_000
SMALL = Size((3, 3, 4), (1, 1, 2), 2, (8, 24), (40, 100))
MIDDLE = Size((3, 4, 4, 5), (1, 2, 2), 3, (20, 40), (20, 60))
LARGE = Size((3, 4, 4, 5, 5), (1, 2, 2, 3), 4, (60, 60), (10, 30))
SIZES = (SMALL, SMALL, SMALL, SMALL, MIDDLE, MIDDLE, LARGE)


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes and settings of one world. `topics`: (name, partitions, replication factor, min.insync.replicas).

    `steps`: the number of actions in its plan, unless the caller of `run_seed` gives one.
    """

    steps: int
    brokers: tuple[int, ...]
    controllers: tuple[tuple[int, Takeover], ...]
    topics: tuple[tuple[str, int, int, int], ...]
    settings: ControllerSettings
    apache_contends: bool
    broker_session_us: int
    controller_session_us: int
    skew_ms: int
    produce_us: int
    alter_version: int = NEWEST_ALTER_PARTITION
    """The version of AlterPartition that all brokers speak."""
    identified: bool = False
    """Whether brokers are asked for their ApiVersions; otherwise they are taken for old ones."""
    racks: tuple[str | None, ...] = ()
    """The racks of the brokers, in their order; empty: no broker has one."""


def draw_shape(seed: int) -> Shape:
    """Draw a world's shape."""
    random = Random(f"shape {seed}")
    size = random.choice(SIZES)
    count = random.choice(size.brokers)
    brokers = tuple(range(1, count + 1))
    takeovers = (Takeover.VACANT, Takeover.STANDBY, Takeover.PREEMPT)
    controllers = tuple((100 + number, random.choice(takeovers)) for number in range(random.choice((1, 2, 2, 3))))
    topics = []
    for number in range(random.choice(size.topics)):
        factor = random.randint(1, min(3, count))
        min_isr = random.choice((1, 1, max(1, factor - 1)))
        topics.append((f"t{number}", random.randint(1, size.partitions), factor, min_isr))
    settings = ControllerSettings(
        broker_id=0,
        control_request_epoch=random.choice(
            (ControlRequestEpoch.MAX, ControlRequestEpoch.MAX, ControlRequestEpoch.PER_BROKER)
        ),
        strategy=random.choice((Strategy.INCREMENTAL, Strategy.INCREMENTAL, Strategy.ALL_AT_ONCE)),
        cancel_mode=random.choice((Intervention.ROLL_BACK, Intervention.STOP)),
        max_concurrent=random.choice((0, 0, 1, 2)),
        max_concurrent_per_broker=random.choice((0, 0, 1)),
        relax_after_ms=random.choice((2_000, 30_000)),
        slow_broker_ms=random.choice((1_000, 10_000)),
        slice_partitions=random.choice((1, 2, 3, 500)),
        leader_rebalance_interval_ms=random.choice((3_000, 300_000)),
        leader_imbalance_percent=random.choice((0, 10)),
        roll_back_after_ms=random.choice((0, 0, 4_000)),
    )
    if ASIDE.get(seed % ASIDE_OF) is ISOLATION_WEIGHTS:
        settings = replace(
            settings, isolated_after_ms=ISOLATED_AFTER_MS
        )  # A world lasts no longer than the real bound.
    alter_version, racks = _draw_edge(seed, count)
    return Shape(
        steps=random.randint(*size.steps),
        brokers=brokers,
        controllers=controllers,
        topics=tuple(topics),
        settings=settings,
        apache_contends=random.random() < 0.3,
        broker_session_us=random.choice((2 * SECOND, 6 * SECOND)),
        controller_session_us=random.choice((1 * SECOND, 3 * SECOND)),
        skew_ms=random.choice((0, 0, 5_000, 3_600_000)),
        produce_us=random.choice(size.produce_ms) * MS,
        alter_version=alter_version,
        racks=racks,
        identified=_has_edges(seed),
    )


def _draw_edge(seed: int, brokers: int) -> tuple[int, tuple[str | None, ...]]:
    """Draw the version of AlterPartition and the racks, which vary only in worlds with edges, by a PRNG of its own."""
    if not _has_edges(seed):
        return NEWEST_ALTER_PARTITION, ()
    random = Random(f"edge {seed}")
    version = random.choice((0, 0, 1, 2, NEWEST_ALTER_PARTITION, NEWEST_ALTER_PARTITION))
    racks = tuple(f"r{number % 2}" for number in range(brokers)) if random.random() < 0.4 else ()
    return version, racks


def _has_edges(seed: int) -> bool:
    return ASIDE.get(seed % ASIDE_OF) is EDGE_WEIGHTS
