"""Questions and orders of the command line to a service, by its HTTP API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

from shunter.drivers.service.service_api import ServiceServer, call_service
from shunter.errors import DriverError
from shunter.formats.service_records import encode_body
from shunter.model.service import OrderDone, OrderRefused, ServiceOrder

SAME_KEY = "with the same key"
"""How a service names the key of an order that is to be given again."""
SOCKET = "service.sock"
"""The socket's name in the state folder."""


class ServiceClient:
    """A service, as commands see it. Each call raises `DriverError` or `OrderRefused` as `call_service` does."""

    def __init__(self, server: ServiceServer) -> None:
        self.server = server

    def fleet(self) -> Any:
        """All clusters."""
        return call_service(self.server, "GET", "/fleet")

    def proposals(self, cluster: str, *, ended: bool) -> Any:
        """Proposals of a cluster, the latest first; `ended`: also those that are over."""
        return call_service(self.server, "GET", f"{_at(cluster)}/proposals?ended={str(ended).lower()}")["proposals"]

    def timeline(self, cluster: str, most: int) -> Any:
        """The latest events; cluster "": of the fleet."""
        at = _at(cluster) if cluster else ""
        return call_service(self.server, "GET", f"{at}/timeline?{urlencode({'most': most})}")

    def moves(self, cluster: str) -> Iterator[Any]:
        """All moves of a cluster."""
        after = "?limit=1000"
        while after:
            page = call_service(self.server, "GET", f"{_at(cluster)}/moves{after}")
            yield from page["rows"]
            after = page["next"]

    def preview(self, order: ServiceOrder) -> Any:
        """What an order to moves would do now."""
        body = {"verb": order.kind.value, "partitions": order.partitions}
        return call_service(self.server, "POST", f"{_at(order.cluster)}/preview", body)

    def sketch(self, order: ServiceOrder, *, changes: bool) -> Any:
        """A dry run of a plan; `changes`: with the partitions that it changes."""
        asked = f"{_at(order.cluster)}/sketch?changes={str(changes).lower()}"
        return call_service(self.server, "POST", asked, encode_body(order))

    def order(self, order: ServiceOrder, comment: str, key: str) -> OrderDone:
        """Give an order. After a retriable error the same key can safely be used again."""
        body = {**encode_body(order), "comment": comment}
        try:
            told = call_service(self.server, "POST", f"{_at(order.cluster)}/{order.kind.value}", body, key)
        except OrderRefused as refused:  # Whoever named no key does not know the one that was made.
            raise OrderRefused(refused.refusal, str(refused).replace(SAME_KEY, f"with --key {key}")) from refused
        except DriverError as error:
            if not error.retriable:
                raise
            again = f"try again with --key {key}: an order with the same key is not carried out twice"
            raise DriverError(f"{error}; {again}", retriable=True) from error
        return OrderDone(told["text"], told["proposal"], tuple(told["undone"]))


def _at(cluster: str) -> str:
    return f"/clusters/{quote(cluster, safe='')}" if cluster else "/fleet"


__all__ = ["SOCKET", "ServiceClient", "ServiceServer"]
