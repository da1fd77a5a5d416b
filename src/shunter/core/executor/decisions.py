"""Decides what every open move does next. One pass over all open moves writes entries and notes soft state.

The soft state is each move's `StepStatus` and `waits`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from shunter.core.executor.capacity import SEEN_MS, Capacity, copied_bytes, in_order, told_unknown
from shunter.core.executor.choice import (
    Begin,
    Reached,
    Waits,
    blockers,
    cancel_step,
    choose,
    may_come,
    needed_by,
    relax,
    undo,
)
from shunter.core.executor.copies import is_settled, told_unsettled, unsettled
from shunter.core.executor.elections import ElectionStanding, ElectionVerdict, judge_election
from shunter.core.executor.foresight.stuck import ends_with_its_step
from shunter.core.executor.judgement import (
    CONFIRM_MS,
    LAG_MS,
    PATIENCE,
    Verdict,
    catching_up,
    judge,
    patience,
    shows_the_past,
    told_held,
    told_refusal,
)
from shunter.core.executor.places import TRIED, Awaiting, asked_before, dead_copies, given_up, note_missed
from shunter.core.executor.ready import Collected
from shunter.core.executor.state import CurrentStep, ExecutorState, Move
from shunter.core.executor.step_status import Standing, StepTrigger
from shunter.core.executor.throttling.followers import held_up
from shunter.core.executor.throttling.pausing import told_beside, unheld, why_unheld
from shunter.core.executor.throttling.throttles import Gate
from shunter.core.executor.waits import DOUBTED, NO_WAIT, OVER, Wait, WaitKind, told_closed
from shunter.core.wording import told_bytes
from shunter.model.execution import (
    Direction,
    ElectionBegun,
    FloorRelaxed,
    JournalRecord,
    MoveAccepted,
    MoveClosed,
    ObservedPartition,
    Outcome,
    StepAccepted,
    StepBegun,
    StepDropped,
    StepFinished,
)
from shunter.model.notice import Notice
from shunter.model.partition import BrokerId, Replicas, TopicPartition

STALE_MS = 10_000
"""Metadata and lists older than this are read again before a step is begun from them."""
_REACHED = {
    Direction.FORWARD: (Outcome.DONE, "the target is reached"),
    Direction.STOP: (Outcome.STOPPED, "stopped; what was in sync stays"),
    Direction.BACK: (Outcome.ROLLED_BACK, "the original replicas are back in their order"),
}


@dataclass(slots=True)
class Pass:
    """One pass over the moves: its inputs, and its decisions."""

    state: ExecutorState
    now_ms: int
    out: Collected
    window_open: bool
    throttled: Gate
    records: list[JournalRecord] = field(default_factory=list[JournalRecord])
    touched: set[TopicPartition] = field(default_factory=set[TopicPartition])
    unheld: frozenset[TopicPartition] = frozenset()
    """Paused copies that no throttle can hold: they are cancelled."""
    closed: frozenset[BrokerId] = frozenset()
    """Brokers that Kafka takes in no target."""
    refused: list[Awaiting] = field(default_factory=list[Awaiting])
    """Moves that wait for their turn, in their order."""
    stale_topics: set[str] = field(default_factory=set[str])
    """Topics whose metadata must be read again before their moves can go on."""

    @property
    def live(self) -> frozenset[BrokerId]:
        """Brokers that were up when seen last."""
        return frozenset(self.state.cluster.brokers)

    def write(self, move: Move, *records: JournalRecord) -> None:
        """Decide these entries for a move; nothing else is decided for it in this pass."""
        self.records.extend(records)
        self.touched.add(move.tp)


def decide_moves(work: Pass) -> None:
    """Go over all open moves: finish, turn, relax and begin steps, and close moves that have ended."""
    live = work.live
    work.unheld, work.closed = unheld(work.state), work.state.closed()
    idle: list[Move] = []
    for move in work.state.moves.values():
        if not move.open or move.tp in work.touched or _goes_on(work, move):
            continue
        if _gone(work, move):
            continue
        if move.step is None:
            idle.append(move)
        else:
            _decide_stepping(work, move, live)
    if idle:
        _decide_idle(work, idle, live)


def _goes_on(work: Pass, move: Move) -> bool:
    """Whether a step under way looks as it did when it last needed nothing. Thousands of such steps are passed over."""
    step, cluster = move.step, work.state.cluster
    return (
        step is not None
        and step.goes_on is not None
        and step.goes_on == (cluster.topics_at_ms.get(move.tp.topic), cluster.ongoing.get(move.tp))
        and move.turned_at_ms is None
        and move.tp not in work.unheld
    )


def _gone(work: Pass, move: Move) -> bool:
    cluster = work.state.cluster
    if move.tp.topic not in cluster.topics:
        work.stale_topics.add(move.tp.topic)
        return True  # Nothing can be decided before the topic was seen.
    topic = cluster.topics[move.tp.topic]
    if topic is None:
        reason = f"topic {move.tp.topic} was deleted"
    elif move.topic_id is not None and topic.topic_id is not None and topic.topic_id != move.topic_id:
        reason = f"topic {move.tp.topic} was deleted and made anew"
    elif move.tp.partition not in topic.partitions:
        reason = f"{move.tp} does not exist any more"
    else:
        return False
    if move.status.standing is Standing.ASKED:
        # Wait for the answer first: the next plan may move a new topic of this name, and one request at a time is made.
        return True
    doubt = move.note(StepTrigger.GONE, work.now_ms).doubt
    assert doubt is not None
    if work.now_ms - doubt.since_ms < CONFIRM_MS:
        work.stale_topics.add(move.tp.topic)
        work.out.wake(work.now_ms + CONFIRM_MS)
        return True
    _close(work, move, Outcome.GONE, reason, ())
    return True


def _may_end(work: Pass, move: Move) -> bool:
    """Whether a move may end before its goal now. Its copies between log dirs are given up first."""
    if not move.names_log_dirs:
        return True
    if not move.log_dir_status.ends:
        move.log_dir_status = replace(move.log_dir_status, ends=True, done=False)
    if is_settled(work.state, move):
        return True
    move.waits = told_unsettled(unsettled(work.state, move))
    return False


def _goes_on_after_all(move: Move) -> None:
    """A move that seemed to end before its goal does not, so it wants its log dirs again."""
    if move.log_dir_status.ends:
        move.log_dir_status = replace(move.log_dir_status, ends=False, done=False)


def _close(work: Pass, move: Move, outcome: Outcome, reason: str, replicas: Replicas) -> None:
    if outcome in (Outcome.SUPERSEDED, Outcome.REFUSED) and not _may_end(work, move):
        return
    work.write(move, MoveClosed(move.tp, outcome, reason, replicas, move.copied_bytes))
    if outcome in (Outcome.SUPERSEDED, Outcome.GONE, Outcome.REFUSED):
        work.out.notices.append(Notice(f"move-{outcome.value}", str(move.tp), reason))


def _decide_stepping(work: Pass, move: Move, live: frozenset[BrokerId]) -> None:
    step, standing = move.step, move.status.standing
    assert step is not None
    if standing in (Standing.UNASKED, Standing.ASKED):
        return
    if standing in (Standing.ACCEPTED, Standing.SEEN) and not step.accepted:
        work.write(move, StepAccepted(move.tp, step.number))
        return
    seen = _fresh(work, move)
    if seen is None:
        _waits_for_a_look(work, move)
        return
    absent: Replicas = ()
    if move.status.refused:  # ZooKeeper's controller refuses a broker that is down.
        absent = tuple(broker for broker in step.after if broker not in live and broker not in seen.replicas)
        if move.status.refusals >= PATIENCE and not absent:
            _give_up(work, move, step)
            return
    ongoing = work.state.cluster.ongoing.get(move.tp)
    step.look(seen.replicas)
    if shows_the_past(move, seen, ongoing):
        work.state.cluster.late_at_ms = work.now_ms
    verdict = judge(move, seen, ongoing, _seen_at_ms(work, move), work.state.cluster.late_at_ms)
    if verdict is Verdict.FINISHED and _lags(work, move, seen):
        _waits_for_a_look(work, move)
        return
    if verdict is Verdict.FINISHED:
        copied = copied_bytes(work.state, move)
        work.write(move, StepFinished(move.tp, step.number, seen.replicas, seen.isr, copied))
    elif verdict is Verdict.TAKEN:
        work.write(move, StepAccepted(move.tp, step.number))
    elif verdict is Verdict.SEND:
        if _take_back(work, move, seen, live):
            return
        if move.turned_at_ms is not None and _decide_turned(work, move, seen, live, running=False):
            return  # The cluster never had this step, and the step is no longer wanted.
        if absent:
            move.waits = told_held(work.state.cluster, absent, work.now_ms)
            return
        move.note(StepTrigger.DUE)
    elif verdict is Verdict.CANCELLED:
        _close(work, move, Outcome.SUPERSEDED, "somebody else cancelled the step under way", seen.replicas)
    elif verdict is Verdict.CHANGED:
        told = f"somebody else changed it to {list(seen.replicas)} while {list(step.after)} was under way"
        _close(work, move, Outcome.SUPERSEDED, told, seen.replicas)
    elif verdict is Verdict.DOUBT:
        work.stale_topics.add(move.tp.topic)
        move.waits = DOUBTED
    else:
        if move.status.doubt is not None:
            work.stale_topics.add(move.tp.topic)
        _decide_running(work, move, seen, live)


def _waits_for_a_look(work: Pass, move: Move) -> None:
    """A step that is no longer under way does not wait for brokers any more."""
    if move.waits.kind is WaitKind.BROKERS and move.tp not in work.state.cluster.ongoing:
        move.waits = OVER


def _take_back(work: Pass, move: Move, seen: ObservedPartition, live: frozenset[BrokerId]) -> bool:
    """Drop a step that the cluster does not have and would refuse, as it names a closed broker; returns whether it does.

    If the step took the place of one that may run, that one is cancelled.
    """
    step = move.step
    assert step is not None
    shut = None if step.cancels else told_closed(step.after, work.closed)
    if shut is None:
        return False
    if not step.redirected_from:
        work.write(move, StepDropped(move.tp, step.number, shut.text))
        return True
    return _undo(work, move, cancel_step(step, seen, live, work.state.least_in_sync(move), shut.text))


def _undo(work: Pass, move: Move, undone: Begin | Waits | None) -> bool:
    """Carry out what was decided about undoing a step; returns whether nothing else is due now."""
    if isinstance(undone, Begin):
        _begin(work, move, undone)
    elif isinstance(undone, Waits):
        late = catching_up(work.state.cluster, move, move.copying, work.now_ms)
        move.waits = late if ends_with_its_step(work.state, move) else Wait(WaitKind.BROKERS, undone.reason)
    return undone is not None


def _give_up(work: Pass, move: Move, step: CurrentStep) -> None:
    """End a move whose step the cluster has refused `PATIENCE` times with a final error."""
    if not _may_end(work, move):
        return
    seen = work.state.cluster.partition(move.tp)
    why = move.status.refused
    work.write(move, StepDropped(move.tp, step.number, why))
    replicas = move.current if seen is None else seen.replicas
    told, left = told_refusal(step, why), work.state.cluster.ongoing.get(move.tp)
    if left is not None:
        told += f"; the reassignment to {list(left.target)} still runs, and no throttle of ours holds it any more"
    _close(work, move, Outcome.REFUSED, told, replicas)


def _lags(work: Pass, move: Move, seen: ObservedPartition) -> bool:
    """Whether metadata show the step's end but not yet the ISR at that end, from which the next step is chosen."""
    step = move.step
    assert step is not None
    if all(broker in seen.isr for broker in step.adding):
        return False
    doubt = move.note(StepTrigger.LAGS, work.now_ms).doubt
    assert doubt is not None
    if work.now_ms - doubt.since_ms >= LAG_MS:
        return False
    work.stale_topics.add(move.tp.topic)
    return True


