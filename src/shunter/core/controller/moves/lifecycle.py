"""The phases of a move: one table says which phase follows which, and why. Nothing else writes a phase.

A decision calls `Draft.transition` with a trigger. The draft looks the trigger up here, writes the record with its new
phase, and keeps the `Transition`. When the draft is durable, `Ready.transitions` has its transitions; those of a
refused draft are dropped. `None` stands for "there is no record": before a move is accepted, and after it has ended.

To answer "when may a move be paused?", see which rows of `TABLE` have `Trigger.PAUSED`: pending, moving, paused.

Source: docs/decisions/0002-decide-and-apply.md; h11's `_state.py` and dask's `worker_state_machine.py` for the form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from shunter.core.reassignment.situation import Step
from shunter.errors import InvariantViolation
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Phase, Reassignment


class Trigger(Enum):
    """Why a move's record is written. The value is the stable name that logs and tools show."""

    ACCEPTED = "accepted"
    """A target was accepted for a partition that nothing moves."""
    ACCEPTED_PAUSED = "accepted-paused"
    """A target was accepted, for a new move or for one under way, while a pause holds the partition."""
    ADOPTED = "adopted"
    """A start-up found a partition in motion that has no record, or whose record is out of date."""
    INHERITED = "inherited"
    """A start-up found a target in a znode for a partition that does not move yet."""
    BEGUN = "begun"
    """The move's turn came, or another controller had begun it already."""
    STEPPED = "stepped"
    """One step was taken; more follow."""
    RETARGETED = "retargeted"
    """A move under way got another target."""
    AMENDED = "amended"
    """The target, the strategy or the origin of the record changed; what the move does now did not."""
    RELAXED = "relaxed"
    """The floor is relaxed: the move waited too long, or an operator said so."""
    PAUSED = "paused"
    """An operator paused the move."""
    RESUMED = "resumed"
    """An operator let a move go on that had begun before it was paused."""
    REQUEUED = "requeued"
    """An operator let a move go on that had not begun: it waits for its turn again."""
    ROLLED_BACK = "rolled-back"
    """The move goes back to its original replicas."""
    DELETIONS_LEFT = "deletions-left"
    """The move is over, but a broker has not acknowledged yet that it deleted a dropped replica."""
    ENDED = "ended"
    """The move is over, and nothing is left to be done for it."""


_NEW: Mapping[Trigger, Phase | None] = {
    Trigger.ACCEPTED: Phase.PENDING,
    Trigger.ACCEPTED_PAUSED: Phase.PAUSED,
    Trigger.ADOPTED: Phase.MOVING,
    Trigger.INHERITED: Phase.PENDING,
}
"""Triggers that make a record, where there is none or only that of a move that is over."""

_ONGOING: Mapping[Trigger, Phase | None] = {
    Trigger.ACCEPTED_PAUSED: Phase.PAUSED,
    Trigger.ROLLED_BACK: Phase.ROLLING_BACK,
    Trigger.DELETIONS_LEFT: Phase.DROPPING,
    Trigger.ENDED: None,
    Trigger.ADOPTED: Phase.MOVING,
    Trigger.INHERITED: Phase.PENDING,
}
"""Triggers that every phase of a move that is not over has."""

TABLE: Mapping[Phase | None, Mapping[Trigger, Phase | None]] = MappingProxyType(
    {
        None: _NEW,
        Phase.PENDING: {
            Trigger.AMENDED: Phase.PENDING,
            Trigger.RELAXED: Phase.PENDING,
            Trigger.BEGUN: Phase.MOVING,
            Trigger.PAUSED: Phase.PAUSED,
            **_ONGOING,
        },
        Phase.MOVING: {
            Trigger.AMENDED: Phase.MOVING,
            Trigger.RELAXED: Phase.MOVING,
            Trigger.STEPPED: Phase.MOVING,
            Trigger.RETARGETED: Phase.MOVING,
            Trigger.PAUSED: Phase.PAUSED,
            **_ONGOING,
        },
        Phase.PAUSED: {
            Trigger.AMENDED: Phase.PAUSED,
            Trigger.PAUSED: Phase.PAUSED,
            Trigger.RESUMED: Phase.MOVING,
            Trigger.REQUEUED: Phase.PENDING,
            Trigger.RETARGETED: Phase.MOVING,
            **_ONGOING,
        },
        Phase.ROLLING_BACK: {
            Trigger.AMENDED: Phase.ROLLING_BACK,
            Trigger.RELAXED: Phase.ROLLING_BACK,
            Trigger.STEPPED: Phase.ROLLING_BACK,
            Trigger.RETARGETED: Phase.MOVING,
            **_ONGOING,
        },
        Phase.DROPPING: {**_NEW, Trigger.DELETIONS_LEFT: Phase.DROPPING, Trigger.ENDED: None},
    }
)
"""(phase, trigger) → phase. A pair that is not in the table would be a bug."""

BEGUN = frozenset({Phase.MOVING, Phase.ROLLING_BACK})
"""Phases in which a move counts for `reassignment_max_concurrent`."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One move's record was written.

    Attributes:
        before: Its phase; None: there was no record.
        after: Its phase; None: the record was closed.
        step: The step that was written with it, if any.
        cause: Id of the event that asked for it.
        move: The record as it was written; of a closed one, as it stood before.
    """

    tp: TopicPartition
    before: Phase | None
    trigger: Trigger
    after: Phase | None
    step: Step | None
    cause: str
    move: Reassignment


def phase_after(before: Phase | None, trigger: Trigger, tp: TopicPartition) -> Phase | None:
    """Look the next phase up.

    Raises:
        InvariantViolation: The table has no such pair.
    """
    row = TABLE[before]
    if trigger not in row:
        raise InvariantViolation("a move's phase changes by the table alone", tp=tp, phase=before, trigger=trigger)
    return row[trigger]
