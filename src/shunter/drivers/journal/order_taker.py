"""Orders from other shells: they come through the journal, are handed to the core, and are answered in the journal.

A shell waits for the answer to its order, and reports it if there is none in time. Such an order is refused later, by
any executor that drives the journal: a rollback that no shell waits for could hit the next plan.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import orjson

from shunter.core.executor.ready import Reply
from shunter.core.spare_replicas import told_thin
from shunter.core.wording import counted, named, told_rate
from shunter.drivers.journal.execution import ExecutionDriver, ExecutorEnded
from shunter.drivers.journal.journals import ANSWER_WITHIN_S, LeasedJournal, OrderRow
from shunter.errors import ShunterError
from shunter.formats.journal import command_from_json, options_from_json
from shunter.formats.reassignment_json import decode_plan
from shunter.model.execution import Command, CommandKind, ExecutionOptions

ORDERS_EVERY_S = 0.25
_VERBS = {CommandKind.ROLL_BACK: "rollback"}
"""Verbs of the command line that are not the names of their kinds."""


class OrderGate(Protocol):
    """Has a say in orders of other shells, and hears of those that were taken."""

    def refusal(self, command: Command | None) -> str:
        """Why a command is not taken now, or (None) a plan; "": it is."""
        ...

    def options(self, wanted: ExecutionOptions) -> ExecutionOptions:
        """The options under which a plan of another shell is carried out, if it asks for these."""
        ...

    def taken(self, what: str, given_by: str, answer: str) -> None:
        """An order was taken: its kind and partitions, who gave it, and the executor's answer."""
        ...


async def take_orders(driver: ExecutionDriver, journal: LeasedJournal, gate: OrderGate | None = None) -> None:
    """Carry out orders from the journal, until cancelled.

    Each order is awaited in a separate task: a plan waits until the cluster was seen, and a later stop must not wait
    for the plan.
    """
    came_since_ms: int | None = None
    handed_in = 0
    answering: set[asyncio.Task[None]] = set()
    try:
        while True:
            looked_ms = driver.clock.now_ms()
            for order in await driver.with_journal(journal.orders):
                if order.number > handed_in:
                    handed_in = order.number
                    answering.add(asyncio.create_task(_take(driver, journal, order, came_since_ms, gate)))
            came_since_ms = looked_ms
            await asyncio.sleep(ORDERS_EVERY_S)
            for task in [each for each in answering if each.done()]:
                answering.remove(task)
                task.result()
    finally:
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)


async def _take(
    driver: ExecutionDriver,
    journal: LeasedJournal,
    order: OrderRow,
    came_since_ms: int | None,
    gate: OrderGate | None,
) -> None:
    try:
        text = _too_late(driver.clock.now_ms(), order, came_since_ms) or await _answer(driver, order, gate)
    except ExecutorEnded:
        return  # The shell sees that no executor drives the journal, withdraws its order, and carries it out itself.
    await driver.with_journal(lambda: journal.answer(order.number, text))


def _too_late(now_ms: int, order: OrderRow, came_since_ms: int | None) -> str | None:
    """Return the answer to an order whose shell has stopped waiting; None for an order that is to be carried out.

    The shell's clock may differ from this process's clock, which is as wrong as the system's was when this process
    started. So an order that was not there at a look a moment ago counts as new, whatever its time. For any other order
    only its time decides.

    Args:
        now_ms: The time by this process's clock.
        order: The order.
        came_since_ms: When a look did not find the order yet; None: this is the first look.
    """
    within_ms = ANSWER_WITHIN_S * 1000
    if came_since_ms is not None and now_ms - came_since_ms <= within_ms:
        return None
    late_ms = now_ms - order.at_ms
    if abs(late_ms) <= within_ms:
        return None
    asked = f"{late_ms // 1000} s ago" if late_ms > 0 else f"in {-late_ms // 1000} s, by another clock"
    told = f"this was asked for {asked}, and nobody waits for it any more: it is not done; ask again"
    return orjson.dumps({"accepted": False, "text": told}).decode()


async def _answer(driver: ExecutionDriver, order: OrderRow, gate: OrderGate | None) -> str:
    try:
        document = orjson.loads(order.body)
        command = command_from_json(document) if order.kind == "command" else None
        refusal = "" if gate is None else gate.refusal(command)
        if refusal:
            return orjson.dumps({"accepted": False, "text": refusal}).decode()
        reply: Reply
        if command is not None:
            reply = await driver.command(command)
            if gate is not None and reply.accepted:
                about = named(command.partitions) or "all moves"
                gate.taken(f"{_VERBS.get(command.kind, command.kind.value)} {about}", command.given_by, reply.text)
            partly = {"partly": True} if reply.partly else {}
            return orjson.dumps({"accepted": reply.accepted, "text": reply.text, **partly}).decode()
        moves = decode_plan(orjson.dumps(document["plan"]), f"order {order.number}")
        wanted = options_from_json(document["options"])
        options = wanted if gate is None else gate.options(wanted)
        plan_id = f"order-{order.number}"
        reply = await driver.submit(plan_id, moves, options)
    except ExecutorEnded:
        raise
    except (ShunterError, ValueError, KeyError) as error:
        return orjson.dumps({"accepted": False, "text": str(error)}).decode()
    refused = [f"{move.tp}: {move.refused}" for move in reply.moves if move.refused is not None]
    instead = [f"{move.tp}: {move.instead}" for move in reply.moves if move.instead]
    text = reply.error or f"{counted(len(reply.moves) - len(refused), 'move')} taken on"
    if reply.error is None and options.throttle is not None and options.throttle != wanted.throttle:
        text += f", under the policy's throttle of {told_rate(options.throttle)}, as the plan has none"
    if gate is not None and reply.error is None:
        gate.taken("execute a plan", str(document.get("given_by", "")), text)
    answer: dict[str, Any] = {"accepted": reply.error is None, "text": text, "refused": refused, "instead": instead}
    answer["thin"] = list(told_thin((move.tp, move.thin) for move in reply.moves))
    answer["held_up"] = [f"{move.tp}: {move.held_up}" for move in reply.moves if move.held_up]
    if gate is None:
        answer["plan_id"] = plan_id  # The shell follows it. A service carries plans out in its own time, and stays.
    return orjson.dumps(answer).decode()
