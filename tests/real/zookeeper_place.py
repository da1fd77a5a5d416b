"""A real ZooKeeper server with a port for TLS, client certificates and SASL, beside its plaintext port."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from certificates import PASSWORD, Certificates

from lab.testbed.ports import LOOPBACK, free_ports
from lab.testbed.zookeeper import ZooKeeperServer
from shunter.model.security.listeners import KeyStore, Secret, TlsSettings, ZooKeeperLogin

LOGIN = ZooKeeperLogin("kafka", Secret("planted-Secret-1"))
_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"


@dataclass
class Place:
    """The server. Both ports take SASL logins; the one with TLS wants a certificate."""

    server: ZooKeeperServer
    secure: str
    certificates: Certificates
    foreign: Certificates
    jaas: Path

    @property
    def tls(self) -> TlsSettings:
        """Settings of a client with a certificate."""
        mine = KeyStore("PEM", str(self.certificates.folder / "shunter.pem"))
        return TlsSettings(mine, KeyStore("PEM", str(self.certificates.authority)))


@contextmanager
def secured_zookeeper(folder: Path) -> Iterator[Place]:
    """Start the server. `zookeeper` and `shunter` have certificates of one authority, a second `shunter` of another."""
    for name in ("own", "foreign"):
        (folder / name).mkdir()
    own, foreign = Certificates(folder / "own"), Certificates(folder / "foreign")
    for name in ("zookeeper", "shunter"):
        own.issue(name, password=PASSWORD)
        own.java_store(name, key_password=PASSWORD)
    own.issue("shunter")
    foreign.issue("shunter")
    (port,) = free_ports(1)
    jaas = folder / "jaas.conf"
    user, password = LOGIN.user, LOGIN.password.reveal()
    jaas.write_text(
        f'Server {{ {_MODULE} user_{user}="{password}"; }};\n'
        f'Client {{ {_MODULE} username="{user}" password="{password}"; }};\n'
    )
    jaas.chmod(0o600)
    properties = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "secureClientPort": port,
        "secureClientPortAddress": LOOPBACK,
        "ssl.keyStore.location": own.folder / "zookeeper.jks",
        "ssl.keyStore.password": PASSWORD,
        "ssl.trustStore.location": own.authority,
        "ssl.trustStore.type": "PEM",
        # By default ZooKeeper 3.9 accepts 1.3 alone, and Kafka's brokers speak 1.2.
        "ssl.enabledProtocols": "TLSv1.2,TLSv1.3",
        "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }
    with ZooKeeperServer(
        folder / "zookeeper", properties=properties, java_options=(f"-Djava.security.auth.login.config={jaas}",)
    ) as server:
        yield Place(server, f"{LOOPBACK}:{port}", own, foreign, jaas)
