"""Access to ZooKeeper: kazoo's client with Shunter's TLS stores, with a login of its own, and with clear refusals.

This module corrects three habits of kazoo:

- kazoo makes its TLS context from PEM files on disk, and `select` does not see bytes that TLS has decrypted already.
- kazoo reports a connection before it has logged in, and takes a connection that breaks during the login for a refusal.
  Here a connection is reported only when the login is over.
- kazoo writes the reason of a failed connection only to its log.
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS, AuthFailedError, ConnectionDropped, ZookeeperError
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.handlers.utils import fileobj_to_fd
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL
from kazoo.protocol.states import KeeperState
from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE, make_digest_acl_credential

from shunter.drivers.security.tls import TlsContexts
from shunter.drivers.zookeeper import requests as wire
from shunter.drivers.zookeeper.digest_md5 import DigestMd5
from shunter.errors import DriverError, FormatError, SettingsError
from shunter.formats.znodes import paths as znodes
from shunter.model.security.listeners import PLAIN_ZOOKEEPER, ZooKeeperSecurity

_LOG: Final = logging.getLogger("kazoo.connection")
# Below this level kazoo logs its requests, and a request of the digest scheme contains the password.
_LOG.setLevel(logging.WARNING)
_OUR_LOG: Final = logging.getLogger(__name__)
_REPEATED: Final = (
    "Connection dropped",
    "Connection time-out",
    "Transition to CONNECTING",
    "Cannot resolve",
    "Failed connecting",
)


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Whether a line of kazoo is no repetition: it logs each attempt to connect, without the server's address."""
    return not str(record.msg).startswith(_REPEATED)


_LOG.addFilter(_is_worth_a_line)

_AUTH_FAILED = -115
_BROKEN_LOGINS: Final = 3
"""So many connections in a row that break during a login are a refusal: servers up to 3.5 refuse a login like this."""
_POLL_SECONDS: Final = 0.02
_CHUNK_BYTES: Final = 65_536
_OPEN, _OURS, _OURS_ALONE = wire.open_acl(), wire.creator_acl(readable=True), wire.creator_acl(readable=False)

for _code in range(-130, 0):
    if _code not in EXCEPTIONS:
        # kazoo's thread would end silently at an error code that kazoo does not know; servers since 3.6 send some.
        EXCEPTIONS[_code] = type(f"Error{-_code}", (ZookeeperError,), {"code": _code})


class TlsSocket:
    """A TLS socket for kazoo's loop. It knows which bytes TLS has decrypted already; `select` does not see these."""

    def __init__(self, encrypted: ssl.SSLSocket) -> None:
        self._encrypted = encrypted
        self._held = bytearray()
        self._ended = False

    def fileno(self) -> int:
        """See `socket`; used by `select`."""
        return self._encrypted.fileno()

    def setblocking(self, blocking: bool) -> None:
        """See `socket`."""
        self._encrypted.setblocking(blocking)

    def pending(self) -> int:
        """Number of bytes that can be read without the network; at least 1 if the other side has closed."""
        return len(self._held) or int(self._ended)

    def take_in(self) -> None:
        """Decrypt the bytes that have arrived. There may be nothing to read: TLS has messages of its own."""
        try:
            found = self._encrypted.recv(_CHUNK_BYTES)
        except ssl.SSLWantReadError:
            return
        self._held += found
        self._ended = not found

    def recv(self, size: int) -> bytes:
        """See `socket`; it never waits."""
        if not self.pending():
            self.take_in()
        if not self.pending():
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "nothing has come")
        found = bytes(self._held[:size])
        del self._held[:size]
        return found

    def send(self, data: bytes) -> int:
        """See `socket`."""
        return self._encrypted.send(data)

    def shutdown(self, how: int) -> None:
        """See `socket`."""
        self._encrypted.shutdown(how)

    def close(self) -> None:
        """See `socket`."""
        self._encrypted.close()


