"""The bulk of a rebalance: how much each broker gives and takes, which replicas leave it, and where each one goes.

The levels are water levels: the fullest brokers come down together, the emptiest go up together, and exactly as many
bytes move as the band asks for (or the cap allows). Then both the highest and the lowest load are the best that this
number of bytes can reach, whatever the replicas' sizes are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shunter.core.planning.board import Board, Why
from shunter.core.planning.cluster import ABSENT, Flags, Floats, Ints, Resource, distinct

_DISK_MARGIN = 0.003
"""Aim this far inside the band's edges, as a share of the mean: packing is not exact."""
_COUNT_MARGIN = 0.02
"""The margin for counts, which small replicas correct with few bytes."""
_PULL = {Resource.DISK: 1.0, Resource.BYTES_IN: 0.5, Resource.REPLICAS: 0.015}
"""The weight of each resource when a replica gets its broker. Leaders are balanced afterwards, by the order."""
_RESERVED = 0.05
"""The part of a cap on bytes that is kept for the aims after disk; it suffices for most counts."""
_SURE = 0.9
"""The part of its proportional share that every group gets before the rest goes where it helps most."""
_STEPS = 64
"""Points of each group's curve when a limit is shared out."""
_NEED_RENEWED = 256
"""Placements after which the mean need is computed again."""


@dataclass(frozen=True, slots=True)
class Flow:
    """(B,) how much of one resource each broker gives and takes. Within each group both have the same sum."""

    give: Floats
    take: Floats


def balance_bulk(board: Board) -> None:
    """Move replicas to balance disks, and choose as many of them as balanced counts ask for."""
    targets = board.targets
    disk, replicas = targets.aim(Resource.DISK), targets.column(Resource.REPLICAS)
    if disk is None or replicas is None:
        return
    limit = board.budget.size / targets.scale[disk]
    flow = flows(board, disk, margin=_DISK_MARGIN, limit=limit * (1 - _RESERVED))
    if flow.give.sum() <= _DISK_MARGIN:
        return
    counts = Flow(np.zeros_like(flow.give), np.zeros_like(flow.give))
    if targets.weight[replicas] > 0:
        counts = flows(board, replicas, margin=_COUNT_MARGIN, limit=np.inf)
    partitions, slots = _choose_all(board, flow, counts.give)
    need = np.zeros_like(targets.low)
    need[:, disk], need[:, replicas] = flow.take, counts.take
    rate = targets.aim(Resource.BYTES_IN)
    if rate is not None:
        need[:, rate] = flows(board, rate, margin=_DISK_MARGIN, limit=np.inf).take
    place(board, partitions, slots, need)


def balance_counts(board: Board) -> None:
    """Even out the replica counts with the smallest replicas, as far as the rest of a cap on bytes allows.

    The fullest brokers come down together, to the lowest level that the smallest replicas can reach within the cap.
    """
    targets = board.targets
    replicas = targets.aim(Resource.REPLICAS)
    if replicas is None or board.spent():
        return
    whole = flows(board, replicas, margin=_COUNT_MARGIN, limit=np.inf)
    scale = float(targets.scale[replicas])
    held = {giver: _smallest_first(board, giver) for giver in np.flatnonzero(whole.give * scale >= 1).tolist()}
    below, above = 0.0, float(whole.give.sum())
    flow, best = whole, _first_ones(held, whole.give * scale)
    for _ in range(16):
        cost = float(sum(board.cluster.sizes[p].sum() for p, _ in best))
        fits = board.budget.allows(cost, sum(len(p) for p, _ in best))
        if fits and flow is whole:
            break
        below, above = (flow.give.sum(), above) if fits else (below, float(flow.give.sum()))
        flow = flows(board, replicas, margin=_COUNT_MARGIN, limit=(below + above) / 2)
        best = _first_ones(held, flow.give * scale)
    else:
        flow = flows(board, replicas, margin=_COUNT_MARGIN, limit=below)
        best = _first_ones(held, flow.give * scale)
    if best:
        need = np.zeros_like(targets.low)
        need[:, replicas] = flow.take
        partitions, slots = np.concatenate([p for p, _ in best]), np.concatenate([s for _, s in best])
        order = np.argsort(-board.cluster.sizes[partitions], kind="stable")
        place(board, partitions[order], slots[order], need, resource=Resource.REPLICAS)


