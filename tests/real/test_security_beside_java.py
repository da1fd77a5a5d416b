"""Certificates and logins that we take for good or bad are those that Kafka's own code accepts or refuses."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from certificate_cases import ACCEPTED, FOR, NOT_FOR, REFUSED, ROOT
from jaas_cases import MODULE, REFUSED_WHOLE, TAKEN
from jaas_cases import REFUSED as REFUSED_LOGINS
from lab.testbed.artifacts import ZOOKEEPER_MODE_VERSION, kafka_classpath
from lab.testbed.java import java_executable
from made_certificates import BOTH, NOW, SERVER, Made, issued
from shunter.formats.security.certificate_chain import faults_of, host_fault

pytestmark = pytest.mark.kraft


@pytest.fixture(scope="module")
def java() -> Iterator[Any]:
    [py4j] = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    jars = ":".join(map(str, kafka_classpath(ZOOKEEPER_MODE_VERSION)))
    port = launch_gateway(jarpath=str(py4j), classpath=jars, die_on_exit=True, java_path=str(java_executable()))
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    yield gateway.jvm
    gateway.shutdown()


def started(java: Any, shown: tuple[Made, ...], trusted: tuple[Made, ...], client_auth: str = "none") -> Any:
    """What an inter-broker listener makes of these stores.

    Raises:
        Py4JJavaError: it refuses them, and the broker would not start.
    """
    secret = java.org.apache.kafka.common.config.types.Password
    key, _, chain = shown[0].pem(*shown[1:]).partition("-----BEGIN CERTIFICATE-----")
    common = java.org.apache.kafka.common.security.ssl
    factory = common.SslFactory(java.org.apache.kafka.common.network.ConnectionMode.SERVER, None, True)
    factory.configure(
        {
            "ssl.protocol": "TLSv1.3",
            "ssl.enabled.protocols": ["TLSv1.2", "TLSv1.3"],
            "ssl.keymanager.algorithm": "SunX509",
            "ssl.trustmanager.algorithm": "PKIX",
            "ssl.endpoint.identification.algorithm": "https",
            "ssl.client.auth": client_auth,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": secret(key),
            "ssl.keystore.certificate.chain": secret(f"-----BEGIN CERTIFICATE-----{chain}"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": secret("".join(each.public for each in trusted)),
        }
    )
    return factory


@pytest.mark.parametrize("name", [*ACCEPTED, *REFUSED])
def test_a_broker_starts_with_what_we_accept_and_with_nothing_else(java: Any, name: str) -> None:
    shown, trusted = (ACCEPTED | REFUSED)[name][:2]
    if trusted is None:
        return
    if name in ACCEPTED:
        started(java, shown, trusted)
        return
    with pytest.raises(Py4JJavaError, match="can't connect to a server SSLEngine"):
        started(java, shown, trusted)


@pytest.mark.parametrize("usage", [SERVER, BOTH])
def test_where_clients_show_certificates_ours_has_to_be_for_both(java: Any, usage: Any) -> None:
    made = issued("x", ROOT, usage=usage)
    faults = list(faults_of((made.certificate,), (ROOT.certificate,), NOW, as_client=True))
    try:
        started(java, (made,), (ROOT,), "required")
    except Py4JJavaError:
        assert faults
    else:
        assert not faults


@pytest.mark.parametrize(("names", "host"), [each[:2] for each in (*FOR, *NOT_FOR)])
def test_hosts_are_checked_as_brokers_check_them(java: Any, tmp_path: Path, names: list[str], host: str) -> None:
    made = issued("x", ROOT, names=names)
    (tmp_path / "key.pem").write_text(made.pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "key.pem")

    def serve(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            accepted, _ = listening.accept()
            with accepted:
                accepted.settimeout(20)
                context.wrap_socket(accepted, server_side=True).close()

    factory = started(java, (issued("client", ROOT),), (ROOT,)).sslEngineFactory().sslContext().getSocketFactory()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)
        server = threading.Thread(target=serve, args=(listening,))
        server.start()
        plain = java.java.net.Socket("127.0.0.1", listening.getsockname()[1])
        client = factory.createSocket(plain, host, 9092, True)
        parameters = client.getSSLParameters()
        parameters.setEndpointIdentificationAlgorithm("https")
        client.setSSLParameters(parameters)
        try:
            client.startHandshake()
        except Py4JJavaError as refusal:
            accepted, told = False, str(refusal)
        else:
            accepted, told = True, ""
        client.close()
        server.join(10)
    assert (host_fault(made.certificate, host) is None) == accepted, told


@pytest.mark.parametrize("said", [*(MODULE + each for each in (*TAKEN, *REFUSED_LOGINS)), *REFUSED_WHOLE])
def test_logins_are_read_as_kafka_reads_them(java: Any, said: str) -> None:
    password = java.org.apache.kafka.common.config.types.Password(said)
    loaded = java.org.apache.kafka.common.security.JaasContext
    wanted = TAKEN.get(said.removeprefix(MODULE)) if said.startswith(MODULE) else None
    if wanted is None:
        with pytest.raises(Py4JJavaError, match="IllegalArgumentException"):
            loaded.loadClientContext({"sasl.jaas.config": password})
        return
    [entry] = loaded.loadClientContext({"sasl.jaas.config": password}).configurationEntries()
    assert dict(entry.getOptions()) == wanted