def _seen_at_ms(work: Pass, move: Move) -> int:
    """When the partition was last looked at. Doubts are timed by it: a process that stood still saw nothing strange."""
    cluster = work.state.cluster
    return max(cluster.listed_at_ms, cluster.topics_at_ms.get(move.tp.topic, -1))


def _fresh(work: Pass, move: Move) -> ObservedPartition | None:
    """The partition as seen after the step's last request; None if the list or the metadata are older."""
    cluster, step = work.state.cluster, move.step
    assert step is not None
    # When a step was accepted in another process's time is not known, but it was not before the step's beginning.
    asked_since = max(move.status.blind_until_ms, step.begun_at_ms if step.accepted else 0)
    if cluster.listed_at_ms <= asked_since or cluster.listed_at_ms < 0:
        return None
    seen = cluster.partition(move.tp)
    if move.tp in cluster.ongoing:
        step.unlisted_at_ms = None
        return seen
    if step.unlisted_at_ms is None or step.unlisted_at_ms <= asked_since:
        step.unlisted_at_ms = cluster.listed_at_ms
    if cluster.topics_at_ms.get(move.tp.topic, -1) <= step.unlisted_at_ms:
        work.stale_topics.add(move.tp.topic)
        return None
    return seen


def _decide_turned(
    work: Pass, move: Move, seen: ObservedPartition, live: frozenset[BrokerId], *, running: bool
) -> bool:
    """Decide about a step that was begun before its move was turned; returns whether nothing else is due now."""
    cluster = work.state.cluster
    assert move.turned_at_ms is not None
    if cluster.topics_at_ms.get(move.tp.topic, -1) <= move.turned_at_ms:
        work.stale_topics.add(move.tp.topic)  # Before a step is undone, read again which replicas are live and in sync.
        return True
    undone = undo(move, seen, live, work.state.least_in_sync(move), running=running, closed=work.closed)
    return _undo(work, move, undone)


