"""The login of a client at a listener with SASL: versions, handshake, tokens; the result is a principal.

Until the login is done no other request is answered, and errors have Kafka's texts (`SaslServerAuthenticator`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any

from shunter.drivers.listener.handlers.messages import filled
from shunter.drivers.security.token_validator import TokenValidator
from shunter.errors import DriverError, ErrorCode, FormatError
from shunter.model.security.listeners import OAUTHBEARER, PLAIN, SaslSettings, ScramCredential
from shunter.model.security.principal import USER, Principal
from shunter.wire.requests import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, ParsedRequest, response_entity
from shunter.wire.sasl import SaslRefused, ScramServer, check_plain, read_bearer

_LOG = logging.getLogger(__name__)

FAILED_SECONDS = 0.1
"""How long the answer to a failed login is held back (`connection.failed.authentication.delay.ms`)."""
_NONCE_BYTES = 24
_REASON_CHARACTERS = 200

CredentialOf = Callable[[str, str], Awaitable[ScramCredential | None]]
"""Returns the credential of (user, mechanism); None if there is none.

Raises DriverError or FormatError if the credential can't be read.
"""


class LoginState(Enum):
    """How far a login is: it decides which request may come next."""

    BEGUN = "begun"
    HANDSHAKE = "handshake"
    TOKENS = "tokens"
    DONE = "done"
    FAILED = "failed"


class Login:
    """One connection's login.

    Args:
        settings: of the listener.
        credential_of: reads the credentials of SCRAM's users.
        validator: of tokens, if OAUTHBEARER is served.
    """

    def __init__(
        self, settings: SaslSettings, credential_of: CredentialOf, validator: TokenValidator | None = None
    ) -> None:
        self.state = LoginState.BEGUN
        self.failure = ""
        """Why the login failed, for the log."""
        self.raw = False
        """Tokens come without a request around them (SaslHandshake 0)."""
        self.principal: Principal | None = None
        self.ends_at: float | None = None
        """When the session ends, in seconds of the monotonic clock; None: never."""
        self._settings = settings
        self._credential_of = credential_of
        self._validator = validator
        self._invalid: SaslRefused | None = None
        """Why a token is not valid. It was sent to the client; the client's answer to it is refused with this error."""
        self._token_ends: float | None = None
        """When the token ends, in seconds of the wall clock."""
        self._mechanism = ""
        self._scram: ScramServer | None = None
        self._before: tuple[str, Principal] | None = None

    @property
    def frame_bytes(self) -> int:
        """The size of the largest request that is accepted before the login is done."""
        return self._settings.frame_bytes

    @property
    def done(self) -> bool:
        """Whether requests may be answered."""
        return self.state is LoginState.DONE

    @property
    def expired(self) -> bool:
        """Whether the session has ended: the client has to log in again."""
        return self.ends_at is not None and time.monotonic() > self.ends_at

    def begins_again(self, api_key: int) -> bool:
        """Whether a request in a session that has an end begins a new login. If so, the login starts anew."""
        if self.state is not LoginState.DONE or self.ends_at is None or api_key != SASL_HANDSHAKE:
            return False
        assert self.principal is not None
        self._before = self._mechanism, self.principal
        self.state = LoginState.HANDSHAKE
        return True

    async def answer(self, parsed: ParsedRequest) -> Any:
        """Answer SaslHandshake or SaslAuthenticate.

        Raises:
            FormatError: the login does not expect this request now. As in Kafka, the connection is closed then.
        """
        if parsed.api_key == SASL_HANDSHAKE and self.state in {LoginState.BEGUN, LoginState.HANDSHAKE}:
            return await self._shake_hands(parsed)
        if parsed.api_key == SASL_AUTHENTICATE and self.state is LoginState.TOKENS and not self.raw:
            return await self._authenticate(parsed)
        self._fail(f"API {parsed.api_key} came where its login was expected")
        raise FormatError("login", self.failure)

    def hear_versions(self) -> None:
        """Note that the client asked for versions, which it may do once.

        Raises:
            FormatError: the login does not expect this request now.
        """
        if self.state is not LoginState.BEGUN:
            raise FormatError("login", f"API {API_VERSIONS} came where its login was expected")
        self.state = LoginState.HANDSHAKE

    async def token(self, token: bytes) -> bytes:
        """Answer a token that came without a request around it.

        Raises:
            FormatError: the login failed; this form of answer has no field for an error.
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
        """How long the session may last: no longer than its token, nor than the listener allows; None: for ever."""
        bounds = [self._settings.max_reauth_ms] if self._settings.max_reauth_ms else []
        if self._token_ends is not None:
            bounds.append(max(0, int((self._token_ends - time.time()) * 1000)))
        return min(bounds, default=None)

    async def _evaluated(self, token: bytes) -> bytes:
        """Evaluate a token, and return the answer to it.

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
        """Evaluate a client's response with a token of OAUTHBEARER, and return the answer to it.

        Raises:
            SaslRefused: the response is malformed, asks for another authorization id, or follows an invalid token.
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
            before, now = (f"{each.kind}.{each.name}" for each in (self._before[1], principal))
            told = f"Cannot change principals during re-authentication from {before}: {now}"
            raise SaslRefused(told, told)
        self.principal, self.state, self._scram = principal, LoginState.DONE, None

    def _fail(self, reason: str) -> None:
        # A client chooses the names in the reason, and they may be long.
        self.state, self.failure = LoginState.FAILED, reason[:_REASON_CHARACTERS]
