"""Asking before a cluster is changed: at a terminal by a question; elsewhere `--yes` has to be given."""

from __future__ import annotations

import sys

import click

from shunter.errors import SettingsError


def can_be_asked(*, as_json: bool) -> bool:
    """Whether a person can answer: there is a terminal, and no `--json`, whose reader is a program."""
    return not as_json and sys.stdin.isatty()


def agreed(told: str, question: str, *, yes: bool, as_json: bool) -> bool:
    """Whether an operator wants what was just told.

    Args:
        told: What the order would do, in a sentence; it goes to standard error.
        question: What is asked on a terminal.
        yes: `--yes` was said.
        as_json: Output is for a program.

    Raises:
        SettingsError: nobody can be asked, and `--yes` was not said.
    """
    if not yes and not can_be_asked(as_json=as_json):
        raise SettingsError(f"{told}: nobody can be asked here, so say --yes if that is meant")
    click.echo(told, err=True)
    return yes or click.confirm(question)
