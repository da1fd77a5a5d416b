"""The security of the demo's cluster: a certificate authority, users with passwords, and ACLs."""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType
from kazoo.client import KazooClient

from lab.demo.entrance import WayIn
from lab.demo.stage import TOPICS
from lab.testbed.kafka import PORT
from lab.testbed.ports import LOOPBACK, free_ports
from lab.testbed.server import properties_text
from shunter.core.user_credentials import Upsertion, credential
from shunter.drivers.host.clock import SystemClock

MECHANISM = "SCRAM-SHA-512"
_MECHANISM_ID, _ITERATIONS = 2, 4_096
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_DAYS = 2
USERS = ("broker", "admin", "clients", "mover")
"""The user of brokers and Shunter, the user that makes topics, the clients' user, and the executor's user."""
_CLUSTER = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
_MOVERS = (
    (_CLUSTER, ("DESCRIBE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")),
    *(
        (ResourcePattern(ResourceType.TOPIC, name), ("DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"))
        for name in TOPICS
    ),
    (ResourcePattern(ResourceType.GROUP, "shunter-executor"), ("READ",)),
)
"""The executor's permissions: exactly those that its guide names (docs/executor.md)."""


class Secrecy:
    """Certificates, passwords and properties of the demo's cluster, made for each run.

    Args:
        folder: a new folder for certificates and properties.
        brokers: their ids.
    """

    def __init__(self, folder: Path, brokers: Sequence[int]) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self.passwords = {user: secrets.token_urlsafe(18) for user in USERS}
        self.authority = folder / "authority.pem"
        self._store = folder / "broker.pem"
        _issue(self.authority, self._store)
        ours, *theirs = free_ports(1 + len(brokers))
        self._ports = dict(zip(brokers, theirs, strict=True))
        self.listener = f"SECURED://{LOOPBACK}:{ours}"
        self.server_properties = folder / "server.properties"
        self.server_properties.write_text(properties_text(self.properties()))
        self.server_properties.chmod(0o600)

    def properties(self) -> dict[str, object]:
        """Properties that brokers and Shunter share; the plaintext listener is for the probe that brokers are up."""
        login = f'username="broker" password="{self.passwords["broker"]}"'
        return {
            "listener.security.protocol.map": "PROBE:PLAINTEXT,SECURED:SASL_SSL",
            "inter.broker.listener.name": "SECURED",
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "listener.name.secured.sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.secured.{MECHANISM.lower()}.sasl.jaas.config": f"{_MODULE} {login};",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._store,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority,
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:broker;User:admin",
        }

    def broker_properties(self) -> dict[int, Mapping[str, object]]:
        """The properties of each broker alone."""
        return {
            broker: {"listeners": f"PROBE://{LOOPBACK}:{PORT},SECURED://{LOOPBACK}:{port}"}
            for broker, port in self._ports.items()
        }

    @property
    def entrance(self) -> WayIn:
        """How the demo's clients connect to the brokers."""
        bootstrap = ",".join(f"{LOOPBACK}:{port}" for port in self._ports.values())
        return WayIn(bootstrap, self._login("admin"), self._login("clients"))

    def client(self, user: str, *, password: str | None = None) -> dict[str, Any]:
        """The settings of a client that connects to Shunter's controller."""
        at = self.listener.partition("://")[2]
        return {
            "bootstrap_servers": [at],
            **self._login(user),
            **({"sasl_plain_password": password} if password else {}),
        }

    def command_config(self, user: str) -> Path:
        """A properties file for Shunter's verbs."""
        path = self._folder / f"{user}.properties"
        text = properties_text(
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": MECHANISM,
                "sasl.jaas.config": f'{_MODULE} username="{user}" password="{self.passwords[user]}";',
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.authority,
            }
        )
        path.write_text(text)
        path.chmod(0o600)
        return path

    def make_users(self, zookeeper_connect: str) -> None:
        """Write the users' credentials into ZooKeeper, where brokers read them."""
        zookeeper = KazooClient(zookeeper_connect)
        zookeeper.start()
        try:
            for user, password in self.passwords.items():
                zookeeper.create(f"/config/users/{user}", _credential(password), makepath=True)
        finally:
            zookeeper.stop()
            zookeeper.close()

    def allow(self, admin: KafkaAdminClient) -> None:
        """Let clients write and read the topics, and give the executor the permissions that its guide names."""
        topics = [ResourcePattern(ResourceType.TOPIC, name) for name in TOPICS]
        allowed: list[tuple[str, ResourcePattern, tuple[str, ...]]]
        allowed = [("clients", topic, ("DESCRIBE", "READ", "WRITE")) for topic in topics]
        allowed += [("clients", _CLUSTER, ("IDEMPOTENT_WRITE",))]
        allowed += [("mover", pattern, operations) for pattern, operations in _MOVERS]
        acls = [
            ACL(f"User:{user}", "*", ACLOperation[operation], ACLPermissionType.ALLOW, pattern)
            for user, pattern, operations in allowed
            for operation in operations
        ]
        admin.create_acls(acls)

    def _login(self, user: str) -> dict[str, Any]:
        return {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": user,
            "sasl_plain_password": self.passwords[user],
            "ssl_cafile": str(self.authority),
        }


def _credential(password: str) -> bytes:
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    text = credential(Upsertion("", _MECHANISM_ID, _ITERATIONS, salt, salted))
    return orjson.dumps({"version": 1, "config": {MECHANISM: text}})


def _issue(authority: Path, store: Path) -> None:
    """Make a certificate authority, and a key with a certificate for the loopback; both are valid for two days."""
    signer, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = _certificate("Shunter's demo", signer, "Shunter's demo", signer, ca=True)
    leaf = _certificate("broker", key, "Shunter's demo", signer, ca=False)
    authority.write_bytes(root.public_bytes(Encoding.PEM))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    store.touch(mode=0o600)
    store.write_bytes(private + leaf.public_bytes(Encoding.PEM) + root.public_bytes(Encoding.PEM))


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str, signer: ec.EllipticCurvePrivateKey, *, ca: bool
) -> x509.Certificate:
    def called(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    now = dt.datetime.fromtimestamp(SystemClock().now_ms() / 1_000, dt.UTC)
    loopback = x509.IPAddress(ipaddress.ip_address(LOOPBACK))
    return (
        x509.CertificateBuilder()
        .subject_name(called(name))
        .issuer_name(called(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([loopback]), critical=False)
        .sign(signer, hashes.SHA256())
    )
