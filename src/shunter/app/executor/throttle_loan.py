"""Throttles for moves of Shunter's controller: journalled, set, and restored.

Like an executor's throttles, they are entries of the cluster's journal, written under its lease. So a process that dies
with throttles in force leaves a record of the former values. `shunter throttles clear` and every later executor restore
them.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.lease_acquisition import refuse_standing
from shunter.core.executor.apply import apply
from shunter.core.executor.state import ExecutorState
from shunter.core.executor.throttling.throttles import is_doubtful
from shunter.core.throttles import Loan, borrow, repay
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.host.whole_calls import to_its_end
from shunter.drivers.journal.journals import LeasedJournal
from shunter.errors import DriverError
from shunter.model.execution import (
    LOAN,
    JournalEntry,
    JournalRecord,
    ThrottleKey,
    ThrottleRestored,
    ThrottleSet,
)

if TYPE_CHECKING:
    from shunter.drivers.admin.answers import SettingsSeen
    from shunter.drivers.admin.cluster import KafkaPythonAdmin


LATE_EVERY_S = 2.0
"""How often a setting is read again if a late broker may have shown it."""


class JournalInHand:
    """The cluster's journal, whose lease this process holds."""

    def __init__(self, place: JournalPlace, cause: str) -> None:
        """Take the lease, and fold the journal.

        Raises:
            JournalHeld: an executor drives the journal.
            StandsStill: an executor of this host would drive the journal, but stands still.
            FormatError: the journal is damaged, or can't be made.
        """
        self._cause = cause
        self._journal: LeasedJournal = place.open(LOAN + uuid.uuid4().hex)
        try:
            refuse_standing(place, self._journal)
            self._journal.acquire(SystemClock().now_ms())
            self.state = ExecutorState()
            for entry in self._journal.load():
                apply(self.state, entry)
        except BaseException:
            self._journal.close()
            raise

    def append(self, records: Sequence[JournalRecord]) -> None:
        """Make records durable, and apply them."""
        if not records:
            return
        now_ms = SystemClock().now_ms()
        numbered = enumerate(records, start=self.state.next_sequence)
        entries = [JournalEntry(number, now_ms, self._cause, record) for number, record in numbered]
        self._journal.append(entries, now_ms)
        for entry in entries:
            apply(self.state, entry)

    def renew(self) -> None:
        """Keep the lease.

        Raises:
            JournalFenced: another process has taken it.
        """
        self._journal.renew(SystemClock().now_ms())

    def close(self) -> None:
        """Give the lease back."""
        try:
            with contextlib.suppress(DriverError):
                self._journal.release()
        finally:
            self._journal.close()


@contextlib.contextmanager
def in_hand(place: JournalPlace, cause: str) -> Iterator[JournalInHand]:
    """A `JournalInHand` while the block runs."""
    journal = JournalInHand(place, cause)
    try:
        yield journal
    finally:
        journal.close()


def _loans(state: ExecutorState, keys: Iterable[ThrottleKey]) -> dict[ThrottleKey, Loan]:
    return {
        key: Loan(state.throttles[key].before, frozenset(state.throttles[key].ours))
        for key in keys
        if key in state.throttles
    }


class LoanTaken(NamedTuple):
    """Settings not known to be in force. `refused`: the cluster refused them; `late`: accepted, not seen in time."""

    refused: dict[ThrottleKey, str]
    late: dict[ThrottleKey, str]


async def _read_surely(journal: JournalInHand, admin: KafkaPythonAdmin, keys: Sequence[ThrottleKey]) -> SettingsSeen:
    """Read settings. A value that a late broker may have shown is read again, until no broker can be late.

    Otherwise a value that was restored a moment ago would count as another tool's. It would be journalled as the former
    value and restored at the end, as a throttle that no tool wanted.
    """
    while True:
        seen = await admin.read_settings(keys)
        now_ms = SystemClock().now_ms()
        if not any(is_doubtful(journal.state, key, seen.own[key], now_ms) for key in keys):
            return seen
        await asyncio.sleep(LATE_EVERY_S)
        await to_its_end(journal.renew)


async def set_throttles(
    journal: JournalInHand, admin: KafkaPythonAdmin, wanted: Mapping[ThrottleKey, str]
) -> LoanTaken:
    """Journal settings and set them; a refused one is journalled too.

    Raises:
        DriverError: the cluster does not answer, or a permission is missing.
    """
    seen = await _read_surely(journal, admin, list(wanted))
    records = borrow(wanted, seen.own, seen.effective, _loans(journal.state, wanted))
    await to_its_end(journal.append, records)
    changes: list[tuple[ThrottleKey, str | None]]
    changes = [(record.key, record.value) for record in records if isinstance(record, ThrottleSet)]
    refused = {key: why.told for key, why in (await admin.write_patiently(dict(changes))).items()}
    late = await admin.not_in_force({key: value for key, value in changes if key not in refused})
    return LoanTaken(refused, late)


async def give_back(
    journal: JournalInHand, admin: KafkaPythonAdmin, keys: Sequence[ThrottleKey]
) -> dict[ThrottleKey, str]:
    """Restore journalled settings. A setting that another tool has changed since stays as it is.

    Returns:
        Settings that could not be restored, and why; they stay in the journal.
    """
    live = {str(broker) for broker in await admin.brokers()}
    dead = {key: "its broker is not live" for key in keys if key.kind == "broker" and key.name not in live}
    loans = _loans(journal.state, [key for key in keys if key not in dead])
    changes, left = repay(loans, (await admin.read_settings(list(loans))).own)
    errors = {key: why.told for key, why in (await admin.alter_settings(list(changes.items()))).items()}
    restored = [ThrottleRestored(key, left=key in left) for key in loans if key not in errors]
    await to_its_end(journal.append, restored)
    return dead | errors
