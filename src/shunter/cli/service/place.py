"""The service that a command speaks to, the parts that each order to it has, and how they are sent."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

from shunter.app.exit_codes import ExitCode
from shunter.app.service.client import SOCKET, ServiceClient, ServiceServer
from shunter.app.state_folder import service_folder
from shunter.cli.execution.display import say_json
from shunter.cli.profiles import named_cluster, settable
from shunter.errors import SettingsError
from shunter.model.service import OrderKind, ServiceOrder

_NAMED = "its address (http://HOST:PORT), its socket, or the folder that it serves from"


class Signed(NamedTuple):
    """The parts that every order has: a comment, a key, and the form of the answer."""

    comment: str
    key: str
    as_json: bool


def service_parameters(command: Callable[..., Any], told: str = "") -> Callable[..., Any]:
    """Add the options that name a service, as `named_service` takes them."""
    file = click.Path(path_type=Path)
    for option in (
        click.option("--plain-http", is_flag=True, help="Send the token unencrypted, because the network is trusted."),
        click.option(
            "--ca-file",
            type=file,
            envvar="SHUNTER_CA_FILE",
            help="A PEM file with the authorities to trust.  [default: the system's]",
        ),
        click.option(
            "--token-file",
            type=file,
            envvar="SHUNTER_TOKEN_FILE",
            help="A file with the token, for a service with an address.",
        ),
        click.option("--service", metavar="SERVICE", envvar="SHUNTER_SERVICE", help=told or f"The service: {_NAMED}."),
    ):
        command = option(command)
    return command


def named_service(
    service: str | None, token_file: Path | None, ca_file: Path | None, plain_http: bool
) -> ServiceClient | None:
    """The service that the options name; None: they name none.

    Raises:
        click.UsageError: an option is for a service with an address.
    """
    source = click.get_current_context().get_parameter_source
    # The token of the settings file is for the service of the settings file.
    if source("token_file") is ParameterSource.DEFAULT_MAP and source("service") is not ParameterSource.DEFAULT_MAP:
        token_file = None
    if service and "://" in service:
        return ServiceClient(ServiceServer(service, token_file, ca_file, plain_http))
    if plain_http or any(source(each) is ParameterSource.COMMANDLINE for each in ("token_file", "ca_file")):
        raise click.UsageError("--token-file, --ca-file and --plain-http are for a --service with an address")
    if not service:
        return None
    path = Path(service)
    return ServiceClient(ServiceServer(path / SOCKET if path.is_dir() else path))


def service_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of a command that always speaks to a service; hands it `service` and `cluster`."""

    @functools.wraps(command)
    def wrapped(
        *args: Any, service: str | None, token_file: Path | None, ca_file: Path | None, plain_http: bool, **rest: Any
    ) -> Any:
        named = named_service(service, token_file, ca_file, plain_http)
        meant = named or ServiceClient(ServiceServer(service_folder() / SOCKET))
        return command(*args, service=meant, cluster=named_cluster(), **rest)

    told = f"The service: {_NAMED}.  [default: service in $SHUNTER_STATE]"
    return settable(
        service_parameters(wrapped, told), "The cluster's name in the policy file, and in the settings file."
    )


def signed_parameters(command: Callable[..., Any], *, with_json: bool = True) -> Callable[..., Any]:
    """Add the options of every order; hands the command `signed`."""

    @functools.wraps(command)
    def wrapped(*args: Any, comment: str, key: str, **rest: Any) -> Any:
        as_json = rest.pop("as_json") if with_json else rest.get("as_json", False)
        return command(*args, signed=Signed(comment, key or uuid.uuid4().hex, as_json), **rest)

    if with_json:
        wrapped = click.option("--json", "as_json", is_flag=True, help="One JSON object.")(wrapped)
    key = click.option(
        "--key", default="", help="An order with the same key is carried out once.  [default: a new one]"
    )
    told = "Why the order is given to the service; the comment is kept beside it."
    return click.option("--comment", default="", help=told)(key(wrapped))


def order_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of an order that only a service takes; hands the command `service`, `cluster` and `signed`."""
    return service_options(signed_parameters(command))


def the_cluster(service: ServiceClient, named: str) -> str:
    """The cluster that is meant.

    Raises:
        SettingsError: there are several, and none was named.
    """
    if named:
        return named
    names = [row["name"] for row in service.fleet()["clusters"]]
    if len(names) != 1:
        raise SettingsError(f"which cluster? There are {', '.join(names)}: name one by --cluster")
    return str(names[0])


def give(service: ServiceClient, order: ServiceOrder, signed: Signed) -> int:
    """Give an order to the service, and print its answer; returns the exit status."""
    done = service.order(order, signed.comment, signed.key)
    if signed.as_json:
        say_json({"event": "order", "by": "service", "key": signed.key, **done._asdict()})
    else:
        click.echo(done.text)
    return int(ExitCode.PARTLY if done.undone else ExitCode.DONE)


def give_about(service: ServiceClient, kind: OrderKind, cluster: str, signed: Signed, **body: Any) -> int:
    """Give an order about the cluster that is meant."""
    return give(service, ServiceOrder(kind, the_cluster(service, cluster), **body), signed)
