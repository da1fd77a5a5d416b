"""SASL OAUTHBEARER in a client's or a broker's properties (KIP-255, KIP-768): where Shunter's token comes from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import quote_plus, urlsplit

from shunter.errors import SettingsError
from shunter.model.security.listeners import BearerLogin, ClientCredentials, Secret, TokenFile, UnsecuredToken

PROVIDER = "sasl_oauth_token_provider"
"""kafka-python's setting for its provider of tokens; until a client is made, a `BearerLogin` stands there."""
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""Kafka's system property for allowed endpoints (since 3.9.1). Here a property that allows endpoints without TLS."""
_CLAIM, _LIFETIME = "unsecuredLoginStringClaim_sub", "unsecuredLoginLifetimeSeconds"
_EXTENSIONS = ("extension_", "unsecuredLoginExtension_")
_NAMED_IN = {"clientId": "client.credentials.client.id", "clientSecret": "client.credentials.client.secret"}
"""Options of `sasl.jaas.config`, and the properties that took their place in Kafka 4.1 (KIP-1139)."""
_HANDLERS = ("OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler")
_APACHE = "org.apache.kafka."
LOGIN_HANDLER = "sasl.login.callback.handler.class"
_RETRIEVERS = ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")
_WAY_OUT = (
    f"name a token endpoint with clientId and clientSecret, or a file that others keep fresh, {_ENDPOINT}=file:/…"
)


def bearer_login(properties: Mapping[str, str], options: Mapping[str, str], place: str) -> BearerLogin:
    """Read how to get a token.

    Args:
        properties: The whole file.
        options: The options of `sasl.jaas.config`.
        place: The file, for errors.

    Raises:
        SettingsError: it needs Java code, or has an unknown option; the message names it, with the way out.
    """
    for setting, known in ((LOGIN_HANDLER, _HANDLERS), ("sasl.oauthbearer.jwt.retriever.class", _RETRIEVERS)):
        code = properties.get(setting, _APACHE + known[0])
        if not (code == known[0] or _is_apaches(code, known)):
            raise SettingsError(f"{place}: {setting} {code} is code in Java; {_WAY_OUT}")
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


def is_login_handler(code: str) -> bool:
    """Whether a class that gets tokens is one of Apache's, whose work Shunter does itself."""
    return _is_apaches(code, _HANDLERS)


def _is_apaches(code: str, known: Collection[str]) -> bool:
    return code.startswith(_APACHE) and code.rpartition(".")[2] in known


def shown(endpoint: str) -> str:
    """Name an endpoint without the parts that may be secret: a login, and the text behind `?`."""
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
    return ClientCredentials(endpoint, named["clientId"], Secret(named["clientSecret"]), scope or None)
