"""An execution on paper: its steps, bytes, least time, and what a rollback would copy at each point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from shunter.core.executor.apply import apply
from shunter.core.executor.capacity import room_on_paper
from shunter.core.executor.estimates.eta import Forecast, forecast
from shunter.core.executor.events import PlanSubmitted
from shunter.core.executor.foresight.hold_ups import told_urgent
from shunter.core.executor.foresight.stuck import on_paper, told_behind, waits_now
from shunter.core.executor.ready import MoveResult
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.submission import involved_brokers, judge_submission, replicas_to_size
from shunter.core.executor.throttling.followers import told_followers
from shunter.core.executor.throttling.others import watched_followers
from shunter.core.executor.throttling.pausing import note_others
from shunter.core.executor.throttling.throttles import desired_settings
from shunter.core.reassignment import Waiting, describe_waiting, plan_on_paper, step_cost
from shunter.core.throttles import (
    FOLLOWER_RATE,
    LISTS,
    RATES,
    UNLIMITED,
    lower_anyway,
    lower_than,
    of_live,
    shared_lists,
    told_bursts,
    told_lower,
    told_shared,
)
from shunter.core.under_way import copies_among, told_copy
from shunter.drivers.admin.protocol import AdminClient
from shunter.errors import DriverError
from shunter.model.execution import ExecutionOptions, JournalEntry, MoveOrder, ThrottleKey
from shunter.model.log_dirs import LogDirCopy
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.reassignment import Strategy


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step on paper. `rollback_bytes`: what a rollback would copy after this step; 0: it would be instant.

    `under_way`: the cluster carries it out already. `needs`: the brokers that it would copy to, and that are down.
    `doubts`: those whose failed log dir may have held the replica; such a broker takes none before a restart.
    """

    replicas: Replicas
    copied_bytes: int
    rollback_bytes: int
    needs: Replicas = ()
    doubts: Replicas = ()
    under_way: bool = False


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """One partition on paper; `problem` says why it can't be taken on, or what it would wait for.

    `taken`: whether it would be taken on; `log_dirs`: where brokers would put its replicas; `placing`: those of them
    that would copy their replica from another of their log dirs. `elects`: the broker that would be elected at the end,
    if another one leads then; None: the plan does not ask for an election. `held_up`: the dead broker or log dir
    that holds it up under a controller of Apache's, and why; "": nothing that was seen does.
    """

    partition: str
    original: Replicas
    target: Replicas
    size_bytes: int
    steps: tuple[PlannedStep, ...]
    problem: str | None
    taken: bool = True
    log_dirs: tuple[tuple[BrokerId, str], ...] = ()
    placing: Replicas = ()
    elects: BrokerId | None = None
    held_up: str = ""
    thin: str = ""
    """What having fewer replicas means for the partition; "": it has as many as before, or enough."""

    @property
    def placing_bytes(self) -> int:
        """Bytes that brokers copy from one of their log dirs to another, and a rollback back."""
        return self.size_bytes * len(self.placing)


@dataclass(frozen=True, slots=True)
class DryRun:
    """A plan on paper. `most_rollback_bytes`: the most that a rollback of everything copies, over all points.

    `unknown_room`: brokers that would get copies and don't say how much room they have. `makes`: the topic that the cluster
    makes when an executor claims it for the first time; "": none. `lower`: what others' throttles do to the plan's copies,
    and the plan's to ordinary replication; `bursts`: that copies run ahead of the throttle at first; "": nothing.
    """

    moves: tuple[PlannedMove, ...]
    forecast: Forecast
    most_rollback_bytes: int
    unknown_room: tuple[BrokerId, ...] = ()
    makes: str = ""
    lower: str = ""
    bursts: str = ""
    open_bytes: int = 0
    """Bytes that are copied by moves of the journal that are open already."""

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        document = asdict(self)
        document["forecast"] = self.forecast._asdict()
        return document


