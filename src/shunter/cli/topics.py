"""`shunter kafka-topics`: Apache's description of topics, with the targets of moves."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("kafka-topics")
@click.option("--bootstrap-server", required=True, help="HOST:PORT, several with commas.")
@click.option(
    "--command-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Client properties file, as Apache's tools take it.",
)
@click.option(
    "--describe", "describing", is_flag=True, required=True, help="Describe topics; this command can do nothing else."
)
@click.option("--topic", help="Name, or a regular expression. Without it: all topics.")
def kafka_topics(*, bootstrap_server: str, command_config: Path | None, describing: bool, topic: str | None) -> None:
    """Describe topics as Apache's tool does, with `targetReplicas` for partitions that are being moved (KIP-455).

    \b
    Example:
      shunter kafka-topics --bootstrap-server kafka1:9092 --describe --topic orders
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.drop_in.topics import describe  # noqa: PLC0415 - other commands need not wait for it
    from shunter.errors import ShunterError  # noqa: PLC0415

    assert describing, "click requires the flag"
    try:
        describe(bootstrap_server, command_config, topic, click.echo)
    except ShunterError as error:
        click.echo(f"Error while executing topic command : {error}")
        raise SystemExit(1) from None
