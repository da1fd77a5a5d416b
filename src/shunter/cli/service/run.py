"""The work of `shunter serve run`: to serve, to check a policy file, or to look once. It loads the planner."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shunter.app.access.private_files import replace_file
from shunter.app.access.process_log import log_to_stderr
from shunter.app.evaluation.first_policy import first_policy
from shunter.app.evaluation.once import LookTaken, look_once
from shunter.app.evaluation.policy import KeptCluster, check_access, read_policies
from shunter.app.evaluation.policy_form import policy_schema
from shunter.app.executor.session import Target
from shunter.app.exit_codes import ExitCode
from shunter.app.service.client import SOCKET
from shunter.app.service.running import serve_until_told
from shunter.cli.execution.display import say_json
from shunter.cli.leaving import code_of, told_error
from shunter.cli.profiles import worst_of
from shunter.cli.service.page import open_door
from shunter.core.wording import counted, told_bytes
from shunter.errors import SettingsError, ShunterError
from shunter.views.keeper import ConditionView, ProposalView

if TYPE_CHECKING:
    from shunter.web.server import WebOptions

_SHOWN = 5


def run(file: Path, folder: Path, page: WebOptions | None, audit: Path | None) -> int:
    """Serve until SIGTERM or SIGINT."""

    def say(told: str) -> None:
        click.echo(f"shunter: {told}", err=True)

    log_to_stderr()
    asyncio.run(serve_until_told(file, folder, say, open_door(folder / SOCKET, page, say), audit=audit))
    return int(ExitCode.DONE)


def init(file: Path, bootstrap_server: str, command_config: Path | None, name: str) -> int:
    """Write a first policy file; returns the exit status."""
    if file.exists():
        raise SettingsError(f"{file} exists, and is not overwritten: name another file")
    target = Target(bootstrap_server, command_config)
    text = first_policy(name, target, file.parent)
    replace_file(file, text.encode())
    click.echo(f"{file} is written: `shunter serve {file} --once` looks, `shunter serve {file}` observes")
    return check(file)


def schema() -> int:
    """Print the JSON Schema of the policy file."""
    click.echo(json.dumps(policy_schema(), indent=2, ensure_ascii=False))
    return int(ExitCode.DONE)


def check(file: Path) -> int:
    """Show what a policy file asks for; returns the exit status."""
    codes = [_checked(cluster) for cluster in read_policies(file)]
    if set(codes) == {ExitCode.DONE}:
        click.echo(f"{file} is in order")
    return int(worst_of(codes))


def _checked(cluster: KeptCluster) -> ExitCode:
    """Show the policy of a cluster; returns whether its client properties can be used."""
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


def once(file: Path, state: Path | None, plans: Path | None, *, as_json: bool) -> int:
    """Look at each cluster once, and show the looks; returns the exit status."""
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
            f"the last observation is {look.forgotten_minutes} minutes away, more than gap-minutes: conditions count anew"
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
    blocked = proposal.partitions or proposal.behind or proposal.held_back
    mark = "proposes" if proposal.ready else "blocked" if blocked else "nothing"
    if proposal.partitions:
        size = f"{counted(proposal.moves, 'replica')} to copy, {told_bytes(proposal.bytes)}"
        told = f"{size}; {counted(proposal.leader_changes, 'partition')} with another preferred leader"
    elif proposal.behind:
        told = f"planned once {proposal.behind} is done"
    elif proposal.held_back:
        told = f"no plan now that mends {', '.join(proposal.conditions)}"
    else:
        told = f"the planner finds nothing that mends {', '.join(proposal.conditions)}"
    click.echo(f"{mark:<9} {proposal.scope}: {told}")
    for sentence in [*proposal.held_back, *(f"not done: {each}" for each in proposal.undone[:_SHOWN])]:
        click.echo(f"{'':<9}   {sentence}")
    if len(proposal.undone) > _SHOWN:
        click.echo(f"{'':<9}   not done: {len(proposal.undone) - _SHOWN} more")
    if proposal.ready and proposal.mode == "act":
        click.echo(f"{'':<9}   the policy lets the service carry this out by itself; a single look does not")
    if plan is not None:
        click.echo(f"{'':<9}   → {plan}")
