"""Runs `shunter kafka-reassign-partitions` to its exit status; what is printed is Apache's where Apache prints."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from shunter.app.client_configuration import configuration_of
from shunter.app.drop_in.by_znode import ReassignByZnode, ZnodeToolFailed
from shunter.app.drop_in.log_dirs import LogDirsFailed
from shunter.app.drop_in.options import Options, UsageError, parse, usage
from shunter.app.drop_in.partitions import ReassignPartitions, ToolFailed
from shunter.drivers.admin.blocking import BlockingAdmin
from shunter.drivers.reassign_znodes import ReassignZnodes
from shunter.errors import RequestRejected, ShunterError

Echo = Callable[[str], None]
VERSION = "3.9.1"
"""The version of Apache's tool that this one stands in for."""


def run(arguments: Sequence[str], echo: Echo, complain: Echo) -> int:
    """Run the tool; returns its exit status, 0 or 1 as Apache's.

    Args:
        arguments: The command line.
        echo: Prints a line to standard output.
        complain: Prints a line to standard error.
    """
    if "--version" in arguments:
        echo(VERSION)
        return 0
    try:
        options = parse(arguments)
    except UsageError as error:
        complain(str(error))
        complain(usage())
        return 1
    try:
        _carry_out(options, echo)
    except (ToolFailed, ZnodeToolFailed, LogDirsFailed) as error:
        echo(str(error))
        return 1
    except RequestRejected as error:
        echo(f"Error: {error.message}")
        return 1
    except ShunterError as error:
        echo(f"Error: {error}")
        return 1
    return 0


def connect(bootstrap: str, properties_file: str | None) -> BlockingAdmin:
    """Connect a tool to a cluster.

    Raises:
        DriverError, SettingsError, FormatError: it can't be, and why.
    """
    properties = Path(properties_file) if properties_file else None
    return BlockingAdmin(configuration_of(bootstrap, properties, "reassign-partitions-tool"))


def _carry_out(options: Options, echo: Echo) -> None:
    if "zookeeper" in options.values:
        znodes = ReassignZnodes(options.values["zookeeper"])
        try:
            ReassignByZnode(znodes, echo).run(options)
        finally:
            znodes.close()
        return
    with connect(options.values["bootstrap-server"], options.values.get("command-config")) as cluster:
        ReassignPartitions(cluster, echo, seed=secrets.randbits(32)).run(options)
