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


class LogDirCopy(NamedTuple):
    """A replica that its broker copies to another of its log dirs, whoever asked for that.

    `source`: "" if the log dir that has it failed. `copied` of `size` bytes are there.
    """

    tp: TopicPartition
    broker: BrokerId
    source: str
    destination: str
    copied: int
    size: int


class LogDirCopies(NamedTuple):
    """The copies between log dirs that are under way. `failed`: brokers that do not tell theirs, and why."""

    copies: tuple[LogDirCopy, ...]
    failed: dict[BrokerId, str]


__all__ = ["LogDirCopies", "LogDirCopy", "ReplicaDir", "ReplicaDirs"]
