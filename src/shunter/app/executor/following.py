"""Follows a plan that was handed to the process that drives its journal, until the plan's moves have ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from shunter.app.executor.driving import Ended
from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.orders import holder_at
from shunter.app.executor.session import VIEW_EVERY_S, VIEW_SHARE, read_view
from shunter.core.executor.apply import apply
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.own_moves import OwnMoves
from shunter.core.executor.ready import Finish
from shunter.core.executor.state import ExecutorState
from shunter.drivers.host.clock import SystemClock
from shunter.views.execution import OPEN_STATES, ExecutionView, MoveRow, view_execution, view_of


async def follow(place: JournalPlace, plan_id: str, on_view: Callable[[ExecutionView], None]) -> Ended:
    """Follow a plan until its moves have ended, or no process drives them any more (`finish` None).

    `on_view` gets the views of the whole execution that the driver writes on this host.

    Raises:
        FormatError, DriverError: the journal can't be read.
    """
    state, own, last_ms = ExecutorState(), OwnMoves(plan_id), SystemClock().now_ms()
    while True:
        began = time.process_time()
        holder = await asyncio.to_thread(holder_at, place)
        seen = read_view(place, holder)
        if seen is not None and seen.at_ms > last_ms:
            last_ms = seen.at_ms
            on_view(seen)
        names = {str(tp) for tp in own.moves}
        if holder is None or seen is None or not any(_is_open(row) and row.partition in names for row in seen.moves):
            view = await asyncio.to_thread(_read, place, state, own)
            goes_on = any(map(_is_open, view.moves))
            if holder is None or not goes_on:
                return Ended(None if goes_on else Finish(), view, back=own.back)
        await asyncio.sleep(max(VIEW_EVERY_S, (time.process_time() - began) * VIEW_SHARE))


def _is_open(row: MoveRow) -> bool:
    return row.state in OPEN_STATES


def _read(place: JournalPlace, state: ExecutorState, own: OwnMoves) -> ExecutionView:
    """Fold what the journal got since the last time; returns the view of the plan's own moves."""
    journal = place.open("reader")
    try:
        entries = journal.load()
    finally:
        journal.close()
    for entry in entries:
        if entry.sequence >= state.next_sequence:
            apply(state, entry)
            own.take(state, entry)
    meter = Meter()
    whole = view_execution(state, meter, state.limit, SystemClock().now_ms())
    # The process that drives the journal gives throttles back.
    return replace(view_of(whole, state, meter, own.moves.values()), owed="")