def _decide_running(work: Pass, move: Move, seen: ObservedPartition, live: frozenset[BrokerId]) -> None:
    step, cluster = move.step, work.state.cluster
    assert step is not None
    _goes_on_after_all(move)
    if move.turned_at_ms is not None and _decide_turned(work, move, seen, live, running=True):
        return
    if step.cancels or (move.tp in work.unheld and _put_off(work, move, seen, live)):
        return
    ongoing = cluster.ongoing.get(move.tp)
    if ongoing is not None and ongoing.stranded:
        # It drops a replica that an earlier step was adding, as only another target makes a step do. Kafka 4.3.1 and
        # 4.4.0 list the replica as being added and as being removed for ever; 4.2.2 ends the step at once (tried).
        why = "the cluster does not end the step by itself"
        _undo(work, move, cancel_step(step, seen, live, work.state.least_in_sync(move), why))
        return
    holding = blockers(move, seen)
    copying = tuple(broker for broker in step.adding if broker not in seen.isr)
    if not holding:
        move.blocked_since_ms = None
        move.waits = catching_up(cluster, move, copying, work.now_ms)
        if step.accepted and move.status.doubt is None and ongoing is not None:
            step.goes_on = (cluster.topics_at_ms[move.tp.topic], ongoing)
        return
    coming = [broker for broker in copying if may_come(broker, seen, live)]
    shrinks, comes = len(step.after) < len(step.before), bool(coming)
    needs = needed_by(step, needs_all=cluster.needs_all is not False)
    lacking = tuple(broker for broker in needs if broker not in coming and broker not in seen.isr)
    held = told_held(cluster, lacking or holding, work.now_ms)
    move.waits = catching_up(cluster, move, copying, work.now_ms) if not lacking or (comes and not shrinks) else held
    if comes or not lacking:  # It waits for nobody, so nothing is left out yet.
        move.blocked_since_ms = None
        return
    if move.blocked_since_ms is None:
        move.blocked_since_ms = work.now_ms
    due = move.blocked_since_ms + work.state.options.relax_after_ms
    if not move.relaxed and work.now_ms >= due:
        work.write(move, FloorRelaxed(move.tp))
        work.out.notices.append(Notice("floor-relaxed", str(move.tp), held.text))
        return
    if not move.relaxed:
        work.out.wake(due)
        return
    relaxed = relax(move, seen, live, work.state.least_in_sync(move))
    if relaxed is not None:
        _begin(work, move, relaxed)