async def dry_run(
    admin: AdminClient,
    state: ExecutorState,
    moves: Sequence[MoveOrder],
    options: ExecutionOptions,
    *,
    goes_around: bool = False,
) -> DryRun:
    """Lay a plan out on paper; the cluster does not change.

    Args:
        admin: The cluster.
        state: The journal's fold, for moves under way and rates learnt earlier; this function changes it.
        moves: The plan.
        options: As for the execution.
        goes_around: The cluster's controller ends steps whose target has a dead broker, as Shunter's does.
    """
    cluster = state.cluster
    cluster.ongoing = await admin.list_reassignments()
    seen = await admin.observe_topics(sorted({move.tp.topic for move in moves}))
    cluster.topics, cluster.brokers, cluster.needs_all = dict(seen.topics), dict(seen.brokers), seen.needs_all
    event = PlanSubmitted("dry-run", tuple(moves), options)
    asked = {broker: list[TopicPartition]() for broker in involved_brokers(state, event)}
    asked |= replicas_to_size(state, event)
    sized = await admin.observe_log_dirs({broker: tps for broker, tps in asked.items() if broker in cluster.brokers})
    cluster.sizes.update(sized.sizes)
    cluster.see_spaces((), sized.spaces)
    cluster.broken.update(sized.broken)
    ours, copies = {move.tp for move in state.open_moves()}, copies_among(sized.sizes, sized.futures)
    judged = judge_submission(state, event)
    for record in judged.records:
        apply(state, JournalEntry(state.next_sequence, 0, "dry-run", record))
    results = {result.tp: replace(result, held_up="") if goes_around else result for result in judged.results}
    foreign = {order.tp: _replaced(order, copies) for order in moves if order.tp not in ours}
    planned = [
        replace(
            _planned(state, order, results[order.tp], foreign.get(order.tp), goes_around=goes_around),
            log_dirs=order.log_dirs,
            placing=state.moves[order.tp].placing if results[order.tp].refused is None else (),
            elects=order.target[0] if order.elect else None,
            thin=results[order.tp].thin,
        )
        for order in moves
    ]
    taken = [state.moves[tp] for tp, result in results.items() if result.refused is None and state.moves[tp].open]
    waits, unknown = room_on_paper(state, taken)
    planned = [
        replace(each, problem=_both(each.problem, waits.get(order.tp)))
        for each, order in zip(planned, moves, strict=True)
    ]
    # A plan that joins an execution is carried out at its rate.
    bandwidth = options.bandwidth or options.throttle or state.limit or 0
    dearest = sum(max((step.rollback_bytes for step in move.steps), default=0) + move.placing_bytes for move in planned)
    told, lower, lists = await _throttled_by_others(admin, state)
    told = "; ".join(filter(None, (told + told_urgent(state, taken, lower), told_followers(state, taken))))
    within, learnt = options.log_dir_throttle, state.learnt_rates
    expected = forecast(taken, bandwidth=bandwidth, learnt=learnt, within=within, others=lower, lists=lists)
    opened = sum(
        step.copied_bytes for order, each in zip(moves, planned, strict=True) if order.tp in ours for step in each.steps
    )
    bursts = told_bursts(options.throttle) if expected.total_bytes else ""
    return DryRun(tuple(planned), expected, dearest, unknown, lower=told, bursts=bursts, open_bytes=opened)


async def _throttled_by_others(
    admin: AdminClient, state: ExecutorState
) -> tuple[str, dict[ThrottleKey, int], Mapping[ThrottleKey, str | None] | None]:
    """What others' throttles do to the copies, and ours to ordinary replication, in words; and others' lower rates.

    The last part: topics' lists, if those rates hold only what they name.

    Without a throttle the executor sets no list: then only rates hold whose replicas somebody else's list names.
    """
    limited = state.limit is not None
    whole = desired_settings(state if limited else replace(state, limit=UNLIMITED)).items()
    theirs = {key: value for key, value in whole if key not in state.throttles and key.setting in (*RATES, *LISTS)}
    wanted = of_live(theirs, state.cluster.brokers)
    watched = wanted | watched_followers(state, needed=False)
    if not watched:
        return "", {}, None
    try:
        seen = await admin.read_settings(list(watched))
    except DriverError as error:
        return f"whether somebody else's throttle holds these copies is not known: {error}", {}, None
    for key, value in seen.own.items():
        note_others(state, key, value, seen.effective.get(key))
    lower = (lower_than if limited else lower_anyway)(wanted, seen.own, seen.effective)
    receivers = {
        str(each) for move in state.open_moves() for each in (*move.copying, *move.goal) if each not in move.current
    }
    lower = {key: rate for key, rate in lower.items() if key.setting != FOLLOWER_RATE or key.name in receivers}
    shared = told_shared(shared_lists(wanted, seen.own)) if limited else ""
    return (
        "; ".join(filter(None, (told_lower(lower, seen.own, limited=limited), shared))),
        lower,
        None if limited else seen.own,
    )