def _polled(rlist: Sequence[Any], wlist: Sequence[Any], timeout: float | None) -> tuple[list[Any], list[Any]]:
    """Wait as `select` does, by one system call. kazoo waits three times for each answer, by five system calls each."""
    if timeout is not None and timeout < 0:
        raise ValueError(f"nobody can wait for {timeout} s")
    readers = {each: fileobj_to_fd(each) for each in rlist}
    writers = {each: fileobj_to_fd(each) for each in wlist}
    poll = select.poll()
    for number in {*readers.values(), *writers.values()}:
        events = select.POLLIN if number in readers.values() else 0
        poll.register(number, events | (select.POLLOUT if number in writers.values() else 0))
    # A broken socket is both readable and writable: reading or writing raises the reason.
    happened = dict(poll.poll(None if timeout is None else timeout * 1000))
    readable = [each for each, number in readers.items() if happened.get(number, 0) & ~select.POLLOUT]
    writable = [each for each, number in writers.items() if happened.get(number, 0) & ~select.POLLIN]
    return readable, writable


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Opens connections, with TLS if it is configured, and waits for them."""

    def __init__(self, tls: TlsContexts | None) -> None:
        super().__init__()
        self._tls = tls

    def create_connection(self, *arguments: Any, **options: Any) -> Any:
        """Connect to a server."""
        if self._tls is None:
            return super().create_connection(*arguments, **options)
        opened = socket.create_connection(options["address"], options["timeout"])
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return TlsSocket(self._tls.client.wrap_socket(opened, server_hostname=options["hostname"]))
        except BaseException:
            opened.close()
            raise

    def select(self, rlist: Sequence[Any], wlist: Sequence[Any], _: Sequence[Any], timeout: Any = None) -> Any:
        """Wait as `select` does. Bytes that TLS has decrypted already count as readable; TLS's own messages do not."""
        secured = [each for each in rlist if isinstance(each, TlsSocket)]
        if not secured:
            return *_polled(rlist, wlist, timeout), []
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            wait = 0.0 if any(each.pending() for each in secured) else left
            found, writable = _polled(rlist, wlist, wait)
            for each in secured:
                if each in found and not each.pending():
                    each.take_in()
            readable = [each for each in rlist if (each.pending() if each in secured else each in found)]
            if readable or writable or left == 0.0:
                return readable, writable, []


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """Connects and logs in before listeners hear that there is a connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.broken_logins = 0
        self._sent_s: dict[int, float] = {}
        """By request of this connection that is not answered yet: when it was sent."""

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        """Connect to a server and log in. If this fails, the client keeps the reason."""
        client = self.client
        client.hold_back()
        self._sent_s, began_s = {}, time.monotonic()
        try:
            times: tuple[float, float] = super()._connect(host, hostip, port)
        except AuthFailedError as refused:
            client.refused_for_good(f"{host}:{port}: {refused}")
            raise
        except (ConnectionDropped, KazooTimeoutError) as failure:
            client.failed(f"{host}:{port}", failure)
            raise
        client.heard_s = max(client.heard_s, began_s)
        client.session_s = times[0] * 1.5 / 1000  # kazoo's read timeout is two thirds of what the server grants, in ms.
        client.connected_to(f"{host}:{port}")
        return times

    def _submit(self, request: Any, timeout: float, xid: int | None = None) -> None:
        if xid is not None:
            self._sent_s[xid] = time.monotonic()
        super()._submit(request, timeout, xid)

    def _read_header(self, timeout: float) -> Any:
        found = super()._read_header(timeout)
        self.client.heard_s = max(self.client.heard_s, self._sent_s.pop(found[0].xid, 0.0))
        return found

    def _authenticate_with_sasl(self, _host: str, timeout: float) -> None:
        """Log in. Replaces kazoo's method, which needs pure-sasl and takes every broken connection for a refusal."""
        login = self.client.security.sasl
        try:
            self._log_in(DigestMd5(login.user, login.password.reveal()), login.user, timeout)
        except ConnectionDropped:
            self.broken_logins += 1
            if self.broken_logins < _BROKEN_LOGINS:
                raise
            raise AuthFailedError(_refused_login(login.user)) from None
        except FormatError as strange:
            raise AuthFailedError(str(strange)) from None
        self.broken_logins = 0

    def _log_in(self, login: DigestMd5, user: str, timeout: float) -> None:
        challenge = self._asked(b"", 1, user, timeout)
        if not challenge:
            raise AuthFailedError(
                f"it has no SASL for the login of {user!r}: it needs authProvider.sasl and a JAAS section 'Server',"
                " or take the login out of our settings"
            )
        if not login.server_proved(self._asked(login.response(challenge), 2, user, timeout)):
            raise AuthFailedError("it could not prove that it knows our password: it may be somebody else's server")

    def _asked(self, token: bytes, xid: int, user: str, timeout: float) -> bytes:
        self._submit(SASL(token), timeout, xid)
        header, buffer, offset = self._read_header(timeout)
        if header.err in {_AUTH_FAILED, wire.SASL_REQUIRED}:
            raise AuthFailedError(_refused_login(user))
        if header.err or header.xid != xid:
            raise ConnectionDropped(f"the login was answered with code {header.err}")
        found, _ = SASL.deserialize(buffer, offset)
        return bytes(found or b"")


