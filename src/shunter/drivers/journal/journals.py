"""The common part of all journals: the lease of the executor that drives one, errors, and other shells' orders."""

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
ANSWER_WITHIN_S = 30.0
"""How long a shell waits for the answer to its order."""


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
    """The journal's file can no longer be written or read: a full disk, or it was damaged or deleted while it was open."""


class JournalUnwritten(JournalUnusable):
    """The journal is whole, but can't be written or opened where it is: a full disk, or a missing right."""


class JournalFenced(DriverError):
    """This executor drove the journal, and another one does now: this one may send nothing more."""


class JournalForsaken(JournalFenced):
    """Another executor took the lease from this one, and has given it back or has ended: no executor drives now."""

    def __init__(self, place: str) -> None:
        """Make the error about the journal at `place`."""
        told = f"another executor took the lease of {place} from this one, and no executor has it any more"
        super().__init__(told, retriable=False)


class JournalBusy(DriverError):
    """Another process has locked the journal for now; nothing was written."""


class OrderRow(NamedTuple):
    """Another shell's order: `kind` is 'command' or 'plan'; `body` is JSON; `answer` is None until it is answered."""

    number: int
    at_ms: int
    kind: str
    body: str
    answer: str | None


class LeasedJournal(Protocol):
    """A journal that one process drives at a time. Calls block; each raises `DriverError`."""

    def load(self, after: int = 0) -> tuple[JournalEntry, ...]:
        """Return all entries after this sequence number; `JournalDamaged` if one is damaged or missing."""
        ...

    def append(self, entries: Sequence[JournalEntry], now_ms: int) -> None:
        """Make entries durable, all or none; `JournalFenced` if another executor has the lease."""
        ...

    def acquire(self, now_ms: int) -> None:
        """Take the lease; `JournalHeld` if another executor has it."""
        ...

    def renew(self, now_ms: int) -> None:
        """Renew the lease; `JournalFenced` if another executor has it."""
        ...

    def check(self) -> None:
        """Check that this executor has the lease; `JournalFenced` if another one has it."""
        ...

    def release(self) -> None:
        """Give the lease back, if this executor has it."""
        ...

    def holder(self, now_ms: int) -> LeaseHolder | None:
        """Return the executor that drives the journal now; None if no executor does."""
        ...

    def lease(self) -> LeaseHolder | None:
        """Return the lease as the journal has it, even if it does not count any more; None if there is none."""
        ...

    def order(self, kind: str, document: object, now_ms: int) -> int:
        """Send an order to the executor that drives the journal; return the order's number."""
        ...

    def orders(self) -> tuple[OrderRow, ...]:
        """Return the orders without an answer, oldest first."""
        ...

    def answer(self, number: int, text: str) -> None:
        """Answer an order."""
        ...

    def answer_to(self, number: int) -> str | None:
        """Return the answer to an order; None if there is none yet."""
        ...

    def withdraw(self, number: int, now_ms: int) -> bool:
        """Withdraw an order without an answer, if no executor drives the journal; return whether it was withdrawn."""
        ...

    def close(self) -> None:
        """Close the journal; the lease stays as it is."""
        ...


class Presence(NamedTuple):
    """A process: host, number, address of its service; `alive` returns whether a process of the same host runs."""

    host: str
    process: int
    alive: Callable[[int], bool]
    address: str = ""

    def lapsed(self, holder: LeaseHolder, now_ms: int) -> bool:
        """Whether the holder's lease does not count: it has expired, or its process was of this host and has ended."""
        return holder.expires_at_ms <= now_ms or self.has_ended(holder)

    def has_ended(self, holder: LeaseHolder) -> bool:
        """Whether the holder was a process of this host that has ended."""
        return holder.host == self.host and not self.alive(holder.process)

    def lease(self, owner: str, now_ms: int) -> LeaseHolder:
        """Return the lease that this process would take now."""
        return LeaseHolder(owner, self.host, self.process, now_ms + LEASE_MS, self.address)


def this_process(address: str = "") -> Presence:
    """Return the presence of this process; `address`: where its service is reached."""
    return Presence(socket.gethostname(), os.getpid(), _alive, address)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
