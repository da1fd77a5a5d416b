"""A cluster whose ZooKeeper has TLS, SASL and ACLs, with real brokers, under Shunter: znodes' ACLs and hand-back."""

import json
import re
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from yard import cli
from zookeeper_place import LOGIN, PASSWORD, Place, secured_zookeeper

from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.server import properties_text
from lab.testbed.waiting import wait_until
from shunter.app.controller.broker_file import BrokerFile
from shunter.app.controller.zookeeper_security import zookeeper_access
from shunter.drivers.zookeeper.access import SecuredKazoo

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

SENSITIVE = re.compile("/config/users|/config/brokers|/delegation_token/tokens")


@dataclass
class Yard:
    """The cluster, its controller, and clients of its ZooKeeper."""

    place: Place
    cluster: ZooKeeperCluster
    shunter: ShunterController
    properties: Path
    zookeeper: SecuredKazoo

    def at(self, *more):
        return ("--zookeeper", self.place.secure, *more)


def broker_properties(place):
    own = place.certificates.folder
    return {
        "zookeeper.connect": place.secure,
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.keystore.location": own / "shunter.jks",
        "zookeeper.ssl.keystore.password": PASSWORD,
        "zookeeper.ssl.truststore.location": own / "authority.jks",
        "zookeeper.ssl.truststore.password": PASSWORD,
        "zookeeper.set.acl": "true",
        "zookeeper.connection.timeout.ms": 60_000,
    }


