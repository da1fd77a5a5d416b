"""When the first broker's disks are full, at the growth that looks saw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shunter.model.service import LookGist

LEAST_SPAN_MS = 6 * 3_600_000
"""Growth over a shorter time is noise: segments are deleted in lumps."""
LEAST_LOOKS = 6
FAR_DAYS = 3_650
DAY_MS = 24 * 3_600_000


class DiskRunway(NamedTuple):
    """Days until a broker's disks are full, and which one; `why`: why there is no such day."""

    days: float | None
    broker: int | None
    why: str


def disk_runway(looks: Sequence[LookGist]) -> DiskRunway:
    """Fit a line through each broker's bytes in use (least squares), and see which one is full first.

    Args:
        looks: The oldest first. A broker counts with the looks that saw its disks at the size that they have now.
    """
    if not looks:
        return DiskRunway(None, None, "no look has been kept yet")
    first: DiskRunway | None = None
    short = False
    for broker, used, total in looks[-1].disks:
        points = [(look.at_ms, b) for look in looks for name, b, size in look.disks if (name, size) == (broker, total)]
        if len(points) < LEAST_LOOKS or points[-1][0] - points[0][0] < LEAST_SPAN_MS:
            short = True
            continue
        days = np.array([at for at, _ in points], np.float64) / DAY_MS
        growth = float(np.polyfit(days - days[0], np.array([b for _, b in points], np.float64), 1)[0])
        left = (total - used) / growth if growth > 0 else np.inf
        if left < FAR_DAYS and (first is None or first.days is None or left < first.days):
            first = DiskRunway(max(0.0, float(left)), broker, "")
    if first is not None:
        return first
    if not looks[-1].disks:
        return DiskRunway(None, None, "brokers do not tell the size of their disks (they do from Kafka 3.3 on)")
    hours = LEAST_SPAN_MS // 3_600_000
    why = f"looks of {hours} hours are needed, and there are not so many yet" if short else "no disk grows"
    return DiskRunway(None, None, why)
