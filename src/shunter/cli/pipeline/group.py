"""`shunter pipeline`: from samples to a plan, its schedule, and an account of its moves. On Spark."""

from __future__ import annotations

import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from shunter.cli.pipeline.chain import do
from shunter.cli.pipeline.intake import KINDS, collect, ingest
from shunter.cli.pipeline.options import (
    Duration,
    as_json,
    asked_of,
    cluster_option,
    complaining,
    json_option,
    plan_options,
    settings_of,
    told_plan,
    told_schedules,
    utc,
)
from shunter.cli.pipeline.outlook import anomalies, quality, runway, showback
from shunter.cli.pipeline.prometheus import collect_prometheus
from shunter.cli.pipeline.what_if import what_if
from shunter.cli.sections import Sections
from shunter.core.wording import counted
from shunter.model.limits import LEAST_RATE, MOST_RATE

_STAGES = {
    "Take in": ("collect", "collect-prometheus", "ingest", "quality"),
    "Model": ("model", "compact", "clean"),
    "Plan": ("plan", "schedule"),
    "Look back": ("account", "report", "showback"),
    "Look ahead": ("runway", "anomalies", "what-if"),
    "Run": ("do", "run", "package"),
}
"""Headings of the help, by what people do, and the commands under each, in order."""


@click.group(cls=Sections, sections=_STAGES)
@click.option(
    "--root",
    envvar="SHUNTER_LAKE",
    default="lake",
    show_default=True,
    metavar="URL",
    help="Folder of the Delta tables, on any file system that Spark has, or CATALOG.SCHEMA. [env: SHUNTER_LAKE]",
)
@click.option(
    "--single-writer",
    is_flag=True,
    help="No other process writes at the same time. Needed on stores where Delta can't keep two apart.",
)
@click.option("--master", metavar="URL", help="Spark's master. Without it: the one of spark-submit, or this machine.")
@click.option("--memory", metavar="SIZE", help="Java heap on this machine, e.g. 4g.")
@click.option("--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark; repeat for several.")
@click.pass_context
def pipeline(
    ctx: click.Context, root: str, single_writer: bool, master: str | None, memory: str | None, conf: tuple[str, ...]
) -> None:
    """Turn samples and snapshots into a load model, plans, schedules, and accounts of past moves.

    Every stage reads and writes tables under --root (docs/data.md), and can be repeated: finished work stays done.
    """
    pairs = tuple(entry.partition("=") for entry in conf)
    if any(not separator for _, separator, _ in pairs):
        raise click.UsageError("--conf takes NAME=VALUE")
    ctx.obj = {
        "root": root,
        "single_writer": single_writer,
        "master": master,
        "memory": memory,
        "conf": {name: value for name, _, value in pairs},
    }


