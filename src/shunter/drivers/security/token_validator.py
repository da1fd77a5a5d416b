"""Validates tokens of OAUTHBEARER: signed by a key of the identity provider, for this audience, not expired.

Source: Apache 3.9, `ValidatorAccessTokenValidator`, `RefreshingHttpsJwks`. PyJWT makes the checks; this module chooses
them.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import jwt

from shunter.drivers.host.http_client import HttpRequest, ask_http
from shunter.errors import DriverError
from shunter.formats.security.bearer_login import shown
from shunter.model.security.listeners import Secret, TokenRules
from shunter.wire.sasl import SaslRefused

_LOG = logging.getLogger(__name__)

ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Algorithms whose keys can be published: not HS256, whose key is a shared secret, nor `none`, which signs nothing."""
WITHIN_S: Final = 10.0
LARGEST_KEYS: Final = 1 << 20
ASKED_AGAIN_S: Final = 10.0
"""The shortest time between two attempts to fetch keys, for instance for tokens that are signed by unknown keys."""


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
        self._now = now
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._fetching = asyncio.Lock()

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
            claims = self._claims(text, await self._key(header.get("kid")))
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

    async def _key(self, name: object) -> jwt.PyJWK:
        """Return the key of a name; for a token that names no key, the only key.

        Raises:
            DriverError: there is no such key, or keys can't be fetched.
        """
        async with self._fetching:
            now = self._now()
            stale = now > self._fetched_at + self._rules.refresh_ms / 1000
            if (stale or self._named(name) is None) and now > self._tried_at + ASKED_AGAIN_S:
                self._tried_at = now
                await self._fetch(now)
        found = self._named(name)
        if found is None:
            raise DriverError(f"no key {str(name)[:80]!r} at {shown(self._rules.jwks_url)}", retriable=True)
        return found

    def _named(self, name: object) -> jwt.PyJWK | None:
        if name is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(name) if isinstance(name, str) else None

    async def _fetch(self, now: float) -> None:
        """Replace the keys. If no keys can be fetched, the former keys stay."""
        place = shown(self._rules.jwks_url)
        try:
            text = await asyncio.to_thread(_content, self._rules.jwks_url)
            keys = jwt.PyJWKSet.from_json(text).keys
        except DriverError as error:
            _LOG.warning("no keys of tokens: %s", error)
            return
        except (OSError, ValueError, jwt.PyJWTError) as error:
            told = f": {error}" if isinstance(error, OSError) else ""
            _LOG.warning("no keys of tokens: %s: %s%s", place, type(error).__name__, told)
            return
        self._keys = {each.key_id or "": each for each in keys}
        self._fetched_at = now
        _LOG.info("%d keys of tokens from %s", len(self._keys), place)


def _content(url: str) -> str:
    """Read published keys: no redirection is followed."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return Path(parts.path).read_text(encoding="utf-8")
    status, body = ask_http(shown(url), url, HttpRequest(), within_s=WITHIN_S, most_bytes=LARGEST_KEYS)
    if status != http.client.OK:
        raise DriverError(f"{shown(url)} answers {status}", retriable=True)
    return body.decode("utf-8")
