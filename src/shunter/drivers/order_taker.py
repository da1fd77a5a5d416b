"""Orders from other shells: they come through the journal, are handed to the core, and are answered there.

Who gives an order waits for its answer, and is told when there is none: then it is refused whoever drives the journal
later. A rollback that nobody waits for any more would hit the next plan.
"""

from __future__ import annotations

import asyncio

import orjson

from shunter.core.executor.ready import Reply
from shunter.drivers.execution import ExecutionDriver
from shunter.drivers.journals import LeasedJournal, OrderRow
from shunter.errors import ShunterError
from shunter.formats.journal import command_from_json, options_from_json
from shunter.formats.reassignment_json import decode_plan

ORDERS_EVERY_S = 0.5
ANSWER_WITHIN_S = 30.0
"""How long who gives an order waits for its answer."""


async def take_orders(driver: ExecutionDriver, journal: LeasedJournal) -> None:
    """Carry out what other shells ask through the journal, until cancelled."""
    while True:
        for order in await driver.with_journal(journal.orders):
            text = await _answer(driver, order)
            await driver.with_journal(lambda number=order.number, text=text: journal.answer(number, text))  # type: ignore[misc]
        await asyncio.sleep(ORDERS_EVERY_S)


async def _answer(driver: ExecutionDriver, order: OrderRow) -> str:
    late_s = (driver.clock.now_ms() - order.at_ms) / 1000
    if late_s > ANSWER_WITHIN_S:
        told = f"this was asked for {late_s:.0f} s ago, and nobody waits for it any more: it is not done; ask again"
        return orjson.dumps({"accepted": False, "text": told}).decode()
    try:
        document = orjson.loads(order.body)
        reply: Reply
        if order.kind == "command":
            reply = await driver.command(command_from_json(document))
            return orjson.dumps({"accepted": reply.accepted, "text": reply.text}).decode()
        moves = decode_plan(orjson.dumps(document["plan"]), f"order {order.number}")
        reply = await driver.submit(f"order-{order.number}", moves, options_from_json(document["options"]))
    except (ShunterError, ValueError, KeyError) as error:
        return orjson.dumps({"accepted": False, "text": str(error)}).decode()
    refused = [f"{move.tp}: {move.refused}" for move in reply.moves if move.refused is not None]
    text = reply.error or f"{len(reply.moves) - len(refused)} moves taken on"
    return orjson.dumps({"accepted": reply.error is None, "text": text, "refused": refused}).decode()
