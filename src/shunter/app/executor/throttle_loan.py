"""The cluster's journal in the hand of a command that drives nothing, to restore throttles that the journal owes."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.lease_acquisition import refuse_standing
from shunter.core.executor.apply import apply
from shunter.core.executor.state import ExecutorState
from shunter.core.throttles import Loan, repay
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
)

if TYPE_CHECKING:
    from shunter.drivers.admin.cluster import KafkaPythonAdmin


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
