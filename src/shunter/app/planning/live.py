"""Plan a live cluster: read it once through the Admin API, and plan it like a cluster from a file. No JVM."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from shunter.app.client_configuration import configuration_of
from shunter.app.executor.orders import holder_of
from shunter.app.executor.session import Target, read_journal
from shunter.app.planning.plan import Planned, PlanOptions, plan_raw
from shunter.core.executor.throttling.debts import own_rates
from shunter.core.throttles import told_unknown_throttles
from shunter.core.wording import counted, named
from shunter.drivers.admin.inventory import take_inventory
from shunter.drivers.host.clock import SystemClock
from shunter.errors import DriverError, FormatError
from shunter.formats.plan_inventory import encode_plan_input, size_of
from shunter.model.execution import Direction
from shunter.model.inventory import Inventory, InventoryPartition
from shunter.model.partition import BrokerId, Replicas, TopicPartition


class PlannedLive(NamedTuple):
    """A plan of a live cluster; `notes` are its assumptions, a sentence each."""

    planned: Planned
    cluster_id: str
    notes: tuple[str, ...]


class OpenGoals(NamedTuple):
    """Where the open moves of a journal end. `unread`: why that is not known; "": it is."""

    replicas: Mapping[TopicPartition, Replicas] = {}
    unread: str = ""
    rates: frozenset[tuple[BrokerId, float]] = frozenset()
    """Rates of throttles at brokers that are the journal's own."""


async def open_goals(target: Target) -> OpenGoals:
    """Where the moves that wait or run under a target's journal end, and its own throttles.

    Of a move that is being stopped the cluster shows where it ends.
    """
    try:
        place, _holder = await holder_of(target)
        if not await asyncio.to_thread(place.exists):
            return OpenGoals()
        state, _holder = await asyncio.to_thread(read_journal, place)
    except (DriverError, FormatError) as error:
        return OpenGoals(unread=str(error))
    goals = {move.tp: move.goal for move in state.open_moves() if move.direction is not Direction.STOP}
    return OpenGoals(goals, rates=own_rates(state, SystemClock().now_ms()))


def plan_cluster(
    bootstrap: str, properties: Path | None, options: PlanOptions, save: Path | None, opened: OpenGoals | None = None
) -> PlannedLive:
    """Plan a live cluster from its assignments, racks, sizes and min.insync.replicas.

    Args:
        bootstrap: Brokers to ask first.
        properties: Client properties, as Apache's tools take them.
        options: As for a file.
        save: A file for the cluster as it was read; `--from` reads it.
        opened: Open moves, read before the cluster: one that ended meanwhile is at its goal. They count as done.

    Raises:
        DriverError: the cluster does not answer, or does not let us in.
        FormatError: a file can't be read or written.
        PlanRefused: the request can't be served on this cluster.
    """
    opened = opened or OpenGoals()
    taken = take_inventory(configuration_of(bootstrap, properties), offsets=False)
    taken = taken._replace(partitions=tuple(_at_its_goal(each, opened) for each in taken.partitions))
    taken = taken.without_throttles(opened.rates)
    raw = encode_plan_input(taken)
    if save is not None:
        try:
            save.write_bytes(raw)
        except OSError as error:
            raise FormatError(str(save), f"can't be written: {error.strerror}") from error
    rackless = not options.ignore_racks and not any(broker.rack for broker in taken.brokers)
    asked = replace(options, ignore_racks=True) if rackless else options
    made = plan_raw(raw, f"cluster {taken.cluster_id}", asked, [broker.id for broker in taken.fenced])
    return PlannedLive(made, taken.cluster_id, tuple(_notes(taken, opened.unread, rackless=rackless)))


def _at_its_goal(partition: InventoryPartition, opened: OpenGoals) -> InventoryPartition:
    """A partition as if its open move were under way."""
    goal = opened.replicas.get(TopicPartition(partition.topic, partition.partition))
    if goal is None or goal == partition.replicas:
        return partition
    leaves = tuple(broker for broker in partition.replicas if broker not in goal)
    comes = tuple(broker for broker in goal if broker not in partition.due)
    return partition._replace(replicas=goal + leaves, adding=comes, removing=leaves)


def _notes(taken: Inventory, unread: str, *, rackless: bool) -> Iterator[str]:
    if unread:
        yield f"the journal's open moves are not known, so they count as not begun: {unread}"
    if rackless:
        yield "no broker has a rack: racks are ignored, and all replicas of a partition may end in one place"
    for broker, why in taken.unsized.items():
        yield f"broker {broker} did not report its log dirs: {why}"
    yield from told_unknown_throttles(taken.untold_throttles)
    moving = [partition for partition in taken.partitions if partition.adding or partition.removing]
    if moving:
        counts = counted(len(moving), "partition is", "partitions are")
        yield f"{counts} being moved, or about to be ({_names(moving)}): planned from the replicas at the end"
    bare = [partition for partition in taken.partitions if not partition.replicas]
    if bare:
        counts = counted(len(bare), "partition has", "partitions have")
        yield f"{counts} no replicas and no place in the plan: {_names(bare)}"
    unknown = sum(size_of(partition) is None for partition in taken.partitions if partition.replicas)
    if unknown:
        yield f"the size of {unknown:,} of {counted(len(taken.partitions), 'partition')} is unknown: {'it is' if unknown == 1 else 'they are'} taken for empty"


def _names(partitions: Iterable[InventoryPartition]) -> str:
    return named(f"{each.topic}-{each.partition}" for each in partitions)


__all__ = ["OpenGoals", "PlannedLive", "open_goals", "plan_cluster"]