def _put_off(work: Pass, move: Move, seen: ObservedPartition, live: frozenset[BrokerId]) -> bool:
    """Cancel a paused copy; returns whether nothing else is due now. If it can't be cancelled, it slows its broker."""
    undone = undo(move, seen, live, work.state.least_in_sync(move), put_off=True, closed=work.closed)
    if isinstance(undone, Begin):
        told = f"paused: its copy is cancelled, because {why_unheld(work.state, move)}; {_lost(work, move)}"
        work.out.notices.append(Notice("copy-put-off", str(move.tp), told))
        _begin(work, move, undone)
    elif isinstance(undone, Waits):
        told = f"{undone.reason}; it is paused, and {told_beside(work.state, move)}"
        move.waits = Wait(WaitKind.BROKERS, told)
    return undone is not None


def _lost(work: Pass, move: Move) -> str:
    assert move.step is not None
    sizes = work.state.cluster.sizes
    lost = sum(sizes[broker, move.tp].bytes for broker in move.step.adding if (broker, move.tp) in sizes)
    return f"{told_bytes(lost)} that it had are copied again later"


def _decide_idle(work: Pass, idle: list[Move], live: frozenset[BrokerId]) -> None:
    capacity = Capacity.of(work.state, work.now_ms)
    given_up_at_ms = note_missed(work.state, work.now_ms)
    if given_up_at_ms is not None:
        work.out.wake(given_up_at_ms)
    tried = TRIED if dead_copies(work.state, work.now_ms) else 0
    for move in in_order(idle, work.state):
        if capacity.full and _copies_first(move) and len(work.refused) >= tried:
            move.waits = Wait(WaitKind.TURN, "waits for its turn")
            seen = work.state.cluster.partition(move.tp)
            if seen is not None and seen.replicas != move.current and _never_began(work, move):
                # Look now, while late metadata can be distinguished from another tool's change.
                _unexplained(work, move, seen)
            continue
        _decide_one_idle(work, move, live, capacity)
    if tried and work.refused and not work.records:
        _give_places(work, live)
    for broker in sorted(capacity.unknown - work.state.cluster.room_unknown):
        work.out.notices.append(Notice("room-unknown", f"broker {broker}", told_unknown(broker)))
    work.state.cluster.room_unknown |= capacity.unknown


