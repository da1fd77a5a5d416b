"""Security of the connection to ZooKeeper, from a broker's `server.properties` or a file with the same names.

Kafka has no name for the login: Java reads it from a JAAS file that the system property `java.security.auth.login.config`
names, from the section that `zookeeper.sasl.clientconfig` names. Both may stand in the properties here, and so may the
login itself, as `zookeeper.sasl.jaas.config`.

Source: Apache 3.9, `ZkConfigs`, `KafkaConfig.zkTlsClientAuthEnabled`; ZooKeeper 3.9, `ZKClientConfig`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from shunter.errors import SettingsError
from shunter.formats.security.tls_properties import TLS_VERSIONS, TlsProperties
from shunter.model.security.listeners import KeyStore, Secret, TlsSettings, ZooKeeperLogin, ZooKeeperSecurity

JAAS_FILE: Final = "java.security.auth.login.config"
JAAS: Final = "zookeeper.sasl.jaas.config"
DIGEST_USER, DIGEST_PASSWORD = "zookeeper.digest.user", "zookeeper.digest.password"
_SECTION: Final = "zookeeper.sasl.clientconfig"
_ENABLED: Final = "zookeeper.ssl.client.enable"
_SOCKET: Final = "zookeeper.clientCnxnSocket"
_SOCKET_WITH_TLS: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
_OURS: Final = ("zookeeper.ssl.", "zookeeper.sasl.", "zookeeper.digest.")
_KNOWN: Final = frozenset(
    {JAAS, DIGEST_USER, DIGEST_PASSWORD, "zookeeper.sasl.clientconfig", "zookeeper.sasl.client"}
    | {
        f"zookeeper.ssl.{name}"
        for name in (
            *("client.enable", "protocol", "enabled.protocols", "cipher.suites", "crl.enable", "ocsp.enable"),
            *("endpoint.identification.algorithm", "keystore.location", "keystore.password", "keystore.type"),
            *("truststore.location", "truststore.password", "truststore.type"),
        )
    }
)
"""All names that are known. A misspelt one would be passed over, and the connection would be less secure than meant."""
_OPTION: Final = re.compile(r'([\w.$-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')
"""An option in a JAAS file of Java's, whose language is not that of `sasl.jaas.config`."""
_COMMENTS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def zookeeper_security(properties: Mapping[str, str], place: str, jaas_file: str | None = None) -> ZooKeeperSecurity:
    """Read how the connection to ZooKeeper is secured.

    Args:
        properties: as `parse_properties` returns them; other settings are passed over.
        place: the file, for refusals.
        jaas_file: content of the file that `JAAS_FILE` names.

    Raises:
        SettingsError: a value can't be used, or Shunter can't do what it asks for.
    """
    said = _Said(properties, place)
    for name in properties:
        if name.startswith(_OURS) and name not in _KNOWN:
            near = get_close_matches(name, _KNOWN, 1, 0.0)
            raise said.refusal(name, f"is no setting; did you mean {near[0]}?")
    found = ZooKeeperSecurity(said.tls(), said.sasl(jaas_file), said.digest(), said.flag("zookeeper.set.acl"))
    if found.set_acl and not found.is_somebody:
        raise said.refusal(
            "zookeeper.set.acl",
            "is true, and nothing says who we are at ZooKeeper: it takes a login"
            f" ({JAAS_FILE} or {JAAS}), or a certificate ({_ENABLED}=true and zookeeper.ssl.keystore.location)",
        )
    return found


