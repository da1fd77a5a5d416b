"""Checks within seconds whether brokers answer at the given addresses, and if not, what answers there instead.

The client library would try for a quarter of a minute, and report only that it found no broker.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from typing import Any

from shunter.core.wording import named
from shunter.errors import DriverError

WITHIN_S = 3.0
_GRACE_S = 0.3
"""How long the others are waited for when one broker has answered."""
SILENT_FOR_S = 15.0
"""How long a server that did not answer counts as silent."""
_silent: dict[str, float] = {}
"""Until when each of them does, by the monotonic clock."""
_API_VERSIONS = struct.pack(">ihhih", 12, 18, 0, 1, 2) + b"sh"
"""ApiVersions, version 0, correlation 1, client `sh`, with its length. Brokers since 0.10 answer it without a login."""
_METADATA = 3
_SILENT = f"does not answer within {WITHIN_S:.0f} s"
_HTTP = "speaks HTTP, not Kafka's protocol"


def servers_of(configuration: Mapping[str, Any]) -> list[str]:
    """Return the bootstrap servers of kafka-python's configuration, which are a list, or a text with commas."""
    named = configuration["bootstrap_servers"]
    return [server.strip() for server in named.split(",")] if isinstance(named, str) else list(named)


def protocol_of(configuration: Mapping[str, Any]) -> str:
    """Return the security protocol of kafka-python's configuration."""
    return str(configuration.get("security_protocol", "PLAINTEXT"))


class NoBrokerAnswers(DriverError):
    """None of the bootstrap servers is a broker that answers; the message says what each of them does."""


def is_silent(server: str) -> bool:
    """Whether a server (`HOST:PORT`) did not answer when it was asked last, and that was a moment ago."""
    return time.monotonic() < _silent.get(server, 0.0)


def answering(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return kafka-python's configuration with those of its bootstrap servers that answer now.

    The library tries them in a random order, and gives a server that hangs all the time that there is.

    Raises:
        NoBrokerAnswers: none of them answers.
    """
    return {**configuration, "bootstrap_servers": probe(servers_of(configuration), protocol_of(configuration))}


def probe(servers: Sequence[str], protocol: str) -> list[str]:
    """Return those of these servers that are brokers; of several, those that answer about as soon as the first one.

    Args:
        servers: `HOST:PORT` each.
        protocol: Kafka's name. If it is TLS, any answer to the first message of a handshake is enough.

    Raises:
        NoBrokerAnswers: none of them is a broker.
    """
    pool = ThreadPoolExecutor(max(1, len(servers)))
    asked = {server: pool.submit(look, server, knock="SSL" in protocol) for server in servers}
    pool.shutdown(wait=False)  # A host that hangs is not waited for, if another one answers.
    if any(found.result() is None for found in as_completed(asked.values())):
        wait([found for server, found in asked.items() if not is_silent(server)], timeout=_GRACE_S)
        # Suspected until its own look ends: nothing is asked of it that another broker can answer.
        suspects = (server for server, found in asked.items() if not found.done())
        _silent.update(dict.fromkeys(suspects, time.monotonic() + SILENT_FOR_S))
        return [server for server, found in asked.items() if found.done() and found.result() is None]
    told = told_each({server: found.result() or "" for server, found in asked.items()})
    raise NoBrokerAnswers(f"no broker answers: {told}", retriable=True)


def told_each(reasons: Mapping[str, str]) -> str:
    """What is wrong with each of some servers; a reason that several share is told once."""
    alike: dict[str, list[str]] = {}
    for server, reason in reasons.items():
        alike.setdefault(reason, []).append(server)
    return "; ".join(
        f"{servers[0] if len(servers) == 1 else f'each of {named(servers)}'} {reason}"
        for reason, servers in alike.items()
    )


def look_at(servers: Sequence[str], protocol: str) -> dict[str, str | None]:
    """Return what is wrong with each of these servers; None: nothing."""
    with ThreadPoolExecutor(max(1, len(servers))) as pool:
        reasons = pool.map(lambda server: look(server, knock="SSL" in protocol), servers)
        return dict(zip(servers, reasons, strict=True))


def look(server: str, *, knock: bool) -> str | None:
    """Return what is wrong with a server; None: nothing. `knock`: begin to shake hands by TLS, and ask nothing."""
    found = _looked_at(server, knock=knock)
    if found == _SILENT:
        _silent[server] = time.monotonic() + SILENT_FOR_S
    else:
        _silent.pop(server, None)
    return found


def _looked_at(server: str, *, knock: bool) -> str | None:
    host, _colon, port = server.rpartition(":")
    if not host or not port.isdigit():
        return "is no HOST:PORT"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=WITHIN_S) as connection:
            if knock:
                connection.sendall(_client_hello())
                connection.recv(1)  # Whatever it says, the library can tell better what it means.
                return None
            connection.sendall(_API_VERSIONS)
            answer = _read(connection)
    except socket.gaierror as error:
        return f"is no host that is known ({error.strerror})"
    except ConnectionRefusedError:
        return "refuses connections: nothing listens there"
    except TimeoutError:
        speaks_http = not knock and b"HTTP" in _told(host, int(port), b"GET / HTTP/1.0\r\n\r\n")
        return _HTTP if speaks_http else _SILENT
    except ConnectionResetError:
        if knock:
            return None
        answer = b""
    except OSError as error:
        return f"is not reached: {error.strerror or error}"
    return _judge(answer, host, int(port))


def _client_hello() -> bytes:
    """The first message of a TLS handshake that nobody goes on with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake can't end without an answer")


def _read(connection: socket.socket) -> bytes:
    """Read a whole answer of Kafka, or the first bytes of an answer in another protocol."""
    answer = b""
    while len(answer) < 4 or (answer[:1] == b"\0" and len(answer) < 4 + struct.unpack(">i", answer[:4])[0]):
        more = connection.recv(65_536)
        if not more:
            break
        answer += more
    return answer


def _judge(answer: bytes, host: str, port: int) -> str | None:
    if answer[:2] == b"\x15\x03":
        return "speaks TLS: set security.protocol to SSL or SASL_SSL in the client properties"
    if answer[:4] == b"HTTP":
        return _HTTP
    if not answer and _is_zookeeper(host, port):
        return "is ZooKeeper's port: name a broker's"
    if len(answer) < 14 or answer[4:8] != b"\0\0\0\1":
        return (
            "hung up on a question that every broker answers: it is none, or it was just ending"
            if not answer
            else (f"is not a Kafka broker: it answers {answer[:20]!r}")
        )
    keys = {struct.unpack(">h", answer[at : at + 2])[0] for at in range(14, len(answer) - 5, 6)}
    if keys and _METADATA not in keys:
        return "is a KRaft controller's port: name a broker's"
    return None


def _is_zookeeper(host: str, port: int) -> bool:
    """Whether a port that closed the connection is ZooKeeper's: it names itself even if it does not allow `srvr`."""
    told = _told(host, port, b"srvr")
    return b"ookeeper" in told or b"whitelist" in told


def _told(host: str, port: int, asked: bytes) -> bytes:
    """Send these bytes; return the first bytes of the answer, or b"" if none come within a second."""
    try:
        with socket.create_connection((host.strip("[]"), port), timeout=1.0) as connection:
            connection.sendall(asked)
            return connection.recv(200)
    except OSError:
        return b""
