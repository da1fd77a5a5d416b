"""Key stores made by Java's keytool and by openssl, and subjects as Java prints them."""

import ssl
from pathlib import Path

import pyspark
import pytest
from certificates import PASSWORD, Certificates
from cryptography import x509
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from lab.testbed.artifacts import ZOOKEEPER_MODE_VERSION, kafka_classpath
from lab.testbed.java import java_executable
from lab.testbed.process import run_bounded
from shunter.drivers.security.tls import TlsContexts
from shunter.errors import FormatError, SettingsError
from shunter.formats.security.certificate_names import (
    _printed,  # the part that has to be as in Java
    mapping_rules,
    principal_name,
)
from shunter.formats.security.key_stores import read_key_store, read_trust_store
from shunter.model.security.listeners import ClientAuth, KeyStore, Secret, TlsSettings

pytestmark = pytest.mark.kraft

KEY_PASSWORD = "another-password"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    issued = Certificates(tmp_path_factory.mktemp("stores"))
    issued.issue("broker", password=KEY_PASSWORD)
    return issued


def keytool(folder: Path, command: str) -> None:
    done = run_bounded(["/usr/bin/env", "-C", str(folder), "keytool", *command.split()], timeout_s=60)
    assert done.returncode == 0, done.stdout + done.stderr


def stores(certificates: Certificates) -> dict[str, KeyStore]:
    folder = certificates.folder
    jks = certificates.java_store("broker", key_password=KEY_PASSWORD)
    keytool(
        folder,
        f"-importkeystore -srckeystore {jks} -srcstorepass {PASSWORD} -destkeystore broker.p12 -deststoretype PKCS12"
        f" -deststorepass {PASSWORD} -noprompt",
    )
    for kind in ("JKS", "PKCS12"):
        keytool(
            folder,
            f"-importcert -file authority.pem -alias ca -keystore trust.{kind} -storetype {kind} -storepass {PASSWORD} -noprompt",
        )
    password = Secret(PASSWORD)
    return {
        "jks": KeyStore("JKS", str(jks), password=password),
        "pkcs12": KeyStore("PKCS12", str(folder / "broker.p12"), password=password),
        "pkcs12 under the name of JKS": KeyStore("JKS", str(folder / "broker.p12"), password=password),
        "pem": KeyStore("PEM", str(folder / "broker.pem"), key_password=Secret(KEY_PASSWORD)),
        "trust jks": KeyStore("JKS", str(folder / "trust.JKS"), password=password),
        "trust pkcs12": KeyStore("PKCS12", str(folder / "trust.PKCS12"), password=password),
        "trust pem": KeyStore("PEM", str(certificates.authority)),
    }


def test_stores_of_every_kind_hold_the_same(certificates: Certificates) -> None:
    made = stores(certificates)
    pem = certificates.folder / "broker.pem"
    wanted = read_key_store(pem.read_bytes(), "pem", None, Secret(KEY_PASSWORD))
    for name in ("jks", "pkcs12", "pkcs12 under the name of JKS"):
        store = made[name]
        found = read_key_store(Path(store.location or "").read_bytes(), name, store.password, None)
        assert found.key.private_numbers() == wanted.key.private_numbers(), name
        assert found.chain == wanted.chain, name
        with pytest.raises(FormatError, match="password"):
            read_key_store(Path(store.location or "").read_bytes(), name, Secret("wrong"), None)
    authority = x509.load_pem_x509_certificate(certificates.authority.read_bytes())
    for name in ("trust jks", "trust pkcs12", "trust pem"):
        store = made[name]
        assert read_trust_store(Path(store.location or "").read_bytes(), name, store.password) == (authority,)
    for keys in ("jks", "pkcs12", "pem"):
        for trust in ("trust jks", "trust pkcs12", "trust pem"):
            contexts = TlsContexts(TlsSettings(made[keys], made[trust], ClientAuth.REQUIRED), "SSL")
            assert contexts.server.verify_mode is ssl.CERT_REQUIRED
            assert contexts.client.get_ca_certs()[0]["subject"] == ((("commonName", "authority"),),)


