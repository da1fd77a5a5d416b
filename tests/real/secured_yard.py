"""A secured cluster: brokers speak SASL_SSL with SCRAM among themselves and to Shunter, and have Apache's authorizer.

Shunter gets a broker's properties. Beside the brokers' listener it has one for people with certificates, one for people
with passwords, one for tokens, and none that is plaintext.
"""

import hashlib
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from certificates import PASSWORD, Certificates
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from kazoo.client import KazooClient

from lab.testbed import tools
from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.kafka import PORT
from lab.testbed.ports import LOOPBACK, free_ports
from lab.testbed.server import properties_text
from shunter.core.user_credentials import Upsertion, credential

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
PLANTED = "planted-Secret-7c1f"
"""A part of each password. Of the files that a run leaves, only the files that tests wrote it into may contain it."""
PASSWORDS = {name: f"{PLANTED}-{name}" for name in ("broker", "root", "ann", "bob", "plain")}
KEY_PASSWORD = f"{PLANTED}-key"


class Tokens:
    """The part of an identity provider that brokers use: a file with the keys that tokens are signed with."""

    def __init__(self, folder: Path) -> None:
        """Publish the keys of an RSA pair and of a curve."""
        self.keys = {"rsa": rsa.generate_private_key(65_537, 2_048), "curve": ec.generate_private_key(ec.SECP256R1())}
        algorithms = {"rsa": jwt.algorithms.RSAAlgorithm, "curve": jwt.algorithms.ECAlgorithm}
        published = [
            {**algorithms[name].to_jwk(key.public_key(), as_dict=True), "kid": name, "use": "sig"}  # type: ignore[attr-defined]
            for name, key in self.keys.items()
        ]
        (folder / "jwks.json").write_text(json.dumps({"keys": published}))

    def token(self, *, key: Any = None, name: str | None = "rsa", algorithm: str = "RS256", **claims: object) -> str:
        """A token for root with these claims changed. A claim that is None is left out."""
        now = int(time.time())
        said: dict[str, object] = {"sub": "root", "iat": now, "exp": now + 600, "aud": "kafka", "iss": "yard", **claims}
        kept = {claim: value for claim, value in said.items() if value is not None}
        signer = self.keys.get(name or "rsa") if key is None else key
        return jwt.encode(kept, signer, algorithm, headers={} if name is None else {"kid": name})


@dataclass
class SecuredYard:
    """The secured cluster, and the helpers with which tests use it."""

    cluster: ZooKeeperCluster
    shunter: ShunterController
    certificates: Certificates
    ports: Mapping[str, int]
    zookeeper: KazooClient
    folder: Path
    tokens: Tokens
    token_ports: Mapping[int, int]
    """Ports by broker for logins with tokens, as Shunter's listener TOKENS."""

    def login(self, user: str, password: str | None = None, *, mechanism: str = "SCRAM-SHA-512") -> Path:
        """A client properties file for the listener of people with passwords."""
        module = PLAIN if mechanism == "PLAIN" else SCRAM
        said = PASSWORDS[user] if password is None else password
        return self.properties(
            f"{user}-{mechanism}",
            **{
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": f'{module} username="{user}" password="{said}";',
            },
        )

    def certified(self, name: str, **more: object) -> Path:
        """A client properties file for the listener of people with certificates."""
        return self.properties(
            f"{name}-tls",
            **{
                "security.protocol": "SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": self.certificates.folder / f"{name}.pem",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.certificates.authority,
                **more,
            },
        )

    def properties(self, name: str, **settings: object) -> Path:
        """A file with settings."""
        path = self.folder / f"{name}-{secrets.token_hex(4)}.properties"
        path.write_text(properties_text(settings))
        return path

    def at(self, listener: str) -> str:
        """The address of one of Shunter's listeners."""
        return f"{LOOPBACK}:{self.ports[listener]}"

    def tool(self, main_class: str, config: Path, *arguments: str, listener: str = "PEOPLE") -> Any:
        """Run one of Apache's tools at Shunter."""
        at = ("--bootstrap-server", self.at(listener), "--command-config", str(config))
        return tools.kafka_tool(main_class, *at, *arguments, version=self.cluster.version, timeout_s=120)


