"""The planner: first the scope, then disk in bulk, then the rest by single moves and swaps, then leaders."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from shunter.core.planning.aims import Targets, targets
from shunter.core.planning.board import Board, Budget
from shunter.core.planning.cluster import ABSENT, UNKNOWN, ClusterLoad, Flags, Indexes, Ints, Resource, broker_loads
from shunter.core.planning.facts import OBSTACLES, Fitness, fitness_of, led_by_the_able, slow_come_last
from shunter.core.planning.leaders import balance_leaders
from shunter.core.planning.moves import BalancedPlan, Undone, difference, widened
from shunter.core.planning.reached import told_by_cap, ways_out, what_is_left, what_is_unknown
from shunter.core.planning.repair import crowded_topics, repair, spread_topics, take_back
from shunter.core.planning.request import BALANCING, EMPTYING, MEASURED, ORDER_ALONE, PlanRequest, Scope, without_empty
from shunter.core.planning.scopes import apply_scope, check
from shunter.core.planning.transport import balance_bulk, balance_counts
from shunter.core.wording import counted, named

_PASSES = 12
"""The most passes. Planning a plan's own result must change nothing, so a result is planned again until that is so."""
_IN_PLACE = {Scope.DRAIN, Scope.REPLACE, Scope.OFFLINE}
"""Scopes in which a new replica takes the place of the one that it stands in for, also the first place of a dead one."""
_WORTH_A_PASS = 0.99
"""A pass counts if it leaves less than this part of the violations."""
_LEAST_GAIN = 1e-9


def plan(cluster: ClusterLoad, request: PlanRequest, fenced: AbstractSet[int] = frozenset()) -> BalancedPlan:
    """Plan a request.

    Caps are hard. If the plan without caps fits, it is the plan.

    Deterministic. If a result is within all its bands, planning it again changes nothing. If the bands can't be
    reached, the result is planned again here, until another pass gains nothing. (With a cap, a later plan has a new cap
    and goes on where this one stopped.)

    Args:
        cluster: The cluster.
        request: The request.
        fenced: Brokers that are registered and fenced. One that is no part of `cluster` holds nothing: that is told.

    Raises:
        PlanRefused: The request names a broker or topic that the cluster doesn't have, or contradicts itself.
    """
    check(request)
    request, told = without_empty(request, fenced - set(cluster.brokers))
    made = _capped(cluster, request)
    return replace(made, notes=(*told, *made.notes))


def _capped(cluster: ClusterLoad, request: PlanRequest) -> BalancedPlan:
    free, its_board = _planned(cluster, replace(request, max_bytes_percent=None, max_moves=None))
    free = replace(free, request=request, undone=free.undone + what_is_left(free, its_board))
    if _budget(cluster, request).allows(free.bytes_moved, len(free.moves)):
        return free
    made, board = _planned(cluster, request)
    made = replace(made, undone=made.undone + what_is_left(made, board, (free, its_board)))
    return replace(made, undone=told_by_cap(made, board, free))


def _budget(cluster: ClusterLoad, request: PlanRequest) -> Budget:
    total, percent = float((cluster.sizes * cluster.replication).sum()), request.max_bytes_percent
    size = np.inf if percent is None else total * percent / 100 * (1 + 1e-12)
    return Budget(size, np.inf if request.max_moves is None else float(request.max_moves))


def _planned(cluster: ClusterLoad, request: PlanRequest) -> tuple[BalancedPlan, Board]:
    """Plan a request within its caps, without naming what is left by its bands."""
    goal = targets(cluster, request)
    width = max(cluster.replicas.shape[1], _most_replicas(request))
    start, fitness = widened(cluster.replicas, width), widened(fitness_of(cluster), width, int(Fitness.UNKNOWN))
    if request.scope not in _IN_PLACE:
        start, fitness = led_by_the_able(start, fitness)
    board = Board(cluster, goal, start, fitness, _budget(cluster, request))
    if request.scope in MEASURED:
        board, undone = _passes(board, request)
    else:
        undone = _one_pass(board, request)
    return _finished(request, start, led_by_the_able(start, fitness)[0], board, undone), board


def _most_replicas(request: PlanRequest) -> int:
    """The most replicas of a partition that the request itself asks for."""
    if request.scope is Scope.TOPICS:
        return max((wish.replication for wish in request.wishes), default=0)
    return request.replication if request.scope is Scope.CHANGE_REPLICATION else 0


def _passes(board: Board, request: PlanRequest) -> tuple[Board, list[Undone]]:
    """Plan until another pass gains nothing. Then planning the result again gains nothing either.

    Each pass starts from the result of the last one as if that were the cluster. So the last, rejected pass is exactly
    what a later plan would try.
    """
    undone: list[Undone] = []
    for _ in range(_PASSES):
        uneven, violation, crowded = _measure(board, request)
        following = _next_board(board)
        undone = _one_pass(following, request)
        after = _measure(following, request)
        better = (after[0], after[2]) < (uneven, crowded) or after[1] < violation * _WORTH_A_PASS - _LEAST_GAIN
        if after[0] > uneven or not better:
            return board, undone
        board = following
        if after[1] <= _LEAST_GAIN and after[0] == 0 and after[2] == 0:
            return board, []
        if board.spent():
            return board, undone
    return board, undone


