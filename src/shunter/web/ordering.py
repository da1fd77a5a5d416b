"""The routes that change something: one for each verb of the command line, all of one shape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Header, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from shunter.app.access.access_tokens import AccessRole
from shunter.model.service import TOKEN, USER, IntentKind, OrderKind, ServiceOrder, Signature
from shunter.views.service import KeptProposalView, render
from shunter.web.answers import model_of
from shunter.web.identity import AT_SOCKET, Caller, demand
from shunter.web.order_bodies import (
    ClusterBody,
    IntentBody,
    LimitBody,
    OrderBody,
    PartitionsBody,
    PlanBody,
    ProposalBody,
    SketchBody,
)
from shunter.web.problems import HttpRefusal
from shunter.web.reading import ClusterName, without_changes
from shunter.web.reception import Asker, Reception, TheReception, may, peer_of

router = APIRouter(prefix="/api/v1", tags=["order"])


class Verb(NamedTuple):
    """An order as the API offers it. `fleet`: the order can also be given to the whole fleet."""

    kind: OrderKind
    summary: str
    body: type[OrderBody]
    fleet: bool = False


VERBS = (
    Verb(OrderKind.APPROVE, "Approve a proposal", ProposalBody),
    Verb(OrderKind.DECLINE, "Decline a proposal", ProposalBody),
    Verb(OrderKind.PROPOSE, "Keep a plan as a proposal: a scope, what it is about, and rules", PlanBody),
    Verb(OrderKind.STOP, "End moves where they are; `partitions`, none: all", PartitionsBody),
    Verb(OrderKind.ROLL_BACK, "Restore the original replicas; `partitions`, none: all", PartitionsBody),
    Verb(
        OrderKind.PAUSE,
        "Pause moves; no `partitions`: the kill switch, every move is paused and nothing begins",
        PartitionsBody,
        fleet=True,
    ),
    Verb(
        OrderKind.RESUME, "Resume paused moves; no `partitions`: the kill switch is lifted", PartitionsBody, fleet=True
    ),
    Verb(OrderKind.LIMIT, "Change the throttle, or how many copies run at a time; 0: no limit", LimitBody),
    Verb(OrderKind.INTEND, "Give an intent: what is to hold from now on, until it is withdrawn", IntentBody),
    Verb(OrderKind.WITHDRAW, "Take an intent back; a hold also if it followed from a rollback", IntentBody),
    Verb(
        OrderKind.CLEAR_THROTTLES,
        "Remove throttles that no execution restores, while nothing is being moved",
        ClusterBody,
    ),
)
"""Every order; a test checks that none is missing. All need `operate`."""


class Done(BaseModel):
    """The order was carried out, or it is stored durably and will be carried out. With status 207: not everywhere."""

    text: str = Field(description="The result, in a sentence.")
    proposal: str = Field(default="", description="The proposal that the order made or decided.")
    undone: list[str] = Field(
        default=[], description="Why the order is not in force now, or not durable: sentences that name their clusters."
    )


Key = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        max_length=200,
        description="Orders with the same key are carried out once, and get the same answer.",
    ),
]


async def _carry_out(
    request: Request, response: Response, caller: Caller, verb: Verb, name: str, body: OrderBody, key: str
) -> Done:
    reception: Reception = request.app.state.reception
    order = body.order(verb.kind, name)
    if order.intent not in (None, IntentKind.HOLD):  # A hold keeps things as they are; all others change plans.
        demand(caller, AccessRole.ADMINISTER)
    if not name and order.partitions:
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, "invalid", "partitions: these are of one cluster, not of the fleet")
    account = USER if caller.by == AT_SOCKET else TOKEN
    signature = Signature(caller.person.name, body.comment, key, account)
    done = await reception.audit.order(reception.front.order, order, signature, by=caller.by, peer=peer_of(request))
    if done.undone:
        response.status_code = HTTPStatus.MULTI_STATUS
    return Done(text=done.text, proposal=done.proposal, undone=[*done.undone])


@router.post(
    "/clusters/{name}/sketch",
    response_model=model_of(KeptProposalView),
    dependencies=[Depends(may(AccessRole.OPERATE))],
    summary="A dry run: what a plan, or an intent, would move",
)
async def sketch(
    reception: TheReception,
    caller: Asker,
    name: ClusterName,
    body: SketchBody,  # type: ignore[valid-type]
    *,
    changes: Annotated[bool, Query(description="Include the partitions: there may be 100,000.")] = False,
) -> Response:
    """A dry run by the last observation; nothing is kept. Needs `operate`: planning takes time."""
    order: ServiceOrder = body.order(OrderKind.PROPOSE, name)  # type: ignore[attr-defined]
    view = await reception.front.sketch(order, caller.person.name)
    return Response(render(view if changes else without_changes(view)), media_type="application/json")


def _for_a_cluster(verb: Verb) -> Callable[..., Awaitable[Done]]:
    async def ordered(
        request: Request,
        response: Response,
        name: ClusterName,
        body: OrderBody,
        caller: Asker,
        key: Key = "",
    ) -> Done:
        return await _carry_out(request, response, caller, verb, name, body, key)

    ordered.__annotations__["body"] = verb.body
    return ordered


def _for_the_fleet(verb: Verb) -> Callable[..., Awaitable[Done]]:
    async def ordered(request: Request, response: Response, body: OrderBody, caller: Asker, key: Key = "") -> Done:
        return await _carry_out(request, response, caller, verb, "", body, key)

    ordered.__annotations__["body"] = verb.body
    return ordered


def _add_routes() -> None:
    for verb in VERBS:
        partly: dict[int | str, dict[str, Any]] = {
            207: {"model": Done, "description": "Carried out, but not everywhere"}
        }
        responses = partly if verb.fleet else None
        more = "; `administer` for every intent but a hold" if verb.body is IntentBody else ""
        about = f"Needs the role `operate`{more}."
        path = f"/clusters/{{name}}/{verb.kind.value}"
        router.add_api_route(
            path,
            _for_a_cluster(verb),
            methods=["POST"],
            summary=verb.summary,
            description=about,
            operation_id=verb.kind.value,
            responses=responses,
            dependencies=[Depends(may(AccessRole.OPERATE))],
        )
        if verb.fleet:
            router.add_api_route(
                f"/fleet/{verb.kind.value}",
                _for_the_fleet(verb),
                methods=["POST"],
                summary=f"{verb.summary}, in the whole fleet",
                description=about,
                operation_id=f"fleet-{verb.kind.value}",
                responses=responses,
                dependencies=[Depends(may(AccessRole.OPERATE))],
            )


_add_routes()
