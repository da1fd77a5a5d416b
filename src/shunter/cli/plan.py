"""`shunter plan`: Kafka's reassignment JSON on standard output, the summary on standard error."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click
import orjson

from shunter.app.executor.session import Target, decode_plan
from shunter.app.exit_codes import ExitCode
from shunter.app.planning.plan import (
    AIMS,
    BOUNDS,
    DISKS,
    SCOPES,
    SIZE_BYTES,
    Planned,
    PlanOptions,
    plan_file,
    see_options_fit,
    write_explanation,
)
from shunter.cli.broker_ids import BrokerIds
from shunter.cli.execution.display import say_json
from shunter.cli.execution.execute import Carrying, carry_out, require_consent
from shunter.cli.execution.options import (
    LATER,
    carrying_options,
    driver_options,
    execution_options,
    headroom_option,
    journal_options,
)
from shunter.cli.leaving import leave_with, told_error
from shunter.cli.profiles import is_from_file, is_on_command_line
from shunter.cli.sections import ManyOptions
from shunter.core.planning.cluster import Resource
from shunter.core.wording import counted, named, told_brokers, told_bytes
from shunter.errors import SettingsError, ShunterError
from shunter.model.execution import ExecutionOptions

_UNDONE_SHOWN = 12


class _Names(click.ParamType[tuple[str, ...]]):
    """Names with commas between."""

    name = "names"

    def convert(
        self, value: str | tuple[str, ...], _param: click.Parameter | None, _ctx: click.Context | None
    ) -> tuple[str, ...]:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _shared(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of every plan; a command receives them by the names of the fields of `PlanOptions`."""
    for option in reversed(_SHARED):
        command = option(command)
    return command


_SHARED = (
    click.option(
        "--exclude-topics",
        "excluded_topics",
        type=_Names(),
        default="",
        help="Topics that are left as they are, with commas between.",
    ),
    click.option(
        "--exclude-brokers",
        "excluded_brokers",
        type=BrokerIds(),
        default="",
        help="Brokers that no replica leaves or comes to, with commas between.",
    ),
    click.option(
        "--band-percent",
        type=float,
        default=10.0,
        show_default=True,
        help="How many percent a broker may be above or below its share of each aim.",
    ),
    click.option(
        "--aims",
        type=_Names(),
        default="",
        help=f"What is balanced, the most important first, with commas between: {', '.join(AIMS)}."
        " Without it: all but topics, in this order.",
    ),
    headroom_option,
    click.option("--max-replicas", type=int, help="The most replicas on one broker. Without it: no bound."),
    click.option(
        "--max-bytes-percent", type=float, help="Copy at most this share of all bytes (5: 5 %). Without it: no bound."
    ),
    click.option("--max-moves", type=int, help="Copy at most this many replicas. Without it: no bound."),
    click.option("--ignore-racks", is_flag=True, help="Plan as if all brokers were in one rack."),
    click.option(
        "--bound",
        type=click.Choice(BOUNDS),
        default="bytes",
        show_default=True,
        help="Which lower bound the summary shows; lp: also the bound of a linear programme (takes seconds more).",
    ),
)
_FIELDS = frozenset(each.name for each in fields(PlanOptions))
_SECTIONS = {
    "Plan": (
        "excluded_topics", "excluded_brokers", "band_percent", "aims", "headroom_percent", "max_replicas",
        "max_bytes_percent", "max_moves", "ignore_racks", "bound",
    ),
    **LATER,
}  # fmt: skip
_SCOPED = (
    "brokers", "replacements", "replication", "topics", "wanted", "picked", "to", "empty", "disk_limit_percent",
)  # fmt: skip


def _plan_options(given: dict[str, Any]) -> PlanOptions:
    """Take a plan's options out of a command's values."""
    words = {name: given.pop(name) for name in list(given) if name in _FIELDS}
    if not words["aims"]:
        del words["aims"]
    asked = PlanOptions(**words)
    try:
        see_options_fit(asked)
    except SettingsError as error:
        raise click.UsageError(str(error)) from error
    return asked


