"""Changes that a scope asks for whatever the balance is: drains, shared racks, replication factors, replacements."""

from __future__ import annotations

import numpy as np

from shunter.core.planning.board import Board, Why
from shunter.core.planning.cluster import ABSENT, Flags, Floats, Ints, Resource
from shunter.core.planning.facts import OBSTACLES, Fitness, spare
from shunter.core.planning.moves import Undone
from shunter.core.planning.request import EMPTYING, SPENT, PlanRefused, PlanRequest, Scope
from shunter.core.planning.transport import place
from shunter.core.planning.wishes import (
    cut,
    demote,
    grant_wishes,
    grow,
    no_place,
    too_few,
    why_fixed,
)
from shunter.core.wording import counted, named
from shunter.model.inventory import OfflineReplica

_NAMED = 100
"""The most partitions that are named in one sentence about what is left undone."""
_EXCLUDED = "the topics are excluded"
_LOST = "no live replica in sync has their data"


def apply_scope(board: Board, request: PlanRequest) -> list[Undone]:
    """Make the changes that the scope itself asks for; balance comes later."""
    if request.scope is Scope.DRAIN:
        return _drain(board, request.brokers, Why.DRAINED)
    if request.scope is Scope.REPLACE:
        return _replace(board, request)
    if request.scope is Scope.CHANGE_REPLICATION:
        return _change_replication(board, request)
    if request.scope is Scope.DEMOTE:
        return demote(board, request.brokers)
    if request.scope is Scope.OFFLINE:
        return _leave_offline(board, request)
    if request.scope is Scope.TOPICS:
        return grant_wishes(board, request.wishes)
    if request.scope in {Scope.REBALANCE, Scope.FIX_RACKS}:
        return _fix_racks(board)
    if request.scope in EMPTYING:
        return _too_full(board, request)
    return []


def check(request: PlanRequest) -> None:
    """Refuse a request that contradicts itself.

    Raises:
        PlanRefused: Says which value breaks which rule.
    """
    if request.scope is Scope.DISKS:
        raise PlanRefused("log dirs within brokers are planned by what brokers tell of them, not by a cluster's load")
    needs_brokers = {Scope.DRAIN, Scope.FILL, Scope.REPLACE, Scope.DEMOTE}
    if request.scope in needs_brokers and not request.brokers:
        raise PlanRefused(f"{request.scope.value} names no broker; say which")
    if request.scope is Scope.REPLACE and (
        len(request.brokers) != len(request.replacements) or set(request.brokers) & set(request.replacements)
    ):
        raise PlanRefused(
            f"brokers {list(request.brokers)} and replacements {list(request.replacements)} do not pair up: "
            "as many of the one as of the other, and none in both"
        )
    if request.scope is Scope.CHANGE_REPLICATION and request.replication < 1:
        raise PlanRefused(f"replication factor {request.replication} is below 1")
    if not 0 < request.band < 1:
        told = "0.1 lets a broker have a tenth more or less than its share"
        raise PlanRefused(f"band {request.band} is not between 0 and 1: {told}")
    if not 0 <= request.headroom < 1:
        raise PlanRefused(f"headroom {request.headroom} is not between 0 and 1")
    if request.max_bytes_percent is not None and not request.max_bytes_percent >= 0:
        raise PlanRefused(f"max bytes percent {request.max_bytes_percent} is negative")
    if request.max_moves is not None and request.max_moves < 0:
        raise PlanRefused(f"max moves {request.max_moves} is negative")


def _needs(board: Board) -> Floats:
    targets = board.targets
    return np.where(targets.members[:, None], targets.share - board.loads, -1e6)


def _affordable(board: Board, partitions: Ints, slots: Ints) -> tuple[Ints, Ints, Flags]:
    """Cut the replicas that must move down to those that the caps allow; the smallest are kept, so that most move.

    Returns:
        Partitions and slots of those that the caps allow, and (n,) which of all these are.
    """
    sizes = board.cluster.sizes[partitions]
    order = np.argsort(sizes, kind="stable")
    paid = (np.cumsum(sizes[order]) <= board.budget.size) & (np.arange(1, len(order) + 1) <= board.budget.moves)
    kept = order[paid][::-1]
    return partitions[kept], slots[kept], np.isin(np.arange(len(order)), kept)


