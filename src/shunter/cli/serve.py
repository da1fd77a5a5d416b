"""`shunter serve`: the service of clusters; or a policy file checked, or one look at each cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shunter.app.exit_codes import ExitCode
from shunter.app.keeper import LookTaken, look_once
from shunter.app.keeper_policy import KeptCluster, check_access, read_policies
from shunter.app.service.running import default_folder, serve_until_told
from shunter.cli.execution_display import say_json
from shunter.cli.leaving import code_of, leave_with, told_error
from shunter.cli.profiles import worst_of
from shunter.cli.sections import Sections
from shunter.cli.serve_orders import COMMANDS
from shunter.cli.serve_page import page_door, page_options
from shunter.core.wording import counted, told_bytes
from shunter.errors import ShunterError
from shunter.views.keeper import ConditionView, ProposalView

if TYPE_CHECKING:
    from shunter.web.server import WebOptions

_SHOWN = 5


class _Serve(Sections):
    """A group whose command `run` may be left out: what names no other command is the policy file, or an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `run` before a file."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_Serve,
    sections={
        "Serve": ("run",),
        "Look at a service that runs": ("status", "proposals", "events"),
        "Decide": ("propose", "approve", "decline"),
        "Turn what moves": ("pause", "resume", "stop", "rollback", "limit", "clear-throttles"),
        "Intents that stay": (
            "drain",
            "undrain",
            "demote",
            "promote",
            "replace",
            "unreplace",
            "add",
            "unadd",
            "freeze",
            "unfreeze",
            "set-replication",
        ),
    },
)
def serve() -> None:
    """Keep clusters in balance by a policy: look, propose, carry out what was approved.

    \b
    Examples:
      shunter serve keeper.toml
      shunter serve status
      shunter serve pause --all
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped


for _command in COMMANDS:
    serve.add_command(_command)


@serve.command("run")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--check", "checks", is_flag=True, help="Read FILE, say what it asks for, and ask no cluster.")
@click.option("--once", is_flag=True, help="Look at each cluster once, and say what holds and what would be proposed.")
@click.option("--json", "as_json", is_flag=True, help="With --once: one JSON object a line.")
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --once: carry from look to look in this file what has held since when.",
)
@click.option(
    "--plans",
    type=click.Path(file_okay=False, path_type=Path),
    help="With --once: write plans that nothing holds back into this folder; `shunter execute` takes them.",
)
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the service keeps what it knows, and its socket.  [default: service in $SHUNTER_STATE]",
)
@page_options
def run_service(
    file: Path,
    state: Path | None,
    plans: Path | None,
    state_dir: Path | None,
    page: Callable[[Path], WebOptions] | None,
    *,
    checks: bool,
    once: bool,
    as_json: bool,
) -> None:
    """Serve the clusters of FILE until SIGTERM; `shunter serve FILE` is short for it.

    The service looks at each cluster again and again, proposes plans that mend what is wrong, and carries out those that
    somebody approves or that the policy lets it act on. What is under way when it ends goes on in the cluster, and the
    next service takes it up from the journal. FILE is read again when it changes, and on SIGHUP; one that is refused leaves
    the policy in force that was read before. --check and --once look alone and change nothing.

    \b
    Exit status: 0 it was told to end; the file is in order; no condition holds. 1 conditions hold (--once); 2 the file has
    a key or value that it can't have; 3 a cluster does not answer (--once), or the state folder can't be used; 5 a file
    can't be read or written.

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
    if checks:
        leave_with(lambda: _check(file))
    if once:
        leave_with(lambda: _once(file, state, plans, as_json=as_json))
    folder = default_folder() if state_dir is None else state_dir
    leave_with(lambda: _serve(file, folder, None if page is None else page(folder)))


def _serve(file: Path, folder: Path, page: WebOptions | None) -> int:
    def say(told: str) -> None:
        click.echo(f"shunter: {told}", err=True)

    doors = [] if page is None else [page_door(page, say)]
    asyncio.run(serve_until_told(file, folder, say, *doors))
    return int(ExitCode.DONE)


def _check(file: Path) -> int:
    codes = [_checked(cluster) for cluster in read_policies(file)]
    if set(codes) == {ExitCode.DONE}:
        click.echo(f"{file} is in order")
    return int(worst_of(codes))