def test_what_is_wrong_with_a_store_is_told_without_its_password(certificates: Certificates) -> None:
    folder = certificates.folder
    (folder / "broken").write_bytes(b"\xfe\xed\xfe\xed\x00")
    (folder / "empty.pem").write_text("-----BEGIN NOTHING-----")
    cases = (
        (KeyStore("PEM", str(folder / "absent")), "can't be read: No such file"),
        (KeyStore("JKS", str(folder / "broken")), "ends before its content does"),
        (KeyStore("PEM", str(folder / "empty.pem")), "has no private key"),
        (KeyStore("PEM", str(folder / "broker.pem")), "ssl.key.password is not set"),
        (KeyStore("PEM", str(folder / "broker.pem"), key_password=Secret("tell-nobody")), "is ssl.key.password right?"),
        (KeyStore("PKCS12", str(folder / "names"), password=Secret("tell-nobody")), "is no PEM, PKCS12 or JKS store"),
    )
    for store, told in cases:
        with pytest.raises(SettingsError, match=told) as refused:
            TlsContexts(TlsSettings(store), "SSL")
        assert "tell-nobody" not in f"{refused.value!r} {refused.value} {store!r}"


SUBJECTS = [
    [("CN", "ann")],
    [("C", "DE"), ("O", "Acme, Inc."), ("OU", "a+b"), ("CN", ' #x "y" \\ <z>;=')],
    [("CN", "Käthe"), ("DC", "example"), ("UID", "k1"), ("STREET", "s"), ("L", "l"), ("ST", "st")],
    [("E", "ann@example.org"), ("CN", "ann"), ("SERIAL", "17"), ("TITLE", "x" * 60)],
]
OIDS = {
    "CN": "2.5.4.3", "C": "2.5.4.6", "L": "2.5.4.7", "ST": "2.5.4.8", "STREET": "2.5.4.9", "O": "2.5.4.10",
    "OU": "2.5.4.11", "UID": "0.9.2342.19200300.100.1.1", "DC": "0.9.2342.19200300.100.1.25",
    "E": "1.2.840.113549.1.9.1", "SERIAL": "2.5.4.5", "TITLE": "2.5.4.12",
}  # fmt: skip
RULES = [
    ("RULE:^CN=(.*?),.*$/$1/L,DEFAULT", "CN=Ann,OU=x"),
    ("RULE:^CN=(.*?),OU=(.*?)$/$2@$1/U,DEFAULT", "CN=Ann,OU=x"),
    ("RULE:^CN=(.*?),OU=(.*?)$/$1$12$9-$0/,DEFAULT", "CN=Ann,OU=x"),
    (r"RULE:^CN=(.*?)\/x$/$1\/y/,DEFAULT", "CN=Ann/x"),
    ("RULE:(.*)/<$1>/", "CN=Ann"),
    ("RULE:^OU=.*$/x/", "CN=Ann"),
    (" DEFAULT ", "CN=Ann"),
    (r"RULE:^CN=(\w+)$/$1/,DEFAULT", "CN=Zoë"),
    (r"RULE:^CN=(\w+)$/$1/,DEFAULT", "CN=Zoe"),
    (r"RULE:^CN=(\d+)$/$1/,DEFAULT", "CN=٣٤"),
    (r"RULE:^CN=(\S+)\s(.*)$/$1/,DEFAULT", "CN=a\u00a0b"),
    ("RULE:(?i)^cn=(k.*)$/$1/,DEFAULT", "CN=\u212aelvin"),
    ("RULE:(?i)^cn=(k.*)$/$1/,DEFAULT", "CN=Kelvin"),
    ("RULE:(?i)^cn=(ë.*)$/$1/,DEFAULT", "CN=Ëx"),
    ("RULE:^CN=(.*)$/$1/L", "CN=\u212aelvin"),
    ("RULE:^CN=(.*)$/$1/L", "CN=İx"),
    ("RULE:^CN=(.*)$/$1/L", "CN=ΟΔΟΣ"),
    ("RULE:^CN=(.*)$/$1/U", "CN=straße"),
]


def test_subjects_and_rules_are_javas(tmp_path: Path) -> None:
    [py4j] = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    jars = ":".join(map(str, kafka_classpath(ZOOKEEPER_MODE_VERSION)))
    port = launch_gateway(jarpath=str(py4j), classpath=jars, die_on_exit=True, java_path=str(java_executable()))
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    try:
        for parts in SUBJECTS:
            name = x509.Name([x509.NameAttribute(x509.ObjectIdentifier(OIDS[key]), value) for key, value in parts])
            principal = gateway.jvm.javax.security.auth.x500.X500Principal(name.public_bytes())
            ours = ",".join("+".join(map(_printed, rdn)) for rdn in reversed(name.rdns))
            assert ours == principal.getName()
        mapper = gateway.jvm.org.apache.kafka.common.security.ssl.SslPrincipalMapper
        for rules, subject in RULES:
            ours = principal_name(mapping_rules(rules), subject)
            if ours is None:
                with pytest.raises(Py4JJavaError, match="No rules apply"):
                    mapper.fromRules(rules).getName(subject)
            else:
                assert ours == mapper.fromRules(rules).getName(subject), rules
    finally:
        gateway.shutdown()
