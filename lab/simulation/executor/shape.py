"""Sizes and settings of an executor's world, drawn from its seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from lab.simulation.actions import ASIDE_OF
from lab.simulation.scheduler import EPOCH_MS, SECOND
from shunter.model.execution import DISK_SHARE, ExecutionOptions, Order
from shunter.model.limits import Window
from shunter.model.reassignment import Strategy

KB = 1_000
DAY_MINUTES = 24 * 60
NOON = EPOCH_MS // 60_000 % DAY_MINUTES
"""The minute of the day at which worlds begin, in the middle of their day."""
BY_DAY = Window((NOON - 360) % DAY_MINUTES, (NOON + 360) % DAY_MINUTES)
BY_NIGHT = Window(BY_DAY.after, BY_DAY.first)
MB = 1_000_000
ELECTING = (2, 6)
STRANDING = (3, 6)
"""KRaft worlds whose controller is one of 4.3 or 4.4, likewise."""
"""Worlds in which plans ask for elections, by `seed % ASIDE_OF`. Worlds of other seeds stay as they were before."""


@dataclass(frozen=True, slots=True)
class ExecutorShape:
    """Sizes and settings of one world. `topics`: (name, partitions, replication factor, min.insync.replicas).

    `bandwidth` is what a broker can receive for copies, bytes per second; `sizes` the range of a partition's bytes.
    `daemon`: the executor stays when nothing is left to do (`shunter serve`), else it is started for each plan.
    `ending`: what an operator does at the end with unfinished moves: "resume" (to the target) or "rollback".
    """

    brokers: tuple[int, ...]
    racks: bool
    kraft: bool
    topics: tuple[tuple[str, int, int, int], ...]
    bandwidth: int
    sizes: tuple[int, int]
    options: ExecutionOptions
    daemon: bool
    ending: str
    skew_ms: int
    quorum_us: int
    """How long the cluster is without a controller when one dies."""
    log_dirs: tuple[str, ...]
    """The log dirs of each broker. With more than one, half of the moves in plans name some."""
    journal_topic: bool
    """Whether the journal is kept in a topic; else in a file."""
    elects: bool
    """Whether half of the orders in plans ask for an election."""
    strands: bool
    """Whether a KRaft controller never ends a step whose additions another target drops, as 4.3.1 and 4.4.0 do."""
    night: bool
    """Whether it begins half a day after the scheduler's clock, by local time."""


def draw_executor_shape(seed: int) -> ExecutorShape:
    """Draw a world's shape."""
    random = Random(f"executor shape {seed}")
    count = random.choice((3, 4, 5, 6))
    topics = []
    for number in range(random.choice((1, 2, 3))):
        factor = random.randint(1, min(3, count))
        topics.append((f"t{number}", random.choice((1, 2, 4, 8)), factor, random.choice((1, 1, max(1, factor - 1)))))
    return ExecutorShape(
        brokers=tuple(range(1, count + 1)),
        racks=random.random() < 0.5,
        kraft=random.random() < 0.5,
        topics=tuple(topics),
        bandwidth=random.choice((MB, 5 * MB, 50 * MB)),
        sizes=random.choice(((0, 0), (KB, 100 * KB), (100 * KB, 20 * MB))),
        options=_draw_options(random),
        daemon=random.random() < 0.5,
        ending=random.choice(("resume", "rollback")),
        skew_ms=random.choice((0, 0, 5_000, 3_600_000)),
        quorum_us=random.choice((SECOND // 2, 6 * SECOND)),
        log_dirs=random.choice((("/data",), ("/data-a", "/data-b"), ("/data-a", "/data-b", "/data-c"))),
        journal_topic=Random(f"executor journal {seed}").random() < 0.5,
        elects=seed % ASIDE_OF in ELECTING,
        strands=seed % ASIDE_OF in STRANDING,
        night=random.random() < 0.5,
    )


def _draw_options(random: Random) -> ExecutionOptions:
    throttle = random.choice((None, 200 * KB, 2 * MB, 20 * MB))
    orders = list(Order)
    random.shuffle(orders)
    return ExecutionOptions(
        strategy=random.choice((Strategy.INCREMENTAL, Strategy.INCREMENTAL, Strategy.ALL_AT_ONCE)),
        throttle=throttle,
        throttle_floor=random.choice((None, None, 100 * KB)) if throttle is not None else None,
        max_concurrent=random.choice((0, 0, 1, 3)),
        max_in=random.choice((0, 1, 2)),
        max_out=random.choice((0, 0, 1, 2)),
        max_per_rack=random.choice((0, 0, 0, 2)),
        orders=tuple(orders[: random.randint(0, len(orders))]),
        disk_share=random.choice((DISK_SHARE, 0.9, 1.0)),
        relax_after_ms=random.choice((3_000, 30_000, 600_000)),
        log_dir_throttle=random.choice((None, 200 * KB, 2 * MB)),
        max_per_log_dir=random.choice((0, 0, 1)),
        window=random.choice((None, None, None, BY_DAY, BY_NIGHT)),
    )