def _checked(cluster: KeptCluster) -> ExitCode:
    """What is asked for in a cluster; and whether the file that says how to get in there can be used."""
    click.echo(f"{cluster.name}: {cluster.target.bootstrap}, {_modes(cluster)}")
    try:
        check_access(cluster)
    except ShunterError as error:
        told_error(error)
        return code_of(error)
    return ExitCode.DONE


def _modes(cluster: KeptCluster) -> str:
    modes: dict[str, list[str]] = {}
    for condition, watch in cluster.policy.watches.items():
        modes.setdefault(watch.mode.value, []).append(condition.value)
    return "; ".join(f"{mode}: {', '.join(names)}" for mode, names in modes.items())


def _once(file: Path, state: Path | None, plans: Path | None, *, as_json: bool) -> int:
    tell = _say if as_json else _show
    code = worst_of([tell(look) for look in look_once(read_policies(file), state, plans)])
    if as_json:
        say_json({"event": "end", "exit": int(code)})
    return int(code)


def _code(look: LookTaken) -> ExitCode:
    if look.error is not None:
        return code_of(look.error)
    return ExitCode.PARTLY if look.conditions else ExitCode.DONE


# ---- for programs


def _say(look: LookTaken) -> ExitCode:
    if look.error is not None:
        say_json({"event": "error", "cluster": look.name, "error": str(look.error), "exit": int(_code(look))})
        return _code(look)
    head = {"cluster_id": look.cluster_id, "brokers": look.brokers, "forgotten_minutes": look.forgotten_minutes}
    say_json({"event": "cluster", "cluster": look.name, **head})
    for condition in look.conditions:
        say_json({"event": "condition", "cluster": look.name, **asdict(condition)})
    for proposal in look.proposals:
        plan = str(look.plan) if look.plan is not None and proposal.ready else None
        say_json({"event": "proposal", "cluster": look.name, **asdict(proposal), "plan": plan})
    return _code(look)


# ---- for people


def _show(look: LookTaken) -> ExitCode:
    click.echo(f"== {look.name}")
    if look.error is not None:
        told_error(look.error)
        return _code(look)
    click.echo(
        f"cluster {look.cluster_id}: {counted(look.brokers, 'broker')}, conditions that hold: {len(look.conditions)}"
    )
    if look.forgotten_minutes is not None:
        click.echo(
            f"the last look was {look.forgotten_minutes} minutes from now, beyond gap-minutes: all is counted anew"
        )
    for condition in look.conditions:
        click.echo(f"{'holds':<9} {condition.condition}: {condition.text} ({_lasting(condition)})")
    for proposal in look.proposals:
        _show_proposal(proposal, look.plan if proposal.ready else None)
    return _code(look)


def _lasting(condition: ConditionView) -> str:
    known = "seen first now" if condition.since_ms is None else f"for {condition.minutes} minutes"
    wanted = condition.wanted_minutes
    return known if condition.minutes >= wanted else f"{known}; it has to hold for {wanted} minutes"


def _show_proposal(proposal: ProposalView, plan: Path | None) -> None:
    mark = "proposes" if proposal.ready else "held back" if proposal.partitions or proposal.behind else "nothing"
    if proposal.partitions:
        size = f"{counted(proposal.moves, 'replica')} to copy, {told_bytes(proposal.bytes)}"
        told = f"{size}; {counted(proposal.leader_changes, 'partition')} with another preferred leader"
    elif proposal.behind:
        told = f"planned once {proposal.behind} is done"
    else:
        told = f"the planner finds nothing that mends {', '.join(proposal.conditions)}"
    click.echo(f"{mark:<9} {proposal.scope}: {told}")
    for sentence in [*proposal.held_back, *(f"not done: {each}" for each in proposal.undone[:_SHOWN])]:
        click.echo(f"{'':<9}   {sentence}")
    if len(proposal.undone) > _SHOWN:
        click.echo(f"{'':<9}   not done: {len(proposal.undone) - _SHOWN} more")
    if proposal.ready and proposal.mode == "act":
        click.echo(f"{'':<9}   its conditions may act: the service would carry it out; a single look does not")
    if plan is not None:
        click.echo(f"{'':<9}   → {plan}")
