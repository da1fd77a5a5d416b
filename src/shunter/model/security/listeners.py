"""The security of listeners, as values. Passwords are `Secret`: nothing prints them by accident."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from shunter.model.security.principal import Principal

PLAIN: Final = "PLAIN"
SCRAM_HASHES: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, *SCRAM_HASHES, OAUTHBEARER)
"""SASL mechanisms by which clients may log in, and the controller logs in at brokers."""
AUTHORIZERS: Final = frozenset({"kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer"})
"""Kafka's own authorizer, whose rules the controller has. The second is the name before Kafka 2.4, for the same rules."""
LOGIN_FRAME_BYTES: Final = 524_288
"""Largest request of a client that has not logged in yet (`sasl.server.max.receive.size`)."""


class Secret:
    """A password or a key. It is printed as `[hidden]`, whatever prints it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __repr__(self) -> str:
        return "[hidden]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


class ScramCredential(NamedTuple):
    """The values that a login by SCRAM is checked against; no password can be derived from them."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class SecurityProtocol(Enum):
    """The protocol of a listener."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def encrypted(self) -> bool:
        """Whether the listener uses TLS."""
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def logs_in(self) -> bool:
        """Whether clients log in by SASL."""
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


class ClientAuth(Enum):
    """Whether clients have to show a certificate (`ssl.client.auth`)."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A key store or a trust store: a file, or the PEM text itself."""

    kind: str
    """PEM, PKCS12 or JKS, as the properties say. Whether a file is PKCS12 or JKS is read from the file itself."""
    location: str | None = None
    text: Secret | None = None
    password: Secret | None = None
    key_password: Secret | None = None


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS on a listener, where the controller is the server and where it is the client."""

    key_store: KeyStore | None = None
    trust_store: KeyStore | None = None
    client_auth: ClientAuth = ClientAuth.NONE
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ciphers: tuple[str, ...] = ()
    """In Java's names; none: the library's default ciphers."""
    checks_host: bool = True
    """Whether a broker's certificate has to be for the host that the controller connects to."""
    mapping_rules: str = "DEFAULT"
    """From a certificate's subject to a principal (`ssl.principal.mapping.rules`)."""


class FaultKind(Enum):
    """Who refuses a certificate."""

    UNUSABLE = "unusable"
    """Every peer: it has expired, is not valid yet, or is for another use."""
    UNTRUSTED = "untrusted"
    """Peers with the same trust store."""
    OTHER_HOST = "other host"
    """Peers that check the host."""
    DOUBTFUL = "doubtful"
    """OpenSSL; Java's peers may accept it."""
    EXPIRES = "expires"
    """Nobody yet: it expires soon."""


class CertificateFault(NamedTuple):
    """Why peers refuse the certificate that the controller shows, or soon will, and what to do about it."""

    kind: FaultKind
    told: str
    todo: str


@dataclass(frozen=True, slots=True)
class CertificateRules:
    """What is asked of the certificate of one of the controller's listeners."""

    by_brokers: bool
    """Whether brokers come to this listener. They have the same trust store, and show and check certificates alike."""
    as_client: bool = False
    """Whether brokers, or the controller at brokers, show the certificate as clients (`ssl.client.auth`)."""


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """The controller's login by a password, where it is the client."""

    mechanism: str
    user: str
    password: Secret


class ClientCredentials(NamedTuple):
    """A token from an endpoint, for the holder of a client id and its secret (RFC 6749, 4.4)."""

    endpoint: str
    client_id: str
    client_secret: Secret
    scope: str | None


class TokenFile(NamedTuple):
    """A token that another process keeps in a file."""

    path: str


class UnsecuredToken(NamedTuple):
    """A token that the controller makes without a signature, for brokers that check none; its lifetime in seconds."""

    subject: str
    lifetime_s: float


class BearerLogin(NamedTuple):
    """The controller's login by OAUTHBEARER: the source of its token, and the extensions that go with it (KIP-342)."""

    source: ClientCredentials | TokenFile | UnsecuredToken
    extensions: Mapping[str, str]

    @property
    def user(self) -> str:
        """The user's name for messages; which user the token really names, only its issuer knows."""
        match self.source:
            case ClientCredentials(client_id=client):
                return client
            case TokenFile(path=path):
                return f"who the token in {path} names"
            case UnsecuredToken(subject=subject):
                return subject


