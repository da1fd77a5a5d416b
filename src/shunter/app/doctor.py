"""A check-up of a cluster: what was seen there, what the journal says, and the findings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.session import LoadedJournal, Target, claim_name, connect, load_journal, place_of
from shunter.app.executor.throttles import throttles_set
from shunter.core.check_up import diagnose
from shunter.core.executor.state import ExecutorState
from shunter.core.executor.throttling.debts import own_rates, told_debts
from shunter.drivers.admin.check_up import HURRIED_S, named_operations, take_check_up
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.claim import GROUP, claim_seen_by
from shunter.drivers.journal.journals import this_process
from shunter.errors import DriverError, FormatError
from shunter.model.check_up import CheckedJournal, CheckUp, Finding, OpenMove
from shunter.model.execution import JournalEntry
from shunter.views.execution import told_state

if TYPE_CHECKING:
    from shunter.drivers.admin.cluster import KafkaPythonAdmin


SKEW_MS = 10_000
"""How far the clock of the host that writes the journal may be behind this host's."""


class LookedOver(NamedTuple):
    """What was seen of a cluster and of its journal."""

    seen: CheckUp
    journal: CheckedJournal
    entries: Sequence[JournalEntry] | None
    """The journal's entries; None: it can't be read."""


async def examine(target: Target) -> tuple[CheckUp, tuple[Finding, ...]]:
    """Look at a cluster and its journal, and judge both.

    Raises:
        DriverError: the cluster does not answer, or does not let us in.
        SettingsError, FormatError: the properties file can't be used.
    """
    looked = await look_over(target)
    return looked.seen, diagnose(looked.seen, looked.journal)


async def look_over(target: Target) -> LookedOver:
    """Look at a cluster and its journal.

    Raises:
        DriverError: the cluster does not answer, or does not let us in.
        SettingsError, FormatError: the properties file can't be used.
    """
    admin = await connect(target)
    began_ms = SystemClock().now_ms()
    try:
        seen = await take_check_up(admin)
        place = place_of(target, seen.cluster_id)
        claimant, seen = await _look_at_claim(admin, place, seen)
        journal, loaded, seen = await _look_into_journal(place, claimant, seen, began_ms - SKEW_MS)
        seen = await _look_at_throttles(admin, loaded, seen)
        journal = replace(journal, topic=place.topic or "")
        return LookedOver(seen, journal, None if loaded is None else loaded.entries)
    finally:
        await admin.close()


def _unread(seen: CheckUp, what: str, error: Exception) -> CheckUp:
    return replace(seen, unread=(*seen.unread, (what, str(error))))


async def _look_at_claim(admin: KafkaPythonAdmin, place: JournalPlace, seen: CheckUp) -> tuple[str, CheckUp]:
    """The executor that drives the cluster ("": none does), and this user's permissions on the claim."""
    what, permission = f"looking for the claim (group {GROUP})", f"Describe on Group {GROUP}"
    try:
        # The group's coordinator may be the broker that hangs.
        async with asyncio.timeout(HURRIED_S if any(broker.silent for broker in seen.brokers) else None):
            found = await admin.ask(
                what, permission, lambda client: claim_seen_by(client, claim_name(place), this_process())
            )
    except TimeoutError:
        return "", _unread(seen, "who drives the cluster", DriverError("a broker hangs", retriable=True))
    except DriverError as error:
        return "", _unread(seen, "who drives the cluster", error)
    return found.claimant, replace(seen, claim_operations=named_operations(found.operations))


async def _look_into_journal(
    place: JournalPlace, claimant: str, seen: CheckUp, since_ms: int
) -> tuple[CheckedJournal, LoadedJournal | None, CheckUp]:
    """What the journal says; if it can't be read, the error becomes part of what was seen.

    The journal is read after the cluster. A move that ended since `since_ms` may have been seen under way there.
    """
    if not place.exists():
        return CheckedJournal(str(place), claimant=claimant), LoadedJournal((), ExecutorState(), None), seen
    try:
        loaded = await asyncio.to_thread(load_journal, place)
    except (DriverError, FormatError) as error:
        return CheckedJournal(str(place), claimant=claimant), None, _unread(seen, f"journal {place}", error)
    journal = CheckedJournal(
        str(place),
        "" if loaded.holder is None else str(loaded.holder),
        claimant if loaded.holder is None else "",
        told_debts(loaded.state.owed()),
        ("", "") if loaded.standing is None else (str(loaded.standing), loaded.standing.way_out),
        frozenset(
            move.tp for move in loaded.state.moves.values() if move.ended is not None and move.ended.at_ms >= since_ms
        ),
        tuple(
            OpenMove(move.tp, move.original, move.target, told_state(move), move.direction.value)
            for move in loaded.state.open_moves()
        ),
        loaded.state.cordoned(),
        rates=own_rates(loaded.state, SystemClock().now_ms()),
    )
    return journal, loaded, seen


async def _look_at_throttles(admin: KafkaPythonAdmin, loaded: LoadedJournal | None, seen: CheckUp) -> CheckUp:
    """Throttles that the journal does not know. Without the journal it is unknown which throttles these are."""
    if loaded is None:
        told = "the journal, which knows the executor's own throttles, can't be read"
        return replace(seen, unread=(*seen.unread, ("throttles", told)))
    try:
        found = await throttles_set(admin, loaded.state)
    except (DriverError, FormatError) as error:
        return _unread(seen, "throttles", error)
    loose = [each for each in found if not each.journaled]
    partial = tuple(str(each) for each in loose if each.lacking)
    return replace(seen, throttles=tuple((each.key, each.value) for each in loose), partial=partial)
