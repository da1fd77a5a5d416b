"""An OpenID Connect issuer: its endpoints, people who come back from it, and its tokens. PyJWT makes the checks.

Nothing is asked before somebody signs in, so that a start needs no issuer. Every wait has a deadline, and an issuer that
does not answer holds two threads at most.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import http.client
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote_plus, urlencode

import jwt
import orjson

from shunter.drivers.host.http_client import HttpRequest, ask_http, is_http_url, is_open_to_others
from shunter.drivers.security.bearer_tokens import error_in
from shunter.drivers.security.published_keys import ALGORITHMS, ASKED_AGAIN_S, PublishedKeys
from shunter.errors import DriverError, FormatError
from shunter.formats.security.bearer_login import shown
from shunter.model.security.access import IssuerRules

WITHIN_S: Final = 5.0
DEADLINE_S: Final = 8.0
"""Bound for each answer of the issuer."""
WAIT_S: Final = 18.0
"""Bound for a sign-in, which needs two answers, and may wait for others."""
REFRESH_S: Final = 3600.0
LARGEST_ANSWER: Final = 1 << 20
_Answer = TypeVar("_Answer")
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class OidcIssuer:
    """Asks the issuer, and judges its tokens.

    Args:
        rules: The issuer, and who we are there.
        now: A monotonic clock, in seconds.
    """

    def __init__(self, rules: IssuerRules, now: Callable[[], float] = time.monotonic) -> None:
        self._rules = rules
        self._now = now
        self._ca_file = None if rules.ca_file is None else Path(rules.ca_file)
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="issuer")
        self._keys = PublishedKeys(shown(rules.issuer), self._read_keys, REFRESH_S, now)
        self._found: Mapping[str, Any] = {}
        self._found_at = self._failed_at = float("-inf")
        self._trouble = ""

    async def sign_in_url(self, redirect: str, *, state: str, nonce: str, verifier: str) -> str:
        """Return the address at which a person signs in, and is sent to `redirect` afterwards.

        Raises:
            DriverError: the issuer can't be asked.
        """
        endpoint = (await self._in_thread(self._endpoints))["authorization_endpoint"]
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        asked = {
            "response_type": "code",
            "client_id": self._rules.client_id,
            "redirect_uri": redirect,
            "scope": " ".join(self._rules.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"

    async def redeem(self, code: str, redirect: str, *, nonce: str, verifier: str) -> dict[str, Any]:
        """Exchange a person's code for the claims of the person's ID token.

        Raises:
            DriverError: the issuer can't be asked (retriable), or code or token are not good.
        """
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect, "code_verifier": verifier}
        token = await self._in_thread(lambda: self._redeemed(form))
        claims = await self.claims(token, self._rules.client_id)
        if claims.get("nonce") != nonce:
            raise DriverError("the nonce in the ID token is of another sign-in: sign in again", retriable=False)
        party = claims.get("azp", self._rules.client_id)
        if party != self._rules.client_id:
            told = f"the ID token was made for the client {str(party)[:80]!r}, not for {self._rules.client_id!r}"
            raise DriverError(f"{told}: sign in again", retriable=False)
        return claims

    async def claims(self, token: str, audience: str) -> dict[str, Any]:
        """Return the claims of a token that the issuer made for an audience and that is valid now.

        Raises:
            DriverError: the token is not good, or (retriable) its key can't be fetched.
        """
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in ALGORITHMS:
                told = f"the token is signed by alg = {str(header.get('alg'))[:20]!r}"
                raise DriverError(f"{told}: let the issuer sign by one of {', '.join(ALGORITHMS)}", retriable=False)
            key = await self._keys.key(header.get("kid"))
            return jwt.decode(
                token,
                key.key,  # The algorithm that the token names has to fit the key.
                algorithms=list(ALGORITHMS),
                audience=audience,
                issuer=self._rules.issuer,
                leeway=self._rules.leeway_s,
                options={"require": ["exp", "iat", "iss", "aud"]},
            )
        except (jwt.PyJWTError, TypeError, ValueError) as error:
            raise DriverError(self._told(error, token, audience), retriable=False) from None

    def _told(self, error: Exception, token: str, audience: str) -> str:
        """What is wrong with a token: the claim's value, the rule and the way out; nothing else of the token."""
        known: dict[type[Exception], tuple[str, str, str]] = {
            jwt.InvalidAudienceError: ("aud", f"{audience!r} is wanted", "ask the issuer for a token of this audience"),
            jwt.InvalidIssuerError: ("iss", f"{self._rules.issuer!r} is wanted", "get a token of that issuer"),
            jwt.ExpiredSignatureError: ("exp", "it has expired", "get a new token, or set the clocks"),
            jwt.ImmatureSignatureError: ("nbf", "it is not yet valid", "set the clocks of issuer and service"),
        }
        claim, wanted, way_out = known.get(type(error), ("", "", ""))
        if not claim:
            return f"the token is not good: {error}: get a new one from {shown(self._rules.issuer)}"
        claims = jwt.decode(token, options={"verify_signature": False})  # Its signature was good.
        value = claims.get(claim, claims.get("iat") if claim == "nbf" else None)
        return f"the token has {claim} = {str(value)[:200]!r}, and {wanted}: {way_out}"

    async def _in_thread(self, work: Callable[[], _Answer]) -> _Answer:
        try:
            async with asyncio.timeout(WAIT_S):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TimeoutError:
            raise DriverError(f"{shown(self._rules.issuer)}: no answer within {WAIT_S:.0f} s", retriable=True) from None

    # ---- in threads

    def _endpoints(self) -> Mapping[str, Any]:
        """The issuer's own description. A former one counts while no newer one can be read."""
        now = self._now()
        if now <= self._found_at + REFRESH_S:
            return self._found
        if now > self._failed_at + ASKED_AGAIN_S:
            try:
                self._found, self._found_at = self._described(), now
            except DriverError as error:
                self._trouble, self._failed_at = str(error), now
        if not self._found:
            raise DriverError(self._trouble, retriable=True)
        return self._found

    def _described(self) -> Mapping[str, Any]:
        issuer = self._rules.issuer
        found = self._json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != issuer:
            told = f"it calls itself {str(found.get('issuer'))[:200]!r}: write that as issuer, if it is the right one"
            raise DriverError(f"{shown(issuer)}: {told}", retriable=True)
        for name in _ENDPOINTS:
            url = str(found.get(name))
            if not is_http_url(url) or is_open_to_others(url):
                told = f"{name} = {url[:200]!r}, and https:// is wanted, or http:// on this machine"
                raise DriverError(f"{shown(issuer)}: {told}", retriable=True)
        return found

    def _read_keys(self) -> str:
        return orjson.dumps(self._json(self._endpoints()["jwks_uri"])).decode()

    def _redeemed(self, form: dict[str, str]) -> str:
        """The ID token for a code."""
        found = self._endpoints()
        rules, headers = self._rules, {"Content-Type": "application/x-www-form-urlencoded"}
        secret = "" if rules.client_secret is None else rules.client_secret.reveal()
        if secret and "client_secret_basic" in found.get(
            "token_endpoint_auth_methods_supported", ["client_secret_basic"]
        ):
            login = f"{quote_plus(rules.client_id)}:{quote_plus(secret)}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        else:
            form = {**form, "client_id": rules.client_id, **({"client_secret": secret} if secret else {})}
        asked = HttpRequest("POST", body=urlencode(form), headers={**headers, "Accept": "application/json"})
        token = self._json(found["token_endpoint"], asked).get("id_token")
        if not isinstance(token, str):
            told = "answers without an id_token: have openid among the scopes"
            raise DriverError(f"{shown(found['token_endpoint'])} {told}", retriable=False)
        return token

    def _json(self, url: str, asked: HttpRequest | None = None) -> dict[str, Any]:
        place = shown(url)
        try:
            status, body = ask_http(
                place,
                url,
                asked or HttpRequest(),
                within_s=WITHIN_S,
                most_bytes=LARGEST_ANSWER,
                ca_file=self._ca_file,
                deadline_s=DEADLINE_S,
            )
        except FormatError as error:
            raise DriverError(str(error), retriable=True) from None
        if status != http.client.OK:
            final = status in (http.client.BAD_REQUEST, http.client.UNAUTHORIZED)
            told = error_in(body)
            way_out = ": check client-id and client-secret-file" if "client" in told else ": sign in again"
            raise DriverError(f"{place} answers {status}{told}{way_out if final else ''}", retriable=not final)
        try:
            found = orjson.loads(body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise DriverError(f"{place} answers with no JSON object", retriable=True)
        return found
