"""Improves a plan after the bulk moves, by single moves and swaps that each lower the sum of all violations.

Aims are taken in their order, brokers from the worst on. A move is made only if the weighted violation of ALL aims
falls. So a later aim never undoes an earlier one by more than it gains.
"""

from __future__ import annotations

import numpy as np

from shunter.core.planning.board import Board, Why
from shunter.core.planning.cluster import ABSENT, Floats, Ints, Resource, distinct

_ROUNDS = 8
_TRIES = 300
"""Candidates that are tried in vain before a broker is given up for this round."""
_PULLS_IN_VAIN = 30
_FITS = 1.02
"""A replica fits an excess if it is no larger than the excess times this factor."""
_LARGER_TRIED = 30
_TAKEN_BACK = 3_000
"""Moves that are checked, the largest first, for whether they are still needed."""
_NOTHING = 1e-14
_SWAP_WIDTH = 48
"""Replicas of each side that are paired to find a swap."""
_SWAP_BROKERS = 12
_SWAPS = 40
_SWAPS_SOUGHT = 200
"""The most searches for a swap for one resource in a round: each search looks at thousands of pairs."""
_WORTH_A_ROUND = 0.98
_WORTH_A_SWAP = 0.02
"""A swap takes at least this part of its broker's violation away."""
_LEAST_GAIN = 1e-10


def repair(board: Board, resources: tuple[Resource, ...]) -> None:
    """Bring the brokers into the bands of these resources, as far as single moves and swaps can."""
    columns = [c for r in resources if (c := board.targets.aim(r)) is not None]
    for _ in range(_ROUNDS):
        before = board.total_violation()
        if before <= _LEAST_GAIN or board.spent():
            return
        for column in columns:
            _relieve_all(board, column)
            _fill_all(board, column)
        if board.total_violation() > _LEAST_GAIN:
            for column in columns:
                _swap_all(board, column)
            for column in columns:
                _fill_with_larger(board, column)
        after = board.total_violation()
        if after <= _LEAST_GAIN or after > before * _WORTH_A_ROUND:
            return


def _outside(board: Board, column: int, *, over: bool) -> list[int]:
    """Brokers outside one band, the worst first."""
    targets = board.targets
    load = board.loads[:, column]
    amount = load - targets.high[:, column] if over else targets.low[:, column] - load
    amount = np.where(targets.members, amount, 0.0)
    order = np.argsort(-amount, kind="stable")
    found: list[int] = order[amount[order] > _LEAST_GAIN].tolist()
    return found


def _relieve_all(board: Board, column: int) -> None:
    for broker in _outside(board, column, over=True):
        _shed(board, broker, column, float(board.loads[broker, column] - board.targets.high[broker, column]))


def _fill_all(board: Board, column: int) -> None:
    targets = board.targets
    for broker in _outside(board, column, over=False):
        if not targets.receivers[broker]:
            continue
        only, spare = _only(board, broker), _spare(board, broker, column)
        for giver in np.argsort(-spare, kind="stable").tolist():
            lack = float(targets.low[broker, column] - board.loads[broker, column])
            if lack <= _LEAST_GAIN or spare[giver] <= 0 or board.spent():
                break
            # Take a part from each of the fullest brokers, not everything from one.
            part = min(lack, max(float(spare[giver]) / 2, lack / 4))
            _pull(board, giver, broker, column, part, only)


def _only(board: Board, broker: int) -> Floats:
    """(B,) 0 for one broker, -inf for all others."""
    only = np.full(len(board.violation), -np.inf)
    only[broker] = 0.0
    return only


def _spare(board: Board, broker: int, column: int) -> Floats:
    """(B,) how much each other broker has above its own lower bound."""
    targets = board.targets
    spare = np.where(targets.members, board.loads[:, column] - targets.low[:, column], 0.0)
    spare[broker] = 0.0
    return spare


def _fill_with_larger(board: Board, column: int) -> None:
    """Fill brokers that neither a fitting replica nor a swap has filled, with the smallest replica that helps."""
    for broker in _outside(board, column, over=False):
        if not board.targets.receivers[broker]:
            continue
        only, spare = _only(board, broker), _spare(board, broker, column)
        for giver in np.argsort(-spare, kind="stable")[:_SWAP_BROKERS].tolist():
            if spare[giver] <= 0 or board.spent() or _pull_smallest(board, giver, broker, column, only):
                break


