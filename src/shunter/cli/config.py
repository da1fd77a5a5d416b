"""`shunter config`: the settings in force, and where each of them came from."""

from __future__ import annotations

from typing import Any

import click

from shunter.app.profiles import SETTINGS
from shunter.cli.execution.options import execution_options, headroom_option, journal_options
from shunter.cli.profiles import told_source
from shunter.cli.service.place import service_parameters
from shunter.cli.tables import output_options, show_rows


@click.command()
@service_parameters
@journal_options
@execution_options
@headroom_option
@output_options
@click.pass_context
def config(context: click.Context, /, *, output: str, **_given: Any) -> None:
    """Show each setting of the verbs that look and move, and where its value came from.

    The command line goes before the environment, the environment before the settings file, and the file before the
    default. In the file a cluster's own settings go before those for all clusters. --yes, --force and --take-over count
    only on the command line.

    \b
    Examples:
      shunter config --bootstrap-server kafka1:9092 --throttle 50M
      shunter config --json
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    rows = [
        {"setting": setting, "value": _told(context.params.get(name)), "from": told_source(context, name)}
        for setting, name in SETTINGS.items()
    ]
    width = max(len(row["value"]) for row in rows)
    show_rows(output, rows, lambda row: f"{row['setting']:<17} {row['value']:<{width}}  {row['from']}")


def _told(value: Any) -> str:
    """A setting's value as it is written on the command line; - for none."""
    if value is None or value in ((), ""):
        return "-"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
