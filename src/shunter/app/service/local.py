"""What commands on the same host ask of the service, by the UNIX socket in its state folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shunter.app.service.front import Front
from shunter.drivers.local_door import Answering, ask_at_door
from shunter.errors import DriverError
from shunter.model.service import OrderDone, OrderKind, OrderRefused, Refusal, ServiceOrder, Signature
from shunter.views.service import service_json

SOCKET = "service.sock"
"""In the state folder. The path of a UNIX socket has at most 107 bytes."""


def answering(front: Front) -> Answering:
    """How the service answers at its door."""

    async def answer(request: Any, user: str) -> Any:
        try:
            return {"answer": service_json(await _answer(front, request, user))}
        except OrderRefused as refused:
            return {"refusal": refused.refusal.value, "text": str(refused)}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return {"refusal": Refusal.INVALID.value, "text": f"this is no request: {error!r}"}

    return answer


async def _answer(front: Front, request: dict[str, Any], user: str) -> Any:
    cluster = str(request.get("cluster", ""))
    match request["ask"]:
        case "fleet":
            return front.fleet()
        case "cluster":
            return front.cluster(cluster)
        case "moves":
            return front.moves(cluster)
        case "rollback-bytes":
            return front.rollback_bytes(cluster, request["about"])
        case "proposals":
            return await front.proposals(cluster, ended=bool(request.get("ended")))
        case "timeline":
            return await front.timeline(cluster, int(request.get("since_ms", 0)), None, int(request.get("most", 100)))
        case "sketch":
            return await front.sketch(cluster, tuple(request["about"]), request["value"], user)
        case "order":
            order = ServiceOrder(OrderKind(request["kind"]), cluster, tuple(request["about"]), request["value"])
            return await front.order(order, Signature(user, str(request["comment"]), str(request["key"])))
        case other:
            raise ValueError(other)


async def ask_service(folder: Path, ask: str, **parts: object) -> Any:
    """Ask the service of a state folder something; the answer as JSON has it.

    Raises:
        DriverError: nobody serves there.
        OrderRefused: there is no such cluster, or the service can't tell.
    """
    told = await ask_at_door(folder / SOCKET, {"ask": ask, **parts})
    if "refusal" in told:
        raise OrderRefused(Refusal(told["refusal"]), told["text"])
    return told["answer"]


async def order_service(folder: Path, order: ServiceOrder, comment: str, key: str) -> OrderDone:
    """Give the service of a state folder an order.

    Raises:
        DriverError: nobody serves there, or it ended before it answered: the same key asks again without harm.
        OrderRefused: it is not carried out.
    """
    parts = {"kind": order.kind.value, "cluster": order.cluster, "about": order.about, "value": order.value}
    try:
        told = await ask_service(folder, "order", **parts, comment=comment, key=key)
    except DriverError as error:
        again = f"; ask again with --key {key}: what was carried out is not done twice" if error.retriable else ""
        raise DriverError(f"{error}{again}", retriable=error.retriable) from error
    return OrderDone(told["text"], told["proposal"])
