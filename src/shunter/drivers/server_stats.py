"""What the listener counts, and what it logs of those whom it turns away."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

_LOG = logging.getLogger(__name__)

QUIET_SECONDS = 10.0
"""At most one line is logged for a reason in this time; it says how many refusals there were since the last one."""
_KINDS_REMEMBERED = 1_000

PRINCIPALS_AT_MOST = 1_000
"""Pairs of API and principal that are counted apart."""
OTHERS = "(others)"


@dataclass(slots=True)
class ServerStats:
    """Counters since the start, but for what is told as now. One writer: the event loop."""

    refused: dict[str, int] = field(default_factory=dict)
    """Connections that were turned away, by reason."""
    closed: dict[str, int] = field(default_factory=dict)
    """Connections that were taken and then closed by us, by reason."""
    denied: dict[str, int] = field(default_factory=dict)
    """What was refused for want of a permission, by operation."""
    requests: dict[int, int] = field(default_factory=dict)
    """Answered, by API key."""
    handling_seconds: dict[int, float] = field(default_factory=dict)
    """From the first look at it to the answer, by API key: waiting for core and brokers included, for a turn not."""
    by_principal: dict[tuple[int, str], int] = field(default_factory=dict)
    """Answered, by API key and principal."""
    bytes_in: int = 0
    bytes_out: int = 0
    _logged: dict[str, tuple[float, int]] = field(default_factory=dict)

    def answered(self, api_key: int, seconds: float, principal: str) -> None:
        """Count an answered request."""
        who = (api_key, principal)
        if who not in self.by_principal and len(self.by_principal) >= PRINCIPALS_AT_MOST:
            who = (api_key, OTHERS)
        self.by_principal[who] = self.by_principal.get(who, 0) + 1
        self.requests[api_key] = self.requests.get(api_key, 0) + 1
        self.handling_seconds[api_key] = self.handling_seconds.get(api_key, 0.0) + seconds

    def refuse(self, reason: str, told: str) -> None:
        """Count and log a connection that was turned away."""
        self.refused[reason] = self.refused.get(reason, 0) + 1
        self._log(reason, told, logging.WARNING)

    def close(self, reason: str, told: str, level: int = logging.WARNING, *, of: str = "") -> None:
        """Count and log a connection that we closed; `of` is a finer reason, each of which is logged for itself."""
        self.closed[reason] = self.closed.get(reason, 0) + 1
        self._log(f"{reason} {of}", told, level)

    def deny(self, operation: str, told: str) -> None:
        """Count and log something that somebody may not do."""
        self.denied[operation] = self.denied.get(operation, 0) + 1
        self._log(told, told, logging.INFO)

    def _log(self, reason: str, told: str, level: int) -> None:
        now = time.monotonic()
        last, silent = self._logged.get(reason, (-QUIET_SECONDS, 0))
        if now - last < QUIET_SECONDS:
            self._logged[reason] = last, silent + 1
            return
        if len(self._logged) > _KINDS_REMEMBERED:
            self._logged.clear()  # Reasons hold names that strangers choose.
        self._logged[reason] = now, 0
        more = f" ({silent} more of the kind were not logged)" if silent else ""
        _LOG.log(level, "%s%s", told, more)
