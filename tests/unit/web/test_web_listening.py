"""Each thing that prevents the HTTP server's start has a sentence of its own: the value, the rule and the way out."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
import re
import socket
import ssl
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from web_yard import Yard

from shunter.errors import DriverError, SettingsError
from shunter.web.guards import HSTS
from shunter.web.port import accepting, connection_limits
from shunter.web.port.listening import listen_at
from shunter.web.server import WebOptions, serving


async def refusal(options: WebOptions, kind: type[Exception]) -> str:
    with pytest.raises(kind) as refused:
        async with serving(Yard().front, options):
            pass
    return str(refused.value)


class TestAddresses:
    def test_answers_do_not_wait_for_acknowledgements(self) -> None:
        # asyncio sets TCP_NODELAY on what it accepts only if the listener says that it speaks TCP.
        with listen_at("127.0.0.1", 0) as listener:
            assert listener.proto == socket.IPPROTO_TCP

    def test_a_port_is_taken_at_once(self) -> None:
        """A socket that is bound and does not listen yet leaves the port to another process."""
        with listen_at("127.0.0.1", 0) as listener:
            assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1

    async def test_a_port_that_is_taken_is_told(self) -> None:
        with listen_at("127.0.0.1", 0) as listener:
            port = listener.getsockname()[1]
            told = await refusal(WebOptions(port=port), DriverError)
        rule = f"port {port} is taken; end the process that listens there, or choose another port"
        assert told == f"--listen 127.0.0.1:{port}: can't listen: {rule}"

    @pytest.mark.parametrize("host", ["a..b", "ü" * 80, "::zz"])
    def test_a_host_without_an_address_is_told(self, host: str) -> None:
        with pytest.raises(DriverError, match=f"no address of {host} was found; write an address of this machine"):
            listen_at(host, 0)

    def test_an_address_of_another_machine_is_told(self) -> None:
        # 192.0.2.0/24 is for documentation: no machine has an address in it.
        with pytest.raises(DriverError, match=r"192\.0\.2\.1 is no address of this machine; write one of its"):
            listen_at("192.0.2.1", 0)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a certificate, its key, another key, and a file without any of them."""
    key, other = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    contents = {
        "certificate": certificate(key),
        "key": private(key),
        "other-key": private(other),
        "nothing": b"nothing",
    }
    for name, content in contents.items():
        (tmp_path / f"{name}.pem").write_bytes(content)
    return tmp_path


def certificate(key: ec.EllipticCurvePrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shunter")])
    begin = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    built = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, begin + dt.timedelta(days=1))
    return built.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


class TestTlsFiles:
    @pytest.mark.parametrize(
        ("certificate_name", "key_name", "told"),
        [
            ("none", "key", "--certificate {none}: can't be read: No such file or directory; name a PEM file that"),
            ("certificate", "none", "--key {none}: can't be read: No such file or directory; name a PEM file that"),
            ("nothing", "nothing", "--certificate {nothing}: has no certificate that can be read; give a PEM file"),
            ("key", "certificate", "--certificate {key}: has no certificate that can be read; give a PEM file"),
            ("certificate", "nothing", "--key {nothing}: has no key that can be read; give a PEM file"),
            ("certificate", "other-key", "--key {other-key}: is not the key of --certificate {certificate}; give"),
        ],
    )
    async def test_the_file_that_can_t_be_used_is_told(
        self, files: Path, certificate_name: str, key_name: str, told: str
    ) -> None:
        options = WebOptions(port=0, certificate=files / f"{certificate_name}.pem", key=files / f"{key_name}.pem")
        expected = re.sub(r"\{(.+?)\}", lambda found: str(files / f"{found[1]}.pem"), told)
        assert (await refusal(options, SettingsError)).startswith(expected)

    async def test_a_certificate_and_its_key_serve(self, files: Path) -> None:
        options = WebOptions(port=0, certificate=files / "certificate.pem", key=files / "key.pem")
        async with serving(Yard().front, options) as address:
            assert address.startswith("https://127.0.0.1:")
            async with httpx.AsyncClient(verify=trusting(files / "certificate.pem")) as client:
                answer = await client.get(f"{address}health")
        assert answer.status_code == 200
        assert answer.headers["strict-transport-security"] == HSTS

    async def test_a_handshake_that_fails_or_does_not_come_takes_no_place(
        self, files: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(accepting, "HANDSHAKE_SECONDS", 0.1)
        monkeypatch.setattr(connection_limits, "MOST_CONNECTIONS", 1)
        options = WebOptions(port=0, certificate=files / "certificate.pem", key=files / "key.pem")
        async with serving(Yard().front, options) as address:
            port = int(address.rstrip("/").rpartition(":")[2])
            for raw in (b"GET / HTTP/1.1\r\n\r\n", b""):
                async with asyncio.timeout(20):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.write(raw)
                    with contextlib.suppress(ConnectionResetError):
                        await reader.read()
                    writer.close()
            async with httpx.AsyncClient(verify=trusting(files / "certificate.pem")) as client:
                assert (await client.get(f"{address}health")).status_code == 200
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []

    async def test_an_idle_handshake_gives_its_place_to_a_newcomer(
        self, files: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection_limits, "IDLE_S", 0.2)
        monkeypatch.setattr(connection_limits, "MOST_CONNECTIONS", 1)
        options = WebOptions(port=0, certificate=files / "certificate.pem", key=files / "key.pem")
        async with serving(Yard().front, options) as address, asyncio.timeout(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rstrip("/").rpartition(":")[2]))
            status = 0
            while status != 200:
                async with httpx.AsyncClient(verify=trusting(files / "certificate.pem")) as client:
                    with contextlib.suppress(httpx.TransportError):
                        status = (await client.get(f"{address}health")).status_code
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()


def trusting(path: Path) -> ssl.SSLContext:
    """A context that trusts this certificate, whatever its host and time are."""
    context = ssl.create_default_context(cafile=path)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
