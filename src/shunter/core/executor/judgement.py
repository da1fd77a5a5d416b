"""What an observation says about a step under way."""

from __future__ import annotations

from enum import Enum

from shunter.core.executor.state import CurrentStep, Move
from shunter.core.executor.step_status import Standing, StepTrigger
from shunter.model.execution import ObservedPartition, OngoingReassignment
from shunter.model.partition import BrokerId, Replicas

CONFIRM_MS = 3_000
"""What looks like a foreign act must last longer than this."""
LAG_MS = 30_000
"""Brokers' metadata lag behind the controller, by seconds when thousands of partitions move on busy machines: a
partition that looks as it looked before must look so for longer than this until somebody else is held to account."""
RESEND_MS = 5_000
"""A step that was taken on and never seen under way is asked for again after this: it does no harm if it is done."""
RESENDS = 3
"""A step is given up after so many requests and `LAG_MS`, not before: one that only reorders is never seen to run."""


PATIENCE = 5
"""Refusals that Kafka calls final after which a step's move is given up. A broker that dies is refused before it is known."""


class Verdict(Enum):
    """What to do about a step."""

    KEEP = "keep"
    """It runs, or it can't be told yet."""
    DOUBT = "doubt"
    """It looks as if somebody else were at it: nothing is asked for until that is sure or over."""
    SEND = "send"
    """It was never asked for, or the asking was lost."""
    TAKEN = "taken"
    """It runs, and nobody told us so: its answer was lost."""
    FINISHED = "finished"
    CANCELLED = "cancelled"
    """Somebody else cancelled it."""
    CHANGED = "changed"
    """Somebody else changed the partition."""


class Sight(Enum):
    """How the partition looks, compared with the step."""

    BEFORE = "before"
    RUNNING = "running"
    REACHED = "reached"
    OTHER = "other"


def sight(step: CurrentStep, seen: ObservedPartition, ongoing: OngoingReassignment | None) -> Sight:
    """Compare what was seen with what the step wants.

    The order of replicas counts for what is reached, but not for what was there before: while a step runs, Apache
    writes the target first and what it removes last, and a cancel leaves that order.
    """
    if ongoing is not None:
        # What waits for its turn is listed without the order in which it will be.
        asked = ongoing.target == step.after or (not ongoing.written and _same(ongoing.target, step.after))
        if asked and not step.cancels:
            return Sight.RUNNING
        return Sight.BEFORE if ongoing.target in step.redirected_from else Sight.OTHER
    if seen.replicas == step.after or (step.cancels and _same(seen.replicas, step.after)):
        return Sight.REACHED
    if seen.replicas in step.redirected_from:
        # The step that this one takes the place of was faster: nothing is left to cancel, or the request stands.
        return Sight.REACHED if step.cancels else Sight.BEFORE
    return Sight.BEFORE if _same(seen.replicas, step.before) else Sight.OTHER


def judge(move: Move, seen: ObservedPartition, ongoing: OngoingReassignment | None, now_ms: int) -> Verdict:
    """Say what to do about the step under way; its status learns what was seen, and since when that is doubtful.

    Pre: what was seen is newer than the step's last request, and metadata are newer than the list.
    """
    step, status = move.step, move.status
    assert step is not None
    looks = sight(step, seen, ongoing)
    if looks is Sight.RUNNING:
        move.note(StepTrigger.RUNS)
        return Verdict.KEEP if step.accepted else Verdict.TAKEN
    # Where we don't know that it was ever taken on, the partition may have moved since, or these metadata may be late.
    believed = step.accepted or not step.returns
    if looks is Sight.REACHED and believed:
        # There was nothing to cancel: the former step may be done, and metadata that show the state before it late.
        done = not status.nothing_left or seen.replicas in step.redirected_from[-1:]
        return Verdict.FINISHED if done or now_ms - status.blind_until_ms >= LAG_MS else Verdict.DOUBT
    if looks is not Sight.OTHER and not step.accepted:
        move.note(StepTrigger.SETTLED)
        return Verdict.SEND
    return _judge_doubtful(move, looks, seen, ongoing, now_ms)


def _left_over(move: Move, seen: ObservedPartition) -> bool:
    """Whether a cancel left more than it was to: what a target before the last had added, and the last did not want.

    KRaft takes back what is being added. A replica that a newer target is removing is none of that any more.
    """
    step = move.step
    assert step is not None
    more = set(seen.replicas).difference(step.after)
    return step.cancels and set(step.after) <= set(seen.replicas) and more <= set[BrokerId]().union(*move.passed)


def _judge_doubtful(
    move: Move, looks: Sight, seen: ObservedPartition, ongoing: OngoingReassignment | None, now_ms: int
) -> Verdict:
    """Say how long to look at a step that looks as it should not."""
    status = move.note(StepTrigger.STRANGE if looks is Sight.OTHER else StepTrigger.MISSED, now_ms)
    assert status.doubt is not None
    lasted = now_ms - status.doubt.since_ms
    if looks is Sight.OTHER:
        if lasted < patience(move, seen, ongoing):
            return Verdict.DOUBT
        return Verdict.FINISHED if ongoing is None and _left_over(move, seen) else Verdict.CHANGED
    if status.standing is Standing.SEEN:
        return Verdict.CANCELLED if lasted >= LAG_MS else Verdict.KEEP
    if lasted < RESEND_MS:
        return Verdict.KEEP
    assert status.missed_since_ms is not None
    if status.requests >= RESENDS and now_ms - status.missed_since_ms >= LAG_MS:
        return Verdict.CANCELLED
    move.note(StepTrigger.SETTLED)
    return Verdict.SEND


def told_refusal(step: CurrentStep, why: str) -> str:
    """What people are told of a step that the cluster refuses; `why` is Kafka's name of the error, and its message."""
    return f"the cluster refuses the step to {list(step.after)}: {why}"


def patience(move: Move, seen: ObservedPartition, ongoing: OngoingReassignment | None) -> int:
    """How long something must look strange before somebody else is held to account, in milliseconds.

    What is under way comes from the controller itself; where replicas are comes from a broker that may be late.
    """
    return LAG_MS if ongoing is None and move.went_through(seen.replicas) else CONFIRM_MS


def _same(some: Replicas, others: Replicas) -> bool:
    return len(some) == len(others) and set(some) == set(others)
