"""`shunter pipeline collect` and `ingest`: how snapshots and samples come into the lake."""

from __future__ import annotations

import signal
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shunter.app.exit_codes import ExitCode
from shunter.cli.pipeline.options import Duration, as_json, complaining, json_option, settings_of, utc
from shunter.core.wording import counted

if TYPE_CHECKING:
    from shunter.app.pipeline.stages import PipelineSettings
    from shunter.pipeline.ingest.batches import IngestOutcome

KINDS = (
    "parquet", "json", "csv", "prometheus", "prometheus-export", "prometheus-text", "log-dirs", "cruise-control",
    "cruise-control-load", "snapshots",
)  # fmt: skip


@click.command()
@click.option("--bootstrap-server", required=True, metavar="HOST:PORT[,…]", help="Brokers to ask first.")
@click.option("--command-config", type=click.Path(path_type=Path), help="Properties file, as Apache's tools take it.")
@click.option("--every", type=Duration(), help="How long from one snapshot to the next. Without it: one snapshot.")
@click.option("--count", type=click.IntRange(min=1), help="End after this many snapshots.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("snapshots"),
    show_default=True,
    help="Folder for the snapshots; `ingest --kind snapshots` reads it.",
)
@complaining
def collect(
    bootstrap_server: str, command_config: Path | None, every: float | None, count: int | None, out: Path
) -> None:
    """Take snapshots of a live cluster through the Admin API: assignments, racks, sizes, offsets, two settings of topics.

    The settings are min.insync.replicas and cleanup.policy.

    Rates are computed from two snapshots, so JMX is not needed. The command starts no Spark. Ctrl-C or SIGTERM ends it
    after the snapshot under way. If the cluster does not answer, that snapshot is left out, and a line says so.

    \b
    Examples:
      shunter pipeline collect --bootstrap-server kafka1:9092
      shunter pipeline collect --bootstrap-server kafka1:9092 --every 1m --count 60 --out snapshots
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.pipeline.collection import collect_every  # noqa: PLC0415

    if count not in (None, 1) and every is None:
        raise click.UsageError("--count needs --every, the time from one snapshot to the next")
    ended, missed = _ended_by_signal(), partial(click.echo, err=True)
    number = count if every is not None else 1
    taken_so_far = 0
    for path, taken in collect_every(
        bootstrap_server, command_config, out, every_seconds=every or 1.0, count=number, wait=ended.wait, missed=missed
    ):
        taken_so_far += 1
        click.echo(f"{path}: {counted(len(taken.brokers), 'broker')}, {counted(len(taken.partitions), 'partition')}")
        for broker, why in taken.unanswered:
            what = " did not report its log dirs" if broker in taken.unsized else ""
            click.echo(f"broker {broker}{what}: {why}", err=True)
    if ended.is_set():
        click.echo(f"ended; {taken_so_far} snapshot{'s' * (taken_so_far != 1)} taken into {out}", err=True)
        if number is not None and taken_so_far < number:
            raise SystemExit(130)


def _ended_by_signal() -> threading.Event:
    """An event that the first SIGINT or SIGTERM sets. The second signal has its usual effect, at once."""
    ended = threading.Event()

    def end(number: int, _frame: object) -> None:
        ended.set()
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return ended


@click.command()
@click.argument("paths", nargs=-1)
@click.option("--kind", type=click.Choice(KINDS), default="parquet", show_default=True, help="What the files are.")
@click.option("--cluster", help="The cluster's name, if the input does not say it; rows of other clusters are refused.")
@click.option("--many-clusters", is_flag=True, help="Let one file hold rows of several clusters.")
@click.option(
    "--broker", "brokers", multiple=True, metavar="INSTANCE=ID", help="Prometheus: which broker an instance is."
)
@click.option(
    "--broker-from",
    multiple=True,
    metavar="LABEL=REGEX",
    help="Prometheus: the label that has a broker's id, or its name in --broker, in the one group of REGEX.",
)
@click.option(
    "--cluster-label",
    "cluster_labels",
    multiple=True,
    metavar="LABEL[=VALUE]",
    help="Prometheus: which label names Kafka's cluster, or by which value it names --cluster. Without it: cluster_id, "
    "kafka_cluster or cluster.",
)
@click.option(
    "--labels",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Prometheus: TOML file that says the same of a fleet.",
)
@click.option(
    "--sampled-every",
    type=Duration(),
    default="2m",
    show_default=True,
    help="cruise-control: how often it samples (metric.sampling.interval.ms); cruise-control-load: the time that its means are of.",
)
@click.option(
    "--at",
    type=click.DateTime(),
    help="log-dirs, prometheus-text, cruise-control-load: when it was asked (UTC). Without it: the file's own time.",
)
@click.option(
    "--bootstrap-server", metavar="HOST:PORT[,…]", help="Stream from a topic of these brokers instead of files."
)
@click.option("--topic", help="The topic with samples as JSON objects.")
@click.option("--checkpoint", metavar="URL", help="Where the stream keeps its position.")
@click.option("--until-caught-up", is_flag=True, help="End once all records that the topic holds now have been taken.")
@click.option(
    "--lateness",
    type=Duration(),
    default="1h",
    show_default=True,
    help="How late a row of a stream may come; later rows are put aside.",
)
@click.option("--every", type=Duration(), default="10s", show_default=True, help="How often a stream commits.")
@click.option("--records-per-batch", type=click.IntRange(min=1), help="The most that one batch of a stream takes.")
@click.option(
    "--kafka-option",
    "kafka_options",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the stream's Kafka client; logins and passwords go into a file (--command-config).",
)
@click.option(
    "--command-config",
    type=click.Path(path_type=Path),
    help="Properties file of the stream's Kafka client, as Apache's tools take it.",
)
@json_option
@click.pass_context
@complaining
def ingest(ctx: click.Context, paths: tuple[str, ...], kind: str, json: bool, **given: Any) -> None:
    """Take samples in from files, or from a Kafka topic as a stream.

    Good rows go to `samples`, the others to `rejects` with the rule that they break. Files whose contents were taken
    before are skipped. Exit status 7: the input has no row, or every row breaks a rule; 0 if all rows were taken
    before; 1 if a file can't be read to its end. Such files are named, and the others are taken.

    \b
    Examples:
      shunter pipeline ingest snapshots --kind snapshots
      shunter pipeline ingest samples.json --kind json --cluster prod-eu
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    if given["bootstrap_server"] is not None:
        _ingest_topic(settings_of(ctx), given, json=json)
        return
    if not paths:
        raise click.UsageError("name files or folders, or a topic with --bootstrap-server, --topic and --checkpoint")
    from shunter.app.pipeline.series_labels import series_labels  # noqa: PLC0415
    from shunter.app.pipeline.stages import Inputs, spark_session  # noqa: PLC0415
    from shunter.app.pipeline.stages import ingest as take  # noqa: PLC0415

    brokers = tuple((name, _broker_id(text)) for name, text in _pairs(given["brokers"], "--broker"))
    labels = series_labels(
        given["cluster"],
        given["cluster_labels"],
        _options(given["broker_from"], "--broker-from takes LABEL=REGEX"),
        brokers,
        given["labels"],
    )
    window = max(1, round(given["sampled_every"]))
    inputs = Inputs(paths, kind, given["cluster"], labels, utc(given["at"]), given["many_clusters"], window)
    settings = settings_of(ctx)
    with spark_session(settings, beside=paths) as spark:
        outcome = take(spark, settings.lake, inputs)
    if json:
        click.echo(as_json(outcome))
    else:
        _tell_ingest(outcome, settings.lake.rejects)
        if kind == "cruise-control" and "time_backwards" in dict(outcome.rules):
            click.echo(_SAMPLED_MORE_OFTEN)
    if outcome.ingest_id is not None and outcome.nothing_new:
        raise SystemExit(ExitCode.REFUSED)
    if outcome.lost_files:
        raise SystemExit(ExitCode.PARTLY)


