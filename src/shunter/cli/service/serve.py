"""`shunter serve`: the service that keeps clusters. It can also check a policy file, or look at each cluster once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shunter.app.state_folder import service_folder
from shunter.cli.leaving import leave_with
from shunter.cli.sections import Sections
from shunter.cli.service import looks
from shunter.cli.service.page import page_options

if TYPE_CHECKING:
    from shunter.web.server import WebOptions


class _Serve(Sections):
    """A group whose command `run` may be left out: a first word that names no command is a policy file or an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `run` before a first word that names no command."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_Serve,
    sections={
        "Serve": ("init", "run", "schema"),
        "Look at a service that runs": ("status", "proposals", "events"),
    },
)
def serve() -> None:
    """Keep clusters in balance by a policy: look, propose, carry out what was approved.

    \b
    Examples:
      shunter serve keeper.toml
      shunter serve status
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped


for _command in looks.COMMANDS:
    serve.add_command(_command)


@serve.command("run")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--check", "checks", is_flag=True, help="Read FILE and say what it asks for; no cluster is contacted.")
@click.option(
    "--once", is_flag=True, help="Look at each cluster once, and say which conditions hold and what would be proposed."
)
@click.option("--json", "as_json", is_flag=True, help="With --once: one JSON object a line.")
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --once: keep in this file since when each condition has held, for the next look.",
)
@click.option(
    "--plans",
    type=click.Path(file_okay=False, path_type=Path),
    help="With --once: write plans that nothing holds back into this folder; `shunter execute` takes them.",
)
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the service's state and its socket.  [default: service in $SHUNTER_STATE]",
)
@click.option(
    "--audit",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A log of who did what, rotated at 10 MB.  [default: audit.log in the state folder]",
)
@page_options
def run_service(
    file: Path,
    state: Path | None,
    plans: Path | None,
    state_dir: Path | None,
    audit: Path | None,
    page: Callable[[Path], WebOptions] | None,
    *,
    checks: bool,
    once: bool,
    as_json: bool,
) -> None:
    """Serve the clusters of FILE until SIGTERM; `shunter serve FILE` is short for it.

    The service looks at each cluster again and again, and proposes plans that mend what is wrong. It carries out plans
    that a person approves, and plans that the policy lets it carry out by itself. Moves that are under way when the
    service ends go on in the cluster, and the next service takes them up from the journal. FILE is read again when it
    changes, and on SIGHUP; if the changed FILE is refused, the former policy stays in force. --check and --once change
    nothing.

    \b
    Exit status: 0 the service was stopped, the file is in order (--check), or no condition holds (--once); 1 conditions
    hold (--once); 2 the file has a wrong key or value, or a flag can't be used; 3 a cluster does not answer (--once), or
    the state folder or the address of --listen can't be used; 5 a file can't be read or written.

    \b
    Examples:
      shunter serve run keeper.toml --listen 127.0.0.1:8080
      shunter serve run keeper.toml --check
      shunter serve run keeper.toml --once --state keeper.json --plans plans
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    if checks and once:
        raise click.UsageError("--check and --once: choose one of them")
    if not once and (as_json or state is not None or plans is not None):
        raise click.UsageError("--json, --state and --plans are for --once")
    from shunter.cli.service import run as serve_run  # noqa: PLC0415 - a verb that only asks a service starts in half the time

    if checks:
        leave_with(lambda: serve_run.check(file))
    if once:
        leave_with(lambda: serve_run.once(file, state, plans, as_json=as_json))
    folder = service_folder() if state_dir is None else state_dir
    leave_with(lambda: serve_run.run(file, folder, None if page is None else page(folder), audit))


@serve.command("init")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--bootstrap-server", required=True, help="HOST:PORT, several with commas.")
@click.option(
    "--command-config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Client properties (security, logins), as Apache's tools take them.",
)
@click.option("--name", default="main", show_default=True, help="The cluster's name in FILE.")
def init(file: Path, bootstrap_server: str, command_config: Path | None, name: str) -> None:
    """Write a first policy file for a cluster: the service then only observes it.

    The cluster is read once, and nothing in it is changed. FILE gets three lines that are in force, and as comments what
    was seen, what would be told, and what to write next. A FILE that exists is never overwritten.

    \b
    Exit status: 0 FILE is written; 2 a value can't be used, or FILE exists; 3 the cluster does not answer; 5 a file
    can't be read or written.

    \b
    Examples:
      shunter serve init keeper.toml --bootstrap-server kafka1:9092
      shunter serve init keeper.toml --bootstrap-server kafka1:9093 --command-config admin.properties --name prod
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.cli.service import run as serve_run  # noqa: PLC0415 - it loads the planner

    leave_with(lambda: serve_run.init(file, bootstrap_server, command_config, name))


@serve.command("schema")
def schema() -> None:
    """Print the JSON Schema of the policy file, for editors.

    \b
    Exit status: 0.

    \b
    Examples:
      shunter serve schema
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.cli.service import run as serve_run  # noqa: PLC0415 - it loads the planner

    leave_with(serve_run.schema)
