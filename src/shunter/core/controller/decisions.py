"""Decisions about single partitions, and their rules: values for the state-change log and `shunter why`.

A draft notes a ruling whenever it writes something about a partition. When the draft is durable, the rulings become
decisions; those of a refused draft are dropped. Moves have their own values besides (`lifecycle.Transition`).
"""

from __future__ import annotations

from typing import NamedTuple

from shunter.core.reassignment.situation import Waiting
from shunter.model.partition import BrokerId, PartitionState, TopicPartition


class Ruling(NamedTuple):
    """One rule that had a say.

    Attributes:
        cause: Id of the event that asked for the task.
        reason: Why the partition was looked at: name of a `review.Reason`; empty where the event itself asked for it.
        part: Which part of the review decided: name of a `review.Part`; empty outside reviews.
    """

    cause: str
    reason: str
    part: str


class Decision(NamedTuple):
    """A decision about one partition that became durable with one write.

    Attributes:
        before: The partition before the decision; None: it did not exist.
        after: The partition now; None: it is gone.
        dropped: Live brokers that are told to delete their replicas.
        owed: Brokers that can't be told, and owe the deletion.
        waits: What its move waits for from now on; None: for nothing, or it does not move.
        waits_anew: Whether `waits` is new.
    """

    tp: TopicPartition
    rulings: tuple[Ruling, ...]
    before: PartitionState | None
    after: PartitionState | None
    dropped: tuple[BrokerId, ...]
    owed: tuple[BrokerId, ...]
    waits: Waiting | None
    waits_anew: bool
