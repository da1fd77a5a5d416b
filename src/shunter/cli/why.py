"""`shunter why`: decisions about a partition, a topic or a broker, their rules, and the brokers' acknowledgements."""

from __future__ import annotations

from pathlib import Path

import click

from shunter.app.exit_codes import ExitCode
from shunter.errors import DriverError, SettingsError


@click.command()
@click.argument("partition", required=False, metavar="[TOPIC-PARTITION]")
@click.option("--topic", metavar="TOPIC", help="All partitions of this topic.")
@click.option(
    "--broker", type=int, metavar="ID", help="This broker: when it went and came, and what was decided because of it."
)
@click.option("--moves", is_flag=True, help="Only moves of the partition or topic.")
@click.option("--since", metavar="WHEN", help="15m, 2h, 3d ago, or a time with its zone: 2026-11-22T17:00:00Z.")
@click.option(
    "--log-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="SHUNTER_LOG_DIR",
    default=Path("/var/log/shunter"),
    show_default=True,
    help="The controller's log_dir, or a folder with copies of its files.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the log's own lines, one JSON object each.")
def why(
    partition: str | None,
    topic: str | None,
    broker: int | None,
    since: str | None,
    log_dir: Path,
    *,
    moves: bool,
    as_json: bool,
) -> None:
    """Show event by event what a controller decided, by which rule, and which broker acknowledged it when.

    It reads the state-change log that `shunter controller` keeps in its log_dir; no controller has to run. Times are
    UTC.

    \b
    Exit status: 0 the question was answered; 1 the log has nothing about it; 2 the question can't be understood;
    5 there is no log, or it can't be read.

    \b
    Examples:
      shunter why orders-7 --since 2h
      shunter why orders-7 --moves
      shunter why --broker 3 --since 2026-11-22T17:00:00Z
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.controller import why as answers  # noqa: PLC0415 - other commands need not wait for it
    from shunter.views.why import Question  # noqa: PLC0415

    if sum(each is not None for each in (partition, topic, broker)) != 1:
        raise click.UsageError("ask about one of TOPIC-PARTITION, --topic and --broker")
    if moves and broker is not None:
        raise click.UsageError("--moves goes with a partition or a topic")
    try:
        question = Question(
            None if partition is None else answers.read_partition(partition),
            topic,
            broker,
            moves=moves,
            since_ms=0 if since is None else answers.read_since(since),
        )
        found = answers.why(question, log_dir, click.echo, as_json=as_json)
    except SettingsError as error:
        raise click.UsageError(str(error)) from error
    except DriverError as error:
        click.echo(f"shunter: {error}", err=True)
        raise SystemExit(ExitCode.JOURNAL) from error
    if not found:
        raise SystemExit(1)
