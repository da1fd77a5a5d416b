"""One cluster's executor inside the service: the same session as `shunter execute`, used and watched by the keeper."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import NamedTuple

from shunter.app.executor.driving import SessionStart, drive
from shunter.app.executor.order_costs import Again, price_now, told_price
from shunter.app.executor.session import Session, Target, open_session
from shunter.app.executor.ways_out import WaysOut, ways_out
from shunter.core.executor.history import executions
from shunter.core.executor.ready import CommandReply, PlanReply
from shunter.drivers.journal.claimants import ClusterClaimed
from shunter.drivers.journal.host_lock import SeatTaken, StandsStill
from shunter.drivers.journal.journals import JournalHeld
from shunter.drivers.journal.order_taker import OrderGate
from shunter.errors import DriverError, ShunterError
from shunter.model.execution import (
    Command,
    CommandKind,
    CommandTaken,
    ExecutionOptions,
    JournalEntry,
    MoveOrder,
    Outcome,
    PlanAccepted,
)
from shunter.model.notice import Notice
from shunter.model.partition import TopicPartition
from shunter.model.service import KeptProposal, ProposalState
from shunter.views.execution import ExecutionView


def not_driven(error: ShunterError) -> tuple[str, str]:
    """Who drives a cluster instead of this service ("": nobody, as far as is known), and otherwise why nobody does.

    The errors' own ways out are for a command that was refused. A service needs none: it tries again by itself.
    """
    if isinstance(error, JournalHeld):
        return str(error.holder), ""
    if isinstance(error, ClusterClaimed):
        return error.holder, ""
    if isinstance(error, StandsStill):
        return "", f"{error.standing}; {error.standing.ends_it}"
    if isinstance(error, SeatTaken):
        return str(error.holder or "another process of this host"), ""
    return "", error.fact if isinstance(error, DriverError) else str(error)


class PlanFate(NamedTuple):
    """The state of a plan by the journal: whether it runs, or how it ended, in words."""

    state: ProposalState
    told: str
    turned: Command | None = None
    """The last order that stopped it or rolled it back, in part or as a whole."""
    ended_at_ms: int | None = None
    turned_at_ms: int | None = None


class JournalledOrder(NamedTuple):
    """The state of an order by the journal. `at_ms` None: the order is not in the journal.

    `other_plan`: a plan that was taken on after the order was given. "": there is none, so the order can still be
    carried out on the moves that it was meant for.
    """

    at_ms: int | None
    other_plan: str = ""


@dataclass(slots=True)
class Driving:
    """An executor at work in this process: a session, as the keeper uses it. Its ways out are the service's."""

    session: Session
    ways: WaysOut

    async def granted(self) -> None:
        """Wait until this process has the cluster's claim, or raise `DriverError`."""
        await self.session.driver.granted()

    def claimed_at_ms(self) -> int | None:
        """When the cluster's claim was last confirmed; None: no claim is kept."""
        return self.session.driver.claimed_at_ms()

    async def fates(self) -> Mapping[str, PlanFate]:
        """The state of every plan in the journal, by plan id."""
        entries = await self.session.driver.with_journal(self.session.journal.load)
        return await asyncio.to_thread(fates_in, entries)

    async def submit(self, plan_id: str, moves: Sequence[MoveOrder], options: ExecutionOptions) -> PlanReply:
        """Hand in a plan; answered once it is in the journal."""
        return self.ways.plan_reply(await self.session.driver.submit(plan_id, moves, options))

    async def command(self, command: Command) -> CommandReply:
        """Hand in an order; answered once it is in the journal."""
        return self.ways.reply(await self.session.command(command))

    def price(self, command: Command) -> Again:
        """What an order would make be copied again; nothing is changed."""
        state, sizes = self.session.core.state, self.session.core.meter.present
        price = price_now(state, command)
        copied = {
            move.tp: sum(sizes.get((broker, move.tp), 0) for broker in move.step.adding)
            for move in state.stepping()
            if move.tp in price.cancelled and move.step is not None
        }
        return told_price(price, copied)

    async def heard(self, key: str, given_ms: int) -> JournalledOrder:
        """Look up in the journal the order with this key, which was given at `given_ms`."""
        entries = await self.session.driver.with_journal(self.session.journal.load)
        return heard_in(entries, key, given_ms)

    def view(self) -> ExecutionView:
        """The view of the execution now."""
        return self.session.view()

    def in_sync(self) -> Mapping[str, tuple[int, ...]]:
        """In-sync replicas of partitions with moves, by partition's name."""
        state = self.session.core.state
        seen = ((tp, state.cluster.partition(tp)) for tp in state.moves)
        return {str(tp): tuple(partition.isr) for tp, partition in seen if partition is not None}

    async def run(self, on_view: Callable[[ExecutionView], None], gate: OrderGate) -> str:
        """Drive until the executor ends; returns why it ended. `gate`: judges orders of other shells."""
        ended = await drive(self.session, SessionStart(), on_view=on_view, forever=True, gate=gate)
        fatal = None if ended.finish is None else ended.finish.fatal
        return self.ways.told(fatal or "the executor ended")


