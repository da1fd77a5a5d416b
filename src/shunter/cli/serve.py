"""`shunter serve`: the keeper. So far it checks a policy file, or looks at each cluster once and proposes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from shunter.app.exit_codes import ExitCode
from shunter.app.keeper import LookTaken, look_once
from shunter.app.keeper_policy import KeptCluster, read_policies
from shunter.cli.execution_display import say_json, told_bytes
from shunter.cli.leaving import code_of, leave_with, told_error
from shunter.cli.profiles import worst_of
from shunter.core.keeper.signs import count
from shunter.errors import ShunterError
from shunter.views.keeper import ConditionView, ProposalView

_SHOWN = 5


class NotThere(ShunterError):
    """Something that Shunter does not do yet."""


@click.command()
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
def serve(file: Path, state: Path | None, plans: Path | None, *, checks: bool, once: bool, as_json: bool) -> None:
    """Judge clusters by the policy of FILE, and propose plans that mend what is wrong; nothing is touched.

    The service itself is not there yet: --check reads FILE, and --once looks at each cluster once. Conditions have to
    hold for some minutes before anything is proposed: run --once every few minutes with the same --state.

    \b
    Exit status: 0 the file is in order, or no condition holds; 1 conditions hold; 2 the file has a key or value that it
    can't have; 3 a cluster does not answer, and the others were looked at; 5 a file can't be read or written.

    \b
    Examples:
      shunter serve keeper.toml --check
      shunter serve keeper.toml --once
      shunter serve keeper.toml --once --state keeper.json --plans plans
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    if checks and once:
        raise click.UsageError("--check and --once: choose one of them")
    if not once and (as_json or state is not None or plans is not None):
        raise click.UsageError("--json, --state and --plans are for --once")
    leave_with(lambda: _once(file, state, plans, as_json=as_json) if once else _check(file, goes_on=not checks))


def _check(file: Path, *, goes_on: bool) -> int:
    """Read the file; `goes_on`: somebody asked for more."""
    clusters = read_policies(file)
    if goes_on:
        told = "the service itself is not there yet: --once looks at each cluster once, --check reads the file"
        raise NotThere(f"{file} is in order, and {told}")
    for cluster in clusters:
        click.echo(f"{cluster.name}: {cluster.target.bootstrap}, {_modes(cluster)}")
    click.echo(f"{file} is in order")
    return int(ExitCode.DONE)


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
        f"cluster {look.cluster_id}: {count(look.brokers, 'broker')}, conditions that hold: {len(look.conditions)}"
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
    mark = "proposes" if proposal.ready else "held back" if proposal.partitions else "nothing"
    if proposal.partitions:
        size = f"{count(proposal.moves, 'replica')} to copy, {told_bytes(proposal.bytes)}"
        told = f"{size}; {count(proposal.leader_changes, 'partition')} with another preferred leader"
    else:
        told = f"the planner finds nothing that mends {', '.join(proposal.conditions)}"
    click.echo(f"{mark:<9} {proposal.scope}: {told}")
    for sentence in [*proposal.held_back, *(f"not done: {each}" for each in proposal.undone[:_SHOWN])]:
        click.echo(f"{'':<9}   {sentence}")
    if len(proposal.undone) > _SHOWN:
        click.echo(f"{'':<9}   not done: {len(proposal.undone) - _SHOWN} more")
    if proposal.ready and proposal.mode == "act":
        click.echo(
            f"{'':<9}   its conditions may act: there is no service yet that carries it out, `shunter execute` does"
        )
    if plan is not None:
        click.echo(f"{'':<9}   → {plan}")
