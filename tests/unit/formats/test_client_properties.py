"""Client properties as Apache's tools take them, JAAS as Kafka reads it, and what secures the way to ZooKeeper."""

from typing import Any

import pytest

from jaas_cases import MODULE, REFUSED, REFUSED_WHOLE, TAKEN
from shunter.errors import FormatError, SettingsError
from shunter.formats.client_properties import TLS, client_configuration, parse_properties
from shunter.formats.security.jaas import jaas_options
from shunter.formats.zookeeper_properties import zookeeper_security
from shunter.model.security.listeners import (
    PLAIN_ZOOKEEPER,
    BearerLogin,
    ClientCredentials,
    KeyStore,
    Secret,
    TlsSettings,
    TokenFile,
    UnsecuredToken,
    ZooKeeperLogin,
)

APACHE = "org.apache.kafka.common.security.oauthbearer."
DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"
JAAS = f"""
// Client {{ not.this required; }};
KafkaServer {{ org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b}}"; }};
Client {{
  {DIGEST} required /* password="old" */
  username="kafka"
  password="a//}}\\"secret";
}};
"""
FILE = {"java.security.auth.login.config": "/etc/jaas"}
WITH_TLS = {
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
    "zookeeper.ssl.keystore.location": "/keys.p12",
    "zookeeper.ssl.keystore.password": "k",
    "zookeeper.ssl.keystore.type": "pkcs12",
    "zookeeper.ssl.truststore.location": "/trust.jks",
    "zookeeper.ssl.truststore.password": "t",
}


def test_properties_are_read_as_java_reads_them() -> None:
    text = "# comment\n! another\na=1\nb : two\nc three \\\n   four\nd\\=e=f\\u0041\\n\nempty\n"
    assert parse_properties(text) == {"a": "1", "b": "two", "c": "three four", "d=e": "fA\n", "empty": ""}


def configured(**properties: str) -> dict[str, Any]:
    named = {name.replace("__", "."): value for name, value in properties.items()}
    return client_configuration(named, "a:1, b:2", "client.properties")


def test_scram_over_tls_with_a_client_certificate() -> None:
    made = configured(
        security__protocol="SASL_SSL",
        sasl__mechanism="SCRAM-SHA-512",
        sasl__jaas__config='org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p\\"w";',
        ssl__truststore__type="PEM",
        ssl__truststore__location="/ca.pem",
        ssl__keystore__type="PEM",
        ssl__keystore__location="/me.pem",
        ssl__key__password="k",
    )
    assert made["bootstrap_servers"] == ["a:1", "b:2"]
    assert (made["sasl_mechanism"], made["sasl_plain_username"], made["sasl_plain_password"]) == (
        "SCRAM-SHA-512",
        "u",
        'p"w',
    )
    assert made[TLS] == TlsSettings(
        KeyStore("PEM", "/me.pem", None, None, Secret("k")), KeyStore("PEM", "/ca.pem", None, None, Secret("k"))
    )


def test_java_stores_and_text_within_the_file_are_taken_as_java_takes_them() -> None:
    stores = {
        "ssl__keystore__type": "PKCS12",
        "ssl__keystore__location": "/user.p12",
        "ssl__keystore__password": "s",
        "ssl__truststore__location": "/ca.jks",
    }
    made = configured(security__protocol="SSL", **stores)[TLS]
    assert made.key_store == KeyStore("PKCS12", "/user.p12", None, Secret("s"), None)
    assert made.trust_store == KeyStore("JKS", "/ca.jks")
    text = {"ssl__keystore__key": "key", "ssl__keystore__certificate__chain": "chain", "ssl__keystore__type": "PEM"}
    assert configured(security__protocol="SSL", **text)[TLS].key_store == KeyStore("PEM", text=Secret("key\nchain"))


