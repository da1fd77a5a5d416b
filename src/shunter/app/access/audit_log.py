"""The audit log of the service: who asked for what, and the outcome, as lines of JSON.

It has every order, over HTTP and through the socket, every sign-in, and every request that lacked a right. It stays
small: the file is rotated, and of refused requests a few a minute are written one by one and the others are counted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

import orjson

from shunter.drivers.host.clock import wall_clock_ms
from shunter.errors import FormatError
from shunter.model.service import OrderDone, OrderRefused, ServiceOrder, Signature

LOG = logging.getLogger(__name__)
FILE_BYTES = 10 * 1000 * 1000
MOST_NAMED = 100
"""Objects of an order that a line names: an order may have 100,000."""
MOST_OUTCOME = 2_000
"""Characters of an outcome."""
FILES = 5
"""Files that are kept, the current one included."""
REFUSED_OF_ONE = 5
"""Refused requests of one person or address that are written one by one in a minute."""
REFUSED_A_MINUTE = 20
"""Persons and addresses whose refused requests are written one by one in a minute."""


@dataclass(frozen=True, slots=True)
class AuditLine:
    """An order, a session that was begun, or a request that lacked a right. The line never holds a token."""

    who: str
    by: str
    """`token`, `session`, `oidc`, `proxy`, `local` (no token was needed), or `socket` (a user of this host); "": unknown."""
    peer: str
    """The address that the request came from."""
    verb: str
    cluster: str = ""
    about: tuple[str, ...] = ()
    """The first words of what it asks for."""
    named: int = 0
    """The number of these words."""
    comment: str = ""


class AuditLog:
    """Appends lines to a file; without a file, nothing is kept."""

    def __init__(
        self, path: Path | None, file_bytes: int = FILE_BYTES, now_ms: Callable[[], int] = wall_clock_ms
    ) -> None:
        """Open the file. `file_bytes`: a file that would grow beyond this is rotated; `FILES` of them are kept.

        Raises:
            FormatError: the file can't be opened for appending.
        """
        self._path = path
        self._now_ms = now_ms
        self._handler: _Private | None = None
        self._minute = 0
        self._refused: Counter[tuple[str, str]] = Counter()
        if path is None:
            return
        try:
            self._handler = _Private(path, maxBytes=file_bytes, backupCount=FILES - 1, encoding="utf-8")
        except OSError as error:
            raise FormatError(str(path), f"can't be opened for appending: {error.strerror}") from error

    def write(self, line: AuditLine, outcome: str) -> None:
        """Write a request and its outcome. A full disk is reported in the process's log, and the request goes on."""
        if self._handler is not None:
            document = {"at_ms": self._now_ms(), **asdict(line), "outcome": outcome}
            self._handler.emit(logging.makeLogRecord({"msg": orjson.dumps(document).decode()}))

    async def order(
        self,
        carry_out: Callable[[ServiceOrder, Signature], Awaitable[OrderDone]],
        order: ServiceOrder,
        signature: Signature,
        *,
        by: str,
        peer: str,
    ) -> OrderDone:
        """Let an order be carried out, and write who gave it and what came of it.

        Raises:
            OrderRefused: the order is not carried out.
        """
        line = AuditLine(
            who=signature.who,
            by=by,
            peer=peer,
            verb=order.kind.value,
            cluster=order.cluster,
            about=(about := order.about)[:MOST_NAMED],
            named=len(about),
            comment=signature.comment,
        )
        try:
            done = await carry_out(order, signature)
        except OrderRefused as refused:
            self.write(line, f"refused: {refused}"[:MOST_OUTCOME])
            raise
        self.write(line, done.text[:MOST_OUTCOME])
        return done

    def write_refused(self, line: AuditLine, outcome: str) -> None:
        """Write a request that lacked a right; if there are too many of them, count it for the end of the minute."""
        minute = self._now_ms() // 60_000
        if minute != self._minute:
            self._write_counts()
            self._minute = minute
        who = (line.who, line.peer)
        if who not in self._refused and len(self._refused) >= REFUSED_A_MINUTE:
            who = ("", "other addresses")
        self._refused[who] += 1
        if self._refused[who] <= REFUSED_OF_ONE and who[1] == line.peer:
            self.write(line, outcome)

    def _write_counts(self) -> None:
        for (who, peer), count in sorted(self._refused.items()):
            more = count if peer == "other addresses" else count - REFUSED_OF_ONE
            if more > 0:
                self.write(AuditLine(who, "", peer, "refused"), f"{more} more requests were refused in a minute")
        self._refused.clear()

    def close(self) -> None:
        """Write what was only counted, and close the file."""
        self._write_counts()
        if self._handler is not None:
            self._handler.close()
            self._handler = None


class _Private(RotatingFileHandler):
    """The standard handler, for files that only their owner may read."""

    def _open(self) -> TextIOWrapper:
        handle = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return os.fdopen(handle, "a", encoding="utf-8")

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """See `logging.Handler`."""
        LOG.error("%s can't be written (%s), and lacks: %s", self.baseFilename, sys.exc_info()[1], record.msg)
        stream, self.stream = self.stream, None
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
