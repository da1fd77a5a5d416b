"""The security settings in a broker's properties, and the settings that are refused by name."""

import pytest

from shunter.errors import SettingsError
from shunter.formats.server_properties import ServerProperties
from shunter.model.security.listeners import (
    BearerLogin,
    ClientAuth,
    ClientCredentials,
    SaslLogin,
    Secret,
    SecurityProtocol,
    TokenFile,
    TokenRules,
)
from shunter.model.security.principal import Principal

SECURED = {
    "listener.security.protocol.map": "INTERNAL:SASL_SSL, CLIENTS:SASL_PLAINTEXT,TLS:SSL,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.internal.plain.sasl.jaas.config": 'Module required username="me" password="p1" user_me="p1" user_you="p 2";',
    "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.clients.scram-sha-256.sasl.jaas.config": "Module required;",
    "listener.name.clients.connections.max.reauth.ms": "60000",
    "ssl.keystore.location": "/k.jks",
    "ssl.keystore.password": "p3",
    "listener.name.tls.ssl.keystore.location": "/other.pem",
    "listener.name.tls.ssl.keystore.type": "PEM",
    "listener.name.tls.ssl.client.auth": "required",
    "ssl.endpoint.identification.algorithm": "",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:me; User:CN=x,OU=y",
}
NAMES = ["CLIENTS", "TLS", "PLAINTEXT"]


def security(names=NAMES, **changes):
    changed = {**SECURED, **{name.replace("__", "."): value for name, value in changes.items()}}
    return ServerProperties({name: value for name, value in changed.items() if value is not None}, "f").security(names)


def test_each_listener_has_its_own_settings():
    found = security()
    assert {name: each.protocol for name, each in found.listeners.items()} == {
        "CLIENTS": SecurityProtocol.SASL_PLAINTEXT,
        "TLS": SecurityProtocol.SSL,
        "PLAINTEXT": SecurityProtocol.PLAINTEXT,
        "INTERNAL": SecurityProtocol.SASL_SSL,
    }
    internal, clients, tls = (found.of(name) for name in ("INTERNAL", "CLIENTS", "TLS"))
    assert internal.sasl.login == SaslLogin("PLAIN", "me", Secret("p1"))
    assert internal.sasl.plain_users == {"me": Secret("p1"), "you": Secret("p 2")}
    assert (clients.sasl.mechanisms, clients.sasl.login) == (("SCRAM-SHA-256", "SCRAM-SHA-512"), None)
    assert clients.sasl.max_reauth_ms == 60_000
    assert (internal.tls.key_store.location, tls.tls.key_store.location) == ("/k.jks", "/other.pem")
    assert (internal.tls.client_auth, tls.tls.client_auth) == (ClientAuth.NONE, ClientAuth.REQUIRED)
    assert not internal.tls.checks_host
    assert [found.of(name).authenticates for name in ("INTERNAL", "TLS", "PLAINTEXT", "unknown")] == [
        True,
        True,
        False,
        False,
    ]
    assert found.brokers_listener == "INTERNAL"
    assert found.acls.super_users == {Principal("User", "me"), Principal("User", "CN=x,OU=y")}
    assert not any(secret in repr(found) for secret in ("p1", "p 2", "p3"))


def test_the_control_plane_goes_first_and_its_name_is_needed_in_the_map():
    found = security(control__plane__listener__name="TLS")
    assert found.brokers_listener == "TLS"
    with pytest.raises(SettingsError, match="it has no protocol for listener OTHER"):
        security(names=["OTHER"])


def test_without_a_map_names_are_protocols_and_without_an_authorizer_there_are_no_acls():
    found = ServerProperties({}, "f").security(["PLAINTEXT"])
    assert (found.brokers_listener, found.acls) == ("PLAINTEXT", None)
    with pytest.raises(SettingsError, match="no protocol for listener INTERNAL"):
        ServerProperties({}, "f").security(["INTERNAL"])


TOKENS = {
    "sasl__enabled__mechanisms": "PLAIN,OAUTHBEARER",
    "oauthbearer__sasl__server__callback__handler__class": (
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler"
    ),
}


def test_which_tokens_are_good_is_said_as_to_a_broker():
    named = {
        "jwks__endpoint__url": "https://id.example.org/keys",
        "expected__audience": "kafka, other",
        "expected__issuer": "https://id.example.org",
        "sub__claim__name": "client_id",
        "clock__skew__seconds": "5",
    }
    found = security(**TOKENS, **{f"sasl__oauthbearer__{name}": value for name, value in named.items()})
    rules = found.of("INTERNAL").sasl.tokens
    assert rules == TokenRules(
        "https://id.example.org/keys", ("kafka", "other"), "https://id.example.org", "client_id", 5, 3_600_000
    )
    plain = "http://127.0.0.1/keys"
    allowed = {"org__apache__kafka__sasl__oauthbearer__allowed__urls": plain}
    found = security(**TOKENS, **allowed, sasl__oauthbearer__jwks__endpoint__url=plain)
    assert found.of("INTERNAL").sasl.tokens == TokenRules(plain)


URL = "https://id.example.org/token"
APACHE = "org.apache.kafka.common.security.oauthbearer."
BEARER = {
    "sasl__mechanism__inter__broker__protocol": "OAUTHBEARER",
    "oauthbearer__sasl__jaas__config": 'Module required clientId="me" clientSecret="p1" scope="kafka";',
    "oauthbearer__sasl__login__callback__handler__class": f"{APACHE}secured.OAuthBearerLoginCallbackHandler",
    "sasl__oauthbearer__token__endpoint__url": URL,
}


