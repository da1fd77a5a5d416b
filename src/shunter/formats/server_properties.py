"""The security settings in a broker's `server.properties`.

A setting of one listener (`listener.name.internal.ssl.client.auth`) overrides that of all listeners
(`ssl.client.auth`). A setting that Shunter can't follow is refused by name, so that a controller is never less secure
than its brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from shunter.errors import FormatError, SettingsError
from shunter.formats.security.bearer_login import ALLOWED_URLS, LOGIN_HANDLER, bearer_login, is_login_handler, shown
from shunter.formats.security.certificate_names import mapping_rules
from shunter.formats.security.jaas import jaas_options
from shunter.formats.security.tls_properties import TLS_VERSIONS, TlsProperties
from shunter.model.security.listeners import (
    AUTHORIZERS,
    LOGIN_FRAME_BYTES,
    MECHANISMS,
    OAUTHBEARER,
    PLAIN,
    AclSettings,
    BearerLogin,
    ClientAuth,
    ListenerSecurity,
    SaslLogin,
    SaslSettings,
    Secret,
    SecurityProtocol,
    SecuritySettings,
    TlsSettings,
    TokenRules,
)
from shunter.model.security.principal import parse_principal

_REFUSED: Final[Mapping[str, str]] = {
    "principal.builder.class": "principals are built as Kafka does by default",
    "ssl.engine.factory.class": "it is a Java class; name stores by ssl.keystore.location and ssl.truststore.location",
    "sasl.server.callback.handler.class": "it is a Java class; PLAIN's users stand in sasl.jaas.config",
    "sasl.client.callback.handler.class": "it is a Java class; our login stands in sasl.jaas.config",
    "sasl.login.callback.handler.class": "it is a Java class; our login stands in sasl.jaas.config",
    "config.providers": "values have to stand in the file itself",
}
"""Settings that a broker follows and Shunter can't, and why."""
_VALIDATORS: Final = tuple(
    f"org.apache.kafka.common.security.oauthbearer.{place}OAuthBearerValidatorCallbackHandler"
    for place in ("", "secured.")
)
"""Kafka's own validator of tokens, since 3.1; the second is its older name. `drivers.token_validator` has its rules."""
_JWKS: Final = "sasl.oauthbearer.jwks.endpoint.url"


class ServerProperties:
    """Reads one file.

    Args:
        properties: as `parse_properties` returns them.
        place: the file, for refusals.
    """

    def __init__(self, properties: Mapping[str, str], place: str) -> None:
        self._properties = {name: value.strip() for name, value in properties.items()}
        self._place = place

    def get(self, name: str) -> str | None:
        """Return a setting of the whole broker; None if it is not set, or empty."""
        return self._properties.get(name) or None

    def listeners(self, name: str) -> list[str]:
        """Return the addresses of `listeners` or `advertised.listeners`."""
        return [text.strip() for text in (self.get(name) or "").split(",") if text.strip()]

    def security(self, opened: Iterable[str]) -> SecuritySettings:
        """Read the security of the controller's own listeners, and of the listener on which it speaks to brokers.

        Args:
            opened: names of the controller's listeners.

        Raises:
            SettingsError: a value can't be used, or Shunter can't do what it asks for.
        """
        inter_broker = self.get("inter.broker.listener.name") or self.get("security.inter.broker.protocol")
        control = self.get("control.plane.listener.name")
        brokers = (control or inter_broker or "PLAINTEXT").upper()
        names = dict.fromkeys((*(name.upper() for name in opened), brokers))
        protocols = self._protocols()
        listeners: dict[str, ListenerSecurity] = {}
        for name in names:
            if name not in protocols:
                known = ", ".join(protocols)
                raise self._refusal(
                    "listener.security.protocol.map", f"it has no protocol for listener {name} ({known})"
                )
            listeners[name] = self._listener(name, protocols[name], spoken=name == brokers)
        return SecuritySettings(listeners, brokers, (inter_broker or "PLAINTEXT").upper(), self._acls())

    def _protocols(self) -> dict[str, SecurityProtocol]:
        text = self.get("listener.security.protocol.map")
        if text is None:
            return {each.value: each for each in SecurityProtocol}
        found: dict[str, SecurityProtocol] = {}
        for entry in text.split(","):
            name, colon, protocol = (part.strip() for part in entry.partition(":"))
            try:
                found[name.upper()] = SecurityProtocol(protocol.upper())
            except ValueError:
                told = f"{entry.strip()!r} is not NAME:PROTOCOL with one of " + ", ".join(
                    p.value for p in SecurityProtocol
                )
                raise self._refusal("listener.security.protocol.map", told) from None
            if not colon:
                raise self._refusal("listener.security.protocol.map", f"{entry.strip()!r} is not NAME:PROTOCOL")
        return found

    def _listener(self, name: str, protocol: SecurityProtocol, *, spoken: bool) -> ListenerSecurity:
        of = _OneListener(self._properties, name, self._place)
        tls = of.tls() if protocol.encrypted else None
        sasl = of.sasl(spoken=spoken) if protocol.logs_in else None
        return ListenerSecurity(protocol, tls, sasl)

    def _acls(self) -> AclSettings | None:
        name = self.get("authorizer.class.name")
        if name is None:
            return None
        if name not in AUTHORIZERS:
            told = f"{name} can't be run by Shunter, which has the rules of {min(AUTHORIZERS, key=len)} built in"
            raise self._refusal("authorizer.class.name", told)
        try:
            users = [text.strip() for text in (self.get("super.users") or "").split(";") if text.strip()]
            super_users = frozenset(map(parse_principal, users))
        except SettingsError as refusal:
            raise self._refusal("super.users", str(refusal)) from None
        everyone = (self.get("allow.everyone.if.no.acl.found") or "false").lower() == "true"
        return AclSettings(super_users, everyone)

    def _refusal(self, name: str, told: str) -> SettingsError:
        return SettingsError(f"{self._place}: {name}: {told}")


