"""The objects that every route needs: the service's front, the caller, and the audit log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request

from shunter.app.access_tokens import AccessRole
from shunter.app.audit_log import AuditLine, AuditLog
from shunter.app.service.front import Front
from shunter.model.service import OrderDone, OrderRefused, Refusal, ServiceOrder, Signature
from shunter.web.answers import RenderedAnswers
from shunter.web.forecasts import Forecasts
from shunter.web.hub import Hub
from shunter.web.identity import Caller, Identity, demand
from shunter.web.problems import HttpRefusal

STATUSES = {
    Refusal.INVALID: HTTPStatus.UNPROCESSABLE_ENTITY,
    Refusal.NOT_FOUND: HTTPStatus.NOT_FOUND,
    Refusal.STALE: HTTPStatus.CONFLICT,
    Refusal.NOT_ALLOWED: HTTPStatus.FORBIDDEN,
    Refusal.ALREADY_DECIDED: HTTPStatus.CONFLICT,
    Refusal.KEY_REUSED: HTTPStatus.UNPROCESSABLE_ENTITY,
    Refusal.STANDBY: HTTPStatus.CONFLICT,
    Refusal.UNREACHABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    Refusal.STORE: HTTPStatus.SERVICE_UNAVAILABLE,
}


@dataclass(slots=True)
class Reception:
    """The objects that every route needs."""

    front: Front
    identity: Identity
    hub: Hub
    audit: AuditLog
    answers: RenderedAnswers = field(default_factory=RenderedAnswers)
    forecasts: Forecasts = field(default_factory=Forecasts)

    async def carry_out(self, caller: Caller, order: ServiceOrder, comment: str, key: str, peer: str) -> OrderDone:
        """Hand an order to the service, and write the caller and the outcome to the audit log.

        Raises:
            OrderRefused: the service refused the order.
        """
        line = AuditLine(
            who=caller.person.name,
            by=caller.by,
            peer=peer,
            verb=order.kind.value,
            cluster=order.cluster,
            about=order.about,
            value=order.value,
            comment=comment,
        )
        try:
            done = await self.front.order(order, Signature(caller.person.name, comment, key))
        except OrderRefused as refused:
            self.audit.write(line, f"refused: {refused}")
            raise
        self.audit.write(line, done.text)
        return done


def refusal_of(refused: OrderRefused) -> HttpRefusal:
    """The HTTP answer for a refusal of the service."""
    return HttpRefusal(STATUSES[refused.refusal], refused.refusal.value, str(refused))


def reception_of(request: Request) -> Reception:
    """The reception of the application that serves a request."""
    reception = request.app.state.reception
    assert isinstance(reception, Reception)
    return reception


def caller_of(request: Request, reception: Annotated[Reception, Depends(reception_of)]) -> Caller:
    """The caller of a request."""
    return reception.identity.caller(request)


def may(role: AccessRole) -> Callable[[Caller], Caller]:
    """A dependency that refuses callers without a role."""

    def allowed(caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
        demand(caller, role)
        return caller

    return allowed


TheReception = Annotated[Reception, Depends(reception_of)]
Asker = Annotated[Caller, Depends(caller_of)]
Reader = Annotated[Caller, Depends(may(AccessRole.READ))]