def _staying(board: Board, partitions: Ints, slots: Ints, why: str) -> list[Undone]:
    """Name replicas that stay where they are, by broker."""
    held: dict[int, list[str]] = {}
    for partition, slot in zip(partitions.tolist(), slots.tolist(), strict=True):
        broker = board.cluster.brokers[int(board.replicas[partition, slot])]
        held.setdefault(broker, []).append(board.cluster.partition_name(partition))
    return [
        Undone(
            f"{counted(len(names), 'replica stays', 'replicas stay')} on broker {broker} ({named(names, _NAMED)})", why
        )
        for broker, names in sorted(held.items())
    ]


def _drain(board: Board, brokers: tuple[int, ...], why: Why) -> list[Undone]:
    undone: list[Undone] = []
    indexes = np.flatnonzero(np.isin(np.array(board.cluster.brokers), brokers))
    partitions, slots = np.nonzero(np.isin(board.replicas, indexes))
    fixed, lost = ~board.targets.movable[partitions], board.targets.lost[partitions]
    for stay, told in ((fixed & ~lost, _EXCLUDED), (lost, _LOST)):
        undone += _staying(board, partitions[stay], slots[stay], told)
    return undone + _give_away(board, partitions[~fixed], slots[~fixed], why)


def _give_away(board: Board, partitions: Ints, slots: Ints, why: Why) -> list[Undone]:
    """Give replicas other brokers, as far as the caps and the brokers allow, and name those that stay."""
    homeless: list[tuple[int, int]] = []
    while True:
        paying, places, paid = _affordable(board, partitions, slots)
        left = place(board, paying, places, _needs(board), must=True, why=why)
        homeless += zip(paying[left].tolist(), places[left].tolist(), strict=True)
        partitions, slots = partitions[~paid], slots[~paid]
        if not len(left) or not len(partitions):
            break  # Else what found no broker has left its part of the caps to others.
    opened = np.array(
        [_has_place(board, *each) for each in zip(partitions.tolist(), slots.tolist(), strict=True)], bool
    )
    homeless += zip(partitions[~opened].tolist(), slots[~opened].tolist(), strict=True)
    undone = _staying(board, partitions[opened], slots[opened], SPENT)
    return undone + [_homeless(board, at, int(board.replicas[at, slot])) for at, slot in homeless]


def _has_place(board: Board, partition: int, slot: int) -> bool:
    opened = np.isfinite(board.openings(partition, slot))
    return bool((opened & ~board.too_much(board.weight_of(partition, slot))).any())


def _leave_offline(board: Board, request: PlanRequest) -> list[Undone]:
    """Give each offline replica another broker, unless no replica of its partition has its data.

    Raises:
        PlanRefused: the request names no offline replicas, and the cluster's are not known.
    """
    cluster, undone = board.cluster, list[Undone]()
    rows = {
        (cluster.topics[topic], number): at
        for at, (topic, number) in enumerate(zip(cluster.topic_of.tolist(), cluster.numbers.tolist(), strict=True))
    }
    index = {broker: at for at, broker in enumerate(cluster.brokers)}
    gone: dict[int, list[int]] = {}
    lost: set[int] = set()
    excluded: list[tuple[int, int]] = []
    for offline in request.offline or _known_offline(board, request.excluded_brokers):
        at = rows.get((offline.topic, offline.partition))
        if at is None or index.get(offline.broker, ABSENT) not in board.replicas[at].tolist():
            continue
        if board.targets.lost[at]:
            lost.add(at)
        elif not board.movable[at]:
            excluded.append((at, board.replicas[at].tolist().index(index[offline.broker])))
        else:
            gone.setdefault(at, []).append(board.replicas[at].tolist().index(index[offline.broker]))
    lost |= {at for at, slots in gone.items() if len(slots) == board.factors[at]}
    undone += [Undone(f"{cluster.partition_name(at)} stays where it is", _why_lost(board, at)) for at in sorted(lost)]
    undone += _staying(board, *_columns(excluded), _EXCLUDED)
    pairs = [(at, slot) for at, slots in sorted(gone.items()) if at not in lost for slot in sorted(slots)]
    return undone + _give_away(board, *_columns(pairs), Why.OFFLINE)


