"""Who somebody is that comes by a listener with SASL: versions, handshake, tokens, and then a principal.

Before that nothing else is answered, as with Apache's brokers (`SaslServerAuthenticator`), and in the same words.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any

from shunter.drivers.handlers.messages import filled
from shunter.drivers.token_validator import TokenValidator
from shunter.errors import DriverError, ErrorCode, FormatError
from shunter.model.principal import USER, Principal
from shunter.model.security import OAUTHBEARER, PLAIN, SaslSettings, ScramCredential
from shunter.wire.requests import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, ParsedRequest, response_entity
from shunter.wire.sasl import SaslRefused, ScramServer, check_plain, read_bearer

_LOG = logging.getLogger(__name__)

FAILED_SECONDS = 0.1
"""The answer to a failed login is held back for so long (`connection.failed.authentication.delay.ms`)."""
_NONCE_BYTES = 24

CredentialOf = Callable[[str, str], Awaitable[ScramCredential | None]]
"""Gives the credential of a user for a mechanism; None: there is none.

Raises DriverError, FormatError where it can't be known.
"""


class LoginState(Enum):
    """What may come next."""

    BEGUN = "begun"
    HANDSHAKE = "handshake"
    TOKENS = "tokens"
    DONE = "done"
    FAILED = "failed"


class Login:
    """One connection's login.

    Args:
        settings: of the listener.
        credential_of: where SCRAM's users are.
        validator: of tokens, where OAUTHBEARER is served.
    """

    def __init__(
        self, settings: SaslSettings, credential_of: CredentialOf, validator: TokenValidator | None = None
    ) -> None:
        self.state = LoginState.BEGUN
        self.failure = ""
        """Why it failed, for our log."""
        self.raw = False
        """Tokens come as they are, not within requests (SaslHandshake 0)."""
        self.principal: Principal | None = None
        self.ends_at: float | None = None
        """When the session ends, monotonic; None: never."""
        self._settings = settings
        self._credential_of = credential_of
        self._validator = validator
        self._invalid: SaslRefused | None = None
        """Why a token is not good: the client is told, answers, and is refused."""
        self._token_ends: float | None = None
        """Wall clock, seconds."""
        self._mechanism = ""
        self._scram: ScramServer | None = None
        self._before: tuple[str, Principal] | None = None

    @property
    def frame_bytes(self) -> int:
        """Largest request before it is done."""
        return self._settings.frame_bytes

    @property
    def done(self) -> bool:
        """Whether requests may be answered."""
        return self.state is LoginState.DONE

    @property
    def expired(self) -> bool:
        """Whether the session is over: the client has to log in again."""
        return self.ends_at is not None and time.monotonic() > self.ends_at

    def begins_again(self, api_key: int) -> bool:
        """Tell whether a request of a session begins a new login, where sessions end; then take it for that."""
        if self.state is not LoginState.DONE or self.ends_at is None or api_key != SASL_HANDSHAKE:
            return False
        assert self.principal is not None
        self._before = self._mechanism, self.principal
        self.state = LoginState.HANDSHAKE
        return True

    async def answer(self, parsed: ParsedRequest) -> Any:
        """Answer SaslHandshake or SaslAuthenticate.

        Raises:
            FormatError: it is not the turn of such a request; as in Kafka, that ends the connection.
        """
        if parsed.api_key == SASL_HANDSHAKE and self.state in {LoginState.BEGUN, LoginState.HANDSHAKE}:
            return await self._shake_hands(parsed)
        if parsed.api_key == SASL_AUTHENTICATE and self.state is LoginState.TOKENS and not self.raw:
            return await self._authenticate(parsed)
        self._fail(f"API {parsed.api_key} came where its login was expected")
        raise FormatError("login", self.failure)

    def hear_versions(self) -> None:
        """Versions were asked for, which everybody may do once.

        Raises:
            FormatError: it is not the turn of that.
        """
        if self.state is not LoginState.BEGUN:
            raise FormatError("login", f"API {API_VERSIONS} came where its login was expected")
        self.state = LoginState.HANDSHAKE

    async def token(self, token: bytes) -> bytes:
        """Answer a token that came as it is.

        Raises:
            FormatError: the login failed; there is no place to tell it.
        """
        try:
            return await self._evaluated(token)
        except SaslRefused as refused:
            self._fail(str(refused))
            await asyncio.sleep(FAILED_SECONDS)
            raise FormatError("login", self.failure) from None

    async def _shake_hands(self, parsed: ParsedRequest) -> Any:
        asked = parsed.message.mechanism
        error = ErrorCode.NONE
        if asked not in self._settings.mechanisms or (self._before is not None and asked != self._before[0]):
            error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            self._fail(f"mechanism {asked[:40]!r} is none of {', '.join(self._settings.mechanisms)}")
            await asyncio.sleep(FAILED_SECONDS)
        else:
            self.state = LoginState.TOKENS
            self._mechanism = asked
            self.raw = parsed.version == 0
            self._scram = self._invalid = self._token_ends = None
        return filled(response_entity(parsed), {"error_code": error, "mechanisms": self._settings.mechanisms})

    async def _authenticate(self, parsed: ParsedRequest) -> Any:
        values: dict[str, Any] = {"auth_bytes": b"", "session_lifetime": 0, "error_message": ""}
        try:
            values["auth_bytes"] = await self._evaluated(parsed.message.auth_bytes)
        except SaslRefused as refused:
            self._fail(str(refused))
            during = "authentication" if self._before is None else "re-authentication"
            general = f"Authentication failed during {during} due to invalid credentials with SASL mechanism {self._mechanism}"
            values["error_code"] = ErrorCode.SASL_AUTHENTICATION_FAILED
            values["error_message"] = general if refused.told is None else refused.told
            await asyncio.sleep(FAILED_SECONDS)
        lifetime_ms = self._lifetime_ms()
        if self.done and lifetime_ms is not None and (parsed.version >= 1 or self._token_ends is not None):
            values["session_lifetime"] = lifetime_ms if parsed.version >= 1 else 0
            self.ends_at = time.monotonic() + lifetime_ms / 1000
        return filled(response_entity(parsed), values)

    def _lifetime_ms(self) -> int | None:
        """How long a session may last: as its token, and no longer than sessions of this listener; None: for ever."""
        bounds = [self._settings.max_reauth_ms] if self._settings.max_reauth_ms else []
        if self._token_ends is not None:
            bounds.append(max(0, int((self._token_ends - time.time()) * 1000)))
        return min(bounds, default=None)

    async def _evaluated(self, token: bytes) -> bytes:
        """Take a token and give the answer to it.

        Raises:
            SaslRefused: the login fails.
        """
        if self._mechanism == PLAIN:
            self._succeed(check_plain(token, self._settings.plain_users))
            return b""
        if self._mechanism == OAUTHBEARER:
            return await self._evaluated_bearer(token)
        if self._scram is None:
            self._scram = ScramServer(self._mechanism)
            user = self._scram.hear_first(token)
            try:
                credential = await self._credential_of(user, self._mechanism)
            except (DriverError, FormatError) as failure:
                raise SaslRefused(f"the credentials of user {user!r} can't be read: {failure}") from failure
            return self._scram.challenge(credential, secrets.token_urlsafe(_NONCE_BYTES))
        answer = self._scram.hear_final(token)
        self._succeed(self._scram.user)
        return answer

    async def _evaluated_bearer(self, response: bytes) -> bytes:
        """Take a client's response with a token.

        Raises:
            SaslRefused: it is none, or the client has heard that its token is not good.
        """
        if self._invalid is not None:
            raise self._invalid
        bearer = read_bearer(response)
        assert self._validator is not None
        try:
            known = await self._validator.validate(bearer.token)
        except SaslRefused as refused:
            told = '{"status":"invalid_token"}'
            self._invalid = SaslRefused(str(refused), told)
            return told.encode()
        if bearer.authorization not in {"", known.subject}:
            told = (
                f"Authentication failed: Client requested an authorization id ({bearer.authorization}) that is"
                f" different from the token's principal name ({known.subject})"
            )
            raise SaslRefused(told, told)
        self._token_ends = known.ends_at
        self._succeed(known.subject)
        return b""

    def _succeed(self, user: str) -> None:
        principal = Principal(USER, user)
        if self._before is not None and self._before[1] != principal:
            told = f"Cannot change principals during re-authentication from {self._before[1]}: {principal}"
            raise SaslRefused(told, told)
        self.principal, self.state, self._scram = principal, LoginState.DONE, None

    def _fail(self, reason: str) -> None:
        self.state, self.failure = LoginState.FAILED, reason
