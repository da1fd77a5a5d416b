"""Validates tokens of OAUTHBEARER: signed by a key of the identity provider, for this audience, not expired.

Source: Apache 3.9, `ValidatorAccessTokenValidator`, `RefreshingHttpsJwks`. PyJWT makes the checks; this module chooses
them.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import jwt

from shunter.drivers.host.http_client import HttpRequest, ask_http
from shunter.drivers.security.published_keys import ALGORITHMS, DEADLINE_S, PublishedKeys
from shunter.errors import DriverError
from shunter.formats.security.bearer_login import shown
from shunter.model.security.listeners import Secret, TokenRules
from shunter.wire.sasl import SaslRefused

WITHIN_S: Final = 10.0
LARGEST_KEYS: Final = 1 << 20


class KnownToken(NamedTuple):
    """A valid token."""

    subject: str
    ends_at: float
    """Wall clock, seconds."""


class TokenValidator:
    """Validates tokens by the provider's keys, which are fetched when they are first needed, and again after a time.

    Args:
        rules: which tokens are valid.
        now: a monotonic clock, in seconds.
    """

    def __init__(self, rules: TokenRules, now: Callable[[], float] = time.monotonic) -> None:
        self._rules = rules
        place = shown(rules.jwks_url)
        self._keys = PublishedKeys(place, lambda: _content(rules.jwks_url), rules.refresh_ms / 1000, now)

    async def validate(self, token: Secret) -> KnownToken:
        """Return a token's subject, and when the token ends.

        Raises:
            SaslRefused: the token is not valid, or the keys can't be fetched. The message is for the log, and never
                contains the token.
        """
        text = token.reveal()
        try:
            header = jwt.get_unverified_header(text)
            if header.get("alg") not in ALGORITHMS:
                raise SaslRefused(f"its token is signed by {str(header.get('alg'))[:20]!r}, which is not accepted")
            claims = self._claims(text, await self._keys.key(header.get("kid")))
            subject = claims[self._rules.subject_claim]
            ends_at = float(claims["exp"])
            if any(ends_at < float(claims.get(begin, ends_at)) for begin in ("iat", "nbf")):
                raise SaslRefused("its token is not good: it ends before it begins")
        except (jwt.PyJWTError, DriverError) as error:
            raise SaslRefused(f"its token is not good: {error}") from None
        except (LookupError, TypeError, ValueError):
            raise SaslRefused(f"its token is not good: a claim is missing ({self._rules.subject_claim}, exp)") from None
        if not isinstance(subject, str) or not subject.strip():
            raise SaslRefused(f"its token is not good: claim {self._rules.subject_claim} names nobody")
        return KnownToken(subject.strip(), ends_at)

    def _claims(self, text: str, key: jwt.PyJWK) -> dict[str, Any]:
        rules = self._rules
        return jwt.decode(
            text,
            key.key,  # The algorithm that the token names has to fit the key.
            algorithms=list(ALGORITHMS),
            audience=list(rules.audiences) or None,
            issuer=rules.issuer,
            leeway=rules.clock_skew_s,
            options={
                "require": ["exp", "iat"],
                "verify_aud": bool(rules.audiences),
                "verify_iss": rules.issuer is not None,
                "verify_sub": False,  # The subject may be in another claim; `validate` checks it.
            },
        )


def _content(url: str) -> str:
    """Read published keys: no redirection is followed."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return Path(parts.path).read_text(encoding="utf-8")
    status, body = ask_http(
        shown(url), url, HttpRequest(), within_s=WITHIN_S, most_bytes=LARGEST_KEYS, deadline_s=DEADLINE_S
    )
    if status != http.client.OK:
        raise DriverError(f"{shown(url)} answers {status}", retriable=True)
    return body.decode("utf-8")