def test_iam_of_msk_needs_its_library_and_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"security__protocol": "SASL_SSL", "sasl__mechanism": "AWS_MSK_IAM"}
    monkeypatch.setattr("shunter.formats.client_properties.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"needs botocore: pip install 'shunter\[msk\]'"):
        configured(**asked)
    monkeypatch.setattr("shunter.formats.client_properties.find_spec", lambda name: object())
    assert configured(**asked)["sasl_mechanism"] == "AWS_MSK_IAM"
    with pytest.raises(SettingsError, match=r"needs security\.protocol SASL_SSL"):
        configured(**{**asked, "security__protocol": "SASL_PLAINTEXT"})
    with pytest.raises(SettingsError, match="name the profile or role by AWS_PROFILE"):
        configured(**asked, sasl__jaas__config='x.IAMLoginModule required awsProfileName="p";')


def test_host_names_go_unchecked_only_if_asked() -> None:
    made = configured(security__protocol="SSL", ssl__endpoint__identification__algorithm="")
    assert made[TLS].checks_host is False


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"security__protocol": "TLS"}, "security.protocol 'TLS' is none of"),
        ({"security__protocol": "SASL_SSL", "sasl__mechanism": "GSSAPI"}, "GSSAPI: it needs the Python package"),
        ({"security__protocol": "SASL_SSL", "sasl__mechanism": "PLAIN"}, "names no username"),
        (
            {"security__protocol": "SSL", "ssl__truststore__location": "/x", "ssl__truststore__type": "BCFKS"},
            "'BCFKS' is",
        ),
        ({"request__timeout__ms": "soon"}, "request.timeout.ms 'soon' is no number"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(properties: dict[str, str], told: str) -> None:
    with pytest.raises((SettingsError, FormatError), match=told):
        configured(**properties)


def test_kerberos_is_used_where_its_package_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shunter.formats.client_properties.find_spec", lambda name: object())
    made = configured(security__protocol="SASL_SSL", sasl__kerberos__service__name="broker")
    assert (made["sasl_mechanism"], made["sasl_kerberos_service_name"]) == ("GSSAPI", "broker")


def bearer(options: str, **properties: str) -> BearerLogin:
    made = configured(
        security__protocol="SASL_PLAINTEXT",
        sasl__mechanism="OAUTHBEARER",
        sasl__jaas__config=f"{APACHE}OAuthBearerLoginModule required {options};",
        **properties,
    )
    assert made["sasl_mechanism"] == "OAUTHBEARER"
    login = made["sasl_oauth_token_provider"]
    assert isinstance(login, BearerLogin)
    return login


URL = "https://id.example.org:8443/token"


def test_a_token_by_client_credentials_as_kafka_3_names_them() -> None:
    login = bearer(
        'clientId="me" clientSecret="se;cr\\"et" scope=kafka extension_logicalCluster="lkc-1"',
        sasl__oauthbearer__token__endpoint__url=URL,
        sasl__login__callback__handler__class=f"{APACHE}secured.OAuthBearerLoginCallbackHandler",
    )
    assert login == BearerLogin(ClientCredentials(URL, "me", Secret('se;cr"et'), "kafka"), {"logicalCluster": "lkc-1"})


def test_and_as_kafka_4_names_them() -> None:
    named = {
        "sasl__oauthbearer__client__credentials__client__id": "me@org",
        "sasl__oauthbearer__client__credentials__client__secret": "a b",
        "sasl__oauthbearer__header__urlencode": "true",
    }
    login = bearer("", sasl__oauthbearer__token__endpoint__url=URL, **named)
    assert login.source == ClientCredentials(URL, "me%40org", Secret("a+b"), None)


def test_a_token_from_a_file_and_one_of_our_own() -> None:
    assert bearer("", sasl__oauthbearer__token__endpoint__url="file:///run/token").source == TokenFile("/run/token")
    login = bearer('unsecuredLoginStringClaim_sub="me" unsecuredLoginLifetimeSeconds="60"')
    assert login.source == UnsecuredToken("me", 60.0)


def test_an_endpoint_without_tls_has_to_be_allowed_by_name() -> None:
    plain = "http://id.example.org/token?key=planted"
    options = "clientId=me clientSecret=s"
    with pytest.raises(SettingsError, match=r"unencrypted; use https, or allow .*allowed\.urls") as refused:
        bearer(options, sasl__oauthbearer__token__endpoint__url=plain)
    assert "planted" not in str(refused.value)
    allowed = {"org__apache__kafka__sasl__oauthbearer__allowed__urls": f"{URL}, {plain}"}
    login = bearer(options, sasl__oauthbearer__token__endpoint__url=plain, **allowed)
    assert login.source == ClientCredentials(plain, "me", Secret("s"), None)


@pytest.mark.parametrize(
    ("options", "properties", "told"),
    [
        ("", {}, "no token endpoint is named"),
        ("", {"token__endpoint__url": URL}, "names no clientId"),
        ("clientId=me", {"token__endpoint__url": URL}, "names no clientSecret"),
        ("clientId=me clientSecret=s", {"token__endpoint__url": "ldap://x"}, "neither http"),
        ('clientId=me ssl.truststore.location="/x"', {"token__endpoint__url": URL}, "SSL_CERT_FILE"),
        ("assertionFile=x", {"token__endpoint__url": URL}, "assertionFile is not known here; name a token endpoint"),
        ("", {"jwt__retriever__class": f"{APACHE}JwtBearerJwtRetriever"}, "is code in Java; name a token endpoint"),
        ("unsecuredLoginNumberClaim_x='1'", {}, "unsecuredLoginNumberClaim_x is not known here"),
        ("unsecuredLoginStringClaim_sub=x unsecuredLoginLifetimeSeconds=ever", {}, "is no number of seconds"),
    ],
)
def test_what_else_oauthbearer_may_be_is_refused_by_name(options: str, properties: dict[str, str], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        bearer(options, **{f"sasl__oauthbearer__{name}": value for name, value in properties.items()})


def test_code_in_java_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match=r"com\.example\.Login is code in Java; .*=file:/"):
        bearer("", sasl__login__callback__handler__class="com.example.Login")


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("security.protocl", "security.protocol"),
        ("sasl.mechanisms", "sasl.mechanism"),
        ("ssl.trustore.location", "ssl.truststore.location"),
        ("sasl.jaas.conf", "sasl.jaas.config"),
    ],
)
def test_a_misspelt_name_of_what_secures_the_connection_is_refused(misspelt: str, meant: str) -> None:
    """Decision 0080. If the name were passed over, the connection would be another than meant, even unsecured."""
    with pytest.raises(SettingsError, match=f"client.properties: {misspelt} is no setting; did you mean {meant}"):
        configured(**{misspelt: "SSL"})


