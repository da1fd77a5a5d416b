"""Options that several commands of `shunter pipeline` take, and sentences about a plan's outcome."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from shunter.app.planning.plan import AIMS, see_options_fit
from shunter.cli.broker_ids import BrokerIds
from shunter.core.wording import counted
from shunter.errors import DriverError, FormatError, SettingsError, ShunterError

if TYPE_CHECKING:
    from shunter.app.pipeline.stages import PipelineSettings

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


class Duration(click.ParamType[float]):
    """`30s`, `1m`, `2h`, `1d`; a bare number is seconds."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a duration in seconds."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        unit = _SECONDS.get(text[-1:])
        try:
            seconds = float(text[:-1]) * unit if unit is not None else float(text)
        except ValueError:
            self.fail(f"{text!r} is not a duration: write 30s, 1m, 2h or 1d", param, ctx)
        if seconds <= 0:
            self.fail(f"{text!r} is not a duration above 0", param, ctx)
        return seconds


def complaining(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command print its errors in a sentence; exit status 2 for a wrong option, 1 for other errors."""

    @wraps(command)
    def guarded(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except SettingsError as error:
            raise click.UsageError(str(error)) from error
        except (DriverError, FormatError) as error:
            raise click.ClickException(str(error)) from error
        except ShunterError as error:
            raise click.ClickException(f"refused: {error}") from error

    return guarded


def settings_of(ctx: click.Context) -> PipelineSettings:
    """The settings from the options in front of the command."""
    from shunter.app.pipeline.stages import PipelineSettings  # noqa: PLC0415

    return PipelineSettings(**ctx.obj)


def utc(given: datetime | None) -> datetime | None:
    """A time of the command line, taken as UTC."""
    return None if given is None else given.replace(tzinfo=UTC)


json_option = click.option("--json", is_flag=True, help="Say what was done as one JSON object on standard output.")


def as_json(outcome: Any) -> str:
    """An outcome as one line of JSON: named values as objects, times in ISO 8601."""
    return orjson.dumps(_plain(outcome)).decode()


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(one) for name, one in value._asdict().items()}
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, date | datetime):
        return value.isoformat()
    return str(value) if isinstance(value, Path) else value


cluster_option = click.option("--cluster", "clusters", multiple=True, help="Only this cluster; repeat for several.")
limit_option = click.option("--limit", "seconds_per_cluster", type=Duration(), default="10m", show_default=True, help="Give up on a cluster after this time.")  # fmt: skip

_PLAN_OPTIONS = (
    click.option("--scope", default="rebalance", show_default=True, help="rebalance, drain, fill, fix-racks, change-replication, replace, empty-disks or leaders."),
    click.option("--brokers", type=BrokerIds(), default="", help="The brokers that the scope is about, with commas between."),
    click.option("--replacements", type=BrokerIds(), default="", help="replace: which broker takes over from each of --brokers."),
    click.option("--replication", type=int, default=0, help="change-replication: how many replicas."),
    click.option("--topic", "topics", multiple=True, help="change-replication: only this topic; repeat for several."),
    click.option("--disk-limit-percent", type=float, help="empty-disks: replicas leave brokers whose disks are fuller than this."),
    cluster_option,
    click.option("--exclude-topic", "excluded_topics", multiple=True, help="Leave this topic as it is; repeat for several."),
    click.option("--exclude-brokers", "excluded_brokers", type=BrokerIds(), default="", help="Brokers that no replica leaves or comes to, with commas between."),
    click.option("--peak", default="p95", show_default=True, help="The load that brokers must carry: mean, p50, p95, p99, max, or week."),
    click.option("--days", type=float, default=0.0, show_default=True, help="Plan for the sizes of this many days from now."),
    click.option("--aims", default="", metavar="NAMES", help=f"What is balanced, the most important first, with commas between: {', '.join(AIMS)}."),
    click.option("--band-percent", type=float, default=10.0, show_default=True, help="How many percent a broker may be above or below its share of each aim."),
    click.option("--capacity", type=float, metavar="BYTES/S", help="What each broker's network carries each way. Without it: networks are not bounded. Room on disks is in the snapshots."),
    click.option("--headroom-percent", type=float, default=20.0, show_default=True, help="How many percent of each capacity (disk, network) stay free."),
    click.option("--max-replicas", type=int, help="The most replicas on one broker. Without it: no bound."),
    click.option("--max-bytes-percent", type=float, help="Copy at most this share of all bytes (5: 5 %). Without it: no bound."),
    click.option("--max-moves", type=int, help="Copy at most this many replicas. Without it: no bound."),
    click.option("--snapshot-age", type=Duration(), default="7d", show_default=True, help="Plan no cluster whose newest snapshot is older than this."),
    click.option("--least-rates-percent", type=click.FloatRange(0, 100), default=0.0, show_default=True, help="Plan no cluster in which a smaller share of the partitions has rates."),
    click.option("--rates-age", type=Duration(), default="7d", show_default=True, help="Warn of a cluster whose newest rates are older than this."),
    click.option("--joint-bound", is_flag=True, help="Also compute the lower bound by disk, replicas and leaders together (seconds more for each cluster)."),
    limit_option,
)  # fmt: skip


def plan_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a plan."""
    for option in reversed(_PLAN_OPTIONS):
        command = option(command)
    return command


def asked_of(given: dict[str, Any]) -> Any:
    """The plan's request, from the options; removes `aims` from `given`."""
    from shunter.app.pipeline.stages import FleetPlanOptions  # noqa: PLC0415

    given["as_of"] = utc(given.get("as_of"))
    aims = tuple(part.strip() for part in given.pop("aims").split(",") if part.strip())
    if aims:
        given["aims"] = aims
    asked = FleetPlanOptions(**given)
    see_options_fit(asked)
    # A request that contradicts itself is refused before Spark is started for it.
    asked.asked()
    return asked


def _told_basis(basis: Any) -> str:
    """The data that a plan rests on, and its age."""
    if basis is None:
        return ""
    text = f"{basis.with_rates:,} of {counted(basis.partitions, 'partition')} have rates"
    if basis.with_bytes_out < basis.with_rates:
        text += f" ({basis.with_rates - basis.with_bytes_out:,} of bytes in alone)"
    if basis.with_rates:
        text += f", the newest window from {datetime.fromtimestamp(basis.rates_until, UTC):%Y-%m-%d %H:%M} UTC on"
    if basis.coarse:
        minutes = basis.coarse_seconds / 60
        text += f" ({basis.coarse:,} by windows of up to {minutes:,.0f} min, whose peaks are lower than those of the others' shorter ones)"
    if basis.with_sizes < basis.partitions:
        text += f"; {basis.partitions - basis.with_sizes:,} have no size"
    if basis.snapshot_at is None:
        return f"{text}; no snapshot: replicas are where the newest samples came from"
    return f"{text}; snapshot of {datetime.fromtimestamp(basis.snapshot_at, UTC):%Y-%m-%d %H:%M} UTC"


def told_plan(outcome: Any) -> str:
    """The outcome of planning one cluster, in words."""
    if outcome.status != "planned":
        return f"{outcome.cluster_id}: {outcome.status} after {outcome.seconds:.1f} s: {outcome.message}"
    bounds = [share for share in (outcome.bound_percent, outcome.joint_bound_percent) if share is not None]
    bound = f" (to reach every band no plan copies less than {max(bounds):.2f} %)" if bounds else ""
    text = f"{outcome.cluster_id}: {counted(outcome.moves, 'copy', 'copies')}, {outcome.bytes_percent:.2f} % of all bytes{bound}, {outcome.seconds:.1f} s"
    if outcome.basis is not None:
        text += f"\n  {_told_basis(outcome.basis)}"
    if outcome.undone:
        text += f"\n  {outcome.undone:,} aims are not reached; `shunter pipeline report` and the table plan_undone say which, and why"
    return text if outcome.message is None else f"{text}\n  {outcome.message}"


def told_schedules(made: Any) -> Iterator[str]:
    """The outcome of scheduling a plan, line by line."""
    yield f"plan {made.plan_id}"
    for outcome in made.scenarios:
        yield outcome.told
        yield from (f"  {more}" for more in (outcome.warning, outcome.quiet) if more)
    for cluster in made.idle:
        yield f"{cluster}: its plan copies nothing, so there is nothing to schedule"
    for cluster, why in made.unplanned:
        yield f"{cluster}: was not planned, so there is nothing to schedule: {why}"
