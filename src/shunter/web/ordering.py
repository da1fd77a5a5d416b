"""The routes that change something: one for each verb of the command line, all of one shape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, ClassVar, NamedTuple

from fastapi import APIRouter, Depends, Header, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, model_validator
from starlette.responses import Response

from shunter.app.access.access_tokens import AccessRole
from shunter.model.limits import MOST_RATE
from shunter.model.service import OrderKind, ServiceOrder, Signature
from shunter.views.service import KeptProposalView, render
from shunter.web.answers import model_of
from shunter.web.identity import Caller
from shunter.web.reading import ClusterName, without_changes
from shunter.web.reception import Asker, Reception, TheReception, may, peer_of

router = APIRouter(prefix="/api/v1", tags=["order"])


MOST_KEYS = 10


def _number(given: object) -> object:
    """Accept only numbers: pydantic would make 1 of `true` and 5 of `"5"`."""
    if given is None or (isinstance(given, int | float) and not isinstance(given, bool)):
        return given
    raise ValueError("must be a number or null")


Name = Annotated[str, Field(max_length=300)]
"""A partition's name is a topic's, which has at most 249 characters, and a number."""
_ABOUT = "The order's objects: a proposal's id, partitions as `orders-3`, brokers, a topic; see the verb."


class OrderBody(BaseModel):
    """The body of an order; the verb is in the path."""

    model_config = ConfigDict(extra="forbid")
    most_bytes: ClassVar[int] = 128 * 1024
    """The most bytes that it may have as JSON; what the fields allow fits, however its characters are written."""
    about: Annotated[list[Name], FailFast()] = Field(default_factory=list[str], max_length=20, description=_ABOUT)
    value: Annotated[int | None, BeforeValidator(_number)] = Field(
        default=None,
        ge=0,
        le=MOST_RATE,
        description="Bytes per second of each broker, a replication factor, or another broker.",
    )
    comment: str = Field(default="", max_length=2_000, description="The reason; kept with the order.")

    @model_validator(mode="before")
    @classmethod
    def _few_keys(cls, given: object) -> object:
        """Refuse a flood of unknown keys at once: pydantic would make an error of each."""
        if isinstance(given, dict) and len(given) > MOST_KEYS:
            raise ValueError(f"{len(given)} keys: about, value and comment are the only ones")
        return given


class PlanBody(OrderBody):
    """The body of an order that plans; it names topics or brokers, and rules."""

    most_bytes: ClassVar[int] = 1024 * 1024
    about: Annotated[list[Name], FailFast()] = Field(default_factory=list[str], max_length=2_000, description=_ABOUT)


class PartitionsBody(OrderBody):
    """The body of an order that names partitions, perhaps all of a large plan."""

    most_bytes: ClassVar[int] = 8 * 1024 * 1024
    about: Annotated[list[Name], FailFast()] = Field(default_factory=list[str], max_length=100_000, description=_ABOUT)


class Verb(NamedTuple):
    """An order as the API offers it. `fleet`: the order can also be given to the whole fleet."""

    kind: OrderKind
    role: AccessRole
    summary: str
    fleet: bool = False
    body: type[OrderBody] = OrderBody


VERBS = (
    Verb(OrderKind.APPROVE, AccessRole.OPERATE, "Approve a proposal; `about`: its id"),
    Verb(OrderKind.DECLINE, AccessRole.OPERATE, "Decline a proposal; `about`: its id"),
    Verb(OrderKind.PAUSE_ALL, AccessRole.OPERATE, "The kill switch: pause every move, begin nothing", fleet=True),
    Verb(OrderKind.RESUME_ALL, AccessRole.OPERATE, "Lift the kill switch", fleet=True),
    Verb(
        OrderKind.STOP,
        AccessRole.OPERATE,
        "End moves where they are; `about`: partitions, none: all",
        body=PartitionsBody,
    ),
    Verb(OrderKind.PAUSE, AccessRole.OPERATE, "Pause moves; `about`: partitions, none: all", body=PartitionsBody),
    Verb(
        OrderKind.RESUME,
        AccessRole.OPERATE,
        "Resume paused moves; `about`: partitions, none: all",
        body=PartitionsBody,
    ),
    Verb(
        OrderKind.ROLL_BACK,
        AccessRole.OPERATE,
        "Restore the original replicas; `about`: partitions, none: all",
        body=PartitionsBody,
    ),
    Verb(
        OrderKind.LIMIT,
        AccessRole.OPERATE,
        "Change the throttle; `value`: bytes per second for each broker, null lifts it",
    ),
    Verb(
        OrderKind.BOUND,
        AccessRole.OPERATE,
        "Change how many copies run at a time; `about`: `max-in=4`, `max-out=2`, `max-concurrent=20`; 0: no bound",
    ),
    Verb(OrderKind.DRAIN, AccessRole.ADMINISTER, "Keep a broker empty from now on; `about`: its id"),
    Verb(OrderKind.UNDRAIN, AccessRole.ADMINISTER, "A drained broker may hold replicas again; `about`: its id"),
    Verb(OrderKind.DEMOTE, AccessRole.ADMINISTER, "Let a broker lead nothing from now on; `about`: its id"),
    Verb(OrderKind.PROMOTE, AccessRole.ADMINISTER, "A demoted broker may lead again; `about`: its id"),
    Verb(
        OrderKind.REPLACE,
        AccessRole.ADMINISTER,
        "Move all replicas of a broker to another broker; `about`: its id, `value`: the other broker's id",
    ),
    Verb(OrderKind.UNREPLACE, AccessRole.ADMINISTER, "Withdraw the order to replace a broker; `about`: its id"),
    Verb(OrderKind.ADD, AccessRole.ADMINISTER, "Give a broker its share, once it is up; `about`: its id"),
    Verb(OrderKind.UNADD, AccessRole.ADMINISTER, "Withdraw the order to give a broker its share; `about`: its id"),
    Verb(OrderKind.FREEZE_TOPIC, AccessRole.ADMINISTER, "Move no replica of a topic; `about`: its name or a pattern"),
    Verb(
        OrderKind.UNFREEZE_TOPIC, AccessRole.ADMINISTER, "A frozen topic may change again; `about`: its name or pattern"
    ),
    Verb(OrderKind.FREEZE_BROKER, AccessRole.ADMINISTER, "Move no replica to or from a broker; `about`: its id"),
    Verb(OrderKind.UNFREEZE_BROKER, AccessRole.ADMINISTER, "A frozen broker may change again; `about`: its id"),
    Verb(OrderKind.HOLD, AccessRole.OPERATE, "Let nothing of a scope begin by itself; `about`: the scope"),
    Verb(
        OrderKind.UNHOLD, AccessRole.OPERATE, "Lift a hold, also one that followed from a rollback; `about`: the scope"
    ),
    Verb(
        OrderKind.SET_REPLICATION, AccessRole.ADMINISTER, "A topic has `value` replicas from now on; `about`: its name"
    ),
    Verb(
        OrderKind.CLEAR_THROTTLES,
        AccessRole.OPERATE,
        "Remove throttles that no execution restores, while nothing is being moved",
    ),
    Verb(
        OrderKind.PROPOSE,
        AccessRole.OPERATE,
        "Keep a plan as a proposal; `about`: its scope, then brokers, OLD=NEW or topics, and rules as `most-moves=50`",
        body=PlanBody,
    ),
)
"""Every order; a test checks that none is missing."""


class Done(BaseModel):
    """The order was carried out, or it is stored durably and will be carried out."""

    text: str = Field(description="The result, in a sentence.")
    proposal: str = Field(default="", description="The proposal that the order made or decided.")


Key = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        max_length=200,
        description="Orders with the same key are carried out once, and get the same answer.",
    ),
]


async def _carry_out(
    request: Request, reception: Reception, caller: Caller, verb: Verb, name: str, body: OrderBody, key: str
) -> Done:
    order = ServiceOrder(verb.kind, name, tuple(body.about), body.value)
    signature = Signature(caller.person.name, body.comment, key)
    done = await reception.audit.order(reception.front.order, order, signature, by=caller.by, peer=peer_of(request))
    return Done(text=done.text, proposal=done.proposal)


@router.post(
    "/clusters/{name}/sketch",
    response_model=model_of(KeptProposalView),
    dependencies=[Depends(may(AccessRole.OPERATE))],
    summary="A dry run of propose: what a plan would move",
)
async def sketch(reception: TheReception, caller: Asker, name: ClusterName, body: PlanBody) -> Response:
    """A dry run by the last observation; nothing is kept, and `changes` is empty. Needs `operate`, because planning takes time."""
    view = await reception.front.sketch(name, tuple(body.about), body.value, caller.person.name)
    return Response(render(without_changes(view)), media_type="application/json")


def _for_a_cluster(verb: Verb) -> Callable[..., Awaitable[Done]]:
    async def ordered(
        request: Request,
        name: ClusterName,
        body: OrderBody,
        caller: Asker,
        key: Key = "",
    ) -> Done:
        return await _carry_out(request, request.app.state.reception, caller, verb, name, body, key)

    ordered.__annotations__["body"] = verb.body
    return ordered


def _for_the_fleet(verb: Verb) -> Callable[..., Awaitable[Done]]:
    async def ordered(request: Request, body: OrderBody, caller: Asker, key: Key = "") -> Done:
        return await _carry_out(request, request.app.state.reception, caller, verb, "", body, key)

    return ordered


def _add_routes() -> None:
    for verb in VERBS:
        about = f"Needs the role `{verb.role.value}`."
        path = f"/clusters/{{name}}/{verb.kind.value}"
        router.add_api_route(
            path,
            _for_a_cluster(verb),
            methods=["POST"],
            summary=verb.summary,
            description=about,
            operation_id=verb.kind.value,
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
                dependencies=[Depends(may(verb.role))],
            )


_add_routes()
