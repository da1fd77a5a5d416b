"""What secures a controller, joined: who may read its metrics, and which files are told to be too open."""

import asyncio
import datetime as dt
import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from made_certificates import SERVER, Made, authority, issued
from shunter.app.access.access_tokens import add_token, remove_token
from shunter.app.client_configuration import configuration_of, stream_options
from shunter.app.controller.broker_file import BrokerFile
from shunter.app.controller.security import MetricsReaders, Security
from shunter.core.authorizer import NetworkAuthorizer
from shunter.drivers.host.metrics_endpoint import MetricsEndpoint
from shunter.drivers.listener.server import parse_listener
from shunter.errors import SettingsError
from shunter.model.broker import Endpoint
from shunter.model.security.access import AccessRole


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    """Two listeners with TLS: one that wants certificates, and one that does not."""
    key, store = tmp_path / "key.pem", tmp_path / "store.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=x",
        "-keyout",
        key,
        "-out",
        store,
    ]
    subprocess.run(command, check=True, capture_output=True)
    store.write_text(key.read_text() + store.read_text())
    file = tmp_path / "server.properties"
    file.write_text(
        "listener.security.protocol.map=OPEN:SSL,CERTIFIED:SSL,PLAINTEXT:PLAINTEXT\n"
        "listener.name.certified.ssl.client.auth=required\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={store}\n"
    )
    for readable in (store, file):
        readable.chmod(0o644)
    return file


