"""The status of an execution: its journal, compared with the cluster, and the view of its executor."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.session import (
    Target,
    claimed_by,
    connect,
    is_named,
    journal_place,
    journal_without_cluster,
    load_journal,
    read_view,
)
from shunter.app.executor.throttles import rates_of_others
from shunter.app.executor.under_way import list_under_way, look_at
from shunter.app.executor.ways_out import ways_out
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.foresight.stuck import is_over
from shunter.core.executor.state import ExecutorState
from shunter.core.executor.throttling.debts import told_way_out
from shunter.core.executor.waits import OVER
from shunter.core.quorum import judge_quorum
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.host_lock import StillDriver
from shunter.errors import DriverError
from shunter.formats.journal import partition_from_text
from shunter.model.check_up import Finding, Level
from shunter.model.execution import LeaseHolder
from shunter.model.partition import BrokerId
from shunter.views.execution import (
    OPEN_STATES,
    ExecutionView,
    MoveRow,
    as_its_driver_sees_it,
    row_to_json,
    undriven,
    view_execution,
    view_to_json,
)

if TYPE_CHECKING:
    from shunter.drivers.admin.cluster import KafkaPythonAdmin

ELSEWHERE = "rates, the end and what moves wait for are known to that driver alone: `shunter status` on its host, with its state folder, shows them; orders to a service take --service"
"""Said where the journal, in a topic, is driven from another host."""


@dataclass(frozen=True, slots=True)
class Status:
    """How a cluster's moves stand: its journal's, beside the executor that drives it, and those that no journal has."""

    place: JournalPlace
    view: ExecutionView
    """Of the journal. If its executor runs on this host, with the figures that only the executor measures."""
    holder: LeaseHolder | None = None
    standing: StillDriver | None = None
    """The process of this host that would drive the journal, but stands still."""
    differences: tuple[str, ...] = ()
    claimant: str = ""
    """The executor that drives the cluster under another journal, if none drives this one."""
    debts: str = ""
    """How throttles that are owed can be given back or forgotten; "": none are owed."""
    quorum: Finding | None = None
    """How the metadata quorum stands; None: there is none, or it was not asked, or all its voters are caught up."""
    unasked: str = ""
    """Why the cluster could not be asked, so that all of this is from the journal; "": it was asked, or need not be."""
    exists: bool = True
    """Whether there is a journal."""
    others: tuple[MoveRow, ...] = ()
    """What the cluster moves beside the journal's moves."""
    untold: tuple[str, ...] = ()
    """Sentences about what is not known here: brokers that do not tell their copies, a driver that measures elsewhere."""
    throttles: tuple[str, ...] = ()
    """Throttles of others at brokers, a sentence for each."""
    partitions: Mapping[str, Collection[int]] | None = None
    """The partitions of topics that were asked for and exist; None: the cluster was not asked."""

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "journal": str(self.place) if self.exists else None,
            "holder": None if self.holder is None else self.holder._asdict(),
            "standing": None if self.standing is None else self.standing._asdict(),
            "claimant": self.claimant or None,
            "differences": list(self.differences),
            "throttles_of_others": list(self.throttles),
            "quorum": None if self.quorum is None else self.quorum.text,
            "unasked": self.unasked or None,
            **view_to_json(self.view),
            "others": [row_to_json(row) for row in self.others],
        }


async def read_status(target: Target, *, check: bool, topics: Collection[str] = ()) -> Status:
    """The status from the journal, if there is one.

    Copies between log dirs are asked for only where nothing is executed: every broker then lists all its replicas.

    Args:
        target: The cluster and the journal.
        check: Ask the cluster, too: for differences from the journal, for other moves, and for `topics`.
        topics: Whose partitions are to be known.

    Raises:
        FormatError: the journal is damaged, or does not exist and the cluster is not asked.
        DriverError: the cluster does not answer.
    """
    admin = await connect(target) if check or not is_named(target) else None
    try:
        place = await journal_place(target, admin)
        if not check or admin is None:
            return await _of_journal(target, place)
        found = await (_of_journal if place.exists() else _of_nothing)(target, place, admin)
        opened = {row.partition for row in found.view.moves if row.state in OPEN_STATES}
        listed = await list_under_way(admin, copies=not found.view.running)
        others = tuple(row for row in listed.rows() if row.partition not in opened)
        seen = (await admin.observe_topics(sorted(topics))).topics if topics else {}
        partitions = {name: topic.partitions.keys() for name, topic in seen.items() if topic is not None}
        untold = (*found.untold, *listed.untold())
        found = replace(found, others=others, untold=untold, partitions=partitions)
        return replace(found, quorum=await quorum_trouble(admin))
    finally:
        if admin is not None:
            await admin.close()