def scram_config(password: str, iterations: int = 4096) -> bytes:
    """A user's configuration with credentials of both mechanisms, as Kafka keeps it."""
    found = {}
    for number, (name, algorithm) in enumerate((("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")), 1):
        salt = secrets.token_bytes(16)
        salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)
        found[name] = credential(Upsertion("", number, iterations, salt, salted))
    return json.dumps({"version": 1, "config": found}).encode()


def security_properties(certificates: Certificates) -> dict[str, object]:
    """Properties that brokers and Shunter share."""
    mine = f'username="broker" password="{PASSWORDS["broker"]}"'
    return {
        "listener.security.protocol.map": (
            "PROBE:PLAINTEXT,INTERNAL:SASL_SSL,PEOPLE:SASL_PLAINTEXT,CERTIFIED:SSL,TOKENS:SASL_PLAINTEXT"
        ),
        "inter.broker.listener.name": "INTERNAL",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.internal.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.internal.scram-sha-512.sasl.jaas.config": f"{SCRAM} {mine};",
        "listener.name.people.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
        "listener.name.people.scram-sha-256.sasl.jaas.config": f"{SCRAM};",
        "listener.name.people.scram-sha-512.sasl.jaas.config": f"{SCRAM};",
        "listener.name.people.plain.sasl.jaas.config": f'{PLAIN} user_plain="{PASSWORDS["plain"]}";',
        "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.tokens.oauthbearer.sasl.jaas.config": f"{BEARER};",
        "listener.name.tokens.oauthbearer.sasl.server.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        "listener.name.tokens.sasl.oauthbearer.jwks.endpoint.url": f"file:{certificates.folder / 'jwks.json'}",
        "listener.name.tokens.sasl.oauthbearer.expected.audience": "kafka",
        "listener.name.tokens.sasl.oauthbearer.expected.issuer": "yard",
        # An hour: on a busy machine minutes may pass between two uses of one token.
        "listener.name.tokens.sasl.oauthbearer.clock.skew.seconds": 3_600,
        "ssl.keystore.location": certificates.folder / "broker.jks",
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.authority,
        "listener.name.certified.ssl.client.auth": "required",
        "listener.name.certified.ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/L,DEFAULT",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:broker;User:root",
    }


@contextmanager
def secured_yard(folder: Path, *, brokers: tuple[int, ...] = (1, 2), **more: object) -> Iterator[SecuredYard]:
    """Start it; `more` are more settings for brokers and Shunter."""
    certificates = Certificates(folder)
    certificates.issue("broker", password=KEY_PASSWORD)
    certificates.java_store("broker", key_password=KEY_PASSWORD)
    for name in ("root", "Ann", "stranger"):
        certificates.issue(name)
    settings = security_properties(certificates) | more
    tokens = Tokens(certificates.folder)
    names = ("INTERNAL", "PEOPLE", "CERTIFIED", "TOKENS")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    file = folder / "server.properties"
    file.write_text(properties_text(settings))
    file.chmod(0o600)
    of_brokers: dict[int, dict[str, object]] = {}
    at_broker: dict[int, int] = {}
    free = iter(free_ports(2 * len(brokers)))
    for broker in brokers:
        at_broker[broker] = next(free)
        of_brokers[broker] = {
            "listeners": f"PROBE://{LOOPBACK}:{PORT},INTERNAL://{LOOPBACK}:{next(free)},TOKENS://{LOOPBACK}:{at_broker[broker]}"
        }
    started: dict[str, Any] = {}

    def prepare(cluster: ZooKeeperCluster, stack: ExitStack) -> None:
        zk = KazooClient(cluster.zookeeper_connect)
        zk.start()
        stack.callback(zk.close)
        stack.callback(zk.stop)
        for user in ("broker", "root", "ann", "bob"):
            zk.create(f"/config/users/{user}", scram_config(PASSWORDS[user]), makepath=True)
        shunter = ShunterController(
            folder / "shunter",
            cluster.zookeeper_connect,
            listeners=[f"{name}://{LOOPBACK}:{port}" for name, port in ports.items()],
            options=("--server-properties", str(file), "--set", f"log_dir={folder / 'shunter' / 'kept'}"),
        )
        started["zk"], started["shunter"] = zk, stack.enter_context(shunter)

    cluster = ZooKeeperCluster(
        folder / "cluster",
        broker_ids=brokers,
        properties=settings,
        broker_properties=of_brokers,
        before_brokers=prepare,
    )
    with cluster:
        yield SecuredYard(cluster, started["shunter"], certificates, ports, started["zk"], folder, tokens, at_broker)
