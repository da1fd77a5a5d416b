"""Counters of the listener, and its log lines about refused and closed connections."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

_LOG = logging.getLogger(__name__)

QUIET_SECONDS = 10.0
"""At most one line per kind is logged in this time; it says how many lines were left out since the last one."""
LINES_AT_ONCE = 20
"""The most lines for one reason in that time, whatever their kind: a kind may have a name that any client can choose."""
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
    _logged: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    """By reason and kind: when the last line was logged, and how many were left out since."""
    _lines: dict[str, tuple[float, int, int]] = field(default_factory=dict)
    """By reason: when its present stretch of `QUIET_SECONDS` began, the lines logged in it, and how many were left out
    since the last line because of `LINES_AT_ONCE`."""

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
        self._log(reason, told, level, of=of)

    def deny(self, operation: str, told: str) -> None:
        """Count and log an operation that a principal may not do."""
        self.denied[operation] = self.denied.get(operation, 0) + 1
        self._log(f"denied {operation}", told, logging.INFO, of=told)

    def _log(self, reason: str, told: str, level: int, *, of: str = "") -> None:
        now = time.monotonic()
        last, silent = self._logged.get((reason, of), (-QUIET_SECONDS, 0))
        if now - last < QUIET_SECONDS:
            self._logged[reason, of] = last, silent + 1
            return
        began, lines, others = self._lines.get(reason, (now, 0, 0))
        if now - began >= QUIET_SECONDS:
            began, lines = now, 0
        if lines >= LINES_AT_ONCE:
            self._lines[reason] = began, lines, others + 1
            return
        self._lines[reason] = began, lines + 1, 0
        if len(self._logged) > _KINDS_REMEMBERED:
            self._logged.clear()  # Bounded, because kinds contain names that any client can choose.
        self._logged[reason, of] = now, 0
        left_out = [f"{silent} more of the kind"] if silent else []
        left_out += [f"{others} of other kinds"] if others else []
        more = f" ({' and '.join(left_out)} were not logged)" if left_out else ""
        _LOG.log(level, "%s%s", told, more)