async def _of_nothing(target: Target, place: JournalPlace, admin: KafkaPythonAdmin) -> Status:
    """The status where there is no journal."""
    state = ExecutorState()
    view = view_execution(state, Meter(), None, SystemClock().now_ms())
    claimant = await claimed_by(target, place)
    throttles = await rates_of_others(admin, state, claimant)
    return Status(place, view, exists=False, claimant=claimant, throttles=throttles)


async def _of_journal(target: Target, place: JournalPlace, admin: KafkaPythonAdmin | None = None) -> Status:
    """The status from a journal; `admin`: compared with the cluster."""
    _entries, state, holder, standing = await asyncio.to_thread(load_journal, place)
    claimant = await claimed_by(target, place) if admin is not None and holder is None else ""
    throttles = await rates_of_others(admin, state, claimant) if admin is not None else ()
    live = read_view(place, holder) if holder is not None else None
    meter, differences, untold = Meter(), tuple[str, ...](), tuple[str, ...]()
    if admin is not None and state.running:
        involved = {move.tp: {*move.current, *move.goal, *move.copying} for move in state.open_moves()}
        await look_at(admin, state.cluster, dict.fromkeys(involved, ()) if live is not None else involved)
        state.cluster.ongoing = await admin.list_reassignments()
        differences = _differences(state)
        meter.present.update({key: size.bytes for key, size in state.cluster.sizes.items()})
    view = view_execution(state, meter, state.limit, SystemClock().now_ms())
    if live is not None:
        view = ended_since(as_its_driver_sees_it(view, live), state)
    elif holder is None and view.running:
        view = undriven(view)
    elif holder is not None and holder.takes_orders and view.running:
        untold = (ELSEWHERE,)
        view = ways_out(target).view(view) if holder.address else view
    owed = state.owed()
    debts = told_way_out(owed, driven=holder is not None, live=await _up(admin, live, state)) if owed else ""
    return Status(place, view, holder, standing, differences, claimant, debts, untold=untold, throttles=throttles)


async def _up(admin: KafkaPythonAdmin | None, live: ExecutionView | None, state: ExecutorState) -> set[BrokerId] | None:
    """Brokers that are up by the cluster, or among those with throttles by the journal's driver; None: not known."""
    if admin is not None:
        return set(state.cluster.brokers or await admin.brokers())
    owing = {int(key.name) for key in state.throttles if key.kind == "broker"}
    return None if live is None else owing.difference(live.brokers_down)


def ended_since(view: ExecutionView, state: ExecutorState) -> ExecutionView:
    """A driver's view in which no move is stuck whose step has ended by the cluster, as it was just seen (`state`)."""
    rows, over = list(view.moves), 0
    for at, row in enumerate(rows):
        move = state.moves.get(partition_from_text(row.partition)) if row.stuck else None
        seen = None if move is None else state.cluster.partition(move.tp)
        if move is not None and seen is not None and is_over(state, move, seen):
            over += 1
            rows[at] = replace(row, stuck="", waits=OVER.text)
    if not over or any(row.stuck for row in rows):
        return replace(view, moves=tuple(rows))
    held, found, _more = view.held.partition(f"{over} stuck")
    between = "" if found or not held else "; "
    return replace(view, held=f"{held}{between}{over} {OVER.told}", moves=tuple(rows))


async def read_without_cluster(target: Target, error: DriverError) -> Status:
    """The status from this host's journal of a cluster that does not answer.

    Raises:
        DriverError: `error`, because no journal file is known to be this cluster's; it lists the files that exist.
        FormatError: the journal is damaged.
    """
    place = journal_without_cluster(target, error)
    return replace(await _of_journal(target, place), unasked=str(error))


async def quorum_trouble(admin: KafkaPythonAdmin) -> Finding | None:
    """What is wrong with the metadata quorum; None: nothing, or there is none."""
    try:
        quorum = await admin.quorum()
    except DriverError as error:
        return Finding(Level.WARNING, "quorum", f"how the metadata quorum stands is not known: {error}")
    found = None if quorum is None else judge_quorum(quorum)
    return None if found is None or found.level is Level.FINE else found


def _differences(state: ExecutorState) -> tuple[str, ...]:
    """Differences between the cluster, as it was just seen, and the journal, a sentence each."""
    ongoing = state.cluster.ongoing
    told: list[str] = []
    for move in state.open_moves():
        partition = state.cluster.partition(move.tp)
        if partition is None:
            told.append(f"{move.tp} no longer exists")
        elif move.step is None and partition.replicas != move.current:
            told.append(f"{move.tp} is at {list(partition.replicas)}, the journal says {list(move.current)}")
        elif move.step is not None and move.tp not in ongoing and partition.replicas == move.step.after:
            told.append(f"{move.tp} has finished its step to {list(move.step.after)}; the journal does not know yet")
        elif move.step is not None and move.tp not in ongoing:
            told.append(f"{move.tp} is at {list(partition.replicas)}, its step to {list(move.step.after)} does not run")
    return tuple(told)


__all__ = ["Status", "ended_since", "read_status", "read_without_cluster"]