def _both(problem: str | None, wait: str | None) -> str | None:
    return "; ".join(told for told in (problem, wait) if told) or None


def _replaced(order: MoveOrder, copies: Sequence[LogDirCopy]) -> str | None:
    """A sentence about copies between log dirs, begun by others, that the log dirs of an order take over or cancel."""
    told: list[str] = []
    for copy in copies:
        wanted = dict(order.log_dirs).get(copy.broker) if copy.tp == order.tp else None
        if wanted is not None:
            done = "takes it over" if wanted == copy.destination else f"cancels it, because the plan says {wanted}"
            told.append(f"somebody else copies it {told_copy(copy)}: this move {done}")
    return "; ".join(told) or None


def _planned(
    state: ExecutorState, order: MoveOrder, result: MoveResult, foreign: str | None, *, goes_around: bool
) -> PlannedMove:
    move = state.moves.get(order.tp)
    if result.refused is not None or move is None:
        told = result.refused or "nothing is known of it"
        return PlannedMove(str(order.tp), (), order.target, 0, (), told, taken=False)
    sets, waiting = _sets(state, move, goes_around=goes_around)
    steps = tuple(
        PlannedStep(
            after,
            *step_cost([broker for broker in after if broker not in before], after, move.original, move.size_bytes),
            tuple(each for each in move.original if each not in {*after, *state.cluster.brokers}),
            tuple(each for each in move.original if each not in after and each in state.cluster.broken),
            move.step is not None and after == move.step.after,
        )
        for before, after in pairwise((move.current, *sets))
    )
    waits = None if result.held_up else waiting
    problem = "; ".join(told for told in (_adopted(move, steps), foreign, result.instead, waits) if told) or None
    return PlannedMove(str(order.tp), move.original, move.goal, move.size_bytes, steps, problem, held_up=result.held_up)


def _sets(state: ExecutorState, move: Move, *, goes_around: bool) -> tuple[list[Replicas], str | None]:
    """The replicas after each step, and what the move would wait for then: as the one that carries it out decides."""
    if move.strategy is Strategy.ALL_AT_ONCE:
        return [move.goal], None
    if not goes_around:
        steps, waits = on_paper(state, move)
        now = waits or waits_now(state, move)
        return [step.after for step in steps], told_behind(state, move) if now is None else now.reason
    seen = state.cluster.partition(move.tp)
    assert seen is not None, "a move is taken on only for a partition that was seen"
    dead = [broker for broker in (*move.original, *move.target) if broker not in state.cluster.brokers]
    isr = tuple(broker for broker in seen.isr if broker in move.current)
    least = state.cluster.min_isr(move.tp.topic)
    paper = plan_on_paper(move.current, move.goal, seen.leader, isr=isr, dead=dead, min_isr=least)
    told = describe_waiting(paper.waiting) if isinstance(paper.waiting, Waiting) else None
    return [step.replicas for step in paper.steps], told


def _adopted(move: Move, steps: Sequence[PlannedStep]) -> str | None:
    if not move.adopted or move.step is None:
        return None
    goes = "goes on" if steps and steps[0].under_way else "gives way to the first one here"
    told = f"another tool moves it: it would be taken over, and its step to {list(move.step.after)} {goes}"
    return f"{told}; the order of its original replicas is a guess"


__all__ = ["DryRun", "PlannedMove", "PlannedStep", "dry_run"]
