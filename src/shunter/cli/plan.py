"""`shunter plan`: Kafka's reassignment JSON on standard output, the summary on standard error."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from shunter.app.exit_codes import ExitCode
from shunter.app.plan import AIMS, BOUNDS, SCOPES, Planned, PlanOptions, plan_file, write_explanation
from shunter.errors import DriverError, ShunterError

_UNDONE_SHOWN = 12


class _Numbers(click.ParamType[tuple[int, ...]]):
    """Broker ids with commas between."""

    name = "ids"

    def convert(
        self, value: str | tuple[int, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if not isinstance(value, str):
            return value
        try:
            return tuple(int(part) for part in value.split(",") if part.strip())
        except ValueError:
            self.fail(f"{value!r} is not a list of broker ids such as 3,7", param, ctx)


class _Names(click.ParamType[tuple[str, ...]]):
    """Names with commas between."""

    name = "names"

    def convert(
        self, value: str | tuple[str, ...], _param: click.Parameter | None, _ctx: click.Context | None
    ) -> tuple[str, ...]:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


@click.command("plan")
@click.option("--from", "source", type=click.Path(path_type=Path), help="The cluster, as JSON.")
@click.option("--bootstrap-server", metavar="HOST:PORT[,…]", help="A live cluster instead: brokers to ask first.")
@click.option("--command-config", type=click.Path(path_type=Path), help="Properties file, as Apache's tools take it.")
@click.option(
    "--save", type=click.Path(path_type=Path), help="Keep what the live cluster looked like; --from reads it."
)
@click.option("--scope", type=click.Choice(SCOPES), default="rebalance", show_default=True, help="What may change.")
@click.option("--brokers", type=_Numbers(), default="", help="Drain, fill, replace: the brokers it is about.")
@click.option("--replacements", type=_Numbers(), default="", help="Replace: who takes the place of each of --brokers.")
@click.option("--replication", type=int, default=0, help="Change-replication: the new replication factor.")
@click.option("--topics", type=_Names(), default="", help="Change-replication: these topics only.")
@click.option("--disk-limit-percent", type=float, help="Empty-disks: how full a disk may be.")
@click.option("--exclude-topics", type=_Names(), default="", help="Topics that are left as they are.")
@click.option("--exclude-brokers", type=_Numbers(), default="", help="Brokers that neither give nor take.")
@click.option(
    "--band-percent", type=float, default=10.0, show_default=True, help="How far from its share a broker may be."
)
@click.option("--aims", type=_Names(), default="", help=f"The most important first, of: {', '.join(AIMS)}.")
@click.option("--headroom-percent", type=float, default=20.0, show_default=True, help="Kept free of each capacity.")
@click.option("--max-replicas", type=int, help="The most replicas on one broker.")
@click.option("--max-bytes-percent", type=float, help="Move at most this share of all bytes.")
@click.option("--max-moves", type=int, help="Copy at most this many replicas.")
@click.option("--ignore-racks", is_flag=True, help="Plan as if all brokers were in one rack.")
@click.option(
    "--bound",
    type=click.Choice(BOUNDS),
    default="bytes",
    show_default=True,
    help="The lower bound shown; lp: that of a linear programme beside it.",
)
@click.option("--explain", type=click.Path(path_type=Path), help="Write each move's reason to this file (JSON lines).")
def plan(
    source: Path | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    save: Path | None,
    explain: Path | None,
    **chosen: object,
) -> None:
    """Plan the moves that bring a cluster into balance, with the fewest bytes.

    Reads the cluster from a file, or once from its brokers, and moves nothing. Prints the JSON that
    kafka-reassign-partitions takes; the summary goes to standard error. Planning the result again changes nothing. Bad
    input ends with status 2, a cluster that does not answer with 3.

    \b
    Examples:
      shunter plan --bootstrap-server kafka1:9092 --save yard.json
      shunter plan --from yard.json --scope drain --brokers 3
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    if (source is None) == (bootstrap_server is None):
        raise click.UsageError("say what to plan: --from FILE, or a live cluster by --bootstrap-server HOST:PORT")
    words = {_FIELDS.get(name, name): value for name, value in chosen.items()}
    if not words["aims"]:
        del words["aims"]
    options = PlanOptions(**words)  # type: ignore[arg-type]
    try:
        made, name, notes = (
            (plan_file(source, options), str(source), ())
            if source is not None
            else _plan_live(str(bootstrap_server), command_config, options, save)
        )
        if explain is not None:
            write_explanation(made, explain)
    except ShunterError as error:
        click.echo(f"shunter plan: {error}", err=True)
        sys.exit(ExitCode.CLUSTER if isinstance(error, DriverError) else ExitCode.USAGE)
    sys.stdout.buffer.write(made.reassignment)
    sys.stdout.buffer.flush()
    click.echo("\n".join([summary_text(made, name), *notes]), err=True)


