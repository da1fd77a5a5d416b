"""The error about a bootstrap server comes within seconds, and names what answers there."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from shunter.drivers.admin import bootstrap_probe
from shunter.drivers.admin.bootstrap_probe import WITHIN_S, answering, is_silent, probe
from shunter.drivers.admin.client import connected
from shunter.errors import DriverError

VERSIONS = {"broker": (0, 1, 3, 18), "controller": (18, 45, 52)}


def kafka(kind: str) -> Callable[[bytes], bytes]:
    """Answer ApiVersions, version 0."""
    keys = VERSIONS[kind]
    body = struct.pack(">ihi", 1, 0, len(keys)) + b"".join(struct.pack(">hhh", key, 0, 9) for key in keys)
    return lambda _asked: struct.pack(">i", len(body)) + body


def zookeeper(asked: bytes) -> bytes:
    return b"Zookeeper version: 3.9.2" if asked == b"srvr" else b""


def web(asked: bytes) -> bytes | None:
    """Answer when a line has ended; a request of Kafka has no end of a line."""
    return b"HTTP/1.0 404 Not Found\r\n" if asked.startswith(b"GET") else None


class Listener:
    """A server with the same answer to every request; None: it does not answer, and waits."""

    def __init__(self, answer: Callable[[bytes], bytes | None]) -> None:
        """Listen on a port that the kernel chooses."""
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._kept: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._socket.getsockname()[1]}"

    def _serve(self) -> None:
        while True:
            try:
                connection, _peer = self._socket.accept()
            except OSError:
                return
            answer = self._answer(connection.recv(100))
            if answer is None:
                self._kept.append(connection)
                continue
            with connection:
                connection.sendall(answer)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._kept:
            connection.close()


@pytest.fixture
def listening() -> Iterator[Callable[[Callable[[bytes], bytes | None]], str]]:
    made: list[Listener] = []

    def listen(answer: Callable[[bytes], bytes | None]) -> str:
        made.append(Listener(answer))
        return made[-1].address

    yield listen
    for each in made:
        each.close()


Listen = Callable[[Callable[[bytes], "bytes | None"]], str]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (kafka("controller"), "is a KRaft controller's port: name a broker's"),
        (zookeeper, "is ZooKeeper's port: name a broker's"),
        (web, "speaks HTTP, not Kafka's protocol"),
        (lambda _asked: b"\x15\x03\x03\0\2\2\x46", "speaks TLS: set security.protocol"),
        (lambda _asked: b"", "hung up on a question that every broker answers"),
        (lambda _asked: b"220 mail.example ESMTP", "is not a Kafka broker: it answers b'220 mail"),
    ],
)
def test_who_is_no_broker_is_named(listening: Listen, answer: Callable[[bytes], bytes | None], told: str) -> None:
    with pytest.raises(DriverError, match=told) as refused:
        probe([listening(answer)], "PLAINTEXT")
    assert refused.value.retriable


def test_one_broker_is_enough_and_what_speaks_tls_is_only_knocked_at(listening: Listen) -> None:
    servers = [listening(zookeeper), listening(kafka("broker"))]
    assert probe(servers, "SASL_PLAINTEXT") == servers[1:], "the library would choose one of both, and wait for it"
    probe([listening(zookeeper)], "SSL")


def test_a_refused_connection_and_an_unknown_host_are_told_each(free_port: int) -> None:
    with pytest.raises(DriverError) as refused:
        probe([f"127.0.0.1:{free_port}", "no.such.host.invalid:9092", "nonsense"], "SSL")
    told = str(refused.value)
    assert f"127.0.0.1:{free_port} refuses connections" in told
    assert "no.such.host.invalid:9092 is no host that is known" in told
    assert "nonsense is no HOST:PORT" in told


def test_a_server_that_says_nothing_is_told_after_seconds(listening: Listen) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(DriverError, match="does not answer within 3 s"):
            probe([address], "PLAINTEXT")


def test_a_server_that_says_nothing_is_not_waited_for_if_another_one_answers(listening: Listen) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as mute:
        servers = [f"127.0.0.1:{mute.getsockname()[1]}", listening(kafka("broker"))]
        began = time.monotonic()
        assert probe(servers, "PLAINTEXT") == servers[1:]
        assert time.monotonic() - began < WITHIN_S


@pytest.fixture
def mute() -> Iterator[str]:
    """A server that takes connections and never answers, as a process that is stopped."""
    with closing(socket.create_server(("127.0.0.1", 0))) as stopped:
        yield f"127.0.0.1:{stopped.getsockname()[1]}"


def test_a_first_server_that_hangs_is_passed_over_and_remembered(
    listening: Listen, mute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap_probe, "WITHIN_S", 0.2)
    alive = listening(kafka("broker"))
    named = {"bootstrap_servers": [mute, alive], "client_id": "x"}
    assert answering(named) == {"bootstrap_servers": [alive], "client_id": "x"}
    assert (is_silent(mute), is_silent(alive)) == (True, False)
    monkeypatch.setattr(bootstrap_probe, "_GRACE_S", 60.0)
    began = time.monotonic()
    assert probe([mute, alive], "PLAINTEXT") == [alive]
    assert time.monotonic() - began < 30, "a server that is known to be silent is not waited for"


def test_a_server_that_hangs_behind_tls_is_silent_too(mute: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap_probe, "WITHIN_S", 0.2)
    with pytest.raises(DriverError, match=f"no broker answers: {mute} does not answer"):
        probe([mute], "SASL_SSL")


def test_a_client_that_finds_no_broker_says_what_each_server_did(mute: str, free_port: int) -> None:
    with pytest.raises(DriverError) as refused:
        connected({"bootstrap_servers": [mute, f"127.0.0.1:{free_port}"]})
    told = f"no broker answers: {mute} does not answer within 3 s; 127.0.0.1:{free_port} refuses connections"
    assert str(refused.value).startswith(told)
    assert refused.value.retriable


def test_a_broker_that_answers_no_metadata_is_named_without_the_name_of_an_exception(
    listening: Listen,
) -> None:
    server = listening(kafka("broker"))
    with pytest.raises(DriverError) as refused:
        connected({"bootstrap_servers": [server], "bootstrap_timeout_ms": 300, "request_timeout_ms": 300})
    assert f"no broker told its cluster in time (security.protocol PLAINTEXT): {server} takes" in str(refused.value)
    assert "KafkaTimeoutError" not in str(refused.value)
