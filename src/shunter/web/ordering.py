"""The routes that change something: one for each verb of the command line, all of one shape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Header, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from shunter.app.access.access_tokens import AccessRole
from shunter.model.service import OrderKind, ServiceOrder, Signature
from shunter.views.service import KeptProposalView, render
from shunter.web.answers import model_of
from shunter.web.identity import Caller
from shunter.web.order_bodies import (
    BoundBody,
    BrokerBody,
    FleetBody,
    LimitBody,
    OrderBody,
    PartitionsBody,
    PlanBody,
    ProposalBody,
    ReplaceBody,
    ReplicationBody,
    ScopeBody,
    TopicBody,
)
from shunter.web.reading import ClusterName, without_changes
from shunter.web.reception import Asker, Reception, TheReception, may, peer_of

router = APIRouter(prefix="/api/v1", tags=["order"])


class Verb(NamedTuple):
    """An order as the API offers it. `fleet`: the order can also be given to the whole fleet."""

    kind: OrderKind
    role: AccessRole
    summary: str
    fleet: bool = False
    body: type[OrderBody] = FleetBody


VERBS = (
    Verb(OrderKind.APPROVE, AccessRole.OPERATE, "Approve a proposal", body=ProposalBody),
    Verb(OrderKind.DECLINE, AccessRole.OPERATE, "Decline a proposal", body=ProposalBody),
    Verb(OrderKind.PAUSE_ALL, AccessRole.OPERATE, "The kill switch: pause every move, begin nothing", fleet=True),
    Verb(OrderKind.RESUME_ALL, AccessRole.OPERATE, "Lift the kill switch", fleet=True),
    Verb(
        OrderKind.STOP,
        AccessRole.OPERATE,
        "End moves where they are; `partitions`, none: all",
        body=PartitionsBody,
    ),
    Verb(OrderKind.PAUSE, AccessRole.OPERATE, "Pause moves; `partitions`, none: all", body=PartitionsBody),
    Verb(
        OrderKind.RESUME,
        AccessRole.OPERATE,
        "Resume paused moves; `partitions`, none: all",
        body=PartitionsBody,
    ),
    Verb(
        OrderKind.ROLL_BACK,
        AccessRole.OPERATE,
        "Restore the original replicas; `partitions`, none: all",
        body=PartitionsBody,
    ),
    Verb(OrderKind.LIMIT, AccessRole.OPERATE, "Change the throttle; `bytes_per_s`, null lifts it", body=LimitBody),
    Verb(OrderKind.BOUND, AccessRole.OPERATE, "Change how many copies run at a time; 0: no bound", body=BoundBody),
    Verb(OrderKind.DRAIN, AccessRole.ADMINISTER, "Keep a broker empty from now on", body=BrokerBody),
    Verb(OrderKind.UNDRAIN, AccessRole.ADMINISTER, "A drained broker may hold replicas again", body=BrokerBody),
    Verb(OrderKind.DEMOTE, AccessRole.ADMINISTER, "Let a broker lead nothing from now on", body=BrokerBody),
    Verb(OrderKind.PROMOTE, AccessRole.ADMINISTER, "A demoted broker may lead again", body=BrokerBody),
    Verb(
        OrderKind.REPLACE,
        AccessRole.ADMINISTER,
        "Move all replicas of a broker to another broker; `broker`, `by` another one",
        body=ReplaceBody,
    ),
    Verb(OrderKind.UNREPLACE, AccessRole.ADMINISTER, "Withdraw the order to replace a broker", body=BrokerBody),
    Verb(OrderKind.ADD, AccessRole.ADMINISTER, "Give a broker its share, once it is up", body=BrokerBody),
    Verb(OrderKind.UNADD, AccessRole.ADMINISTER, "Withdraw the order to give a broker its share", body=BrokerBody),
    Verb(OrderKind.FREEZE_TOPIC, AccessRole.ADMINISTER, "Move no replica of a topic", body=TopicBody),
    Verb(OrderKind.UNFREEZE_TOPIC, AccessRole.ADMINISTER, "A frozen topic may change again", body=TopicBody),
    Verb(OrderKind.FREEZE_BROKER, AccessRole.ADMINISTER, "Move no replica to or from a broker", body=BrokerBody),
    Verb(OrderKind.UNFREEZE_BROKER, AccessRole.ADMINISTER, "A frozen broker may change again", body=BrokerBody),
    Verb(OrderKind.HOLD, AccessRole.OPERATE, "Let nothing of a scope begin by itself", body=ScopeBody),
    Verb(OrderKind.UNHOLD, AccessRole.OPERATE, "Lift a hold, also one that followed from a rollback", body=ScopeBody),
    Verb(
        OrderKind.SET_REPLICATION,
        AccessRole.ADMINISTER,
        "A topic has so many replicas from now on",
        body=ReplicationBody,
    ),
    Verb(
        OrderKind.CLEAR_THROTTLES,
        AccessRole.OPERATE,
        "Remove throttles that no execution restores, while nothing is being moved",
    ),
    Verb(
        OrderKind.PROPOSE,
        AccessRole.OPERATE,
        "Keep a plan as a proposal: a scope, what it is about, and rules",
        body=PlanBody,
    ),
)
"""Every order; a test checks that none is missing."""


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
    order = ServiceOrder(verb.kind, name, *body.asked)
    signature = Signature(caller.person.name, body.comment, key)
    done = await reception.audit.order(reception.front.order, order, signature, by=caller.by, peer=peer_of(request))
    if done.undone:
        response.status_code = HTTPStatus.MULTI_STATUS
    return Done(text=done.text, proposal=done.proposal, undone=[*done.undone])


@router.post(
    "/clusters/{name}/sketch",
    response_model=model_of(KeptProposalView),
    dependencies=[Depends(may(AccessRole.OPERATE))],
    summary="A dry run of propose: what a plan would move",
)
async def sketch(reception: TheReception, caller: Asker, name: ClusterName, body: PlanBody) -> Response:
    """A dry run by the last observation; nothing is kept, and `changes` is empty. Needs `operate`: planning takes time."""
    about, value = body.asked
    view = await reception.front.sketch(name, about, value, caller.person.name)
    return Response(render(without_changes(view)), media_type="application/json")


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

    return ordered


def _add_routes() -> None:
    for verb in VERBS:
        partly: dict[int | str, dict[str, Any]] = {
            207: {"model": Done, "description": "Carried out, but not everywhere"}
        }
        responses = partly if verb.fleet else None
        about = f"Needs the role `{verb.role.value}`."
        path = f"/clusters/{{name}}/{verb.kind.value}"
        router.add_api_route(
            path,
            _for_a_cluster(verb),
            methods=["POST"],
            summary=verb.summary,
            description=about,
            operation_id=verb.kind.value,
            responses=responses,
            dependencies=[Depends(may(verb.role))],
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
                dependencies=[Depends(may(verb.role))],
            )


_add_routes()
