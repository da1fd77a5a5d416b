"""What an order makes be copied again, told before it is given."""

from __future__ import annotations

import asyncio

from shunter.app.executor import read_journal
from shunter.app.journals import JournalPlace
from shunter.core.executor.orders import rollback_bytes
from shunter.model.execution import Command, CommandKind


async def bytes_again(place: JournalPlace, command: Command) -> int:
    """Bytes that an order makes be copied again, as the journal tells; 0 where there is none, or nothing is open."""
    if command.kind is not CommandKind.ROLL_BACK or not place.exists():
        return 0
    state, _holder = await asyncio.to_thread(read_journal, place)
    named = [move for move in state.open_moves() if not command.partitions or move.tp in command.partitions]
    return sum(rollback_bytes(move) for move in named)