def _give_places(work: Pass, live: frozenset[BrokerId]) -> None:
    """Cancel copies to brokers that stay dead, if another move can begin in their place."""
    found = given_up(work.state, live, work.refused, work.now_ms)
    for move, cancel in () if found is None else found[1]:
        assert found is not None
        told = f"its broker stays dead, and {found[0].tp} takes its place: its copy is cancelled; {_lost(work, move)}"
        work.out.notices.append(Notice("copy-put-off", str(move.tp), told))
        _begin(work, move, cancel)


def _copies_first(move: Move) -> bool:
    """Whether a move has not begun, and copies something; another order, or an election, waits for no copy."""
    copies = any(broker not in move.current for broker in move.goal) or bool(move.placing)
    return copies and move.began_at_ms is None and move.direction is Direction.FORWARD


def _decide_one_idle(work: Pass, move: Move, live: frozenset[BrokerId], capacity: Capacity) -> None:
    cluster = work.state.cluster
    seen = cluster.partition(move.tp)
    assert seen is not None, "gone partitions were sorted out before"
    if cluster.topics_at_ms.get(move.tp.topic, -1) < work.now_ms - STALE_MS:
        work.stale_topics.add(move.tp.topic)
        return
    if cluster.listed_at_ms < work.now_ms - STALE_MS:
        return  # Another tool may have begun a reassignment since; the list is read again soon.
    if _unexplained(work, move, seen):
        return
    _goes_on_after_all(move)
    if move.paused:
        move.waits = Wait(WaitKind.RESUME, "is paused")
        move.election = move.election._replace(since_ms=None, due=False)
        return
    choice = choose(move, seen, live, work.state.least_in_sync(move), closed=work.closed)
    if isinstance(choice, Waits):
        move.waits = Wait(WaitKind.BROKERS, choice.reason)
        return
    if isinstance(choice, Reached):
        _decide_reached(work, move, seen, choice)
        return
    adding = tuple(broker for broker in choice.after if broker not in seen.replicas)
    cluster.look_again(choice.after, work.now_ms - SEEN_MS, work.now_ms)
    refusal = told_closed(choice.after, work.closed)
    refusal = refusal or held_up(work.state, move, seen, choice.after, known=work.throttled.others_known)
    refusal = refusal or _refusal(work, move, adding, capacity)
    if refusal is not None:
        move.waits = refusal
        if refusal.kind is WaitKind.TURN:
            work.refused.append(Awaiting(move, adding))
        return
    capacity.take(move, adding)
    _begin(work, move, choice)


def _decide_reached(work: Pass, move: Move, seen: ObservedPartition, reached: Reached) -> None:
    """Close a move whose replicas are where they shall be, once the wanted one of them leads."""
    if move.names_log_dirs and not move.log_dir_status.done:
        given_up = told_unsettled(unsettled(work.state, move))
        move.waits = Wait(WaitKind.OURSELVES, "waits for its log dirs") if move.places else given_up
        return
    election = _decide_election(work, move, seen)
    if election is None:
        return
    outcome, reason = _REACHED[move.direction]
    if reached.sick:
        reason = f"stopped where it stands; broker {', '.join(map(str, reached.sick))} stays, although out of sync"
    refused = [each for each in sorted(move.log_dir_status.refused.items()) if each[0] in move.goal]
    if move.places and refused:
        outcome = Outcome.REFUSED
        reason = f"{reason}, but broker {refused[0][0]} refuses its log dir: {refused[0][1]}"
    cancelled = sorted(move.cancelled.intersection(move.goal))
    if cancelled:
        outcome = Outcome.SUPERSEDED
        reason = f"{reason}, but somebody else cancelled its copy to another log dir of broker {cancelled[0]}"
    if election.standing is ElectionStanding.GIVEN_UP:
        outcome = Outcome.REFUSED if move.direction is Direction.FORWARD else outcome
        reason = f"{reason}, but {election.told}"
    elif election.told:
        reason = f"{reason}, and {election.told}"
    _close(work, move, outcome, reason, reached.replicas)