@dataclass(frozen=True, slots=True)
class TokenRules:
    """Which tokens of OAUTHBEARER are valid, in Kafka's terms (`sasl.oauthbearer.…`)."""

    jwks_url: str
    """The URL of the keys that tokens are signed with: https, http where that is allowed by name, or file."""
    audiences: tuple[str, ...] = ()
    """One of the audiences has to be in `aud`; none: `aud` is not checked."""
    issuer: str | None = None
    subject_claim: str = "sub"
    clock_skew_s: int = 30
    refresh_ms: int = 3_600_000


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """How clients log in on a listener, and how the controller logs in at brokers."""

    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, Secret] = field(default_factory=dict[str, Secret])
    """Users that may log in by PLAIN, with their passwords; SCRAM's users are in ZooKeeper."""
    max_reauth_ms: int = 0
    """After how long clients have to log in again (`connections.max.reauth.ms`); 0: never."""
    frame_bytes: int = LOGIN_FRAME_BYTES
    login: SaslLogin | BearerLogin | None = None
    tokens: TokenRules | None = None
    """None: OAUTHBEARER is not served."""


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """Everything that secures one listener."""

    protocol: SecurityProtocol
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None

    @property
    def authenticates(self) -> bool:
        """Whether peers on this listener log in or may show a certificate."""
        return self.sasl is not None or (self.tls is not None and self.tls.client_auth is not ClientAuth.NONE)


PLAINTEXT: Final = ListenerSecurity(SecurityProtocol.PLAINTEXT)


@dataclass(frozen=True, slots=True)
class AclSettings:
    """Settings of Kafka's `AclAuthorizer`."""

    super_users: frozenset[Principal] = frozenset()
    everyone_if_no_acl: bool = False


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """The security settings of a broker's `server.properties`, as far as a controller needs them."""

    listeners: Mapping[str, ListenerSecurity] = field(default_factory=dict[str, ListenerSecurity])
    """By the listener's name; a listener that is not here is plaintext."""
    brokers_listener: str | None = None
    """The listener for requests to brokers (`control.plane.listener.name`, else the inter-broker listener)."""
    inter_broker_listener: str | None = None
    """The listener by which brokers speak to each other, and to a controller where there is no control plane."""
    acls: AclSettings | None = None
    """None: the cluster has no authorizer."""

    def of(self, listener: str) -> ListenerSecurity:
        """The security of a listener."""
        return self.listeners.get(listener, PLAINTEXT)

    def rules_of(self, listener: str) -> CertificateRules:
        """What is asked of the certificate of a listener."""
        security = self.of(listener)
        by_brokers = listener in {self.brokers_listener, self.inter_broker_listener}
        # Where there is a login, Apache's brokers ask for no certificate unless the listener's own setting says so.
        asked = security.tls is not None and security.tls.client_auth is not ClientAuth.NONE
        return CertificateRules(by_brokers, by_brokers and asked and security.protocol is SecurityProtocol.SSL)


@dataclass(frozen=True, slots=True)
class ZooKeeperLogin:
    """The controller's login at ZooKeeper."""

    user: str
    password: Secret


@dataclass(frozen=True, slots=True)
class ZooKeeperSecurity:
    """How the controller connects to ZooKeeper, and who may change the znodes that it makes there."""

    tls: TlsSettings | None = None
    sasl: ZooKeeperLogin | None = None
    """By SASL DIGEST-MD5, as Kafka's brokers do."""
    digest: ZooKeeperLogin | None = None
    """By ZooKeeper's own scheme `digest`."""
    set_acl: bool = False
    """Whether only this login, which brokers may share, may change the znodes that it makes (`zookeeper.set.acl`)."""

    @property
    def is_somebody(self) -> bool:
        """Whether ZooKeeper knows the controller by a login or certificate: else no znode can belong to it."""
        certified = self.tls is not None and self.tls.key_store is not None
        return certified or self.sasl is not None or self.digest is not None


PLAIN_ZOOKEEPER: Final = ZooKeeperSecurity()
