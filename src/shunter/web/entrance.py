"""The routes of a session, of events, and of the service's own health."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from sse_starlette import EventSourceResponse
from starlette.responses import JSONResponse, Response

from shunter import __version__
from shunter.app.access.access_tokens import AccessRole
from shunter.app.access.audit_log import AuditLine
from shunter.web.identity import COOKIE, Caller, clear_cookie, same_origin, set_cookie
from shunter.web.metrics import CONTENT_TYPE, metrics_text
from shunter.web.problems import HttpRefusal
from shunter.web.reception import Reader, Reception, TheReception, peer_of

PING_SECONDS = 15
MOST_STREAMS = 500
"""Half of the connections."""
router = APIRouter()


class WhoAmI(BaseModel):
    """The caller, and the caller's role."""

    name: str = Field(default="", description="The caller's name. Empty: unknown, because no token was shown.")
    role: AccessRole | None = Field(default=None, description="None: the caller may do nothing until a token is shown.")
    by: str = Field(default="", description="token, session, oidc, proxy or local.")
    csrf: str = Field(default="", description="The value that a page has to send as X-Shunter-Csrf with every change.")
    expires_ms: int | None = Field(
        default=None,
        description="From then on the caller's token is refused; milliseconds since 1970 UTC. None: never.",
    )
    tokens: bool = Field(description="Whether this service has tokens; a service without tokens is read-only.")
    sign_on: str = Field(default="", description="What people sign in with at /api/v1/login. Empty: tokens alone.")
    version: str = Field(description="Shunter's version.")


class SignIn(BaseModel):
    """A token, to be exchanged for a session."""

    model_config = ConfigDict(extra="forbid")
    token: str = Field(max_length=300, min_length=1)


def _who(reception: Reception, caller: Caller | None) -> WhoAmI:
    tokens = reception.identity.asks_for_tokens
    on = reception.identity.sign_on
    sign_on = "" if on is None or on.issuer is None else on.issuer.label
    if caller is None:
        return WhoAmI(tokens=tokens, sign_on=sign_on, version=__version__)
    person = caller.person
    return WhoAmI(
        name=person.name,
        role=person.role,
        by=caller.by,
        csrf=caller.csrf,
        expires_ms=person.expires_ms,
        tokens=tokens,
        sign_on=sign_on,
        version=__version__,
    )


@router.get("/api/v1/session", tags=["session"], summary="Who I am")
async def session(request: Request, reception: TheReception) -> WhoAmI:
    """Answers every caller; without a token the answer says that a token is needed."""
    try:
        return _who(reception, reception.identity.caller(request))
    except HttpRefusal as refusal:
        if refusal.status is not HTTPStatus.UNAUTHORIZED:
            raise
        return _who(reception, None)


@router.post("/api/v1/session", tags=["session"], summary="Sign in with a token")
async def sign_in(request: Request, reception: TheReception, body: SignIn) -> Response:
    """Gives a cookie that scripts can't read and other sites can't send, and the CSRF value that goes with it."""
    if not same_origin(request):
        raise HttpRefusal(HTTPStatus.FORBIDDEN, "foreign-origin", "sign in on this service's own page")
    if not reception.identity.asks_for_tokens:
        raise HttpRefusal(HTTPStatus.CONFLICT, "no-tokens", "this service has no tokens: start it with `--tokens FILE`")
    name, caller = reception.identity.sign_in(body.token)
    reception.audit.write(AuditLine(caller.person.name, "session", peer_of(request), "sign-in"), "signed in")
    who = _who(reception, caller)
    answer = JSONResponse(who.model_dump(mode="json"))
    set_cookie(answer, name, secure=request.url.scheme == "https")
    return answer


@router.delete("/api/v1/session", tags=["session"], summary="Sign out", status_code=HTTPStatus.NO_CONTENT)
async def sign_out(request: Request, reception: TheReception, _caller: Reader) -> Response:
    """Ends the session."""
    reception.identity.sessions.end(request.cookies.get(COOKIE, ""))
    reception.hub.nudge()
    answer = Response(status_code=HTTPStatus.NO_CONTENT)
    clear_cookie(answer)
    return answer


@router.get(
    "/api/v1/events",
    tags=["look"],
    summary="Server-sent events",
    responses={200: {"content": {"text/event-stream": {}}, "description": "A stream without end."}},
)
async def events(
    request: Request,
    reception: TheReception,
    _caller: Reader,
    cluster: Annotated[str, Query(max_length=200, description="Only events of this cluster.")] = "",
    last_event_id: Annotated[str, Header(max_length=200, description="Go on after this event.")] = "",
) -> Response:
    """`cluster`: a row of the fleet that changed; `fleet`: the whole service; `reset`: read everything again."""
    if reception.hub.subscribers >= MOST_STREAMS:
        told = f"{MOST_STREAMS} pages and programs follow the events already: close some of them"
        raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, "too-many-streams", told, {"retry-after": "30"})
    return EventSourceResponse(
        _while_allowed(request, reception, reception.hub.follow(last_event_id, cluster)),
        ping=PING_SECONDS,
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def _while_allowed(request: Request, reception: Reception, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The events of a stream, as long as the caller's token is valid.

    The token is checked again before every event, and whenever tokens or sessions may have changed (`Hub.nudge`).
    """
    async for event in stream:
        try:
            reception.identity.caller(request)
        except HttpRefusal:
            yield b"event: signed-out\ndata: {}\n\n"
            return
        if event:
            yield event


@router.get("/metrics", tags=["operations"], summary="Prometheus metrics", response_class=Response)
async def metrics(reception: TheReception, _caller: Reader) -> Response:
    """Metrics of each cluster and of the service, in Prometheus' text form."""
    return Response(metrics_text(reception), media_type=CONTENT_TYPE)


class Health(BaseModel):
    """The state of the process."""

    status: str
    why: str = ""


@router.get("/health", tags=["operations"], summary="Whether the process is alive")
async def health() -> Health:
    """Answers as long as the event loop runs. No cluster is asked."""
    await asyncio.sleep(0)
    return Health(status="alive")


@router.get(
    "/ready",
    tags=["operations"],
    summary="Whether the service does its work",
    responses={503: {"model": Health, "description": "It does not; `why` says what is missing."}},
)
async def ready(reception: TheReception) -> Response:
    """503 while the store can't be used, or the service does its work for no cluster; `why` names what is missing."""
    view = reception.front.fleet()
    unserved = [f"{row.name}: {row.situation.unserved}" for row in view.clusters if row.situation.unserved]
    missing = bool(view.store_trouble) or len(unserved) == len(view.clusters)
    why = "; ".join([*([view.store_trouble] if view.store_trouble else []), *unserved])
    status = HTTPStatus.SERVICE_UNAVAILABLE if missing else HTTPStatus.OK
    told = "not ready" if missing else "ready in part" if why else "ready"
    return JSONResponse(Health(status=told, why=why).model_dump(), status)