def _why_lost(board: Board, at: int) -> str:
    """Why nothing of a partition can be copied, and which broker brings its data back."""
    cluster, facts = board.cluster, board.cluster.facts
    behind = (board.fitness[at] == Fitness.BEHIND).any()
    told = "none of its replicas can lead" if behind else "all its replicas are offline"
    offline = board.replicas[at, board.fitness[at] == Fitness.OFFLINE].tolist()
    in_sync = () if cluster.isr is None else cluster.isr[at].tolist()
    # With eligible leader replicas (KIP-966) the ISR may be empty: then any of them may be the one that has all records.
    holding = [broker for broker in offline if broker in in_sync] or offline
    if not facts or not holding:
        return f"{told}: no live broker has its data"
    down = [str(cluster.brokers[broker]) for broker in holding if facts[broker].down]
    failed = [str(cluster.brokers[broker]) for broker in holding if not facts[broker].down]
    if not down:
        return f"{told}: its log dir on broker {', '.join(failed)} failed"
    ways = [f"start broker {' or '.join(down)}", *(f"mend its log dir on broker {broker}" for broker in failed)]
    has = "which has its data" if len(holding) == 1 else "whichever has its data, as `shunter doctor` tells"
    return f"{told}: {' or '.join(ways)}, {has}"


