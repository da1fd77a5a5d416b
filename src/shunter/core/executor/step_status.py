"""The status of a move's step: one frozen value, moved by one table. Nothing else writes it.

The journal says what was decided (`CurrentStep`). The status says how far this process has got with it: whether the
cluster was asked, whether it said yes, whether the step was seen to run, and since when and why that is in doubt. It is
lost with the process: a restart begins with `UNSURE`, or with `ACCEPTED` where the journal says so, and looks.

To answer "when is a step asked for?", see which row of `TABLE` has `StepTrigger.SENT`: unasked. To answer "when is it
asked for again?", see which rows have `StepTrigger.DUE`: unsure and accepted.

Source: docs/decisions/0053-the-status-of-a-step.md; `core/controller/lifecycle.py` for the form.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from shunter.errors import InvariantViolation
from shunter.model.partition import TopicPartition


class Standing(Enum):
    """How far this process has got with a step. The value is the name that docs show."""

    IDLE = "idle"
    """The move has no step under way."""
    UNSURE = "unsure"
    """Whether the cluster has the step is not known: the partition is looked at before the step is asked for."""
    UNASKED = "unasked"
    """The cluster does not have it. It is asked for at once, unless an order about its move is being written."""
    ASKED = "asked"
    """A request is under way."""
    ACCEPTED = "accepted"
    """The cluster said that it has it, to this process or to the one before."""
    SEEN = "seen"
    """It was seen to run."""


class StepTrigger(Enum):
    """What moves a status. The value is the name that docs and errors show."""

    BEGUN = "begun"
    """A step's entry is durable."""
    OURS = "ours"
    """This process wrote that entry, so nobody can have asked for the step before."""
    TURNED = "turned"
    """The move heads elsewhere: a step that was not asked for yet is looked at again before it is."""
    SENT = "sent"
    """A request was made of it."""
    TAKEN_ON = "taken-on"
    """The cluster answered that it has it."""
    NOTHING_LEFT = "nothing-left"
    """The cluster answered that there is nothing to cancel: what was to be cancelled never ran, or is done."""
    REFUSED = "refused"
    """The cluster answered with an error that Kafka calls final."""
    UNANSWERED = "unanswered"
    """No answer came, or one that says nothing about the step."""
    RECORDED = "recorded"
    """The journal says that the cluster has it."""
    RUNS = "runs"
    """It is listed among the reassignments under way."""
    SETTLED = "settled"
    """The partition looks as it should, or nothing more is to be learnt by waiting."""
    MISSED = "missed"
    """The cluster took it on, and the partition looks as if it had never been asked for."""
    STRANGE = "strange"
    """The partition looks as only somebody else can have made it."""
    GONE = "gone"
    """The topic or the partition does not seem to exist."""
    LAGS = "lags"
    """The replicas are as the step wants them; what is shown of who is in sync is older."""
    DUE = "due"
    """It is to be asked for: it never was, or the cluster seems to have lost it."""
    FINISHED = "finished"
    """What it wanted was seen, and that is durable."""
    DROPPED = "dropped"
    """It is given up, and that is durable."""
    CLOSED = "closed"
    """The move has ended, and that is durable."""


_ALWAYS = (StepTrigger.TURNED, StepTrigger.GONE)
"""What may happen to any move. It leaves the standing as it is, unless a row says otherwise."""


def _ends(*triggers: StepTrigger) -> dict[StepTrigger, Standing]:
    return dict.fromkeys(triggers, Standing.IDLE)


def _stays(standing: Standing, *triggers: StepTrigger) -> dict[StepTrigger, Standing]:
    return dict.fromkeys((*_ALWAYS, *triggers), standing)


TABLE: Mapping[Standing, Mapping[StepTrigger, Standing]] = MappingProxyType(
    {
        Standing.IDLE: {
            **_stays(Standing.IDLE, StepTrigger.SETTLED, StepTrigger.STRANGE, StepTrigger.CLOSED),
            StepTrigger.BEGUN: Standing.UNSURE,
        },
        Standing.UNSURE: {
            **_stays(Standing.UNSURE, StepTrigger.SETTLED, StepTrigger.MISSED, StepTrigger.STRANGE, StepTrigger.LAGS),
            StepTrigger.OURS: Standing.UNASKED,
            StepTrigger.DUE: Standing.UNASKED,
            StepTrigger.RECORDED: Standing.ACCEPTED,
            StepTrigger.RUNS: Standing.SEEN,
            StepTrigger.BEGUN: Standing.UNSURE,
            **_ends(StepTrigger.FINISHED, StepTrigger.DROPPED, StepTrigger.CLOSED),
        },
        Standing.UNASKED: {
            **_stays(Standing.UNASKED),
            StepTrigger.TURNED: Standing.UNSURE,
            StepTrigger.SENT: Standing.ASKED,
            **_ends(StepTrigger.CLOSED),
        },
        Standing.ASKED: {
            **_stays(Standing.ASKED),
            StepTrigger.TAKEN_ON: Standing.ACCEPTED,
            StepTrigger.NOTHING_LEFT: Standing.ACCEPTED,
            StepTrigger.REFUSED: Standing.UNSURE,
            StepTrigger.UNANSWERED: Standing.UNSURE,
            **_ends(StepTrigger.CLOSED),
        },
        Standing.ACCEPTED: {
            **_stays(Standing.ACCEPTED, StepTrigger.SETTLED, StepTrigger.MISSED, StepTrigger.STRANGE, StepTrigger.LAGS),
            StepTrigger.RECORDED: Standing.ACCEPTED,
            StepTrigger.RUNS: Standing.SEEN,
            StepTrigger.DUE: Standing.UNASKED,
            StepTrigger.BEGUN: Standing.UNSURE,
            **_ends(StepTrigger.FINISHED, StepTrigger.DROPPED, StepTrigger.CLOSED),
        },
        Standing.SEEN: {
            **_stays(Standing.SEEN, StepTrigger.RUNS, StepTrigger.MISSED, StepTrigger.STRANGE, StepTrigger.LAGS),
            StepTrigger.RECORDED: Standing.SEEN,
            StepTrigger.BEGUN: Standing.UNSURE,
            **_ends(StepTrigger.FINISHED, StepTrigger.CLOSED),
        },
    }
)
"""(standing, trigger) → standing. A pair that is not here cannot happen: it would be our bug."""


