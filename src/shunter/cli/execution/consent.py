"""Consent before a cluster is changed: a question at a terminal; elsewhere `--yes` has to be given."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import click

from shunter.errors import SettingsError


def can_be_asked(*, as_json: bool) -> bool:
    """Whether a person can answer: there is a terminal, and output is not `--json`, which a program reads."""
    return not as_json and sys.stdin.isatty()


def ask_at_the_terminal() -> None:
    """Take answers from the process's terminal, because standard input was read for something else.

    Without a terminal nothing changes: standard input is at its end, and no question can be asked.
    """
    with suppress(OSError):
        sys.stdin = Path("/dev/tty").open(encoding="utf-8", errors="replace")  # noqa: SIM115 - until the process ends


def agreed(told: str, question: str, *, yes: bool, as_json: bool) -> bool:
    """Whether an operator agrees to an order.

    Args:
        told: What the order would do, in a sentence; it goes to standard error.
        question: The question on a terminal.
        yes: `--yes` was given.
        as_json: Output is for a program.

    Raises:
        SettingsError: no question can be asked, and `--yes` was not given.
    """
    if not yes and not can_be_asked(as_json=as_json):
        raise SettingsError(f"{told}. No question can be asked here (no terminal, or --json): add --yes to agree")
    click.echo(told, err=True)
    return yes or click.confirm(question)
