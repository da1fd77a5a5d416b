"""Orders and plans that other shells give to the executor that drives a journal, through the journal itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import orjson

from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.lease_acquisition import refuse_standing
from shunter.app.executor.session import (
    Target,
    connect,
    is_named,
    journal_place,
    journals_reached_by,
    load_journal,
    read_journal,
)
from shunter.core.wording import counted
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.host.whole_calls import to_its_end
from shunter.drivers.journal.claimants import this_user
from shunter.drivers.journal.host_lock import StandsStill, StillDriver
from shunter.drivers.journal.journals import ANSWER_WITHIN_S
from shunter.drivers.journal.order_taker import ORDERS_EVERY_S
from shunter.errors import DriverError, ShunterError
from shunter.formats.journal import command_to_json, options_to_json
from shunter.formats.reassignment_json import encode_plan
from shunter.model.execution import Command, ExecutionOptions, LeaseHolder, MoveOrder
from shunter.model.partition import TopicPartition

HOLDER_EVERY_S = 1.0
"""While waiting for an answer: how often to check that an executor still drives the journal."""


class HolderGone(ShunterError):
    """The executor that drove the journal ended before it took the order; the order was withdrawn."""


async def holder_of(target: Target) -> tuple[JournalPlace, LeaseHolder | None]:
    """The journal, and the executor that drives it now; None: none does.

    An executor of this host that was started with the same bootstrap servers is found without asking the cluster, which
    would take longer than an order itself.
    """
    if not is_named(target) and (found := await asyncio.to_thread(_driven_here, target.bootstrap)) is not None:
        return found
    admin = None if is_named(target) else await connect(target)
    try:
        place = await journal_place(target, admin)
    finally:
        if admin is not None:
            await admin.close()
    return place, await asyncio.to_thread(holder_at, place)


def _driven_here(bootstrap: str) -> tuple[JournalPlace, LeaseHolder] | None:
    """The one executor of this host that was given these bootstrap servers; None: there is none, or more than one."""
    found = [(place, holder) for place in journals_reached_by(bootstrap) if (holder := holder_at(place)) is not None]
    return found[0] if len(found) == 1 and found[0][1].takes_orders else None


def holder_at(place: JournalPlace) -> LeaseHolder | None:
    """The executor that drives a journal now; None: none does."""
    if not place.exists():
        return None
    journal = place.open("reader")
    try:
        return journal.holder(SystemClock().now_ms())
    finally:
        journal.close()


async def standing_of(place: JournalPlace) -> StillDriver | None:
    """The process of this host that would drive a journal, but has let its lease run out; None: there is none."""
    return (await asyncio.to_thread(load_journal, place)).standing if place.exists() else None


async def told_others(place: JournalPlace, named: Collection[TopicPartition], *, ordered: bool = False) -> str:
    """What a command that drives the journal itself does beside its own order; "": no other move is open and goes on.

    Paused moves stay paused, so the command does not wait for them. `ordered`: the command is an order to the moves named;
    it is refused, and nothing is driven, if all of them have ended.
    """
    if not place.exists():
        return ""
    state, _holder = await asyncio.to_thread(read_journal, place)
    opened = state.open_moves()
    count = sum(move.tp not in named and not move.paused for move in opened)
    if not count or (ordered and all(move.tp not in named for move in opened)):
        return ""
    others = counted(count, "other open move")
    return (
        f"no executor drives the journal: this command drives {others} too{', if it' if count == 1 else ' that'} can end; "
        f"ctrl-C leaves {'it' if count == 1 else 'them'} running under the journal"
    )


async def order(place: JournalPlace, kind: str, document: object) -> dict[str, Any]:
    """Give an order to the executor that drives a journal, and wait for the answer.

    Raises:
        HolderGone: it ended before it took the order, and no executor drives the journal: the caller can do it itself.
        StandsStill: it stands still, so it did not take the order, which was withdrawn.
        DriverError: no answer came in time.
    """
    clock = SystemClock()
    journal = await to_its_end(place.open, "orders")
    try:
        number = await to_its_end(journal.order, kind, document, clock.now_ms())
        asked_ms = looked_ms = clock.now_ms()
        while clock.now_ms() < asked_ms + ANSWER_WITHIN_S * 1000:
            answer = await to_its_end(journal.answer_to, number)
            if answer is not None:
                answered: dict[str, Any] = orjson.loads(answer)
                return answered
            if clock.now_ms() >= looked_ms + HOLDER_EVERY_S * 1000:
                looked_ms = clock.now_ms()
                if await to_its_end(journal.withdraw, number, looked_ms):
                    await to_its_end(refuse_standing, place, journal)
                    raise HolderGone(f"{place}: the executor that drove it ended before it took this up")
            await asyncio.sleep(ORDERS_EVERY_S / 2)
    finally:
        await to_its_end(journal.close)
    raise DriverError(f"{place}: no executor answered within {ANSWER_WITHIN_S:.0f} s", retriable=True)


async def hand_over(
    holder: LeaseHolder | None,
    give: Callable[[], Awaitable[dict[str, Any]]],
    told: Callable[[str], None],
    *,
    take_over: bool = False,
) -> dict[str, Any] | None:
    """Give an order to the executor that drives a journal, and return its answer.

    Args:
        holder: The executor.
        give: Gives the order.
        told: Gets the reason if the executor ended, or stands still, before it took the order.
        take_over: The caller drives the journal itself if the executor stands still.

    Returns:
        None: no executor took the order, and the caller can carry it out.

    Raises:
        StandsStill: the executor stands still.
        DriverError: no answer came in time.
    """
    if holder is None or not holder.takes_orders:
        return None
    try:
        return await give()
    except HolderGone as gone:
        told(str(gone))
    except StandsStill as gone:
        if not take_over:
            raise
        told(str(gone))
    return None


def giver(verb: str) -> str:
    """Who gives an order by a verb of the command line: the UNIX user, and the verb."""
    return f"{this_user()} (shunter {verb})"


async def order_command(place: JournalPlace, command: Command) -> dict[str, Any]:
    """Give a command to the executor that drives a journal."""
    return await order(place, "command", command_to_json(command))


async def order_plan(place: JournalPlace, moves: Sequence[MoveOrder], options: ExecutionOptions) -> dict[str, Any]:
    """Hand a plan to the executor that drives a journal."""
    document = {
        "plan": orjson.loads(encode_plan(moves)),
        "options": options_to_json(options),
        "given_by": giver("execute"),
    }
    return await order(place, "plan", document)


__all__ = [
    "HolderGone",
    "StandsStill",
    "giver",
    "hand_over",
    "holder_at",
    "holder_of",
    "order",
    "order_command",
    "order_plan",
    "standing_of",
    "told_others",
]