def _pull_smallest(board: Board, giver: int, broker: int, column: int, only: Floats) -> bool:
    """Move the smallest replica whose move to another broker lowers the violation; False if there is none."""
    partitions, slots, weight = _pullable(board, giver, broker, column)
    smallest = np.argsort(weight, kind="stable")[:_LARGER_TRIED].tolist()
    return any(
        _move_one(board, int(partitions[candidate]), int(slots[candidate]), giver, column, only, Why.UNDER)
        for candidate in smallest
    )


def _pullable(board: Board, giver: int, broker: int, column: int) -> tuple[Ints, Ints, Floats]:
    """Partitions, slots and weights (n,) of replicas that may go from one broker to another, and help."""
    partitions, slots = board.held_by(giver)
    weights = board.weights_of(partitions, slots)
    helps = board.fall(giver, -weights) + board.fall(broker, weights) > _LEAST_GAIN
    helps &= (weights[:, column] > 0) & board.affords(partitions, slots)
    partitions, slots, weights = partitions[helps], slots[helps], weights[helps]
    may = board.may_go(partitions, slots, broker)
    return partitions[may], slots[may], weights[may, column]


def _pull(board: Board, giver: int, broker: int, column: int, amount: float, only: Floats) -> None:
    """Move about `amount` from one broker to another; all candidates are weighed at once before any is tried."""
    partitions, slots, weight = _pullable(board, giver, broker, column)
    failures = 0
    for candidate in _in_order(board, column, partitions, weight, amount) or _smallest(weight):
        if amount <= _LEAST_GAIN or failures > _PULLS_IN_VAIN:
            return
        if weight[candidate] > amount * _FITS and board.targets.resources[column] is Resource.DISK and len(weight) > 1:
            continue
        if _move_one(board, int(partitions[candidate]), int(slots[candidate]), giver, column, only, Why.UNDER):
            amount -= float(weight[candidate])
        else:
            failures += 1


def _smallest(weight: Floats) -> list[int]:
    return [int(weight.argmin())] if len(weight) else []


def _shed(board: Board, broker: int, column: int, amount: float) -> None:
    """Move about `amount` of one resource away from a broker."""
    anywhere = np.zeros(len(board.violation))
    partitions, slots = board.held_by(broker)
    weight = board.weights_of(partitions, slots)[:, column]
    some = (weight > 0) & board.affords(partitions, slots)
    partitions, slots, weight = partitions[some], slots[some], weight[some]
    left = amount
    failures = 0
    for candidate in _in_order(board, column, partitions, weight, amount):
        if left <= _LEAST_GAIN or failures > _TRIES:
            break
        size = float(weight[candidate])
        if size > left * _FITS and board.targets.resources[column] is Resource.DISK:
            continue
        if _move_one(board, int(partitions[candidate]), int(slots[candidate]), broker, column, anywhere, Why.OVER):
            left -= size
        else:
            failures += 1
    if left > _LEAST_GAIN:
        # No replica that fits is left, so try the smallest of those that are more than enough.
        enough = np.flatnonzero((weight > left) & (board.replicas[partitions, slots] == broker))
        for candidate in enough[np.argsort(weight[enough], kind="stable")][:_LARGER_TRIED].tolist():
            if _move_one(board, int(partitions[candidate]), int(slots[candidate]), broker, column, anywhere, Why.OVER):
                return


def _in_order(board: Board, column: int, partitions: Ints, weight: Floats, amount: float) -> list[int]:
    """Candidates in the order in which they are tried: for disk the largest first, else the cheapest per unit first."""
    if board.targets.resources[column] is Resource.DISK:
        fitting = np.flatnonzero(weight <= amount * _FITS)
        falling: list[int] = fitting[np.argsort(-weight[fitting], kind="stable")].tolist()
        return falling
    sizes = board.cluster.sizes[partitions]
    too_much = np.where(weight > amount * 2 + 1e-12, 1, 0)
    order: list[int] = np.lexsort((sizes / weight, too_much)).tolist()
    return order