@pipeline.command()
@click.option(
    "--from",
    "source",
    type=click.Choice(["samples", "hourly"]),
    default="samples",
    show_default=True,
    help="samples: raw rows; hourly: rows by hour, where raw rows were deleted.",
)
@cluster_option
@click.option("--since", type=click.DateTime(), help="Only windows that start then or later (UTC).")
@click.option("--until", type=click.DateTime(), help="Only windows that start before (UTC).")
@json_option
@click.pass_context
@complaining
def model(ctx: click.Context, source: str, clusters: tuple[str, ...], json: bool, **given: datetime | None) -> None:
    """Model the load of each replica: rates with percentiles, size, growth, the shape of its week, and the confidence.

    \b
    Examples:
      shunter pipeline model
      shunter pipeline model --since 2026-11-01 --json
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.pipeline import stages  # noqa: PLC0415

    settings = settings_of(ctx)
    with stages.spark_session(settings) as spark:
        span = utc(given["since"]), utc(given["until"])
        made = stages.model_lake(spark, settings.lake, source=source, clusters=clusters, since=span[0], until=span[1])
    if json:
        click.echo(as_json(made))
        return
    click.echo(
        f"{counted(made.replicas, 'replica')}, {made.with_rates:,} with rates, {made.with_weeks:,} with a week's shape, mean confidence {made.mean_confidence:.2f}"
    )
    if made.with_rates < made.replicas:
        click.echo(f"{made.replicas - made.with_rates:,} have sizes and no rates: they are planned from their sizes")
    if made.brokers:
        click.echo(
            f"{counted(made.brokers, 'broker')} compared with {'its' if made.brokers == 1 else 'their'} own counters"
            + (":" if made.doubts else ": they agree")
        )
    for doubt in made.doubts:
        click.echo(f"  {doubt.cluster_id}, broker {doubt.broker_id}: {doubt.what}")
    for one in made.processors:
        aim = (
            "plans aim at them"
            if one.usable
            else "plans do not aim at them (the table processor_model has the figures)"
        )
        click.echo(
            f"{one.cluster_id}: bytes tell the processors of {counted(one.brokers, 'broker')} with an error of {one.error:.0%}; {aim}"
        )


@pipeline.command()
@click.option(
    "--keep-days",
    type=click.IntRange(min=1),
    help="Delete rolled-up raw rows older than this many days, and older snapshots except the last of each day.",
)
@click.option(
    "--new-days",
    is_flag=True,
    help="Roll up only days that got rows since the last time; run one such `compact` at a time.",
)
@json_option
@click.pass_context
@complaining
def compact(ctx: click.Context, keep_days: int | None, new_days: bool, json: bool) -> None:
    """Roll raw rows up to hours and days, and merge small files (Delta's OPTIMIZE).

    \b
    Examples:
      shunter pipeline compact --keep-days 14
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.pipeline import stages  # noqa: PLC0415

    settings = settings_of(ctx)
    with stages.spark_session(settings) as spark:
        made = stages.roll_up(spark, settings.lake, keep_days=keep_days, new_only=new_days)
    if json:
        click.echo(as_json({"ingest_id": made}))
        return
    click.echo("rolled up" + ("" if made is None else f" by commit {made}"))


@pipeline.command()
@click.option(
    "--older-than",
    type=Duration(),
    default="1d",
    show_default=True,
    help="Leave rows younger than this, because another process may still write or read them.",
)
@json_option
@click.pass_context
@complaining
def clean(ctx: click.Context, older_than: float, json: bool) -> None:
    """Delete rows of replaced batches and of attempts that were never committed, and files replaced 30 days ago (VACUUM).

    A slow writer that loses its rows by this starts again by itself.

    \b
    Examples:
      shunter pipeline clean --older-than 2d
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.pipeline import stages  # noqa: PLC0415

    settings = settings_of(ctx)
    with stages.spark_session(settings) as spark:
        gone = stages.clean(spark, settings.lake, older_than=older_than)
    if json:
        click.echo(as_json(gone))
        return
    click.echo(f"deleted {gone.replaced:,} replaced batches and {gone.abandoned:,} attempts that were never committed")


@pipeline.command()
@plan_options
@click.option(
    "--as-of", type=click.DateTime(), help="Plan from the tables as they were at this time (UTC), up to 30 days ago."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("plans"),
    show_default=True,
    help="Folder for Kafka's reassignment JSON, one file a cluster.",
)
@json_option
@click.pass_context
@complaining
def plan(ctx: click.Context, out: Path, json: bool, **given: Any) -> None:
    """Plan every cluster of the lake, side by side; a cluster that fails or takes too long does not stop the others.

    \b
    Examples:
      shunter pipeline plan --out plans
      shunter pipeline plan --scope drain --brokers 3 --max-bytes-percent 60
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.pipeline import stages  # noqa: PLC0415

    settings, asked = settings_of(ctx), asked_of(given)
    with stages.spark_session(settings) as spark:
        made = stages.plan(spark, settings.lake, asked, out)
    if json:
        click.echo(as_json(made))
    else:
        click.echo(f"plan {made.plan_id}")
        for outcome in made.clusters:
            click.echo(told_plan(outcome))
    if any(outcome.status != "planned" for outcome in made.clusters):
        raise SystemExit(1)


@pipeline.command()
@click.option("--plan", "plan_id", help="The plan's id. Without it: the newest plan.")
@click.option(
    "--throttle",
    type=click.FloatRange(min=LEAST_RATE, max=MOST_RATE),
    metavar="BYTES/S",
    help="What each broker may send and receive for moves. Without it: the rate that past moves reached.",
)
@click.option(
    "--capacity",
    type=float,
    metavar="BYTES/S",
    help="What a broker's network carries each way; copies get what traffic leaves.",
)
@click.option(
    "--per-broker",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Copies at once from or to one broker; 0: no bound.",
)
@click.option(
    "--total", type=click.IntRange(min=0), default=0, show_default=True, help="Copies at once in all; 0: no bound."
)
@click.option(
    "--traffic",
    type=float,
    multiple=True,
    metavar="FACTOR",
    help="What if traffic grows by this factor; repeat for several.",
)
@click.option(
    "--without-broker",
    "lost",
    type=int,
    multiple=True,
    metavar="ID",
    help="What if this broker is lost; repeat for several.",
)
@json_option
@click.pass_context
@complaining
def schedule(ctx: click.Context, plan_id: str | None, throttle: float | None, json: bool, **given: Any) -> None:
    """Say when each copy of a plan runs, and how long all take, with an interval; also for other loads (what if).

    Exit status 1: a cluster of the plan was not planned, and has no schedule.

    \b
    Examples:
      shunter pipeline schedule --throttle 50e6
      shunter pipeline schedule --throttle 50e6 --traffic 1.5 --without-broker 3
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.pipeline import stages  # noqa: PLC0415
    from shunter.app.pipeline.run import WhatIf  # noqa: PLC0415
    from shunter.app.pipeline.run import schedule as scheduled  # noqa: PLC0415

    settings = settings_of(ctx)
    with stages.spark_session(settings) as spark:
        made = scheduled(spark, settings.lake, plan_id, WhatIf(throttle=throttle, **given))
    if json:
        click.echo(as_json(made))
    else:
        for line in told_schedules(made):
            click.echo(line)
    if made.unplanned:
        raise SystemExit(1)


@pipeline.command()
@click.argument("journals", nargs=-1)
@json_option
@click.pass_context
@complaining
def account(ctx: click.Context, journals: tuple[str, ...], json: bool) -> None:
    """Account for past moves from JOURNALS: an executor's journal files, or journals as JSON lines.

    The next schedule uses what the account finds: rates between brokers, and real over planned duration.

    \b
    Examples:
      shunter pipeline account moves.journal
      shunter pipeline account moves.journal --json
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.executor.journal_export import as_json_lines  # noqa: PLC0415
    from shunter.app.pipeline import stages  # noqa: PLC0415
    from shunter.app.pipeline.run import account_lake  # noqa: PLC0415

    settings = settings_of(ctx)
    with as_json_lines(journals) as lines, stages.spark_session(settings, beside=journals) as spark:
        found = account_lake(spark, settings.lake, lines)
    if json:
        click.echo(as_json(found))
        return
    click.echo(
        f"{counted(found.entries, 'entry', 'entries')}, {found.done:,} of {counted(found.moves, 'move')} done, stood still for {found.stalled_seconds:.0f} s in all"
    )


@pipeline.command()
@click.option("--plan", "plan_id", help="The plan's id. Without it: the newest plan.")
@click.option("--cluster", help="The cluster. Without it: the plan's only cluster.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("report.html"),
    show_default=True,
    help="The file to write.",
)
@click.option("--tables", metavar="URL", help="Also write every table into this folder.")
@click.option(
    "--tables-as",
    type=click.Choice(["parquet", "csv"]),
    default="parquet",
    show_default=True,
    help="Format of --tables.",
)
@click.pass_context
@complaining
def report(
    ctx: click.Context, plan_id: str | None, cluster: str | None, out: Path, tables: str | None, tables_as: str
) -> None:
    """Write one HTML file that needs nothing else: loads before and after, flows, timeline, planned against real duration.

    \b
    Examples:
      shunter pipeline report --out report.html
      shunter pipeline report --tables tables --tables-as csv
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.pipeline import stages  # noqa: PLC0415
    from shunter.app.pipeline.run import export, report_lake  # noqa: PLC0415

    settings = settings_of(ctx)
    with stages.spark_session(settings) as spark:
        click.echo(report_lake(spark, settings.lake, out, plan_id=plan_id, cluster=cluster))
        if tables is not None:
            click.echo(f"{tables}: {', '.join(export(spark, settings.lake, tables, tables_as))}")


@pipeline.command()
@click.option("--bootstrap-server", required=True, metavar="HOST:PORT[,…]", help="Brokers to ask first.")
@click.option("--command-config", type=click.Path(path_type=Path), help="Properties file, as Apache's tools take it.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("run"),
    show_default=True,
    help="Folder for snapshots, plan and report.",
)
@click.option(
    "--snapshots",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="How many snapshots to take; rates need two.",
)
@click.option("--every", type=Duration(), default="10s", show_default=True, help="Time from one snapshot to the next.")
@click.option(
    "--throttle",
    type=click.FloatRange(min=LEAST_RATE, max=MOST_RATE),
    metavar="BYTES/S",
    help="What each broker may send and receive for moves.",
)
@click.option("--dry-run", is_flag=True, help="Do everything but the execution.")
@plan_options
@click.pass_context
@complaining
def run(ctx: click.Context, bootstrap_server: str, command_config: Path | None, out: Path, **given: Any) -> None:
    """Collect, model, plan, schedule, execute, account and report, against a live cluster.

    Before anything is moved, the plan is compared with the live cluster. A partition that changed since the snapshot is
    left out and named. Exit status 1: a partition was not moved as planned.

    \b
    Examples:
      shunter pipeline run --bootstrap-server kafka1:9092 --dry-run
      shunter pipeline run --bootstrap-server kafka1:9092 --throttle 50e6 --max-moves 100
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.pipeline import stages  # noqa: PLC0415
    from shunter.app.pipeline.execution import executor_for  # noqa: PLC0415
    from shunter.app.pipeline.run import RunOptions, WhatIf  # noqa: PLC0415
    from shunter.app.pipeline.run import run as run_all  # noqa: PLC0415

    settings = settings_of(ctx)
    snapshots, every, throttle, dry = (given.pop(name) for name in ("snapshots", "every", "throttle", "dry_run"))
    options = RunOptions(
        bootstrap_server, out, command_config, snapshots, every, asked_of(given), WhatIf(throttle=throttle)
    )
    execute = None if dry else executor_for(bootstrap_server, command_config, throttle, out)
    wait = threading.Event().wait
    with stages.spark_session(settings, beside=None) as spark:
        outcome = run_all(
            spark, settings.lake, options, execute=execute, wait=wait, tell=lambda text: click.echo(text, err=True)
        )
    click.echo(outcome.report)
    if outcome.undone or any(made.status != "planned" for made in outcome.planned):
        raise SystemExit(1)


@pipeline.command("package")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("package"),
    show_default=True,
    help="Folder for the files.",
)
@click.option(
    "--environment/--no-environment", default=True, show_default=True, help="Include the packages that Shunter needs."
)
@complaining
def package_for_spark(out: Path, environment: bool) -> None:
    """Write the files that spark-submit sends to machines that have only Spark and a Python of this version.

    \b
    Examples:
      shunter pipeline package --out package
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.pipeline.stages import package  # noqa: PLC0415

    click.echo(package(out, environment=environment).command)


for elsewhere in (anomalies, collect, collect_prometheus, do, ingest, quality, runway, showback, what_if):
    pipeline.add_command(elsewhere)

__all__ = ["KINDS", "Duration", "pipeline"]