def _refused_login(user: str) -> str:
    return f"wrong password, or no such user: {user!r} (AUTH_FAILED, SASL DIGEST-MD5)"


class SecuredKazoo(KazooClient):  # type: ignore[misc]
    """kazoo's client with TLS and a login. The caller has to close it."""

    def __init__(self, security: ZooKeeperSecurity, tls: TlsContexts | None, **options: Any) -> None:
        digest = security.digest
        super().__init__(
            handler=_Handler(tls),
            auth_data=None if digest is None else [("digest", f"{digest.user}:{digest.password.reveal()}")],
            default_acl=[*CREATOR_ALL_ACL, *READ_ACL_UNSAFE] if security.set_acl else None,
            logger=_LOG,
            **options,
        )
        self.security = security
        self.refusal: str | None = None
        """Why no server will ever accept the login; kazoo does not try again then."""
        self.troubles: dict[str, str] = {}
        """Why the last attempt to connect to a server failed, by the server's address."""
        self.on_trouble: Callable[[], None] = lambda: None
        """Called on kazoo's thread when `refusal` or `troubles` changed."""
        self.heard_s = 0.0
        """When the last request that was answered was sent (monotonic): then the session lived. 0: never.

        The time of the answer would be too late: the server counts from the request, and the answer may have waited.
        """
        self.session_s: float | None = None
        """How long the server keeps a session from which it hears nothing; None before the first connection."""
        self.tells = True
        """Whether an outage and its end are logged, each in one line."""
        self._is_out = False
        self._distrusted: set[str] = set()
        self._served: set[str] = set()
        """Addresses of servers that have served a session of this client."""
        self._held_back: KeeperState | None = None
        self._holding = False
        self._connection = _Connection(
            self,
            self._conn_retry.copy(),
            logger=self.logger,
            sasl_options=None if security.sasl is None else {"mechanism": "DIGEST-MD5"},
        )

    def hold_back(self) -> None:
        """Begin to hold the news of a connection back, until the login is over."""
        self._holding, self._held_back = True, None

    def _session_callback(self, state: KeeperState) -> None:
        if self._holding and state in {KeeperState.CONNECTED, KeeperState.CONNECTED_RO}:
            self._held_back = state
            return
        self._holding = False
        super()._session_callback(state)

    def connected_to(self, address: str) -> None:
        """Report the connection: the login is over."""
        self.troubles.pop(address, None)
        if self._is_out and self.tells:
            _OUR_LOG.info("ZooKeeper at %s is back", address)
        self._is_out = False
        self._distrusted.discard(address)
        self._served.add(address)
        self._holding = False
        if self._held_back is not None:
            super()._session_callback(self._held_back)

    def failed(self, address: str, failure: Exception) -> None:
        """Keep the reason of a failed connection."""
        cause = failure.__context__ if isinstance(failure.__context__, OSError) else failure
        if isinstance(cause, ssl.SSLCertVerificationError):
            self._distrusted.add(address)
        else:
            self._distrusted.discard(address)
        encrypted = self.security.tls is not None
        self.troubles[address] = trouble_of(cause, encrypted=encrypted, served=address in self._served)
        if not self._is_out and self.tells:
            _OUR_LOG.warning(
                "ZooKeeper at %s can't be reached: %s; it is tried again until it answers, without further lines",
                address,
                self.troubles[address],
            )
        self._is_out = True
        self.on_trouble()

    def refused_for_good(self, told: str) -> None:
        """Keep the reason of a refused login; kazoo stops trying."""
        self.refusal = told
        self.on_trouble()

    @property
    def hopeless(self) -> str | None:
        """Why waiting for a first connection makes no sense; None if it makes sense."""
        if self.refusal is not None:
            return self.refusal
        everybody = len(self._distrusted) >= len({f"{host}:{port}" for host, port in self.hosts})
        return self.told if everybody else None

    @property
    def told(self) -> str:
        """All troubles in one line; empty if there are none."""
        return "; ".join(f"{address}: {why}" for address, why in sorted(self.troubles.items()))


