"""Inputs for the planner's benchmark, and the score of a plan. This module imports nothing of Shunter.

An input is a skewed cluster that has just got new, empty brokers. Topic sizes are lognormal (median e^5 MiB, sigma
1.5), partition sizes lognormal around their topic's (sigma 0.5), and older brokers have more replicas. Replicas of a
partition are in different racks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SHAPES = {
    # brokers, racks, topics, partitions of a topic, replicas, new brokers
    "small": (12, 3, 40, 12, 3, 2),
    "mid": (30, 3, 200, 20, 3, 6),
    "big": (100, 5, 1_000, 30, 3, 20),
    "huge": (200, 5, 5_000, 40, 3, 20),
    "giant": (215, 5, 9_333, 100, 3, 20),
}
_ROWS_AT_ONCE = 50_000


def planning_input(shape: tuple[int, int, int, int, int, int], seed: int) -> dict[str, Any]:
    """Draw an input: brokers with racks, and one row per partition; sizes in KiB.

    Each old broker b gets the random key uniform * sqrt(b). The lowest key of each rack wins, and the lowest of these.
    """
    brokers, racks, topics, partitions, replicas, new = shape
    drawn = np.random.default_rng(seed)
    ids = np.arange(1, brokers - new + 1)
    by_rack = [np.flatnonzero(ids % racks == rack) for rack in range(racks)]
    count = topics * partitions
    chosen = np.empty((count, replicas), dtype=np.int64)
    for first in range(0, count, _ROWS_AT_ONCE):
        rows = min(_ROWS_AT_ONCE, count - first)
        keys = drawn.random((rows, len(ids))) * np.sqrt(ids)
        best = np.stack([held[keys[:, held].argmin(axis=1)] for held in by_rack], axis=1)
        order = np.take_along_axis(keys, best, axis=1).argsort(axis=1)[:, :replicas]
        chosen[first : first + rows] = ids[np.take_along_axis(best, order, axis=1)]
    middle = np.repeat(drawn.normal(5, 1.5, topics), partitions)
    sizes = np.maximum(8, np.exp(drawn.normal(middle, 0.5)) * 1024).astype(np.int64).tolist()
    rows_out = [
        {"topic": f"topic-{at // partitions:05d}", "partition": at % partitions, "replicas": replica, "size": size}
        for at, (replica, size) in enumerate(zip(chosen.tolist(), sizes, strict=True))
    ]
    return {
        "brokers": {str(broker): f"rack-{broker % racks}" for broker in range(1, brokers + 1)},
        "partitions": rows_out,
    }


@dataclass(frozen=True, slots=True)
class Score:
    """The result of a plan. Spreads are (least, most) in shares of the mean; percents are of all replicas' bytes."""

    disk: tuple[float, float]
    replicas: tuple[float, float]
    leaders: tuple[float, float]
    moves: int
    bytes_percent: float
    rack_violations: int
    bound_percent: float
    """The least share of bytes that has to move to bring every disk to 0.9-1.1 of the mean."""

    @property
    def within_band(self) -> bool:
        """Whether every broker is within 0.9-1.1 in all three, to three decimals, and racks are kept."""
        spreads = (self.disk, self.replicas, self.leaders)
        return self.rack_violations == 0 and all(round(a, 3) >= 0.9 and round(b, 3) <= 1.1 for a, b in spreads)


def score(cluster: dict[str, Any], plan: list[dict[str, Any]]) -> Score:
    """Measure a plan (the partitions of Kafka's reassignment JSON) against its input.

    Raises:
        ValueError: The plan repeats a broker, names one that is unknown, or changes a replication factor.
    """
    rows = cluster["partitions"]
    ids = np.array(sorted(map(int, cluster["brokers"])))
    racks = np.array([cluster["brokers"][str(broker)] for broker in ids.tolist()])
    rack_names, rack_of = np.unique(racks, return_inverse=True)
    position = {(row["topic"], row["partition"]): at for at, row in enumerate(rows)}
    old = np.searchsorted(ids, np.array([row["replicas"] for row in rows]))
    new = old.copy()
    for change in plan:
        replicas = change["replicas"]
        at = position[change["topic"], change["partition"]]
        known = np.isin(replicas, ids).all()
        if len(replicas) != old.shape[1] or len(set(replicas)) != len(replicas) or not known:
            raise ValueError(f"{change['topic']}-{change['partition']}: replicas {replicas} do not fit the input")
        new[at] = np.searchsorted(ids, replicas)
    sizes = np.array([row["size"] for row in rows], dtype=np.float64)
    added = ~(new[:, :, None] == old[:, None, :]).any(axis=2)
    total = float(sizes.sum() * old.shape[1])
    before = _disk(old, sizes, len(ids))
    mean = total / len(ids)
    in_racks = np.sort(rack_of[new], axis=1)
    distinct = 1 + (in_racks[:, 1:] != in_racks[:, :-1]).sum(axis=1)
    bound = max(np.maximum(0.9 * mean - before, 0).sum(), np.maximum(before - 1.1 * mean, 0).sum())
    return Score(
        disk=_spread(_disk(new, sizes, len(ids))),
        replicas=_spread(np.bincount(new.ravel(), minlength=len(ids))),
        leaders=_spread(np.bincount(new[:, 0], minlength=len(ids))),
        moves=int(added.sum()),
        bytes_percent=100 * float((added * sizes[:, None]).sum()) / total,
        rack_violations=int((distinct < min(old.shape[1], len(rack_names))).sum()),
        bound_percent=100 * float(bound) / total,
    )


def first_part(cluster: dict[str, Any], plan: list[dict[str, Any]], percent: float) -> list[dict[str, Any]]:
    """The first changes of a plan, up to a share of all bytes."""
    rows = {(row["topic"], row["partition"]): row for row in cluster["partitions"]}
    left = sum(row["size"] * len(row["replicas"]) for row in cluster["partitions"]) * percent / 100
    kept: list[dict[str, Any]] = []
    for change in plan:
        row = rows[change["topic"], change["partition"]]
        left -= len(set(change["replicas"]) - set(row["replicas"])) * row["size"]
        if left < 0:
            break
        kept.append(change)
    return kept


def _disk(replicas: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any], brokers: int) -> np.ndarray[Any, Any]:
    return np.bincount(replicas.ravel(), weights=np.repeat(sizes, replicas.shape[1]), minlength=brokers)


def _spread(values: np.ndarray[Any, Any]) -> tuple[float, float]:
    return float(values.min() / values.mean()), float(values.max() / values.mean())
