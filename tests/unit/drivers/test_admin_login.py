"""The reason of a refused login is kept. The library itself loses it if the broker closes at once, and tries again."""

import socket
import threading

import pytest

from shunter.drivers.admin.client import REFUSALS_AT_MOST, connected
from shunter.errors import DriverError

METADATA, API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 3, 18, 17, 36
WHY = b"Authentication failed: Invalid username or password"


def version_zero(api):
    """An answer in Kafka's protocol: versions of four APIs; the mechanism; the refusal (58)."""
    if api == API_VERSIONS:
        known = (METADATA, API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)
        each = b"".join(key.to_bytes(2) + bytes(2) + (key == SASL_HANDSHAKE).to_bytes(2) for key in known)
        return bytes(2) + len(known).to_bytes(4) + each
    if api == SASL_HANDSHAKE:
        return bytes(2) + (1).to_bytes(4) + (5).to_bytes(2) + b"PLAIN"
    return (58).to_bytes(2) + len(WHY).to_bytes(2) + WHY + bytes(4)


class RefusingBroker:
    """Refuses each login; the refusal and the end of the connection arrive together."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self.listener.getsockname())
        self.logins = 0
        self.thread = threading.Thread(target=self.serve)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                self.talk(connection)

    def talk(self, connection):
        while size := connection.recv(4, socket.MSG_WAITALL):
            request = connection.recv(int.from_bytes(size), socket.MSG_WAITALL)
            api, version = int.from_bytes(request[:2]), int.from_bytes(request[2:4])
            # A broker that does not know the request's version answers in the oldest one, with error 35.
            answer = (
                version_zero(api) if api != API_VERSIONS or version == 0 else (35).to_bytes(2) + version_zero(api)[2:]
            )
            whole = (len(answer) + 4).to_bytes(4) + request[4:8] + answer
            connection.sendall(whole)
            if api == SASL_AUTHENTICATE:
                self.logins += 1
                return


def test_a_refused_login_is_told_with_its_reason_and_soon():
    with RefusingBroker() as broker, pytest.raises(DriverError) as told:
        connected(
            {
                "bootstrap_servers": [broker.address],
                "bootstrap_timeout_ms": 240_000,  # Longer than the test's own time limit.
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "me",
                "sasl_plain_password": "wrong",
            }
        )
    assert str(told.value) == f"connecting: the cluster does not let us in: {WHY.decode()}"
    assert not told.value.retriable
    assert broker.logins == REFUSALS_AT_MOST
