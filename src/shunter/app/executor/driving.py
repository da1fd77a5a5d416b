"""Drives a session: its plan or command, the orders of other shells, and its view, until nothing is left to do."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from shunter.app.executor.session import Session
from shunter.core.executor.foresight.stuck import stuck
from shunter.core.executor.ready import CommandReply, Finish, PlanReply
from shunter.core.executor.state import Move
from shunter.core.wording import counted
from shunter.drivers.journal.claimants import this_user
from shunter.drivers.journal.order_taker import OrderGate, take_orders
from shunter.model.execution import Command, CommandKind, ExecutionOptions, MoveOrder
from shunter.model.partition import TopicPartition
from shunter.views.execution import ExecutionView, view_of

RESTING_EVERY_S = 0.2
"""How often a session looks whether only moves of others that rest are left."""
STUCK_FOR_S = 10.0
"""Others that can't end are not waited for after this time: a broker that only restarts may be back by then."""


@dataclass(frozen=True, slots=True)
class SessionStart:
    """The first work of a session: a plan, or a command; without both it goes on with the journal's moves."""

    moves: tuple[MoveOrder, ...] = ()
    options: ExecutionOptions = field(default_factory=ExecutionOptions)
    command: Command | None = None
    unpause: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """How a session ended: the core's `Finish`, the view of its own moves, the replies to the plan or the command.

    `back`: partitions whose move the plan itself rolls back.
    """

    finish: Finish | None
    view: ExecutionView
    plan: PlanReply | None = None
    command: CommandReply | None = None
    back: Collection[TopicPartition] = ()
    rest: str = ""
    """Moves that stay open in the journal, and why, in words; the session has ended all others, so it left."""
    named: Collection[TopicPartition] = ()
    """The partitions that the command names; (): all."""


async def drive(
    session: Session,
    work: SessionStart,
    *,
    on_view: Callable[[ExecutionView], None] | None = None,
    on_plan: Callable[[PlanReply], None] | None = None,
    leave: asyncio.Event | None = None,
    forever: bool = False,
    gate: OrderGate | None = None,
) -> Ended:
    """Drive a session until all is done, a fatal error, or `leave` is set; open moves then stay in the journal.

    A session with a plan or a command also leaves once its own moves have ended and all others are paused, or, beside a
    command, can't end: those wait for a person or a broker, whom nobody could wait for here.
    """
    asked: list[asyncio.Task[Any]] = []
    plan: asyncio.Task[PlanReply] | None = None
    command: asyncio.Task[CommandReply] | None = None
    if work.moves:
        plan_id = session.core.own.plan_id = uuid.uuid4().hex[:12]
        plan = asyncio.create_task(session.driver.submit(plan_id, work.moves, work.options))
        if on_plan is not None:
            plan.add_done_callback(lambda done: on_plan(done.result()) if _answered(done) else None)
        asked.append(plan)
    first = work.command or (
        Command(CommandKind.RESUME, given_by=f"{this_user()} (shunter resume)") if work.unpause else None
    )
    if first is not None:
        command = asyncio.create_task(session.command(first))
        asked.append(command)
    await asyncio.sleep(0)  # The plan or command has to be queued before the core finds that it is idle.
    background = [
        asyncio.create_task(take_orders(session.driver, session.journal, gate)),
        asyncio.create_task(session.publish(on_view, idle=forever)),
    ]
    running = asyncio.create_task(session.driver.run(forever=forever))
    leave = leave or asyncio.Event()
    if work.command is not None and command is not None:
        command.add_done_callback(lambda done: leave.set() if _answered(done) and not done.result().accepted else None)
    leaving = asyncio.create_task(leave.wait())
    resting = asyncio.create_task(_until_others_rest(session, work, asked))
    failed: list[asyncio.Task[None]] = []
    finish: Finish | None = None
    try:
        await asyncio.wait({running, leaving, resting, *background}, return_when=asyncio.FIRST_COMPLETED)
        failed = [task for task in background if task.done()]
        finish = running.result() if running.done() else None
    except asyncio.CancelledError:
        for task in asked:
            task.cancel()
        raise
    finally:
        # A cancelled caller closes the journal next, so none of these tasks may still use it.
        for task in (running, leaving, resting, *background):
            task.cancel()
        await asyncio.gather(running, leaving, resting, *background, *asked, return_exceptions=True)
    for task in failed:
        task.result()
    return Ended(
        finish,
        view_of(session.view(), session.core.state, session.core.meter, session.core.own.moves.values()),
        plan.result() if plan is not None and _answered(plan) else None,
        command.result() if work.command is not None and command is not None and _answered(command) else None,
        session.core.own.back,
        resting.result() if finish is None and _answered(resting) else "",
        () if work.command is None else work.command.partitions,
    )


async def _until_others_rest(session: Session, work: SessionStart, asked: Sequence[asyncio.Task[Any]]) -> str:
    """Wait until a plan or a command has nothing left to do, and only moves at rest are left; returns these in words."""
    since_s: float | None = None
    state = session.core.state
    while True:
        own = session.core.own.moves.keys() if work.moves else () if work.command is None else work.command.partitions
        opened = state.open_moves()
        beside = bool(own or work.moves) and all(_answered(each) for each in asked)
        if beside and (paused := paused_beside(opened, own)):
            return f"{counted(paused, 'other move stays', 'other moves stay')} paused"
        ended = beside and work.command is not None and not any(move.tp in own for move in opened)
        if not (opened and ended and all(move.paused or stuck(state, move) for move in opened)):
            since_s = None
        elif since_s is None:
            since_s = monotonic()
        elif monotonic() - since_s >= STUCK_FOR_S:
            return f"{counted(len(opened), 'other move stays', 'other moves stay')}, paused or unable to end now,"
        await asyncio.sleep(RESTING_EVERY_S)


def paused_beside(opened: Collection[Move], own: Collection[TopicPartition]) -> int:
    """How many moves are open, if all of them are paused and none is one's own; else 0."""
    return len(opened) if all(move.paused and move.tp not in own for move in opened) else 0


def _answered(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


__all__ = ["Ended", "SessionStart", "drive", "paused_beside"]