async def end_cordons(driving: Driving, brokers: tuple[int, ...]) -> str:
    """Give brokers that no intent drains any more their former `cordoned.log.dirs` back; returns what came of it."""
    try:
        reply = await driving.command(Command(CommandKind.UNCORDON, given_by="the service", brokers=brokers))
    except ShunterError as error:
        return f"broker {', '.join(map(str, brokers))} stays cordoned until the next look: {error}"
    return f"no intent drains it any more: {reply.text}"


Seat = Callable[[Callable[[Notice], None]], AbstractAsyncContextManager[Driving]]
"""Takes the right to drive a cluster; the end of its context gives the right back."""


def seat_of(target: Target) -> Seat:
    """A function that takes the right to drive this cluster."""

    @contextlib.asynccontextmanager
    async def take(listener: Callable[[Notice], None]) -> AsyncIterator[Driving]:
        ways = ways_out(target)
        async with open_session(target, ways.notices(listener), forever=True) as session:
            session.in_words = ways.view
            yield Driving(session, ways)

    return take


def fates_in(entries: Iterable[JournalEntry]) -> dict[str, PlanFate]:
    """The state of each plan by the journal. Plans that belong to one execution share its state."""
    found: dict[str, PlanFate] = {}
    for execution in executions(entries):
        outcomes = Counter(move.outcome for move in execution.every_move)
        if None in outcomes:
            fate = PlanFate(ProposalState.RUNNING, "")
        else:
            told = ", ".join(f"{outcomes[each]} {each.told}" for each in Outcome if outcomes[each])
            turned = next(reversed(execution.turned), None)
            fate = PlanFate(_ended(outcomes), told, turned, execution.ended_at_ms, execution.turned_at_ms)
        found.update(dict.fromkeys(execution.plans, fate))
    return found


def heard_in(entries: Iterable[JournalEntry], key: str, given_ms: int) -> JournalledOrder:
    """Look up an order by its key. `other_plan` is set only if the order is not there."""
    other = ""
    for entry in entries:
        record = entry.record
        if isinstance(record, CommandTaken) and record.command.key == key:
            return JournalledOrder(entry.at_ms)
        if isinstance(record, PlanAccepted) and entry.at_ms > given_ms:
            other = other or record.plan_id
    return JournalledOrder(None, other)


def _ended(outcomes: Mapping[Outcome | None, int]) -> ProposalState:
    if set(outcomes) <= {Outcome.DONE}:
        return ProposalState.DONE
    if set(outcomes) & {Outcome.STOPPED, Outcome.ROLLED_BACK, Outcome.LEFT}:
        return ProposalState.TURNED
    return ProposalState.PARTLY


def taken(reply: PlanReply) -> tuple[ProposalState, str]:
    """The state of a proposal after the executor's answer to its plan, and a sentence about it."""
    if reply.error is not None:
        return ProposalState.REFUSED, reply.error
    refused = [f"{move.tp}: {move.refused}" for move in reply.moves if move.refused is not None]
    return ProposalState.RUNNING, f"not taken on: {'; '.join(refused)}" if refused else ""


def fate_of(proposal: KeptProposal, fates: Mapping[str, PlanFate]) -> tuple[ProposalState, str]:
    """The state of a begun proposal by the journal, and its outcome in words."""
    fate = fates.get(proposal.id)
    if fate is not None:
        seen_first = fate.state is ProposalState.DONE and proposal.conditions
        return ProposalState.CARRIED_OUT if seen_first else fate.state, fate.told or proposal.outcome
    if proposal.state is ProposalState.STARTING:
        return ProposalState.APPROVED, ""  # Its plan never reached the journal, so none of its moves was begun.
    return ProposalState.PARTLY, "the journal no longer has it: its outcome is unknown"


def partition_of(name: str) -> TopicPartition:
    """A partition by its name, `orders-3`."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))