LISTED_AT_MOST = 20
_SAMPLED_MORE_OFTEN = (
    "windows overlap: if Cruise Control samples more often (metric.sampling.interval.ms), say so with --sampled-every"
)


def _tell_ingest(outcome: IngestOutcome, rejects: str) -> None:
    for path in outcome.skipped:
        click.echo(f"{path}: taken before, skipped", err=True)
    if outcome.ingest_id is not None:
        of_brokers = f" and {outcome.broker_rows:,} of brokers" if outcome.broker_rows else ""
        click.echo(
            f"batch {outcome.ingest_id}: {counted(outcome.good, 'row')}{of_brokers} taken, {outcome.rejected:,} put aside"
        )
        if outcome.good + outcome.rejected + outcome.broker_rows == 0:
            click.echo(_NO_ROWS_OF_SNAPSHOTS if outcome.snapshots else "there was no row in it: is --kind right?")
        if outcome.coverage is not None:
            click.echo(outcome.coverage.told)
            if outcome.coverage.unknown:
                click.echo(f"not known from this input: {', '.join(outcome.coverage.unknown)} (docs/recipes.md)")
        examples = dict(outcome.examples)
        for rule, rows in outcome.rules:
            click.echo(f"  {rule}: {rows:,}" + (f", such as: {examples[rule]}" if rule in examples else ""))
        if outcome.rejected:
            click.echo(f"all of them are kept in {rejects}")
        for path, why in outcome.lost_files[:LISTED_AT_MOST]:
            click.echo(f"{path}: nothing of it was taken: {why}", err=True)
        if len(outcome.lost_files) > LISTED_AT_MOST:
            click.echo(f"and {counted(len(outcome.lost_files) - LISTED_AT_MOST, 'more file')}", err=True)