class _OneListener(TlsProperties):
    """The settings of one listener."""

    def __init__(self, properties: Mapping[str, str], name: str, place: str) -> None:
        self._properties = properties
        self._prefix = f"listener.name.{name.lower()}."
        self._place = place
        for refused, why in _REFUSED.items():
            if self.get(refused) is not None:
                raise self.refusal(refused, why)

    def find(self, name: str) -> str | None:
        return self._properties.get(self._prefix + name) or self._properties.get(name) or None

    def refusal(self, name: str, told: str) -> SettingsError:
        return SettingsError(f"{self._place}: {name} (or {self._prefix}{name}): {told}")

    def tls(self) -> TlsSettings:
        words = [each.value for each in ClientAuth]
        client_auth = (self.get("ssl.client.auth") or "none").lower()
        if client_auth not in words:
            raise self.refusal("ssl.client.auth", f"{client_auth!r} is none of {', '.join(words)}")
        asked = [text.strip() for text in (self.get("ssl.enabled.protocols") or ",".join(TLS_VERSIONS)).split(",")]
        versions = self.tls_versions("ssl.enabled.protocols", asked)
        key_store = self.store("keystore", ("key", "certificate.chain"))
        if key_store is None:
            raise self.refusal("ssl.keystore.location", "is not set: who speaks TLS needs a key and a certificate")
        rules = self.get("ssl.principal.mapping.rules") or "DEFAULT"
        try:
            mapping_rules(rules)
        except FormatError as refusal:
            raise self.refusal("ssl.principal.mapping.rules", str(refusal)) from None
        ciphers = self.ciphers("ssl.cipher.suites")
        algorithm = self._properties.get(self._prefix + "ssl.endpoint.identification.algorithm")
        if algorithm is None:
            algorithm = self._properties.get("ssl.endpoint.identification.algorithm", "https")
        return TlsSettings(
            key_store,
            self.store("truststore", ("certificates",)),
            ClientAuth(client_auth),
            versions,
            ciphers,
            bool(algorithm.strip()),
            rules,
        )

    def sasl(self, *, spoken: bool) -> SaslSettings:
        mechanisms = [text.strip().upper() for text in (self.get("sasl.enabled.mechanisms") or "GSSAPI").split(",")]
        strange = [name for name in mechanisms if name not in MECHANISMS]
        if strange:
            told = f"{', '.join(strange)} can't be served by the controller; use {', '.join(MECHANISMS)}"
            raise self.refusal("sasl.enabled.mechanisms", told)
        for name in mechanisms:
            self._refuse_code_of(name)
        users: dict[str, Secret] = {}
        if PLAIN in mechanisms:
            options = self._jaas(PLAIN)
            users = {
                name.removeprefix("user_"): Secret(value) for name, value in options.items() if name.startswith("user_")
            }
        return SaslSettings(
            tuple(mechanisms),
            users,
            self._number(f"{mechanisms[0].lower()}.connections.max.reauth.ms", "connections.max.reauth.ms", 0),
            self._number("sasl.server.max.receive.size", "sasl.server.max.receive.size", LOGIN_FRAME_BYTES),
            self._login() if spoken else None,
            self._tokens() if OAUTHBEARER in mechanisms else None,
        )

    def _login(self) -> SaslLogin | BearerLogin:
        """Read how the controller logs in to brokers."""
        setting = "sasl.mechanism.inter.broker.protocol"
        mechanism = (self.get(setting) or "GSSAPI").upper()
        if mechanism not in MECHANISMS:
            raise self.refusal(setting, f"{mechanism} can't be spoken by the controller; use {', '.join(MECHANISMS)}")
        options = self._jaas(mechanism)
        if mechanism == OAUTHBEARER:
            self._refuse_code_of(mechanism)  # The controller may speak a mechanism that it does not serve.
            return bearer_login(self._as_a_clients(mechanism), options, self._place)
        if "username" not in options or "password" not in options:
            name = f"{mechanism.lower()}.sasl.jaas.config"
            raise self.refusal(name, 'names no username="…" and password="…" to log in to brokers with')
        return SaslLogin(mechanism, options["username"], Secret(options["password"]))

    def _as_a_clients(self, mechanism: str) -> dict[str, str]:
        """Return the settings of this listener under the names that a client's file has for them."""
        said = {name: value for name, value in self._properties.items() if value}
        own = {name.removeprefix(self._prefix): said[name] for name in said if name.startswith(self._prefix)}
        found = said | own
        handler = found.get(f"{mechanism.lower()}.{LOGIN_HANDLER}")
        return found if handler is None else {**found, LOGIN_HANDLER: handler}

    def _refuse_code_of(self, mechanism: str) -> None:
        """Refuse Java code by which a broker would judge logins of a mechanism: the controller can't run it."""
        for which in ("sasl.server.callback.handler.class", LOGIN_HANDLER, "sasl.login.class"):
            name = f"{mechanism.lower()}.{which}"
            code = self.get(name)
            known = {
                "sasl.server.callback.handler.class": code in _VALIDATORS,
                LOGIN_HANDLER: is_login_handler(code or ""),
            }
            if code is not None and not (mechanism == OAUTHBEARER and known.get(which)):
                raise self.refusal(name, f"{code} is code in Java, which the controller can't run")

    def _tokens(self) -> TokenRules:
        handler = "oauthbearer.sasl.server.callback.handler.class"
        if self.get(handler) is None:
            told = f"without it whoever comes is believed to be who his token says; set it to {_VALIDATORS[0]}"
            raise self.refusal(handler, told)
        url = self.get(_JWKS)
        if url is None:
            raise self.refusal(_JWKS, "is not set: nothing says which keys sign tokens")
        allowed = [each.strip() for each in (self.get(ALLOWED_URLS) or "").split(",")]
        if url.startswith("http://") and url not in allowed:
            told = f"whoever is between us and {shown(url)} could sign tokens; use https, or allow it in {ALLOWED_URLS}"
            raise self.refusal(_JWKS, told)
        if not url.startswith(("https://", "http://", "file:/")):
            raise self.refusal(_JWKS, f"{shown(url)!r} is neither https://HOST/… nor file:/…")
        audiences = (self.get("sasl.oauthbearer.expected.audience") or "").split(",")
        return TokenRules(
            url,
            tuple(each.strip() for each in audiences if each.strip()),
            self.get("sasl.oauthbearer.expected.issuer"),
            self.get("sasl.oauthbearer.sub.claim.name") or "sub",
            self._number("sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.clock.skew.seconds", 30),
            self._number(
                "sasl.oauthbearer.jwks.endpoint.refresh.ms", "sasl.oauthbearer.jwks.endpoint.refresh.ms", 3_600_000
            ),
        )

    def _jaas(self, mechanism: str) -> dict[str, str]:
        name = f"{mechanism.lower()}.sasl.jaas.config"
        text = self.get(name) or self.get("sasl.jaas.config")
        if text is None:
            raise self.refusal(name, "is not set; a JAAS file of Java's is not read: put its entry here, on one line")
        try:
            return jaas_options(text, name)
        except FormatError as refusal:
            raise self.refusal(name, refusal.rule) from None

    def _number(self, name: str, fallback: str, default: int) -> int:
        value = self.get(name) or self.get(fallback) or str(default)
        if not value.isdigit():
            raise self.refusal(fallback, f"{value!r} is no number")
        return int(value)