def test_metrics_are_local_or_for_whoever_shows_a_certificate(
    properties: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listeners = [parse_listener(f"{name}://127.0.0.1:1") for name in ("OPEN", "CERTIFIED", "PLAINTEXT")]
    with caplog.at_level(logging.WARNING):
        security = Security(BrokerFile.read(properties), listeners, NetworkAuthorizer())
    assert security.metrics_tls("127.0.0.1", None) is None
    assert security.metrics_tls("::1", None) is None
    assert security.metrics_tls("10.0.0.5", "certified") is not None
    assert security.metrics_tls("localhost", "OPEN") is not None
    assert security.metrics_tls("10.0.0.5", "OPEN", tokens=True) is not None
    with pytest.raises(SettingsError, match="and their readers' tokens, unencrypted"):
        security.metrics_tls("10.0.0.5", None, tokens=True)
    for host, listener, told in (
        ("10.0.0.5", None, "metrics_address=10.0.0.5 would send metrics, and their readers' tokens"),
        ("10.0.0.5", "OPEN", "everybody could read the metrics: set metrics_tokens or ssl.client.auth=required"),
        ("127.0.0.1", "PLAINTEXT", "no listener of that name speaks TLS"),
    ):
        with pytest.raises(SettingsError, match=told):
            security.metrics_tls(host, listener)
    for name in ("server.properties", "store.pem"):
        assert f"{name} may be read by others on this machine" in caplog.text


async def test_a_token_of_any_role_reads_metrics_until_it_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    with pytest.raises(SettingsError, match=r"metrics_tokens: .*can't be read"):
        MetricsReaders(file)
    secret = add_token(file, "prometheus", AccessRole.READ, 1)
    endpoint = MetricsEndpoint(lambda: ("text/plain", b"shunter_active 1\n"), may_read=MetricsReaders(file))
    port = await endpoint.start(0)

    async def status(path: str, header: str = "") -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n{header}\r\n".encode())
        answer = await reader.read()
        writer.close()
        return int(answer.split()[1])

    try:
        good = f"authorization: Bearer {secret}\r\n"
        assert [await status(path, good) for path in ("/metrics", "/ready", "/nowhere")] == [200, 200, 404]
        wrong = ("", f"Authorization: Basic {secret}\r\n", "Authorization: Bearer \r\n", "Authorization: Bearer x\r\n")
        assert [await status("/metrics", each) for each in wrong] == [401] * 4
        assert [await status("/ready"), await status("/health")] == [401, 200]
        remove_token(file, "prometheus")
        assert await status("/metrics", good) == 401
        file.write_text("broken")
        assert await status("/metrics", good) == 401
    finally:
        await endpoint.close()


def test_a_clients_file_is_told_where_others_can_read_a_password_in_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";'
    text = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n"
    for name, mode, content, told in (
        ("open", 0o640, text, True),
        ("closed", 0o600, text, False),
        ("harmless", 0o644, "client.id=x\n", False),
    ):
        path = tmp_path / name
        path.write_text(content)
        path.chmod(mode)
        caplog.clear()
        configuration_of("127.0.0.1:1", path)
        assert (f"chmod 600 {path}" in caplog.text) is told, name


def test_a_mark_at_the_start_of_a_clients_file_hides_no_setting(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("\ufeffsecurity.protocol=SSL\n")
    assert configuration_of("127.0.0.1:1", path)["security_protocol"] == "SSL", "in plaintext anybody could listen"


@pytest.mark.parametrize("name", ["sasl.jaas.config", "ssl.key.password", "ssl.keystore.key"])
def test_no_secret_is_taken_as_an_argument(name: str) -> None:
    with pytest.raises(SettingsError, match=f"--kafka-option {name}: everybody .* give --command-config"):
        stream_options(None, {name: "planted"})


def test_a_stream_gets_the_logins_of_a_file_and_what_the_command_line_says(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SSL\nssl.key.password=x\nbatch.size=3\n")
    told = stream_options(path, {"fetch.max.bytes": "5"})
    assert told == {"security.protocol": "SSL", "ssl.key.password": "x", "fetch.max.bytes": "5"}


def test_what_we_make_is_for_us_alone(tmp_path: Path) -> None:
    code = "from shunter.cli import main; main(['steps', '--help'], standalone_mode=False); open('made', 'w'); import os; os.mkdir('dir')"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
    assert oct((tmp_path / "made").stat().st_mode & 0o777) == "0o600"
    assert oct((tmp_path / "dir").stat().st_mode & 0o777) == "0o700"


def judged(folder: Path, made: Made, **said: str) -> Security:
    """The security of a controller with this certificate, and with a trust store that has the root alone."""
    (folder / "key.pem").write_text(made.pem())
    (folder / "trust.pem").write_text(ROOT.public)
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.location": folder / "key.pem",
        "ssl.truststore.location": folder / "trust.pem",
        "listener.security.protocol.map": "INTERNAL:SSL,CLIENTS:SSL,CONTROL:SSL",
        "inter.broker.listener.name": "INTERNAL",
        **said,
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{name.replace('__', '.')}={value}\n" for name, value in settings.items()))
    for each in (file, folder / "key.pem"):
        each.chmod(0o600)
    names = ("INTERNAL", "CLIENTS", "CONTROL")
    listeners = [parse_listener(f"{name}://127.0.0.1:{port}") for port, name in enumerate(names, 9091)]
    return Security(BrokerFile.read(file), listeners, NetworkAuthorizer())


ROOT = authority("root")
EXPIRED = issued("x", ROOT, days=(-9, -1))
FOREIGN = issued("x", authority("other"))


def places(*listeners: str, host: str = "127.0.0.1") -> list[Endpoint]:
    return [Endpoint(name, "SSL", host, 9091) for name in listeners]


@pytest.mark.parametrize(("made", "told"), [(EXPIRED, "expired at"), (FOREIGN, "leads to CN=other")])
def test_a_certificate_that_no_broker_accepts_is_refused_at_the_start(tmp_path: Path, made: Made, told: str) -> None:
    with pytest.raises(SettingsError, match=f"listener INTERNAL: its certificate .*{told}.*no broker would connect"):
        judged(tmp_path, made).refuse_bad_certificates(places("INTERNAL"))
    control = judged(tmp_path, made, control__plane__listener__name="CONTROL")
    for name in ("INTERNAL", "CONTROL"):
        with pytest.raises(SettingsError, match=f"listener {name}: its certificate"):
            control.refuse_bad_certificates(places(name))


def test_faults_that_not_all_peers_mind_are_warnings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    judged(tmp_path, EXPIRED).refuse_bad_certificates(places("CLIENTS"))
    judged(tmp_path, FOREIGN).refuse_bad_certificates(places("CLIENTS"))
    judged(tmp_path, issued("x", ROOT)).refuse_bad_certificates(places("INTERNAL", host="kafka1"))
    expired, host = caplog.messages
    assert expired.startswith("listener CLIENTS: its certificate (CN=x) expired at")
    assert host.startswith("listener INTERNAL: its certificate (CN=x) is for 127.0.0.1, and not for kafka1: issue one")


def test_brokers_that_show_certificates_want_ours_to_be_for_clients(tmp_path: Path) -> None:
    """Where there is a login too, Apache's brokers ask for no certificate by the setting of all listeners."""
    made = issued("x", ROOT, usage=SERVER)
    judged(tmp_path, made).refuse_bad_certificates(places("INTERNAL"))
    mutual = judged(tmp_path, made, ssl__client__auth="required")
    with pytest.raises(SettingsError, match="is not for a client, which ssl"):
        mutual.refuse_bad_certificates(places("INTERNAL"))
    mutual.refuse_bad_certificates(places("CLIENTS"))


def test_a_good_certificate_is_silent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for auth in ("none", "requested", "required"):
        security = judged(tmp_path, issued("x", ROOT), ssl__client__auth=auth)
        assert security.certificates(places("INTERNAL", "CLIENTS", "CONTROL")) == ()
    unchecked = judged(tmp_path, issued("x", ROOT), ssl__endpoint__identification__algorithm="")
    unchecked.refuse_bad_certificates(places("INTERNAL", host="kafka1"))
    assert not caplog.messages


def test_a_certificate_that_expires_while_we_run_is_told_ahead_and_then_in_the_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = issued("x", ROOT, days=(-99, 20))
    security = judged(tmp_path, made)
    last = made.certificate.not_valid_after_utc
    now = [last - dt.timedelta(days=20)]
    fake = SimpleNamespace(datetime=SimpleNamespace(now=lambda _: now[0]), UTC=dt.UTC)
    monkeypatch.setattr("shunter.drivers.security.tls.dt", fake)
    security.refuse_bad_certificates(places("INTERNAL"))
    assert not caplog.messages
    assert security.valid_until_s()["listener INTERNAL"] == last.timestamp()
    for hours_left in (49, 48.5, 47):
        now[0] = last - dt.timedelta(hours=hours_left)
        security.look_at_certificates()
        assert security.trouble is None
    two_days, hours = caplog.messages
    assert two_days.startswith("listener INTERNAL: its certificate (CN=x) expires in 2 days, at ")
    assert hours.startswith("listener INTERNAL: its certificate (CN=x) expires in 47 hours, at ")
    now[0] = last + dt.timedelta(seconds=1)
    security.look_at_certificates()
    assert security.trouble is not None
    assert "expired at" in security.trouble
    assert "no broker would connect to this controller" in security.trouble
    monkeypatch.setattr("shunter.drivers.security.tls.LOOKED_AT_SECONDS", -1.0)
    (tmp_path / "key.pem").write_text(issued("x", ROOT, days=(-99, 99)).pem())
    now[0] = dt.datetime.now(dt.UTC)
    security.look_at_certificates()
    assert security.trouble is None, "a renewed certificate counts without a restart"