class _Said(TlsProperties):
    """One file's properties."""

    def __init__(self, properties: Mapping[str, str], place: str) -> None:
        self._properties = properties
        self._place = place

    def find(self, name: str) -> str | None:
        return (self._properties.get(name) or "").strip() or None

    def flag(self, name: str) -> bool:
        value = (self.get(name) or "false").lower()
        if value not in {"true", "false"}:
            raise self.refusal(name, f"{value!r} is neither true nor false")
        return value == "true"

    def refusal(self, name: str, told: str) -> SettingsError:
        return SettingsError(f"{self._place}: {name}: {told}")

    def tls(self) -> TlsSettings | None:
        if not self.flag(_ENABLED):
            return None
        kind = self.get(_SOCKET)
        if kind not in {None, _SOCKET_WITH_TLS}:
            raise self.refusal(
                _SOCKET, f"{kind} speaks no TLS, and {_ENABLED} is true: it has to be {_SOCKET_WITH_TLS}"
            )
        for name in ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"):
            if self.flag(name):
                raise self.refusal(name, "Shunter can't ask whether a certificate was revoked")
        # Java's own default is TLSv1.2 alone. If neither setting is set, Shunter takes TLSv1.3 as well, if the server
        # has it.
        named = (
            self.get("zookeeper.ssl.enabled.protocols") or self.get("zookeeper.ssl.protocol") or ",".join(TLS_VERSIONS)
        )
        asked = [text.strip() for text in named.split(",")]
        versions = TLS_VERSIONS if "TLS" in asked else self.tls_versions("zookeeper.ssl.enabled.protocols", asked)
        algorithm = self._properties.get("zookeeper.ssl.endpoint.identification.algorithm", "HTTPS").strip()
        if algorithm.upper() not in {"", "HTTPS"}:
            raise self.refusal(
                "zookeeper.ssl.endpoint.identification.algorithm", f"{algorithm!r} is neither HTTPS nor empty"
            )
        ciphers = self.ciphers("zookeeper.ssl.cipher.suites")
        return TlsSettings(
            self._store("keystore"),
            self._store("truststore"),
            versions=versions,
            ciphers=ciphers,
            checks_host=bool(algorithm),
        )

    def _store(self, which: str) -> KeyStore | None:
        location = self.get(f"zookeeper.ssl.{which}.location")
        if location is None:
            return None
        name = f"zookeeper.ssl.{which}.type"
        kind = self.store_kind(name, self.get(name))
        password = self.secret(f"zookeeper.ssl.{which}.password")
        # ZooKeeper has no separate password for the key.
        return KeyStore(kind, location, None, password, password)

    def sasl(self, jaas_file: str | None) -> ZooKeeperLogin | None:
        if self.get("zookeeper.sasl.client") is not None and not self.flag("zookeeper.sasl.client"):
            return None
        section = self.get(_SECTION) or "Client"
        inline = self.get(JAAS)
        name = JAAS if inline is not None else JAAS_FILE
        entry = inline if inline is not None else _section(jaas_file or "", section)
        if entry is None:
            # A broker's JAAS file may be about its listeners alone. Then the broker does not log in to ZooKeeper
            # either.
            return None
        if entry.split()[:1] != [_MODULE]:
            told = (
                f"{' '.join(entry.split()[:1])!r} can't log in here: DIGEST-MD5 is spoken, by {_MODULE}, and no GSSAPI"
            )
            raise self.refusal(name, told)
        options = {key: re.sub(r"\\(.)", r"\1", quoted) or word for key, quoted, word in _OPTION.findall(entry)}
        if not options.get("username") or "password" not in options:
            raise self.refusal(name, f'its entry {section} names no username="…" and password="…"')
        return ZooKeeperLogin(options["username"], Secret(options["password"]))

    def digest(self) -> ZooKeeperLogin | None:
        user, password = self.get(DIGEST_USER), self.get(DIGEST_PASSWORD)
        if user is None and password is None:
            return None
        if user is None or password is None:
            raise self.refusal(DIGEST_USER, f"and {DIGEST_PASSWORD} go together")
        if ":" in user:
            raise self.refusal(DIGEST_USER, f"{user!r} has a colon, which ends a user's name in the scheme digest")
        return ZooKeeperLogin(user, Secret(password))


def _section(text: str, name: str) -> str | None:
    """One section's first entry: `NAME { module flag option=…; };`."""
    bare = _COMMENTS.sub(lambda found: found[0] if found[0].startswith('"') else " ", text)
    found = re.search(rf"(?:^|[\s;}}])\"?{re.escape(name)}\"?\s*\{{((?:\"(?:[^\"\\]|\\.)*\"|[^}}\"])*)\}}", bare)
    return None if found is None else found[1].strip()
