"""Ordinary verbs that speak to a service where `--service` names one, and else to the driver of the moves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from shunter.app.exit_codes import ExitCode
from shunter.app.service.client import ServiceClient
from shunter.cli.execution.consent import agreed
from shunter.cli.execution.execute import told_order
from shunter.cli.execution.named_moves import meant
from shunter.cli.execution.options import NOTHING_OF_IT, wanted_of
from shunter.cli.leaving import leave_with
from shunter.cli.profiles import named_cluster
from shunter.cli.service.place import (
    Signed,
    give,
    give_about,
    named_service,
    service_parameters,
    signed_parameters,
    the_cluster,
)
from shunter.model.execution import BOUNDS
from shunter.model.service import OrderKind, ServiceOrder
from shunter.views.execution import OPEN_STATES
from shunter.views.service import OURS

_DRIVERS = ("bootstrap_server", "journal", "journal_topic")
"""Options that name a driver."""
_TAKEN = {"partitions", "topics", "plan", "yes", "as_json", "rate", *BOUNDS}
"""Options that count for a service, too."""
_NAMING = ("service", "token_file", "ca_file", "plain_http")
_HELP = (
    "Speak to this service, not to the driver of the moves: its address, its socket, or the folder that it serves from."
)
Order = Callable[..., int]
"""Gives an order to a service: takes the service, the cluster's name, the signature and the command's values."""


def or_service(order: Order) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a verb give `order` to the service that `--service` names. This stands above the verb's other options."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def wrapped(*args: Any, signed: Signed, **given: Any) -> Any:
            meant = _meant(**{name: given.pop(name) for name in _NAMING})
            if meant is None:
                _see_none_for_a_service()
                return command(*args, **given)
            for name in given.keys() - _TAKEN:
                if _source(name) is ParameterSource.COMMANDLINE:
                    flag = f"--{name.replace('_', '-')}"
                    raise click.UsageError(f"{flag} is for an executor, and --service names a service: leave one out")
            return leave_with(lambda: order(meant, named_cluster(), signed, given))

        return service_parameters(signed_parameters(wrapped, with_json=False), _HELP)

    return decorate


def _see_none_for_a_service() -> None:
    for name in ("comment", "key", *_NAMING[1:]):
        if _source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} is for a service: name one by --service")


def _source(name: str) -> ParameterSource | None:
    return click.get_current_context().get_parameter_source(name)


def _meant(service: str | None, **rest: Any) -> ServiceClient | None:
    """The service that is meant; a driver on the command line goes before a service of the settings."""
    driver = any(_source(each) is ParameterSource.COMMANDLINE for each in _DRIVERS)
    if driver and _source("service") is not ParameterSource.COMMANDLINE:
        return None
    return named_service(service, **rest)


def turns(kind: OrderKind) -> Order:
    """An order to some moves or to all. A pause of all, or its end, is the kill switch: it never asks."""

    def order(service: ServiceClient, named: str, signed: Signed, given: dict[str, Any]) -> int:
        wanted = wanted_of(given["partitions"], given["topics"], given["plan"])
        if wanted.everything and kind in (OrderKind.PAUSE, OrderKind.RESUME):
            return give(service, ServiceOrder(kind, named), signed)
        cluster = the_cluster(service, named)
        partitions = tuple(map(str, wanted.partitions))
        if wanted.topics or wanted.planned:
            is_meant, rows = meant(wanted), service.moves(cluster)
            ours = [row for row in rows if row["whose"] == OURS and row["state"] in OPEN_STATES]
            partitions = tuple(row["partition"] for row in ours if is_meant(row["partition"]))
            if not partitions:
                return told_order({"accepted": False, "text": NOTHING_OF_IT}, as_json=signed.as_json)
        asked = ServiceOrder(kind, cluster, partitions=partitions)
        seen = service.preview(asked)
        harmless = kind in (OrderKind.PAUSE, OrderKind.RESUME) and not seen["bytes"]
        if not harmless and not agreed(seen["text"], "Do it?", yes=given["yes"], as_json=signed.as_json):
            return int(ExitCode.REFUSED)
        return give(service, asked, signed)

    return order


def limits(service: ServiceClient, named: str, signed: Signed, given: dict[str, Any]) -> int:
    """Change the throttle, or the bounds on copies."""
    bounds = {name: given[name] for name in BOUNDS if _source(name) is ParameterSource.COMMANDLINE}
    if given["rate"] is None and not bounds:
        raise click.UsageError("say what to limit: a RATE, or a bound such as --max-in 4")
    return give_about(service, OrderKind.LIMIT, named, signed, bytes_per_s=given["rate"], **bounds)


def clears(service: ServiceClient, named: str, signed: Signed, _given: dict[str, Any]) -> int:
    """Remove throttles that no journal knows, while nothing is being moved."""
    return give_about(service, OrderKind.CLEAR_THROTTLES, named, signed)


__all__ = ["clears", "limits", "or_service", "turns"]
