"""Runs `shunter kafka-reassign-partitions` and returns its exit status, with the output of Apache's tool."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from shunter.app.client_configuration import configuration_of
from shunter.app.controller.zookeeper_security import zookeeper_access
from shunter.app.drop_in.by_znode import ReassignByZnode, ZnodeToolFailed
from shunter.app.drop_in.log_dirs import LogDirMovesFailed
from shunter.app.drop_in.options import Options, UsageError, VersionAsked, parse, usage
from shunter.app.drop_in.partitions import ReassignPartitions, ToolFailed
from shunter.drivers.admin.blocking import BlockingAdmin
from shunter.drivers.zookeeper.reassign_znodes import ReassignZnodes
from shunter.errors import RequestRejected, ShunterError

Echo = Callable[[str], None]
Connect = Callable[[str, str | None], BlockingAdmin]
VERSION = "3.9.1"
"""The version of Apache's tool that this one stands in for."""


def run(arguments: Sequence[str], echo: Echo, complain: Echo, connect: Connect | None = None) -> int:
    """Run the tool; returns its exit status, 0 or 1 like Apache's tool.

    Args:
        arguments: The command line.
        echo: Prints a line to standard output.
        complain: Prints a line to standard error.
        connect: Connects to the cluster; None: `connected`.
    """
    try:
        options = parse(arguments)
    except VersionAsked:
        echo(VERSION)
        return 0
    except UsageError as error:
        complain(str(error))
        complain(usage())
        return 1
    try:
        _carry_out(options, echo, connect or connected)
    except (ToolFailed, ZnodeToolFailed, LogDirMovesFailed) as error:
        echo(str(error))
        return 1
    except RequestRejected as error:
        echo(f"Error: {error.message}")
        return 1
    except ShunterError as error:
        echo(f"Error: {error}")
        return 1
    return 0


def connected(bootstrap: str, properties_file: str | None) -> BlockingAdmin:
    """Connect a tool to a cluster.

    Raises:
        DriverError, SettingsError, FormatError: the connection is not possible, and why.
    """
    properties = Path(properties_file) if properties_file else None
    return BlockingAdmin(configuration_of(bootstrap, properties, "reassign-partitions-tool"))


def _carry_out(options: Options, echo: Echo, connect: Connect) -> None:
    if "zookeeper" in options:
        file = Path(options.value("zk-tls-config-file")) if "zk-tls-config-file" in options else None
        znodes = ReassignZnodes(options.value("zookeeper"), zookeeper_access(None, file))
        try:
            ReassignByZnode(znodes, echo).run(options)
        finally:
            znodes.close()
        return
    properties_file = options.value("command-config") if "command-config" in options else None
    bootstrap = options.value("bootstrap-server")
    with ReassignPartitions(lambda: connect(bootstrap, properties_file), echo, seed=secrets.randbits(32)) as tool:
        tool.run(options)
