"""TLS and logins on a real listener, without a cluster: cases that need time or foreign certificates."""

import asyncio
import contextlib
import datetime as dt
import gc
import ipaddress
import socket
import ssl
import struct
import weakref
from asyncio.sslproto import SSLProtocol

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from kio.index import load_request_schema
from rpc_world import RawClient, RpcWorld

from made_certificates import key_usage
from shunter.drivers.host.metrics_endpoint import MetricsEndpoint
from shunter.drivers.listener.gate import ListenerGate
from shunter.drivers.listener.handlers.messages import filled
from shunter.drivers.listener.server import RpcServer, parse_listener
from shunter.drivers.security import tls
from shunter.drivers.security.tls import TlsContexts
from shunter.model.security.listeners import (
    ClientAuth,
    KeyStore,
    ListenerSecurity,
    SaslSettings,
    Secret,
    SecurityProtocol,
    TlsSettings,
)
from shunter.model.settings import WireLimits
from shunter.wire.framing import request_frame_head
from shunter.wire.requests import encode_message

USERS = {"ann": Secret("a"), "bob": Secret("b")}
NOW = dt.datetime.now(dt.UTC)


def certificate(name, issuer=None, *, days=2):
    """Make a key and a certificate in PEM, signed by itself or by an issuer (certificate, key)."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = key if issuer is None else issuer[1]
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - dt.timedelta(days=10))
        .not_valid_after(NOW + dt.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(key_usage(signs=issuer is None), critical=True)
        .sign(signer, hashes.SHA256())
    )
    return built, key


def pem(made):
    key = made[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return key + made[0].public_bytes(Encoding.PEM)


@pytest.fixture
async def served():
    """Return a function that starts a server with a listener of this security, and returns its port."""
    started = []

    async def start(security, contexts=None, limits=None):
        world = RpcWorld()
        server = RpcServer(world.node, limits, gate_of=lambda name: ListenerGate(name, security, contexts))
        started.append((server, world))
        (listener,) = await server.listen([parse_listener("SECURED://127.0.0.1:0")])
        return listener.port

    yield start
    for server, world in started:
        await server.close()
        await world.close()


async def client(port, context=None):
    return RawClient(*await asyncio.open_connection("127.0.0.1", port, ssl=context))


async def logged_in(raw, user, password):
    shaken = await raw.ask(17, 1, mechanism="PLAIN")
    if shaken.error_code:
        return shaken
    return await raw.ask(36, 2, auth_bytes=f"\0{user}\0{password}".encode())


def plain(**more):
    return ListenerSecurity(SecurityProtocol.SASL_PLAINTEXT, sasl=SaslSettings(("PLAIN",), USERS, **more))


async def test_a_long_user_name_is_cut_in_the_log(served, caplog):
    one = await client(await served(plain()))
    assert (await logged_in(one, "A" * 100_000, "x")).error_code == 58
    assert await one.closed()
    one.writer.close()
    (line,) = [record.message for record in caplog.records if "login failed" in record.message]
    assert "invalid password or unknown user 'AAA" in line
    assert len(line) < 400


async def test_a_session_goes_on_by_another_login_of_the_same_user(served):
    port = await served(plain(max_reauth_ms=60_000))
    one = await client(port)
    assert (await logged_in(one, "ann", "a")).session_lifetime == dt.timedelta(minutes=1)
    assert (await one.ask(60, 0, include_cluster_authorized_operations=False)).error_code == 0
    assert (await logged_in(one, "ann", "a")).error_code == 0
    assert (await one.ask(60, 0, include_cluster_authorized_operations=False)).error_code == 0
    refused = await logged_in(one, "bob", "b")
    assert refused.error_code == 58
    assert "Cannot change principals during re-authentication from User.ann: User.bob" in refused.error_message
    assert await one.closed()
    one.writer.close()


async def test_a_session_that_is_over_is_hung_up_on(served):
    one = await client(await served(plain(max_reauth_ms=1)))
    await logged_in(one, "ann", "a")

    async def ask_until_it_is_over():
        while True:  # `ask` has a time limit.
            await one.ask(60, 0, include_cluster_authorized_operations=False)

    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await ask_until_it_is_over()
    one.writer.close()


async def test_without_an_end_of_sessions_a_second_login_is_out_of_place(served):
    one = await client(await served(plain()))
    assert (await logged_in(one, "ann", "a")).session_lifetime == dt.timedelta()
    assert (await logged_in(one, "ann", "a")).error_code == 34, "ILLEGAL_SASL_STATE"
    one.writer.close()


async def test_whoever_does_not_log_in_in_time_is_hung_up_on(served):
    one = await client(await served(plain(), limits=WireLimits(peer_timeout_ms=100)))
    assert await one.closed()
    one.writer.close()


async def test_versions_are_told_once_and_tokens_need_a_handshake(served):
    port = await served(plain())
    one = await client(port)
    await one.ask(18, 0)
    one.send(18, 0)
    assert await one.closed()
    other = await client(port)
    other.send(36, 2, auth_bytes=b"\0ann\0a")
    assert await other.closed()
    for raw in (one, other):
        raw.writer.close()


async def test_renewed_certificates_count_without_a_restart_and_broken_ones_do_not(served, tmp_path, monkeypatch):
    monkeypatch.setattr(tls, "LOOKED_AT_SECONDS", 0.0)
    authority = certificate("authority")
    file = tmp_path / "key.pem"
    file.write_bytes(pem(certificate("first", authority)))
    settings = TlsSettings(KeyStore("PEM", str(file)))
    port = await served(ListenerSecurity(SecurityProtocol.SSL, settings), TlsContexts(settings, "SECURED"))
    trusting = ssl.create_default_context(cadata=authority[0].public_bytes(Encoding.PEM).decode())

    async def shown():
        one = await client(port, trusting)
        assert (await one.ask(18, 0)).api_keys
        subject = dict(part[0] for part in one.writer.get_extra_info("peercert")["subject"])
        one.writer.close()
        return subject["commonName"]

    assert await shown() == "first"
    file.write_bytes(pem(certificate("second", authority)) + b"\n")
    assert await shown() == "second"
    file.write_bytes(b"broken")
    assert await shown() == "second"


async def test_an_expired_certificate_of_a_client_is_refused_and_a_large_answer_gets_through(served, tmp_path):
    authority = certificate("authority")
    trust = Secret(authority[0].public_bytes(Encoding.PEM).decode())
    settings = TlsSettings(
        KeyStore("PEM", text=Secret(pem(certificate("server", authority)).decode())),
        KeyStore("PEM", text=trust),
        ClientAuth.REQUIRED,
    )
    port = await served(ListenerSecurity(SecurityProtocol.SSL, settings), TlsContexts(settings, "SECURED"))

    def showing(made):
        context = ssl.create_default_context(cadata=trust.reveal())
        file = tmp_path / "client.pem"
        file.write_bytes(pem(made))
        context.load_cert_chain(file)
        return context

    good = await client(port, showing(certificate("ann", authority)))
    for _ in range(200):
        good.writer.write(struct.pack(">ihhih", 10, 18, 0, 7, -1))
    async with asyncio.timeout(20):
        for _ in range(200):
            size = int.from_bytes(await good.reader.readexactly(4), "big")
            await good.reader.readexactly(size)
    good.writer.close()
    expired = await client(port, showing(certificate("ann", authority, days=-1)))
    expired.writer.write(struct.pack(">ihhih", 10, 18, 0, 7, -1))
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await asyncio.wait_for(expired.reader.readexactly(1), 10)
    expired.writer.close()


async def test_metrics_are_read_by_whoever_shows_a_certificate_and_by_nobody_else(tmp_path):
    authority = certificate("authority")
    trust = Secret(authority[0].public_bytes(Encoding.PEM).decode())
    server = KeyStore("PEM", text=Secret(pem(certificate("server", authority)).decode()))
    contexts = TlsContexts(TlsSettings(server, KeyStore("PEM", text=trust), ClientAuth.REQUIRED), "METRICS")
    endpoint = MetricsEndpoint(lambda: ("text/plain", b"shunter_active 1\n"))
    port = await endpoint.start(0, "127.0.0.1", contexts.server)

    async def read(context):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
            async with asyncio.timeout(20):
                answer = await reader.read()
            writer.close()
        except (ssl.SSLError, ConnectionError):
            return b""
        return answer

    try:
        nobody, known = (ssl.create_default_context(cadata=trust.reveal()) for _ in range(2))
        file = tmp_path / "client.pem"
        file.write_bytes(pem(certificate("prometheus", authority)))
        known.load_cert_chain(file)
        assert (await read(known)).endswith(b"shunter_active 1\n")
        assert await read(nobody) == b""
        assert await read(None) == b""
    finally:
        await endpoint.close()


async def test_a_refused_login_is_told_over_tls_too_before_the_connection_ends(served):
    authority = certificate("authority")
    settings = TlsSettings(KeyStore("PEM", text=Secret(pem(certificate("server", authority)).decode())))
    security = ListenerSecurity(SecurityProtocol.SASL_SSL, settings, SaslSettings(("PLAIN",), USERS))
    port = await served(security, TlsContexts(settings, "SECURED"))
    trusting = ssl.create_default_context(cadata=authority[0].public_bytes(Encoding.PEM).decode())
    for _ in range(5):
        one = await client(port, trusting)
        assert (await logged_in(one, "ann", "guessed")).error_code == 58
        one.writer.close()


@pytest.mark.parametrize("what", ["a handshake, then nothing", "a request, then nothing", "no TLS"])
async def test_a_closed_connection_leaves_no_cycle_that_keeps_its_memory(served, tmp_path, monkeypatch, what):
    """256 KiB per TLS connection: a hundred handshakes a second would fill the memory before the next collection."""
    file = tmp_path / "key.pem"
    file.write_bytes(pem(certificate("broker")))
    settings = TlsSettings(KeyStore("PEM", str(file)))
    port = await served(ListenerSecurity(SecurityProtocol.SSL, settings), TlsContexts(settings, "SECURED"))
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE

    body = encode_message(filled(load_request_schema(43, 0), {"topic_partitions": None, "timeout": 60_000}))
    asked = request_frame_head(43, 0, 1, "test", len(body)) + body

    def come_and_go():
        for _ in range(10):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as plaintext:
                if "then nothing" in what:
                    with anybody.wrap_socket(plaintext) as wrapped:
                        # It is not answered, and nothing is read from its connection meanwhile.
                        wrapped.sendall(asked if what.startswith("a request") else b"")
                elif what == "no TLS":
                    plaintext.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    with contextlib.suppress(OSError):
                        plaintext.recv(100)

    made = []
    begin = SSLProtocol.__init__

    def noted(self, *arguments, **options):
        made.append(weakref.ref(self))
        begin(self, *arguments, **options)

    monkeypatch.setattr(SSLProtocol, "__init__", noted)
    gc.disable()
    try:
        await asyncio.to_thread(come_and_go)
        async with asyncio.timeout(60):
            while len(made) < 10 or any(one() is not None for one in made):  # noqa: ASYNC110 - an object that is gone tells nobody
                await asyncio.sleep(0)
    finally:
        gc.enable()