_NO_ROWS_OF_SNAPSHOTS = (
    "assignments and sizes are in; rates need a second snapshot of a cluster, until then plans rest on sizes"
)


def _ingest_topic(settings: PipelineSettings, given: dict[str, Any], *, json: bool) -> None:
    from shunter.app.pipeline.stages import TopicInput, ingest_topic  # noqa: PLC0415

    if given["topic"] is None or given["checkpoint"] is None:
        raise click.UsageError("a stream needs --topic and --checkpoint")
    source = TopicInput(
        given["bootstrap_server"],
        given["topic"],
        given["checkpoint"],
        cluster=given["cluster"],
        lateness_seconds=given["lateness"],
        every_seconds=given["every"],
        records_per_batch=given["records_per_batch"],
        until_caught_up=given["until_caught_up"],
        kafka_options=_options(given["kafka_options"], "--kafka-option takes NAME=VALUE"),
        properties=given["command_config"],
    )
    taken = ingest_topic(settings, source)
    if json:
        click.echo(as_json(taken))
    else:
        click.echo(
            f"{counted(taken.batches, 'batch', 'batches')} committed: {counted(taken.good, 'row')} taken, {taken.rejected:,} put aside"
        )
        for rule, rows in taken.rules:
            click.echo(f"  {rule}: {rows:,}")
    if taken.batches and taken.nothing_new:
        raise SystemExit(ExitCode.REFUSED)


def _pairs(entries: tuple[str, ...], option: str) -> tuple[tuple[str, str], ...]:
    found = tuple(entry.rpartition("=") for entry in entries)
    if any(not separator for _, separator, _ in found):
        raise click.UsageError(f"{option} takes NAME=VALUE")
    return tuple((name, value) for name, _, value in found)


def _options(entries: tuple[str, ...], rule: str) -> tuple[tuple[str, str], ...]:
    """Read pairs whose values may hold the sign `=`."""
    found = tuple(entry.partition("=") for entry in entries)
    if any(not separator for _, separator, _ in found):
        raise click.UsageError(rule)
    return tuple((name, value) for name, _, value in found)


def _broker_id(text: str) -> int:
    if not text.isdigit():
        raise click.UsageError(f"--broker: {text!r} is not a broker id")
    return int(text)
