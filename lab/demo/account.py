"""The output of the demo, as values; the terminal decides how it looks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class MovesSeen:
    """One look at the moves. `rate` and `eta` are None while they are not known; bytes and seconds."""

    elapsed_s: float
    partitions: int
    done: int
    moving: int
    pending: int
    bytes_copied: int
    bytes_total: int
    rate_bytes_per_s: float | None
    eta_s: float | None
    acked: int
    consumed: int
    waits: tuple[str, ...]
    """What the first few moves wait for, a sentence each."""
    controller: str


@dataclass(frozen=True, slots=True)
class ProvedOrNot:
    """One claim, and whether it was proved; `found` says what was seen."""

    claim: str
    holds: bool
    found: str


@dataclass(frozen=True, slots=True)
class Account:
    """The results of a demo."""

    moved: int
    stopped: str
    rolled_back: str
    records_acked: int
    longest_ack_gap_s: float
    moving_s: float
    killed: str
    """The process that was killed with SIGKILL in the middle: controller or executor."""
    back_s: float
    """Seconds from the kill until the next process was at work."""
    bytes_copied: int
    checks: tuple[ProvedOrNot, ...]

    @property
    def holds(self) -> bool:
        """Whether everything that was promised is true."""
        return all(check.holds for check in self.checks)


@dataclass(frozen=True, slots=True)
class SequelAccount:
    """The results of the second half. Durations are seconds; None: nothing was executed."""

    seconds: float
    """From the first snapshot to the report."""
    copies: int
    bytes_copied: int
    planned_s: float | None
    took_s: float | None
    before: str
    """The least and the greatest share of the mean that a broker had, by resource."""
    after: str
    records_acked: int
    report: Path
    checks: tuple[ProvedOrNot, ...]

    @property
    def holds(self) -> bool:
        """Whether everything that was promised is true."""
        return all(check.holds for check in self.checks)


@dataclass(frozen=True, slots=True)
class ServedAccount:
    """The results of the demo of the service: figures with their names, and claims."""

    rows: tuple[tuple[str, str], ...]
    checks: tuple[ProvedOrNot, ...]

    @property
    def holds(self) -> bool:
        """Whether everything that was promised is true."""
        return all(check.holds for check in self.checks)


class Screen(Protocol):
    """The display of a demo."""

    def step(self, text: str) -> None:
        """Show that a step of the demo begins."""

    def detail(self, text: str) -> None:
        """Show a detail of the step."""

    def progress(self, progress: MovesSeen) -> None:
        """Show how far the moves have got."""

    def account(self, account: Account) -> None:
        """Show the results of the first half."""

    def sequel(self, account: SequelAccount) -> None:
        """Show the results of the second half."""

    def served(self, account: ServedAccount) -> None:
        """Show the results of the demo of the service."""
