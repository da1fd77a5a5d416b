"""Judges a step under way by an observation of its partition."""

from __future__ import annotations

from enum import Enum

from shunter.core.executor.state import CurrentStep, Move, ObservedCluster
from shunter.core.executor.step_status import Standing, StepStatus, StepTrigger
from shunter.core.executor.waits import Wait, WaitKind
from shunter.model.execution import ObservedPartition, OngoingReassignment
from shunter.model.partition import BrokerId, Replicas

CONFIRM_MS = 3_000
"""An appearance of another tool's change must last longer than this."""
LAG_MS = 30_000
"""Brokers' metadata lag behind the controller, by seconds if thousands of partitions move on busy machines. So a
partition has to look as it did before the step for longer than this, before that counts as another tool's change."""
VERY_LATE_MS = 600_000
"""The same for a partition that looks as if its step still ran, while the controller no longer lists it: no other tool
sets exactly these replicas. A broker shows nothing new before it has processed the control requests that it got, which
takes minutes if it makes and deletes thousands of replicas."""
RESEND_MS = 5_000
"""A step that was taken on and never seen to run is asked for again after this, which is harmless if it is done."""
RESENDS = 3
"""A step is given up after this many requests and `LAG_MS`. A step that only reorders is never seen to run."""


PATIENCE = 5
"""How many final refusals end a move. One is not enough: a target broker may have died, and nothing showed it yet."""


class Verdict(Enum):
    """The decision about a step."""

    KEEP = "keep"
    """It runs, or whether it runs is not known yet."""
    DOUBT = "doubt"
    """The partition looks as if another tool changed it. Nothing is asked for until that is certain, or has passed."""
    SEND = "send"
    """It was never asked for, or the request was lost."""
    TAKEN = "taken"
    """It runs, but the answer to its request was lost."""
    FINISHED = "finished"
    CANCELLED = "cancelled"
    """Another tool cancelled it."""
    CHANGED = "changed"
    """Another tool changed the partition."""


class Sight(Enum):
    """How the partition looks, compared with the step."""

    BEFORE = "before"
    RUNNING = "running"
    REACHED = "reached"
    OTHER = "other"


def sight(step: CurrentStep, seen: ObservedPartition, ongoing: OngoingReassignment | None) -> Sight:
    """Compare the observed replicas with those that the step wants.

    The order of replicas counts for `REACHED`, but not for `BEFORE`: while a step runs, Apache writes the target first
    and the replicas to be removed last, and a cancel leaves that order.
    """
    if ongoing is not None:
        # A move that waits for its turn at Shunter's controller is listed without the order of its target.
        asked = ongoing.target == step.after or (not ongoing.written and _same(ongoing.target, step.after))
        if asked and not step.cancels:
            return Sight.RUNNING
        return Sight.BEFORE if ongoing.target in step.redirected_from else Sight.OTHER
    if seen.replicas == step.after or (step.cancels and _same(seen.replicas, step.after)):
        return Sight.REACHED
    if seen.replicas in step.redirected_from:
        # The former step ended before this step took its place. A cancel then finds nothing to cancel; another target
        # has still to be asked for.
        return Sight.REACHED if step.cancels else Sight.BEFORE
    if step.cancels and any(_same(seen.replicas, former) for former in step.perhaps_ended):
        # The cancelled step had begun from these replicas. Apache leaves them in the order of the step that it cancels.
        return Sight.REACHED
    return Sight.BEFORE if _same(seen.replicas, step.before) else Sight.OTHER


def shows_the_past(move: Move, seen: ObservedPartition, ongoing: OngoingReassignment | None) -> bool:
    """Whether metadata are late: they show a partition in the middle of a step that the controller no longer lists."""
    step = move.step
    if step is None or ongoing is not None:
        return False
    shown = set(seen.replicas)
    return shown == {*step.before, *step.after} and shown not in ({*step.before}, {*step.after})


def judge(
    move: Move, seen: ObservedPartition, ongoing: OngoingReassignment | None, now_ms: int, late_at_ms: int | None = None
) -> Verdict:
    """Decide about the step under way, and note in its status what was seen, and since when that is doubtful.

    Pre: the observation is newer than the step's last request, and metadata are newer than the list.

    Args:
        late_at_ms: When metadata of any partition were last seen to be late. Soon after that, a strange partition does
            not count as changed by another tool.
    """
    step, status = move.step, move.status
    assert step is not None
    looks = sight(step, seen, ongoing)
    if looks is Sight.RUNNING:
        move.note(StepTrigger.RUNS)
        return Verdict.KEEP if step.accepted else Verdict.TAKEN
    # If the step may never have been taken on, these metadata may be late: the partition had these replicas before.
    believed = step.accepted or not step.returns
    if looks is Sight.REACHED and believed:
        done = not _may_be_late(step, seen, status)
        since_ms = max(status.blind_until_ms, step.read_at_ms or 0)
        return Verdict.FINISHED if done or now_ms - since_ms >= LAG_MS else Verdict.DOUBT
    if looks is not Sight.OTHER and not step.accepted:
        move.note(StepTrigger.SETTLED)
        return Verdict.SEND
    return _judge_doubtful(move, looks, seen, ongoing, now_ms, late_at_ms)


