"""The certificate of a listener: what is found at the start, which renewed ones are taken, and what a peer's alert tells."""

import asyncio
import logging
import socket
import ssl
from dataclasses import replace

import pytest
from rpc_world import RpcWorld

from lab.testbed.waiting import wait_until
from made_certificates import ANY, CLIENT, Made, authority, issued
from shunter.drivers.listener.gate import ListenerGate
from shunter.drivers.listener.server import RpcServer, parse_listener
from shunter.drivers.security import tls
from shunter.drivers.security.tls import TlsContexts
from shunter.model.security.listeners import (
    CertificateRules,
    ClientAuth,
    FaultKind,
    KeyStore,
    ListenerSecurity,
    Secret,
    SecurityProtocol,
    TlsSettings,
)

ROOT, OTHER = authority("root"), authority("other")
BROKERS, CLIENTS = CertificateRules(by_brokers=True), CertificateRules(by_brokers=False)
GOOD = issued("good", ROOT)
BAD = {
    "expired": issued("x", ROOT, days=(-9, -1)),
    "not yet valid": issued("x", ROOT, days=(1, 9)),
    "foreign": issued("x", OTHER),
    "for clients": issued("x", ROOT, usage=CLIENT),
}


def store(made: Made, *others: Made) -> KeyStore:
    return KeyStore("PEM", text=Secret(made.pem(*others)))


def settings(made: Made, *others: Made, trusted: Made | None = ROOT) -> TlsSettings:
    trust = None if trusted is None else KeyStore("PEM", text=Secret(trusted.public))
    return TlsSettings(store(made, *others), trust)


def kinds(contexts: TlsContexts) -> list[FaultKind]:
    return [fault.kind for fault in contexts.faults()]


@pytest.mark.parametrize("versions", [("TLSv1.2",), ("TLSv1.3",), ("TLSv1.2", "TLSv1.3")])
@pytest.mark.parametrize("auth", list(ClientAuth))
def test_a_good_certificate_passes_the_handshake_with_itself(versions, auth):
    chosen = replace(settings(GOOD), versions=versions, client_auth=auth)
    contexts = TlsContexts(chosen, "listener X", CertificateRules(by_brokers=True, as_client=True))
    assert kinds(contexts) == []
    assert contexts.client.check_hostname


@pytest.mark.parametrize("name", BAD)
def test_only_brokers_are_known_to_have_the_same_trust_store(name):
    assert len(kinds(TlsContexts(settings(BAD[name]), "listener X", BROKERS))) == 1
    expected = [] if name == "foreign" else [FaultKind.UNUSABLE]
    assert kinds(TlsContexts(settings(BAD[name]), "listener X", CLIENTS)) == expected
    assert kinds(TlsContexts(settings(BAD[name], trusted=None), "listener X", BROKERS)) == expected
    assert kinds(TlsContexts(settings(BAD[name]), "ZooKeeper")) == [], "nobody connects to us there"


def test_what_openssl_alone_refuses_is_a_doubt():
    """Java takes a certificate for every use, and one whose root is past its dates."""
    for made, root in (
        (issued("x", ROOT, usage=ANY), ROOT),
        (issued("x", old := authority("old", days=(-9, -1))), old),
    ):
        contexts = TlsContexts(settings(made, trusted=root), "listener X", BROKERS)
        (fault,) = contexts.faults()
        assert fault.kind is FaultKind.DOUBTFUL
        assert "can't connect by OpenSSL: " in fault.told


def test_ciphers_that_do_not_go_with_the_key_are_a_doubt():
    chosen = replace(settings(GOOD), versions=("TLSv1.2",), ciphers=("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",))
    (fault,) = TlsContexts(chosen, "listener X", BROKERS).faults()
    assert fault.kind is FaultKind.DOUBTFUL


