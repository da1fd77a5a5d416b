"""Wishes about brokers and topics, whatever the balance: brokers that lead nothing, and places of topics' replicas."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from shunter.core.planning.board import Board, Why
from shunter.core.planning.cluster import ABSENT, UNKNOWN, Flags, Resource
from shunter.core.planning.facts import LEADS_FROM
from shunter.core.planning.moves import Undone
from shunter.core.planning.request import SPENT, PlanRefused
from shunter.core.wording import counted, told_brokers
from shunter.model.inventory import TopicWish


def picked_wishes(
    items: Collection[str], brokers: tuple[int, ...], known: Collection[tuple[str, int]]
) -> tuple[TopicWish, ...]:
    """Wishes for topics and partitions that were picked by hand: their replicas go to these brokers.

    Args:
        items: `orders`, a whole topic, or `orders-3`, a partition.
        brokers: Those that may hold the replicas.
        known: The cluster's partitions.

    Raises:
        PlanRefused: there is no such topic and no such partition.
    """
    topics = {topic for topic, _number in known}
    picked: dict[str, set[int]] = {}
    whole: set[str] = set()
    for item in items:
        topic, _, number = item.rpartition("-")
        if item in topics:  # A topic may have the name that a partition of another topic has.
            whole.add(item)
        elif number.isdecimal() and (topic, int(number[:10])) in known:
            picked.setdefault(topic, set()).add(int(number))
        else:
            raise PlanRefused(f"move: there is no topic and no partition {item!r}")
    parts = {**{topic: tuple(sorted(numbers)) for topic, numbers in picked.items()}, **dict.fromkeys(whole, ())}
    return tuple(TopicWish(topic, brokers=brokers, partitions=parts[topic]) for topic in sorted(parts))


def demote(board: Board, brokers: tuple[int, ...]) -> list[Undone]:
    """Put brokers at the end of each partition that they lead; the follower with the fewest leaders comes first."""
    cluster = board.cluster
    known = np.array(cluster.brokers)
    demoted: Flags = np.isin(known, brokers)
    leads = np.bincount(board.replicas[:, 0], minlength=len(known))
    # Who would lead after a restart, whoever comes first on paper, and who leads now.
    concerned = demoted[board.replicas[:, 0]] | demoted[cluster.replicas[:, 0]]
    if cluster.leader is not None:
        concerned |= (cluster.leader >= 0) & demoted[cluster.leader]
    silent = {at for at, each in enumerate(cluster.facts) if each.silent}
    undone: list[Undone] = []
    for partition in np.flatnonzero(concerned).tolist():
        row: list[int] = [broker for broker in cluster.replicas[partition].tolist() if broker != ABSENT]
        others = [broker for broker in row if not demoted[broker]]
        asked = [broker for broker in others if broker not in silent]
        able = [each for each in asked if board.may_lead(partition, board.replicas[partition].tolist().index(each))]
        first = int(cluster.replicas[partition, 0])
        if _left_beside(board, partition) and first in able and first == board.replicas[partition, 0]:
            continue  # To elect the first one is enough.
        if not board.movable[partition] or not able:
            undone.append(_still_led(board, partition, demoted, others))
            continue
        here = int(board.replicas[partition, 0])
        barred = board.targets.barred
        well = [each for each in able if each not in barred] or able  # It may lead, but another one is a better place.
        first = here if here in able else min(well, key=lambda each: (int(leads[each]), others.index(each)))
        leads[here] -= 1
        leads[first] += 1
        behind = [broker for broker in others if broker != first] + [broker for broker in row if demoted[broker]]
        board.reorder(partition, [first, *behind])
    board.rebuild()
    return undone


def _still_led(board: Board, partition: int, demoted: Flags, others: list[int]) -> Undone:
    cluster = board.cluster
    leader = UNKNOWN if cluster.leader is None else int(cluster.leader[partition])
    here = int(board.replicas[partition, 0])
    if board.targets.lost[partition] or (leader >= 0 and not demoted[leader]):
        here = int(cluster.replicas[partition, 0])
        return Undone(
            f"{cluster.partition_name(partition)} keeps broker {cluster.brokers[here]} first"
            if demoted[here]
            else f"{cluster.partition_name(partition)} stays as it is",
            why_fixed(board, partition),
        )
    led_by = leader if leader >= 0 and demoted[leader] else here
    led = "is still led" if cluster.leader is None or led_by == leader else "would be led"
    what = f"{cluster.partition_name(partition)} {led} by broker {cluster.brokers[led_by]}"
    if not board.movable[partition]:
        return Undone(what, why_fixed(board, partition))
    if not others:
        return Undone(what, "all its replicas are on brokers that shall lead nothing")
    names = ", ".join(str(cluster.brokers[each]) for each in others)
    return Undone(what, f"no other replica can lead now: those on {names} are offline, out of sync or silent")


def why_fixed(board: Board, partition: int) -> str:
    """Why nothing of a partition may change. Pre: it is not movable."""
    if board.targets.lost[partition]:
        return "no live replica in sync has its data"
    found = [kind for kind, rows in board.targets.beside.items() if rows[partition]]
    return f"it has {found[0].replica}, and {found[0].why}" if found else "its topic is excluded"


def _left_beside(board: Board, partition: int) -> bool:
    return any(rows[partition] for rows in board.targets.beside.values())


def grant_wishes(board: Board, wishes: tuple[TopicWish, ...]) -> list[Undone]:
    """Bring topics to the racks and brokers that are wanted, and to the wanted number of replicas.

    Raises:
        PlanRefused: a wish contradicts itself or the cluster.
    """
    undone: list[Undone] = []
    for wish in wishes:
        wanted = _wanted(board, wish)
        topic = board.cluster.topics.index(wish.topic)
        meant = board.cluster.topic_of == topic
        if wish.partitions:
            meant &= np.isin(board.cluster.numbers, wish.partitions)
        for partition in np.flatnonzero(meant).tolist():
            if not board.movable[partition]:
                held = board.replicas[partition][: board.factors[partition]]
                if not wanted[held].all() or board.factors[partition] != (wish.replication or len(held)):
                    what = f"{board.cluster.partition_name(partition)} stays"
                    undone.append(Undone(what, why_fixed(board, partition)))
                continue
            undone += _grant(board, wish, partition, wanted)
    board.rebuild()
    return undone


def _wanted(board: Board, wish: TopicWish) -> Flags:
    """(B,) brokers on which the topic's replicas may stay; of them, those that may receive any also get more."""
    cluster = board.cluster
    unknown = sorted(set(wish.racks) - set(cluster.racks))
    if unknown:
        raise PlanRefused(
            f"topic {wish.topic}: no broker is in rack {unknown[0]!r}; racks are {', '.join(cluster.racks)}"
        )
    wanted = board.targets.receivers.copy()
    wanted[list(board.targets.barred)] = True
    if wish.racks:
        wanted &= np.isin(np.array(cluster.racks)[cluster.rack_of], wish.racks)
    if wish.brokers:
        wanted &= np.isin(np.array(cluster.brokers), wish.brokers)
    if wish.replication > int(wanted.sum()):
        raise PlanRefused(
            f"topic {wish.topic}: {counted(wish.replication, 'replica needs', 'replicas need')} as many brokers, and {int(wanted.sum())} may hold them"
        )
    return wanted


