"""Clusters to plan: drawn ones for properties, and small ones that can be checked by eye."""

import numpy as np
from hypothesis import strategies as st

from shunter.core.planning.cluster import ABSENT, ClusterLoad, Indexes
from shunter.core.planning.moves import BalancedPlan


def cluster_of(
    racks: list[str],
    rows: list[tuple[str, list[int], float]],
    *,
    rates: list[tuple[float, float]] | None = None,
    disk_capacity: list[float] | None = None,
    min_isr: list[int] | None = None,
) -> ClusterLoad:
    """A cluster of brokers 0, 1, … in the given racks; `rows` are (topic, broker ids in order, size)."""
    names = tuple(sorted(set(racks)))
    topics = tuple(sorted({topic for topic, _, _ in rows}))
    width = max(len(replicas) for _, replicas, _ in rows)
    numbers: dict[str, int] = {}
    numbered = []
    for topic, _, _ in rows:
        numbers[topic] = numbers.get(topic, -1) + 1
        numbered.append(numbers[topic])
    return ClusterLoad(
        brokers=tuple(range(len(racks))),
        racks=names,
        rack_of=np.array([names.index(rack) for rack in racks], dtype=np.int32),
        topics=topics,
        topic_of=np.array([topics.index(topic) for topic, _, _ in rows], dtype=np.int32),
        numbers=np.array(numbered, dtype=np.int32),
        replicas=np.array([replicas + [ABSENT] * (width - len(replicas)) for _, replicas, _ in rows], dtype=np.int32),
        sizes=np.array([size for _, _, size in rows], dtype=np.float64),
        bytes_in=None if rates is None else np.array([rate for rate, _ in rates], dtype=np.float64),
        bytes_out=None if rates is None else np.array([rate for _, rate in rates], dtype=np.float64),
        min_isr=None if min_isr is None else np.array(min_isr, dtype=np.int32),
        disk_capacity=None if disk_capacity is None else np.array(disk_capacity, dtype=np.float64),
    )


@st.composite
def clusters(draw: st.DrawFn, *, with_rates: bool = False, clean_racks: bool = False) -> ClusterLoad:
    """Clusters of up to 9 brokers and 60 partitions, skewed at will, replication 1 to 4, some brokers empty."""
    seed = draw(st.integers(0, 2**32 - 1))
    rack_count = draw(st.integers(1, 4))
    brokers = draw(st.integers(max(3, rack_count), 9))
    partitions = draw(st.integers(1, 60))
    empty = draw(st.integers(0, 1 if rack_count < brokers else 0))
    drawn = np.random.default_rng(seed)
    racks = [f"rack-{broker % rack_count}" for broker in range(brokers)]
    rows: list[tuple[str, list[int], float]] = []
    used = brokers - empty
    for _ in range(partitions):
        most = min(4, used)
        order = sorted(range(used), key=lambda b: drawn.random() * (b + 1))
        replication = int(drawn.integers(1, most + 1))
        if clean_racks:
            replication = min(replication, len({racks[b] for b in range(used)}))
            order = list({racks[b]: b for b in reversed(order)}.values())[::-1]
        rows.append((f"t{drawn.integers(0, 5)}", order[:replication], float(int(drawn.lognormal(5, 1.5)))))
    rates = [(float(drawn.lognormal(2, 1)), float(drawn.lognormal(2, 1))) for _ in rows] if with_rates else None
    return cluster_of(racks, rows, rates=rates)


def held_by(replicas: Indexes, broker: int) -> int:
    """How many replicas a broker (by index) holds."""
    return int((replicas == broker).sum())


def rack_spread(cluster: ClusterLoad, row: list[int]) -> list[int]:
    """Replicas of one partition in each rack."""
    held = [0] * len(cluster.racks)
    for broker in row:
        if broker != ABSENT:
            held[int(cluster.rack_of[broker])] += 1
    return held


def within_bands(made: BalancedPlan) -> bool:
    """Whether every broker that takes part ends within every band that is an aim."""
    goal = made.targets
    outside = goal.outside(made.after / goal.scale)
    return not bool(np.any(outside[goal.members][:, goal.weight > 0]))
