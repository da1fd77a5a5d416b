"""The composition root of `shunter controller --check`: finds all obstacles, without standing for election."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from shunter.app.controller.process import registered_endpoints
from shunter.app.controller.security import Security
from shunter.app.controller.settings import ControllerConfig
from shunter.app.controller.zookeeper_security import zookeeper_access
from shunter.core.controller_check import ControllerFinding, Severity, findings
from shunter.drivers.election.check import look
from shunter.drivers.listener.server import parse_listener
from shunter.drivers.zookeeper.client import ZooKeeperClient

_MARKS = {Severity.OBSTACLE: "OBSTACLE", Severity.WARNING: "warning", Severity.GOOD: "ok"}


def check_controller(config: ControllerConfig, show: Callable[[str], None], *, as_json: bool) -> int:
    """Look at the cluster, and show the findings.

    Returns:
        The exit status: 1 if there is an obstacle, else 0.

    Raises:
        SettingsError: a listener can't be understood.
        DriverError: ZooKeeper can't be reached or read.
    """
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    found = asyncio.run(_found(config))
    show(_json(found) if as_json else _text(found))
    return 1 if any(finding.level is Severity.OBSTACLE for finding in found) else 0


async def _found(config: ControllerConfig) -> tuple[ControllerFinding, ...]:
    listeners = tuple(parse_listener(text) for text in config.listener)
    advertised = tuple(parse_listener(text) for text in config.advertised_listener)
    security = Security(config.server_properties, listeners, config.networks())
    endpoints = registered_endpoints(listeners, advertised, security.settings)
    name = config.inter_broker_listener or security.settings.brokers_listener
    access = zookeeper_access(config.server_properties, config.zookeeper_config)
    client = ZooKeeperClient(
        config.zookeeper, session_timeout_ms=config.session_timeout_ms, access=access, furnish=False
    )
    await client.start()
    try:
        facts = await look(client, config.broker_id, listeners, endpoints, name, security.access)
    finally:
        await client.close()
    authorizes = security.settings.acls is not None
    ours = replace(facts, certificates=security.certificates(endpoints), authorizes=authorizes)
    return findings(ours, config.controller_settings())


def _json(found: Sequence[ControllerFinding]) -> str:
    told = [{**finding._asdict(), "level": finding.level.value} for finding in found]
    return json.dumps({"version": 1, "findings": told}, indent=2, ensure_ascii=False)


def _text(found: Sequence[ControllerFinding]) -> str:
    lines: list[str] = []
    for finding in found:
        lines.append(f"{_MARKS[finding.level]:<9} {finding.about}: {finding.told}")
        if finding.todo:
            lines.append(f"{'':<9} -> {finding.todo}")
    obstacles = sum(finding.level is Severity.OBSTACLE for finding in found)
    warnings = sum(finding.level is Severity.WARNING for finding in found)
    lines.append("")
    lines.append(f"{obstacles} in the way, {warnings} to look at. Nothing was changed.")
    return "\n".join(lines)
