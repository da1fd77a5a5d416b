"""The status of an execution: its journal, compared with the cluster, and the view of its executor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.session import (
    Target,
    claimed_by,
    connect,
    is_named,
    journal_place,
    journal_without_cluster,
    load_journal,
    no_journal,
    read_journal,
    read_view,
)
from shunter.app.executor.throttles import rates_of_others
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.throttling.debts import told_way_out
from shunter.core.quorum import judge_quorum
from shunter.drivers.admin.protocol import AdminClient
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.host_lock import StillDriver
from shunter.errors import DriverError
from shunter.model.check_up import Level
from shunter.model.execution import LeaseHolder
from shunter.model.partition import BrokerId, TopicPartition
from shunter.views.execution import ExecutionView, as_its_driver_sees_it, undriven, view_execution, view_to_json

if TYPE_CHECKING:
    from shunter.drivers.admin.cluster import KafkaPythonAdmin


class Surroundings(NamedTuple):
    """What of a cluster bears on its moves, whoever drives them.

    `throttles`: those of others at brokers, a sentence for each. `quorum`: what is wrong with the metadata quorum; "":
    nothing, or there is none.
    """

    throttles: tuple[str, ...] = ()
    quorum: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """A sentence for each thing that was found."""
        return (*self.throttles, *filter(None, (self.quorum,)))

    def to_json(self) -> dict[str, Any]:
        """As members of a JSON object."""
        return {"throttles_of_others": list(self.throttles), "quorum": self.quorum or None}


ALONE = Surroundings()
"""Nothing bears on the moves, or the cluster was not asked."""


@dataclass(frozen=True, slots=True)
class Status:
    """A journal's view, the executor that drives it, and its differences from the cluster if that was asked."""

    place: JournalPlace
    view: ExecutionView
    holder: LeaseHolder | None
    standing: StillDriver | None = None
    """The process of this host that would drive the journal, but stands still."""
    differences: tuple[str, ...] = ()
    live: ExecutionView | None = None
    """The view of the executor that drives the journal, if it runs on this host."""
    claimant: str = ""
    """The executor that drives the cluster under another journal, if none drives this one."""
    debts: str = ""
    """How throttles that are owed can be given back or forgotten; "": none are owed."""
    surroundings: Surroundings = ALONE
    unasked: str = ""
    """Why the cluster could not be asked, so that all of this is from the journal; "": it was asked, or need not be."""

    def to_json(self, narrowed: Callable[[ExecutionView], ExecutionView]) -> dict[str, Any]:
        """As a JSON object. If an executor on this host drives the journal, the figures are from its view.

        `narrowed` reduces a view to the moves that are to be shown.
        """
        view = narrowed(self.view if self.live is None else as_its_driver_sees_it(self.view, self.live))
        return {
            "journal": str(self.place),
            "holder": None if self.holder is None else self.holder._asdict(),
            "standing": None if self.standing is None else self.standing._asdict(),
            "claimant": self.claimant or None,
            "differences": list(self.differences),
            **self.surroundings.to_json(),
            "unasked": self.unasked or None,
            **view_to_json(view),
            "live": None if self.live is None else view_to_json(narrowed(self.live)),
        }


async def read_status(target: Target, *, check: bool) -> Status:
    """The status from the journal; `check`: also compared with the cluster."""
    admin = await connect(target) if check or not is_named(target) else None
    try:
        place = await journal_place(target, admin)
        if check and not place.exists():
            raise await no_journal(target, place)
        _entries, state, holder, standing = await asyncio.to_thread(load_journal, place)
        claimant = await claimed_by(target, place) if check and holder is None else ""
        differences = await _differences(state, admin) if admin is not None and state.running else ()
        around = await _surroundings(admin, state) if check and admin is not None else ALONE
        live = read_view(place) if holder is not None else None
        meter = Meter()
        if check and admin is not None and live is None:
            meter.present.update(await replica_bytes(state.stepping(), admin))
    finally:
        if admin is not None:
            await admin.close()
    view = view_execution(state, meter, state.limit, SystemClock().now_ms())
    if holder is None and view.running:
        view = undriven(view)
    owed = state.owed()
    debts = told_way_out(owed, driven=holder is not None) if owed else ""
    return Status(place, view, holder, standing, differences, live, claimant, debts, around)


async def read_without_cluster(target: Target, error: DriverError) -> Status:
    """The status from this host's journal of a cluster that does not answer.

    Raises:
        DriverError: `error`, because no journal file is known to be this cluster's; it lists the files that exist.
        FormatError: the journal is damaged.
    """
    place = journal_without_cluster(target, error)
    known = await read_status(replace(target, journal=place.path), check=False)
    return replace(known, unasked=str(error))


async def surroundings_of(target: Target) -> Surroundings:
    """What of a cluster bears on moves, for moves that no journal of this host has."""
    admin = await connect(target)
    try:
        place = await journal_place(target, admin)
        return await _surroundings(admin, read_journal(place)[0] if place.exists() else ExecutorState())
    finally:
        await admin.close()


async def _surroundings(admin: KafkaPythonAdmin, state: ExecutorState) -> Surroundings:
    throttles, quorum = await asyncio.gather(rates_of_others(admin, state), _quorum_trouble(admin))
    return Surroundings(throttles, quorum)


async def _quorum_trouble(admin: KafkaPythonAdmin) -> str:
    try:
        quorum = await admin.quorum()
    except DriverError as error:
        return f"how the metadata quorum stands is not known: {error}"
    found = None if quorum is None else judge_quorum(quorum)
    return "" if found is None or found.level is Level.FINE else found.text


async def replica_bytes(stepping: Iterable[Move], admin: AdminClient) -> dict[tuple[BrokerId, TopicPartition], int]:
    """Bytes of the copies that running steps make, by broker and partition; silent brokers are left out."""
    copies: dict[BrokerId, list[TopicPartition]] = {}
    for move in stepping:
        assert move.step is not None
        for broker in move.step.adding:
            copies.setdefault(broker, []).append(move.tp)
    sized = await admin.observe_log_dirs(copies)
    return {key: size.bytes for key, size in sized.sizes.items()}


async def _differences(state: ExecutorState, admin: AdminClient) -> tuple[str, ...]:
    """Differences between the cluster and the journal, a sentence each."""
    ongoing = await admin.list_reassignments()
    moves = state.open_moves()
    names = sorted({move.tp.topic for move in moves})
    seen = await admin.observe_topics(names)
    told: list[str] = []
    for move in moves:
        topic = seen.topics.get(move.tp.topic)
        partition = None if topic is None else topic.partitions.get(move.tp.partition)
        if topic is None or partition is None:
            told.append(f"{move.tp} no longer exists")
        elif move.step is None and partition.replicas != move.current:
            told.append(f"{move.tp} is at {list(partition.replicas)}, the journal says {list(move.current)}")
        elif move.step is not None and move.tp not in ongoing and partition.replicas == move.step.after:
            told.append(f"{move.tp} has finished its step to {list(move.step.after)}; the journal does not know yet")
        elif move.step is not None and move.tp not in ongoing:
            told.append(f"{move.tp} is at {list(partition.replicas)}, its step to {list(move.step.after)} does not run")
    return tuple(told)


__all__ = ["Status", "Surroundings", "read_status", "read_without_cluster", "replica_bytes", "surroundings_of"]