def _move_one(board: Board, partition: int, slot: int, broker: int, column: int, opened: Floats, why: Why) -> bool:
    if not board.affords_one(partition, slot):
        return False
    to = _best(board, partition, slot, broker, opened)
    if to >= 0:
        board.move(partition, slot, to, why, board.targets.resources[column])
    return to >= 0


def _best(board: Board, partition: int, slot: int, broker: int, opened: Floats) -> int:
    """The receiver with the largest gain; -1 when no move lowers the violation."""
    weight = board.weight_of(partition, slot)
    gain = board.gains(weight, board.openings(partition, slot) + opened)
    loss = board.loss(broker, weight)
    best = board.best(np.where(gain + loss > _LEAST_GAIN, gain, -np.inf))
    return best if float(gain[best]) + loss > _LEAST_GAIN else -1


def _swap_all(board: Board, column: int) -> None:
    sought = 0
    for over in (True, False):
        for broker in _outside(board, column, over=over):
            for _ in range(_SWAPS):
                sought += 1
                if sought > _SWAPS_SOUGHT:
                    return
                if not _swap(board, broker, column, over=over):
                    break


def _swap(board: Board, broker: int, column: int, *, over: bool) -> bool:
    """Exchange a replica of this broker for another broker's, by the best pair that is found; False if none helps."""
    targets = board.targets
    load = board.loads[:, column]
    excess = load[broker] - targets.high[broker, column] if over else load[broker] - targets.low[broker, column]
    if abs(excess) <= _LEAST_GAIN or board.spent():
        return False
    partners = np.argsort((load - targets.share[:, column]) * (1 if over else -1), kind="stable")
    ours = _sample(board, broker, column, float(excess), over)
    best: tuple[float, tuple[int, int, int, int, int]] | None = None
    able = targets.receivers & ~targets.slow
    for partner in partners[able[partners]][:_SWAP_BROKERS].tolist():
        if partner == broker or not able[broker]:
            continue
        found = _best_pair(board, broker, partner, ours, _sample(board, partner, column, float(-excess), not over))
        if found is not None and (best is None or found[0] > best[0]):
            best = found
    if best is None:
        return False
    _, (partner, partition, slot, other, place) = best
    board.move(partition, slot, partner, Why.SWAPPED, targets.resources[column])
    board.move(other, place, broker, Why.SWAPPED, targets.resources[column])
    return True


