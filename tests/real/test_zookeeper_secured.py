"""A real ZooKeeper server with TLS, client certificates and SASL: accepted and refused clients, and error messages."""

import asyncio
from dataclasses import replace

import pytest
from certificates import PASSWORD
from zookeeper_place import LOGIN, secured_zookeeper

from lab.testbed.waiting import PATIENCE, wait_until
from lab.testbed.zookeeper import ZooKeeperServer
from shunter.drivers.security import tls
from shunter.drivers.zookeeper.access import ZooKeeperAccess
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.drivers.zookeeper.requests import Create, SessionLost
from shunter.drivers.zookeeper.rights import CREATE, DELETE, READ, WRITE, lacking
from shunter.errors import DriverError
from shunter.model.security.listeners import KeyStore, Secret, ZooKeeperLogin, ZooKeeperSecurity


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with secured_zookeeper(tmp_path_factory.mktemp("secured")) as started:
        yield started


async def opened(connect: str, security: ZooKeeperSecurity, seconds: float = 20.0) -> ZooKeeperClient:
    client = ZooKeeperClient(connect, access=ZooKeeperAccess(security), furnish=False)
    await client.start(seconds)
    return client


async def refused(connect: str, security: ZooKeeperSecurity, seconds: float = 20.0) -> str:
    """The error message of an attempt that has to fail."""
    with pytest.raises(DriverError) as told:
        await (await opened(connect, security, seconds)).close()
    assert LOGIN.password.reveal() not in str(told.value)
    return str(told.value)


@pytest.mark.parametrize("kind", ["PEM", "JKS", "PKCS12"])
async def test_stores_of_each_kind(place, kind):
    """The server asks for a certificate, and the client has it in each kind of store that Kafka accepts."""
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
    """Answers that came in one TLS record are all read: `select` does not see data that is already decrypted."""
    client = await opened(place.secure, ZooKeeperSecurity(place.tls, LOGIN))
    folder = f"/many-{id(client)}"
    await client.multi((Create(folder, b"x" * 40_000),))
    async with asyncio.timeout(60 * PATIENCE):
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


async def test_another_version_of_tls(place):
    """The server accepts 1.2 and 1.3: a client that is limited to one of them uses it."""
    for version in ("TLSv1.2", "TLSv1.3"):
        await (await opened(place.secure, ZooKeeperSecurity(replace(place.tls, versions=(version,))))).close()


async def test_plaintext_to_a_port_with_tls(place):
    assert "its port is one with TLS (zookeeper.ssl.client.enable=true)" in await refused(
        place.secure, ZooKeeperSecurity(), 3
    )


async def test_tls_to_a_plaintext_port(place):
    told = await refused(place.server.connect_string, ZooKeeperSecurity(place.tls), 3)
    assert "a plaintext port" in told


async def test_what_is_made_belongs_to_its_maker(place):
    """For each kind of path, another client's rights there, asked of the server without changing anything."""
    owner = await opened(place.server.connect_string, ZooKeeperSecurity(sasl=LOGIN, set_acl=True))
    other = await opened(place.server.connect_string, ZooKeeperSecurity())
    whole = frozenset({READ, WRITE, CREATE, DELETE})
    paths = {
        "/consumers": (),
        "/brokers": (WRITE, CREATE, DELETE),
        "/config": (WRITE, CREATE, DELETE),
        "/config/users": (READ, WRITE, CREATE, DELETE),
        "/config/users/ann": (READ, WRITE, CREATE, DELETE),
    }
    for path, missing in paths.items():
        await owner.multi((Create(path, b"1"),))
        assert await lacking(owner, path, whole) == ()
        assert await lacking(other, path, whole) == missing
        expected = ("world:anyone",) if path == "/consumers" else ("sasl:kafka",)
        assert await owner.owners(path) == expected
    for path in paths:
        found = await owner.get(path)
        assert (found.data, found.version) == (b"1", 0)
    assert await lacking(other, "/absent", whole) == ()
    await owner.close()
    await other.close()


@pytest.mark.long
async def test_a_restarted_server_lets_us_in_again_and_one_with_another_password_does_not(place):
    """The login is repeated on each connection. A refusal is final, even in mid-operation, and ends kazoo's thread."""
    client = await opened(place.server.connect_string, ZooKeeperSecurity(sasl=LOGIN))
    known = place.jaas.read_text()
    try:
        await asyncio.to_thread(place.server.stop)
        await asyncio.to_thread(place.server.start)
        async with asyncio.timeout(60 * PATIENCE):
            assert await client.exists("/zookeeper") is not None
        await asyncio.to_thread(place.server.stop)
        place.jaas.write_text(known.replace(LOGIN.password.reveal(), "another"))
        await asyncio.to_thread(place.server.start)
        await asyncio.to_thread(wait_until, lambda: client.dead, what="the login is refused", timeout_s=60)
        assert "AUTH_FAILED" in client.refusal
        with pytest.raises(SessionLost):
            await client.exists("/zookeeper")
    finally:
        await client.close()
        await asyncio.to_thread(place.server.stop)
        place.jaas.write_text(known)
        await asyncio.to_thread(place.server.start)


async def test_renewed_stores_count_at_the_next_connection(place, tmp_path, monkeypatch):
    """An expiring certificate is replaced on disk without a restart of the controller."""
    monkeypatch.setattr(tls, "LOOKED_AT_SECONDS", 0.0)
    store, trust = tmp_path / "key.pem", tmp_path / "trust.pem"
    store.write_bytes((place.certificates.folder / "shunter.pem").read_bytes())
    trust.write_bytes(place.foreign.authority.read_bytes())
    settings = replace(place.tls, key_store=KeyStore("PEM", str(store)), trust_store=KeyStore("PEM", str(trust)))
    access = ZooKeeperAccess(ZooKeeperSecurity(settings))

    async def once() -> None:
        client = ZooKeeperClient(place.secure, access=access, furnish=False)
        await client.start(20.0)
        assert await client.exists("/zookeeper") is not None
        await client.close()

    with pytest.raises(DriverError, match="its certificate is refused"):
        await once()
    trust.write_bytes(place.certificates.authority.read_bytes() + b"\n")
    await once()
    store.write_bytes((place.certificates.folder / "zookeeper.pem").read_bytes()[:100])
    await once()


async def test_a_server_that_wants_a_login_of_everybody(place, tmp_path):
    """Clients that log in are accepted. A client without a login gets an error that names the cause."""
    properties = {
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "requireClientAuthScheme": "sasl",
        "enforce.auth.enabled": "true",
        "enforce.auth.schemes": "sasl",
    }
    options = (f"-Djava.security.auth.login.config={place.jaas}",)
    with ZooKeeperServer(tmp_path / "strict", name="strict", properties=properties, java_options=options) as strict:
        client = await opened(strict.connect_string, ZooKeeperSecurity(sasl=LOGIN))
        assert await client.exists("/zookeeper") is not None
        await client.close()
        wrong = ZooKeeperLogin("kafka", Secret("another"))
        assert "wrong password" in await refused(strict.connect_string, ZooKeeperSecurity(sasl=wrong))
        nobody = ZooKeeperClient(strict.connect_string, access=ZooKeeperAccess(ZooKeeperSecurity()), furnish=False)
        try:
            await nobody.start(10.0)
            with pytest.raises(DriverError, match=r"SESSIONCLOSEDREQUIRESASLAUTH.*name a login"):
                await nobody.exists("/zookeeper")
        finally:
            await nobody.close()
