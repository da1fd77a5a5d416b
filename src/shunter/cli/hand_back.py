"""`shunter hand-back`: give a cluster back to Apache's controller."""

from __future__ import annotations

from pathlib import Path

import click

from shunter.cli.leaving import leave_with


@click.command("hand-back")
@click.option("--zookeeper", required=True, metavar="HOST:PORT[,…][/CHROOT]", help="ZooKeeper of the cluster.")
@click.option(
    "--zookeeper-config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File of zookeeper.… properties (TLS, ACLs), such as a broker's server.properties. Without it: plaintext.",
)
@click.option("--bootstrap-server", required=True, help="HOST:PORT, several with commas.")
@click.option(
    "--command-config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Client properties file, as Apache's tools take it.",
)
@click.option(
    "--moves",
    type=click.Choice(["finish", "stop", "rollback"]),
    default="finish",
    show_default=True,
    help="How moves under way end: wait for them (finish), stop them where they are, or roll them back.",
)
@click.option(
    "--plan",
    type=click.Path(path_type=Path, dir_okay=False),
    help="If Shunter does not lead: write moves that it left short of their targets into this file, as a plan.",
)
@click.option(
    "--timeout",
    type=float,
    default=3_600.0,
    show_default=True,
    help="Seconds that each step of the hand-over may take.",
)
def hand_back(
    zookeeper: str,
    zookeeper_config: Path | None,
    bootstrap_server: str,
    command_config: Path | None,
    moves: str,
    plan: Path | None,
    timeout: float,
) -> None:
    """Hand a cluster back to Apache's controller: end its moves, resign, and wait until an Apache broker leads.

    It ends the moves as --moves says, and waits until nothing is left in ZooKeeper that only Shunter could finish. It ends
    the controller by SIGTERM if the controller runs on this machine; if not, it says which process to stop. Then it
    waits until an Apache broker leads, and until no further partition is under-replicated. You can interrupt it and
    call it again at any point.

    If Shunter does not lead, for example because a migration to KRaft has begun, it looks at what Shunter has left: moves
    that are not over, and where the other controller ends them; requests, cancels, and replicas that are owed.

    \b
    Exit status: 0 another controller leads, and nothing is left; 1 something is left, or the timeout passed, and
    Shunter may still lead; 3 ZooKeeper or the brokers do not answer, or refuse access.

    \b
    Example:
      shunter hand-back --zookeeper zk1:2181/kafka --bootstrap-server kafka1:9092 --moves stop
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.controller.hand_back import HandBack  # noqa: PLC0415 - other commands need not wait for it

    leave_with(
        lambda: HandBack(zookeeper, click.echo, timeout, zookeeper_config, plan).run(
            bootstrap_server, command_config, moves
        )
    )
