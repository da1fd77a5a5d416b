"""`shunter pipeline quality`, `runway`, `showback`, `anomalies`: reports about whole clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shunter.cli.pipeline.options import as_json, cluster_option, complaining, json_option, settings_of
from shunter.core.wording import counted

_GB = 1e9


@click.command()
@cluster_option
@json_option
@click.pass_context
@complaining
def quality(ctx: click.Context, clusters: tuple[str, ...], json: bool) -> None:
    """Say how good each cluster's data is: how complete day by day, how fresh, and how many partitions have rates.

    \b
    Examples:
      shunter pipeline quality --json
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.pipeline import stages  # noqa: PLC0415
    from shunter.app.pipeline.outlook import quality as looked_at  # noqa: PLC0415

    settings = settings_of(ctx)
    with stages.spark_session(settings) as spark:
        found = looked_at(spark, settings.lake, clusters=clusters)
    if json:
        click.echo(as_json({"clusters": found}))
        return
    for one in found:
        text = f"{one.cluster_id}, {one.date}: {one.with_rates:,} of {counted(one.partitions, 'partition')} have rates"
        if one.rates_until is not None:
            text += f" for {one.coverage:.0%} of the time, until {one.rates_until:%Y-%m-%d %H:%M} UTC"
        text += "; no snapshot" if one.snapshot_at is None else f"; snapshot of {one.snapshot_at:%Y-%m-%d %H:%M} UTC"
        click.echo(text + (f"; {counted(one.rejected, 'row')} put aside" if one.rejected else ""))


@click.command()
@cluster_option
@click.option(
    "--days", type=click.IntRange(min=5), default=60, show_default=True, help="How many of the newest days are used."
)
@click.option(
    "--headroom-percent",
    type=float,
    default=0.0,
    show_default=True,
    help="How many percent of each broker's disks have to stay free.",
)
@json_option
@click.pass_context
@complaining
def runway(ctx: click.Context, clusters: tuple[str, ...], days: int, headroom_percent: float, json: bool) -> None:
    """Say on which day each broker's disks are full, and which topics alone would fill a broker's disks.

    The ups and downs of retention, and a load that came once, do not count as growth. The table `runway` has every
    topic, and how far a trend from the first three quarters of the days missed the last quarter.

    \b
    Examples:
      shunter pipeline runway --days 90 --headroom-percent 20
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.pipeline import stages  # noqa: PLC0415
    from shunter.app.pipeline.outlook import runway as looked_ahead  # noqa: PLC0415

    settings = settings_of(ctx)
    with stages.spark_session(settings) as spark:
        found = looked_ahead(spark, settings.lake, clusters=clusters, days=days, headroom_percent=headroom_percent)
    if json:
        click.echo(as_json({"runway": found}))
        return
    for one in found:
        click.echo(_told_runway(one))


def _told_runway(one: Any) -> str:
    text = f"{one.cluster_id}, {one.kind} {one.name}: {one.size_bytes / _GB:,.1f} GB"
    if one.growth_bytes_per_day is None:
        return f"{text}; {counted(one.days, 'day is', 'days are')} too few for a trend (5 on at least 3 days)"
    text += f", {one.growth_bytes_per_day / _GB:+,.2f} GB a day"
    if one.room_bytes is None:
        return f"{text}; its room is not known: its brokers don't report it (KIP-827), or there is no snapshot"
    if one.full_at is None:
        early = "" if one.full_earliest is None else f" (on {one.full_earliest} at the earliest)"
        return f"{text}: not full within ten years{early}"
    return f"{text}: full on {one.full_at} (from {one.full_earliest} to {one.full_latest or 'perhaps never'})"


@click.command()
@cluster_option
@click.option(
    "--owners",
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSON file with one object, from patterns of topic names to owners; the first match counts.",
)
@json_option
@click.pass_context
@complaining
def showback(ctx: click.Context, clusters: tuple[str, ...], owners: Path | None, json: bool) -> None:
    """Say what each owner stored, wrote, read and carried across racks, month by month; and how many topics are idle.

    The table `showback` has each topic, with its prefix.

    \b
    Examples:
      shunter pipeline showback --owners owners.json
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.pipeline import stages  # noqa: PLC0415
    from shunter.app.pipeline.outlook import showback as summed_up  # noqa: PLC0415

    settings = settings_of(ctx)
    with stages.spark_session(settings) as spark:
        found = summed_up(spark, settings.lake, clusters=clusters, owners=owners)
    if json:
        click.echo(as_json({"months": found}))
        return
    for one in found:
        parts = [
            f"{amount / _GB:,.1f} GB {what}"
            for what, amount in (
                ("stored", one.stored_bytes),
                ("written", one.written_bytes),
                ("read", one.read_bytes),
                ("copied across racks", one.cross_rack_bytes),
            )
            if amount is not None
        ]
        idle = f", {one.idle:,} of them idle" if one.idle else ""
        who = one.owner or "nobody's"
        click.echo(
            f"{one.cluster_id}, {one.month:%Y-%m}, {who}: {', '.join(parts)}; {counted(one.topics, 'topic')}{idle}"
        )


@click.command()
@cluster_option
@click.option(
    "--days",
    type=click.IntRange(min=1),
    default=7,
    show_default=True,
    help="How many of the newest days are looked at.",
)
@click.option(
    "--events",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Append what is new to this file, one CloudEvent (JSON) a line.",
)
@json_option
@click.pass_context
@complaining
def anomalies(ctx: click.Context, clusters: tuple[str, ...], days: int, events: Path | None, json: bool) -> None:
    """Say what has changed: hot partitions, topics that fan out, growth that breaks its trend, brokers that differ.

    Each day is compared with the days before it. Brokers that differ are found only if `model` compared brokers with
    their own counters.

    \b
    Examples:
      shunter pipeline anomalies --days 14 --events anomalies.jsonl
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.pipeline import stages  # noqa: PLC0415
    from shunter.app.pipeline.outlook import anomalies as looked_for  # noqa: PLC0415

    settings = settings_of(ctx)
    with stages.spark_session(settings) as spark:
        found = looked_for(spark, settings.lake, stages.utc_now(), clusters=clusters, days=days, events=events)
    if json:
        click.echo(as_json({"anomalies": found}))
        return
    for one in found:
        mark = "new, " if one.new else ""
        click.echo(f"{one.cluster_id}, {one.date}: {mark}{one.kind}: {one.name}: {one.what}")
    if not found:
        click.echo("nothing is out of the ordinary")