def _plan_live(
    bootstrap: str, properties: Path | None, options: PlanOptions, save: Path | None
) -> tuple[Planned, str, tuple[str, ...]]:
    """Plan a live cluster; a client of Kafka's is imported only here."""
    from shunter.app.plan_live import plan_cluster  # noqa: PLC0415

    made = plan_cluster(bootstrap, properties, options, save)
    return made.planned, made.cluster_id, made.notes


_FIELDS = {"exclude_topics": "excluded_topics", "exclude_brokers": "excluded_brokers"}


def summary_text(made: Planned, source: str) -> str:
    """Lay the summary out for a terminal; readable without colour."""
    told = made.summary
    lines = [
        (
            f"{source}: {made.brokers:,} brokers in {made.racks:,} racks, {made.partitions:,} partitions, "
            f"{told.replicas:,} replicas"
        ),
        f"{'share of the mean':<18} {'before':>13} {'after':>13}",
    ]
    for change in told.resources:
        before = f"{change.least_before:.3f}-{change.most_before:.3f}"
        lines.append(f"{change.name:<18} {before:>13} {f'{change.least_after:.3f}-{change.most_after:.3f}':>13}")
    lines.append(
        f"{told.moves:,} replicas to copy, {_size(told.bytes_moved)} ({told.bytes_percent:.2f} % of all bytes); "
        f"{told.leader_changes:,} preferred leaders change, {told.order_only:,} partitions change their order alone"
    )
    if told.dropped:
        lines.append(f"{told.dropped:,} replicas go without another one coming")
    if told.bound_percent is not None:
        lines.append(_bound_text(told.bound_percent, told.bytes_percent, told.bound_rests_on))
    if told.joint_percent is not None:
        lines.append(_bound_text(told.joint_percent, told.bytes_percent, _JOINTLY))
    lines += [f"  {count:>9,}  {reason}" for reason, count in told.reasons]
    lines += [f"not done: {what}: {why}" for what, why in told.undone[:_UNDONE_SHOWN]]
    if len(told.undone) > _UNDONE_SHOWN:
        lines.append(f"not done: {len(told.undone) - _UNDONE_SHOWN} more; --explain FILE names them all")
    return "\n".join(lines)


_JOINTLY = "disk, replicas and leaders together, by a linear programme"


def _bound_text(bound: float, moved: float, rests_on: str) -> str:
    if bound == float("inf"):
        return f"no plan reaches all bands ({rests_on})"
    if moved < bound - 0.005:
        return f"lower bound {bound:.2f} % to reach every band ({rests_on}): this plan stops short of that"
    return f"lower bound {bound:.2f} % ({rests_on}): this plan is {max(0.0, moved - bound):.2f} points above it"


def _size(kib: float) -> str:
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        if kib < 1024:
            return f"{kib:,.1f} {unit}"
        kib /= 1024
    return f"{kib:,.1f} PiB"
