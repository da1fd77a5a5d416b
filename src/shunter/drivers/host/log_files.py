"""Log files for programs: written by a thread, in batches, rotated, and without blocking the controller.

The event loop hands values over and goes on; the thread makes lines of them. Values that the thread can't keep up with
or can't write (the disk is full, the folder was deleted) are counted. This is logged once, and noted in the file itself
(`gap`) as soon as the file can be written again: a log must never slow or end the controller that it
describes. Rotation is that of the standard library.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable
from io import IOBase
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Generic, TypeVar

from shunter.core.wording import counted
from shunter.drivers.seams import Clock
from shunter.formats.log_lines import encode_line, time_text
from shunter.model.log_line import LogLine

LOG = logging.getLogger(__name__)
BATCH_ITEMS = 1_000
"""The most items whose lines are written together."""
LINGER_SECONDS = 0.1
"""How long items are gathered before they are written: a write costs as much as ten lines."""
WAITING_AT_MOST = 200_000
"""About the number of lines that may wait to be written."""
CLOSING_SECONDS = 2.0
_Item = TypeVar("_Item")


class _Rotating(RotatingFileHandler):
    """The standard handler, but it keeps its last failure instead of printing it."""

    failure: BaseException | None = None

    def handleError(self, _record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """See `logging.Handler`."""
        self.failure = sys.exc_info()[1]


class LogFile(Generic[_Item]):
    """One log: `post` on the event loop, lines in the file a moment later.

    `lines` and `lost` count lines that were written, and items that were not; they may be read at any time.
    """

    def __init__(
        self,
        path: Path,
        lines_of: Callable[[_Item], Iterable[LogLine]],
        clock: Clock,
        *,
        file_bytes: int,
        files: int,
    ) -> None:
        """Describe the log; nothing is opened yet.

        Args:
            path: of the newest file; older files have `.1`, `.2` … after it.
            lines_of: makes the lines of an item; called by the thread.
            clock: gives the time when a gap ended.
            file_bytes: a file that would grow beyond this is rotated.
            files: how many files are kept, the newest included; at least 2.
        """
        self.path = path
        self.lines = 0
        self.lost = 0
        self._lines_of = lines_of
        self._clock = clock
        self._handler = _Rotating(path, maxBytes=file_bytes, backupCount=files - 1, encoding="utf-8", delay=True)
        self._items: queue.SimpleQueue[tuple[_Item, int] | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._posted = 0
        self._done = 0
        self._told_lost = 0
        self._failing = False
        self._lock: IOBase | None = None
        self._thread = threading.Thread(target=self._run, name=path.name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def post(self, item: _Item, weight: int = 1) -> None:
        """Hand an item over; never blocks. `weight`: about the number of its lines."""
        if self._posted - self._done > WAITING_AT_MOST:
            self.lost += 1
            return
        self._posted += weight
        self._items.put((item, weight))

    def close(self) -> None:
        """Write the waiting items, and end; give up after `CLOSING_SECONDS`."""
        self._closing.set()
        self._items.put(None)
        self._thread.join(CLOSING_SECONDS)

    def _run(self) -> None:
        ended = False
        while not ended:
            batch = [self._items.get()]
            if batch[0] is not None:
                self._closing.wait(LINGER_SECONDS)
            with contextlib.suppress(queue.Empty):
                while len(batch) < BATCH_ITEMS:
                    batch.append(self._items.get_nowait())
            ended = None in batch
            self._write([each for each in batch if each is not None])
        self._handler.close()
        if self._lock is not None:
            self._lock.close()

    def _write(self, batch: list[tuple[_Item, int]]) -> None:
        told_before = self._told_lost
        try:
            lines = [line for item, _ in batch for line in self._lines(item)]
            failure = self._append(lines) if lines else None
        except Exception as error:  # noqa: BLE001 - a log that can't be written is told, whatever the reason
            failure, lines = error, []
        self._done += sum(weight for _, weight in batch)
        if failure is None:
            self.lines += len(lines)
            if self._failing and lines:
                self._failing = False
                missing = counted(self._told_lost - told_before, "event is", "events are")
                LOG.info("%s is written again; %s missing", self.path, missing)
            return
        self.lost += len(batch)
        if not self._failing:
            self._failing = True
            LOG.warning("%s can't be written, and the controller goes on without it: %s", self.path, failure)

    def _lines(self, item: _Item) -> Iterable[bytes]:
        at_ms, at = -1, ""
        for line in self._lines_of(item):
            if line.at_ms != at_ms:
                at_ms, at = line.at_ms, time_text(line.at_ms)
            yield encode_line(line, at)

    def _append(self, lines: list[bytes]) -> BaseException | None:
        """Write all of the lines, or leave the file as it was and return why."""
        lost = self.lost
        if lost > self._told_lost:
            gap = LogLine(self._clock.now_ms(), "gap", {"lost": lost - self._told_lost})
            lines = [encode_line(gap), *lines]
        try:
            self._open()
            before = self.path.stat().st_size if self.path.exists() else 0
        except OSError as error:
            return error
        self._handler.failure = None
        self._handler.emit(logging.makeLogRecord({"msg": b"\n".join(lines).decode()}))
        failure = self._handler.failure
        if failure is None:
            self._told_lost = lost
            return None
        stream, self._handler.stream = self._handler.stream, None
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):
                stream.close()
        with contextlib.suppress(OSError):
            if self.path.stat().st_size > before:
                os.truncate(self.path, before)
        return failure

    def _open(self) -> None:
        """Create the folder if necessary, and lock the log against other processes.

        Raises:
            OSError: that is not possible now; it is tried again with the next batch.
        """
        if self._lock is not None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = self.path.with_name(self.path.name + ".lock").open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise BlockingIOError("another process writes it; give each controller a log_dir of its own") from None
        self._lock = lock
