"""Access to a broker's listener: TLS over an asyncio socket, and a login by PLAIN, SCRAM or OAUTHBEARER."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from kio.schema.sasl_authenticate.v1.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v1.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.serial import entity_reader

from shunter.drivers.listener.watched_socket import WatchedSocket
from shunter.drivers.security.shared_tokens import SharedTokens
from shunter.drivers.security.tls import TlsContexts
from shunter.errors import DriverError, FormatError
from shunter.model.broker import Broker, Endpoint
from shunter.model.security.listeners import OAUTHBEARER, PLAIN, BearerLogin, SaslLogin, SecuritySettings
from shunter.wire.requests import SASL_AUTHENTICATE, SASL_HANDSHAKE, encode_message
from shunter.wire.sasl import BEARER_REFUSAL_HEARD, SaslRefused, ScramClient, bearer_response, plain_token, salted

_TLS_BYTES: Final = 65_536
"""Bytes that are encrypted at a time, which takes some 30 µs."""
_NONCE_BYTES: Final = 24
_read_handshake = entity_reader(SaslHandshakeResponse)
_read_authentication = entity_reader(SaslAuthenticateResponse)


class LoginRefused(FormatError):
    """The broker refuses the login, can't prove that it knows the user, or no token can be fetched."""


class Wire(Protocol):
    """An open byte stream to a broker."""

    @property
    def local_host(self) -> str:
        """The address of this end."""
        ...

    async def send(self, data: bytes | memoryview) -> None:
        """Write all bytes of `data`."""
        ...

    async def receive(self, count: int) -> bytes:
        """Wait for some bytes, at most `count`; empty if the broker has closed."""
        ...

    def close(self) -> None:
        """Close the stream."""
        ...


