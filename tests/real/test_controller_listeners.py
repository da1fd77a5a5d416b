"""Shunter's listeners on a secured cluster: which clients each accepts and refuses, and the words of a refusal."""

import socket
import ssl
import struct
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import jwt
import pytest
from certificates import Certificates
from confluent_kafka.admin import AdminClient
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from kafka import KafkaAdminClient
from kazoo.client import KazooClient
from raw_connection import RawConnection
from secured_login import LoggedIn
from secured_yard import BEARER, PASSWORDS, PLANTED, SCRAM, SecuredYard, scram_config, secured_yard
from yard import cli

from lab.testbed.ports import LOOPBACK, free_ports
from lab.testbed.process import run_bounded
from lab.testbed.server import properties_text
from lab.testbed.waiting import wait_until
from made_certificates import CLIENT, Made, authority, issued
from shunter.drivers.listener.server_stats import LINES_AT_ONCE, QUIET_SECONDS
from shunter.formats.client_properties import parse_properties

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

WRONG = "Authentication failed during authentication due to invalid credentials with SASL mechanism"


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredYard]:
    with secured_yard(tmp_path_factory.mktemp("secured")) as made:
        yield made


def brokers_seen(yard: SecuredYard, listener: str, **settings: object) -> set[int]:
    """Log in by kafka-python, and list the brokers."""
    admin = KafkaAdminClient(bootstrap_servers=yard.at(listener), bootstrap_timeout_ms=8_000, **settings)
    try:
        return {broker["broker_id"] for broker in admin.describe_cluster()["brokers"]}
    finally:
        admin.close()


def with_password(user: str, password: str | None = None, mechanism: str = "SCRAM-SHA-512") -> dict[str, object]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": PASSWORDS[user] if password is None else password,
    }


def with_certificate(certificates: Certificates, name: str | None) -> dict[str, object]:
    mine = (
        {} if name is None else dict.fromkeys(("ssl_certfile", "ssl_keyfile"), str(certificates.folder / f"{name}.pem"))
    )
    return {"security_protocol": "SSL", "ssl_cafile": str(certificates.authority), **mine}


def log_of(yard: SecuredYard) -> str:
    return (yard.shunter.folder / "shunter-1000.log").read_text()


@pytest.fixture(autouse=True)
def _room_in_the_log(yard: SecuredYard) -> None:
    """Begin once the log takes lines again: of one reason it takes a bounded number in some seconds."""

    def has_room() -> bool:
        closed = [line for line in log_of(yard).splitlines() if "connection closed" in line]
        since = datetime.now() - timedelta(seconds=QUIET_SECONDS)  # noqa: DTZ005 (the log has local time)
        return sum(datetime.strptime(line[:19], "%Y-%m-%d %H:%M:%S") >= since for line in closed) < LINES_AT_ONCE // 4  # noqa: DTZ007

    wait_until(has_room, what="the log takes lines again", timeout_s=3 * QUIET_SECONDS)


