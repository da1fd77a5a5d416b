"""Names the aims that a plan does not reach, and why, and what it was made without knowing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shunter.core.planning.board import Budget
from shunter.core.planning.cluster import ABSENT, Resource, distinct
from shunter.core.planning.facts import rooms
from shunter.core.planning.moves import BalancedPlan, Undone
from shunter.core.planning.request import EMPTYING, ORDER_ALONE, Scope
from shunter.core.wording import counted

_TOLD = 20
OFFLINE_FIRST = "`shunter plan --scope offline` gives offline replicas other brokers first"


def what_is_left(plan: BalancedPlan, budget: Budget) -> tuple[Undone, ...]:
    """Name the brokers outside their band after the plan, and for each the reason that can be shown."""
    if plan.request.scope not in {Scope.REBALANCE, Scope.FILL, Scope.LEADERS, *EMPTYING}:
        return ()
    goal = plan.targets
    loads = plan.after / goal.scale
    outside = goal.outside(loads)
    found: list[Undone] = []
    for column, resource in enumerate(goal.resources):
        if goal.weight[column] == 0 or (plan.request.scope is Scope.LEADERS and resource < Resource.LEADERS):
            continue
        load = loads[:, column]
        brokers = np.flatnonzero(outside[:, column] & goal.members).tolist()
        for broker in brokers[:_TOLD]:
            over = bool(load[broker] > goal.high[broker, column])
            edge = goal.high[broker, column] if over else goal.low[broker, column]
            carries, limit = _told_apart(float(load[broker]), float(edge))
            found.append(
                Undone(
                    f"broker {plan.cluster.brokers[broker]}: {resource.label} {carries} of the mean, "
                    f"{'above' if over else 'below'} {limit}",
                    _why(plan, budget, broker, column, over=over),
                )
            )
        if len(brokers) > _TOLD:
            found.append(Undone(f"{counted(len(brokers) - _TOLD, 'more broker')}: {resource.label}", "as above"))
    return tuple(found) + _forced_racks(plan)


def what_is_unknown(plan: BalancedPlan) -> Iterator[str]:
    """Say which brokers the plan had to leave out, and which of them it filled without knowing their room."""
    goal, cluster = plan.targets, plan.cluster
    for at, why in sorted(goal.barred.items()):
        broker = cluster.brokers[at]
        if broker not in (*plan.request.leaving, *plan.request.excluded_brokers):
            what = "it is put first nowhere" if plan.request.scope in ORDER_ALONE else "nothing comes to it"
            yield f"broker {broker} {why}: {what}"
    lost = np.flatnonzero(goal.lost)
    if len(lost):
        name = cluster.partition_name(int(lost[0]))
        yield f"{counted(len(lost), 'partition has', 'partitions have')} no live replica in sync, {name} for one: none of them changes"
    waiting = np.flatnonzero(goal.waiting)
    if len(waiting):
        counts = counted(len(waiting), "partition has an offline replica", "partitions have offline replicas")
        name = cluster.partition_name(int(waiting[0]))
        left = "it stays as it is" if len(waiting) == 1 else "they stay as they are"
        yield f"{counts}, {name} for one: {left}, because a copy beside one may not end; {OFFLINE_FIRST}"
    if cluster.facts:
        found = rooms(cluster, plan.request.headroom)
        known = cluster.capacity(Resource.DISK)
        blind = [
            str(cluster.brokers[at])
            for at in distinct(plan.moves.target).tolist()
            if found[at] is None and (known is None or not np.isfinite(known[at]))
        ]
        if blind:
            yield f"nothing is known of the room on the disks of {', '.join(blind)}: the plan does not bound what comes there"


def _told_apart(load: float, edge: float) -> tuple[str, str]:
    """Both figures with as many digits as show which is greater, at least three."""
    digits = 3
    while f"{load:.{digits}f}" == f"{edge:.{digits}f}" and digits < 9:
        digits += 1
    return f"{load:.{digits}f}", f"{edge:.{digits}f}"


def _forced_racks(plan: BalancedPlan) -> tuple[Undone, ...]:
    """Name the racks whose brokers carry more or less than the band by the rack rule alone."""
    goal, cluster = plan.targets, plan.cluster
    told: list[Undone] = []
    for rack, level in enumerate(goal.rack_level.tolist()):
        brokers = int(goal.rules.sizes[rack])
        if brokers and abs(level - 1) > plan.request.band:
            what = f"rack {cluster.racks[rack]}: its {counted(brokers, 'broker carries', 'brokers carry')} about {level:.2f} of the mean each"
            told.append(Undone(what, "the spread over racks gives each rack its replicas, however few brokers it has"))
    return tuple(told)


def _why(plan: BalancedPlan, budget: Budget, broker: int, column: int, *, over: bool) -> str:
    goal, cluster = plan.targets, plan.cluster
    resource = goal.resources[column]
    if plan.request.scope is Scope.LEADERS:
        return "brokers that could lead more hold no replica of its partitions, not even by a path of exchanges"
    smallest = float(cluster.sizes[goal.movable].min(initial=np.inf))
    if goal.movable.any() and (not budget.allows(smallest) or _capped(plan, budget)):
        return "the cap on bytes or moves is spent"
    held = (plan.replicas == broker) & (plan.replicas != ABSENT)
    fixed = (held.any(axis=1)) & ~goal.movable
    weight = goal.every[:, column] + np.where(plan.replicas[:, 0] == broker, goal.leading[:, column], 0)
    if over and float(weight[fixed].sum()) > goal.high[broker, column]:
        return f"replicas of partitions that stay as they are alone make {float(weight[fixed].sum()):.3f} of the mean"
    largest = float(weight[held.any(axis=1)].max(initial=0.0))
    if over and largest > goal.high[broker, column] - goal.low[broker, column]:
        partition = int(np.flatnonzero(held.any(axis=1))[int(weight[held.any(axis=1)].argmax())])
        return f"{cluster.partition_name(partition)} alone is {largest:.3f} of the mean, more than the band is wide"
    if not over and not goal.receivers[broker]:
        return f"the scope {plan.request.scope.value} lets nothing move to it"
    if np.isfinite(goal.hard[broker, column]) and not over:
        return "its capacity with headroom leaves no room, also for what is copied before old replicas go"
    change = "lowers" if over else "raises"
    return f"no move or swap found {change} its {resource.label} without costing a more important aim as much"


def _capped(plan: BalancedPlan, budget: Budget) -> bool:
    asked = plan.request.max_bytes_percent
    nearly_all = asked is not None and budget.size <= 0.02 * asked / 100 * plan.total_bytes
    return nearly_all or budget.moves < 2
