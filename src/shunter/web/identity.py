"""The caller of a request, known by a token or a session, and the caller's role."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from shunter.app.access.access_tokens import AccessRole, Person, Tokens, digest_of
from shunter.app.access.page_sessions import SESSION_SECONDS, PageSessions
from shunter.app.access.sign_on import IssuerSilent, NoAccess, SignedOn, SignOn, SignOnRefused
from shunter.errors import FormatError
from shunter.model.security.access import PageSession
from shunter.web.problems import HttpRefusal

COOKIE = "shunter-session"
WRONG_TOKEN = "token-wrong"  # noqa: S105 - the name of a refusal
"""The kind of a refusal of a token that was shown."""
CSRF_HEADER = "x-shunter-csrf"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request. `csrf`: a page has to send it with every change; "" if no cookie is used."""

    person: Person
    by: str
    """`token`, `session`, `oidc` (a token of the issuer), `proxy`, `socket`, or `local` (the service has no tokens)."""
    csrf: str = ""


AT_SOCKET = "socket"
_RELAYED = frozenset({"authorization", "cookie", "origin", "forwarded", "via", "x-forwarded-for"})
"""Headers of browsers and proxies. A proxy at the socket would give everybody the rights of its own user."""
LOCAL_READER = Caller(Person("local", AccessRole.READ), "local")


class Identity:
    """Finds out which person makes a request, and refuses requests without a valid token."""

    def __init__(self, tokens: Tokens | None, sessions: PageSessions, sign_on: SignOn | None = None) -> None:
        """`tokens` None: every caller that reaches the service may read, and no caller may change anything."""
        self._tokens = tokens
        self.sessions = sessions
        self.sign_on = sign_on
        self._secret = secrets.token_urlsafe(32)
        """For the CSRF values of people whom a proxy names: they have no cookie of ours."""

    @property
    def tokens(self) -> Tokens | None:
        """The tokens, if this service has any."""
        return self._tokens

    @property
    def asks_for_tokens(self) -> bool:
        """Whether a request has to show a token."""
        return self._tokens is not None

    async def recognize(self, request: Request) -> None:
        """Judge a token of the issuer, if the request shows one, for `caller`: its key may have to be fetched."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        on = self.sign_on
        if on is None or on.issuer is None or scheme.lower() != "bearer" or token.count(".") != 2:
            return
        try:
            request.state.signed_on = await on.by_token(token.strip())
        except SignOnRefused as error:
            request.state.signed_on = refusal_of_sign_on(error)

    def caller(self, request: Request) -> Caller:
        """The caller of a request.

        Raises:
            HttpRefusal: 401 if a token is missing, wrong or expired; 403 if a page of another site sent the request,
                or a proxy sent it through the UNIX socket.
        """
        user = getattr(request.state, "user", "")
        if user:
            if found := sorted(_RELAYED & {*request.headers}):
                told = f"{found[0]}: the UNIX socket is for this host's users, not for a proxy: let it ask --listen"
                raise HttpRefusal(HTTPStatus.FORBIDDEN, "relayed", told)
            return Caller(Person(user, AccessRole.ADMINISTER), AT_SOCKET)
        if self._tokens is None:
            return LOCAL_READER
        if self.sign_on is not None and (signed_on := self._signed_on(request, self.sign_on)):
            return signed_on
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme:
            if scheme.lower() != "bearer":
                raise _unknown("only `Authorization: Bearer TOKEN` is understood")
            return Caller(self.judge(digest_of(secret.strip())), "token")
        name = request.cookies.get(COOKIE, "")
        session = self.sessions.find(name)
        if session is None:
            raise _unknown("show a token: `Authorization: Bearer TOKEN`, or sign in on the page", "token-needed")
        csrf = csrf_of(name)
        if request.method not in SAFE_METHODS:
            _check_same_site(request, csrf)
        return Caller(self._of_session(session), "session", csrf)

    def _signed_on(self, request: Request, sign_on: SignOn) -> Caller | None:
        """The caller whom a trusted proxy names, or who shows a token of the issuer; None: neither."""
        try:
            person = sign_on.by_headers(_far_end(request), request.headers.getlist)
        except SignOnRefused as error:
            raise refusal_of_sign_on(error) from None
        if person is not None:
            csrf = csrf_of(f"{self._secret} {person.name}")
            if request.method not in SAFE_METHODS:
                _check_same_site(request, csrf)  # The browser shows its cookie of the proxy with requests of any site.
            return Caller(person, "proxy", csrf)
        found = getattr(request.state, "signed_on", None)
        if isinstance(found, HttpRefusal):
            raise found
        if found is not None and not sign_on.lives(found):
            raise _unknown("this token of the issuer has expired: get a new one")
        return None if found is None else Caller(found, "oidc")

    def _of_session(self, session: PageSession) -> Person:
        if session.token:
            return self.judge(session.token)
        person = None if self.sign_on is None else self.sign_on.person(session.name, session.groups)
        if person is None:
            told = f"{session.name} has no access any more: no group of this session has a role: sign in again"
            raise _unknown(told, "token-needed")
        return person

    def begin_session(self, found: SignedOn) -> tuple[str, Caller]:
        """Begin a session for a person whom the issuer named; returns its id, for the cookie, and the caller."""
        name = secrets.token_urlsafe(32)
        session = self.sessions.begin_for(name, found.name, found.groups, found.ends_ms)
        return name, Caller(self._of_session(session), "session", csrf_of(name))

    def sign_in(self, secret: str) -> tuple[str, Caller]:
        """Begin a session for the person with this token; returns its id, for the cookie, and the caller.

        Raises:
            HttpRefusal: see `judge`.
        """
        person = self.judge(digest_of(secret))
        name = secrets.token_urlsafe(32)
        self.sessions.begin(name, secret)
        return name, Caller(person, "session", csrf_of(name))

    def judge(self, digest: str) -> Person:
        """The person whose token has this digest.

        Raises:
            HttpRefusal: no token has this digest, the token has expired, or the tokens can't be read.
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
            raise _unknown(
                f"the token of {expired} has expired: make a new one by `shunter token add NAME --tokens FILE`"
            )
        raise _unknown("this token is unknown: `shunter token list --tokens FILE` lists the persons that have a token")