def _sample(board: Board, broker: int, column: int, excess: float, over: bool) -> tuple[Ints, Ints]:
    """Replicas to pair: near the excess on the side that has too much, else the smallest, and some of all sizes."""
    partitions, slots = board.held_by(broker)
    weight = board.weights_of(partitions, slots)[:, column]
    distance = np.abs(weight - abs(excess)) if over else weight
    near = np.argsort(distance, kind="stable")[:_SWAP_WIDTH]
    spread = np.argsort(weight, kind="stable")[:: max(1, len(weight) // _SWAP_WIDTH)]
    chosen = distinct(np.concatenate([near, spread]))
    return partitions[chosen], slots[chosen]


def _best_pair(
    board: Board, broker: int, partner: int, ours: tuple[Ints, Ints], theirs: tuple[Ints, Ints]
) -> tuple[float, tuple[int, int, int, int, int]] | None:
    targets, sizes = board.targets, board.cluster.sizes
    can_go, can_come = board.may_go(*ours, partner), board.may_go(*theirs, broker)
    mine, my_slots = ours[0][can_go], ours[1][can_go]
    other, other_slots = theirs[0][can_come], theirs[1][can_come]
    if not len(mine) or not len(other):
        return None
    going, coming = board.weights_of(mine, my_slots), board.weights_of(other, other_slots)
    change = coming[None, :, :] - going[:, None, :]
    gain = np.full(change.shape[:2], board.violation[broker] + board.violation[partner])
    for who, net, arriving in ((broker, change, coming[None, :, :]), (partner, -change, going[:, None, :])):
        gain -= board.violation_with(who, board.loads[who] + net)
        if board.limited:
            worst = board.incoming[who] + np.where(board.kept > 0, arriving, net)
            gain[((worst > targets.hard[who] + 1e-12) & (worst > board.incoming[who])).any(axis=2)] = -np.inf
            gain[np.broadcast_to(arriving[:, :, 0] > targets.largest[who] + 1e-12, gain.shape)] = -np.inf
    gain[mine[:, None] == other[None, :]] = -np.inf
    cost = sizes[mine][:, None] + sizes[other][None, :]
    ours_paid, theirs_paid = board.costs(mine, my_slots), board.costs(other, other_slots)
    paid = (sizes[mine] * ours_paid)[:, None] + (sizes[other] * theirs_paid)[None, :]
    copies = ours_paid.astype(np.int64)[:, None] + theirs_paid[None, :]
    gain[(paid > board.budget.size) | (copies > board.budget.moves)] = -np.inf
    # Among swaps that help equally, prefer the one with fewer bytes.
    value = gain - 1e-3 * cost / targets.scale[targets.resources.index(Resource.DISK)] * (gain > 0)
    row, at = np.unravel_index(int(value.argmax()), value.shape)
    if value[row, at] <= max(_LEAST_GAIN, _WORTH_A_SWAP * float(board.violation[broker])):
        return None
    return float(value[row, at]), (partner, int(mine[row]), int(my_slots[row]), int(other[at]), int(other_slots[at]))


def take_back(board: Board) -> None:
    """Put replicas back whose move turned out not to be needed, the largest first; this saves their bytes."""
    start, now = board.start, board.replicas
    moved = (now != start) & (now != ABSENT) & ~(now[:, :, None] == start[:, None, :]).any(axis=2)
    rows, slots = np.nonzero(moved)
    order = np.argsort(-board.cluster.sizes[rows], kind="stable")[:_TAKEN_BACK]
    for partition, slot in zip(rows[order].tolist(), slots[order].tolist(), strict=True):
        row: list[int] = now[partition].tolist()
        here, weight = row[slot], board.weight_of(partition, slot)
        homes = [home for home in start[partition].tolist() if home != ABSENT and home not in row]
        # In a later pass the cluster itself may have it here: then it is the way back that costs a copy.
        homes = homes if board.affords_one(partition, slot) else []
        spared = [(float(board.fall(here, -weight) + board.fall(home, weight)), -home) for home in homes]
        if not spared or max(spared)[0] < -_NOTHING:
            continue
        board.go_home(partition, slot, -max(spared)[1])


def spread_topics(board: Board) -> None:
    """Spread each topic over the brokers, as the last aim, as far as no band suffers from it.

    No broker keeps more than the topic's share, rounded up, plus one: an exact spread would cost many bytes.
    """
    held, targets = board.topic_held, board.targets
    if held is None:
        return
    fair = _fair(board, held)
    topic_of = board.cluster.topic_of
    for topic, broker in np.argwhere((held > fair[:, None]) & targets.members[None, :]).tolist():
        partitions, slots = np.nonzero(board.replicas[topic_of == topic] == broker)
        partitions = np.flatnonzero(topic_of == topic)[partitions]
        order = np.argsort(board.cluster.sizes[partitions], kind="stable")
        for at in order.tolist():
            if held[topic, broker] <= fair[topic]:
                break
            _spread_one(board, int(partitions[at]), int(slots[at]), topic, broker, int(fair[topic]))


def crowded_topics(board: Board) -> int:
    """Count the replicas that are on brokers with more of their topic than its spread allows."""
    held = board.topic_held
    if held is None:
        return 0
    return int(np.maximum(held - _fair(board, held)[:, None], 0)[:, board.targets.members].sum())


def _fair(board: Board, held: Ints) -> Floats:
    return np.asarray(np.ceil(held.sum(axis=1) / max(1, int(board.targets.members.sum()))) + 1)


def _spread_one(board: Board, partition: int, slot: int, topic: int, broker: int, fair: int) -> None:
    held = board.topic_held
    if held is None or not board.movable[partition] or not board.affords_one(partition, slot):
        return
    weight = board.weight_of(partition, slot)
    gain = board.gains(weight, board.openings(partition, slot)) + np.where(held[topic] < fair, 0.0, -np.inf)
    best = int(gain.argmax())
    after = board.loss(broker, weight) + float(gain[best])
    if np.isfinite(gain[best]) and after > -_LEAST_GAIN and board.replicas[partition, slot] != ABSENT:
        board.move(partition, slot, best, Why.TOPIC)
