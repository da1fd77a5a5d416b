"""Counters of the listener, and its log lines about refused and closed connections."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

_LOG = logging.getLogger(__name__)

QUIET_SECONDS = 10.0
"""At most one line per reason is logged in this time; it says how many lines were left out since the last one."""
_KINDS_REMEMBERED = 1_000

PRINCIPALS_AT_MOST = 1_000
"""Pairs of API and principal that are counted separately."""
OTHERS = "(others)"


@dataclass(slots=True)
class ServerStats:
    """Counters since the start. One writer: the event loop."""

    refused: dict[str, int] = field(default_factory=dict)
    """Connections that were turned away, by reason."""
    closed: dict[str, int] = field(default_factory=dict)
    """Connections that were accepted and then closed by this server, by reason."""
    denied: dict[str, int] = field(default_factory=dict)
    """Operations that were refused because of a missing right, by operation."""
    requests: dict[int, int] = field(default_factory=dict)
    """Answered requests by API key."""
    handling_seconds: dict[int, float] = field(default_factory=dict)
    """Seconds from a request's begin to its answer, by API key: with waits for core and brokers, not for a turn."""
    by_principal: dict[tuple[int, str], int] = field(default_factory=dict)
    """Answered requests by API key and principal."""
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
        """Count and log a connection that this server closed. Lines with different `of` are limited separately."""
        self.closed[reason] = self.closed.get(reason, 0) + 1
        self._log(f"{reason} {of}", told, level)

    def deny(self, operation: str, told: str) -> None:
        """Count and log an operation that a principal may not do."""
        self.denied[operation] = self.denied.get(operation, 0) + 1
        self._log(told, told, logging.INFO)

    def _log(self, reason: str, told: str, level: int) -> None:
        now = time.monotonic()
        last, silent = self._logged.get(reason, (-QUIET_SECONDS, 0))
        if now - last < QUIET_SECONDS:
            self._logged[reason] = last, silent + 1
            return
        if len(self._logged) > _KINDS_REMEMBERED:
            self._logged.clear()  # Bounded, because reasons contain names that any client can choose.
        self._logged[reason] = now, 0
        more = f" ({silent} more of the kind were not logged)" if silent else ""
        _LOG.log(level, "%s%s", told, more)
