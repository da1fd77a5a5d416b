"""What fewer replicas mean for a partition, said alike of a plan that is made and of one that is carried out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shunter.core.wording import counted, named
from shunter.model.partition import TopicPartition

OFFLINE_FIRST = "`shunter plan --scope offline` gives offline replicas other brokers first"

TOO_FEW = "acks=all needs them all, and is always refused by old brokers (3.4)"
"""What it means that a partition has fewer replicas than min.insync.replicas."""


def thinness(before: int, left: int, min_isr: int) -> str:
    """What fewer replicas mean for a partition; "": it has as many as before, or enough.

    Args:
        before: How many replicas it has.
        left: How many it will have; 0: it is not known.
        min_isr: Its min.insync.replicas.
    """
    if not 0 < left < before:
        return ""
    if left < min_isr:
        return f"fewer replicas than min.insync.replicas ({min_isr}): {TOO_FEW}"
    if left == 1:
        return "one replica: what it has is gone with its broker"
    return "as many replicas as min.insync.replicas: one that is down stops acks=all" if left == min_isr else ""


def told_thin(results: Iterable[tuple[TopicPartition | str, str]]) -> Iterator[str]:
    """Sentences about the partitions that a plan leaves with too few replicas: each with its `thinness`."""
    which: dict[str, list[str]] = {}
    for tp, thin in results:
        if thin:
            which.setdefault(thin, []).append(str(tp))
    for thin, names in which.items():
        yield f"{counted(len(names), 'partition is', 'partitions are')} left with {thin} ({named(names)})"
