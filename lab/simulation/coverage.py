"""Counts of what happened in the worlds that were run, and what never happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import get_args

from lab.simulation.actions import FAULTS, OPERATIONS
from lab.simulation.zookeeper.garbled_znodes import GARBLED
from shunter.core.controller.events import Event
from shunter.core.controller.moves.lifecycle import Trigger
from shunter.core.reassignment import Closing, Row, WaitReason
from shunter.model.reassignment import Phase

CLOSINGS = tuple(f"record closed: {closing.value.replace('_', ' ')}" for closing in Closing)

TRANSITIONS = (
    "accepted pending",
    "accepted moving",
    "adopted",
    "pending -> moving",
    "pending -> closed",
    "moving -> moving",
    "moving -> rolling_back",
    "moving -> dropping",
    "moving -> closed",
    "rolling_back -> rolling_back",
    "rolling_back -> moving",
    "rolling_back -> dropping",
    "rolling_back -> closed",
    "dropping -> closed",
    "dropping -> moving",
)
"""Transitions of a move's durable record that have to occur."""

EXPECTED: dict[str, tuple[str, ...]] = {
    "fault": FAULTS,
    "operation": OPERATIONS,
    "event": tuple(event.__name__ for event in get_args(Event)),
    "transition": TRANSITIONS,
    "reconciliation": (*(row.value for row in Row), *CLOSINGS),
    "waiting": tuple(reason.value for reason in WaitReason),
    "garbled": GARBLED,
    "phase": tuple(phase.value for phase in Phase),
    "trigger": tuple(trigger.value for trigger in Trigger),
}


class Coverage:
    """Counts by (category, name)."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self.counts: Counter[tuple[str, str]] = Counter()

    def count(self, category: str, name: str, by: int = 1) -> None:
        """Count something that happened."""
        self.counts[category, name] += by

    def add(self, other: Coverage) -> None:
        """Take in another world's counts."""
        self.counts.update(other.counts)

    def gaps(self, expected: Mapping[str, Sequence[str]] = EXPECTED) -> list[str]:
        """What is expected and never happened: `category: name`."""
        return [
            f"{category}: {name}"
            for category, names in expected.items()
            for name in names
            if not self.counts[category, name]
        ]

    def rows(self) -> list[tuple[str, str, int]]:
        """Everything that happened, by category and name."""
        return [(category, name, count) for (category, name), count in sorted(self.counts.items())]
