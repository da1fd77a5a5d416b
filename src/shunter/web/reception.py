"""The objects that every route needs: the service's front, the caller, and the audit log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request
from starlette.responses import Response

from shunter.app.access.access_tokens import AccessRole
from shunter.app.access.audit_log import AuditLine, AuditLog
from shunter.app.service.front import Front
from shunter.model.service import OrderRefused, Refusal
from shunter.web.answers import RenderedAnswers
from shunter.web.forecasts import Forecasts
from shunter.web.hub import Hub
from shunter.web.identity import WRONG_TOKEN, Caller, Identity, demand
from shunter.web.port.connection_limits import ConnectionLimits, network_of
from shunter.web.port.wrong_tokens import WrongTokens
from shunter.web.problems import HttpRefusal, problem_answer

STATUSES = {
    Refusal.INVALID: HTTPStatus.UNPROCESSABLE_ENTITY,
    Refusal.NOT_FOUND: HTTPStatus.NOT_FOUND,
    Refusal.STALE: HTTPStatus.CONFLICT,
    Refusal.NOT_ALLOWED: HTTPStatus.CONFLICT,
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
    room: ConnectionLimits = field(default_factory=ConnectionLimits)
    wrong_tokens: WrongTokens = field(default_factory=WrongTokens)
    requests: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    """Requests that were answered, by method and status."""

    async def refused(self, request: Request, refusal: HttpRefusal) -> Response:
        """The answer to a request that is refused. It is counted; the audit log has it if a right is missing."""
        self.room.refused[refusal.kind] += 1
        if refusal.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            self._audit_refused(request, refusal)
        if refusal.kind == WRONG_TOKEN:
            try:
                await self.wrong_tokens.slow_down(network_of(peer_of(request)))
            except HttpRefusal as too_many:
                refusal = too_many
        return problem_answer(refusal, request.url.path)

    def _audit_refused(self, request: Request, refusal: HttpRefusal) -> None:
        caller: Caller | None = getattr(request.state, "caller", None)
        who, by = ("", "") if caller is None else (caller.person.name, caller.by)
        about = f"{request.method} {request.url.path}"[:200]
        self.audit.write_refused(AuditLine(who, by, peer_of(request), about), f"refused: {refusal.detail}")


def peer_of(request: Request) -> str:
    """The address that a request came from; through the UNIX socket, this host's."""
    return request.client.host if request.client is not None else "this host"


def refusal_of(refused: OrderRefused) -> HttpRefusal:
    """The HTTP answer for a refusal of the service."""
    return HttpRefusal(STATUSES[refused.refusal], refused.refusal.value, str(refused))


def reception_of(request: Request) -> Reception:
    """The reception of the application that serves a request."""
    reception = request.app.state.reception
    assert isinstance(reception, Reception)
    return reception


async def caller_of(request: Request) -> Caller:
    """The caller of a request, as `Guards` has judged it."""
    caller = request.state.caller
    assert isinstance(caller, Caller)
    return caller


def may(role: AccessRole) -> Callable[[Caller], Awaitable[Caller]]:
    """A dependency that refuses callers without a role."""

    async def allowed(caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
        demand(caller, role)
        return caller

    return allowed


async def _the_reception(request: Request) -> Reception:
    return reception_of(request)  # FastAPI would call a plain function in a thread.


TheReception = Annotated[Reception, Depends(_the_reception)]
Asker = Annotated[Caller, Depends(caller_of)]
Reader = Annotated[Caller, Depends(may(AccessRole.READ))]