def trouble_of(failure: BaseException, *, encrypted: bool, served: bool = False) -> str:
    """Explain to an operator why a connection to ZooKeeper failed.

    A server whose ensemble has no quorum takes connections, and hangs up on each of them.

    Args:
        failure: of the connection.
        encrypted: whether it was by TLS.
        served: whether this server has served a session before.
    """
    if isinstance(failure, ssl.SSLCertVerificationError):
        return (
            f"its certificate is refused: {failure.verify_message}"
            " (zookeeper.ssl.truststore.location says whom we trust; a certificate has to be for the host that we name)"
        )
    if isinstance(failure, ssl.SSLError) and "PROTOCOL_VERSION" in str(failure.reason):
        return f"it speaks another version of TLS: {failure.reason} (zookeeper.ssl.enabled.protocols says ours)"
    if isinstance(failure, ssl.SSLError) and "ALERT" in str(failure.reason):
        return f"it refuses our TLS: {failure.reason} (zookeeper.ssl.keystore.location is the certificate that we show)"
    if isinstance(failure, ssl.SSLError | ConnectionResetError | ConnectionDropped):
        if served and not isinstance(failure, ssl.SSLError):
            return (
                f"it hung up before a session began ({failure}), and it has served sessions before: most likely its"
                " ensemble has no quorum now, or it is just starting"
            )
        if encrypted:
            return (
                f"TLS fails ({failure}): a plaintext port, a server that wants another certificate of us"
                " (secureClientPort is the one with TLS), or one whose ensemble has no quorum"
            )
        return (
            f"it hung up before a session began ({failure}): its ensemble has no quorum, its port is one with TLS"
            " (zookeeper.ssl.client.enable=true), it is no ZooKeeper, or it has too many connections of ours"
        )
    return getattr(failure, "strerror", None) or str(failure) or type(failure).__name__


