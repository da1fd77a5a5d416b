"""Who did what through the HTTP API, and what came of it: a line of JSON each, in a file and in the process's log."""

from __future__ import annotations

import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from shunter.drivers.clock import SystemClock
from shunter.errors import FormatError

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AuditLine:
    """An order, or a session that was begun or refused. It never holds a token."""

    who: str
    by: str
    """`token`, `session` or `local`."""
    peer: str
    """The address it came from."""
    verb: str
    cluster: str = ""
    about: tuple[str, ...] = ()
    value: int | None = None
    comment: str = ""


class AuditLog:
    """Appends lines to a file; without a file they are in the process's log alone."""

    def __init__(self, path: Path | None) -> None:
        """Open it.

        Raises:
            FormatError: the file can't be opened for appending.
        """
        self._path = path
        self._file: int | None = None
        if path is None:
            return
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise FormatError(str(path), f"can't be opened for appending: {error.strerror}") from error

    def write(self, line: AuditLine, outcome: str) -> None:
        """Write what was asked and what came of it. A full disk is told in the process's log, and stops nothing."""
        document = {"at_ms": SystemClock().now_ms(), **asdict(line), "outcome": outcome}
        raw = orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
        LOG.info("audit %s", raw.decode().rstrip())
        if self._file is None:
            return
        try:
            os.write(self._file, raw)
        except OSError as error:
            LOG.error("%s can't be written (%s): the line above is not in it", self._path, error.strerror)  # noqa: TRY400

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
