"""A check-up of a cluster: what was seen there, what the journal says, and what that comes to."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from shunter.app.client_configuration import configuration_of
from shunter.app.executor import Target, claimed_by, connect, journal_place, read_journal
from shunter.app.throttles import list_throttles
from shunter.core.check_up import diagnose
from shunter.core.executor.debts import told_debts
from shunter.drivers.admin.check_up import take_check_up
from shunter.errors import DriverError, FormatError
from shunter.model.check_up import CheckedJournal, CheckUp, Finding


async def examine(target: Target) -> tuple[CheckUp, tuple[Finding, ...]]:
    """Look a cluster over, and its journal, and judge both.

    Raises:
        DriverError: the cluster does not answer, or does not let us in.
        SettingsError, FormatError: the properties file can't be used.
    """
    seen = await asyncio.to_thread(take_check_up, configuration_of(target.bootstrap, target.properties))
    seen, journal = await _look_into_journal(target, seen)
    try:
        left = tuple((each.key, each.value) for each in await list_throttles(target) if not each.journaled)
        seen = replace(seen, throttles=left)
    except (DriverError, FormatError) as error:
        seen = replace(seen, unread=(*seen.unread, ("throttles", str(error))))
    return seen, diagnose(seen, journal)


async def _look_into_journal(target: Target, seen: CheckUp) -> tuple[CheckUp, CheckedJournal]:
    """What the journal says; where it can't be read, that becomes part of what was seen."""
    admin = await connect(target)
    try:
        place = await journal_place(target, admin)
    finally:
        await admin.close()
    claimant = await claimed_by(target)
    if not place.exists():
        return seen, CheckedJournal(str(place), claimant=claimant)
    try:
        state, holder = await asyncio.to_thread(read_journal, place)
    except (DriverError, FormatError) as error:
        unread = (*seen.unread, (f"journal {place}", str(error)))
        return replace(seen, unread=unread), CheckedJournal(str(place), claimant=claimant)
    journal = CheckedJournal(
        str(place),
        "" if holder is None else str(holder),
        claimant if holder is None else "",
        frozenset(move.tp for move in state.open_moves()),
        told_debts(state.owed()),
    )
    return seen, journal
