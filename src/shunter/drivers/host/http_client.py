"""One request to an HTTP or HTTPS server, and its answer. No proxy is used, and no redirection is followed."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from shunter.errors import DriverError, FormatError, SettingsError
from shunter.model.security.loopback import is_loopback


class HttpRequest(NamedTuple):
    """A request. Without a `target`, it asks for the path and the query of the URL."""

    method: str = "GET"
    target: str = ""
    body: bytes | str | None = None
    headers: Mapping[str, str] = {}


class HttpAnswer(NamedTuple):
    """The status of an answer, and its body."""

    status: int
    body: bytes


def ask_http(
    place: str,
    url: str | Path,
    request: HttpRequest,
    *,
    within_s: float,
    most_bytes: int | None = None,
    ca_file: Path | None = None,
    deadline_s: float | None = None,
) -> HttpAnswer:
    """Send a request and read the answer. Blocks.

    Args:
        place: What an error's message begins with. It may contain no secret, but the URL may.
        url: Of the server, or the path of its UNIX socket.
        request: What to ask; at a UNIX socket it needs a target.
        within_s: Bound for the connection, and for each read.
        most_bytes: How much of the body is read; None: all.
        ca_file: PEM file with the CA certificates for an https URL; None: the system's.
        deadline_s: Bound from the connection to the last byte, because a server may send one byte after another.

    Raises:
        DriverError: there is no answer. It is retriable, unless the URL or a header can't be sent at all, or the socket
            is another user's.
        FormatError: the CA file can't be used.
    """
    try:
        connection = _SocketConnection(url, within_s) if isinstance(url, Path) else _connection(url, within_s, ca_file)
        try:
            with _hanging_up(connection, deadline_s):
                target = request.target or _target(str(url))
                connection.request(request.method, target, request.body, dict(request.headers))
                answered = connection.getresponse()
                return HttpAnswer(answered.status, answered.read(most_bytes))
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        # Other errors quote the request or the answer, which may contain a secret.
        reason = f": {error}" if isinstance(error, OSError) and str(error) else ""
        retriable = isinstance(error, OSError | http.client.HTTPException)
        raise DriverError(f"{place}: {type(error).__name__}{reason}", retriable=retriable) from None


@contextlib.contextmanager
def _hanging_up(connection: http.client.HTTPConnection, deadline_s: float | None) -> Iterator[None]:
    """End a connection at a deadline, whoever reads from it in the block."""
    if deadline_s is None:
        yield
        return
    connection.connect()
    link = connection.sock
    late = threading.Event()

    def hang_up() -> None:
        late.set()
        with contextlib.suppress(OSError):
            # Not the method of an SSL socket: that one would go on without TLS, and read what anybody sends.
            socket.socket.shutdown(link, socket.SHUT_RDWR)

    timer = threading.Timer(deadline_s, hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, ValueError, http.client.HTTPException) as error:
        if late.is_set():
            raise TimeoutError(f"no whole answer within {deadline_s:g} s") from error
        raise
    finally:
        timer.cancel()
    if late.is_set():  # What was read may be a part of the answer.
        raise TimeoutError(f"no whole answer within {deadline_s:g} s")


def is_http_url(url: str) -> bool:
    """Whether a URL is one that `ask_http` can ask: http or https, with a host, and with a port that can exist."""
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def is_open_to_others(url: str) -> bool:
    """Whether others on the network could read what is sent to a URL, such as a token."""
    parts = urlsplit(url)
    return parts.scheme == "http" and not is_loopback(parts.hostname or "")


def refuse_open_token(url: str, flag: str) -> None:
    """Refuse to send a token to a URL unencrypted.

    Raises:
        SettingsError: others on the network could read it. `flag` is the way out that the message names.
    """
    if is_open_to_others(url):
        told = (
            f"{url}: the token would cross the network unencrypted; use https://, or {flag} if the network is trusted"
        )
        raise SettingsError(told)


def _connection(url: str, within_s: float, ca_file: Path | None) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    if parts.scheme != "https":
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=within_s)
    context = None if ca_file is None else _trusting(ca_file)
    return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=within_s, context=context)


class _SocketConnection(http.client.HTTPConnection):
    """A connection to a UNIX socket."""

    def __init__(self, path: Path, within_s: float) -> None:
        super().__init__("localhost", timeout=within_s)
        self._path = str(path)

    def connect(self) -> None:
        """See `http.client`."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(self._path)
        except PermissionError as error:
            raise DriverError(f"{self._path}: the service belongs to another user", retriable=False) from error
        except (FileNotFoundError, ConnectionRefusedError) as error:
            way_out = "start `shunter serve FILE`, or name another by --service"
            raise DriverError(f"no service serves at {self._path}: {way_out}", retriable=True) from error


def _trusting(ca_file: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise FormatError(str(ca_file), f"can't be used as certificates: {error}") from error


def _target(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path or '/'}{parts.query and '?'}{parts.query}"
