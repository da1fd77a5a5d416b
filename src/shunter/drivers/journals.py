"""What every journal has in common: the lease of the executor that drives it, its errors, other shells' orders to it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from shunter.core.wording import counted
from shunter.errors import DriverError, FormatError
from shunter.model.execution import JournalEntry, LeaseHolder

LEASE_MS = 15_000
"""Another executor may take a lease that was not renewed for so long."""


class JournalDamaged(FormatError):
    """The journal can't be trusted. `readable` are the entries before the damage, in order."""

    def __init__(self, place: str, rule: str, readable: tuple[JournalEntry, ...]) -> None:
        self.readable = readable
        told = (
            f"; {counted(len(readable), 'entry', 'entries')} can still be read"
            if readable
            else "; nothing of it can be read"
        )
        super().__init__(place, rule + told)


class JournalHeld(DriverError):
    """Another executor drives this journal."""

    def __init__(self, place: str, holder: LeaseHolder) -> None:
        self.holder = holder
        super().__init__(f"{place} is driven by {holder}: ask it (`shunter status`), or wait for it", retriable=False)


class JournalUnusable(DriverError):
    """The journal's file can't be written or read any more: a full disk, a file that was damaged while we drove it."""


class JournalFenced(DriverError):
    """We drove this journal, and somebody else does now: nothing may be sent any more."""


class JournalBusy(DriverError):
    """Somebody else holds the journal's lock for now; nothing was written."""


class JournalRestored(JournalBusy):
    """The journal had been deleted and was written again; what was to be done with it is to be tried again."""


class OrderRow(NamedTuple):
    """What another shell asks: kind is 'command' or 'plan'; body is JSON; answer is None until it is answered."""

    number: int
    at_ms: int
    kind: str
    body: str
    answer: str | None


class LeasedJournal(Protocol):
    """A journal that one process drives at a time. Calls block; each raises `DriverError`."""

    def load(self, after: int = 0) -> tuple[JournalEntry, ...]:
        """All entries after the one of this sequence; `JournalDamaged` if one of them is damaged or missing."""
        ...

    def append(self, entries: Sequence[JournalEntry], now_ms: int) -> None:
        """Make entries durable, all or none; `JournalFenced` if we may not."""
        ...

    def acquire(self, now_ms: int) -> None:
        """Take the lease; `JournalHeld` if another has it."""
        ...

    def renew(self, now_ms: int) -> None:
        """Keep the lease; `JournalFenced` if another has it."""
        ...

    def check(self) -> None:
        """See that the lease is ours; `JournalFenced` if another has it."""
        ...

    def release(self) -> None:
        """Give the lease back, if it is ours."""
        ...

    def holder(self, now_ms: int) -> LeaseHolder | None:
        """Which executor drives it now."""
        ...

    def order(self, kind: str, document: object, now_ms: int) -> int:
        """Ask something of the executor that drives it; returns the order's number."""
        ...

    def orders(self) -> tuple[OrderRow, ...]:
        """Orders without an answer, in the order in which they came."""
        ...

    def answer(self, number: int, text: str) -> None:
        """Answer an order."""
        ...

    def answer_to(self, number: int) -> str | None:
        """The answer to an order; None as long as there is none."""
        ...

    def withdraw(self, number: int, now_ms: int) -> bool:
        """Take back an order without an answer, if no executor drives the journal; says whether that is done."""
        ...

    def close(self) -> None:
        """Close the journal; the lease stays as it is."""
        ...


class Presence(NamedTuple):
    """The host and the number of a process; `alive` tells whether a process of the same host still runs."""

    host: str
    process: int
    alive: Callable[[int], bool]

    def lapsed(self, holder: LeaseHolder, now_ms: int) -> bool:
        """Whether the holder is gone: its lease ran out, or it was a process of this host that is no more."""
        if holder.expires_at_ms <= now_ms:
            return True
        return holder.host == self.host and not self.alive(holder.process)

    def lease(self, owner: str, now_ms: int) -> LeaseHolder:
        """The lease that this process would take now."""
        return LeaseHolder(owner, self.host, self.process, now_ms + LEASE_MS)


def this_process() -> Presence:
    """The process that we are."""
    return Presence(socket.gethostname(), os.getpid(), _alive)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
