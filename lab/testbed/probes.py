"""Probes that check over a server's own protocol whether it serves."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from lab.testbed.ports import LOOPBACK

PROBE_TIMEOUT_S = 2.0
# ApiVersions v0: length, API key 18, version 0, correlation id 1, client id null. Every Kafka server answers it.
API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)


# Metadata v1: length, API key 3, version 1, correlation id 2, client id null, no topics. Both 2.8 and 4.1 serve it,
# unlike the versions that client libraries use.
METADATA_REQUEST = struct.pack(">ihhihi", 14, 3, 1, 2, -1, 0)


def kafka_answers(port: int) -> bool:
    """Whether a Kafka server on the loopback answers ApiVersions on `port`."""
    answer = _asked(port, API_VERSIONS_REQUEST, is_whole=_is_whole_frame)
    if len(answer) < 10:
        return False
    return struct.unpack(">ih", answer[4:10]) == (1, 0)  # our correlation id, no error


def brokers_known_at(port: int) -> frozenset[int]:
    """Ids of the brokers that the Kafka server on `port` names to its clients; empty while it does not answer."""
    return frozenset(broker_hosts_at(port))


def broker_hosts_at(port: int) -> dict[int, str]:
    """Hosts of the brokers that the Kafka server on `port` names to its clients, by id; empty while it does not answer."""
    answer = _asked(port, METADATA_REQUEST, is_whole=_is_whole_frame)
    if len(answer) < 12 or struct.unpack(">i", answer[4:8]) != (2,):
        return {}
    (count,) = struct.unpack(">i", answer[8:12])
    brokers: dict[int, str] = {}
    at = 12
    for _ in range(count):
        node_id, host_length = struct.unpack_from(">ih", answer, at)
        brokers[int(node_id)] = answer[at + 6 : at + 6 + host_length].decode()
        at += 6 + host_length + 4
        (rack_length,) = struct.unpack_from(">h", answer, at)
        at += 2 + max(rack_length, 0)
    return brokers


def zookeeper_answers(port: int) -> bool:
    """Whether a ZooKeeper server on the loopback serves on `port`: only then the answer to `srvr` has its mode."""
    return b"Mode: " in _asked(port, b"srvr", is_whole=lambda _: False)  # the server closes the connection


def port_accepts(port: int) -> bool:
    """Whether a process on the loopback accepts connections on `port`."""
    try:
        with socket.create_connection((LOOPBACK, port), PROBE_TIMEOUT_S) as connection:
            return not _is_self_connected(connection)
    except OSError:
        return False


def _asked(port: int, question: bytes, *, is_whole: Callable[[bytes], bool]) -> bytes:
    """The answer of `port`, read until it is complete or the server closes the connection; empty if there is none."""
    try:
        with socket.create_connection((LOOPBACK, port), PROBE_TIMEOUT_S) as connection:
            if _is_self_connected(connection):
                return b""
            connection.sendall(question)
            answer = b""
            while not is_whole(answer) and (chunk := connection.recv(4096)):
                answer += chunk
            return answer
    except OSError:
        return b""


def _is_whole_frame(answer: bytes) -> bool:
    """Whether a Kafka response is complete."""
    return len(answer) >= 4 and len(answer) >= 4 + int(struct.unpack(">i", answer[:4])[0])


def _is_self_connected(connection: socket.socket) -> bool:
    """Whether the connection's own port is the one it connects to. Such a connection echoes the request."""
    return bool(connection.getsockname() == connection.getpeername())


def zookeeper_get(connect: str, path: str) -> tuple[bytes, int] | None:
    """A znode's data and czxid, read in a session of its own; None if it does not exist or no server answers."""
    client = KazooClient(connect, timeout=PROBE_TIMEOUT_S)
    try:
        client.start(timeout=PROBE_TIMEOUT_S)
        data, stat = client.get(path)
    except (KazooException, KazooTimeoutError):
        return None
    else:
        return bytes(data), int(stat.czxid)
    finally:
        client.stop()
        client.close()
