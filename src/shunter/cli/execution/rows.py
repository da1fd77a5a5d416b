"""Moves of the cluster's list, whoever began them, in lines and as JSON."""

from __future__ import annotations

import time

import click

from shunter.app.reassign.session import BETWEEN_LOG_DIRS, MoveUnderWay, ReassignSession
from shunter.cli.execution.display import clock_time, say_json
from shunter.cli.execution.named_moves import Wanted
from shunter.cli.outlet import output_lost
from shunter.core.wording import counted, told_bytes

POLL_SECONDS = 1.0


def chosen_rows(session: ReassignSession, wanted: Wanted) -> list[MoveUnderWay]:
    """The moves under way that `wanted` names, by partition."""
    rows = session.rows()
    meant = set(wanted.of([row.tp for row in rows]))
    return [row for row in rows if row.tp in meant]


def watch(session: ReassignSession, wanted: Wanted, *, as_json: bool) -> None:
    """Watch until none of the named moves is under way."""
    told = ""
    while (rows := chosen_rows(session, wanted)) and not output_lost():
        progress = session.progress(rows)
        if as_json:
            say_json({"event": "progress", "by": "controller", **progress._asdict()})
        else:
            waiting = next((row for row in rows if row.waiting and "to catch up" not in row.waiting), None)
            line = f"{counted(len(rows), 'move')}, {told_bytes(progress.fetched_bytes)} of {told_bytes(progress.wanted_bytes)}"
            line += f"; {waiting.tp} {waiting.waiting}" if waiting is not None else ""
            if line != told:
                click.echo(f"{clock_time()} {line}")
                told = line
        time.sleep(POLL_SECONDS)
    if not as_json:
        click.echo("all moves have ended")


def told_row(row: MoveUnderWay) -> str:
    """A move under way, in a line.

    A controller that is no Shunter shows the step under way alone. Where that step only adds replicas, its target is
    what the partition is on: then the line says which replicas are being added.
    """
    if row.phase == BETWEEN_LOG_DIRS:
        return f"{row.tp}: {row.waiting}"
    phase = f"{row.phase.replace('_', ' ')}, " if row.phase else ""
    original = f" from {list(row.original)}" if row.original else ""
    waiting = f"; {row.waiting}" if row.waiting else ""
    adding = f", adding {list(row.adding)}" if row.adding and row.target == row.replicas else ""
    return f"{row.tp}: {phase}on {list(row.replicas)}{adding}, to {list(row.target)}{original}{waiting}"


def row_to_json(row: MoveUnderWay) -> dict[str, object]:
    """A move under way, for programs."""
    return {"partition": str(row.tp), **{name: value for name, value in row._asdict().items() if name != "tp"}}


__all__ = ["chosen_rows", "row_to_json", "told_row", "watch"]
