"""`shunter bundle`: what is needed to install Shunter where there is no network."""

from __future__ import annotations

from pathlib import Path

import click

from shunter.errors import ShunterError


@click.command()
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--source",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path(),
    show_default="the current folder",
    help="A checkout of Shunter. Its lock file fixes the versions.",
)
def bundle(out: Path, source: Path) -> None:
    """Make a folder OUT from which Shunter is installed where there is no network.

    The folder has wheels of Shunter and of everything that Shunter needs (Spark included), in the locked versions and
    for this kind of machine and Python. It also has the jars of Spark's connectors to Kafka and Delta, the SHA-256 of
    each file, and install.sh. Java 17 is not in the folder: install it on the other machine.

    \b
    Exit status: 0 the folder was made; 1 something could not be fetched or built.

    \b
    Examples:
      shunter bundle shunter-bundle --source .
    and on the other machine: sh shunter-bundle/install.sh /opt/shunter
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.bundle import make_bundle  # noqa: PLC0415 - other commands need not wait for Spark

    try:
        size = make_bundle(out, source.absolute(), lambda told: click.echo(told, err=True))
    except ShunterError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{out}: {size / 1e6:.0f} MB; on the other machine: sh install.sh")
