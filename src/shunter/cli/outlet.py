"""Where a command's output goes: what happens if nobody reads it any more, or if there is no room for it.

One rule for all commands: the work goes on, and the rest of the output is dropped. The work of an executor must not end
with `| head`, and a short command has done its work anyway. So both standard streams of the process go through an
`Outlet`, which never fails: every write ends there, that of click, of a drawn display and of the interpreter's own end.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO, cast

import click

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Outlet(io.FileIO):
    """A file descriptor for output. After the first failure it drops what is written to it."""

    def __init__(self, descriptor: int) -> None:
        """Write to a descriptor, which stays open."""
        super().__init__(descriptor, "wb", closefd=False)
        self.failure: OSError | None = None
        self.going_on = False
        """Whether a failure is told at once, because the work goes on for long."""

    @property
    def reader_left(self) -> bool:
        """Whether the other end of the pipe is gone."""
        return self.failure is not None and self.failure.errno == errno.EPIPE

    def write(self, data: ReadableBuffer, /) -> int:
        """Write; returns the number of bytes that count as written."""
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
                if self.going_on:
                    told = "nobody reads the output any more" if self.reader_left else _told(error)
                    click.echo(f"shunter: {told}: this goes on without it", err=True)
        return memoryview(data).nbytes


def _told(error: OSError) -> str:
    return f"the output can't be written: {error.strerror}"


def let_out() -> None:
    """Send both standard streams of this process through outlets. A stream that is closed leads nowhere."""
    # Without a descriptor 1 or 2, the next file that is opened would get it, and what is printed with it.
    for number in (1, 2):
        with suppress(OSError):
            os.fstat(number)
            continue
        os.open(os.devnull, os.O_WRONLY)
    sys.stdout = _through_outlet(sys.stdout, sys.__stdout__, 1)
    sys.stderr = _through_outlet(sys.stderr, sys.__stderr__, 2)


def _through_outlet(stream: TextIO | None, real: TextIO | None, descriptor: int) -> TextIO:
    """The stream through an outlet, unless a program that runs the command in its own process has replaced it."""
    if stream is not None and (stream is not real or not isinstance(stream, io.TextIOWrapper)):
        return stream
    outlet = Outlet(descriptor)
    if stream is None:
        return io.TextIOWrapper(io.BufferedWriter(outlet), encoding="utf-8", errors="replace")
    settings = cast("io.TextIOWrapper[io.BufferedWriter]", stream)
    return io.TextIOWrapper(
        io.BufferedWriter(outlet),
        encoding=settings.encoding,
        errors=settings.errors,
        line_buffering=settings.line_buffering,
        write_through=settings.write_through,
    )


def _outlet() -> Outlet | None:
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw if isinstance(raw, Outlet) else None


def goes_on_without_output() -> None:
    """From now on, say at once that output is lost: the work goes on for long, and its end is no failure then."""
    outlet = _outlet()
    if outlet is not None:
        outlet.going_on = True


def output_lost() -> bool:
    """Whether output is dropped, and the command does nothing but show something: then it can end."""
    outlet = _outlet()
    return outlet is not None and outlet.failure is not None and not outlet.going_on


def failure_at_end() -> str:
    """Why the output of a short command is not whole; "": it is, or its reader had enough, or that was told before."""
    outlet = _outlet()
    if outlet is None:
        return ""
    sys.stdout.flush()
    if outlet.failure is None or outlet.reader_left or outlet.going_on:
        return ""
    return _told(outlet.failure)


__all__ = ["Outlet", "failure_at_end", "goes_on_without_output", "let_out", "output_lost"]
