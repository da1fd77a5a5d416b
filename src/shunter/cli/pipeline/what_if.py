"""`shunter pipeline what-if`: brokers that do not exist yet, another factor or retention, a rack lost, a later day."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shunter.cli.pipeline.options import (
    Duration,
    as_json,
    cluster_option,
    complaining,
    json_option,
    limit_option,
    settings_of,
)
from shunter.core.wording import counted, told_bytes
from shunter.model.limits import LEAST_RATE, MOST_RATE

if TYPE_CHECKING:
    from shunter.pipeline.planning.what_if import ToldAnswer

FEWEST = "fewest"


class BrokerCount(click.ParamType[int | str]):
    """A number of brokers, or `fewest`."""

    name = "COUNT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Read a number of 0 or more, or the word."""
        text = str(value)
        if text == FEWEST:
            return text
        if not text.isdigit():
            self.fail(f"{text!r} is not a number of brokers: write 3, or {FEWEST}", param, ctx)
        return int(text)


@click.command("what-if")
@cluster_option
@click.option(
    "--add-brokers",
    type=BrokerCount(),
    default="0",
    show_default=True,
    help="Add this many brokers; `fewest` finds how many are needed.",
)
@click.option(
    "--broker-disk",
    type=click.FloatRange(min=0, min_open=True),
    metavar="BYTES",
    help="Room on the disks of each new broker, and of brokers whose room is unknown. Without it: the others' median.",
)
@click.option(
    "--broker-network",
    type=click.FloatRange(min=0, min_open=True),
    metavar="BYTES/S",
    help="What each new broker's network carries, either way. Without it: --capacity.",
)
@click.option(
    "--rack",
    "racks",
    multiple=True,
    help="A rack of new brokers; several racks are used in turn. Without it: the rack with the fewest brokers.",
)
@click.option("--without-rack", "lost_racks", multiple=True, help="Assume that this rack is lost; repeat for several.")
@click.option("--replication", type=click.IntRange(min=1), help="Assume this replication factor.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="PATTERN",
    help="--replication is for these topics only. Without it: for all.",
)
@click.option(
    "--retention",
    "retention",
    multiple=True,
    metavar="PATTERN=FACTOR",
    help="Assume that FACTOR times as much is kept of these topics; the first pattern that matches counts.",
)
@click.option(
    "--traffic",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="FACTOR",
    help="Assume that FACTOR times as much is written and read.",
)
@click.option(
    "--until",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Use the sizes of this day, by each topic's growth (`runway`).",
)
@click.option(
    "--growth",
    type=click.Choice(["expected", "high"]),
    default="expected",
    show_default=True,
    help="Which growth: the expected one, or the upper end of its interval.",
)
@click.option(
    "--headroom-percent",
    type=float,
    default=20.0,
    show_default=True,
    help="How many percent of each capacity every broker keeps free.",
)
@click.option(
    "--peak",
    default="p95",
    show_default=True,
    help="The load that brokers must carry: mean, p50, p95, p99, max, or week.",
)
@click.option(
    "--capacity",
    type=click.FloatRange(min=0, min_open=True),
    metavar="BYTES/S",
    help="What each broker's network carries, either way.",
)
@click.option(
    "--throttle",
    type=click.FloatRange(min=LEAST_RATE, max=MOST_RATE),
    default=50e6,
    show_default=True,
    metavar="BYTES/S",
    help="What each broker may send and receive for copies; the time that they take follows from it.",
)
@click.option(
    "--snapshot-age",
    type=Duration(),
    default="7d",
    show_default=True,
    help="Give no answer for a cluster whose newest snapshot is older than this.",
)
@limit_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the plans that lead there, as Kafka's reassignment JSON.",
)
@json_option
@click.pass_context
@complaining
def what_if(ctx: click.Context, json: bool, out: Path | None, until: datetime | None, **given: Any) -> None:
    """Say how full brokers would be with more brokers, another replication factor or retention, a rack lost, or later.

    Nothing is changed. `--add-brokers fewest` finds the least number of new brokers with which every broker keeps the
    headroom. Exit status 1: there is no answer for a cluster. Exit status 7: the load does not fit into a cluster.

    \b
    Examples:
      shunter pipeline what-if --add-brokers fewest --traffic 1.5
      shunter pipeline what-if --retention '*=0.5' --out plans
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.exit_codes import ExitCode  # noqa: PLC0415
    from shunter.app.pipeline import stages  # noqa: PLC0415
    from shunter.app.pipeline.what_if import what_if as answered  # noqa: PLC0415

    settings, options = settings_of(ctx), _asked(given, until)
    with stages.spark_session(settings) as spark:
        question_id, found = answered(spark, settings.lake, options, out)
    if json:
        click.echo(as_json({"question_id": question_id, "clusters": found}))
    else:
        for one in found:
            click.echo(told(one, headroom_percent=options.headroom_percent, later=until is not None))
    if any(one.fits is None for one in found):
        raise SystemExit(1)
    if not all(one.fits for one in found):
        raise SystemExit(ExitCode.REFUSED)


def _asked(given: dict[str, Any], until: datetime | None) -> Any:
    from shunter.app.pipeline.what_if import WhatIfOptions  # noqa: PLC0415
    from shunter.core.planning.what_if import ClusterChange  # noqa: PLC0415

    if given["topics"] and given["replication"] is None:
        raise click.UsageError("--topic needs --replication: it names the topics whose replication factor changes")
    asked = given.pop("add_brokers")
    change = ClusterChange(
        added=0 if asked == FEWEST else asked,
        disk=given.pop("broker_disk"),
        network=given.pop("broker_network"),
        racks=given.pop("racks"),
        lost_racks=given.pop("lost_racks"),
        replication=given.pop("replication") or 0,
        topics=given.pop("topics"),
        retention=tuple(_factor(text) for text in given.pop("retention")),
        traffic=given.pop("traffic"),
    )
    day = None if until is None else until.date()
    return WhatIfOptions(fewest=asked == FEWEST, change=change, until=day, **given)


def _factor(text: str) -> tuple[str, float]:
    pattern, separator, factor = text.rpartition("=")
    try:
        value = float(factor)
    except ValueError:
        value = -1.0
    if not separator or not pattern or not 0 <= value < float("inf"):
        raise click.UsageError(f"--retention takes PATTERN=FACTOR, such as 'logs-*=0.5', not {text!r}")
    return pattern, value


def told(one: ToldAnswer, *, headroom_percent: float, later: bool) -> str:
    """One cluster's answer in words."""
    if one.fits is None:
        return f"{one.cluster_id}: {one.status}: {one.message}"
    lines = [f"{one.cluster_id}: " + _whether(one, headroom_percent)]
    if one.lost:
        examples = f", such as {', '.join((one.examples or [])[:3])}" if one.examples else ""
        lines.append(
            f"at once, without brokers {', '.join(map(str, one.lost))}: {counted(one.unavailable or 0, 'partition has', 'partitions have')} no replica left, "
            f"{one.below_min_isr:,} fewer than min.insync.replicas{examples}"
        )
    for resource, broker, before, stood_in, after in one.fullest:
        at_once = "" if stood_in is None else f", {stood_in:.0%} once racks are lost"
        lines.append(f"{resource}: broker {broker} ends fullest with {after:.0%} ({before:.0%} before{at_once})")
    lines.append(
        f"to get there: {counted(one.moves or 0, 'copy', 'copies')}, {told_bytes(one.bytes_moved or 0)} ({one.bytes_percent:.1f} % of all), "
        f"{_hours(one.copy_seconds or 0)} at least"
    )
    if later and one.partitions_with_growth < one.partitions:
        missing = one.partitions - one.partitions_with_growth
        lines.append(
            f"{missing:,} of {counted(one.partitions, 'partition stays as it is', 'partitions stay as they are')}: the growth of their topics is unknown"
        )
    if one.message is not None:
        lines.append(one.message)
    return "\n  ".join(lines)


def _whether(one: ToldAnswer, headroom_percent: float) -> str:
    added = one.added or []
    ids = f"{added[0]} to {added[-1]}" if len(added) > 1 else "".join(map(str, added))
    brokers = f"with {counted(len(added), 'more broker')} ({ids})" if added else "with the brokers that are there"
    if not one.fullest:
        return f"{brokers} {'all is reached' if one.fits else 'not all is reached'}; no capacity is known: give --broker-disk or --capacity"
    return f"{brokers} it {'fits' if one.fits else 'does not fit'}: {headroom_percent:g} % of each capacity free"


def _hours(seconds: float) -> str:
    return f"{seconds / 3_600:,.1f} h" if seconds >= 3_600 else f"{seconds / 60:,.0f} min"
