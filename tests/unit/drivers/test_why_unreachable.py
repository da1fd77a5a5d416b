"""Why `shunter controller --check` can't reach a broker: by secured listeners that are right and wrong in each way."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl

import pytest

from certificate_cases import ROOT
from made_certificates import Made, authority, issued
from shunter.core.controller_check import Cause
from shunter.drivers.brokers.access import PLAIN_ACCESS, BrokerAccess
from shunter.drivers.election.check import ask
from shunter.drivers.security.tls import TlsContexts
from shunter.model.broker import Broker, Endpoint
from shunter.model.security.listeners import (
    ClientAuth,
    KeyStore,
    ListenerSecurity,
    Secret,
    SecurityProtocol,
    SecuritySettings,
    TlsSettings,
)


def settings(made: Made, trusted: Made = ROOT, client_auth: ClientAuth = ClientAuth.NONE) -> TlsSettings:
    return TlsSettings(
        KeyStore("PEM", text=Secret(made.pem())), KeyStore("PEM", text=Secret(trusted.public)), client_auth
    )


def hang_up(listening: socket.socket, context: ssl.SSLContext) -> None:
    """Shake hands with a client, and close; if that fails, as Java does: after the alert has arrived."""
    accepted, _ = listening.accept()
    accepted.settimeout(10)
    with context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False) as wrapped:
        with contextlib.suppress(OSError):
            wrapped.do_handshake()
        wrapped.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            while wrapped.recv(65_536):
                pass


async def asked(ours: TlsSettings, theirs: TlsSettings):
    """Ask a broker that speaks TLS by its settings, and hangs up after the handshake."""
    security = SecuritySettings({"SAFE": ListenerSecurity(SecurityProtocol.SSL, ours)}, "SAFE")
    access = BrokerAccess(security, {"SAFE": TlsContexts(ours, "listener SAFE")})
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        serving = asyncio.create_task(asyncio.to_thread(hang_up, listening, TlsContexts(theirs, "broker").server))
        broker = Broker(1, 1, (Endpoint("SAFE", "SSL", "127.0.0.1", listening.getsockname()[1]),))
        found = await ask(broker, "SAFE", (), asyncio.Semaphore(1), access)
        await serving
    return found


GOOD = issued("x", ROOT)


@pytest.mark.parametrize(
    ("ours", "theirs", "cause", "told"),
    [
        (settings(GOOD), settings(GOOD), Cause.CLOSED, "closed by the broker"),
        (
            settings(GOOD),
            settings(issued("x", authority("other"))),
            Cause.ITS_CERTIFICATE,
            "unable to get local issuer",
        ),
        (settings(GOOD), settings(issued("x", ROOT, days=(-9, -1))), Cause.ITS_CERTIFICATE, "has expired"),
        (settings(GOOD), settings(issued("x", ROOT, names=["DNS:y"])), Cause.ITS_HOST, "IP address mismatch"),
        (
            settings(issued("x", authority("other"))),
            settings(GOOD, client_auth=ClientAuth.REQUIRED),
            Cause.OUR_CERTIFICATE,
            "ALERT_UNKNOWN_CA",
        ),
    ],
)
async def test_tls_that_does_not_come_about_names_whose_certificate_it_is(ours, theirs, cause, told):
    found = await asked(ours, theirs)
    assert found.cause is cause
    assert told.lower() in found.unreachable.lower()


async def test_a_broker_without_a_listener_that_we_know_and_one_that_is_down():
    broker = Broker(1, 1, (Endpoint("SAFE", "SSL", "127.0.0.1", 1),))
    found = await ask(broker, None, (), asyncio.Semaphore(1), PLAIN_ACCESS)
    assert found.cause is Cause.NO_LISTENER
    plain = Broker(1, 1, (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 1),))
    assert (await ask(plain, None, (), asyncio.Semaphore(1), PLAIN_ACCESS)).cause is Cause.NETWORK