def _first_ones(held: dict[int, tuple[Ints, Ints]], amounts: Floats) -> list[tuple[Ints, Ints]]:
    return [(p[: int(amounts[b])], s[: int(amounts[b])]) for b, (p, s) in held.items()]


def _smallest_first(board: Board, broker: int) -> tuple[Ints, Ints]:
    partitions, slots = board.held_by(broker)
    order = np.argsort(board.cluster.sizes[partitions], kind="stable")
    return partitions[order], slots[order]


def flows(board: Board, column: int, *, margin: float, limit: float) -> Flow:
    """Find the water levels of one resource.

    `margin` is how far inside the band to aim, `limit` how much may be moved in all; both are shares of the mean.
    """
    targets = board.targets
    load, share = board.loads[:, column], targets.share[:, column]
    low = np.minimum(targets.low[:, column] + margin, share)
    high = np.maximum(targets.high[:, column] - margin, share)
    takers, givers = targets.receivers, targets.members
    wanted = np.zeros(len(load))
    for group in distinct(targets.group[targets.members]):
        inside = targets.group == group
        under = np.maximum(low - load, 0)[inside & takers].sum()
        over = np.maximum(load - high, 0)[inside & givers].sum() if takers[inside].any() else 0.0
        room = np.maximum(high - load, 0)[inside & takers].sum()
        spare = np.maximum(load - low, 0)[inside & givers].sum()
        wanted[group] = min(max(under, over), room, spare)
    wanted = _within(board, column, wanted, limit)
    give, take = np.zeros(len(load)), np.zeros(len(load))
    for group in np.flatnonzero(wanted > 0):
        inside = targets.group == group
        top = _level(load, share, inside & givers, wanted[group], down=True)
        bottom = _level(load, share, inside & takers, wanted[group], down=False)
        give[inside & givers] = np.maximum(load - top * share, 0)[inside & givers]
        take[inside & takers] = np.maximum(bottom * share - load, 0)[inside & takers]
    both = np.minimum(give, take)
    return Flow(give - both, take - both)


def _within(board: Board, column: int, wanted: Floats, limit: float) -> Floats:
    """Share a limit out among the groups: first about in proportion, then the rest where it helps most.

    A group's last byte takes h - l off the sum of squares. Here h is the level that its givers have come down to, and l
    the level that its takers have come up to. By this rule alone, the emptiest brokers of a group could get almost
    nothing. So each group first gets enough to bring the highest h and the lowest l of all groups to where a
    proportional share would bring them.
    """
    if wanted.sum() <= limit:
        return wanted
    targets = board.targets
    load, share = board.loads[:, column], targets.share[:, column]
    groups = np.flatnonzero(wanted > 0)
    parts = np.linspace(0, 1, _STEPS + 1)
    tops, bottoms = np.empty((len(parts), len(groups))), np.empty((len(parts), len(groups)))
    for at, group in enumerate(groups.tolist()):
        inside = targets.group == group
        for step, amount in enumerate((parts * wanted[group]).tolist()):
            tops[step, at] = _level(load, share, inside & targets.members, amount, down=True)
            bottoms[step, at] = _level(load, share, inside & targets.receivers, amount, down=False)
    even = _SURE * limit / float(wanted.sum())
    each = range(len(groups))
    highest = max(float(np.interp(even, parts, tops[:, at])) for at in each)
    lowest = min(float(np.interp(even, parts, bottoms[:, at])) for at in each)
    floors = [
        max(float(np.interp(-highest, -tops[:, at], parts)), float(np.interp(lowest, bottoms[:, at], parts)))
        for at in each
    ]
    gaps = tops - bottoms
    below, above = 0.0, float(gaps.max())
    cut = np.zeros_like(wanted)
    for _ in range(60):
        middle = (below + above) / 2
        for at, group in enumerate(groups.tolist()):
            part = max(float(np.interp(-middle, -gaps[:, at], parts)), min(floors[at], even))
            cut[group] = part * wanted[group]
        if cut.sum() > limit:
            below = middle
        else:
            above = middle
    return cut * min(1.0, limit / max(float(cut.sum()), 1e-300))


