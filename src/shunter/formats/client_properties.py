"""Client properties files as Apache's tools take them (`--command-config`), turned into kafka-python's names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

from shunter.errors import FormatError, SettingsError
from shunter.formats.security.bearer_login import PROVIDER, bearer_login
from shunter.formats.security.jaas import jaas_options
from shunter.formats.security.tls_properties import TLS_VERSIONS, TlsProperties
from shunter.model.security.listeners import TlsSettings

MSK_IAM = "AWS_MSK_IAM"
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TLS = "ssl_context"
"""The library's setting for TLS."""
_NO_GSSAPI = "it needs the Python package `gssapi`, which is not installed (Shunter does not bring it)"
_NUMBERS = {
    "request.timeout.ms": "request_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
}
_DEFAULTS = {"request_timeout_ms": 20_000, "reconnect_backoff_max_ms": 1_000, "bootstrap_timeout_ms": 15_000}
"""Shorter than the library's, because brokers die while Shunter watches: half a minute is too long a wait for one."""
_SECURITY = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "sasl.kerberos.service.name",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""Security settings that are read here. If one is left out, the connection is less secure, or logs in differently."""
_NEAR = 0.9
"""How similar to one of these a name has to be to count as a misspelling of it, as `difflib` measures similarity."""
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def parse_properties(text: str, place: str = "properties") -> dict[str, str]:
    """Read a Java properties file: `name=value`, `name: value`, comments by # or !, lines continued by a backslash.

    Raises:
        FormatError: it is JSON or XML. Java would take that for properties too, but no such property would be meant.
    """
    properties: dict[str, str] = {}
    if text.lstrip()[:1] in ("{", "[", "<"):
        kind = "XML" if text.lstrip()[0] == "<" else "JSON"
        raise FormatError(place, f"this is {kind}; a properties file has a line `name=value` for each setting")
    for line in _logical_lines(text):
        found = re.match(r"((?:[^=:\s\\]|\\.)+)\s*[=:\s]\s*(.*)$", line, re.DOTALL)
        name, value = (found[1], found[2]) if found else (line, "")
        properties[_unescaped(name)] = _unescaped(value)
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for line in text.splitlines():
        stripped = line.lstrip()
        if not pending and (not stripped or stripped[0] in "#!"):
            continue
        pending += stripped
        if (len(pending) - len(pending.rstrip("\\"))) % 2:
            pending = pending[:-1]
            continue
        yield pending
        pending = ""
    if pending:
        yield pending


def _unescaped(text: str) -> str:
    plain = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
    return re.sub(
        r"\\(u[0-9a-fA-F]{4}|.)",
        lambda found: chr(int(found[1][1:], 16)) if len(found[1]) == 5 else plain.get(found[1], found[1]),
        text,
    )


def bootstrap_servers(bootstrap: str) -> list[str]:
    """The brokers that are asked first.

    Raises:
        SettingsError: one of them is not HOST:PORT.
    """
    servers = [server.strip() for server in bootstrap.split(",") if server.strip()]
    wrong = [server for server in servers or [bootstrap] if not _is_server(server)]
    if wrong:
        raise SettingsError(
            f"bootstrap server {wrong[0]!r} is no HOST:PORT with a port from 1 to 65535: "
            "name brokers as kafka1:9092, several with commas"
        )
    return servers


def _is_server(text: str) -> bool:
    host, _colon, port = text.rpartition(":")
    return bool(host) and re.fullmatch("[0-9]{1,5}", port) is not None and 1 <= int(port) <= 65_535


def client_configuration(properties: Mapping[str, str], bootstrap: str, place: str) -> dict[str, Any]:
    """kafka-python's settings for these properties. Properties that Shunter has no use for are passed over.

    In the place of the library's token provider there is a `BearerLogin`, which says how to get tokens, and in the place
    of its TLS context there are `TlsSettings`.

    Raises:
        SettingsError: a bootstrap server, a mechanism or a key store can't be used, or the name of a security setting
            is misspelt; the message names it, with the way out.
        FormatError: a value is not a number, or a login can't be read.
    """
    configuration: dict[str, Any] = {"bootstrap_servers": bootstrap_servers(bootstrap)}
    _refuse_misspelt(properties, place)
    configuration["client_id"] = properties.get("client.id", "shunter")
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise SettingsError(f"{place}: security.protocol {protocol!r} is none of {', '.join(_PROTOCOLS)}")
    configuration["security_protocol"] = protocol
    configuration.update(_DEFAULTS)
    for name, ours in _NUMBERS.items():
        if name in properties:
            configuration[ours] = _number(properties[name], name, place)
    if protocol.startswith("SASL"):
        configuration.update(_sasl(properties, place))
    if protocol.endswith("SSL"):
        configuration[TLS] = _Tls(properties, place).settings()
    return configuration


def _refuse_misspelt(properties: Mapping[str, str], place: str) -> None:
    """Refuse a name that is nearly that of a security setting: it would be passed over, and the connection not secured."""
    for name in properties:
        meant = get_close_matches(name, _SECURITY, 1, _NEAR)
        if meant and meant[0] not in properties:
            raise SettingsError(f"{place}: {name} is no setting; did you mean {meant[0]}?")


def _number(value: str, name: str, place: str) -> int:
    if not value.strip().isdigit():
        raise FormatError(place, f"{name} {value!r} is no number")
    return int(value)


def _sasl(properties: Mapping[str, str], place: str) -> dict[str, Any]:
    mechanism = properties.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism == "GSSAPI" and find_spec("gssapi") is not None:
        # The library takes the ticket of `kinit`, or of the keytab that KRB5_CLIENT_KTNAME names.
        service = properties.get("sasl.kerberos.service.name", "kafka")
        return {"sasl_mechanism": mechanism, "sasl_kerberos_service_name": service}
    if mechanism == "GSSAPI":
        raise SettingsError(f"{place}: sasl.mechanism GSSAPI: {_NO_GSSAPI}; use {', '.join(_MECHANISMS)}")
    if mechanism == MSK_IAM:
        # The library takes credentials, profile and region from botocore: AWS_PROFILE, AWS_DEFAULT_REGION, an instance's role.
        if find_spec("botocore") is None:
            raise SettingsError(f"{place}: sasl.mechanism {MSK_IAM} needs botocore: pip install 'shunter[msk]'")
        if "awsProfileName" in properties.get("sasl.jaas.config", "") or "awsRoleArn" in properties.get(
            "sasl.jaas.config", ""
        ):
            raise SettingsError(
                f"{place}: sasl.jaas.config: name the profile or role by AWS_PROFILE and AWS's own files"
            )
        if properties["security.protocol"].upper() != "SASL_SSL":
            raise SettingsError(f"{place}: sasl.mechanism {MSK_IAM} needs security.protocol SASL_SSL")
        return {"sasl_mechanism": mechanism}
    if mechanism not in _MECHANISMS:
        raise SettingsError(f"{place}: sasl.mechanism {mechanism!r} is none of {', '.join(_MECHANISMS)}")
    said = properties.get("sasl.jaas.config", "")
    login = jaas_options(said, f"{place}: sasl.jaas.config") if said.strip() else {}
    if mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": mechanism, PROVIDER: bearer_login(properties, login, place)}
    if "username" not in login or "password" not in login:
        raise FormatError(place, 'sasl.jaas.config names no username="…" and password="…"')
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": login["username"],
        "sasl_plain_password": login["password"],
    }


class _Tls(TlsProperties):
    """One file's TLS settings."""

    def __init__(self, properties: Mapping[str, str], place: str) -> None:
        self._properties = properties
        self._place = place

    def find(self, name: str) -> str | None:
        return (self._properties.get(name) or "").strip() or None

    def refusal(self, name: str, told: str) -> SettingsError:
        return SettingsError(f"{self._place}: {name}: {told}")

    def settings(self) -> TlsSettings:
        asked = [text.strip() for text in (self.get("ssl.enabled.protocols") or ",".join(TLS_VERSIONS)).split(",")]
        return TlsSettings(
            self.store("keystore", ("key", "certificate.chain")),
            self.store("truststore", ("certificates",)),
            versions=self.tls_versions("ssl.enabled.protocols", asked),
            ciphers=self.ciphers("ssl.cipher.suites"),
            checks_host=bool(self._properties.get("ssl.endpoint.identification.algorithm", "https").strip()),
        )
