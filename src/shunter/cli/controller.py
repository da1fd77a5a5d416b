"""`shunter controller`: be the controller of a ZooKeeper-mode cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shunter.errors import DriverError, SettingsError


@click.command()
@click.option("--config", "config_file", type=click.Path(path_type=Path, dir_okay=False), help="Settings file (TOML).")
@click.option("--zookeeper", metavar="HOST:PORT[,…][/CHROOT]", help="ZooKeeper of the cluster.")
@click.option(
    "--listener",
    multiple=True,
    metavar="NAME://HOST:PORT",
    help="Where clients, tools and brokers reach this controller; repeat for several.",
)
@click.option(
    "--server-properties",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A broker's server.properties, for the security of the listeners, and for the authorizer.",
)
@click.option(
    "--broker-id",
    type=int,
    help="The broker id under which the controller shows itself. No broker may have it; the controller holds no data.",
)
@click.option(
    "--takeover",
    metavar="never|vacant|standby|preempt",
    help="When to become the controller: never; when the cluster has no controller (vacant); also if an"
    " Apache broker became the controller after a Shunter (standby); or also in place of any live Apache controller"
    " (preempt). [vacant]",
)
@click.option(
    "--strategy",
    metavar="incremental|all-at-once",
    help="How a move adds replicas if its request does not say: one at a time, or all together. [incremental]",
)
@click.option("--log-level", metavar="LEVEL", help="error, warning, info or debug [info].")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other setting by its name in docs/settings.md; repeat for several.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Say what would keep the controller from leading this cluster, change nothing, and end.",
)
@click.option(
    "--observe", is_flag=True, help="Decide beside Apache's controller, change nothing, and report each difference."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    help="With --observe: end after this many seconds. [0: run until stopped]",
)
@click.option(
    "--settle",
    type=click.FloatRange(min=1),
    help="With --observe: report a difference once it has lasted this many seconds. [10]",
)
@click.option(
    "--json", "as_json", is_flag=True, help="With --check: one JSON object. With --observe: one JSON object a line."
)
def controller(
    config_file: Path | None,
    listener: tuple[str, ...],
    assignments: tuple[str, ...],
    check: bool,
    observe: bool,
    seconds: float | None,
    settle: float | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Be the controller of a ZooKeeper-mode Kafka cluster of unmodified brokers.

    The process waits until the controllership is vacant (see --takeover). Then it leads the cluster until it is
    stopped: elections, topics, and reassignments that can be stopped and rolled back at any moment. SIGTERM gives the
    controllership back. After SIGKILL or a crash, an Apache broker or another Shunter takes over and continues the
    moves.

    The command line goes before environment variables (SHUNTER_BROKER_ID, …), and these before the settings file. SIGHUP
    reads the settings file again.

    \b
    Exit status: 0 it was stopped; 1 ZooKeeper or a listener can't be used; 2 a setting can't be used; 70 a bug.
    With --check: 0 nothing keeps it from leading; 1 something does, or ZooKeeper can't be reached.
    With --observe: 0 the documents explain every difference; 1 one is not explained, or ZooKeeper can't be reached.

    \b
    Example:
      shunter controller --zookeeper localhost:2181/kafka --listener PLAINTEXT://localhost:9090 --broker-id 1000
      shunter controller --observe --zookeeper localhost:2181/kafka
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.controller.process import run_controller  # noqa: PLC0415 - other commands need not wait for it
    from shunter.app.controller.settings import load_controller_config  # noqa: PLC0415

    told = {name: value for name, value in given.items() if value is not None}
    if listener:
        told["listener"] = list(listener)
    for assignment in assignments:
        name, _, value = assignment.partition("=")
        told[name.strip().replace("-", "_").replace(".", "_")] = value.strip()
    if as_json and not (check or observe):
        raise click.UsageError("--json goes with --check or --observe")
    if check and observe:
        raise click.UsageError("--check and --observe exclude one another")
    if not observe and (seconds, settle) != (None, None):
        raise click.UsageError("--seconds and --settle go with --observe")
    try:
        if observe:
            raise SystemExit(_observe(config_file, told, seconds or 0.0, settle or 10.0, as_json=as_json))
        if check:
            from shunter.app.controller.check import check_controller  # noqa: PLC0415

            raise SystemExit(check_controller(load_controller_config(config_file, told), click.echo, as_json=as_json))
        status = run_controller(
            load_controller_config(config_file, told), lambda: load_controller_config(config_file, told)
        )
    except SettingsError as error:
        raise click.UsageError(str(error)) from error
    except DriverError as error:
        raise click.ClickException(str(error)) from error
    raise SystemExit(status)


def _observe(config_file: Path | None, told: dict[str, Any], seconds: float, settle: float, *, as_json: bool) -> int:
    """Observe by the controller's settings. An observer needs no broker id and no listener."""
    from shunter.app.controller.observe import NOBODY, observe_controller  # noqa: PLC0415
    from shunter.app.controller.settings import load_controller_config  # noqa: PLC0415

    nobody = {"broker_id": NOBODY, "listener": ["OBSERVER://localhost:0"]}
    config = load_controller_config(config_file, told | nobody)
    return observe_controller(config, click.echo, seconds=seconds, settle_seconds=settle, as_json=as_json)