class Waiter:
    """Passes an answer from kazoo's connection thread to the event loop, without kazoo's completion threads."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
        """Pass the answer to a future of a loop."""
        self._loop = loop
        self._future = future

    def set(self, value: Any) -> None:
        """Take an answer; called by kazoo."""
        self._hand_over(value, None)

    def set_exception(self, failure: Exception) -> None:
        """Take a failure; called by kazoo."""
        self._hand_over(None, failure)

    def _hand_over(self, value: Any, failure: Exception | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settle, value, failure)
        except RuntimeError:
            _OUR_LOG.debug("an answer of ZooKeeper came after the event loop had ended")

    def _settle(self, value: Any, failure: Exception | None) -> None:
        if self._future.done():
            return
        if failure is None:
            self._future.set_result(value)
        else:
            self._future.set_exception(failure)


class ZooKeeperAccess:
    """The common part of all of a process's connections to ZooKeeper: TLS, login and ACLs.

    Args:
        security: the settings.

    Raises:
        SettingsError: a store can't be used.
    """

    def __init__(self, security: ZooKeeperSecurity = PLAIN_ZOOKEEPER) -> None:
        self.security = security
        self.tls = None if security.tls is None else TlsContexts(security.tls, "zookeeper.ssl")

    def acl_of(self, path: str) -> wire.Acl:
        """Return the ACL for a znode that this process creates. Source: Apache 3.9, `ZkData.defaultAcls`.

        Args:
            path: without the chroot.
        """
        if not self.security.set_acl or path == znodes.CONSUMERS:
            return _OPEN
        return _OURS_ALONE if path.startswith(znodes.SENSITIVE) else _OURS

    @property
    def makes_for(self) -> tuple[str, ...] | None:
        """The owners of the znodes that this process creates, as `scheme:id`; None: any client may change these znodes.

        The identity that a server derives from the client certificate is left out, because each server can be
        configured to derive another one.
        """
        if not self.security.set_acl:
            return None
        sasl, digest = self.security.sasl, self.security.digest
        found = () if sasl is None else (f"sasl:{sasl.user}",)
        if digest is None:
            return found
        return (*found, f"digest:{make_digest_acl_credential(digest.user, digest.password.reveal())}")

    def kazoo_client(self, **options: Any) -> SecuredKazoo:
        """Make a client; the options are kazoo's."""
        return SecuredKazoo(self.security, self.tls, **options)

    def opened(self, connect_string: str, seconds: float) -> SecuredKazoo:
        """Connect, and block until there is a connection; for synchronous tools.

        Raises:
            DriverError: no server answered in time, or the login is refused.
            SettingsError: the address is malformed.
        """
        try:
            client = self.kazoo_client(hosts=connect_string)
        except ValueError as error:
            raise SettingsError(f"zookeeper {connect_string!r} is not HOST:PORT[,…][/CHROOT]: {error}") from None
        client.tells = False  # The caller's error says it.
        client.start_async()
        until = time.monotonic() + seconds
        while not client.connected:
            hopeless = client.hopeless
            if hopeless is None and time.monotonic() < until:
                time.sleep(_POLL_SECONDS)
                continue
            troubles = client.told
            client.stop()
            client.close()
            if hopeless is not None:
                raise DriverError(not_let_in(connect_string, hopeless), retriable=False)
            raise DriverError(no_answer(connect_string, seconds, troubles), retriable=True)
        return client


PLAIN_ZOOKEEPER_ACCESS: Final = ZooKeeperAccess()


def split_connect_string(text: str) -> tuple[str, str]:
    """Split `host:port,host:port/chroot` into servers and chroot (empty, or beginning with a slash).

    Raises:
        SettingsError: no server, or a chroot that can't be a path.
    """
    servers, slash, chroot = text.partition("/")
    if not servers or "//" in text or not all(servers.split(",")):
        raise SettingsError(f"zookeeper {text!r} is not of the form host:port,host:port/chroot")
    return servers, (slash + chroot).rstrip("/")


def not_let_in(connect_string: str, why: str) -> str:
    """Make the message that ZooKeeper will not let this client in, however long it waits."""
    return f"ZooKeeper at {connect_string} does not let us in: {why}"


def no_answer(connect_string: str, seconds: float, troubles: str) -> str:
    """Make the message that no server answered in time, with the known reasons."""
    about = f" ({troubles})" if troubles else ""
    return (
        f"no ZooKeeper server answered at {connect_string} within {seconds:g} s{about}; "
        "check the address (--zookeeper), that ZooKeeper runs there, and that no firewall is in between"
    )
