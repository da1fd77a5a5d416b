"""Where replicas are among the log dirs of their brokers, and copies from one log dir of a broker to another."""

from __future__ import annotations

from typing import NamedTuple

from shunter.model.partition import BrokerId, TopicPartition


class ReplicaDir(NamedTuple):
    """A replica's log dir, the log dir that it is being copied to, its size, and how much is there; None: no such.

    Both figures are bytes.
    """

    current: str | None
    future: str | None
    size: int
    copied: int = 0


class ReplicaDirs(NamedTuple):
    """Log dirs of replicas, without those that their broker does not report. `failed`: brokers that did not answer."""

    found: dict[tuple[BrokerId, TopicPartition], ReplicaDir]
    failed: dict[BrokerId, str]


__all__ = ["ReplicaDir", "ReplicaDirs"]
