"""`shunter kafka-reassign-partitions`: a drop-in for Apache 3.9's tool, with the further options of the KIPs."""

from __future__ import annotations

import click


class Verbatim(click.Command):
    """A command that gets the command line as it was typed: the tool reads it by the rules of Apache's tool."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take all words as arguments, `--` and `--help` too."""
        ctx.params["arguments"] = tuple(args)
        return []


@click.command(
    "kafka-reassign-partitions",
    cls=Verbatim,
    add_help_option=False,
    short_help="Stand in for Apache's tool of that name: same options, output and exit status.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def kafka_reassign_partitions(arguments: tuple[str, ...]) -> None:
    """Move partitions as Apache 3.9's `kafka-reassign-partitions` does; call it with --help for its options.

    \b
    Example:
      shunter kafka-reassign-partitions --bootstrap-server kafka1:9092 --list
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.drop_in.tool import run  # noqa: PLC0415 - other commands need not wait for it

    raise SystemExit(run(arguments, click.echo, lambda line: click.echo(line, err=True)))