def _grant(board: Board, wish: TopicWish, partition: int, places: Flags) -> list[Undone]:
    """Change one partition: drop surplus replicas, then move those that are in a wrong place, then add missing ones."""
    cluster, name = board.cluster, board.cluster.partition_name(partition)
    wanted = wish.replication or board.factors[partition]
    if refused := too_few(board, partition, wanted):
        return refused
    undone = cut(board, partition, wanted, places)
    for slot in range(board.factors[partition]):
        here = int(board.replicas[partition, slot])
        if board.targets.excluded[here] and not places[here]:
            undone.append(Undone(f"{name} stays on broker {cluster.brokers[here]}", "the broker is excluded"))
        elif not places[here] and not _settle(board, partition, slot, Why.WANTED, places):
            undone.append(Undone(f"{name} stays on broker {cluster.brokers[here]}", _why_not(board, partition, places)))
    return undone + grow(board, partition, wanted, Why.WANTED, places)


def too_few(board: Board, partition: int, wanted: int) -> list[Undone]:
    """That a cut would leave fewer replicas than min.insync.replicas; []: it would not."""
    least = 1 if board.cluster.min_isr is None else int(board.cluster.min_isr[partition])
    if wanted >= min(least, board.factors[partition]):
        return []
    what = f"{board.cluster.partition_name(partition)} keeps its replicas"
    return [Undone(what, f"min.insync.replicas is {least}: writers would be refused; lower it first")]


