"""A rule that was broken: what ends a world."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that was broken, and how."""

    rule: str
    told: str
    at_us: int

    def __str__(self) -> str:
        """Return one line of text."""
        return f"{self.rule}: {self.told} (at {self.at_us / 1_000_000:.3f} s)"
