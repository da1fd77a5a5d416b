"""The bytes that are copied again because of an order, computed before the order is given."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.session import Target, connect, read_journal, read_view
from shunter.core.executor.apply import apply
from shunter.core.executor.foresight.hold_ups import told_stuck
from shunter.core.executor.orders import decide_command, most_rollback_bytes, rollback_bytes
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.submission import options_beside
from shunter.core.executor.throttling.pausing import note_others, unheld
from shunter.core.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, of_live
from shunter.core.wording import counted
from shunter.drivers.host.clock import SystemClock
from shunter.errors import DriverError
from shunter.model.execution import (
    Command,
    CommandKind,
    Direction,
    ExecutionOptions,
    JournalEntry,
    MoveOrder,
    ThrottleKey,
)
from shunter.model.partition import BrokerId, TopicPartition

NOTED_WITHIN_S = 3.0
"""A pause may be urgent: for no longer than this it waits to be priced."""


class Again(NamedTuple):
    """Bytes that are copied again, and why; `at_most`: it may be less."""

    bytes: int
    why: str
    at_most: bool = False


async def bytes_again(target: Target, place: JournalPlace, command: Command) -> Again:
    """The bytes that an order copies again, by the journal and by the brokers' sizes; 0: nothing.

    If no executor drives the journal, its last entries are old: a step under way may have ended by itself since.
    """
    if not _may_cost(place, command) or not place.exists():
        return Again(0, "")
    state, holder = await asyncio.to_thread(read_journal, place)
    await _note_others(target, state, command)
    price = price_of(state, command, driven=holder is not None)
    told = told_price(price, await _copied(target, state, price.cancelled))
    stuck = await _held_up(target, state, command) if told.bytes else ""
    return told._replace(why=f"{told.why}. But {stuck}") if stuck else told


async def _note_others(target: Target, state: ExecutorState, command: Command) -> None:
    """Note whose throttles a pause meets, because it cancels copies beside them. A silent cluster delays no pause."""
    copies = [(move.tp.topic, broker) for move in _named(state, command) for broker in move.copying]
    if command.kind is not CommandKind.PAUSE or not copies or not target.bootstrap:
        return
    keys = {ThrottleKey("topic", topic, FOLLOWER_REPLICAS) for topic, _broker in copies}
    keys |= {ThrottleKey("broker", str(broker), FOLLOWER_RATE) for _topic, broker in copies}
    with suppress(DriverError, TimeoutError):
        async with asyncio.timeout(NOTED_WITHIN_S):
            admin = await connect(target)
            try:
                live = await admin.brokers()
                seen = await admin.read_settings([*of_live(dict.fromkeys(keys, ""), live)])
            finally:
                await admin.close()
        for key in keys & seen.own.keys():
            note_others(state, key, seen.own[key], seen.effective.get(key))


async def _held_up(target: Target, state: ExecutorState, command: Command) -> str:
    """Which moves of a rollback can't end now, by the cluster, with the way out; "": none, or it does not answer."""
    moves = _named(state, command)
    if command.kind is not CommandKind.ROLL_BACK or not target.bootstrap:
        return ""
    cluster = state.cluster
    with suppress(DriverError):
        admin = await connect(target)
        try:
            cluster.ongoing = await admin.list_reassignments()
            seen = await admin.observe_topics(sorted({move.tp.topic for move in moves}))
        finally:
            await admin.close()
        cluster.topics, cluster.brokers, cluster.needs_all = dict(seen.topics), dict(seen.brokers), seen.needs_all
        return told_stuck(state, moves, direction=Direction.BACK)
    return ""


class Price(NamedTuple):
    """What an order makes be copied again: `back` by a rollback, of which `gone` is certain; and cancelled copies."""

    back: int
    gone: int
    cancelled: frozenset[TopicPartition]


def price_of(state: ExecutorState, command: Command, *, driven: bool) -> Price:
    """The price of an order. `state` is a journal's, of the caller's own: the order is applied to it.

    `driven`: an executor drives the journal, so its steps under way have not ended unseen.
    """
    back, gone = _rolled_back(state, command, driven=driven)
    before = unheld(state)
    for record in decide_command(state, command).records:
        apply(state, JournalEntry(state.next_sequence, SystemClock().now_ms(), "on paper", record))
    return Price(back, gone, unheld(state) - before)