def test_where_our_own_token_comes_from_is_said_as_to_a_broker():
    here = {f"listener__name__internal__{name}": value for name, value in BEARER.items() if "mechanism" not in name}
    elsewhere = {"sasl__oauthbearer__token__endpoint__url": "https://elsewhere/token"}
    for said in (BEARER, {**BEARER, **elsewhere, **here}):
        login = security(**said).of("INTERNAL").sasl.login
        assert login == BearerLogin(ClientCredentials(URL, "me", Secret("p1"), "kafka"), {})
        assert "p1" not in repr(login)
    file = {
        "sasl__oauthbearer__token__endpoint__url": "file:/run/token",
        "oauthbearer__sasl__jaas__config": "Module required;",
    }
    assert security(**BEARER | file).of("INTERNAL").sasl.login.source == TokenFile("/run/token")
    assert security(**BEARER).of("CLIENTS").sasl.login is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"listener__security__protocol__map": "INTERNAL"}, "'INTERNAL' is not NAME:PROTOCOL"),
        (
            {"listener__security__protocol__map": "INTERNAL:TLS"},
            "'INTERNAL:TLS' is not NAME:PROTOCOL with one of PLAINTEXT",
        ),
        ({"authorizer__class__name": "org.example.Mine"}, "authorizer.class.name: org.example.Mine can't be run"),
        ({"super__users": "me"}, "super.users: principal 'me' is not of the form"),
        ({"principal__builder__class": "org.example.Mine"}, "principal.builder.class"),
        ({"ssl__engine__factory__class": "org.example.Mine"}, "ssl.engine.factory.class .*it is a Java class"),
        ({"ssl__keystore__password": "${file:/x:y}"}, "ssl.keystore.password .*are not followed"),
        ({"ssl__client__auth": "perhaps"}, "ssl.client.auth .*'perhaps' is none of none, requested, required"),
        ({"ssl__enabled__protocols": "TLSv1.1"}, "has none of TLSv1.2, TLSv1.3"),
        ({"ssl__keystore__location": None}, "ssl.keystore.location .*is not set"),
        ({"ssl__keystore__type": "BKS"}, "'BKS' is none of PEM, PKCS12, JKS"),
        ({"ssl__principal__mapping__rules": "RULE:x"}, "is neither DEFAULT nor RULE"),
        ({"sasl__enabled__mechanisms": "PLAIN,GSSAPI"}, "GSSAPI can't be served by the controller"),
        ({"sasl__enabled__mechanisms": None}, "GSSAPI can't be served by the controller"),
        (
            {"sasl__mechanism__inter__broker__protocol": None},
            "GSSAPI can't be spoken by the controller; use PLAIN, SCRAM",
        ),
        ({"sasl__mechanism__inter__broker__protocol": "OAUTHBEARER"}, "oauthbearer.sasl.jaas.config .*is not set"),
        (
            {**BEARER, "sasl__oauthbearer__token__endpoint__url": None},
            "clientId is not known here; name a token endpoint",
        ),
        (
            {**BEARER, "sasl__oauthbearer__token__endpoint__url": "http://id/token?k=planted"},
            "secret would go to http://id/token unencrypted; use https, or allow",
        ),
        (
            {**BEARER, "oauthbearer__sasl__login__callback__handler__class": "org.example.Mine"},
            "oauthbearer.sasl.login.callback.handler.class .*org.example.Mine is code in Java",
        ),
        (
            {"plain__sasl__server__callback__handler__class": "org.example.Ldap"},
            "plain.sasl.server.callback.handler.class .*org.example.Ldap is code in Java",
        ),
        ({"sasl__enabled__mechanisms": "PLAIN,OAUTHBEARER"}, "believed to be who his token says; set it to org.apache"),
        (TOKENS, "jwks.endpoint.url .*is not set"),
        (
            {**TOKENS, "sasl__oauthbearer__jwks__endpoint__url": "http://id/keys?k=planted"},
            "could sign tokens; use https, or allow it in org.apache.kafka.sasl.oauthbearer.allowed.urls",
        ),
        ({**TOKENS, "sasl__oauthbearer__jwks__endpoint__url": "ldap://id"}, "'ldap://id' is neither https"),
        (
            {**TOKENS, "oauthbearer__sasl__server__callback__handler__class": "org.example.Mine"},
            "org.example.Mine is code in Java",
        ),
        ({"listener__name__internal__plain__sasl__jaas__config": None}, "a JAAS file of Java's is not read"),
        ({"listener__name__internal__plain__sasl__jaas__config": "M required user_a=b;"}, "names no username"),
        (
            {"listener__name__clients__connections__max__reauth__ms": "soon"},
            "connections.max.reauth.ms .*'soon' is no number",
        ),
    ],
)
def test_what_can_not_be_done_as_it_says_is_refused_by_name(changes, told):
    with pytest.raises(SettingsError, match=told) as refused:
        security(**changes)
    assert str(refused.value).startswith("f: ")
    assert "p1" not in str(refused.value)


def test_addresses_and_empty_values():
    properties = ServerProperties({"listeners": "A://h:1, B://h:2,", "broker.rack": " "}, "f")
    assert properties.listeners("listeners") == ["A://h:1", "B://h:2"]
    assert properties.get("broker.rack") is None
    assert properties.listeners("advertised.listeners") == []
