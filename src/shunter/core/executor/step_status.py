"""The status of a move's step: one frozen value, moved by one table. Nothing else writes it.

The journal says what was decided (`CurrentStep`). The status says how far this process has got with the step: whether
the cluster was asked, whether it accepted, whether the step was seen to run, and since when and why there is a doubt.
The status is lost with the process. A restart begins with `UNSURE`, or with `ACCEPTED` where the journal says so, and
looks at the partition.

To answer "when is a step asked for?", see which row of `TABLE` has `StepTrigger.SENT`: unasked. To answer "when is it
asked for again?", see which rows have `StepTrigger.DUE`: unsure and accepted.

Source: docs/decisions/0002-decide-and-apply.md; `core/controller/moves/lifecycle.py` for the form.
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
    """It is not known whether the cluster has the step. The partition is looked at before the step is asked for."""
    UNASKED = "unasked"
    """The cluster does not have the step. It is asked for at once, unless an entry about its move is being written."""
    ASKED = "asked"
    """A request is under way."""
    ACCEPTED = "accepted"
    """The cluster answered, to this process or to an earlier one, that it took the step on."""
    SEEN = "seen"
    """The step was seen to run."""


class StepTrigger(Enum):
    """An event that moves a status. The value is the name that docs and errors show."""

    BEGUN = "begun"
    """A step's entry is durable."""
    OURS = "ours"
    """This process wrote the step's entry, so no process can have asked for the step before."""
    TURNED = "turned"
    """The move heads elsewhere. A step that was not asked for yet is looked at again first."""
    SENT = "sent"
    """The step was put into a request."""
    TAKEN_ON = "taken-on"
    """The cluster answered that it took the step on."""
    NOTHING_LEFT = "nothing-left"
    """The cluster answered that there is nothing to cancel: the former step never ran, or is done."""
    REFUSED = "refused"
    """The cluster answered with an error that Kafka calls final."""
    UNANSWERED = "unanswered"
    """No answer came, or the answer says nothing about the step."""
    RECORDED = "recorded"
    """The journal says that the cluster took the step on."""
    RUNS = "runs"
    """The step is listed among the reassignments under way."""
    SETTLED = "settled"
    """The partition looks as it should, or to wait longer would show nothing new."""
    MISSED = "missed"
    """The cluster took the step on, but the partition looks as if the step had never been asked for."""
    STRANGE = "strange"
    """The partition looks as only another tool can have left it."""
    GONE = "gone"
    """The topic or the partition does not seem to exist."""
    LAGS = "lags"
    """The replicas are as the step wants them, but the ISR that metadata show is older."""
    DUE = "due"
    """The step is to be asked for: it never was, or the cluster seems to have lost it."""
    FINISHED = "finished"
    """The step's outcome was seen, and that is durable."""
    DROPPED = "dropped"
    """The step is given up, and that is durable."""
    CLOSED = "closed"
    """The move has ended, and that is durable."""


_ALWAYS = (StepTrigger.TURNED, StepTrigger.GONE)
"""Triggers that may come at any standing. They leave it as it is, unless a row says otherwise."""


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
"""(standing, trigger) → standing. A pair that is not here cannot happen: it would be a bug of the executor."""


class Doubt(NamedTuple):
    """Since when something does not look as it should, and why: `MISSED`, `STRANGE`, `GONE` or `LAGS`."""

    since_ms: int
    why: StepTrigger


class StepStatus(NamedTuple):
    """The status of a move's step.

    Attributes:
        doubt: The present doubt; None: the step looks as it should.
        request_id: The last request; 0: none by this process.
        requests: How often this process asked for the step.
        refusals: How often the cluster refused the step with a final error.
        blind_until_ms: Observations from before this moment say nothing about the last request.
        nothing_left: The answer was that there is nothing to cancel.
        refused: Why the cluster refused the last request; "": it did not, or the move was turned since.
        missed_since_ms: Since when the step was missed, however often it was asked for again; None: it was not, or it
            was seen to run since.
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

    def doubted_ms(self, now_ms: int) -> int:
        """For how long the step has not looked as it should."""
        return 0 if self.doubt is None else now_ms - self.doubt.since_ms

    @property
    def watched(self) -> bool:
        """Whether this process began the step, or saw it run, and so would know of its end."""
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
        tp: The step's partition, for the error.
        at_ms: When it happened; for `REFUSED` and `UNANSWERED`, the first moment at which to ask for the step again.
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
            return status._replace(standing=standing, refused="")  # The refused step is no longer wanted.
        case StepTrigger.OURS | StepTrigger.RECORDED:
            return status._replace(standing=standing)
        case StepTrigger.MISSED:
            doubt = _doubted(status.doubt, trigger, at_ms)
            missed_ms = doubt.since_ms if status.missed_since_ms is None else status.missed_since_ms
            return status._replace(standing=standing, doubt=doubt, missed_since_ms=missed_ms)
        case StepTrigger.STRANGE | StepTrigger.GONE | StepTrigger.LAGS:
            return status._replace(standing=standing, doubt=_doubted(status.doubt, trigger, at_ms))


def _doubted(doubt: Doubt | None, trigger: StepTrigger, at_ms: int) -> Doubt:
    """A new doubt with the time of the doubt that it replaces. Only a lag has its own time: its cause is known."""
    if doubt is not None and (doubt.why is StepTrigger.LAGS) is (trigger is StepTrigger.LAGS):
        return Doubt(doubt.since_ms, trigger)
    return Doubt(at_ms, trigger)