def test_the_host_counts_once_it_is_known_and_unless_it_is_not_checked():
    contexts = TlsContexts(settings(GOOD), "listener X", CLIENTS)
    assert kinds(contexts) == []
    contexts.host = "127.0.0.1"
    assert kinds(contexts) == []
    contexts.host = "kafka1"
    assert kinds(contexts) == [FaultKind.OTHER_HOST]
    unchecked = TlsContexts(replace(settings(GOOD), checks_host=False), "listener X", CLIENTS)
    unchecked.host = "kafka1"
    assert kinds(unchecked) == []


@pytest.fixture
def renewed(tmp_path, monkeypatch):
    """Return contexts of a file, and a function that writes the file and has the contexts look at it."""
    monkeypatch.setattr(tls, "LOOKED_AT_SECONDS", 0.0)
    file = tmp_path / "key.pem"
    file.write_text(GOOD.pem())
    stores = replace(settings(GOOD), key_store=KeyStore("PEM", str(file)))
    contexts = TlsContexts(stores, "listener X", BROKERS)
    contexts.host = "127.0.0.1"
    written, last = 0, contexts.server

    def renew(text: str | None = None) -> bool:
        """Return whether the contexts changed."""
        nonlocal written, last
        before = last
        if text is not None:
            written += 1
            file.with_suffix(".new").write_text(text + "\n" * written)
            file.with_suffix(".new").replace(file)
        last = contexts.server
        return last is not before

    return contexts, renew


def test_a_renewed_certificate_that_peers_would_refuse_is_not_taken(renewed, caplog):
    contexts, renew = renewed
    bad = {**BAD, "for another host": issued("x", ROOT, names=["DNS:elsewhere"])}
    for name, made in bad.items():
        caplog.clear()
        assert not renew(made.pem()), name
        (record,) = caplog.records
        assert record.levelno == logging.ERROR
        assert (
            "listener X goes on with its old certificates: with the renewed stores peers would refuse us: its"
            in record.msg % record.args
        )
    assert not contexts.faults()
    assert renew(issued("next", ROOT).pem())


def test_a_refused_store_is_tried_again_and_told_once(renewed, caplog, monkeypatch):
    """A certificate may be put in place before its time begins, and two files are not written at one moment."""
    _, renew = renewed
    assert not renew(BAD["not yet valid"].pem())
    monkeypatch.setattr(tls, "TRIED_AGAIN_SECONDS", 0.0)
    assert not renew()
    assert len(caplog.records) == 1
    monkeypatch.setattr(TlsContexts, "_faults", lambda *_: ())
    assert renew()


def test_where_the_host_was_never_right_a_renewed_certificate_is_taken(renewed):
    contexts, renew = renewed
    contexts.host = "kafka1"
    assert renew(issued("next", ROOT).pem())
    assert kinds(contexts) == [FaultKind.OTHER_HOST]


def connect(port: int) -> None:
    """Connect by a blocking socket: asyncio's would close the connection without the alert."""
    trusting = ssl.create_default_context(cadata=ROOT.public)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plaintext:
        trusting.wrap_socket(plaintext, server_hostname="127.0.0.1")


async def test_a_peers_alert_is_told_with_what_is_wrong_with_our_certificate(caplog):
    chosen = settings(BAD["expired"])
    gate = ListenerGate(
        "INTERNAL", ListenerSecurity(SecurityProtocol.SSL, chosen), TlsContexts(chosen, "listener INTERNAL", BROKERS)
    )
    world = RpcWorld()
    server = RpcServer(world.node, None, gate_of=lambda _: gate)
    (listener,) = await server.listen([parse_listener("INTERNAL://127.0.0.1:0")])
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.to_thread(connect, listener.port)
    await asyncio.to_thread(
        wait_until, lambda: "no TLS came about" in caplog.text, what="the log tells it", timeout_s=10
    )
    assert "ALERT_CERTIFICATE_EXPIRED: its certificate (CN=x) expired at" in caplog.text
    await server.close()
    await world.close()
