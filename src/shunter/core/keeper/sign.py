"""A condition that holds: of what, with which figures, and what a plan has to know of it."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.model.inventory import OfflineReplica, TopicWish
from shunter.model.keeper import Subject
from shunter.model.partition import BrokerId


@dataclass(frozen=True, slots=True)
class Sign:
    """A condition that holds. `mark`: as long as it stays the same, nothing has changed there."""

    subject: Subject
    text: str
    brokers: tuple[BrokerId, ...] = ()
    replicas: tuple[OfflineReplica, ...] = ()
    wishes: tuple[TopicWish, ...] = ()
    mark: str = ""