def _measure(board: Board, request: PlanRequest) -> tuple[int, float, int]:
    """The figures that a pass is to lower: uneven partitions over racks, violations, replicas beyond the spread."""
    uneven = int(board.targets.rules.uneven(board.replicas).sum()) if request.scope is Scope.REBALANCE else 0
    return uneven, board.total_violation(), crowded_topics(board) if request.spread_topics else 0


def _next_board(board: Board) -> Board:
    budget = Budget(board.budget.size, board.budget.moves)
    after = Board(board.cluster, board.targets, board.replicas, board.fitness, budget)
    after.origin = board.origin
    after.why, after.why_resource, after.why_order = board.why.copy(), board.why_resource.copy(), board.why_order.copy()
    if board.limited:
        after.incoming = np.maximum(after.incoming, board.incoming)
    return after


def _one_pass(board: Board, request: PlanRequest) -> list[Undone]:
    resources = board.targets.resources
    replica_aims = tuple(r for r in resources if r in {Resource.DISK, Resource.BYTES_IN, Resource.REPLICAS})
    undone = apply_scope(board, request) + _leave_beside(board, request)
    if request.scope is Scope.LEADERS:
        balance_leaders(board)
    elif request.scope in EMPTYING:
        repair(board, (Resource.DISK,))
    elif request.scope in BALANCING and board.total_violation() > _LEAST_GAIN:
        balance_bulk(board)
        balance_counts(board)
        repair(board, replica_aims)
        balance_leaders(board)
        if board.total_violation() > _LEAST_GAIN:
            repair(board, resources)
            balance_leaders(board)
        take_back(board)
    if request.scope in BALANCING and request.spread_topics:
        spread_topics(board)
    return undone


def _leave_beside(board: Board, request: PlanRequest) -> list[Undone]:
    """Take back what a scope would change beside an `Obstacle` that stays."""
    undone: list[Undone] = []
    for kind in OBSTACLES:
        for why, rows in board.beside(kind).items():
            board.put_back(rows)
            for left, out in ways_out(board.cluster, rows, request.scope):
                counts = counted(len(left), "partition stays as it is", "partitions stay as they are")
                what = f"{counts} ({named(map(board.cluster.partition_name, left.tolist()))})"
                undone.append(Undone(what, f"{kind.replica} would stay, and {why}{out}"))
    return undone


def _finished(request: PlanRequest, start: Indexes, began: Indexes, board: Board, undone: list[Undone]) -> BalancedPlan:
    """Sum up what is on the board. `began` is `start` with a replica first that can lead."""
    cluster, goal = board.cluster, board.targets
    moves, dropped = difference(start, board.replicas, cluster.sizes, board.why, board.why_resource)
    brokers = len(cluster.brokers)
    raw = widened(cluster.replicas, start.shape[1])
    # A first replica that can't lead stays first only in partitions that do not change.
    placed = slow_come_last(start, board.replicas, goal.slow, first_stays=request.scope in BALANCING)
    end, _ = led_by_the_able(placed, board.fitness)
    changes = (end != began).any(axis=1) | ((board.why_order >= 0) & (end != raw).any(axis=1))
    first = np.where(changes, end[:, 0], np.where(end[:, 0] == raw[:, 0], raw[:, 0], ABSENT))
    made = BalancedPlan(
        cluster=cluster,
        request=request,
        targets=goal,
        replicas=np.where(changes[:, None], end, raw),
        changed=np.flatnonzero(changes),
        elected=_elected(cluster, request, goal, changes, first),
        moves=moves,
        dropped=dropped,
        before=broker_loads(began, brokers, goal.every, goal.leading) * goal.scale,
        after=broker_loads(end, brokers, goal.every, goal.leading) * goal.scale,
        undone=tuple(undone),
    )
    return replace(made, notes=tuple(what_is_unknown(made)))


def _elected(cluster: ClusterLoad, request: PlanRequest, goal: Targets, changes: Flags, first: Ints) -> Ints:
    """The partitions of which the first replica is to be elected, because another one leads now or has to stop.

    Only scopes that are about leaders elect. A partition whose first replica can't lead needs another order first. An
    election needs no assignment, so it is there also for partitions that the scope leaves alone beside an obstacle.

    Args:
        cluster: The cluster.
        request: The request.
        goal: Its targets.
        changes: (P,) whether the order changes.
        first: (P,) the replica that is first at the end, or ABSENT if that one can't lead.
    """
    if request.scope not in ORDER_ALONE:
        return np.zeros(0, np.int64)
    leader = np.full(len(first), UNKNOWN) if cluster.leader is None else cluster.leader
    wrong = np.where(leader == UNKNOWN, changes, leader != first)
    ids = np.array(cluster.brokers)
    if request.scope is Scope.DEMOTE:
        demoted = np.isin(ids, request.brokers)
        wrong &= ~demoted[first] & np.where(leader >= 0, demoted[leader], changes)
    else:
        excluded = np.isin(ids, request.excluded_brokers)
        wrong &= ~excluded[first] & ~(excluded[leader] & (leader >= 0))
    able = np.any([goal.movable, *goal.beside.values()], axis=0)
    return np.flatnonzero(wrong & able & (first != ABSENT))
