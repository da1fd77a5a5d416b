"""Judges a submitted plan: for each partition, the move that is taken on, or the reason why it is not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from shunter.core.executor.events import PlanSubmitted
from shunter.core.executor.foresight.hold_ups import held_up
from shunter.core.executor.ready import MoveResult, PlanReply
from shunter.core.executor.state import LATE_MS, ExecutorState, Move
from shunter.core.reassignment import no_longer_fits, validate_target
from shunter.core.spare_replicas import thinness
from shunter.core.throttles import ALL_LOG_DIRS
from shunter.core.topic_names import illegal_name
from shunter.core.wording import counted
from shunter.model.execution import (
    Direction,
    DirectionChanged,
    ExecutionClosed,
    ExecutionOptions,
    JournalRecord,
    MoveAccepted,
    MoveOrder,
    ObservedPartition,
    ObservedTopic,
    OngoingReassignment,
    Outcome,
    PlanAccepted,
    StepAccepted,
    StepBegun,
)
from shunter.model.limits import write_window
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.reassignment import Strategy

NEW_TOPIC_MS = 3_000
"""How long brokers are asked again for a topic that they do not know, because they may learn late of a new topic."""
SURE_MS = 15_000
"""How long brokers are asked again while they disagree on where replicas are. An error here would stay: a rollback
restores the replicas that were accepted."""
_AS_WE_LEFT_IT = (Outcome.DONE, Outcome.STOPPED, Outcome.ROLLED_BACK)
"""Outcomes after which a partition has the replicas of its last finished step."""


@dataclass(slots=True)
class SubmittedPlan:
    """A submitted plan that waits for the observations by which it is judged."""

    event: PlanSubmitted
    since_ms: int
    sizes_asked: bool = False
    sizes_known: bool = False
    told_late: bool = False
    """People were told that the plan waits for metadata that are late."""

    def doubtful(self, state: ExecutorState, now_ms: int) -> set[str]:
        """Topics that are asked for again before the plan is judged, because the broker that answered may be late.

        Either no broker knows the topic, which may be new. Or a partition of the plan is shown as it was before its last
        move ended: the plan would take that for the original replicas.
        """
        doubtful: set[str] = set()
        if now_ms < self.since_ms + NEW_TOPIC_MS:
            names = {order.tp.topic for order in self.event.moves}
            doubtful = {name for name in names if name in state.cluster.topics and state.cluster.topics[name] is None}
        return doubtful | {tp.topic for tp in self.shown_late(state, now_ms)}

    def shown_late(self, state: ExecutorState, now_ms: int) -> list[TopicPartition]:
        """Partitions that metadata show with replicas that their last move, which ended lately, had before its end."""
        if now_ms >= self.since_ms + LATE_MS:
            return []
        return [order.tp for order in self.event.moves if _shown_as_before(state, order.tp, now_ms)]

    def judged_at_ms(self, now_ms: int) -> int:
        """When the plan is judged at the latest, or the first of two such times if that is still to come."""
        return self.since_ms + (NEW_TOPIC_MS if now_ms < self.since_ms + NEW_TOPIC_MS else LATE_MS)


def _shown_as_before(state: ExecutorState, tp: TopicPartition, now_ms: int) -> bool:
    move, seen = state.moves.get(tp, state.former_moves.get(tp)), state.cluster.partition(tp)
    if move is None or seen is None or move.outcome not in _AS_WE_LEFT_IT or not move.ended_lately(now_ms):
        return False
    if frozenset(seen.replicas) == frozenset(move.current):  # Kafka chooses the order that a cancel leaves.
        return seen.replicas != move.current and seen.replicas in (move.original, move.target)
    return move.went_through(seen.replicas)


@dataclass(slots=True)
class JudgedPlan:
    """The decision about a plan: entries to be written, and the reply that goes out once they are durable."""

    records: list[JournalRecord] = field(default_factory=list[JournalRecord])
    results: list[MoveResult] = field(default_factory=list[MoveResult])
    kept: str = ""

    def reply(self) -> PlanReply:
        """The reply. A plan of which no move could be taken on is refused as a whole."""
        if self.results and all(result.refused is not None for result in self.results):
            first = next(result.refused for result in self.results if result.refused is not None)
            return PlanReply(f"nothing of the plan can be moved: {first}", tuple(self.results))
        return PlanReply(None, tuple(self.results), self.kept)


def judge_submission(state: ExecutorState, event: PlanSubmitted) -> JudgedPlan:
    """Decide which moves of a plan are taken on. Pre: its topics and all reassignments were read since it came."""
    judged = JudgedPlan()
    closed = _closed(state, event)
    repeated = _repeated(event.moves)
    moves: list[JournalRecord] = []
    for order in event.moves:
        if order.tp in repeated:
            told = f"{order.tp} is in the plan more than once"
            judged.results.append(MoveResult(order.tp, told))
            continue
        taken = _judge_order(state, event, order, closed)
        if isinstance(taken, str):
            judged.results.append(MoveResult(order.tp, taken))
        else:
            instead, endless = _instead(state.moves.get(order.tp), order), _held_up(state, taken)
            judged.results.append(MoveResult(order.tp, None, instead, endless, _thin(state, order, taken)))
            moves.extend(taken)
    if moves:
        refused = sum(result.refused is not None for result in judged.results)
        accepted = PlanAccepted(event.plan_id, state.cluster_id, options_beside(state, event.options), refused)
        judged.records = [*close_ended(state), accepted, *moves]
        judged.kept = _told_kept(event.options, accepted.options)
    return judged


def _told_kept(wanted: ExecutionOptions, joined: ExecutionOptions) -> str:
    """Say which options of a plan are not those of the execution that it joins; "": none.

    An option that somebody gives at its default looks like one that he left out.
    """
    kept = [
        f"{name.replace('_', '-')} {getattr(joined, name)}"
        for name in _SHARED
        if name != "window" and getattr(joined, name) != getattr(wanted, name)
    ]
    if joined.window is not None and joined.window != wanted.window:
        kept.append(f"only-between {write_window(joined.window)}")
    if not kept:
        return ""
    told = "the plan joins an execution, whose options stay where the plan has the default"
    return f"{told}: {', '.join(kept)}"


def _held_up(state: ExecutorState, taken: list[JournalRecord]) -> str:
    """What holds up a move that is taken on; "": nothing that was seen does."""
    record = next((each for each in taken if isinstance(each, MoveAccepted)), None)
    if record is None or not record.target:
        return ""
    ours = state.moves.get(record.tp)
    current = ours.current if ours is not None and ours.open else record.original
    beside = (record.strategy, record.size_bytes, record.log_dirs, record.adopted, 0)
    return held_up(state, Move(record.tp, record.topic_id, current, record.target, *beside, current))


def _thin(state: ExecutorState, order: MoveOrder, taken: list[JournalRecord]) -> str:
    """What fewer replicas mean for a partition; "": it has as many as before, or enough."""
    before = next((record.original for record in taken if isinstance(record, MoveAccepted)), ())
    return thinness(len(before), len(order.target), state.cluster.min_isr(order.tp.topic))


def _instead(ours: Move | None, order: MoveOrder) -> str:
    """A sentence about the open move that an order takes the place of; "" if there is none, or it heads there too."""
    if ours is None or not ours.open:
        return ""
    back = ours.direction is Direction.BACK
    if order.target == (() if back else ours.target) and ours.direction is not Direction.STOP:
        return ""
    wanted = f"to {list(order.target)}" if order.target else f"back to {list(ours.original)}"
    lost = (
        ()
        if ours.step is None
        else tuple(each for each in ours.step.copying if each not in (order.target or ours.original))
    )
    gone = f"; what it has copied to broker {', '.join(map(str, lost))} is deleted" if lost else ""
    if ours.direction is Direction.STOP:
        return f"it was told to stop, and goes {wanted} instead{gone}"
    return f"it was on its way {'back ' if back else ''}to {list(ours.goal)}, and goes {wanted} instead{gone}"


def close_ended(state: ExecutorState) -> list[JournalRecord]:
    """Close an execution whose moves have all ended, even if it still gives throttles back."""
    return [ExecutionClosed(told_outcomes(outcomes(state)))] if state.running and not state.at_work else []


def outcomes(state: ExecutorState) -> tuple[tuple[Outcome, int], ...]:
    """How many moves ended how, in the order of `Outcome`."""
    counted = Counter(move.outcome for move in state.moves.values() if move.outcome is not None)
    return tuple((outcome, counted[outcome]) for outcome in Outcome if counted[outcome])


def told_outcomes(counted: tuple[tuple[Outcome, int], ...]) -> str:
    """Counted outcomes in words."""
    return ", ".join(f"{count} {outcome.value}" for outcome, count in counted) or "nothing moved"


_SHARED = (
    "throttle_floor",
    "log_dir_throttle",
    "max_concurrent",
    "max_in",
    "max_out",
    "max_per_rack",
    "max_per_log_dir",
    "disk_share",
    "bandwidth",
    "window",
)
"""Options that hold for an execution as a whole. A plan that has one at its default does not ask for a change of it."""


def options_beside(state: ExecutorState, wanted: ExecutionOptions) -> ExecutionOptions:
    """The options of an execution that a plan joins: shared options and the rate stay, unless the plan sets them.

    Otherwise a small plan, given to an executor at work, would lift a large plan's throttle, bounds and time window.
    """
    if not state.at_work:
        return wanted
    silent = ExecutionOptions()
    kept = {name: getattr(state.options, name) for name in _SHARED if getattr(wanted, name) == getattr(silent, name)}
    cordons = tuple({**dict(state.options.cordons), **dict(wanted.cordons)}.items())
    limit = state.limit if wanted.throttle is None else wanted.throttle
    return replace(wanted, throttle=limit, cordons=cordons, **kept)


def _repeated(moves: tuple[MoveOrder, ...]) -> set[TopicPartition]:
    seen: set[TopicPartition] = set()
    twice: set[TopicPartition] = set()
    for order in moves:
        (twice if order.tp in seen else seen).add(order.tp)
    return twice


def _judge_order(
    state: ExecutorState, event: PlanSubmitted, order: MoveOrder, closed: frozenset[BrokerId]
) -> list[JournalRecord] | str:
    topic = state.cluster.topics.get(order.tp.topic)
    if topic is None:
        why = illegal_name(order.tp.topic)
        return f"no topic can have this name: {why}" if why else f"there is no topic {order.tp.topic}"
    seen = topic.partitions.get(order.tp.partition)
    if seen is None:
        return f"topic {order.tp.topic} has {counted(len(topic.partitions), 'partition')}, and no {order.tp.partition}"
    ours = state.moves.get(order.tp)
    if ours is not None and not ours.open:
        ours = None
    foreign = state.cluster.ongoing.get(order.tp) if ours is None else None
    if foreign is not None and not event.options.take_over:
        return (
            f"{order.tp} is already being moved to {list(foreign.target)} by somebody else; "
            "wait for its end, or take it over by --take-over (the order of its original replicas is then a guess)"
        )
    if not order.target:
        return _cancel(event, order, topic, ours, foreign)
    original = seen.replicas if foreign is None else foreign.original
    misfit = no_longer_fits(order.planned_from, order.target, original, place=order.tp) if ours is None else None
    if misfit is not None:
        return misfit
    least = min(topic.min_isr, len(seen.replicas))
    # A dead broker may stay, and a move that heads for one may be asked for again. It gets no new replica.
    had = {*original, *seen.replicas, *(() if ours is None else (*ours.original, *ours.target))}
    live = state.cluster.brokers
    complaint = validate_target(order.target, live, place=order.tp, min_isr=least, forced=event.options.force, had=had)
    if complaint is not None:
        told = complaint[1].replace("force it if that is meant", "--force takes it, if that is meant")
        if "not a live broker" in told:
            return f"{told}; live are {sorted(live)}; start it first, or name a live one"
        return told
    unfit = _absent_log_dir(state, order) or _cordoned(state, event, order, original, closed)
    if unfit is not None:
        return unfit
    # A step that kept a cordoned broker would be refused, so there is one step alone.
    return _accept(state, event, order, topic, seen, foreign, one_step=not closed.isdisjoint(original))


def _absent_log_dir(state: ExecutorState, order: MoveOrder) -> str | None:
    """Say which log dir of an order its broker does not have; None if all are there, or the broker reported none."""
    for broker, path in order.log_dirs:
        known = sorted(each for owner, each in state.cluster.spaces if owner == broker)
        if known and path not in known:
            return f"broker {broker} has no log dir {path} that works, for {order.tp}; it has {', '.join(known)}"
    return None


def _cordoned(
    state: ExecutorState, event: PlanSubmitted, order: MoveOrder, original: Replicas, closed: frozenset[BrokerId]
) -> str | None:
    """Say which broker or log dir of an order is cordoned (KIP-1066); None: none, or it is not known.

    Kafka refuses a target with a broker whose log dirs are all cordoned, even if the replica is there already (seen on
    4.4.0). It would do so in the middle of the execution. A broker whose cordon the plan changes is judged by that.
    """
    out = "take that out of the broker's `cordoned.log.dirs`; a plan can leave it out"
    wanted = dict(event.options.cordons)
    for broker in order.target if order.target != original else ():
        if broker in closed:
            return f"broker {broker} is cordoned, and Kafka takes no target for {order.tp} that names it: {out}"
    for broker, path in order.log_dirs:
        space, there = state.cluster.spaces.get((broker, path)), state.cluster.sizes.get((broker, order.tp))
        placed = there is not None and there.log_dir == path
        if space is not None and space.cordoned and broker not in wanted and not placed:
            return (
                f"log dir {path} of broker {broker} is cordoned, and gets no new replica, so none of {order.tp}: {out}"
            )
    return None


def _closed(state: ExecutorState, event: PlanSubmitted) -> frozenset[BrokerId]:
    """Brokers that Kafka takes in no target once the cordons of a plan are as it wants them."""
    wanted = dict(event.options.cordons)
    return (state.closed() - wanted.keys()) | {broker for broker, value in wanted.items() if value == ALL_LOG_DIRS}


def _accept(
    state: ExecutorState,
    event: PlanSubmitted,
    order: MoveOrder,
    topic: ObservedTopic,
    seen: ObservedPartition,
    foreign: OngoingReassignment | None,
    *,
    one_step: bool,
) -> list[JournalRecord]:
    original = seen.replicas if foreign is None else foreign.original
    size = _size(state, order.tp, seen)
    accepted = MoveAccepted(
        order.tp,
        topic.topic_id,
        original,
        order.target,
        Strategy.ALL_AT_ONCE if one_step else order.strategy or event.options.strategy,
        size or 0,
        order.log_dirs,
        adopted=foreign is not None,
        placing=_placing(state, order, original),
        origins=_origins(state, order, original),
        led_by=seen.leader if order.elect else None,
        sized=size is not None,
    )
    return [accepted, *_adopt(order.tp, foreign)]


def _placing(state: ExecutorState, order: MoveOrder, original: Replicas) -> Replicas:
    """Original brokers that have the partition in another log dir than the plan names."""
    sizes = state.cluster.sizes
    return tuple(
        broker
        for broker, path in order.log_dirs
        if broker in original and (broker, order.tp) in sizes and sizes[broker, order.tp].log_dir != path
    )


def _origins(state: ExecutorState, order: MoveOrder, original: Replicas) -> tuple[tuple[BrokerId, str], ...]:
    """The log dirs of the original replicas, if the plan names log dirs; without brokers that have a single log dir."""
    sizes, count = state.cluster.sizes, Counter(broker for broker, _path in state.cluster.spaces)
    return tuple(
        (broker, sizes[broker, order.tp].log_dir)
        for broker in sorted(original)
        if order.log_dirs and (broker, order.tp) in sizes and count[broker] != 1
    )


def _adopt(tp: TopicPartition, foreign: OngoingReassignment | None) -> list[JournalRecord]:
    if foreign is None:
        return []
    step = StepBegun(tp, 1, foreign.original, foreign.target, "begun by somebody else")
    return [step, StepAccepted(tp, 1)]


def _cancel(
    event: PlanSubmitted,
    order: MoveOrder,
    topic: ObservedTopic,
    ours: Move | None,
    foreign: OngoingReassignment | None,
) -> list[JournalRecord] | str:
    """Roll back the partition's move, because the plan has null or empty replicas for it."""
    if ours is not None:
        return [DirectionChanged(order.tp, Direction.BACK)]
    if foreign is None:
        return f"nothing moves {order.tp}: there is nothing to cancel"
    adopted = MoveAccepted(
        order.tp,
        topic.topic_id,
        foreign.original,
        foreign.target,
        event.options.strategy,
        0,
        adopted=True,
        sized=False,
    )
    return [adopted, *_adopt(order.tp, foreign), DirectionChanged(order.tp, Direction.BACK)]


