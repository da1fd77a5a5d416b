"""`shunter token`: tokens for the HTTP API of `shunter serve`, and their roles."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from shunter.app.access.access_tokens import AccessRole, add_token, read_tokens, remove_token
from shunter.app.exit_codes import ExitCode
from shunter.cli.leaving import leave_with
from shunter.core.wording import counted

_FILE = click.option(
    "--tokens",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The file of tokens; its owner alone may read it (mode 0600).",
)


@click.group()
def token() -> None:
    """Make and remove tokens for the HTTP API of `shunter serve --tokens FILE`."""


@token.command("add")
@click.argument("name")
@_FILE
@click.option(
    "--role", type=click.Choice([role.value for role in AccessRole]), default="read", help="What NAME may do."
)
@click.option("--days", type=click.IntRange(min=1, max=3650), default=90, help="For how many days the token is valid.")
@click.option("--never-expires", is_flag=True, help="The token is valid until it is removed.")
def add(name: str, file: Path, role: str, days: int, *, never_expires: bool) -> None:
    """Make a token for NAME and print it, this one time: the file keeps only a digest.

    \b
    read        looks at everything
    operate     approves and declines, stops, pauses, rolls back, sets the throttle
    administer  changes the desired state (drain, replace, freeze …)

    \b
    Exit status: 0 the token was made; 2 the name is taken; 5 the file can't be read or written.

    \b
    Example:
      shunter token add anna --role operate --tokens tokens.json
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    leave_with(lambda: _add(name, file, AccessRole(role), None if never_expires else days))


def _add(name: str, file: Path, role: AccessRole, days: int | None) -> int:
    click.echo(add_token(file, name, role, days))
    lasting = "until it is removed" if days is None else f"for {counted(days, 'day')}"
    click.echo(f"{name} may {role.value}, {lasting}; this is the only time that the token is shown", err=True)
    return int(ExitCode.DONE)


@token.command("list")
@_FILE
def list_command(file: Path) -> None:
    """List who has a token, with which role and until when; the tokens themselves are not shown.

    \b
    Exit status: 0 the list was shown; 5 the file can't be read.

    \b
    Example:
      shunter token list --tokens tokens.json
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    leave_with(lambda: _list(file))


def _list(file: Path) -> int:
    for each in read_tokens(file):
        until = (
            "never" if each.expires_ms is None else f"{datetime.fromtimestamp(each.expires_ms / 1000, UTC):%F %R} UTC"
        )
        click.echo(f"{each.name:<24} {each.role.value:<10} expires {until}")
    return int(ExitCode.DONE)


@token.command("remove")
@click.argument("name")
@_FILE
def remove(name: str, file: Path) -> None:
    """Remove the token of NAME; a service that runs refuses it from the next request on.

    \b
    Exit status: 0 the token was removed; 2 there is no such token; 5 the file can't be read or written.

    \b
    Example:
      shunter token remove anna --tokens tokens.json
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    leave_with(lambda: _remove(name, file))


def _remove(name: str, file: Path) -> int:
    remove_token(file, name)
    click.echo(f"{name} is removed from {file}")
    return int(ExitCode.DONE)