def told(yard: SecuredYard, words: str) -> None:
    wait_until(lambda: words in log_of(yard), what=f"the log says {words!r}", timeout_s=60)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_by_kafka_python_and_librdkafka(yard: SecuredYard, mechanism: str) -> None:
    assert 1000 in brokers_seen(yard, "PEOPLE", **with_password("root", mechanism=mechanism))
    settings = {
        "bootstrap.servers": yard.at("PEOPLE"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "root",
        "sasl.password": PASSWORDS["root"],
    }
    assert 1000 in AdminClient(settings).list_topics(timeout=20).brokers


def test_javas_tools_say_what_is_wrong_with_a_password(yard: SecuredYard) -> None:
    refused = yard.tool("org.apache.kafka.tools.TopicCommand", yard.login("ann", "wrong"), "--list")
    assert WRONG in refused.stdout + refused.stderr


def test_plain_and_a_certificate(yard: SecuredYard) -> None:
    assert 1000 in brokers_seen(yard, "PEOPLE", **with_password("plain", mechanism="PLAIN"))
    assert 1000 in brokers_seen(yard, "CERTIFIED", **with_certificate(yard.certificates, "root"))


def test_javas_tools_make_a_topic_and_brokers_hear_of_it(yard: SecuredYard) -> None:
    for config, listener in ((yard.login("root"), "PEOPLE"), (yard.certified("root"), "CERTIFIED")):
        name = f"by-{listener.lower()}"
        made = yard.tool(
            "org.apache.kafka.tools.TopicCommand",
            *(config, "--create", "--topic", name, "--partitions", "3", "--replication-factor", "2"),
            listener=listener,
        )
        assert made.returncode == 0, made.stdout + made.stderr

        def in_sync(name: str = name) -> bool:
            states = [yard.zookeeper.get(f"/brokers/topics/{name}/partitions/{n}/state")[0] for n in range(3)]
            return all(b'"isr":[1,2]' in state or b'"isr":[2,1]' in state for state in states)

        wait_until(in_sync, what="both brokers replicate it", timeout_s=60)


@pytest.mark.parametrize("user", ["ann", "nobody"])
def test_a_wrong_password_and_an_unknown_user_are_refused_alike(yard: SecuredYard, user: str) -> None:
    with pytest.raises(AssertionError, match=f"sasl_authentication_failed.*{WRONG} SCRAM-SHA-512"):
        LoggedIn(yard.ports["PEOPLE"], user, "wrong")
    told(
        yard, "its login failed: invalid password of user 'ann'" if user == "ann" else "user 'nobody' has no credential"
    )


def test_a_password_counts_from_when_it_is_made_and_no_longer_than_it_is_there(yard: SecuredYard) -> None:
    zk: KazooClient = yard.zookeeper
    port = yard.ports["PEOPLE"]
    zk.create("/config/users/carl", scram_config("first"))
    LoggedIn(port, "carl", "first").socket.close()
    zk.set("/config/users/carl", scram_config("second"))
    LoggedIn(port, "carl", "second").socket.close()
    with pytest.raises(AssertionError, match=WRONG):
        LoggedIn(port, "carl", "first")
    zk.delete("/config/users/carl")
    with pytest.raises(AssertionError, match=WRONG):
        LoggedIn(port, "carl", "second")


def handshake(yard: SecuredYard, listener: str, context: ssl.SSLContext) -> str:
    """Speak TLS, then send a request: with TLS 1.3 the server refuses a certificate after the client has finished."""
    try:
        with (
            socket.create_connection((LOOPBACK, yard.ports[listener]), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname=LOOPBACK) as secured,
        ):
            secured.sendall(request(18, 0))
            return "answered" if secured.recv(4) else "closed"
    except OSError as refused:
        return f"{type(refused).__name__} {refused}"


def request(api_key: int, version: int, body: bytes = b"") -> bytes:
    head = struct.pack(">hhih", api_key, version, 7, -1)
    return struct.pack(">i", len(head) + len(body)) + head + body


def trusting(certificates: Certificates, name: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificates.authority))
    if name is not None:
        context.load_cert_chain(str(certificates.folder / f"{name}.pem"))
    return context


def test_who_shows_no_certificate_or_a_foreign_one_is_not_let_in(yard: SecuredYard, tmp_path: Path) -> None:
    assert handshake(yard, "CERTIFIED", trusting(yard.certificates, "stranger")) == "answered"
    assert handshake(yard, "CERTIFIED", trusting(yard.certificates)) != "answered"
    told(yard, "shows no certificate, and ssl.client.auth is required")
    foreign = Certificates(tmp_path)
    context = trusting(yard.certificates)
    context.load_cert_chain(foreign.issue("root"))
    assert handshake(yard, "CERTIFIED", context) != "answered"
    told(yard, "(CERTIFICATE_VERIFY_FAILED)")


def test_tls_below_1_2_is_refused(yard: SecuredYard) -> None:
    context = trusting(yard.certificates, "root")
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert handshake(yard, "CERTIFIED", context) == "answered"
    # A ClientHello of TLS 1.1, by hand: the tests' library has dropped that version.
    body = b"\x03\x02" + bytes(32) + b"\x00" + struct.pack(">H", 4) + b"\x00\x2f\x00\xff" + b"\x01\x00"
    hello = b"\x01" + len(body).to_bytes(3, "big") + body
    with socket.create_connection((LOOPBACK, yard.ports["CERTIFIED"]), timeout=10) as old:
        old.sendall(b"\x16\x03\x01" + struct.pack(">H", len(hello)) + hello)
        assert old.recv(7)[:1] in {b"\x15", b""}, "an alert, or nothing"
    told(yard, "speaks TLS below 1.2 only")


