"""What the demo tells, as values; how it looks is the terminal's business."""

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
    """What waits for what, a sentence each, the first few."""
    controller: str


@dataclass(frozen=True, slots=True)
class ProvedOrNot:
    """One thing that was proved, or not: `found` says what was seen."""

    claim: str
    holds: bool
    found: str


@dataclass(frozen=True, slots=True)
class Account:
    """What came of it."""

    moved: int
    stopped: str
    rolled_back: str
    records_acked: int
    longest_ack_gap_s: float
    moving_s: float
    killed: str
    """Which part of ours was killed with SIGKILL in the middle."""
    back_s: float
    """Seconds from the kill until it was at work again."""
    bytes_copied: int
    checks: tuple[ProvedOrNot, ...]

    @property
    def holds(self) -> bool:
        """Whether everything that was promised is true."""
        return all(check.holds for check in self.checks)


@dataclass(frozen=True, slots=True)
class SequelAccount:
    """What came of the second half. Durations are seconds, None where there was nothing to execute."""

    seconds: float
    """From the first snapshot to the report."""
    copies: int
    bytes_copied: int
    planned_s: float | None
    took_s: float | None
    before: str
    """Least and largest share of the mean that a broker had, by resource."""
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
    """What came of the demo of the service: figures with their names, and claims."""

    rows: tuple[tuple[str, str], ...]
    checks: tuple[ProvedOrNot, ...]

    @property
    def holds(self) -> bool:
        """Whether everything that was promised is true."""
        return all(check.holds for check in self.checks)


class Screen(Protocol):
    """Where the demo tells what it does."""

    def step(self, text: str) -> None:
        """Something begins."""

    def detail(self, text: str) -> None:
        """Something goes on, or is there."""

    def progress(self, progress: MovesSeen) -> None:
        """The moves as they stand."""

    def account(self, account: Account) -> None:
        """The end of the first half."""

    def sequel(self, account: SequelAccount) -> None:
        """The end of the second half."""

    def served(self, account: ServedAccount) -> None:
        """The end of the demo of the service."""