def _level(load: Floats, share: Floats, who: Flags, amount: float, *, down: bool) -> float:
    """The level, as a share of the mean, that the fullest reach if `amount` leaves (or the emptiest if it arrives)."""
    load, share = load[who], share[who]
    ratio = load / np.maximum(share, 1e-12)
    order = np.argsort(-ratio if down else ratio, kind="stable")
    loads, shares = np.cumsum(load[order]), np.cumsum(share[order])
    # If the first k brokers take part, their common level is (their loads -+ amount) / their shares.
    levels = (loads - amount) / shares if down else (loads + amount) / shares
    return float(levels.max() if down else levels.min())


def _choose_all(board: Board, flow: Flow, counts: Floats) -> tuple[Ints, Ints]:
    """Choose the replicas that leave, on every broker that gives."""
    targets = board.targets
    disk, replicas = targets.resources.index(Resource.DISK), targets.resources.index(Resource.REPLICAS)
    scale = targets.scale[replicas]
    partitions: list[Ints] = []
    slots: list[Ints] = []
    allowed = _in_parts(board.budget.moves, flow.give)
    for giver in np.flatnonzero(flow.give > 0):
        held, places = board.held_by(int(giver))
        least = int(counts[giver] * scale)
        most = len(held)
        if targets.weight[replicas] > 0:
            kept = (targets.low[giver, replicas] + _COUNT_MARGIN / 2) * scale
            most = max(1, min(most, int(board.loads[giver, replicas] * scale - kept)))
        most = int(min(most, allowed[giver]))
        chosen = choose(targets.every[held, disk], float(flow.give[giver]), least=min(least, most), most=most)
        partitions.append(held[chosen])
        slots.append(places[chosen])
    if not partitions:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    every, places = np.concatenate(partitions), np.concatenate(slots)
    order = np.lexsort((every, -board.cluster.sizes[every]))
    return every[order], places[order]


def _in_parts(moves: float, amounts: Floats) -> Floats:
    """Share out a cap on moves by amounts: whole moves, all of them, however few they are."""
    if not np.isfinite(moves):
        return np.full(len(amounts), np.inf)
    exact = moves * amounts / amounts.sum()
    parts = np.floor(exact)
    parts[np.argsort(parts - exact, kind="stable")[: round(moves - parts.sum())]] += 1
    return np.asarray(parts)


def choose(sizes: Floats, amount: float, *, least: int, most: int) -> Ints:
    """Choose items that add up to `amount`, between `least` and `most` of them, spread over all sizes.

    Each item is taken with the share min(1, f * size ** g): g = 0 takes the same part of large and small, a negative
    g more of the small. f is solved for the sum, g for the number. Taking every item whose running total of shares
    passes a whole number keeps both within one item; the last step swaps single items to hit the sum.

    Returns:
        Ascending indexes into `sizes`.
    """
    if most <= 0 or amount <= 0 or not len(sizes):
        return np.zeros(0, dtype=np.int64)
    order = np.argsort(-sizes, kind="stable")
    falling = sizes[order]
    if most < len(sizes) and float(falling[:most].sum()) <= amount:
        return np.sort(order[:most])
    relative = np.maximum(falling / max(float(falling.mean()), 1e-300), 1e-9)
    parts = _parts(falling, relative, 0.0, amount)
    if not least <= parts.sum() <= most:
        wanted = least if parts.sum() < least else most
        below, above = -4.0, 4.0
        for _ in range(14):
            middle = (below + above) / 2
            parts = _parts(falling, relative, middle, amount)
            if parts.sum() > wanted:
                below = middle
            else:
                above = middle
        if parts.sum() > most:
            parts *= most / parts.sum()
    running = np.floor(np.cumsum(parts) + 0.5)
    taken = np.diff(running, prepend=0.0) > 0
    _hit(falling, taken, amount, most)
    return np.sort(order[taken])