def price_now(state: ExecutorState, command: Command) -> Price:
    """The price of an order that pauses, resumes, stops or rolls back, to the executor at work, whose state stays as it is.

    Cost: O(moves), and no journal is read, however often it is asked.
    """
    paper = copy.copy(state)
    paper.moves = dict(state.moves)
    for move in _named(state, command):
        turned = paper.moves[move.tp] = copy.copy(move)
        turned.paused = _PAUSED.get(command.kind, move.paused)
        turned.direction = _DIRECTIONS.get(command.kind, move.direction)
    return Price(*_rolled_back(state, command, driven=True), unheld(paper) - unheld(state))


_PAUSED = {CommandKind.PAUSE: True, CommandKind.RESUME: False}
_DIRECTIONS = {CommandKind.STOP: Direction.STOP, CommandKind.ROLL_BACK: Direction.BACK}


def _named(state: ExecutorState, command: Command) -> list[Move]:
    return [move for move in state.open_moves() if not command.partitions or move.tp in command.partitions]


def _rolled_back(state: ExecutorState, command: Command, *, driven: bool) -> tuple[int, int]:
    """The most bytes that a rollback copies, and those that are certain."""
    if command.kind is not CommandKind.ROLL_BACK:
        return 0, 0
    named = _named(state, command)
    gone = sum(map(rollback_bytes, named))
    return (gone if driven else sum(map(most_rollback_bytes, named))), gone


def told_price(price: Price, copied: Mapping[TopicPartition, int]) -> Again:
    """The price in bytes and words; `copied`: what the cancelled copies have copied so far."""
    told = ["originals that were dropped are deleted from disk"] if price.gone else []
    told += ["steps that no executor watched may have ended and dropped originals"] if price.back > price.gone else []
    told += [_told_cancelled(price.cancelled)] if price.cancelled else []
    return Again(price.back + sum(copied.values()), "; ".join(told), price.back > price.gone)


def _may_cost(place: JournalPlace, command: Command) -> bool:
    """Whether the journal has to be read. Most orders copy nothing, and the executor's view shows that at once."""
    view = None if command.kind in (CommandKind.ROLL_BACK, CommandKind.PAUSE) else read_view(place)
    return view is None or "paused" in view.counts


async def bytes_again_by_plan(
    target: Target, place: JournalPlace, moves: Sequence[MoveOrder], options: ExecutionOptions
) -> tuple[int, str]:
    """The bytes that a plan copies again if a running executor gets it, and why: it may cancel paused copies."""
    state, _holder = await asyncio.to_thread(read_journal, place)
    before = unheld(state)
    state.options = options_beside(state, options)
    state.limit = state.options.throttle
    into = {broker for order in moves for broker in order.target if broker not in order.planned_from}
    cancelled = await _copied(target, state, unheld(state, into=into) - before)
    return sum(cancelled.values()), _told_cancelled(cancelled) if cancelled else ""


def _told_cancelled(cancelled: Collection[TopicPartition]) -> str:
    return f"{counted(len(cancelled), 'paused copy is', 'paused copies are')} cancelled and begun again later, because a throttle would slow other replicas too"


async def _copied(
    target: Target, state: ExecutorState, partitions: frozenset[TopicPartition]
) -> dict[TopicPartition, int]:
    """Bytes that were copied of these partitions so far; a partition's whole size if its broker does not report it."""
    if not partitions:
        return {}
    moves = [move for move in state.stepping() if move.tp in partitions]
    copies: dict[BrokerId, list[TopicPartition]] = {}
    for move in moves:
        assert move.step is not None, "a move that steps has a step"
        for broker in move.step.adding:
            copies.setdefault(broker, []).append(move.tp)
    sizes: dict[TopicPartition, int] = {}
    with suppress(DriverError):
        admin = await connect(target)
        try:
            for (_broker, tp), size in (await admin.observe_log_dirs(copies)).sizes.items():
                sizes[tp] = sizes.get(tp, 0) + size.bytes
        finally:
            await admin.close()
    return {move.tp: sizes.get(move.tp, move.size_bytes) for move in moves}
