"""SASL OAUTHBEARER in a client properties file (KIP-255, KIP-768): where the token comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote_plus, urlsplit

from shunter.errors import SettingsError

PROVIDER = "sasl_oauth_token_provider"
"""kafka-python's setting for who has tokens; a configuration that was only read has a `BearerLogin` there."""
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""Kafka's system property for endpoints that are allowed (since 3.9.1); here a property that allows those without TLS."""
_CLAIM, _LIFETIME = "unsecuredLoginStringClaim_sub", "unsecuredLoginLifetimeSeconds"
_EXTENSIONS = ("extension_", "unsecuredLoginExtension_")
_NAMED_IN = {"clientId": "client.credentials.client.id", "clientSecret": "client.credentials.client.secret"}
"""Options of `sasl.jaas.config`, and the properties that took their place in Kafka 4.1 (KIP-1139)."""
_HANDLERS = ("OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler")
_RETRIEVERS = ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")
_WAY_OUT = (
    f"name a token endpoint with clientId and clientSecret, or a file that others keep fresh, {_ENDPOINT}=file:/…"
)


class ClientCredentials(NamedTuple):
    """A token for whom a client id and a secret name, from an endpoint (RFC 6749, 4.4)."""

    endpoint: str
    client_id: str
    client_secret: str
    scope: str | None


class TokenFile(NamedTuple):
    """A token that others keep in a file."""

    path: str


class UnsecuredToken(NamedTuple):
    """A token of our own without a signature, for brokers that believe everybody; its lifetime in seconds."""

    subject: str
    lifetime_s: float


class BearerLogin(NamedTuple):
    """Where a token comes from, and what is told besides (KIP-342)."""

    source: ClientCredentials | TokenFile | UnsecuredToken
    extensions: Mapping[str, str]


def bearer_login(properties: Mapping[str, str], options: Mapping[str, str], place: str) -> BearerLogin:
    """Read how to come by a token.

    Args:
        properties: The whole file.
        options: Those of `sasl.jaas.config`.
        place: The file, for errors.

    Raises:
        SettingsError: it takes Java's code, or an option that nobody here knows; named, with the way out.
    """
    for setting, known in (("login.callback.handler", _HANDLERS), ("oauthbearer.jwt.retriever", _RETRIEVERS)):
        code = properties.get(f"sasl.{setting}.class", known[0])
        if not (code == known[0] or code.startswith("org.apache.kafka.")) or code.rpartition(".")[2] not in known:
            raise SettingsError(f"{place}: sasl.{setting}.class {code} is code in Java; {_WAY_OUT}")
    extensions = {
        name.removeprefix(prefix): value
        for prefix in _EXTENSIONS
        for name, value in options.items()
        if name.startswith(prefix)
    }
    known_options = {*_NAMED_IN, "scope"} if _ENDPOINT in properties else {_CLAIM, _LIFETIME}
    for name in options:
        if name not in known_options and not name.startswith(_EXTENSIONS):
            raise SettingsError(f"{place}: sasl.jaas.config: {name} is not known here; {_hint(name)}")
    if _ENDPOINT in properties:
        return BearerLogin(_from_endpoint(properties, options, place), extensions)
    if _CLAIM not in options:
        raise SettingsError(f"{place}: OAUTHBEARER: no token endpoint is named, and no {_CLAIM}; {_WAY_OUT}")
    lifetime = options.get(_LIFETIME, "3600")
    if not lifetime.isdigit() or not int(lifetime):
        raise SettingsError(f"{place}: sasl.jaas.config: {_LIFETIME} {lifetime!r} is no number of seconds")
    return BearerLogin(UnsecuredToken(options[_CLAIM], float(lifetime)), extensions)


def shown(endpoint: str) -> str:
    """Name an endpoint without what may be secret in it: a login, and what stands behind `?`."""
    parts = urlsplit(endpoint)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _hint(option: str) -> str:
    if option.startswith("ssl."):
        return "a token endpoint's certificate is checked by the authorities of this machine, or of SSL_CERT_FILE"
    return _WAY_OUT


def _from_endpoint(
    properties: Mapping[str, str], options: Mapping[str, str], place: str
) -> ClientCredentials | TokenFile:
    endpoint = properties[_ENDPOINT].strip()
    parts = urlsplit(endpoint)
    if parts.scheme == "file" and not parts.netloc and parts.path:
        return TokenFile(parts.path)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"{place}: {_ENDPOINT} {shown(endpoint)!r} is neither https://HOST/… nor file:/…")
    allowed = [url.strip() for url in properties.get(ALLOWED_URLS, "").split(",")]
    if parts.scheme == "http" and endpoint not in allowed:
        told = f"the client's secret would go to {shown(endpoint)} unencrypted"
        raise SettingsError(f"{place}: {_ENDPOINT}: {told}; use https, or allow the URL by name in {ALLOWED_URLS}")
    named = {
        option: properties.get(f"sasl.oauthbearer.{setting}", options.get(option, ""))
        for option, setting in _NAMED_IN.items()
    }
    for option, value in named.items():
        if not value:
            raise SettingsError(f'{place}: sasl.jaas.config names no {option}="…" for {shown(endpoint)}')
    if properties.get("sasl.oauthbearer.header.urlencode", "false").strip().lower() == "true":
        named = {option: quote_plus(value) for option, value in named.items()}
    scope = properties.get("sasl.oauthbearer.scope", options.get("scope", ""))
    return ClientCredentials(endpoint, named["clientId"], named["clientSecret"], scope or None)