def cut(board: Board, partition: int, wanted: int, places: Flags | None = None) -> list[Undone]:
    """Drop replicas until as many are left as wanted; `places`: see `_drop_worst`."""
    while board.factors[partition] > wanted:
        if not _drop_worst(board, partition, places):
            return [_stays_at(board, partition, "what may go is on excluded brokers, which no replica leaves")]
    return []


def grow(board: Board, partition: int, wanted: int, why: Why, allowed: Flags | None = None) -> list[Undone]:
    """Add replicas until there are as many as wanted; `allowed`: see `no_place`."""
    while board.factors[partition] < wanted:
        slot = board.factors[partition]
        board.factors[partition] += 1
        if not _settle(board, partition, slot, why, allowed):
            board.factors[partition] -= 1
            return [_stays_at(board, partition, _why_not(board, partition, allowed))]
    return []


def _stays_at(board: Board, partition: int, why: str) -> Undone:
    name, left = board.cluster.partition_name(partition), counted(int(board.factors[partition]), "replica")
    return Undone(f"{name} stays at {left}", why)


def _settle(board: Board, partition: int, slot: int, why: Why, allowed: Flags | None) -> bool:
    """Put a replica on the best broker that it may be on; returns whether there is one."""
    if not board.budget.allows(float(board.cluster.sizes[partition])):
        return False
    opened = board.openings(partition, slot)
    if allowed is not None:
        opened = np.where(allowed, opened, -np.inf)
        if not np.isfinite(opened).any():
            # Fewer racks are wanted than the spread needs. Then replicas share the wanted racks.
            taken = [broker for broker in board.replicas[partition].tolist() if broker != ABSENT]
            opened = np.where(allowed, board.shut, -np.inf)
            opened[[*taken, *board.ill_at(partition)]] = -np.inf
    gain = board.gains(board.weight_of(partition, slot), opened)
    best = board.best(gain)
    if not np.isfinite(gain[best]):
        return False
    board.move(partition, slot, best, why)
    return True


