"""Wishes about brokers and topics, whatever the balance: brokers that lead nothing, and places of topics' replicas."""

from __future__ import annotations

import numpy as np

from shunter.core.planning.board import Board, Why
from shunter.core.planning.cluster import ABSENT, Flags, Resource
from shunter.core.planning.moves import Undone
from shunter.core.planning.request import PlanRefused
from shunter.core.wording import counted
from shunter.model.inventory import TopicWish


def demote(board: Board, brokers: tuple[int, ...]) -> list[Undone]:
    """Put brokers at the end of each partition that they lead; the follower with the fewest leaders comes first."""
    known = np.array(board.cluster.brokers)
    demoted: Flags = np.isin(known, brokers)
    leads = np.bincount(board.replicas[:, 0], minlength=len(known))
    undone: list[Undone] = []
    for partition in np.flatnonzero(demoted[board.replicas[:, 0]]).tolist():
        row: list[int] = [broker for broker in board.replicas[partition].tolist() if broker != ABSENT]
        others = [broker for broker in row if not demoted[broker]]
        if not board.movable[partition] or not others:
            why = "its topic is excluded" if others else "all its replicas are on brokers that shall lead nothing"
            led = f"{board.cluster.partition_name(partition)} is still led by broker {known[row[0]]}"
            undone.append(Undone(led, why))
            continue
        first = min(others, key=lambda broker: (int(leads[broker]), others.index(broker)))
        leads[row[0]] -= 1
        leads[first] += 1
        behind = [broker for broker in others if broker != first] + [broker for broker in row if demoted[broker]]
        board.replicas[partition, : len(row)] = [first, *behind]
        board.why_order[partition] = int(Resource.LEADERS)
    board.rebuild()
    return undone


def grant_wishes(board: Board, wishes: tuple[TopicWish, ...]) -> list[Undone]:
    """Bring topics to the racks and brokers that are wanted, and to the wanted number of replicas.

    Raises:
        PlanRefused: a wish contradicts itself or the cluster.
    """
    undone: list[Undone] = []
    for wish in wishes:
        allowed = _allowed(board, wish)
        topic = board.cluster.topics.index(wish.topic)
        for partition in np.flatnonzero(board.cluster.topic_of == topic).tolist():
            if not board.movable[partition]:
                undone.append(Undone(f"{board.cluster.partition_name(partition)} stays", "its topic is excluded"))
                continue
            undone += _grant(board, wish, partition, allowed)
    board.rebuild()
    return undone


def _allowed(board: Board, wish: TopicWish) -> Flags:
    cluster = board.cluster
    unknown = sorted(set(wish.racks) - set(cluster.racks))
    if unknown:
        raise PlanRefused(
            f"topic {wish.topic}: no broker is in rack {unknown[0]!r}; racks are {', '.join(cluster.racks)}"
        )
    allowed = board.targets.receivers.copy()
    if wish.racks:
        allowed &= np.isin(np.array(cluster.racks)[cluster.rack_of], wish.racks)
    if wish.brokers:
        allowed &= np.isin(np.array(cluster.brokers), wish.brokers)
    if wish.replication > int(allowed.sum()):
        raise PlanRefused(
            f"topic {wish.topic}: {counted(wish.replication, 'replica needs', 'replicas need')} as many brokers, and {int(allowed.sum())} may hold them"
        )
    return allowed


def _grant(board: Board, wish: TopicWish, partition: int, allowed: Flags) -> list[Undone]:
    """Change one partition: drop surplus replicas, then move those that are in a wrong place, then add missing ones."""
    cluster, name = board.cluster, board.cluster.partition_name(partition)
    wanted = wish.replication or board.factors[partition]
    least = 1 if cluster.min_isr is None else int(cluster.min_isr[partition])
    if wanted < min(least, board.factors[partition]):
        return [Undone(f"{name} keeps its replicas", f"min.insync.replicas is {least}: writers would be refused")]
    while board.factors[partition] > wanted:
        _drop_worst(board, partition, allowed)
    undone: list[Undone] = []
    for slot in range(board.factors[partition]):
        here = int(board.replicas[partition, slot])
        if not allowed[here] and not _settle(board, partition, slot, allowed):
            undone.append(Undone(f"{name} stays on broker {cluster.brokers[here]}", _why_not(board, partition)))
    while board.factors[partition] < wanted:
        slot = board.factors[partition]
        board.factors[partition] += 1
        if not _settle(board, partition, slot, allowed):
            board.factors[partition] -= 1
            undone.append(
                Undone(
                    f"{name} stays at {counted(int(board.factors[partition]), 'replica')}", _why_not(board, partition)
                )
            )
            break
    return undone


def _settle(board: Board, partition: int, slot: int, allowed: Flags) -> bool:
    """Put a replica on the best broker that it may be on; returns whether there is one."""
    if not board.budget.allows(float(board.cluster.sizes[partition])):
        return False
    opened = np.where(allowed, board.openings(partition, slot), -np.inf)
    if not np.isfinite(opened).any():
        # Fewer racks are wanted than the spread needs. Then replicas share the wanted racks.
        taken = [broker for broker in board.replicas[partition].tolist() if broker != ABSENT]
        opened = np.where(allowed, board.shut, -np.inf)
        opened[taken] = -np.inf
    gain = board.gains(board.weight_of(partition, slot), opened)
    best = int(gain.argmax())
    if not np.isfinite(gain[best]):
        return False
    board.move(partition, slot, best, Why.WANTED)
    return True


def _drop_worst(board: Board, partition: int, allowed: Flags) -> None:
    """Drop a follower: one in a wrong place, else one in the rack with most replicas, else on the fullest broker."""
    rack_of, row = board.targets.rules.rack_of, board.replicas[partition].tolist()
    slots = [slot for slot in range(len(row)) if row[slot] != ABSENT]
    held = np.bincount([int(rack_of[row[slot]]) for slot in slots], minlength=len(board.cluster.racks))
    disk = board.targets.column(Resource.DISK) or 0
    worst = max(
        slots[1:],
        key=lambda s: (not allowed[row[s]], int(held[rack_of[row[s]]]), float(board.loads[row[s], disk]), s),
    )
    board.drop(partition, worst)


def _why_not(board: Board, partition: int) -> str:
    if not board.budget.allows(float(board.cluster.sizes[partition])):
        return "the cap on bytes or moves is spent"
    return "no broker that is wanted may take it: racks, capacities with headroom and max replicas leave none"
