"""A real ZooKeeper server with TLS, client certificates and SASL: who gets in, who does not, and what is said then."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from certificates import PASSWORD, Certificates

from shunter.drivers.zookeeper import ZooKeeperClient
from shunter.drivers.zookeeper_access import ZooKeeperAccess
from shunter.drivers.zookeeper_requests import Create
from shunter.errors import DriverError
from shunter.model.security import KeyStore, Secret, TlsSettings, ZooKeeperLogin, ZooKeeperSecurity
from shunter.testbed.ports import LOOPBACK, free_ports
from shunter.testbed.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.real

LOGIN = ZooKeeperLogin("kafka", Secret("planted-Secret-1"))
DIGEST_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"


@dataclass
class Place:
    """A server with a plaintext port and one with TLS; both take SASL logins."""

    server: ZooKeeperServer
    secure: str
    certificates: Certificates
    foreign: Certificates

    @property
    def tls(self) -> TlsSettings:
        """Of somebody with a certificate."""
        mine = KeyStore("PEM", str(self.certificates.folder / "shunter.pem"))
        return TlsSettings(mine, KeyStore("PEM", str(self.certificates.authority)))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("secured")
    for name in ("own", "foreign"):
        (folder / name).mkdir()
    own, foreign = Certificates(folder / "own"), Certificates(folder / "foreign")
    own.issue("zookeeper", password=PASSWORD)
    own.java_store("zookeeper", key_password=PASSWORD)
    own.issue("shunter", password=PASSWORD)
    own.java_store("shunter", key_password=PASSWORD)
    own.issue("shunter")
    foreign.issue("shunter")
    (port,) = free_ports(1)
    jaas = folder / "jaas.conf"
    jaas.write_text(f'Server {{ {DIGEST_MODULE} user_{LOGIN.user}="{LOGIN.password.reveal()}"; }};\n')
    properties = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "secureClientPort": port,
        "secureClientPortAddress": LOOPBACK,
        "ssl.keyStore.location": own.folder / "zookeeper.jks",
        "ssl.keyStore.password": PASSWORD,
        "ssl.trustStore.location": own.authority,
        "ssl.trustStore.type": "PEM",
        "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }
    with ZooKeeperServer(
        folder / "zookeeper", properties=properties, java_options=(f"-Djava.security.auth.login.config={jaas}",)
    ) as server:
        yield Place(server, f"{LOOPBACK}:{port}", own, foreign)


async def opened(connect: str, security: ZooKeeperSecurity, seconds: float = 20.0) -> ZooKeeperClient:
    client = ZooKeeperClient(connect, access=ZooKeeperAccess(security), furnish=False)
    await client.start(seconds)
    return client


async def refused(connect: str, security: ZooKeeperSecurity, seconds: float = 20.0) -> str:
    """What is said of an attempt that has to fail."""
    with pytest.raises(DriverError) as told:
        await (await opened(connect, security, seconds)).close()
    assert LOGIN.password.reveal() not in str(told.value)
    return str(told.value)


@pytest.mark.parametrize("kind", ["PEM", "JKS", "PKCS12"])
async def test_stores_of_each_kind(place, kind):
    """The server asks for a certificate, and every kind of store that Kafka takes has one."""
    own = place.certificates.folder
    stores = {
        "PEM": KeyStore("PEM", str(own / "shunter.pem")),
        "JKS": KeyStore("JKS", str(own / "shunter.jks"), None, Secret(PASSWORD), Secret(PASSWORD)),
        "PKCS12": KeyStore("PKCS12", str(own / "shunter.first.p12"), None, Secret(PASSWORD), Secret(PASSWORD)),
    }
    client = await opened(place.secure, ZooKeeperSecurity(replace(place.tls, key_store=stores[kind])))
    assert await client.exists("/zookeeper") is not None
    await client.close()


async def test_many_answers_at_once_by_tls(place):
    """Answers that came in one piece of TLS are all read: `select` does not see what is decrypted already."""
    client = await opened(place.secure, ZooKeeperSecurity(place.tls, LOGIN))
    folder = f"/many-{id(client)}"
    await client.multi((Create(folder, b"x" * 40_000),))
    async with asyncio.timeout(60):
        for _ in range(3):
            found = await asyncio.gather(*(client.get(folder) for _ in range(20)))
            assert all(each is not None and len(each.data or b"") == 40_000 for each in found)
            await asyncio.gather(*(client.exists(folder) for _ in range(200)))
    await client.close()


async def test_a_login(place):
    client = await opened(place.server.connect_string, ZooKeeperSecurity(sasl=LOGIN))
    assert await client.exists("/zookeeper") is not None
    assert client.refusal is None
    await client.close()


async def test_a_wrong_password_is_final(place):
    wrong = ZooKeeperLogin("kafka", Secret("another"))
    told = await refused(place.server.connect_string, ZooKeeperSecurity(sasl=wrong))
    assert "wrong password, or no such user: 'kafka' (AUTH_FAILED" in told


async def test_a_foreign_authority(place):
    foreign = replace(place.tls, trust_store=KeyStore("PEM", str(place.foreign.authority)))
    assert "its certificate is refused: " in await refused(place.secure, ZooKeeperSecurity(foreign))


async def test_another_host_than_the_certificates(place):
    port = place.secure.rpartition(":")[2]
    told = await refused(f"localhost:{port}", ZooKeeperSecurity(place.tls))
    assert "certificate is not valid for 'localhost'" in told
    unchecked = ZooKeeperSecurity(replace(place.tls, checks_host=False))
    await (await opened(f"localhost:{port}", unchecked)).close()


async def test_a_certificate_that_the_server_does_not_trust(place):
    foreign = replace(place.tls, key_store=KeyStore("PEM", str(place.foreign.folder / "shunter.pem")))
    told = await refused(place.secure, ZooKeeperSecurity(foreign), 3)
    assert "it refuses our TLS" in told or "TLS fails" in told


async def test_plaintext_to_a_port_with_tls(place):
    assert "needs zookeeper.ssl.client.enable=true" in await refused(place.secure, ZooKeeperSecurity(), 3)


async def test_tls_to_a_plaintext_port(place):
    told = await refused(place.server.connect_string, ZooKeeperSecurity(place.tls), 3)
    assert "a plaintext port" in told