class TlsWire:
    """TLS over a socket. One task may send while another receives."""

    def __init__(self, connected: WatchedSocket, context: ssl.SSLContext, host: str) -> None:
        self._socket = connected
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._turn = asyncio.Lock()
        """Held while encrypted bytes are sent: TLS records have to be sent in the order of their encryption."""

    @property
    def local_host(self) -> str:
        """See `Wire`."""
        return self._socket.local_host

    async def shake_hands(self) -> None:
        """Agree on keys, and check the broker's certificate.

        Raises:
            OSError: the broker does not speak TLS, or its certificate is not trusted.
            EOFError: the broker closed the connection.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._hear(_TLS_BYTES):
                    raise EOFError("closed by the broker during the TLS handshake") from None
            except ssl.SSLError:
                await self._flush()  # Sends the broker the alert with the reason.
                raise
            else:
                await self._flush()
                return

    async def send(self, data: bytes | memoryview) -> None:
        """See `Wire`."""
        view = memoryview(data)
        for start in range(0, len(view), _TLS_BYTES):
            self._tls.write(view[start : start + _TLS_BYTES])
            await self._flush()

    async def receive(self, count: int) -> bytes:
        """See `Wire`."""
        while True:
            try:
                return self._tls.read(count)
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._hear(count):
                    return b""
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""

    def close(self) -> None:
        """See `Wire`."""
        self._socket.close()

    async def _hear(self, count: int) -> bool:
        received = await self._socket.receive(count)
        self._incoming.write(received)
        return bool(received)

    async def _flush(self) -> None:
        async with self._turn:
            data = self._outgoing.read()
            if data:
                await self._socket.send(data)


class Asking(Protocol):
    """A connection that sends one request and returns its answer."""

    async def ask(self, api_key: int, version: int, body: bytes) -> bytes:
        """Send a request, and return the body of its answer."""
        ...


class BrokerAccess:
    """Chooses among brokers' listeners, and connects to them by TLS and login.

    Args:
        settings: how listeners are secured; a listener that is not in the settings is used only if it is plaintext.
        tls: TLS contexts by listener.
    """

    def __init__(self, settings: SecuritySettings, tls: Mapping[str, TlsContexts]) -> None:
        self.brokers_listener = settings.brokers_listener
        self._settings = settings
        self._tls = tls
        logins = {name: each.sasl.login for name, each in settings.listeners.items() if each.sasl is not None}
        self._tokens = {name: SharedTokens(login) for name, login in logins.items() if isinstance(login, BearerLogin)}
        self._salted: dict[tuple[SaslLogin, bytes, int], bytes] = {}

    def usable(self, endpoint: Endpoint) -> bool:
        """Whether an endpoint can be used: its registered protocol is the configured one, and any login is known."""
        security = self._settings.of(endpoint.listener)
        may_log_in = security.sasl is None or security.sasl.login is not None
        return security.protocol.value == endpoint.security_protocol and may_log_in

    def endpoint(self, broker: Broker, listener: str | None) -> Endpoint:
        """Choose the endpoint of a listener, or the first usable endpoint if `listener` is None.

        Raises:
            FormatError: the broker has no such endpoint.
        """
        for endpoint in broker.endpoints:
            if listener in {None, endpoint.listener} and self.usable(endpoint):
                return endpoint
        wanted = "listener that we can use" if listener is None else f"usable listener named {listener}"
        names = ", ".join(f"{endpoint.listener}:{endpoint.security_protocol}" for endpoint in broker.endpoints)
        raise FormatError(f"broker {broker.id}", f"no {wanted} among [{names}]")

    def likely_endpoint(self, broker: Broker, listener: str | None, names: Iterable[str]) -> Endpoint:
        """Choose the endpoint of a listener. If `listener` is None: of the first of `names`, else the first usable one.

        A broker's listener with the name of one of this process's listeners is more likely to be meant for a controller
        than the broker's first listener.

        Raises:
            FormatError: the broker has no usable endpoint of this listener.
        """
        for name in names if listener is None else ():
            with suppress(FormatError):
                return self.endpoint(broker, name)
        return self.endpoint(broker, listener)

    async def wire(self, connected: WatchedSocket, endpoint: Endpoint) -> Wire:
        """Wrap a connected socket as its listener requires: with TLS, or not at all.

        Raises:
            OSError, EOFError: the TLS handshake failed.
        """
        if not self._settings.of(endpoint.listener).protocol.encrypted:
            return connected
        wire = TlsWire(connected, self._tls[endpoint.listener].client, endpoint.host)
        await wire.shake_hands()
        return wire

    async def log_in(self, connection: Asking, endpoint: Endpoint) -> float | None:
        """Log in, if the listener requires a login.

        Returns:
            For how many seconds the broker then accepts requests (KIP-368); None: for ever.

        Raises:
            OSError, EOFError: the connection broke.
            LoginRefused: see there.
            FormatError: an answer can't be read.
        """
        sasl = self._settings.of(endpoint.listener).sasl
        if sasl is None or sasl.login is None:
            return None
        place = f"login at {endpoint.host}:{endpoint.port} as {sasl.login.user}"
        try:
            if isinstance(sasl.login, BearerLogin):
                lives_s = await self._show_token(connection, sasl.login, self._tokens[endpoint.listener])
            else:
                lives_s = await self._exchange(connection, sasl.login)
        except (SaslRefused, DriverError) as refused:
            raise LoginRefused(place, str(refused)) from None
        return lives_s or None

    async def _show_token(self, connection: Asking, login: BearerLogin, tokens: SharedTokens) -> float:
        token = await tokens.token()
        await _shake_hands(connection, OAUTHBEARER)
        answer, lives_s = await _authenticate(connection, bearer_response(token, login.extensions))
        if answer:
            # The answer says what is wrong with the token. The broker refuses the login after one more message from the
            # client (RFC 7628, 3.2.3).
            await _authenticate(connection, BEARER_REFUSAL_HEARD)
            raise SaslRefused("the broker refuses our token")
        return lives_s

    async def _exchange(self, connection: Asking, login: SaslLogin) -> float:
        await _shake_hands(connection, login.mechanism)
        if login.mechanism == PLAIN:
            _, lives_s = await _authenticate(connection, plain_token(login.user, login.password))
            return lives_s
        scram = ScramClient(login.mechanism, login.user, secrets.token_urlsafe(_NONCE_BYTES))
        first, _ = await _authenticate(connection, scram.first())
        challenge = scram.hear_challenge(first)
        password = await self._salted_password(login, challenge.salt, challenge.iterations)
        verifier, lives_s = await _authenticate(connection, scram.final(challenge, password))
        scram.check(verifier)
        return lives_s

    async def _salted_password(self, login: SaslLogin, salt: bytes, iterations: int) -> bytes:
        """Salt the password in a thread. The result serves all brokers, because they have the same credential."""
        key = login, salt, iterations
        if key not in self._salted:
            made = await asyncio.to_thread(salted, login.mechanism, login.password, salt, iterations)
            self._salted = {key: made}
        return self._salted[key]


async def _shake_hands(connection: Asking, mechanism: str) -> None:
    body = encode_message(SaslHandshakeRequest(mechanism=mechanism))
    answer = decoded_answer(_read_handshake, await connection.ask(SASL_HANDSHAKE, 1, body), "login")
    if answer.error_code:
        served = ", ".join(answer.mechanisms)
        raise SaslRefused(f"the broker does not take {mechanism}; it takes {served}")


async def _authenticate(connection: Asking, token: bytes) -> tuple[bytes, float]:
    """Send a token. Return the broker's token, and for how many seconds the login then lasts; 0: for ever."""
    body = encode_message(SaslAuthenticateRequest(auth_bytes=token))
    answer = decoded_answer(_read_authentication, await connection.ask(SASL_AUTHENTICATE, 1, body), "login")
    if answer.error_code:
        raise SaslRefused(f"the broker refuses it: {answer.error_message or answer.error_code.name}")
    return bytes(answer.auth_bytes), answer.session_lifetime.total_seconds()


def decoded_answer(reader: Any, body: bytes, place: str) -> Any:
    """Decode an answer's body.

    Args:
        reader: kio's reader of the answer's schema.
        body: the answer from its body on.
        place: named in the error.

    Raises:
        FormatError: the body can't be read.
    """
    try:
        answer, _ = reader(body, 0)
    except Exception as error:  # kio raises errors of many kinds for bytes that it can't read
        raise FormatError(place, f"unreadable: {error}") from error
    return answer


PLAIN_ACCESS = BrokerAccess(SecuritySettings(), {})
"""Access to plaintext listeners only."""