def _parts(sizes: Floats, relative: Floats, tilt: float, amount: float) -> Floats:
    shape = relative**tilt
    below, above = 0.0, float(1 / shape.min())
    for _ in range(30):
        middle = (below + above) / 2
        if float(sizes @ np.minimum(middle * shape, 1.0)) < amount:
            below = middle
        else:
            above = middle
    return np.minimum(above * shape, 1.0)


def _hit(sizes: Floats, taken: Flags, amount: float, most: int) -> None:
    """Add, drop or exchange single items while that brings the sum nearer to `amount`."""
    error = amount - float(sizes[taken].sum())
    for _ in range(6):
        inside, outside = np.flatnonzero(taken), np.flatnonzero(~taken)
        pool = inside if error < 0 else outside
        if not len(pool) or (error > 0 and len(inside) >= most):
            return
        nearest = pool[int(np.argmin(np.abs(sizes[pool] - abs(error))))]
        after = abs(error) - float(sizes[nearest])
        if abs(after) >= abs(error):
            return
        taken[nearest] = error > 0
        error = after if error > 0 else -after


def place(
    board: Board,
    partitions: Ints,
    slots: Ints,
    need: Floats,
    *,
    must: bool = False,
    why: Why = Why.OVER,
    resource: Resource = Resource.DISK,
) -> Ints:
    """Give each replica a broker, in the given order: the broker whose need resembles the replica's weight most.

    To maximise need · weight is the steepest descent of the squared distance to the targets: large replicas go to
    brokers that lack bytes, small ones to brokers that lack replicas. Among similar brokers, one with fewer replicas of
    the topic is chosen.

    `need` (B, K) is what each broker lacks, in shares of the mean; it is changed in place. With `must` a replica is
    also placed on a broker that needs nothing, because a drained replica has to go somewhere.

    Returns:
        Positions in `partitions` of the replicas that found no broker.
    """
    targets, cluster = board.targets, board.cluster
    weigh = np.array(
        [_PULL.get(r, 0.0) if w > 0 else 0.0 for r, w in zip(targets.resources, targets.weight, strict=True)]
    )
    held = board.topic_held
    crowd = 0.0
    left: list[int] = []
    topics: list[int] = cluster.topic_of[partitions].tolist()
    for position, (partition, slot) in enumerate(zip(partitions.tolist(), slots.tolist(), strict=True)):
        if position % _NEED_RENEWED == 0:
            crowd = 0.03 * float(np.maximum(need[targets.receivers], 0).mean())
        added = board.weight_of(partition, slot)
        weight = added * weigh
        opened = board.openings(partition, slot)
        score = need @ weight
        score += opened
        if held is not None:
            score -= (crowd * float(weight.sum())) * held[topics[position]]
        if board.limited:
            score[board.too_much(added)] = -np.inf
        best = board.best(score)
        fits = score[best] > -np.inf and (must or float(need[best] @ weight) > 0.5 * float(added @ weight))
        if not fits or not (must or board.affords_one(partition, slot)):
            left.append(position)
            continue
        _put(board, need, (partition, slot), best, added, (why, resource))
    board.rebuild()
    return np.array(left, dtype=np.int64)


def _put(
    board: Board, need: Floats, what: tuple[int, int], to: int, added: Floats, reason: tuple[Why, Resource]
) -> None:
    """Move a replica without updating `loads`, which `place` adds up anew at its end."""
    partition, slot = what
    here = int(board.replicas[partition, slot])
    board.replicas[partition, slot] = to
    board.fitness[partition, slot] = board.fitness_at(partition, to)
    board.why[partition, slot] = reason[0]
    board.why_resource[partition, slot] = int(reason[1])
    board.pay(partition, here, to)
    need[to] -= added
    if board.limited:
        board.incoming[to] += added
        if here != ABSENT:
            board.incoming[here] -= added * (1 - board.kept)
    if board.topic_held is not None:
        topic = int(board.cluster.topic_of[partition])
        board.topic_held[topic, to] += 1
        if here != ABSENT:
            board.topic_held[topic, here] -= 1
