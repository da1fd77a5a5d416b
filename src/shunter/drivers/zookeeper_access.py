"""How we come in at ZooKeeper: kazoo's client with TLS by our own stores, with our own login, and with plain refusals.

kazoo is told of a connection only when the login is over. What it does not do by itself:

- It makes its TLS context of PEM files on disk, and does not wait for what TLS has decrypted beyond what was asked for.
- It tells that it is connected before it has logged in, and takes a connection that breaks in between for a refusal.
- It keeps the reason of a failed connection to its log.
"""

from __future__ import annotations

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

from shunter.drivers import zookeeper_requests as wire
from shunter.drivers.digest_md5 import DigestMd5
from shunter.drivers.tls import TlsContexts
from shunter.errors import DriverError, FormatError, SettingsError
from shunter.formats import znodes
from shunter.model.security import PLAIN_ZOOKEEPER, ZooKeeperSecurity

_LOG: Final = logging.getLogger("kazoo.connection")
# Below a warning kazoo prints its requests, and that of the digest scheme has the password in it.
_LOG.setLevel(logging.WARNING)

_AUTH_FAILED, _SASL_REQUIRED = -115, -124
_BROKEN_LOGINS: Final = 3
"""Connections that break in the middle of a login, one after another, are a refusal: servers up to 3.5 say no more."""
_POLL_SECONDS: Final = 0.02
_CHUNK_BYTES: Final = 65_536
_OPEN, _OURS, _OURS_ALONE = wire.open_acl(), wire.creator_acl(readable=True), wire.creator_acl(readable=False)

for _code in range(-130, 0):
    if _code not in EXCEPTIONS:
        # kazoo's thread ends, unheard, over an error code that kazoo has no name for; servers since 3.6 send several.
        EXCEPTIONS[_code] = type(f"Error{-_code}", (ZookeeperError,), {"code": _code})


class TlsSocket:
    """A socket as kazoo's loop wants it. It knows what TLS has decrypted already, which `select` can't see."""

    def __init__(self, encrypted: ssl.SSLSocket) -> None:
        self._encrypted = encrypted
        self._held = bytearray()
        self._ended = False

    def fileno(self) -> int:
        """For `select`."""
        return self._encrypted.fileno()

    def setblocking(self, blocking: bool) -> None:
        """See `socket`."""
        self._encrypted.setblocking(blocking)

    def pending(self) -> int:
        """Bytes that are there without asking the network; at least one where the other side has hung up."""
        return len(self._held) or int(self._ended)

    def take_in(self) -> None:
        """Decrypt what has come, which may be nothing for us to read: TLS has messages of its own."""
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
    """Wait as `select` does, by one call of the system: kazoo waits three times for each answer, by five calls each."""
    if timeout is not None and timeout < 0:
        raise ValueError(f"nobody can wait for {timeout} s")
    readers = {each: fileobj_to_fd(each) for each in rlist}
    writers = {each: fileobj_to_fd(each) for each in wlist}
    poll = select.poll()
    for number in {*readers.values(), *writers.values()}:
        events = select.POLLIN if number in readers.values() else 0
        poll.register(number, events | (select.POLLOUT if number in writers.values() else 0))
    # What is broken is both readable and writable: whoever reads or writes learns why.
    happened = dict(poll.poll(None if timeout is None else timeout * 1000))
    readable = [each for each, number in readers.items() if happened.get(number, 0) & ~select.POLLOUT]
    writable = [each for each, number in writers.items() if happened.get(number, 0) & ~select.POLLIN]
    return readable, writable


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Opens connections, and waits for them, by TLS where that is wanted."""

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
        """Wait as `select` does; what TLS holds already counts, and what is TLS's own business does not."""
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
    """Connects, and logs in, before anybody is told that there is a connection."""

    broken_logins = 0

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        """Connect to a server and log in; of what fails the client keeps the reason."""
        client = self.client
        client.hold_back()
        try:
            times: tuple[float, float] = super()._connect(host, hostip, port)
        except AuthFailedError as refused:
            client.refused_for_good(f"{host}:{port}: {refused}")
            raise
        except (ConnectionDropped, KazooTimeoutError) as failure:
            client.failed(f"{host}:{port}", failure)
            raise
        client.connected_to(f"{host}:{port}")
        return times

    def _authenticate_with_sasl(self, _host: str, timeout: float) -> None:
        """Log in. Replaces kazoo's way, which needs pure-sasl and takes every broken connection for a refusal."""
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
        if header.err in {_AUTH_FAILED, _SASL_REQUIRED}:
            raise AuthFailedError(_refused_login(user))
        if header.err or header.xid != xid:
            raise ConnectionDropped(f"the login was answered with code {header.err}")
        found, _ = SASL.deserialize(buffer, offset)
        return bytes(found or b"")


def _refused_login(user: str) -> str:
    return f"wrong password, or no such user: {user!r} (AUTH_FAILED, SASL DIGEST-MD5)"


