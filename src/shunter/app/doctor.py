"""A check-up of a cluster: what was seen there, what the journal says, and what that comes to."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import NamedTuple

from shunter.app.client_configuration import configuration_of
from shunter.app.executor import Target, claim_name, connect, journal_place, read_journal
from shunter.app.journals import JournalPlace
from shunter.app.throttles import list_throttles
from shunter.core.check_up import diagnose
from shunter.core.executor.debts import told_debts
from shunter.drivers.admin.check_up import named_operations, take_check_up
from shunter.drivers.cluster_claim import see_claim
from shunter.errors import DriverError, FormatError
from shunter.model.check_up import CheckedJournal, CheckUp, Finding


class LookedOver(NamedTuple):
    """What was seen of a cluster and of its journal."""

    seen: CheckUp
    journal: CheckedJournal
    place: JournalPlace


async def examine(target: Target) -> tuple[CheckUp, tuple[Finding, ...]]:
    """Look a cluster over, and its journal, and judge both.

    Raises:
        DriverError: the cluster does not answer, or does not let us in.
        SettingsError, FormatError: the properties file can't be used.
    """
    looked = await look_over(target)
    return looked.seen, diagnose(looked.seen, looked.journal)


async def look_over(target: Target) -> LookedOver:
    """Look a cluster over, and its journal.

    Raises:
        DriverError: the cluster does not answer, or does not let us in.
        SettingsError, FormatError: the properties file can't be used.
    """
    admin = await connect(target)
    try:
        seen = await take_check_up(admin)
        place = await journal_place(target, admin)
    finally:
        await admin.close()
    claimant, seen = await _look_at_claim(target, place, seen)
    journal, seen = await _look_into_journal(place, claimant, seen)
    try:
        left = tuple((each.key, each.value) for each in await list_throttles(target) if not each.journaled)
        seen = replace(seen, throttles=left)
    except (DriverError, FormatError) as error:
        seen = _unread(seen, "throttles", error)
    return LookedOver(seen, journal, place)


def _unread(seen: CheckUp, what: str, error: Exception) -> CheckUp:
    return replace(seen, unread=(*seen.unread, (what, str(error))))


async def _look_at_claim(target: Target, place: JournalPlace, seen: CheckUp) -> tuple[str, CheckUp]:
    """Who drives the cluster, and what we may do to the claim."""
    try:
        found = await see_claim(configuration_of(target.bootstrap, target.properties), claim_name(place))
    except DriverError as error:
        return "", _unread(seen, "who drives the cluster", error)
    return found.claimant, replace(seen, claim_operations=named_operations(found.operations))


async def _look_into_journal(place: JournalPlace, claimant: str, seen: CheckUp) -> tuple[CheckedJournal, CheckUp]:
    """What the journal says; where it can't be read, that becomes part of what was seen."""
    if not place.exists():
        return CheckedJournal(str(place), claimant=claimant), seen
    try:
        state, holder = await asyncio.to_thread(read_journal, place)
    except (DriverError, FormatError) as error:
        return CheckedJournal(str(place), claimant=claimant), _unread(seen, f"journal {place}", error)
    journal = CheckedJournal(
        str(place),
        "" if holder is None else str(holder),
        claimant if holder is None else "",
        frozenset(move.tp for move in state.open_moves()),
        told_debts(state.owed()),
    )
    return journal, seen
