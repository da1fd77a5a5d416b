"""The composition root of `shunter controller --check`: finds all problems, without standing for election."""

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
from shunter.core.controller_check import findings
from shunter.drivers.election.check import look
from shunter.drivers.listener.server import parse_listener
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.model.check_up import Finding, Level
from shunter.views.findings import finding_lines, finding_values


def check_controller(config: ControllerConfig, show: Callable[[str], None], *, as_json: bool) -> int:
    """Look at the cluster, and show the findings.

    Returns:
        The exit status: 1 if there is a problem, else 0.

    Raises:
        SettingsError: a listener can't be understood.
        DriverError: ZooKeeper can't be reached or read.
    """
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    found = asyncio.run(_found(config))
    show(_json(found) if as_json else _text(found))
    return 1 if any(finding.level is Level.PROBLEM for finding in found) else 0


async def _found(config: ControllerConfig) -> tuple[Finding, ...]:
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


def _json(found: Sequence[Finding]) -> str:
    document = {"version": 1, "findings": [finding_values(finding) for finding in found]}
    return json.dumps(document, indent=2, ensure_ascii=False)


def _text(found: Sequence[Finding]) -> str:
    problems, warnings = (sum(each.level is level for each in found) for level in (Level.PROBLEM, Level.WARNING))
    end = f"{problems} in the way, {warnings} to look at. Nothing was changed."
    return "\n".join((*finding_lines(found), "", end))
