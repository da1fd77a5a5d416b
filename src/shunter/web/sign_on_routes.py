"""The routes of single sign-on: to the issuer, and back. They are pages for people, and so are their refusals."""

from __future__ import annotations

import html
import secrets
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from shunter.app.access.audit_log import AuditLine
from shunter.app.access.sign_on import SignOn, SignOnRefused
from shunter.web.identity import refusal_of_sign_on, set_cookie
from shunter.web.port.connection_limits import network_of
from shunter.web.problems import HttpRefusal
from shunter.web.reception import Reception, TheReception, peer_of

STATE_COOKIE = "shunter-sign-in"
SIGN_IN_SECONDS = 600
_AWAY: dict[int | str, dict[str, Any]] = {303: {"description": "To the next page."}}
router = APIRouter(tags=["session"])
Text = Annotated[str, Query(max_length=4_000)]


@router.get("/api/v1/login", summary="Sign in at the issuer", status_code=HTTPStatus.SEE_OTHER, responses=_AWAY)
async def login(request: Request, reception: TheReception) -> Response:
    """Sends the browser to the issuer of single sign-on, with a cookie by which it is known when it comes back."""
    secret = secrets.token_urlsafe(32)
    try:
        away = await _sign_on(reception).begin(secret)
    except SignOnRefused as error:
        return await _refused(request, reception, refusal_of_sign_on(error))
    answer = RedirectResponse(away, HTTPStatus.SEE_OTHER)
    # Lax, because it is the issuer's page that sends the browser back.
    answer.set_cookie(
        STATE_COOKIE,
        secret,
        max_age=SIGN_IN_SECONDS,
        path=None,
        secure=_is_secure(request, reception),
        httponly=True,
        samesite="lax",
    )
    return answer


@router.get("/api/v1/callback", summary="Come back from the issuer", status_code=HTTPStatus.SEE_OTHER, responses=_AWAY)
async def callback(
    request: Request, reception: TheReception, state: Text = "", code: Text = "", error: Text = ""
) -> Response:
    """Begins a session for the person whom the issuer names, and sends the browser to the page."""
    secret = request.cookies.get(STATE_COOKIE, "")
    reception.wrong_tokens.check(network_of(peer_of(request)))  # Each code costs a request to the issuer.
    try:
        found = await _sign_on(reception).finish(secret, state, code, error)
        name, caller = reception.identity.begin_session(found)
    except SignOnRefused as refused:
        answer = await _refused(request, reception, refusal_of_sign_on(refused))
    else:
        reception.audit.write(AuditLine(caller.person.name, "session", peer_of(request), "sign-in"), "signed in")
        answer = RedirectResponse("../../", HTTPStatus.SEE_OTHER)
        set_cookie(answer, name, secure=_is_secure(request, reception))
    answer.set_cookie(STATE_COOKIE, "", max_age=0, path=None, httponly=True, samesite="lax")
    return answer


def _sign_on(reception: Reception) -> SignOn:
    found = reception.identity.sign_on
    if found is None or found.issuer is None:
        told = "this service has no issuer: write [sign-on.oidc] into its policy file, or sign in with a token"
        raise HttpRefusal(HTTPStatus.CONFLICT, "no-issuer", told)
    return found


def _is_secure(request: Request, reception: Reception) -> bool:
    """Whether browsers come by https: by our own TLS, or by that of a proxy at the service's address."""
    issuer = _sign_on(reception).issuer
    return request.url.scheme == "https" or (issuer is not None and issuer.address.startswith("https:"))


async def _refused(request: Request, reception: Reception, refusal: HttpRefusal) -> Response:
    """The refusal as a page, counted and written down as all refusals are."""
    answer = await reception.refused(request, refusal)
    page = f"<!doctype html><title>Shunter</title><h1>You are not signed in</h1><p>{html.escape(refusal.detail)}</p>"
    return HTMLResponse(f'{page}<p><a href="../../">To the page</a></p>', answer.status_code, refusal.headers)
