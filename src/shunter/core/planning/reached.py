"""Names the aims that a plan does not reach, and why, and what it was made without knowing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shunter.core.planning.board import Board
from shunter.core.planning.cluster import ABSENT, ClusterLoad, Indexes, Ints, Resource, distinct
from shunter.core.planning.facts import (
    CORDONED,
    HELD,
    LEADS_FROM,
    LIFT_FIRST,
    OFFLINE,
    barred,
    closed,
    fitness_of,
    in_the_way,
    may_hold,
    rooms,
    slow,
)
from shunter.core.planning.moves import BalancedPlan, Undone, percent_of
from shunter.core.planning.request import BALANCING, MEASURED, ORDER_ALONE, SPENT, Scope
from shunter.core.spare_replicas import OFFLINE_FIRST, thinness, told_thin
from shunter.core.wording import counted, named, told_rate

_TOLD = 20
_NOTHING = 1e-9
_TRIED = 50
"""The most replicas that are tried to find out what holds a broker outside its band."""
_LED = {Resource.LEADERS, Resource.BYTES_OUT, Resource.LEADER_BYTES_IN}
"""Resources that go with the leader."""


def what_is_left(
    plan: BalancedPlan, board: Board, free: tuple[BalancedPlan, Board] | None = None
) -> tuple[Undone, ...]:
    """Name the brokers outside their band after the plan, and for each the reason that can be shown.

    `free` is the plan without caps, if the caps are too small for it.
    """
    if plan.request.scope not in MEASURED:
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
                    _why(*(free or (plan, board)), broker, column, over=over)
                    if free is None or not _nearer(free[0], plan, broker, column)
                    else SPENT,
                )
            )
        if len(brokers) > _TOLD:
            found.append(Undone(f"{counted(len(brokers) - _TOLD, 'more broker')}: {resource.label}", "as above"))
    return tuple(found) + _forced_racks(plan)


def _nearer(free: BalancedPlan, plan: BalancedPlan, broker: int, column: int) -> bool:
    """Whether the plan without caps brings a broker nearer to its band than the plan with caps."""
    goal = plan.targets

    def outside(made: BalancedPlan) -> float:
        load = made.after[broker, column] / goal.scale[column]
        return float(max(load - goal.high[broker, column], goal.low[broker, column] - load, 0.0))

    return outside(free) < outside(plan) - _NOTHING


def told_by_cap(plan: BalancedPlan, board: Board, free: BalancedPlan) -> tuple[Undone, ...]:
    """What a plan with caps leaves undone. What the plan without caps leaves as well has that one's reason.

    Where not even the smallest copy is left of the caps, they are spent. Else it is said what is left and needed.
    """
    known, told = dict(free.undone), SPENT
    most, percent = plan.request.max_moves, plan.request.max_bytes_percent
    # A replica that was tried on two brokers took two moves of the cap, and the plan has one.
    some_left = percent is None and most is not None and len(plan.moves) < most
    if not board.spent() or some_left:
        rest: list[str] = []
        needed: list[str] = []
        if most is not None:
            rest.append(f"{most - len(plan.moves)} of {counted(most, 'move')}")
            needed.append(counted(len(free.moves), "move"))
        if percent is not None:
            rest.append(f"{percent - percent_of(plan.bytes_moved, plan.total_bytes):.2f} of {percent:g} % of all bytes")
            needed.append(f"{percent_of(free.bytes_moved, plan.total_bytes):.2f} %")
        without = " and ".join(needed)
        told = f"the cap leaves {' and '.join(rest)}, too little for what would come next (without a cap: {without})"
    return tuple(
        Undone(each.what, known.get(each.what, told) if each.why == SPENT else each.why) for each in plan.undone
    )


def ways_out(cluster: ClusterLoad, left: Ints, scope: Scope) -> Iterator[tuple[Ints, str]]:
    """Tell apart the partitions that stay beside an `Obstacle` by what frees them, which is put behind the reason."""
    shut = in_the_way(CORDONED, cluster.replicas[left], fitness_of(cluster)[left], closed(cluster)).any(axis=1)
    return ((some, _way_out(cluster, some, scope)) for some in (left[~shut], left[shut]) if len(some))


def _way_out(cluster: ClusterLoad, left: Ints, scope: Scope) -> str:
    replicas, fitness = cluster.replicas[left], fitness_of(cluster)[left]
    cordoned, offline = (
        {
            cluster.brokers[at]
            for at in distinct(replicas[in_the_way(kind, replicas, fitness, closed(cluster))]).tolist()
        }
        for kind in (CORDONED, OFFLINE)
    )
    shut, every = (",".join(map(str, sorted(found))) for found in (cordoned, cordoned | offline))
    if not cordoned:
        back = f"bring what is offline on broker {every} back, or end what keeps the rest in place"
        return f"; {back if scope is Scope.OFFLINE else OFFLINE_FIRST}"
    gone = {cluster.brokers[at] for at in barred(cluster)} | cordoned | offline
    drained = len(cluster.brokers) - len(gone) >= int(cluster.replication[left].max())
    other = f", or `shunter drain {every}`" if drained else ""
    return f"; take broker {shut} out of its cordon (`cordoned.log.dirs`){other}"


def what_is_unknown(plan: BalancedPlan) -> Iterator[str]:
    """Say which brokers the plan had to leave out, and which of them it filled without knowing their room."""
    goal, cluster = plan.targets, plan.cluster
    for at, why in sorted(goal.barred.items()):
        broker = cluster.brokers[at]
        if broker in (*plan.request.leaving, *plan.request.excluded_brokers):
            continue
        if plan.request.scope not in ORDER_ALONE:
            yield f"broker {broker} {why}: nothing comes to it"
        elif cluster.facts and cluster.facts[at].down:  # All others can lead what they have in sync.
            yield f"broker {broker} {why}: it is put first nowhere"
    yield from _who_is_slow(plan)
    lost = np.flatnonzero(goal.lost)
    if len(lost):
        names = named(map(cluster.partition_name, lost.tolist()))
        yield f"{counted(len(lost), 'partition has', 'partitions have')} no live replica in sync, and none of them changes: {names}"
    told = np.zeros(len(goal.movable), np.bool_)
    for kind, beside in goal.beside.items():
        rows = np.flatnonzero(beside & ~told)
        for left, out in [(rows, LIFT_FIRST)] if kind is HELD else ways_out(cluster, rows, plan.request.scope):
            if not len(left):
                continue
            told[left] = True
            counts = counted(len(left), f"partition has {kind.replica}", f"partitions have {kind.replicas}")
            names = named(map(cluster.partition_name, left.tolist()))
            stays = "it stays as it is" if len(left) == 1 else "they stay as they are"
            if plan.request.scope in kind.taken_by:
                stays = "nothing else of these partitions moves"
            yield f"{counts} ({names}): {stays}, because {kind.why}{out}"
    yield from _who_leads_instead(plan)
    yield from _what_gets_thin(plan)
    yield from _what_shares_a_rack(plan)
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


def _who_is_slow(plan: BalancedPlan) -> Iterator[str]:
    """Say which brokers throttles hold to less than is of use, and what comes to them all the same."""
    goal, cluster = plan.targets, plan.cluster
    for at in np.flatnonzero(slow(cluster) & goal.members).tolist():
        held = _told_throttle(cluster, at)
        leads = _told_leaders(plan, at)
        came = plan.moves.partition[plan.moves.target == at].tolist()
        if came:
            asked = cluster.brokers[at] in plan.request.replacements
            why = "the request names it" if asked else "no broker without one may take them"
            counts = counted(len(came), "replica comes", "replicas come")
            ends = "where the throttle lists the topic, such a copy may not end, and once it is in sync acks=all may wait for it"
            yield f"{held}: {counts} to it all the same ({named(map(cluster.partition_name, came))}), because {why}; {ends}{leads}"
        elif plan.request.scope in BALANCING:
            yield f"{held}: no replica comes to it until that is lifted{leads}"
        elif plan.request.scope not in ORDER_ALONE:
            yield f"{held}: it would get only what no other broker may take{leads}"
        elif leads:
            yield f"{held}{leads}"


def _told_leaders(plan: BalancedPlan, at: int) -> str:
    """How many partitions a broker that a throttle holds follows at a new leader epoch, or leads newly; "": none.

    To be put behind that the throttle holds it. Kafka does not throttle a replica that is in sync. But each follower begins
    anew at a leader epoch, and is held until it has caught up once more: until it is put out of the isr, acks=all waits.
    An epoch begins where the leader changes, or a replica is dropped.
    """
    cluster, ends = plan.cluster, plan.replicas
    if cluster.leader is None:
        return ""
    turned = np.zeros(len(ends), np.bool_)
    turned[[*plan.changed.tolist(), *plan.elected.tolist()]] = True
    stays = turned & (cluster.replicas == at).any(axis=1) & (ends == at).any(axis=1)
    rows = np.flatnonzero(stays & (ends[:, 0] != at))
    begins = [
        may_hold(cluster, at, row)
        and (
            int(cluster.leader[row]) != int(ends[row, 0])
            or not np.isin(cluster.replicas[row], (*ends[row], ABSENT)).all()
        )
        for row in rows.tolist()
    ]
    follows = rows[np.array(begins, np.bool_)]
    comes = int((turned & (cluster.leader != at) & (ends[:, 0] == at)).sum())
    told = ""
    if comes:
        told += f"; it leads {counted(comes, 'more partition')}"
    if len(follows):
        which = counted(len(follows), "partition that it follows gets", "partitions that it follows get")
        told += f"; {which} a new leader epoch, and acks=all may wait for it there until it is out of the isr"
        told += " (`replica.lag.time.max.ms`): lift the throttle first (`shunter throttles clear`)"
        least = np.ones(len(ends), np.int64) if cluster.min_isr is None else cluster.min_isr
        whole = ((ends != ABSENT) & (ends != at)).sum(axis=1)
        if len(thin := follows[whole[follows] < least[follows]]):
            names = named(map(cluster.partition_name, thin.tolist()))
            told += (
                f"; {names} would have fewer than min.insync.replicas then: `execute` waits there until it is lifted"
            )
    return told


def _told_throttle(cluster: ClusterLoad, at: int) -> str:
    """That a throttle holds a broker, which is slow by that."""
    return (
        f"somebody else's throttle holds broker {cluster.brokers[at]} to {told_rate(cluster.facts[at].throttle or 0)}"
    )


def _who_leads_instead(plan: BalancedPlan) -> Iterator[str]:
    """Say how many partitions end with another leader than their first replica, which the bands of leaders count."""
    leader = plan.cluster.leader
    if leader is None or plan.request.scope in ORDER_ALONE or Resource.LEADERS not in plan.targets.resources:
        return
    first = plan.replicas[:, :1]
    ill = ((plan.cluster.replicas == first) & (fitness_of(plan.cluster) < LEADS_FROM)).any(axis=1)
    stays = (plan.replicas == leader[:, None]).any(axis=1) & (leader >= 0)
    led = int((stays & ~ill & (first[:, 0] != leader)).sum())
    if led:
        counts = counted(led, "partition")
        elects = "Kafka elects it by itself if auto.leader.rebalance.enable is on, `shunter plan --scope leaders --execute` now"
        yield f"{counts} with another leader than the first replica after this plan, which elects nobody: {elects}"


def _what_gets_thin(plan: BalancedPlan) -> Iterator[str]:
    """Say which partitions lose their last spare replica. None goes below min.insync.replicas: a plan does not do that."""
    cluster, rows = plan.cluster, plan.thinned()
    least = np.ones(len(rows), np.int64) if cluster.min_isr is None else cluster.min_isr[rows]
    left = (plan.replicas[rows] != ABSENT).sum(axis=1)
    counts = zip(cluster.replication[rows].tolist(), left.tolist(), least.tolist(), strict=True)
    names = map(cluster.partition_name, rows.tolist())
    yield from told_thin((name, thinness(*each)) for name, each in zip(names, counts, strict=True))


def _what_shares_a_rack(plan: BalancedPlan) -> Iterator[str]:
    """Say which partitions end with more replicas in a rack that has another one of theirs than they have now."""
    cluster, rows = plan.cluster, plan.changed
    if len(cluster.racks) < 2:
        return
    more = rows[_beside_others(cluster, plan.replicas[rows]) > _beside_others(cluster, cluster.replicas[rows])]
    if len(more):
        counts = counted(len(more), "partition ends", "partitions end")
        yield f"{counts} with more replicas in one rack than now ({named(map(cluster.partition_name, more.tolist()))})"


def _beside_others(cluster: ClusterLoad, replicas: Indexes) -> Ints:
    """By partition: how many of its replicas are in a rack where an earlier one is. `replicas`: (P, W)."""
    racks = np.sort(np.where(replicas == ABSENT, ABSENT, cluster.rack_of[replicas]), axis=1)
    again = (racks[:, 1:] == racks[:, :-1]) & (racks[:, 1:] != ABSENT)
    return np.asarray(again.sum(axis=1))


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
    if plan.request.scope in ORDER_ALONE:  # Leaders are not bound to racks.
        return ()
    for rack, level in enumerate(goal.rack_level.tolist()):
        brokers = int(goal.rules.sizes[rack])
        if brokers and abs(level - 1) > plan.request.band:
            what = f"rack {cluster.racks[rack]}: its {counted(brokers, 'broker carries', 'brokers carry')} about {level:.2f} of the mean each"
            told.append(Undone(what, "the spread over racks gives each rack its replicas, however few brokers it has"))
    return tuple(told)


def _why(plan: BalancedPlan, board: Board, broker: int, column: int, *, over: bool) -> str:
    goal, cluster = plan.targets, plan.cluster
    resource = goal.resources[column]
    orders = plan.request.scope is Scope.LEADERS
    held = (plan.replicas == broker) & (plan.replicas != ABSENT)
    weight = goal.every[:, column] + np.where(plan.replicas[:, 0] == broker, goal.leading[:, column], 0)
    for fixed, told in (
        (~np.any([goal.movable, goal.lost, *goal.beside.values()], axis=0), "excluded topics"),
        (goal.lost, "partitions that no broker has"),
        *((beside, f"partitions with {kind.replica} that stays") for kind, beside in goal.beside.items()),
    ):
        alone = float(weight[held.any(axis=1) & fixed & ~goal.movable].sum())
        if over and alone > goal.high[broker, column]:
            return f"replicas of {told} alone make {alone:.3f} of the mean"
    if orders or resource in _LED:
        return _why_not_led(plan, broker, over=over, orders=orders)
    if not over and not goal.receivers[broker]:
        if goal.slow[broker]:
            return _told_throttle(cluster, broker)
        return f"the scope {plan.request.scope.value} lets nothing move to it"
    if over and plan.request.scope is Scope.FILL:
        return "the scope fill lets nothing leave it"
    if rules := _what_holds(plan, board, broker, over=over):
        return rules + _told_barred(plan)
    largest = float(weight[held.any(axis=1)].max(initial=0.0))
    if over and largest > goal.high[broker, column] - goal.low[broker, column]:
        partition = int(np.flatnonzero(held.any(axis=1))[int(weight[held.any(axis=1)].argmax())])
        return f"{cluster.partition_name(partition)} alone is {largest:.3f} of the mean, more than the band is wide"
    change = "lowers" if over else "raises"
    generic = f"no move or swap found {change} its {resource.label} without costing a more important aim as much"
    return generic + _told_barred(plan)


def _told_barred(plan: BalancedPlan) -> str:
    """The facts that leave a plan fewer brokers, to be put behind a reason; "": there are none."""
    goal, known = plan.targets, plan.cluster.brokers
    facts = [f"broker {known[at]} {why}" for at, why in sorted(goal.barred.items()) if not goal.excluded[at]]
    facts += [
        _told_throttle(plan.cluster, at) for at in np.flatnonzero(goal.slow & goal.members & ~goal.receivers).tolist()
    ]
    return f" (nothing can go to some: {named(facts)})" if facts else ""


def _what_holds(plan: BalancedPlan, board: Board, broker: int, *, over: bool) -> str:
    """Whether rules and facts alone forbid what would help, of which a sample is tried; "": they do not."""
    goal = plan.targets
    partitions, slots = board.held_by(broker)
    if not over:
        here = board.replicas == broker
        helps = ~here & goal.members[board.replicas] & ~here.any(axis=1, keepdims=True)
        partitions, slots = np.nonzero(helps & (board.replicas != ABSENT) & goal.movable[:, None])
    if not len(partitions):
        return "no replica on it may move" if over else "no replica of another broker may move to it"
    fits = False
    for at in range(0, len(partitions), max(1, len(partitions) // _TRIED)):
        partition, slot = int(partitions[at]), int(slots[at])
        opened = np.isfinite(board.openings(partition, slot))
        opened &= True if over else np.arange(len(opened)) == broker
        fits |= bool(opened.any())
        if (opened & ~board.too_much(board.weight_of(partition, slot))).any():
            return ""
    if fits:
        whose = "no broker has" if over else "it has no"
        return f"{whose} room within its capacity less the headroom (headroom-percent), also for what is copied before old replicas go"
    if not (goal.receivers & (np.arange(len(goal.receivers)) != broker)).any() and over:
        return "no other broker may receive replicas"
    return "racks, or replicas of the same partitions, leave no place for what may move"


def _why_not_led(plan: BalancedPlan, broker: int, *, over: bool, orders: bool) -> str:
    """Why a broker leads too much or too little: who else has replicas of the partitions, and can lead."""
    goal = plan.targets
    ill = [key for key in goal.ill if key[1] == broker] if not over else []
    if over and goal.ill:
        led = np.flatnonzero((plan.replicas[:, 0] == broker) & goal.movable).tolist()
        ill = [(partition, broker) for partition in led if any(key in goal.ill for key in _followers(plan, partition))]
    held = counted(len(ill), "partition")
    what = (
        f"of {held} that it leads followers are offline or out of sync"
        if over
        else f"of {held} its replica is offline or out of sync"
    )
    facts = f": {what}" if ill else ""
    if orders:
        return f"brokers that could lead more hold no replica of its partitions, not even by a path of exchanges{facts}"
    change = "lowers" if over else "raises"
    return (
        f"no order or move found {change} that without costing a more important aim as much{facts}{_told_barred(plan)}"
    )


def _followers(plan: BalancedPlan, partition: int) -> list[tuple[int, int]]:
    return [(partition, broker) for broker in plan.replicas[partition, 1:].tolist() if broker != ABSENT]