def test_other_names_are_passed_over_as_apache_does() -> None:
    others = (
        "ssl.protocol",
        "sasl.login.class",
        "acks",
        "security.providers",
    )
    assert configured(**dict.fromkeys(others, "x"))["security_protocol"] == "PLAINTEXT"
    # If the right name is there as well, it counts.
    both = {"security.protocol": "SSL", "security.protocl": "PLAINTEXT"}
    assert configured(**both)["security_protocol"] == "SSL"


@pytest.mark.parametrize("said", TAKEN)
def test_what_kafka_takes(said):
    assert jaas_options(MODULE + said, "place") == TAKEN[said]


@pytest.mark.parametrize("flag", ["required", "REQUIRED", "Requisite", "sufficient", '"optional"'])
def test_every_flag(flag):
    assert jaas_options(f"'the module' {flag} u=x;", "place") == {"u": "x"}


@pytest.mark.parametrize("said", [*(MODULE + each for each in REFUSED), *REFUSED_WHOLE])
def test_what_kafka_refuses_is_refused_with_a_way_out(said):
    with pytest.raises(FormatError, match=r"^place: (is|has|does not) .*: (put|write|it may) "):
        jaas_options(said, "place")


def test_no_value_is_told():
    for said in ("u=planted@x;", 'u="planted', "planted@x=y;", "u=x planted;"):
        with pytest.raises(FormatError) as refused:
            jaas_options(MODULE + said, "place")
        assert "planted" not in str(refused.value)


def read(properties, jaas=None):
    return zookeeper_security(properties, "server.properties", jaas)


