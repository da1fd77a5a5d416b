"""How fast the data on disks grows, as past looks saw it.

Growth is measured of topics, and of the data that brokers hold beside replicas. Neither changes when replicas are
moved, so a plan that was carried out does not count as growth of the brokers that received replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from shunter.core.wording import counted
from shunter.model.partition import BrokerId
from shunter.model.service import LookGist

Name = TypeVar("Name")
DAY_MS = 24 * 3_600_000
HOUR_MS = 3_600_000
LEAST_SPAN_MS = DAY_MS
"""Growth over a shorter time follows the hours of the day, and the deletion of whole segments."""
LEAST_LOOKS = 6
_MOST_LOOKS = 100
"""If there are more looks, some are left out, because a slope is the median over all pairs of looks."""


class DiskGrowth(NamedTuple):
    """Growth in bytes a day. Topics and brokers whose data shrinks are left out."""

    topics: Mapping[str, float]
    """The growth of all partitions of a topic, one replica each."""
    others: Mapping[BrokerId, float]
    """The growth of other data on a broker's disks, beside replicas."""
    why: str = ""
    """Why nothing is known; "": there were enough looks."""


UNKNOWN = DiskGrowth({}, {}, "sizes of earlier observations are not known yet")


def growth_of(looks: Sequence[LookGist]) -> DiskGrowth:
    """The growth of topics and brokers: the median slope between looks that are at least a third of the time apart.

    Args:
        looks: The oldest first. A topic or broker that was seen for less than a day, or in fewer than 6 looks, is left
            out.

    Source: P. K. Sen, 1968; `shunter pipeline runway` does the same with daily sizes (`pipeline/load/trend.py`).
    """
    told = [look for look in looks if look.topics]
    if not told:
        return UNKNOWN
    if len(told) < LEAST_LOOKS or told[-1].at_ms - told[0].at_ms < LEAST_SPAN_MS:
        hours = LEAST_SPAN_MS // HOUR_MS
        return DiskGrowth({}, {}, f"observations of {counted(hours, 'hour')} are needed, and there are not so many yet")
    chosen = [told[at] for at in np.unique(np.linspace(0, len(told) - 1, _MOST_LOOKS).astype(int)).tolist()]
    topics: dict[str, list[tuple[int, int]]] = {}
    others: dict[BrokerId, list[tuple[int, int]]] = {}
    for look in chosen:
        for topic, size in look.topics:
            topics.setdefault(topic, []).append((look.at_ms, size))
        for broker, size in look.others:
            others.setdefault(broker, []).append((look.at_ms, size))
    return DiskGrowth(dict(_growing(topics.items())), dict(_growing(others.items())))


def _growing(found: Iterable[tuple[Name, Sequence[tuple[int, int]]]]) -> Iterator[tuple[Name, float]]:
    for name, points in found:
        slope = _slope(points)
        if slope > 0:
            yield name, slope


def _slope(points: Sequence[tuple[int, int]]) -> float:
    """Bytes a day; 0 if too little was seen."""
    times, sizes = (np.array(column, np.float64) for column in zip(*points, strict=True))
    span = float(times[-1] - times[0])
    if len(points) < LEAST_LOOKS or span < LEAST_SPAN_MS:
        return 0.0
    first, second = np.triu_indices(len(points), 1)
    apart = times[second] - times[first]
    far = apart >= span / 3
    return float(np.median((sizes[second] - sizes[first])[far] / apart[far])) * DAY_MS
