"""How a command ends: its exit status, and one sentence for what went wrong."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import click

from shunter.app.executor.session import (
    ClusterClaimed,
    JournalDamaged,
    JournalFenced,
    JournalHeld,
    JournalUnusable,
    SeatTaken,
    salvage,
)
from shunter.app.exit_codes import ExitCode
from shunter.errors import DriverError, FormatError, SettingsError, ShunterError

_CODES: tuple[tuple[tuple[type[ShunterError], ...], ExitCode], ...] = (
    ((ClusterClaimed, JournalHeld, SeatTaken, JournalFenced), ExitCode.HELD),
    ((JournalUnusable,), ExitCode.JOURNAL),
    ((DriverError,), ExitCode.CLUSTER),
    ((FormatError,), ExitCode.JOURNAL),
    ((SettingsError,), ExitCode.USAGE),
)
"""The exit status for each kind of error; the first match counts. Every other error is a refused request."""


def code_of(error: ShunterError) -> ExitCode:
    """The exit status for an error."""
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), ExitCode.REFUSED)


def told_error(error: ShunterError) -> int:
    """Print what went wrong; returns the exit status."""
    click.echo(f"shunter: {error}", err=True)
    if isinstance(error, JournalDamaged):
        for told in salvage(error):
            click.echo(f"  {told}", err=True)
    return int(code_of(error))


def leave_with(work: Callable[[], int]) -> NoReturn:
    """Do a command's work and leave with its exit status."""
    try:
        code = work()
    except ShunterError as error:
        code = told_error(error)
    except KeyboardInterrupt:
        code = int(ExitCode.LEFT)
    sys.exit(code)


def run(work: Coroutine[Any, Any, int]) -> NoReturn:
    """Run a command's coroutine and leave with its exit status."""
    leave_with(lambda: asyncio.run(work))


__all__ = ["code_of", "leave_with", "run", "told_error"]