def _decide_election(work: Pass, move: Move, seen: ObservedPartition) -> ElectionVerdict | None:
    """Decide about the leader at a move's end; None: the move goes on until that is decided."""
    seen_at_ms = work.state.cluster.topics_at_ms[move.tp.topic]
    election = judge_election(move, seen, work.live, seen_at_ms, work.now_ms)
    if election.standing in (ElectionStanding.LED, ElectionStanding.GIVEN_UP):
        return election
    if election.standing is ElectionStanding.BEGIN:
        work.write(move, ElectionBegun(move.tp, move.goal[0]))
        return None
    status = move.election
    if not status.request_id and status.asks and seen_at_ms <= status.answered_at_ms:
        work.stale_topics.add(move.tp.topic)
    if status.again_at_ms > work.now_ms:
        work.out.wake(status.again_at_ms)
    return None


def _unexplained(work: Pass, move: Move, seen: ObservedPartition) -> bool:
    """Whether an idle partition is not as the executor left it: another tool changed it, or metadata are late."""
    foreign = work.state.cluster.ongoing.get(move.tp)
    moved = seen.replicas != move.current
    if foreign is None and not moved:
        move.note(StepTrigger.SETTLED)
        return False
    doubt = move.note(StepTrigger.STRANGE, work.now_ms).doubt
    assert doubt is not None
    if _seen_at_ms(work, move) - doubt.since_ms < patience(move, seen, foreign):
        work.stale_topics.add(move.tp.topic)
        return True
    if foreign is not None:
        told = f"somebody else moves it to {list(foreign.target)}: left alone"
    elif seen.replicas == move.goal:
        return False
    elif _never_began(work, move):
        _rebase(work, move, seen)
        return True
    else:
        told = f"somebody else changed it from {list(move.current)} to {list(seen.replicas)}"
    _close(work, move, Outcome.SUPERSEDED, told, seen.replicas)
    return True


def _never_began(work: Pass, move: Move) -> bool:
    """Whether a move was accepted lately and has not begun, so that the metadata it is based on may have been late."""
    fresh = work.now_ms - move.accepted_at_ms < LAG_MS
    return fresh and move.steps == 0 and move.direction is Direction.FORWARD and not move.paused


def _rebase(work: Pass, move: Move, seen: ObservedPartition) -> None:
    told = f"its replicas were {list(seen.replicas)}, not {list(move.original)} as a broker with old metadata reported"
    work.out.notices.append(Notice("move-rebased", str(move.tp), told))
    work.write(
        move,
        MoveAccepted(
            move.tp,
            move.topic_id,
            seen.replicas,
            move.target,
            move.strategy,
            move.size_bytes,
            move.log_dirs,
            placing=move.placing,
            origins=tuple(each for each in move.origins if each[0] in seen.replicas),
            led_by=None if move.led_by is None else seen.leader,
            sized=move.sized,
        ),
    )


def _refusal(work: Pass, move: Move, adding: Replicas, capacity: Capacity) -> Wait | None:
    if not adding:
        return None
    if not work.window_open:
        return Wait(WaitKind.WINDOW, "waits for its time window")
    refusal = capacity.refusal(move, adding)
    if refusal is not None:
        return refusal
    first = [broker for broker, _path in move.places if broker in adding and not asked_before(move, broker)]
    if first:
        return Wait(WaitKind.OURSELVES, f"tells broker {first[0]} its log dir first")
    brokers = (f"broker {broker}" for broker in dict.fromkeys((*move.current, *move.goal)))
    unset = work.throttled.refusal([f"topic {move.tp.topic}", *brokers])
    return None if unset is None else Wait(WaitKind.OURSELVES, unset)


def _begin(work: Pass, move: Move, choice: Begin) -> None:
    shut = None if choice.cancels else told_closed(choice.after, work.closed)
    move.waits = shut or NO_WAIT
    if shut is not None:
        return
    work.write(move, StepBegun(move.tp, move.steps + 1, choice.before, choice.after, choice.reason, choice.cancels))