def test_without_any_of_it_zookeeper_is_open():
    assert read({"broker.id": "1", "zookeeper.connect": "zk:2181"}) == PLAIN_ZOOKEEPER


def test_tls_by_kafkas_names():
    tls = read(WITH_TLS).tls
    assert tls.key_store == KeyStore("PKCS12", "/keys.p12", None, Secret("k"), Secret("k"))
    assert tls.trust_store == KeyStore("JKS", "/trust.jks", None, Secret("t"), Secret("t"))
    assert tls.checks_host
    assert tls.versions == ("TLSv1.2", "TLSv1.3")
    assert not read({**WITH_TLS, "zookeeper.ssl.endpoint.identification.algorithm": ""}).tls.checks_host
    assert read({**WITH_TLS, "zookeeper.ssl.protocol": "TLSv1.2"}).tls.versions == ("TLSv1.2",)
    assert read({**WITH_TLS, "zookeeper.ssl.client.enable": "false"}).tls is None


def test_the_login_of_a_jaas_file():
    found = read(FILE, JAAS)
    assert found.sasl == ZooKeeperLogin("kafka", Secret('a//}"secret'))
    assert read({**FILE, "zookeeper.sasl.clientconfig": "Other"}, JAAS).sasl is None
    assert read({**FILE, "zookeeper.sasl.client": "false"}, JAAS).sasl is None
    assert "secret" not in repr(found)


def test_a_login_in_the_properties_themselves():
    inline = {"zookeeper.sasl.jaas.config": f'{DIGEST} required username="kafka" password="p";'}
    assert read(inline).sasl == ZooKeeperLogin("kafka", Secret("p"))
    assert read(inline | FILE, JAAS).sasl.password == Secret("p")


def test_the_scheme_digest():
    digest = {"zookeeper.digest.user": "kafka", "zookeeper.digest.password": "p:q"}
    assert read(digest).digest == ZooKeeperLogin("kafka", Secret("p:q"))


@pytest.mark.parametrize(
    "who", [WITH_TLS, {"zookeeper.sasl.jaas.config": f'{DIGEST} required username="a" password="b";'}]
)
def test_what_we_make_is_ours_if_we_are_somebody(who):
    assert read({**who, "zookeeper.set.acl": "true"}).set_acl


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"zookeeper.set.acl": "true"}, "nothing says who we are"),
        ({"zookeeper.set.acl": "yes"}, "'yes' is neither true nor false"),
        ({**WITH_TLS, "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNIO"}, "speaks no TLS"),
        ({**WITH_TLS, "zookeeper.ssl.crl.enable": "true"}, "revoked"),
        ({**WITH_TLS, "zookeeper.ssl.ocsp.enable": "true"}, "revoked"),
        ({**WITH_TLS, "zookeeper.ssl.keystore.type": "BCFKS"}, "none of PEM, PKCS12, JKS"),
        ({**WITH_TLS, "zookeeper.ssl.enabled.protocols": "TLSv1.1"}, "has none of TLSv1.2"),
        ({**WITH_TLS, "zookeeper.ssl.endpoint.identification.algorithm": "LDAPS"}, "neither HTTPS nor empty"),
        ({**WITH_TLS, "zookeeper.ssl.keystore.password": "${file:/x:y}"}, "are not followed"),
        ({"zookeeper.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"}, "no GSSAPI"),
        ({"zookeeper.sasl.jaas.config": f'{DIGEST} required username="a";'}, "names no username"),
        ({"zookeeper.ssl.client.enabled": "true"}, "did you mean zookeeper.ssl.client.enable"),
        ({**WITH_TLS, "zookeeper.ssl.keyStore.location": "/x"}, "did you mean zookeeper.ssl.keystore.location"),
        ({"zookeeper.digest.user": "a"}, "go together"),
        ({"zookeeper.digest.user": "a:b", "zookeeper.digest.password": "x"}, "has a colon"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(properties, told):
    with pytest.raises(SettingsError, match=told) as refusal:
        read(properties)
    name = max((name for name in properties if name in str(refusal.value)), default=None)
    assert name is not None
