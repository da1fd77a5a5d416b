"""Tokens for SASL OAUTHBEARER: fetched, kept, and renewed before they end. Its calls block: make them in a thread."""

from __future__ import annotations

import base64
import http.client
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import orjson

from shunter.drivers.host.http_client import HttpAnswer, HttpRequest, ask_http
from shunter.errors import DriverError
from shunter.formats.security.bearer_login import PROVIDER, shown
from shunter.formats.text_files import without_mark
from shunter.model.security.listeners import BearerLogin, ClientCredentials, TokenFile, UnsecuredToken

WITHIN_S = 10.0
"""Bound for each read of an endpoint's answer."""
LARGEST_ANSWER = 1 << 20
RENEWED_AT = 0.8
"""Share of a token's lifetime after which a new token is requested, as Java's clients do."""
ASKED_AGAIN_S = 10.0
"""Time between requests for a new token while they fail; the old token is used until it ends."""


_ERRORS = (
    "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
    "invalid_scope",
)  # fmt: skip
"""RFC 6749, 5.2."""


class _Held(NamedTuple):
    """A token, when to request the next one, and when this one ends; in seconds of the wall clock, as in tokens."""

    token: str
    renew_at: float
    ends_at: float


class BearerTokens:
    """A provider of tokens. Two threads at the same time may both fetch a token; either token is valid."""

    def __init__(self, login: BearerLogin, now: Callable[[], float] = time.time) -> None:
        """Prepare; nothing is fetched yet."""
        self._login = login
        self._now = now
        self._held = _Held("", 0.0, 0.0)

    @property
    def held(self) -> str:
        """The kept token if it is valid now, else an empty text."""
        return self._held.token if self._now() < self._held.ends_at else ""

    @property
    def is_due(self) -> bool:
        """Whether it is time to request a new token."""
        return self._now() >= self._held.renew_at

    def token(self) -> str:
        """Return a valid token.

        Raises:
            DriverError: the kept token has ended and no new one can be fetched.
        """
        now = self._now()
        if now >= self._held.renew_at:
            try:
                self._held = self._another(now)
            except DriverError:
                if now >= self._held.ends_at:
                    raise
                self._held = self._held._replace(renew_at=now + ASKED_AGAIN_S)
        return self._held.token

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions that are sent with the token."""
        return dict(self._login.extensions)

    def _another(self, now: float) -> _Held:
        source = self._login.source
        if isinstance(source, UnsecuredToken):
            token, lives_s = _unsecured(source, now), source.lifetime_s
        elif isinstance(source, TokenFile):
            token, lives_s = _from_file(source), 0.0  # The file may change at any time, so it is always read again.
        else:
            token, lives_s = _from_endpoint(source, now)
        return _Held(token, now + RENEWED_AT * lives_s, now + lives_s)


def with_tokens(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return a client's configuration in which a `BearerLogin` is replaced by a provider of tokens."""
    login = configuration.get(PROVIDER)
    if not isinstance(login, BearerLogin):
        return dict(configuration)
    from kafka.net.sasl.oauth import AbstractTokenProvider  # noqa: PLC0415  the controller needs no client library

    AbstractTokenProvider.register(BearerTokens)
    return {**configuration, PROVIDER: BearerTokens(login)}


def _unsecured(source: UnsecuredToken, now: float) -> str:
    claims = {"sub": source.subject, "iat": now, "exp": now + source.lifetime_s}
    parts = (orjson.dumps({"alg": "none"}), orjson.dumps(claims), b"")
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def _from_file(source: TokenFile) -> str:
    try:
        return without_mark(Path(source.path).read_bytes()).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DriverError(f"the token file can't be read: {error}", retriable=True) from error


def _from_endpoint(source: ClientCredentials, now: float) -> tuple[str, float]:
    """Fetch (token, lifetime in seconds). The lifetime is from the answer, else from the token, else 0: used once."""
    status, answer = _posted(source)
    if status != http.client.OK:
        raise DriverError(
            f"no token: {shown(source.endpoint)} answers {status}{error_in(answer)}",
            retriable=status >= http.client.INTERNAL_SERVER_ERROR or status == http.client.TOO_MANY_REQUESTS,
        )
    try:
        told = orjson.loads(answer)
        token = str(told["access_token"])
        lives_s = float(told["expires_in"]) if "expires_in" in told else _ends_at(token) - now
    except (ValueError, LookupError, TypeError):
        raise DriverError(
            f"no token: what {shown(source.endpoint)} answers has no access_token", retriable=True
        ) from None
    return token, max(0.0, lives_s)


def error_in(answer: bytes) -> str:
    """Quote an answer's error if RFC 6749 defines it. Nothing else of an answer is shown, because it may be secret."""
    try:
        error = orjson.loads(answer)["error"]
    except (ValueError, LookupError, TypeError):
        return ""
    return f": {error}" if error in _ERRORS else ""


def _posted(source: ClientCredentials) -> HttpAnswer:
    """Ask the endpoint directly: no proxy gets the secret, and no redirection is followed."""
    body = {"grant_type": "client_credentials"} | ({} if source.scope is None else {"scope": source.scope})
    secret = base64.b64encode(f"{source.client_id}:{source.client_secret.reveal()}".encode()).decode()
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {secret}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    asked = HttpRequest("POST", body=urlencode(body), headers=headers)
    place = f"no token: {shown(source.endpoint)}"
    return ask_http(place, source.endpoint, asked, within_s=WITHIN_S, most_bytes=LARGEST_ANSWER)


def _ends_at(token: str) -> float:
    """Return the end of a JWT's validity; 0 if the token is not a JWT or does not have an end."""
    parts = token.split(".")
    if len(parts) != 3:
        return 0.0
    claims = orjson.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    return float(claims["exp"]) if "exp" in claims else 0.0