def said(yard: SecuredYard, listener: str, *frames: bytes) -> bytes:
    """Send frames in plaintext; give all that is answered before the server closes the connection."""
    with socket.create_connection((LOOPBACK, yard.ports[listener]), timeout=20) as plain:
        heard = b""
        try:
            for frame in frames:
                plain.sendall(frame)
            while more := plain.recv(65_536):
                heard += more
        except ConnectionError:
            pass
        return heard


def test_plaintext_to_a_tls_port_and_the_reverse(yard: SecuredYard) -> None:
    heard = said(yard, "CERTIFIED", request(18, 0))
    assert heard[:1] in {b"\x15", b""}
    told(yard, "it speaks plaintext (WRONG_VERSION_NUMBER)")
    assert handshake(yard, "PEOPLE", trusting(yard.certificates)) != "answered"
    told(yard, "it speaks TLS, and listener PEOPLE does not")


def test_before_its_login_nobody_is_answered_anything_else(yard: SecuredYard) -> None:
    metadata = request(3, 0, struct.pack(">i", 0))
    assert said(yard, "PEOPLE", metadata) == b""
    told(yard, "API 3 came where its login was expected")
    for mechanism in (b"GSSAPI", b"OAUTHBEARER"):  # OAUTHBEARER is served on another listener.
        heard = said(yard, "PEOPLE", request(17, 1, struct.pack(">h", len(mechanism)) + mechanism))
        assert struct.unpack_from(">h", heard, 8)[0] == 33, "UNSUPPORTED_SASL_MECHANISM"
        assert b"SCRAM-SHA-512" in heard
    too_long = struct.pack(">i", 600_000) + bytes(10)
    assert said(yard, "PEOPLE", too_long) == b""