def _size(state: ExecutorState, tp: TopicPartition, seen: ObservedPartition) -> int | None:
    """Bytes of the leader's replica; the greatest of the others where the leader's is not known; None: none is."""
    sizes = state.cluster.sizes
    leader = sizes.get((seen.leader, tp))
    if leader is not None:
        return leader.bytes
    others = [size.bytes for broker in seen.replicas if (size := sizes.get((broker, tp))) is not None]
    return max(others, default=None)


def replicas_to_size(state: ExecutorState, event: PlanSubmitted) -> dict[BrokerId, list[TopicPartition]]:
    """The partitions whose sizes each broker is asked for: those that it leads, and those with log dirs in the plan."""
    asked: dict[BrokerId, list[TopicPartition]] = {}
    for order in event.moves:
        seen = state.cluster.partition(order.tp)
        leader = () if seen is None or seen.leader < 0 else (seen.leader,)
        holding = () if seen is None or not order.log_dirs else seen.replicas
        for broker in dict.fromkeys((*leader, *(owner for owner, _path in order.log_dirs), *holding)):
            asked.setdefault(broker, []).append(order.tp)
    return asked


def involved_brokers(state: ExecutorState, event: PlanSubmitted) -> Replicas:
    """Brokers that a plan takes from or gives to, sorted."""
    involved: set[BrokerId] = set()
    for order in event.moves:
        seen = state.cluster.partition(order.tp)
        involved.update(order.target, () if seen is None else seen.replicas)
    return tuple(sorted(involved))
