"""Whether this controller has reached no broker for so long that it has to make room for one that may.

A controller that no broker hears keeps every other process from acting. How the seat is given back, and how this process
stands again: docs/decisions/0028-giving-the-seat-back.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from shunter.core.controller.outbox import Outbox
from shunter.core.controller.state import ControllerState
from shunter.core.wording import counted
from shunter.model.settings import ControllerSettings


@dataclass(slots=True)
class Isolation:
    """Since when no registered broker can be reached. One instance per term."""

    state: ControllerState
    settings: ControllerSettings
    outbox: Outbox
    since_ms: int | None = None
    """When the last broker was lost; None: one was reached since, or none is registered."""

    def reached(self) -> None:
        """A broker answered, or there is a connection to it."""
        self.since_ms = None

    def resigns(self, now_ms: int) -> str:
        """Return why this controller has to resign; empty: it does not. Cost: O(1)."""
        if not self._others:
            self.since_ms = None
        elif self._isolated and self.since_ms is None:
            self.since_ms = now_ms
        if self.due_ms is None or now_ms < self.due_ms:
            return ""
        others = counted(len(self.outbox.unreachable), "live broker")
        seconds = self.settings.isolated_after_ms // 1_000
        return f"we have reached none of {others} for {seconds} s: another controller may reach one"

    @property
    def due_ms(self) -> int | None:
        """When this controller has to resign if it still reaches nobody; None: it reaches one, or that is open."""
        return self.since_ms + self.settings.isolated_after_ms if self._isolated and self.since_ms is not None else None

    @property
    def _isolated(self) -> bool:
        """Whether no registered broker can be reached. If none is registered, nobody is isolated.

        A broker that came a moment ago counts as reachable until it turns out that it is not. It does not end an
        isolation that has begun: while brokers come and go, this controller may still reach none of them.
        """
        return 0 < self._others <= len(self.outbox.unreachable)

    @property
    def _others(self) -> int:
        """The number of live brokers except the controller."""
        brokers = self.state.brokers
        return len(brokers) - (self.state.controller_id in brokers)