@pytest.fixture(scope="module")
def shared_yard(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secured")
    with secured_zookeeper(folder) as place:
        place.certificates.java_trust("authority")
        settings = broker_properties(place)
        file = folder / "server.properties"
        file.write_text(properties_text(settings | {"java.security.auth.login.config": place.jaas}))
        file.chmod(0o600)
        started = {}

        def prepare(cluster: ZooKeeperCluster, stack: ExitStack) -> None:
            options = (
                "--zookeeper",
                place.secure,
                "--server-properties",
                str(file),
                "--takeover",
                "preempt",
                "--log-level",
                "debug",
            )
            started["shunter"] = stack.enter_context(
                ShunterController(folder / "shunter", place.server.connect_string, options=options)
            )

        cluster = ZooKeeperCluster(
            folder / "cluster",
            broker_ids=(1, 2),
            zookeeper=place.server,
            properties=settings,
            java_options=(f"-Djava.security.auth.login.config={place.jaas}",),
            before_brokers=prepare,
        )
        with cluster:
            zookeeper = zookeeper_access(BrokerFile.read(file), None).opened(place.secure, 30)
            yield Yard(place, cluster, started["shunter"], file, zookeeper)
            zookeeper.stop()
            zookeeper.close()


@pytest.fixture
def yard(shared_yard):
    """The cluster under Shunter, which is started again if the test before handed the cluster back."""
    if not shared_yard.shunter.alive:
        shared_yard.shunter.start()
    return shared_yard


def every_path(zookeeper, path="/"):
    yield path
    for name in zookeeper.get_children(path):
        below = f"{path.rstrip('/')}/{name}"
        if below != "/zookeeper":
            yield from every_path(zookeeper, below)


def rights(zookeeper, path):
    """Rights on a znode by identity, without the certificate's name, so that brokers and Shunter look the same."""
    acls, _ = zookeeper.get_acls(path)
    return {f"{acl.id.scheme}:{acl.id.id}": acl.perms for acl in acls}


def expected(path):
    owner = {"sasl:kafka": 31, "x509:CN=shunter": 31}
    return owner if SENSITIVE.match(path) else {**owner, "world:anyone": 1}


def wrong_rights(zookeeper):
    """Znodes with other permissions than Apache's class would give them."""
    open_to_all = {"/", "/consumers"}
    return {
        path: found
        for path in every_path(zookeeper)
        if path not in open_to_all and (found := rights(zookeeper, path)) != expected(path)
    }


def create(bootstrap, name, replicas):
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_topics([NewTopic(name, replica_assignments={0: list(replicas)})])
    finally:
        admin.close()


def replicas_of(yard, topic):
    return json.loads(yard.zookeeper.get(f"/brokers/topics/{topic}")[0])["partitions"]["0"]


def move(yard, bootstrap, topic, target, folder):
    plan = folder / f"{topic}.json"
    entry = {"topic": topic, "partition": 0, "replicas": list(target)}
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    arguments = ("--bootstrap-server", bootstrap, "--reassignment-json-file", str(plan), "--execute")
    done = yard.cluster.kafka_tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until(lambda: replicas_of(yard, topic) == list(target), what=f"{topic} has moved", timeout_s=120)


def test_whatever_is_made_belongs_to_the_cluster(yard, tmp_path):
    """Topics, moves, settings and users made under Shunter have the permissions that Apache's brokers give them."""
    create(yard.shunter.bootstrap, "moved", (1,))
    move(yard, yard.shunter.bootstrap, "moved", (2,), tmp_path)
    add = ("--alter", "--add-config", "SCRAM-SHA-512=[password=a-password]")
    done = yard.cluster.kafka_tool(
        "kafka.admin.ConfigCommand",
        "--bootstrap-server", yard.shunter.bootstrap, *add, "--entity-type", "users", "--entity-name", "ann",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until(lambda: yard.zookeeper.exists("/config/users/ann"), what="ann is there", timeout_s=60)
    paths = set(every_path(yard.zookeeper))
    assert {"/controller", "/brokers/topics/moved/partitions/0/state", "/config/topics/moved"} <= paths
    assert wrong_rights(yard.zookeeper) == {}


def test_the_password_is_in_nothing_that_the_controller_leaves(yard):
    left = [path for path in yard.shunter.folder.rglob("*") if path.is_file()]
    assert left
    assert not [path for path in left if LOGIN.password.reveal().encode() in path.read_bytes()]


def test_the_check_of_somebody_who_may_not_and_of_somebody_who_may(yard, tmp_path):
    me = ("--listener", "PLAINTEXT://127.0.0.1:0", "--broker-id", "77")
    status, told = cli("controller", "--check", *yard.at(*me), "--server-properties", str(yard.properties))
    assert status == 0, told
    assert "does not let us" not in told
    status, told = cli("controller", "--check", "--zookeeper", yard.place.server.connect_string, *me)
    assert status == 1, told
    assert "/controller_epoch: ZooKeeper's ACL does not let us write" in told
    assert "log in as the brokers do" in told
    other = tmp_path / "other.properties"
    module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
    other.write_text(
        f'zookeeper.sasl.jaas.config={module} username="kafka" password="{LOGIN.password.reveal()}-not";\n'
    )
    secured = ("--server-properties", str(yard.properties), "--set", f"zookeeper_config={other}")
    status, told = cli("controller", "--check", *yard.at(*me), *secured)
    assert status == 1
    assert "does not let us in: " in told
    assert "wrong password, or no such user: 'kafka' (AUTH_FAILED" in told
    assert LOGIN.password.reveal() not in told


def test_tools_come_in_the_same_way(yard):
    told = cli("kafka-reassign-partitions", *yard.at("--zk-tls-config-file", str(yard.properties)), "--list")
    assert told == (0, "No partition reassignments found.\n")
    status, told = cli("kafka-reassign-partitions", "--zookeeper", yard.place.server.connect_string, "--cancel")
    assert status == 1
    assert "ZooKeeper's ACL does not let us create /admin/reassign_cancel: log in as the brokers do" in told
    observe = ("controller", "--observe", "--seconds", "5")
    _, told = cli(*observe, *yard.at("--server-properties", str(yard.properties)))
    assert "broker 1000, the controller, is a Shunter" in told, told


def test_a_broker_goes_on_with_what_shunter_made(yard, tmp_path):
    """Shunter hands the cluster back, and Apache's controller can change what Shunter made."""
    create(yard.shunter.bootstrap, "handed", (1,))
    back = ("--bootstrap-server", yard.cluster.bootstrap, "--timeout", "120")
    status, told = cli("hand-back", *yard.at("--zookeeper-config", str(yard.properties), *back))
    assert status == 0, told
    bootstrap = yard.cluster.bootstrap
    move(yard, bootstrap, "handed", (2,), tmp_path)
    assert wrong_rights(yard.zookeeper) == {}
