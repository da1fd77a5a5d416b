"""Requests of commands to the service: through the UNIX socket in its state folder, or over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from shunter.drivers.service.local_socket import Answering, ask_at_door
from shunter.drivers.service.service_api import ServiceServer, call_service
from shunter.errors import DriverError
from shunter.formats.service_records import decode_body, encode_body
from shunter.model.service import USER, OrderDone, OrderKind, OrderRefused, Refusal, ServiceOrder, Signature
from shunter.views.service import service_json

if TYPE_CHECKING:
    # A command that only asks does not import the service.
    from shunter.app.access.audit_log import AuditLog
    from shunter.app.service.front import Front

SOCKET = "service.sock"
"""The socket's name in the state folder. The path of a UNIX socket has at most 107 bytes."""


def answering(front: Front, audit: AuditLog) -> Answering:
    """The function that answers requests at the service's socket."""

    async def answer(request: Any, user: str) -> Any:
        try:
            return {"answer": service_json(await _answer(front, audit, request, user))}
        except OrderRefused as refused:
            return {"refusal": refused.refusal.value, "text": str(refused)}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return {"refusal": Refusal.INVALID.value, "text": f"this is not a valid request: {error!r}"}

    return answer


async def _answer(front: Front, audit: AuditLog, request: dict[str, Any], user: str) -> Any:
    cluster = str(request.get("cluster", ""))
    match request["ask"]:
        case "fleet":
            return front.fleet()
        case "moves":
            return front.moves(cluster)
        case "preview":
            return front.preview(_order(request), user)
        case "proposals":
            return await front.proposals(cluster, ended=bool(request.get("ended")))
        case "timeline":
            return await front.timeline(cluster, int(request.get("since_ms", 0)), None, int(request.get("most", 100)))
        case "sketch":
            return await front.sketch(_order(request), user)
        case "order":
            signature = Signature(user, str(request["comment"]), str(request["key"]), USER)
            return await audit.order(front.order, _order(request), signature, by="socket", peer="this host")
        case other:
            raise ValueError(other)


def _order(request: Mapping[str, Any]) -> ServiceOrder:
    return decode_body(OrderKind(request["kind"]), str(request["cluster"]), request["body"])


async def ask_service(place: Path | ServiceServer, ask: str, **parts: Any) -> Any:
    """Send a request to the service of a state folder, or at a URL; returns the answer, decoded from JSON.

    Raises:
        DriverError: no service answers there.
        OrderRefused: there is no such cluster, or the service can't answer.
    """
    if isinstance(place, ServiceServer):
        return await asyncio.to_thread(_ask_server, place, ask, parts)
    told = await ask_at_door(place, {"ask": ask, **parts})
    if "refusal" in told:
        raise OrderRefused(Refusal(told["refusal"]), told["text"])
    return told["answer"]


def _ask_server(server: ServiceServer, ask: str, parts: Mapping[str, Any]) -> Any:
    """The same requests over HTTP. Answers have the same form, except that a sketch has no `changes`."""
    cluster = str(parts.get("cluster", ""))
    at = f"/clusters/{quote(cluster, safe='')}" if cluster else ""
    match ask:
        case "fleet":
            return call_service(server, "GET", "/fleet")
        case "proposals":
            ended = "true" if parts.get("ended") else "false"
            return call_service(server, "GET", f"{at}/proposals?ended={ended}")["proposals"]
        case "timeline":
            return call_service(server, "GET", f"{at}/timeline?{urlencode({'most': parts['most']})}")
        case "preview":
            named = parts["body"].get("partitions", ())
            asked = urlencode([("verb", parts["kind"]), *(("partition", name) for name in named)])
            return call_service(server, "GET", f"{at or '/fleet'}/preview?{asked}")
        case "sketch":
            view = call_service(server, "POST", f"{at}/sketch", parts["body"])
            del view["proposal"]["changes"]  # It is empty, because a sketch comes over HTTP without its partitions.
            return view
        case "moves":
            rows: list[Any] = []
            after = "?limit=1000"
            while after:
                page = call_service(server, "GET", f"{at}/moves{after}")
                rows, after = [*rows, *page["rows"]], page["next"]
            return {"moves": rows}
        case "order":
            body = {**parts["body"], "comment": parts["comment"]}
            return call_service(server, "POST", f"{at or '/fleet'}/{parts['kind']}", body, parts["key"])
        case _:
            raise OrderRefused(Refusal.INVALID, f"{ask} can't be asked over HTTP: ask on the service's host")


def parts_of(order: ServiceOrder) -> dict[str, Any]:
    """The parts of a request that is about an order."""
    return {"kind": order.kind.value, "cluster": order.cluster, "body": encode_body(order)}


async def order_service(place: Path | ServiceServer, order: ServiceOrder, comment: str, key: str) -> OrderDone:
    """Give an order to the service of a state folder, or at a URL.

    Raises:
        DriverError: no service answers there, or it ended before it answered; the same key can safely be used again.
        OrderRefused: the order is not carried out.
    """
    try:
        told = await ask_service(place, "order", **parts_of(order), comment=comment, key=key)
    except DriverError as error:
        again = (
            f"; try again with --key {key}: an order with the same key is not carried out twice"
            if error.retriable
            else ""
        )
        raise DriverError(f"{error}{again}", retriable=error.retriable) from error
    return OrderDone(told["text"], told["proposal"], tuple(told["undone"]))


__all__ = ["SOCKET", "ServiceServer", "answering", "ask_service", "order_service", "parts_of"]