class Doubt(NamedTuple):
    """Since when something does not look as it should, and why: `MISSED`, `STRANGE`, `GONE` or `LAGS`."""

    since_ms: int
    why: StepTrigger


class StepStatus(NamedTuple):
    """Where a move's step stands.

    Attributes:
        doubt: None: it looks as it should.
        request_id: The last request; 0: none by this process.
        requests: How often this process asked for it.
        refusals: How often the cluster refused it for good.
        blind_until_ms: What was seen before this moment says nothing about the last request.
        nothing_left: The answer was that there is nothing to cancel.
        refused: Why the cluster refused the last request; "": it did not, or the move was turned since.
        missed_since_ms: Since when it was accepted and not seen, however often it was asked for again; None: it was seen.
    """

    standing: Standing = Standing.IDLE
    doubt: Doubt | None = None
    request_id: int = 0
    requests: int = 0
    refusals: int = 0
    blind_until_ms: int = 0
    nothing_left: bool = False
    refused: str = ""
    missed_since_ms: int | None = None

    @property
    def watched(self) -> bool:
        """Whether this process began the step, or saw it run: it would know of its end."""
        return self.requests > 0 or self.standing in (Standing.UNASKED, Standing.SEEN)


def status_after(
    status: StepStatus,
    trigger: StepTrigger,
    tp: TopicPartition,
    *,
    at_ms: int = 0,
    request_id: int = 0,
    why: str = "",
) -> StepStatus:
    """Move a status by the table.

    Args:
        status: As it is.
        trigger: What happened.
        tp: Whose step it is, for the error.
        at_ms: When; for `REFUSED` and `UNANSWERED`, the first moment at which the step may be asked for again.
        request_id: For `SENT`: the request.
        why: For `REFUSED`: Kafka's name of the error, and its message.

    Raises:
        InvariantViolation: The table has no such pair.
    """
    standing = TABLE[status.standing].get(trigger)
    if standing is None:
        raise InvariantViolation("a step's status changes by the table alone", tp=tp, status=status, trigger=trigger)
    if standing is status.standing and status.doubt is None and trigger in (StepTrigger.SETTLED, StepTrigger.RUNS):
        return status  # The common case: thousands of moves are looked at again and again, and look as they should.
    match trigger:
        case StepTrigger.RUNS:
            return status._replace(standing=standing, doubt=None, refused="", missed_since_ms=None)
        case StepTrigger.SETTLED | StepTrigger.DUE:
            return status._replace(standing=standing, doubt=None)
        case StepTrigger.BEGUN | StepTrigger.FINISHED | StepTrigger.DROPPED | StepTrigger.CLOSED:
            return StepStatus(standing)
        case StepTrigger.SENT:
            return status._replace(standing=standing, request_id=request_id, requests=status.requests + 1)
        case StepTrigger.TAKEN_ON | StepTrigger.NOTHING_LEFT:
            nothing_left = trigger is StepTrigger.NOTHING_LEFT
            return status._replace(standing=standing, blind_until_ms=at_ms, nothing_left=nothing_left, refused="")
        case StepTrigger.REFUSED | StepTrigger.UNANSWERED:
            refusals = status.refusals + (trigger is StepTrigger.REFUSED)
            return status._replace(standing=standing, blind_until_ms=at_ms, refused=why, refusals=refusals)
        case StepTrigger.TURNED:
            return status._replace(standing=standing, refused="")  # What is wanted now was not refused.
        case StepTrigger.OURS | StepTrigger.RECORDED:
            return status._replace(standing=standing)
        case StepTrigger.MISSED:
            doubt = _doubted(status.doubt, trigger, at_ms)
            missed_ms = doubt.since_ms if status.missed_since_ms is None else status.missed_since_ms
            return status._replace(standing=standing, doubt=doubt, missed_since_ms=missed_ms)
        case StepTrigger.STRANGE | StepTrigger.GONE | StepTrigger.LAGS:
            return status._replace(standing=standing, doubt=_doubted(status.doubt, trigger, at_ms))


def _doubted(doubt: Doubt | None, trigger: StepTrigger, at_ms: int) -> Doubt:
    """A new doubt keeps the time of the one that it replaces. Only a lag has a time of its own, because it has a known cause."""
    if doubt is not None and (doubt.why is StepTrigger.LAGS) is (trigger is StepTrigger.LAGS):
        return Doubt(doubt.since_ms, trigger)
    return Doubt(at_ms, trigger)