def _drop_worst(board: Board, partition: int, places: Flags | None) -> bool:
    """Drop a replica; returns whether one may be dropped.

    The first choice is one that is offline, then one that is out of sync, then one on a cordoned broker, then one on a
    broker with a failed log dir, then one on a slow broker. So as many stay in sync as can. Among the rest it is a follower: one in a wrong place,
    else one in the rack with most of this partition's replicas, else on the fullest broker. If the first replica is
    dropped, another one that can lead takes its place. Replicas on excluded brokers stay.
    """
    goal, row = board.targets, board.replicas[partition].tolist()
    slots = [slot for slot in range(len(row)) if row[slot] != ABSENT]
    able = [board.may_lead(partition, slot) for slot in slots]
    # A replica that can lead goes only if all of them can: else one that can't lead would outlive it.
    droppable = [slot for slot in slots if not goal.excluded[row[slot]] and (all(able) or not able[slot])]
    if not droppable:
        return False
    held = np.bincount([int(goal.rules.rack_of[row[slot]]) for slot in slots], minlength=len(board.cluster.racks))
    disk = goal.column(Resource.DISK) or 0
    fitness = [min(int(board.fitness[partition, slot]), LEADS_FROM) for slot in slots]
    worst = max(
        droppable,
        key=lambda s: (
            -fitness[s],
            bool(goal.closed[row[s]]),
            row[s] in goal.barred,
            bool(goal.slow[row[s]]),
            s > 0,
            places is not None and not places[row[s]],
            int(held[goal.rules.rack_of[row[s]]]),
            float(board.loads[row[s], disk]),
            s,
        ),
    )
    if worst == 0:
        worst = min(slots[1:], key=lambda s: (-fitness[s], row[s] in goal.barred, bool(goal.slow[row[s]]), s))
        board.lead(partition, worst, Resource.LEADERS)
    board.drop(partition, worst)
    return True


def _why_not(board: Board, partition: int, allowed: Flags | None) -> str:
    """Why no broker gets another replica of a partition; `allowed`: see `no_place`."""
    if not board.budget.allows(float(board.cluster.sizes[partition])):
        return SPENT
    return no_place(board, partition, allowed)


def no_place(board: Board, partition: int, allowed: Flags | None = None) -> str:
    """Why no broker may take another replica of a partition: what rules out each broker that has none.

    Args:
        board: With the partition as it stays.
        partition: Its index.
        allowed: (B,) the brokers that a wish names; None: all.
    """
    goal, known = board.targets, np.array(board.cluster.brokers)
    rest = np.ones(len(known), np.bool_)
    rest[[broker for broker in board.replicas[partition].tolist() if broker != ABSENT]] = False
    told: list[str] = []

    def rule_out(which: Flags, one: str, several: str) -> None:
        """Tell why these of the rest can't take it."""
        out = known[rest & which].tolist()
        rest[which] = False
        if out:
            told.append(f"{told_brokers(out)} {one if len(out) == 1 else several}")

    if allowed is not None:
        rule_out(~allowed, "is not among those wanted", "are not among those wanted")
    for at, why in sorted(goal.barred.items()):
        rule_out(np.arange(len(known)) == at, why, why)
    ill = np.isin(np.arange(len(known)), board.ill_at(partition))
    rule_out(ill, "has a replica of it that is offline or out of sync", "have replicas of it that are out of sync")
    rule_out(goal.excluded, "is excluded", "are excluded")
    rule_out(goal.slow & ~goal.receivers, "is held by somebody's throttle", "are held by somebody's throttle")
    rule_out(~goal.receivers, "gets nothing by this scope", "get nothing by this scope")
    told += _without_room(board, partition, rest)
    rule_out(rest, "is kept free by the spread over racks", "are kept free by the spread over racks")
    return f"no other broker may take it: {'; '.join(told)}" if told else "every broker has a replica of it"


def _without_room(board: Board, partition: int, rest: Flags) -> Iterator[str]:
    """Tell which of `rest` (B,) have too little room, with the roomiest one's, and take them out of it."""
    goal, size = board.targets, float(board.targets.every[partition, 0])
    full = rest & board.too_much(goal.every[partition])
    rest[full] = False
    if not full.any():
        return
    known, many = np.array(board.cluster.brokers), int(full.sum()) > 1
    told = f"{told_brokers(known[full].tolist())} {'have' if many else 'has'} too little room less the headroom (headroom-percent)"
    room = np.where(full, np.minimum(goal.hard[:, 0] - board.incoming[:, 0], goal.largest), -np.inf)
    best = int(room.argmax())
    if size <= 0 or room[best] >= size:
        yield f"{told}, or by max replicas"
    else:
        yield f"{told}; the roomiest, broker {known[best]}, has room for {max(0.0, room[best] / size):.0%} of it"