class SecuredKazoo(KazooClient):  # type: ignore[misc]
    """kazoo's client, secured. Close it."""

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
        """Why no server will ever let us in; then nothing is tried any more."""
        self.troubles: dict[str, str] = {}
        """Why the last attempt at a server failed, by its address."""
        self.on_trouble: Callable[[], None] = lambda: None
        """Called on kazoo's thread when one of the two changed."""
        self._distrusted: set[str] = set()
        self._held_back: KeeperState | None = None
        self._holding = False
        self._connection = _Connection(
            self,
            self._conn_retry.copy(),
            logger=self.logger,
            sasl_options=None if security.sasl is None else {"mechanism": "DIGEST-MD5"},
        )

    def hold_back(self) -> None:
        """Begin to tell nobody of a connection, until the login is over."""
        self._holding, self._held_back = True, None

    def _session_callback(self, state: KeeperState) -> None:
        if self._holding and state in {KeeperState.CONNECTED, KeeperState.CONNECTED_RO}:
            self._held_back = state
            return
        self._holding = False
        super()._session_callback(state)

    def connected_to(self, address: str) -> None:
        """Tell of the connection: we are logged in."""
        self.troubles.pop(address, None)
        self._distrusted.discard(address)
        self._holding = False
        if self._held_back is not None:
            super()._session_callback(self._held_back)

    def failed(self, address: str, failure: Exception) -> None:
        """Keep why a connection failed."""
        cause = failure.__context__ if isinstance(failure.__context__, OSError) else failure
        if isinstance(cause, ssl.SSLCertVerificationError):
            self._distrusted.add(address)
        else:
            self._distrusted.discard(address)
        self.troubles[address] = trouble_of(cause, encrypted=self.security.tls is not None)
        self.on_trouble()

    def refused_for_good(self, told: str) -> None:
        """Keep why we are not let in; kazoo stops trying."""
        self.refusal = told
        self.on_trouble()

    @property
    def hopeless(self) -> str | None:
        """Why it makes no sense to wait for a first connection; None where it does."""
        if self.refusal is not None:
            return self.refusal
        everybody = len(self._distrusted) >= len({f"{host}:{port}" for host, port in self.hosts})
        return self.told if everybody else None

    @property
    def told(self) -> str:
        """All troubles, in a sentence; empty where there are none."""
        return "; ".join(f"{address}: {why}" for address, why in sorted(self.troubles.items()))


def trouble_of(failure: BaseException, *, encrypted: bool) -> str:
    """Say in an operator's words why a connection to ZooKeeper failed."""
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
        if encrypted:
            return (
                f"TLS fails ({failure}): a plaintext port, or a server that wants another certificate of us"
                " (secureClientPort is the one with TLS)"
            )
        return (
            f"it hung up before a session began ({failure}): a port with TLS needs zookeeper.ssl.client.enable=true;"
            " else it is no ZooKeeper, or it has too many connections of ours"
        )
    return getattr(failure, "strerror", None) or str(failure) or type(failure).__name__


class ZooKeeperAccess:
    """What all connections of a process to ZooKeeper have in common.

    Args:
        security: how.

    Raises:
        SettingsError: a store can't be used.
    """

    def __init__(self, security: ZooKeeperSecurity = PLAIN_ZOOKEEPER) -> None:
        self.security = security
        self._tls = None if security.tls is None else TlsContexts(security.tls, "zookeeper.ssl")

    def acl_of(self, path: str) -> wire.Acl:
        """Say who may do what with a znode that we create. Source: Apache 3.9, `ZkData.defaultAcls`.

        Args:
            path: without the chroot.
        """
        if not self.security.set_acl or path == znodes.CONSUMERS:
            return _OPEN
        return _OURS_ALONE if path.startswith(znodes.SENSITIVE) else _OURS

    @property
    def makes_for(self) -> tuple[str, ...] | None:
        """Whom what we create belongs to, as `scheme:id`; None: everybody may change it.

        The name that a server makes of our certificate is left out: servers can be told how.
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
        return SecuredKazoo(self.security, self._tls, **options)

    def opened(self, connect_string: str, seconds: float) -> SecuredKazoo:
        """Connect, and wait for it; for tools that do one thing after another.

        Raises:
            DriverError: no server lets us in.
            SettingsError: the address is none.
        """
        try:
            client = self.kazoo_client(hosts=connect_string)
        except ValueError as error:
            raise SettingsError(f"zookeeper {connect_string!r} is not HOST:PORT[,…][/CHROOT]: {error}") from None
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


def not_let_in(connect_string: str, why: str) -> str:
    """Say that ZooKeeper will not let us in, however long we wait."""
    return f"ZooKeeper at {connect_string} does not let us in: {why}"


def no_answer(connect_string: str, seconds: float, troubles: str) -> str:
    """Say that nobody answered in time, with what we know of the reason."""
    about = f" ({troubles})" if troubles else ""
    return (
        f"no ZooKeeper server answered at {connect_string} within {seconds:g} s{about}; "
        "check the address (--zookeeper), that ZooKeeper runs there, and that no firewall is in between"
    )
