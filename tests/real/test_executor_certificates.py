"""The executor with Apache's properties on a cluster that wants TLS client certificates, SCRAM over TLS, or OAuth."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import PASSWORD, Certificates
from executor_process import Cluster, Shunter, write_plan
from executor_scenarios import BROKERS
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType
from live_producer import fill
from tidying import Tidied

from lab.testbed import tools
from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.app.exit_codes import ExitCode
from token_endpoint import TokenEndpoint

pytestmark = [pytest.mark.kraft, pytest.mark.long, pytest.mark.timeout(400)]

KEY_PASSWORD = "a-key-password"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
TOKEN_LIVES_S = 12.0


@pytest.fixture(autouse=True)
def one_failure_stays_one(secured: KRaftCluster, tidied: Tidied) -> Iterator[None]:
    with tidied(secured.nodes, secured.bootstrap):
        yield


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    issued = Certificates(tmp_path_factory.mktemp("certificates"))
    issued.issue("broker")
    issued.issue("mover", password=KEY_PASSWORD)
    return issued


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[KRaftCluster]:
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.folder / "broker.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.authority,
        "listener.name.tls.ssl.client.auth": "required",
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.scram.scram-sha-512.sasl.jaas.config": f"{SCRAM};",
        # Without a validator of its own a broker accepts unsigned tokens, as long as they have not expired.
        "listener.name.bearer.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.bearer.oauthbearer.sasl.jaas.config": f'{BEARER} unsecuredLoginStringClaim_sub="broker";',
        # Sessions end with their tokens: the broker disconnects a client that shows no new one.
        "listener.name.bearer.oauthbearer.connections.max.reauth.ms": "3600000",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # Brokers among themselves, and the tests, use the plain listener.
        "super.users": "User:ANONYMOUS;User:CN=mover;User:mover",
    }
    cluster = KRaftCluster(
        tmp_path_factory.mktemp("secured"),
        node_ids=BROKERS,
        properties=properties,
        more_listeners={"TLS": "SSL", "SCRAM": "SASL_SSL", "BEARER": "SASL_PLAINTEXT"},
        heap_mib=200,
    )
    with cluster:
        for user in ("mover", "weak"):
            done = tools.kafka_tool(
                tools.CONFIGS,
                *("--bootstrap-server", cluster.bootstrap, "--alter", "--entity-type", "users", "--entity-name", user),
                *("--add-config", f"SCRAM-SHA-512=[password={user[0]}-secret]"),
                version=cluster.version,
            )
            assert done.returncode == 0, done.stdout + done.stderr
        yield cluster


@pytest.fixture(scope="module")
def cluster(secured: KRaftCluster) -> Iterator[Cluster]:
    made = Cluster(secured.bootstrap)
    made.make("t", {0: (1, 2)})
    yield made
    made.close()


def properties(folder: Path, **settings: object) -> str:
    path = folder / "client.properties"
    path.write_text("".join(f"{name.replace('__', '.')}={value}\n" for name, value in settings.items()))
    return str(path)


def moves(shunter: Shunter, cluster: Cluster, tmp_path: Path, config: str, throttle: str = "5M") -> None:
    """A whole execution, with a throttle, to the one of two targets at which the partition is not."""
    target = {0: (3, 2)} if cluster.replicas("t")[0] == (1, 2) else {0: (1, 2)}
    plan = str(write_plan(tmp_path / "plan.json", "t", target))
    done = shunter.run("execute", plan, "--yes", "--throttle", throttle, "--command-config", config, timeout_s=240)
    assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
    wait_until(lambda: cluster.replicas("t") == target, what="every broker telling the target", timeout_s=30)


def tls(certificates: Certificates, **more: object) -> dict[str, object]:
    return {
        "security__protocol": "SSL",
        "ssl__truststore__type": "PEM",
        "ssl__truststore__location": certificates.authority,
        **more,
    }


def test_a_client_certificate_with_an_encrypted_key(
    secured: KRaftCluster, cluster: Cluster, certificates: Certificates, tmp_path: Path
) -> None:
    shunter = Shunter(secured.bootstrap_of("TLS"), tmp_path / "moves.journal")
    mine: dict[str, object] = {
        "ssl__keystore__type": "PEM",
        "ssl__keystore__location": certificates.folder / "mover.pem",
        "ssl__key__password": KEY_PASSWORD,
    }
    moves(shunter, cluster, tmp_path, properties(tmp_path, **tls(certificates, **mine)))


def test_scram_over_tls(secured: KRaftCluster, cluster: Cluster, certificates: Certificates, tmp_path: Path) -> None:
    shunter = Shunter(secured.bootstrap_of("SCRAM"), tmp_path / "moves.journal")

    def login(password: str) -> str:
        more: dict[str, object] = {
            "sasl__mechanism": "SCRAM-SHA-512",
            "sasl__jaas__config": f'{SCRAM} username="mover" password="{password}";',
        }
        return properties(tmp_path, **{**tls(certificates, **more), "security__protocol": "SASL_SSL"})

    moves(shunter, cluster, tmp_path, login("m-secret"))
    refused = shunter.run("status", "--command-config", login("wrong"))
    assert refused.returncode == ExitCode.CLUSTER
    assert "does not let us in" in refused.stderr


def test_who_shows_no_certificate_is_told_so(secured: KRaftCluster, certificates: Certificates, tmp_path: Path) -> None:
    shunter = Shunter(secured.bootstrap_of("TLS"), tmp_path / "moves.journal")
    refused = shunter.run("status", "--command-config", properties(tmp_path, **tls(certificates)))
    assert refused.returncode == ExitCode.CLUSTER
    assert "client certificate (ssl.keystore.location)" in refused.stderr


@pytest.mark.parametrize("kind", ["JKS", "PKCS12", "text"])
def test_stores_are_taken_as_javas_clients_take_them(
    secured: KRaftCluster, cluster: Cluster, certificates: Certificates, tmp_path: Path, kind: str
) -> None:
    shunter = Shunter(secured.bootstrap_of("TLS"), tmp_path / "moves.journal")
    mine: dict[str, object] = {"ssl__keystore__password": PASSWORD}
    if kind == "JKS":
        mine["ssl__keystore__location"] = certificates.java_store("mover", key_password=KEY_PASSWORD)
    elif kind == "PKCS12":
        mine = {
            "ssl__keystore__type": "PKCS12",
            "ssl__keystore__location": certificates.pkcs12("mover", key_password=KEY_PASSWORD),
            "ssl__keystore__password": PASSWORD,
        }
    elif kind == "text":
        both = (certificates.folder / "mover.pem").read_text().replace("\n", "\\n")
        mine = {"ssl__keystore__type": "PEM", "ssl__keystore__key": both, "ssl__key__password": KEY_PASSWORD}
    moves(shunter, cluster, tmp_path, properties(tmp_path, **tls(certificates, **mine)))
    wrong = {**mine, "ssl__keystore__password" if kind != "text" else "ssl__key__password": "wrong"}
    refused = shunter.run("status", "--command-config", properties(tmp_path, **tls(certificates, **wrong)))
    assert refused.returncode == ExitCode.USAGE, refused.stderr
    assert "key store" in refused.stderr
    assert "Traceback" not in refused.stderr


def bearer(folder: Path, options: str, **more: object) -> str:
    named = {"security__protocol": "SASL_PLAINTEXT", "sasl__mechanism": "OAUTHBEARER"}
    return properties(folder, **named, sasl__jaas__config=f"{BEARER} {options};", **more)


def test_tokens_from_an_endpoint_are_renewed_in_the_middle_of_a_move(
    secured: KRaftCluster, cluster: Cluster, tmp_path: Path
) -> None:
    fill(secured.bootstrap, "t", 1, 5_000_000)
    shunter = Shunter(secured.bootstrap_of("BEARER"), topic="journal-by-token")
    with TokenEndpoint({"mover": "m-secret"}, lives_s=TOKEN_LIVES_S) as endpoint:
        named = {
            "sasl__oauthbearer__token__endpoint__url": endpoint.url,
            "org__apache__kafka__sasl__oauthbearer__allowed__urls": endpoint.url,
        }
        config = bearer(tmp_path, 'clientId="mover" clientSecret="m-secret" scope="kafka"', **named)
        # The Admin client and the journal's two clients: the session of each lasts longer than a token.
        moves(shunter, cluster, tmp_path, config, throttle="200K")
        assert len(endpoint.asked) > 3
        refused = shunter.run("status", "--command-config", bearer(tmp_path, "clientId=mover clientSecret=x", **named))
    assert refused.returncode == ExitCode.CLUSTER
    assert "answers 401" in refused.stderr


def test_a_token_that_nobody_signed_where_brokers_take_one(
    secured: KRaftCluster, cluster: Cluster, tmp_path: Path
) -> None:
    shunter = Shunter(secured.bootstrap_of("BEARER"), tmp_path / "moves.journal")
    moves(shunter, cluster, tmp_path, bearer(tmp_path, 'unsecuredLoginStringClaim_sub="mover"'))
    (tmp_path / "token").write_text("not a token")
    named = {"sasl__oauthbearer__token__endpoint__url": f"file:{tmp_path / 'token'}"}
    refused = shunter.run("status", "--command-config", bearer(tmp_path, "", **named))
    assert refused.returncode == ExitCode.CLUSTER
    assert "does not let us in" in refused.stderr


def allow(cluster: Cluster, operation: ACLOperation, kind: ResourceType, name: str) -> None:
    acl = ACL("User:weak", "*", operation, ACLPermissionType.ALLOW, ResourcePattern(kind, name))
    made = cluster.admin.create_acls([acl])
    assert not made["failed"], made
    wait_until(lambda: bool(cluster.admin.describe_acls(acl)[0]), what="a broker knowing the permission", timeout_s=30)


def test_where_a_throttle_is_refused_nothing_is_moved_and_none_of_it_stays(
    secured: KRaftCluster, cluster: Cluster, certificates: Certificates, tmp_path: Path
) -> None:
    """An executor that may move but not throttle would move at full speed."""
    shunter = Shunter(secured.bootstrap_of("SCRAM"), tmp_path / "moves.journal")
    jaas = f'{SCRAM} username="weak" password="w-secret";'
    said = {"security__protocol": "SASL_SSL", "sasl__mechanism": "SCRAM-SHA-512", "sasl__jaas__config": jaas}
    config = ("--command-config", properties(tmp_path, **tls(certificates, **said)))
    for operation in (ACLOperation.DESCRIBE, ACLOperation.ALTER, ACLOperation.DESCRIBE_CONFIGS):
        allow(cluster, operation, ResourceType.CLUSTER, "kafka-cluster")
        allow(cluster, operation, ResourceType.TOPIC, "guarded")
    allow(cluster, ACLOperation.READ, ResourceType.GROUP, "shunter-executor")
    cluster.make("guarded", {0: (1, 2)})
    plan = str(write_plan(tmp_path / "guarded.json", "guarded", {0: (3, 2)}))

    def untouched() -> bool:
        return cluster.ongoing() == 0 and cluster.replicas("guarded") == {0: (1, 2)}

    told = shunter.run("execute", plan, "--yes", "--throttle", "1M", *config)
    assert told.returncode == ExitCode.CLUSTER, told.stdout + told.stderr
    assert "AlterConfigs on Topic" in told.stdout + told.stderr
    assert untouched()
    assert cluster.throttles(BROKERS, ("guarded",)) == {}
    allow(cluster, ACLOperation.ALTER_CONFIGS, ResourceType.TOPIC, "guarded")
    # Now the lists of throttled replicas can be set, but not the rates.
    told = shunter.run("resume", *config)
    assert told.returncode == ExitCode.CLUSTER, told.stdout + told.stderr
    assert "AlterConfigs on Cluster" in told.stdout + told.stderr
    assert untouched()
    # An execution that can't go on can be stopped without more rights.
    ended = shunter.run("stop", *config)
    assert (ended.returncode, "1 stopped" in ended.stdout) == (ExitCode.DONE, True), ended.stdout + ended.stderr
    assert untouched()
    wait_until(lambda: cluster.throttles(BROKERS, ("guarded",)) == {}, what="no throttle", timeout_s=30)
    allow(cluster, ACLOperation.ALTER_CONFIGS, ResourceType.CLUSTER, "kafka-cluster")
    done = shunter.run("execute", plan, "--yes", "--throttle", "1M", *config)
    assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
    wait_until(lambda: cluster.replicas("guarded") == {0: (3, 2)}, what="every broker telling the target", timeout_s=30)
    wait_until(lambda: cluster.throttles(BROKERS, ("guarded",)) == {}, what="no throttle", timeout_s=30)