class _LogDir(click.ParamType[tuple[int, str]]):
    """A log dir of a broker."""

    name = "broker:path"

    def convert(
        self, value: str | tuple[int, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, str]:
        if not isinstance(value, str):
            return value
        broker, _colon, path = value.partition(":")
        if not broker.isdigit() or not path.startswith("/"):
            self.fail(f"{value!r} is not a log dir of a broker: write BROKER:PATH, as in 3:/data/b", param, ctx)
        return int(broker), path


@click.command("plan", cls=ManyOptions, sections={"Scope": _SCOPED, **_SECTIONS})
@click.option(
    "--from", "source", type=click.Path(path_type=Path), help="Read the cluster from this JSON file (see --save)."
)
@click.option("--save", type=click.Path(path_type=Path), help="Write the live cluster into this file; --from reads it.")
@click.option("--scope", type=click.Choice(SCOPES), default="rebalance", show_default=True, help="What may change.")
@click.option(
    "--brokers",
    type=BrokerIds(),
    default="",
    help="Scopes drain, fill, replace, demote, disks: the brokers that the scope is about, with commas between.",
)
@click.option(
    "--replacements",
    type=BrokerIds(),
    default="",
    help="Scope replace: which broker takes over from each of --brokers, in the same order.",
)
@click.option("--replication", type=int, default=0, help="Scope change-replication: the new replication factor.")
@click.option(
    "--topics", type=_Names(), default="", help="Scope change-replication: only these topics. Without it: all."
)
@click.option(
    "--wanted",
    type=click.Path(path_type=Path),
    help="Scope topics: the TOML file that says what each topic shall have.",
)
@click.option(
    "--partitions",
    "picked",
    type=_Names(),
    default="",
    help="Scope topics: the partitions (orders-3) or whole topics to move, with commas between; goes with --to.",
)
@click.option(
    "--to", type=BrokerIds(), default="", help="Scope topics: the brokers that may hold what --partitions names."
)
@click.option(
    "--empty",
    type=_LogDir(),
    multiple=True,
    help="Scope disks: a log dir that all replicas have to leave; repeat for several.",
)
@click.option(
    "--disk-limit-percent",
    type=float,
    help="Scope empty-disks: replicas leave brokers whose disks are fuller than this.",
)
@_shared
@click.option("--explain", type=click.Path(path_type=Path), help="Write each move's reason to this file (JSON lines).")
@click.option("--execute", "executes", is_flag=True, help="Carry the plan out at once, as `shunter execute` does.")
@journal_options
@execution_options
@carrying_options
def plan(
    source: Path | None,
    save: Path | None,
    explain: Path | None,
    target: Target,
    options: ExecutionOptions,
    empty: tuple[tuple[int, str], ...],
    **given: Any,
) -> None:
    """Plan the moves that bring a cluster into balance, with the fewest bytes.

    It reads the cluster from a file, or once from its brokers. It moves nothing, unless --execute is given. It prints
    the JSON that kafka-reassign-partitions takes; the summary goes to standard error. With --json it prints one object:
    the summary, each copy with its reason, and that JSON as "plan". A cluster that a plan has
    brought into balance needs no further moves. The options of `shunter execute` are for --execute; --dry-run shows
    how the plan would be carried out.

    \b
    Examples:
      shunter plan --bootstrap-server kafka1:9092 --save yard.json
      shunter plan --from yard.json --scope drain --brokers 3
      shunter plan --bootstrap-server kafka1:9092 --scope topics --wanted wanted.toml
      shunter plan --bootstrap-server kafka1:9092 --scope offline --execute --throttle 50M
      shunter plan --bootstrap-server kafka1:9092 --scope disks --empty 3:/data/b --execute --log-dir-throttle 50M
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    if source is not None and is_from_file("bootstrap_server"):
        target = replace(target, bootstrap="")  # --from on the command line overrides a default.
    if (source is None) != (bool(target.bootstrap) or is_on_command_line("bootstrap_server")):
        raise click.UsageError("say what to plan: --from FILE, or a live cluster by --bootstrap-server HOST:PORT")
    executes, asked = given.pop("executes"), _plan_options(given)
    how = Carrying(**given)
    executes |= how.dry_run  # A dry run of the plan is one of carrying it out.
    if bool(empty) > (asked.scope == DISKS):
        raise click.UsageError("--empty is for --scope disks")
    if asked.scope == DISKS and source is not None:
        raise click.UsageError("--scope disks needs the log dirs of a live cluster: use --bootstrap-server")
    if asked.scope == DISKS:
        leave_with(lambda: _disks(asked, empty, target, options, how, executes=executes))
    if executes and source is not None:
        raise click.UsageError("--execute and --dry-run need a live cluster, not a file: use --bootstrap-server")
    try:
        made, name, notes = (
            (plan_file(source, asked), str(source), ()) if source is not None else _plan_live(target, asked, save)
        )
        if explain is not None:
            write_explanation(made, explain)
    except ShunterError as error:
        sys.exit(told_error(error))
    if executes:
        _tell(made, name, notes, how)
        leave_with(lambda: _carry_out(made, asked, target, options, how))
    if how.as_json:
        say_json({**made.to_json((*notes, *made.for_apaches_tool)), "plan": orjson.loads(made.reassignment)})
    else:
        sys.stdout.buffer.write(made.reassignment)
        sys.stdout.buffer.flush()
        click.echo("\n".join([summary_text(made, name), *notes, *made.for_apaches_tool]), err=True)
    if code := _judged(ExitCode.DONE, asked, made.summary.undone):
        sys.exit(int(code))


# ---- plan and execute in one go


def _tell(made: Planned, name: str, notes: Sequence[str], how: Carrying) -> None:
    if how.as_json:
        say_json(made.to_json(notes))
    else:
        click.echo("\n".join([summary_text(made, name), *notes]), err=True)


def _carry_out(made: Planned, asked: PlanOptions, target: Target, options: ExecutionOptions, how: Carrying) -> int:
    """Carry a plan out; returns the exit status."""
    moves = decode_plan(made.reassignment, "the plan")
    code = int(ExitCode.DONE)
    if moves:
        code = carry_out(moves, target, options, how)
    elif not how.as_json:
        click.echo("nothing is to be moved", err=True)
    return _judged(code, asked, made.summary.undone)


_WHOLE = ("drain", "replace", "demote", "offline", "topics", "change-replication", "fix-racks")
"""Scopes whose aim is either reached or not; the other scopes come as near to their aim as they can."""


def _judged(code: int, asked: PlanOptions, undone: Sequence[tuple[str, str]], emptied: Sequence[object] = ()) -> int:
    """The exit status of a plan, made alone or carried out with this status: 1 if it does not do all that was asked."""
    unfinished = bool(undone) and (asked.scope in _WHOLE or bool(emptied))
    return int(ExitCode.PARTLY) if code == ExitCode.DONE and unfinished else code


def _disks(
    asked: PlanOptions,
    emptied: tuple[tuple[int, str], ...],
    target: Target,
    options: ExecutionOptions,
    how: Carrying,
    *,
    executes: bool,
) -> int:
    """Plan log dirs within brokers, and carry the plan out if that is asked for; returns the exit status."""
    from shunter.app.planning.disks import plan_log_dirs  # noqa: PLC0415 - as above

    band, headroom = asked.band_percent / 100, asked.headroom_percent / 100
    made = plan_log_dirs(target.bootstrap, target.properties, asked.brokers, emptied, band, headroom)
    told = [
        f"{counted(len(made.plan.moves), 'replica goes', 'replicas go')} to another log dir of their broker, {told_bytes(made.plan.bytes_moved)}"
    ]
    told += _undone_lines(made.plan.undone)
    if how.as_json:
        shape = {"moves": len(made.plan.moves), "bytes": made.plan.bytes_moved, "undone": made.plan.undone}
        shape |= {} if executes else {"plan": orjson.loads(made.reassignment)}
        say_json({"event": "plan", **shape, "notes": made.notes})
    else:
        click.echo("\n".join([*told, *made.notes]), err=True)
    if not executes:
        if not how.as_json:
            sys.stdout.buffer.write(made.reassignment + b"\n")
            sys.stdout.buffer.flush()
        return _judged(ExitCode.DONE, asked, made.plan.undone, emptied)
    moves = decode_plan(made.reassignment, "the plan")
    code = carry_out(moves, target, options, how) if moves else int(ExitCode.DONE)
    return _judged(code, asked, made.plan.undone, emptied)


def _verb(name: str, scope: str, about: str, *own: Callable[..., Any]) -> click.Command:
    """A verb that plans one scope and carries it out; `own`: its own arguments and options."""

    @_shared
    @driver_options
    @execution_options
    @carrying_options
    def command(target: Target, options: ExecutionOptions, *, cordon: bool = False, **given: Any) -> None:
        asked = _plan_options({**given, "scope": scope})
        how = Carrying(**{key: value for key, value in given.items() if key not in _FIELDS})

        def work() -> int:
            require_consent(how, options)
            made, told, notes = _plan_live(target, asked, None)
            _tell(made, told, notes, how)
            cordoned = _cordons(target, asked.brokers) if cordon else ()
            if cordoned and not made.plan.moves:
                click.echo("nothing moves, so nothing is cordoned", err=True)
            for broker in sorted(set(asked.brokers).difference(dict(cordoned))) if cordon else ():
                click.echo(f"broker {broker} is down, and is not cordoned: it gets no new replicas anyway", err=True)
            return _carry_out(made, asked, target, replace(options, cordons=cordoned), how)

        leave_with(work)

    command.__doc__ = about
    for each in reversed(own):
        command = each(command)
    return click.command(name, cls=ManyOptions, sections=_SECTIONS, help=about)(command)


_brokers = click.argument("brokers", type=BrokerIds())

drain = _verb(
    "drain",
    "drain",
    """Move all replicas away from BROKERS (3, or 3,7), which may be dead; no other replica moves.

    \b
    Examples:
      shunter drain 3 --bootstrap-server kafka1:9092 --dry-run
      shunter drain 3,7 --bootstrap-server kafka1:9092 --throttle 50M
    """,
    _brokers,
    click.option(
        "--cordon",
        is_flag=True,
        help="Cordon BROKERS first (Kafka 4.3): they get no new replicas. It stays until `undrain` or `undo`; `stop` and"
        " `rollback` end it.",
    ),
)
move = _verb(
    "move",
    "topics",
    """Move PARTITIONS (orders-3, or orders-3,orders-4; orders: all of a topic) to the brokers that you choose.

    The planner picks among the brokers of --to: none that is down or cordoned, none without room, and racks are kept
    apart. Exit status 1: something was left undone.

    \b
    Examples:
      shunter move orders-3 --to 4,5,6 --bootstrap-server kafka1:9092 --dry-run
      shunter move orders-3,orders-4 --to 4,5,6 --bootstrap-server kafka1:9092 --throttle 50M
    """,
    click.argument("picked", metavar="PARTITIONS", type=_Names()),
    click.option("--to", type=BrokerIds(), required=True, help="The brokers that may hold what is moved."),
)
demote = _verb(
    "demote",
    "demote",
    """Take all leaderships from BROKERS (3, or 3,7): they become the last replica of what they led; nothing is copied.

    The next rebalance may let them lead again: what is to last is an intent of a service (`shunter intend demote 3`).

    \b
    Example:
      shunter demote 3 --bootstrap-server kafka1:9092
    """,
    _brokers,
)
rebalance = _verb(
    "rebalance",
    "rebalance",
    """Bring every broker within the band of its share (--band-percent), with the fewest bytes.

    \b
    Examples:
      shunter rebalance --bootstrap-server kafka1:9092 --dry-run
      shunter rebalance --bootstrap-server kafka1:9092 --max-bytes-percent 5 --throttle 50M
    """,
)


def _cordons(target: Target, brokers: Sequence[int]) -> tuple[tuple[int, str], ...]:
    """The settings that cordon brokers, which have to know it. The Kafka client is imported only here."""
    from shunter.app.planning.cordons import cordons_of  # noqa: PLC0415

    return asyncio.run(cordons_of(target, brokers))


def _plan_live(target: Target, options: PlanOptions, save: Path | None) -> tuple[Planned, str, tuple[str, ...]]:
    """Plan a live cluster. The Kafka client is imported only here."""
    from shunter.app.planning.live import open_goals, plan_cluster  # noqa: PLC0415

    opened = asyncio.run(open_goals(target))
    made = plan_cluster(target.bootstrap, target.properties, options, save, opened)
    return made.planned, made.cluster_id, made.notes


def summary_text(made: Planned, source: str) -> str:
    """Lay the summary out for a terminal; readable without colour."""
    told, plan = made.summary, made.plan
    lines = [
        (
            f"{source}: {counted(made.brokers, 'broker')} in {counted(made.racks, 'rack')}, {counted(made.partitions, 'partition')}, "
            f"{counted(told.replicas, 'replica')}"
        ),
        f"{'share of the mean':<18} {'before':>13} {'after':>13}",
    ]
    for change in told.resources:
        before = f"{change.least_before:.3f}-{change.most_before:.3f}"
        name = "preferred leaders" if change.name == Resource.LEADERS.label else change.name
        lines.append(f"{name:<18} {before:>13} {f'{change.least_after:.3f}-{change.most_after:.3f}':>13}")
    if out := [broker for broker, member in zip(plan.cluster.brokers, plan.targets.members, strict=True) if not member]:
        lines.append(f"the mean is of {counted(made.brokers - len(out), 'broker')}: {told_brokers(out)} left out")
    lines.append(
        f"{counted(told.moves, 'replica')} to copy, {told_bytes(told.bytes_moved * SIZE_BYTES)} ({told.bytes_percent:.2f} % of all bytes); "
        f"{counted(told.leader_changes, 'preferred leader changes', 'preferred leaders change')}, "
        f"{counted(told.order_only, 'partition changes its order', 'partitions change their order')} alone"
    )
    if told.dropped:
        lines.append(f"{counted(told.dropped, 'replica is', 'replicas are')} removed without a new one")
    if told.bound_percent is not None:
        lines.append(_bound_text(told.bound_percent, told.bytes_percent, told.bound_rests_on))
    if told.joint_percent is not None:
        lines.append(_bound_text(told.joint_percent, told.bytes_percent, _JOINTLY))
    lines += [f"  {count:>9,}  {reason}" for reason, count in told.reasons]
    lines += made.plan.notes
    lines += _undone_lines(told.undone)
    return "\n".join(lines)


def _undone_lines(undone: Sequence[tuple[str, str]]) -> list[str]:
    """What is left undone, a line for each reason."""
    grouped: dict[str, list[str]] = {}
    for what, why in undone:
        grouped.setdefault(why, []).append(what)
    lines = [f"not done: {named(whats, _UNDONE_SHOWN)}: {why}" for why, whats in grouped.items()]
    hidden = len(lines) > _UNDONE_SHOWN or any(len(whats) > _UNDONE_SHOWN for whats in grouped.values())
    more = [f"not done: {len(lines) - _UNDONE_SHOWN} more reasons"] if len(lines) > _UNDONE_SHOWN else []
    explained = ["`shunter plan --explain FILE` names all that is not done"] if hidden else []
    return [*lines[:_UNDONE_SHOWN], *more, *explained]


_JOINTLY = "disk, replicas and leaders together, by a linear programme"


def _bound_text(bound: float, moved: float, rests_on: str) -> str:
    if bound == float("inf"):
        return f"no plan reaches all bands ({rests_on})"
    if moved < bound - 0.005:
        return f"lower bound {bound:.2f} % to reach every band ({rests_on}): this plan stops short of that"
    return f"lower bound {bound:.2f} % ({rests_on}): this plan is {max(0.0, moved - bound):.2f} points above it"