def _may_be_late(step: CurrentStep, seen: ObservedPartition, status: StepStatus) -> bool:
    """Whether metadata that seem to show a cancel's outcome may be from before the cancel.

    - If another process got the answer, it is not known which of the next two holds.
    - If there was nothing to cancel, the former step is done, or an earlier request whose answer was lost cancelled it.
      A step that is done has all its new replicas in sync. Metadata that do not show its end may be late.
    - If there was something to cancel, the former step did not end. Its replicas are shown while it runs, so metadata
      that show them may be late.
    - Apache writes a target before the replicas to be removed, and a cancel leaves that order. (Shunter's controller
      leaves the former order.) So the former order says nothing until metadata have shown the partition in motion.
    """
    if step.cancels and step.read_at_ms is not None and status.requests == 0:
        return seen.replicas in (step.after, *step.redirected_from, *step.perhaps_ended)
    if status.nothing_left:
        ended = all(broker in seen.isr for broker in seen.replicas if broker not in step.before)
        return not ended or seen.replicas not in step.redirected_from[-1:]
    if seen.replicas != step.after:
        return step.cancels and seen.replicas in step.redirected_from + step.perhaps_ended
    if not step.cancels or step.moved or seen.replicas != step.before:
        return False
    return any(order_after_cancel(step.before, target) != step.before for target in step.redirected_from)


def order_after_cancel(before: Replicas, target: Replicas) -> Replicas:
    """The order in which Apache leaves the replicas of a reassignment that is cancelled."""
    return tuple(broker for broker in dict.fromkeys((*target, *before)) if broker in before)


def _left_over(move: Move, seen: ObservedPartition) -> bool:
    """Whether a cancel left more replicas than the step wanted: replicas that an older target had added.

    KRaft's cancel takes back the replicas that are being added. A replica that an older target added and the newer
    target removes counts as being removed, so the cancel keeps it.
    """
    step = move.step
    assert step is not None
    more = set(seen.replicas).difference(step.after)
    return step.cancels and set(step.after) <= set(seen.replicas) and more <= set[BrokerId]().union(*move.passed)


def _judge_doubtful(
    move: Move,
    looks: Sight,
    seen: ObservedPartition,
    ongoing: OngoingReassignment | None,
    now_ms: int,
    late_at_ms: int | None,
) -> Verdict:
    """Decide about a step that does not look as it should, by how long it has looked so."""
    status = move.note(StepTrigger.STRANGE if looks is Sight.OTHER else StepTrigger.MISSED, now_ms)
    assert status.doubt is not None
    lasted = now_ms - status.doubt.since_ms
    timely = lasted >= VERY_LATE_MS or late_at_ms is None or now_ms - late_at_ms >= LAG_MS
    if looks is Sight.OTHER:
        if lasted < patience(move, seen, ongoing, timely=timely):
            return Verdict.DOUBT
        return Verdict.FINISHED if ongoing is None and _left_over(move, seen) else Verdict.CHANGED
    if status.standing is Standing.SEEN:
        return Verdict.CANCELLED if lasted >= LAG_MS and timely else Verdict.KEEP
    if lasted < RESEND_MS:
        return Verdict.KEEP
    assert status.missed_since_ms is not None
    if status.requests >= RESENDS and now_ms - status.missed_since_ms >= LAG_MS and timely:
        return Verdict.CANCELLED
    move.note(StepTrigger.SETTLED)
    return Verdict.SEND


def told_refusal(step: CurrentStep, why: str) -> str:
    """Say that the cluster refuses a step; `why` is Kafka's name of the error, and its message."""
    return f"the cluster refuses the step to {list(step.after)}: {why}"


def catching_up(cluster: ObservedCluster, move: Move, copying: Replicas, now_ms: int) -> Wait:
    """What a step that runs, and still copies these replicas, waits for."""
    dead = tuple(broker for broker in copying if broker not in cluster.brokers)
    if dead:
        return told_held(cluster, dead, now_ms)
    if not copying:
        return Wait(WaitKind.NOTHING, "is about to end")
    named = f"broker {', '.join(str(broker) for broker in copying)}"
    if move.paused:
        return Wait(WaitKind.RESUME, f"is paused: next to nothing is copied to {named}")
    step = move.step
    if step is not None and any(cluster.keeps_none(broker, move.tp, step.begun_at_ms) for broker in copying):
        return Wait(WaitKind.BROKERS, f"waits: {named} makes no replica")
    return Wait(WaitKind.NOTHING, f"{named} catches up")


def told_held(cluster: ObservedCluster, brokers: Replicas, now_ms: int) -> Wait:
    """The wait for brokers that are down or out of sync."""
    told: list[str] = []
    steady: list[str] = []
    for broker in brokers:
        live, since = broker in cluster.brokers, cluster.down_since_ms.get(broker)
        state = f"broker {broker} is {'out of sync' if live else 'down'}"
        steady.append(state)
        if not live and since is not None and now_ms - since >= 1_000:
            state = f"broker {broker} has been down for at least {(now_ms - since) // 1000} s"
        told.append(state)
    return Wait(WaitKind.BROKERS, f"waits: {', '.join(told)}", f"waits: {', '.join(steady)}")


def patience(move: Move, seen: ObservedPartition, ongoing: OngoingReassignment | None, *, timely: bool = True) -> int:
    """How many milliseconds a partition must look strange before that counts as another tool's change.

    Lists of reassignments come from the controller itself. Metadata come from a broker that may be late.

    Args:
        timely: No partition's metadata were seen to be late for a while.
    """
    if ongoing is not None or not move.went_through(seen.replicas):
        return CONFIRM_MS
    return LAG_MS if timely and not shows_the_past(move, seen, ongoing) else VERY_LATE_MS


def _same(some: Replicas, others: Replicas) -> bool:
    return len(some) == len(others) and set(some) == set(others)
