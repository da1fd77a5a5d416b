"""A condition that holds: where, with which figures, and the facts that a plan to mend it needs."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.model.inventory import OfflineReplica, TopicWish
from shunter.model.keeper import Subject
from shunter.model.partition import BrokerId

ABOVE, BELOW = "above", "below"


@dataclass(frozen=True, slots=True)
class Sign:
    """A condition that holds. `mark`: while it stays the same, the condition counts as the same one from look to look."""

    subject: Subject
    text: str
    brokers: tuple[BrokerId, ...] = ()
    replicas: tuple[OfflineReplica, ...] = ()
    wishes: tuple[TopicWish, ...] = ()
    mark: str = ""
    side: str = ""
    """On which side of its threshold a broker is: `ABOVE` or `BELOW`; "": the condition has no sides."""
