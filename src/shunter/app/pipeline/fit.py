"""Whether a plan still fits its cluster: before moves begin, the plan's snapshot is compared with the live cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from shunter.errors import FormatError
from shunter.formats.reassignment_json import decode_plan, encode_plan
from shunter.model.execution import MoveOrder
from shunter.model.inventory import Inventory, InventoryPartition


class Fit(NamedTuple):
    """The moves that may be carried out, and for each other move the partition and what changed."""

    moves: tuple[MoveOrder, ...]
    refused: tuple[str, ...]


def fit(moves: Sequence[MoveOrder], planned_from: Inventory, now: Inventory) -> Fit:
    """Refuse moves of partitions that changed since the plan was made.

    Args:
        planned_from: The snapshot that the plan was made from.
        now: The cluster now.
    """
    before, after = _by_name(planned_from), _by_name(now)
    brokers = {broker.id for broker in now.brokers}
    kept: list[MoveOrder] = []
    refused: list[str] = []
    for move in moves:
        key = move.tp.topic, move.tp.partition
        why = _what_changed(move, before.get(key), after.get(key), brokers)
        if why is None:
            kept.append(move)
        else:
            refused.append(f"{move.tp}: {why}")
    return Fit(tuple(kept), tuple(refused))


def refit(reassignment: Path, planned_from: Inventory, now: Inventory) -> tuple[Path | None, tuple[str, ...]]:
    """Leave out of a reassignment JSON what no longer fits; returns the file to carry out, and what was left out.

    The file is the original if all moves fit, another file if some were left out, and None if none is left.

    Raises:
        FormatError: the file can't be read or written.
    """
    try:
        found = fit(decode_plan(reassignment.read_bytes(), str(reassignment)), planned_from, now)
        if not found.refused:
            return reassignment, ()
        if not found.moves:
            return None, found.refused
        # In a folder of its own, under the same name: the journal is named after it.
        fitting = reassignment.parent / "fitting" / reassignment.name
        fitting.parent.mkdir(exist_ok=True)
        fitting.write_text(encode_plan(found.moves), encoding="utf-8")
    except OSError as error:
        raise FormatError(str(reassignment), f"can't be read or written: {error.strerror}") from error
    return fitting, found.refused


def _by_name(taken: Inventory) -> dict[tuple[str, int], InventoryPartition]:
    return {(partition.topic, partition.partition): partition for partition in taken.partitions}


def _what_changed(
    move: MoveOrder, before: InventoryPartition | None, after: InventoryPartition | None, brokers: set[int]
) -> str | None:
    if after is None:
        return "it was deleted since the plan was made"
    if before is None:
        return "it was not there when the plan was made"
    if before.topic_id != after.topic_id:
        return f"its topic was created again since the plan was made ({before.topic_id} then, {after.topic_id} now)"
    if before.replicas != after.replicas:
        return f"its replicas were {list(before.replicas)} when the plan was made, and are {list(after.replicas)} now"
    away = sorted(set(move.target) - brokers)
    if away:
        return f"broker {away[0]} of its target {list(move.target)} is not live now"
    return None
