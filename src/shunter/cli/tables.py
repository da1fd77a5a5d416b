"""Rows in the form that was asked for: sentences, a table, plain columns for other commands, or JSON lines."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click

from shunter.cli.execution.display import say_json

FORMS = ("text", "table", "plain", "json")


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --output and --json; hands the command `output`, one of `FORMS`."""

    @click.option(
        "--output",
        type=click.Choice(FORMS),
        default="text",
        help="text: sentences; table; plain: columns with tabs between, for cut and awk; json: one object a line.",
    )
    @click.option("--json", "as_json", is_flag=True, help="The same as --output json.")
    @functools.wraps(command)
    def wrapped(*args: Any, output: str, as_json: bool, **rest: Any) -> Any:
        return command(*args, output="json" if as_json else output, **rest)

    return wrapped


def show_rows(output: str, rows: Iterable[Mapping[str, Any]], told: Callable[[Mapping[str, Any]], str]) -> None:
    """Show rows that have the same columns; `told` makes a sentence of one."""
    found = list(rows)
    if output == "json":
        for row in found:
            say_json(dict(row))
    elif output == "text":
        for row in found:
            click.echo(told(row))
    elif output == "plain":
        for row in found:
            click.echo("\t".join(map(_cell, row.values())))
    elif found:
        for line in _table(
            [[name.replace("_", " ") for name in found[0]], *([*map(_cell, row.values())] for row in found)]
        ):
            click.echo(line)


def _cell(value: Any) -> str:
    """A value in a column: no tab and no line end in it; - for nothing."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    return " ".join(str(value).split()) if value not in (None, "") else "-"


def _table(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


__all__ = ["FORMS", "output_options", "show_rows"]
