"""The audit log of the HTTP API: who asked for what, and the outcome. Its JSON lines are in the process's log too."""

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
    """An order, or a session that was begun or refused. The line never holds a token."""

    who: str
    by: str
    """`token`, `session` or `local`."""
    peer: str
    """The address that the request came from."""
    verb: str
    cluster: str = ""
    about: tuple[str, ...] = ()
    value: int | None = None
    comment: str = ""


class AuditLog:
    """Appends lines to a file; without a file, lines are only in the process's log."""

    def __init__(self, path: Path | None) -> None:
        """Open the file.

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
        """Write a request and its outcome. A full disk is reported in the process's log, and the request goes on."""
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
