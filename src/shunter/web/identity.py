"""Who asks: by a token or a session, and what they may do."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from shunter.app.access_tokens import AccessRole, Person, Tokens, digest_of
from shunter.app.page_sessions import SESSION_SECONDS, PageSessions
from shunter.errors import FormatError
from shunter.web.problems import HttpRefusal

COOKIE = "shunter-session"
CSRF_HEADER = "x-shunter-csrf"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. `csrf`: what a page has to send with every change; "" where no cookie is used."""

    person: Person
    by: str
    """`token`, `session`, or `local` (no token was shown, and none is asked for)."""
    csrf: str = ""


LOCAL_READER = Caller(Person("local", AccessRole.READ), "local")


class Identity:
    """Tells which person makes a request, and refuses those that may not."""

    def __init__(self, tokens: Tokens | None, sessions: PageSessions) -> None:
        """`tokens` None: everybody who reaches the service may read, and no one may change anything."""
        self._tokens = tokens
        self.sessions = sessions

    @property
    def asks_for_tokens(self) -> bool:
        """Whether a request has to show a token."""
        return self._tokens is not None

    def caller(self, request: Request) -> Caller:
        """Who asks.

        Raises:
            HttpRefusal: 401 where a token is missing, wrong or expired; 403 where a page of another site asks.
        """
        if self._tokens is None:
            return LOCAL_READER
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme:
            if scheme.lower() != "bearer":
                raise _unknown("only `Authorization: Bearer TOKEN` is understood")
            return Caller(self.judge(digest_of(secret.strip())), "token")
        name = request.cookies.get(COOKIE, "")
        session = self.sessions.find(name)
        if session is None:
            raise _unknown("show a token: `Authorization: Bearer TOKEN`, or sign in on the page")
        csrf = csrf_of(name)
        if request.method not in SAFE_METHODS:
            _check_same_site(request, csrf)
        return Caller(self.judge(session.token), "session", csrf)

    def sign_in(self, secret: str) -> tuple[str, Caller]:
        """Begin a session for whoever shows a token; gives its id, for the cookie.

        Raises:
            HttpRefusal: see `judge`.
        """
        person = self.judge(digest_of(secret))
        name = secrets.token_urlsafe(32)
        self.sessions.begin(name, secret)
        return name, Caller(person, "session", csrf_of(name))

    def judge(self, digest: str) -> Person:
        """Whose token has this digest.

        Raises:
            HttpRefusal: nobody's, it has expired, or the tokens can't be read.
        """
        assert self._tokens is not None
        try:
            person = self._tokens.person_of(digest)
            expired = None if person is not None else self._tokens.expired_of(digest)
        except FormatError as error:
            raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, "tokens-unreadable", str(error)) from error
        if person is not None:
            return person
        if expired is not None:
            raise _unknown(f"the token of {expired} has expired: make a new one by `shunter token add`")
        raise _unknown("nobody has this token: `shunter token list` says who has one")


def csrf_of(name: str) -> str:
    """What a page sends with every change of a session. Whoever can't read the cookie can't make it from anything else."""
    return digest_of(f"shunter-csrf {name}")


def demand(caller: Caller, role: AccessRole) -> None:
    """Let a caller pass that has a role.

    Raises:
        HttpRefusal: 403; it says what is needed.
    """
    if caller.person.role.includes(role):
        return
    if caller.by == "local":
        told = "without tokens this service can only be looked at: start it with `--tokens FILE` (`shunter token add`)"
        raise HttpRefusal(HTTPStatus.FORBIDDEN, "read-only", told)
    told = f"{caller.person.name} may {caller.person.role.value}; this needs the role {role.value}"
    raise HttpRefusal(HTTPStatus.FORBIDDEN, "role-missing", told)


def set_cookie(answer: Response, name: str, *, secure: bool) -> None:
    """Give a session to a browser, out of the reach of scripts and of other sites."""
    answer.set_cookie(COOKIE, name, max_age=SESSION_SECONDS, path="/", secure=secure, httponly=True, samesite="strict")


def same_origin(request: Request) -> bool:
    """Whether a request comes from our own page; browsers send Origin with everything that changes something."""
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()


def _check_same_site(request: Request, csrf: str) -> None:
    if not same_origin(request):
        raise HttpRefusal(HTTPStatus.FORBIDDEN, "foreign-origin", "a change has to come from this service's own page")
    sent = request.headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(sent.encode(), csrf.encode()):
        raise HttpRefusal(HTTPStatus.FORBIDDEN, "csrf", f"{CSRF_HEADER} is missing or wrong: load the page again")


def _unknown(detail: str) -> HttpRefusal:
    return HttpRefusal(HTTPStatus.UNAUTHORIZED, "token-needed", detail, {"www-authenticate": "Bearer"})
