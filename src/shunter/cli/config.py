"""`shunter config`: the settings in force, and where each came from."""

from __future__ import annotations

from typing import Any

import click

from shunter.app.profiles import SETTINGS
from shunter.cli.choosing import by_option
from shunter.cli.execution_display import say_json
from shunter.cli.execution_options import execution_options, journal_options
from shunter.cli.profiles import told_source


@click.command()
@journal_options
@execution_options
@by_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_context
def config(context: click.Context, /, *, as_json: bool, **_given: Any) -> None:
    """Show each setting of the verbs that look and move, and where its value came from.

    Command line goes before environment, environment before the settings file, and that before the default; in the
    file a cluster's own settings go before those for all. `yes`, `force` and `take-over` are said each time.

    \b
    Examples:
      shunter config --bootstrap-server kafka1:9092 --throttle 50M
      shunter config --json
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    rows = [
        (setting, _told(context.params.get(name)), told_source(context, name)) for setting, name in SETTINGS.items()
    ]
    if as_json:
        for setting, value, source in rows:
            say_json({"setting": setting, "value": value, "from": source})
        return
    width = max(len(value) for _setting, value, _source in rows)
    for setting, value, source in rows:
        click.echo(f"{setting:<17} {value:<{width}}  {source}")


def _told(value: Any) -> str:
    """A setting's value as one would write it; - for none."""
    if value is None or value in ((), ""):
        return "-"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
