"""`shunter why`: reads the files of the state-change log, the newest last, and answers a question from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from shunter.app.controller.logs import STATE_LOG
from shunter.core.wording import counted
from shunter.drivers.host.clock import wall_clock_ms
from shunter.errors import DriverError, FormatError, SettingsError
from shunter.formats.log_lines import decode_line, encode_line, read_time, time_text
from shunter.model.log_line import LogLine
from shunter.model.partition import TopicPartition
from shunter.views.why import Question, Selection, narrate

_AGO = re.compile(r"(\d+)\s*(ms|s|m|h|d)")
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def log_files(folder: Path) -> list[Path]:
    """The files of a state-change log, oldest first.

    Raises:
        DriverError: there is none.
    """
    numbered = [(int(path.suffix[1:]), path) for path in folder.glob(f"{STATE_LOG}.*") if path.suffix[1:].isdigit()]
    newest = folder / STATE_LOG
    found = [path for _, path in sorted(numbered, reverse=True)] + ([newest] if newest.exists() else [])
    if not found:
        raise DriverError(
            f"there is no {STATE_LOG} in {folder}: name the controller's log_dir by --log-dir", retriable=False
        )
    return found


def read_since(text: str, now_ms: int | None = None) -> int:
    """Read `--since`: `90s`, `15m`, `2h`, `3d` before `now_ms` (None: the time now), or a time with its zone.

    Raises:
        SettingsError: the text is neither.
    """
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return (wall_clock_ms() if now_ms is None else now_ms) - int(ago[1]) * _MILLISECONDS[ago[2]]
    try:
        return read_time(text.strip())
    except ValueError as error:
        told = f"--since {text}: {error}; write for instance 15m, 2h, or 2026-11-22T17:00:00Z"
        raise SettingsError(told) from None


def read_partition(text: str) -> TopicPartition:
    """Read `TOPIC-PARTITION`.

    Raises:
        SettingsError: the text is not of this form.
    """
    topic, _, number = text.rpartition("-")
    if not topic or not number.isascii() or not number.isdigit():
        raise SettingsError(f"{text!r} is not a TOPIC-PARTITION such as orders-7; for a whole topic use --topic")
    return TopicPartition(topic, int(number))


class _Reader:
    """Reads lines, and counts those that can't be read."""

    def __init__(self, files: list[Path]) -> None:
        self._files = files
        self.unreadable = 0

    def lines(self) -> Iterator[LogLine]:
        """Yield the lines, the oldest first. All files are opened first, so a rotation can't hide or repeat a file."""
        with ExitStack() as opened:
            files: list[tuple[Path, IO[bytes]]] = []
            for path in reversed(self._files):
                try:
                    files.append((path, opened.enter_context(path.open("rb"))))
                except FileNotFoundError:
                    continue  # It was deleted since the folder was listed.
                except OSError as error:
                    raise DriverError(f"{path} can't be read: {error}", retriable=False) from error
            for path, text in reversed(files):
                for each in text:
                    if each.strip():
                        try:
                            yield decode_line(each, str(path))
                        except FormatError:
                            self.unreadable += 1


def why(question: Question, folder: Path, tell: Callable[[str], None], *, as_json: bool = False) -> bool:
    """Answer a question from the files of a log; return whether the log has something about its subject.

    Raises:
        DriverError: there are no files, or they can't be read.
    """
    reader = _Reader(log_files(folder))
    selection = Selection(question)
    chosen = selection.choose(reader.lines())
    if as_json:
        for line in chosen:
            tell(encode_line(line).decode())
        return selection.named
    kept = list(chosen)
    begins = "is empty" if selection.begins_ms is None else f"begins at {time_text(selection.begins_ms)}"
    tell(
        f"Why {question.name}: the log in {folder} {begins}. It has nothing about earlier times and other controllers."
    )
    if selection.lost:
        tell(f"{counted(selection.lost, 'event is', 'events are')} missing in it, because they could not be written.")
    if reader.unreadable:
        tell(
            f"{counted(reader.unreadable, 'line')} of it can't be read, and {'is' if reader.unreadable == 1 else 'are'} left out."
        )
    if not selection.named:
        rest = " What follows is about the whole cluster." if kept else ""
        tell(f"Nothing is logged about {question.name}{' since then' if question.since_ms else ''}.{rest}")
    for told in narrate(kept):
        tell(told)
    return selection.named
