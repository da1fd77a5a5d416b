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
from shunter.errors import DriverError, ErrorCode, FormatError
from shunter.model.principal import USER, Principal
from shunter.model.security import PLAIN, SaslSettings, ScramCredential
from shunter.wire.requests import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, ParsedRequest, response_entity
from shunter.wire.sasl import SaslRefused, ScramServer, check_plain

_LOG = logging.getLogger(__name__)

FAILED_SECONDS = 0.1
"""How long whoever failed waits for being told (`connection.failed.authentication.delay.ms`)."""
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
    """

    def __init__(self, settings: SaslSettings, credential_of: CredentialOf) -> None:
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
        """Whether whoever logged in has to do it again."""
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
            self._scram = None
        return filled(response_entity(parsed), {"error_code": error, "mechanisms": self._settings.mechanisms})

    async def _authenticate(self, parsed: ParsedRequest) -> Any:
        values: dict[str, Any] = {"auth_bytes": b"", "session_lifetime": 0, "error_message": None}
        try:
            values["auth_bytes"] = await self._evaluated(parsed.message.auth_bytes)
        except SaslRefused as refused:
            self._fail(str(refused))
            during = "authentication" if self._before is None else "re-authentication"
            general = f"Authentication failed during {during} due to invalid credentials with SASL mechanism {self._mechanism}"
            values["error_code"] = ErrorCode.SASL_AUTHENTICATION_FAILED
            values["error_message"] = general if refused.told is None else refused.told
            await asyncio.sleep(FAILED_SECONDS)
        if self.done and self._settings.max_reauth_ms and parsed.version >= 1:
            values["session_lifetime"] = self._settings.max_reauth_ms
            self.ends_at = time.monotonic() + self._settings.max_reauth_ms / 1000
        return filled(response_entity(parsed), values)

    async def _evaluated(self, token: bytes) -> bytes:
        """Take a token and give the answer to it.

        Raises:
            SaslRefused: the login fails.
        """
        if self._mechanism == PLAIN:
            self._succeed(check_plain(token, self._settings.plain_users))
            return b""
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

    def _succeed(self, user: str) -> None:
        principal = Principal(USER, user)
        if self._before is not None and self._before[1] != principal:
            told = f"Cannot change principals during re-authentication from {self._before[1]}: {principal}"
            raise SaslRefused(told, told)
        self.principal, self.state, self._scram = principal, LoginState.DONE, None

    def _fail(self, reason: str) -> None:
        self.state, self.failure = LoginState.FAILED, reason