def bearer_answers(port: int, token: str) -> list[tuple[int, str | None, bytes]]:
    """A listener's answers to a token, and to the byte after a refusal."""
    with RawConnection(port) as connection:
        assert connection.ask(17, 1, {"mechanism": "OAUTHBEARER"}).error_code.name == "none"
        answers = []
        for said in (b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01", b"\x01"):
            told = connection.ask(36, 2, {"auth_bytes": said})
            answers.append((told.error_code.value, told.error_message, bytes(told.auth_bytes)))
            if told.error_code or not told.auth_bytes:
                break
        return answers


def test_a_broker_and_shunter_judge_tokens_alike(yard: SecuredYard) -> None:
    give, now = yard.tokens.token, int(time.time())
    stranger = ec.generate_private_key(ec.SECP256R1())
    asked = {
        "good": give(),
        "by a curve": give(name="curve", algorithm="ES256"),
        "for several": give(aud=["x", "kafka"]),
        "ended within the skew": give(iat=now - 600, exp=now - 300),
        "ended before it began": give(iat=now, exp=now - 5),
        "expired": give(iat=now - 9_000, exp=now - 7_200),
        "for others": give(aud="x"),
        "for nobody": give(aud=None),
        "by others": give(iss="x"),
        "without an end": give(exp=None),
        "without a beginning": give(iat=None),
        "of nobody": give(sub=None),
        "of a blank": give(sub=" "),
        "not yet": give(nbf=now + 7_200, exp=now + 9_000),
        "by a stranger's key": give(key=stranger, name="curve", algorithm="ES256"),
        "by an unknown key": give(key=stranger, name="x", algorithm="ES256"),
        "unsigned": jwt.encode(
            {"sub": "root", "iat": now, "exp": now + 600, "aud": "kafka", "iss": "yard"}, None, "none"
        ),
        "cut": give()[:-20],
    }
    broker, port = yard.token_ports[1], yard.ports["TOKENS"]
    theirs = {kind: bearer_answers(broker, token) for kind, token in asked.items()}
    assert {kind: bearer_answers(port, token) for kind, token in asked.items()} == theirs
    good = [kind for kind, answers in theirs.items() if answers == [(0, "", b"")]]
    assert good == ["good", "by a curve", "for several", "ended within the skew"]
    assert asked["expired"] not in log_of(yard)
    told(yard, "its token is not good: Signature has expired")


def test_javas_tools_come_in_by_a_token(yard: SecuredYard) -> None:
    token = yard.folder / "token"
    token.write_text(yard.tokens.token())
    config = yard.properties(
        "token",
        **{
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{BEARER};",
            "sasl.login.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
            "sasl.oauthbearer.token.endpoint.url": f"file:{token}",
        },
    )
    listed = yard.tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", config, "--list", listener="TOKENS")
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert "No partition reassignments found." in listed.stdout


def test_a_client_of_long_ago_logs_in_with_bare_tokens(yard: SecuredYard) -> None:
    token = f"\0plain\0{PASSWORDS['plain']}".encode()
    wrong = b"\0plain\0wrong"
    shake = request(17, 0, struct.pack(">h", 5) + b"PLAIN")
    with socket.create_connection((LOOPBACK, yard.ports["PEOPLE"]), timeout=10) as old:
        old.sendall(shake)
        old.recv(1_000)
        old.sendall(struct.pack(">i", len(token)) + token)
        assert old.recv(100) == bytes(4)
        old.sendall(request(18, 0))
        assert len(old.recv(100)) > 10
    heard = said(yard, "PEOPLE", shake, struct.pack(">i", len(wrong)) + wrong)
    assert not heard.endswith(bytes(4))


def with_changes(yard: SecuredYard, **changes: object) -> list[str]:
    """Arguments of a second controller, by the yard's properties with changes."""
    said = parse_properties((yard.folder / "server.properties").read_text()) | changes
    file = yard.folder / "changed.properties"
    file.write_text(properties_text({name: value for name, value in said.items() if value is not None}))
    file.chmod(0o600)
    at = ("--zookeeper", yard.cluster.zookeeper_connect, "--broker-id", "1001", "--server-properties", str(file))
    return [
        *at,
        *(f"--listener={name}://{LOOPBACK}:{port}" for name, port in zip(yard.ports, free_ports(4), strict=True)),
    ]


def shown(yard: SecuredYard, made: Made) -> dict[str, object]:
    file = yard.folder / "shown.pem"
    file.write_text(made.pem())
    file.chmod(0o600)
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": file, "ssl.keystore.password": None}


def test_a_check_says_what_is_wrong_with_a_certificate_or_a_login(yard: SecuredYard) -> None:
    folder = yard.certificates.folder
    root = Made(
        x509.load_pem_x509_certificate((folder / "authority.pem").read_bytes()),
        load_pem_private_key((folder / "authority.key").read_bytes(), None),  # type: ignore[arg-type]  # RSA
    )
    status, good = cli("controller", "--check", *with_changes(yard, **shown(yard, issued("broker", root))))
    assert status == 0, good
    assert "certificate" not in good
    assert "authorizer" not in good
    for made, told in (
        (issued("broker", root, days=(-9, -1)), "(CN=broker) expired at"),
        (issued("broker", root, usage=CLIENT), "extended key usage is clientAuth alone"),
        (issued("broker", authority("other")), "(CN=broker) leads to CN=other"),
    ):
        changed = with_changes(yard, **shown(yard, made))
        status, output = cli("controller", "--check", *changed)
        assert (status, told in output) == (1, True), output
        assert "PROBLEM  certificate: listener INTERNAL: its certificate" in output
        command = [sys.executable, "-m", "shunter", "controller", "--takeover", "preempt", *changed]
        ended = run_bounded(command, timeout_s=60)
        assert ended.returncode == 2, "it does not even stand for election"
        assert told in ended.stderr
    elsewhere = issued("broker", root, names=["DNS:elsewhere.example"])
    status, output = cli("controller", "--check", *with_changes(yard, **shown(yard, elsewhere)))
    assert (status, "is for elsewhere.example, and not for 127.0.0.1" in output) == (1, True), output
    login = "listener.name.internal.scram-sha-512.sasl.jaas.config"
    wrong = {login: f'{SCRAM} username="broker" password="wrong";'}
    status, output = cli("controller", "--check", *with_changes(yard, **wrong))
    assert (status, "check user and password in the sasl.jaas.config" in output) == (1, True), output
    foreign = yard.folder / "foreign.pem"
    foreign.write_text(authority("other").public)
    status, output = cli("controller", "--check", *with_changes(yard, **{"ssl.truststore.location": foreign}))
    assert (status, "into the ssl.truststore of --server-properties" in output) == (1, True), output


def test_no_password_is_in_the_log(yard: SecuredYard) -> None:
    assert PLANTED not in log_of(yard)
    assert PASSWORDS["root"].startswith(PLANTED)
