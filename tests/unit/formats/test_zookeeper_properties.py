"""The security of the connection to ZooKeeper, from a broker's properties and its JAAS file."""

import pytest

from shunter.errors import SettingsError
from shunter.formats.zookeeper_properties import zookeeper_security
from shunter.model.security.listeners import PLAIN_ZOOKEEPER, KeyStore, Secret, ZooKeeperLogin

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
JAAS = f"""
// Client {{ not.this required; }};
KafkaServer {{ org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b}}"; }};
Client {{
  {MODULE} required /* password="old" */
  username="kafka"
  password="a//}}\\"secret";
}};
"""
FILE = {"java.security.auth.login.config": "/etc/jaas"}
TLS = {
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
    "zookeeper.ssl.keystore.location": "/keys.p12",
    "zookeeper.ssl.keystore.password": "k",
    "zookeeper.ssl.keystore.type": "pkcs12",
    "zookeeper.ssl.truststore.location": "/trust.jks",
    "zookeeper.ssl.truststore.password": "t",
}


def read(properties, jaas=None):
    return zookeeper_security(properties, "server.properties", jaas)


def test_without_any_of_it_zookeeper_is_open():
    assert read({"broker.id": "1", "zookeeper.connect": "zk:2181"}) == PLAIN_ZOOKEEPER


def test_tls_by_kafkas_names():
    tls = read(TLS).tls
    assert tls.key_store == KeyStore("PKCS12", "/keys.p12", None, Secret("k"), Secret("k"))
    assert tls.trust_store == KeyStore("JKS", "/trust.jks", None, Secret("t"), Secret("t"))
    assert tls.checks_host
    assert tls.versions == ("TLSv1.2", "TLSv1.3")
    assert not read({**TLS, "zookeeper.ssl.endpoint.identification.algorithm": ""}).tls.checks_host
    assert read({**TLS, "zookeeper.ssl.protocol": "TLSv1.2"}).tls.versions == ("TLSv1.2",)
    assert read({**TLS, "zookeeper.ssl.client.enable": "false"}).tls is None


def test_the_login_of_a_jaas_file():
    found = read(FILE, JAAS)
    assert found.sasl == ZooKeeperLogin("kafka", Secret('a//}"secret'))
    assert read({**FILE, "zookeeper.sasl.clientconfig": "Other"}, JAAS).sasl is None
    assert read({**FILE, "zookeeper.sasl.client": "false"}, JAAS).sasl is None
    assert "secret" not in repr(found)


def test_a_login_in_the_properties_themselves():
    inline = {"zookeeper.sasl.jaas.config": f'{MODULE} required username="kafka" password="p";'}
    assert read(inline).sasl == ZooKeeperLogin("kafka", Secret("p"))
    assert read(inline | FILE, JAAS).sasl.password == Secret("p")


def test_the_scheme_digest():
    digest = {"zookeeper.digest.user": "kafka", "zookeeper.digest.password": "p:q"}
    assert read(digest).digest == ZooKeeperLogin("kafka", Secret("p:q"))


@pytest.mark.parametrize("who", [TLS, {"zookeeper.sasl.jaas.config": f'{MODULE} required username="a" password="b";'}])
def test_what_we_make_is_ours_if_we_are_somebody(who):
    assert read({**who, "zookeeper.set.acl": "true"}).set_acl


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"zookeeper.set.acl": "true"}, "nothing says who we are"),
        ({"zookeeper.set.acl": "yes"}, "'yes' is neither true nor false"),
        ({**TLS, "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNIO"}, "speaks no TLS"),
        ({**TLS, "zookeeper.ssl.crl.enable": "true"}, "revoked"),
        ({**TLS, "zookeeper.ssl.ocsp.enable": "true"}, "revoked"),
        ({**TLS, "zookeeper.ssl.keystore.type": "BCFKS"}, "none of PEM, PKCS12, JKS"),
        ({**TLS, "zookeeper.ssl.enabled.protocols": "TLSv1.1"}, "has none of TLSv1.2"),
        ({**TLS, "zookeeper.ssl.endpoint.identification.algorithm": "LDAPS"}, "neither HTTPS nor empty"),
        ({**TLS, "zookeeper.ssl.keystore.password": "${file:/x:y}"}, "are not followed"),
        ({"zookeeper.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"}, "no GSSAPI"),
        ({"zookeeper.sasl.jaas.config": f'{MODULE} required username="a";'}, "names no username"),
        ({"zookeeper.ssl.client.enabled": "true"}, "did you mean zookeeper.ssl.client.enable"),
        ({**TLS, "zookeeper.ssl.keyStore.location": "/x"}, "did you mean zookeeper.ssl.keystore.location"),
        ({"zookeeper.digest.user": "a"}, "go together"),
        ({"zookeeper.digest.user": "a:b", "zookeeper.digest.password": "x"}, "has a colon"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(properties, told):
    with pytest.raises(SettingsError, match=told) as refusal:
        read(properties)
    name = max((name for name in properties if name in str(refusal.value)), default=None)
    assert name is not None