def _columns(pairs: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _known_offline(board: Board, excluded: tuple[int, ...]) -> list[OfflineReplica]:
    cluster = board.cluster
    if not cluster.facts and cluster.offline is None:
        raise PlanRefused(
            "scope offline needs to know which replicas are offline: plan a live cluster, or a file of one"
        )
    return [
        OfflineReplica(
            cluster.topics[int(cluster.topic_of[at])],
            int(cluster.numbers[at]),
            cluster.brokers[board.replicas[at, slot]],
        )
        for at, slot in np.argwhere(board.fitness == Fitness.OFFLINE).tolist()
        if cluster.brokers[board.replicas[at, slot]] not in excluded
    ]


def _too_full(board: Board, request: PlanRequest) -> list[Undone]:
    """Name the brokers that stay too full whatever moves, and those of which it is not known whether they are."""
    cluster, goal = board.cluster, board.targets
    left = spare(cluster, 1 - (request.disk_limit or 1.0)) / goal.scale[0] + board.loads[:, 0]
    why = "what is on its disks beside replicas fills more than the limit"
    found = [
        Undone(f"broker {cluster.brokers[at]} stays too full", why)
        for at in np.flatnonzero((left <= 0) & goal.members).tolist()
    ]
    known = cluster.capacity(Resource.DISK)
    unsized = np.isnan(left) & goal.members if known is None else ~np.isfinite(known) & goal.members
    why = "the size of its disks is not known, so nothing leaves it for being full"
    return found + [Undone(f"broker {cluster.brokers[at]}", why) for at in np.flatnonzero(unsized).tolist()]


def _homeless(board: Board, partition: int, broker: int) -> Undone:
    name = board.cluster.partition_name(partition)
    what = f"{name} stays on broker {board.cluster.brokers[broker]}" if broker != ABSENT else f"{name} gets no replica"
    return Undone(what, no_place(board, partition))


def _replace(board: Board, request: PlanRequest) -> list[Undone]:
    undone: list[Undone] = []
    index = {broker: at for at, broker in enumerate(board.cluster.brokers)}
    elsewhere: dict[str, list[int]] = {}
    for old, new in zip(request.brokers, request.replacements, strict=True):
        partitions, slots = np.nonzero((board.replicas == index[old]) & board.targets.movable[:, None])
        for partition, slot in zip(partitions.tolist(), slots.tolist(), strict=True):
            if why := _not_there(board, partition, slot, index[new]):
                elsewhere.setdefault(why, []).append(partition)
            elif board.budget.allows(float(board.cluster.sizes[partition])):
                board.move(partition, slot, index[new], Why.REPLACED)
    for why, partitions_left in elsewhere.items():
        names = named(map(board.cluster.partition_name, partitions_left), _NAMED)
        what = f"{counted(len(partitions_left), 'replica')} can't go to the replacement ({names})"
        undone.append(Undone(what, f"{why}: other brokers get what may move"))
    return undone + _drain(board, request.brokers, Why.REPLACED)


def _not_there(board: Board, partition: int, slot: int, broker: int) -> str:
    """Why a broker can't take over this replica; "": it can."""
    if broker in board.replicas[partition].tolist():
        return "it has a replica of them already"
    if broker in board.ill_at(partition):
        return "it has replicas of them that are offline or out of sync"
    if board.openings(partition, slot)[broker] != 0:
        return "the spread over racks keeps it free of them"
    return "it has too little room" if board.too_much(board.weight_of(partition, slot))[broker] else ""


def _fix_racks(board: Board) -> list[Undone]:
    undone: list[Undone] = []
    rules = board.targets.rules
    for partition in np.flatnonzero(rules.uneven(board.replicas)).tolist():
        name = board.cluster.partition_name(partition)
        what = f"{name} keeps replicas in shared racks"
        if not board.movable[partition]:
            undone.append(Undone(what, why_fixed(board, partition)))
            continue
        for _ in range(board.factors[partition]):
            if not rules.uneven(board.replicas[partition : partition + 1])[0]:
                break
            if not board.budget.allows(float(board.cluster.sizes[partition])):
                undone.append(Undone(what, SPENT))
                break
            if not _fix_one(board, partition):
                undone.append(Undone(what, no_place(board, partition)))
                break
    return undone


def _fix_one(board: Board, partition: int) -> bool:
    """Move the replica that helps most: one in the rack with most replicas, an obstacle first, the leader last."""
    rules, replicas = board.targets.rules, board.replicas
    row: list[int] = replicas[partition].tolist()
    slots = [slot for slot, broker in enumerate(row) if broker != ABSENT]
    held = np.bincount([int(rules.rack_of[row[slot]]) for slot in slots], minlength=len(rules.sizes))
    slots = [slot for slot in slots if not board.targets.excluded[row[slot]]]
    disk = board.targets.column(Resource.DISK) or 0
    stuck = np.any([board.in_the_way(kind, np.array([partition]))[0] for kind in OBSTACLES], axis=0)
    slots.sort(
        key=lambda s: (-int(held[rules.rack_of[row[s]]]), not stuck[s], s == 0, -float(board.loads[row[s], disk]), s)
    )
    for slot in slots:
        opened = board.openings(partition, slot).copy()
        opened[rules.rack_of == rules.rack_of[row[slot]]] = -np.inf
        gain = board.gains(board.weight_of(partition, slot), opened)
        best = board.best(gain)
        if np.isfinite(gain[best]):
            board.move(partition, slot, best, Why.RACKS)
            return True
    return False


def _change_replication(board: Board, request: PlanRequest) -> list[Undone]:
    undone: list[Undone] = []
    cluster, wanted = board.cluster, request.replication
    usable = int(board.targets.receivers.sum()) + len(board.targets.barred)
    if wanted > usable:
        raise PlanRefused(
            f"replication factor {wanted} needs {counted(wanted, 'broker')}, and {usable} may hold replicas"
        )
    chosen = np.isin(np.array(cluster.topics), request.topics or cluster.topics)[cluster.topic_of]
    for partition in np.flatnonzero(chosen & (board.targets.movable | board.targets.lost)).tolist():
        if not board.movable[partition]:
            if board.factors[partition] != wanted:
                undone.append(
                    Undone(f"{cluster.partition_name(partition)} keeps its replicas", why_fixed(board, partition))
                )
        elif refused := too_few(board, partition, wanted):
            undone += refused
        else:
            undone += cut(board, partition, wanted) + grow(board, partition, wanted, Why.REPLICATION)
    board.rebuild()
    return undone