def csrf_of(name: str) -> str:
    """The CSRF value of a session, which a page sends with every change. It can be computed only from the cookie."""
    return digest_of(f"shunter-csrf {name}")


def demand(caller: Caller, role: AccessRole) -> None:
    """Check that a caller has a role.

    Raises:
        HttpRefusal: 403; it names the role that is needed.
    """
    if caller.person.role.includes(role):
        return
    if caller.by == "local":
        told = "without tokens this service is read-only: start it with `--tokens FILE` (`shunter token add`)"
        raise HttpRefusal(HTTPStatus.FORBIDDEN, "read-only", told)
    told = f"{caller.person.name} may {caller.person.role.value}; this needs the role {role.value}"
    raise HttpRefusal(HTTPStatus.FORBIDDEN, "role-missing", told)


def set_cookie(answer: Response, name: str, *, secure: bool) -> None:
    """Set a browser's session cookie, which scripts can't read and other sites can't send."""
    # Without a path the browser takes the folder of the request, /api/v1, also below a path of a proxy.
    answer.set_cookie(COOKIE, name, max_age=SESSION_SECONDS, path=None, secure=secure, httponly=True, samesite="strict")


def clear_cookie(answer: Response) -> None:
    """Let the browser forget the session's cookie."""
    answer.set_cookie(COOKIE, "", max_age=0, path=None, httponly=True, samesite="strict")


def same_origin(request: Request) -> bool:
    """Whether a request comes from this service's own page. Browsers send Origin with requests that may change data."""
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()


def refusal_of_sign_on(error: SignOnRefused) -> HttpRefusal:
    """The HTTP answer for a refusal of single sign-on."""
    if isinstance(error, IssuerSilent):
        return HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, "issuer-silent", str(error), {"retry-after": "10"})
    if isinstance(error, NoAccess):
        return HttpRefusal(HTTPStatus.FORBIDDEN, "no-access", str(error))
    return _unknown(str(error))


def _far_end(request: Request) -> str:
    """The address at the other end of the connection. uvicorn changes `request.client` by X-Forwarded-For."""
    connection = getattr(request.state, "connection", lambda: None)()
    client = request.client if connection is None else connection.client
    return client[0] if client is not None else ""


def _check_same_site(request: Request, csrf: str) -> None:
    if not same_origin(request):
        raise HttpRefusal(HTTPStatus.FORBIDDEN, "foreign-origin", "a change has to come from this service's own page")
    sent = request.headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(sent.encode(), csrf.encode()):
        raise HttpRefusal(HTTPStatus.FORBIDDEN, "csrf", f"{CSRF_HEADER} is missing or wrong: load the page again")


def _unknown(detail: str, kind: str = WRONG_TOKEN) -> HttpRefusal:
    return HttpRefusal(HTTPStatus.UNAUTHORIZED, kind, detail, {"www-authenticate": "Bearer"})
