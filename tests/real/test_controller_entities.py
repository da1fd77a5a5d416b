"""Users' credentials, quotas, ACLs, tokens and finalized features while Shunter leads: as under Apache's controller."""

import json
import struct
import uuid

import pytest
from kazoo.security import make_acl
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader
from yard import cli, znode

from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.waiting import wait_until
from shunter.drivers.listener.handlers.messages import filled
from shunter.wire.framing import read_response_head, request_frame_head
from shunter.wire.requests import encode_message

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
CONFIGS = "kafka.admin.ConfigCommand"
SALTED = {"salt": b"a salt of the client's", "salted_password": bytes(range(32))}


def ask(port, api_key, version, **values):
    """Ask one node over a new connection."""
    import socket

    body = encode_message(filled(load_request_schema(api_key, version), values))
    with socket.create_connection(("127.0.0.1", port), timeout=30) as made:
        made.sendall(request_frame_head(api_key, version, 7, "test", len(body)) + body)
        frame = b""
        while len(frame) < 4 or len(frame) < 4 + struct.unpack(">i", frame[:4])[0]:
            received = made.recv(1 << 16)
            assert received, f"API {api_key}: the node closed the connection"
            frame += received
    _, offset = read_response_head(frame[4:], 1)
    return entity_reader(load_response_schema(api_key, version))(frame[4:], offset)[0]


def configs(yard, at, *options):
    done = yard.cluster.kafka_tool(CONFIGS, "--bootstrap-server", at, "--entity-type", "users", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_apaches_tool_sets_and_deletes_credentials_and_quotas(yard, zk):
    """At each node that is asked. A broker that did not write them describes them."""
    user = f"u-{uuid.uuid4().hex[:6]}"
    named = ("--entity-name", user)
    secret = "SCRAM-SHA-256=[iterations=4096,password=secret],SCRAM-SHA-512=[password=other]"
    configs(yard, yard.controller.address, "--alter", *named, "--add-config", secret)
    assert znode(zk, f"/config/users/{user}")["config"].keys() == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    configs(yard, yard.bootstrap, "--alter", *named, "--add-config", "consumer_byte_rate=2048")
    described = configs(yard, yard.bootstrap, "--describe", *named)
    assert "SCRAM-SHA-256=iterations=4096" in described
    assert "consumer_byte_rate=2048" in described
    configs(yard, yard.bootstrap, "--alter", *named, "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512")
    assert znode(zk, f"/config/users/{user}")["config"] == {"consumer_byte_rate": "2048"}
    configs(yard, yard.controller.address, "--alter", *named, "--delete-config", "consumer_byte_rate")
    assert user not in zk.get_children("/config/users")


def test_features_are_on_and_none_of_them_is_supported(yard, zk):
    """`kafka-features` against brokers of 3.9: as under Apache's controller, there is nothing to upgrade."""
    wait_until(lambda: zk.exists("/feature"), what="/feature is made", timeout_s=30)
    assert znode(zk, "/feature") == {"version": 2, "status": 1, "features": {}}
    answer = ask(
        yard.controller.port,
        57,
        1,
        feature_updates=[{"feature": "metadata.version", "max_version_level": 20, "upgrade_type": 1}],
        timeout=5_000,
    )
    (result,) = answer.results
    assert int(result.error_code) == 42
    assert "the provided feature is not supported" in result.error_message


def check(yard, *changed, listener="PLAINTEXT://127.0.0.1:0"):
    at = ("--zookeeper", yard.cluster.zookeeper_connect, "--listener", listener, "--broker-id", "77")
    status, output = cli("controller", "--check", "--json", *at, *changed)
    return status, {(each["level"], each["check"]): each["text"] for each in json.loads(output)["findings"]}


def test_the_check_says_what_would_be_in_the_way_and_changes_nothing(yard, zk):
    wait_until(lambda: zk.exists("/feature"), what="the controller has made /feature", timeout_s=60)
    before = sorted(zk.get_children("/")), zk.get("/controller")
    status, found = check(yard)
    assert status == 0, found
    assert found["warning", "controller"] == "broker 1000 leads now, and would go on"
    assert found["fine", "reachability"] == "4 of 4 brokers answer us"
    assert found["fine", "min.insync.replicas"] == "1, as the brokers have it"
    status, found = check(yard, "--broker-id", "1", "--set", "default_partitions=3", listener="OTHER://127.0.0.1:0")
    assert status == 1
    assert found["problem", "broker id"] == "a broker has the id 1"
    assert found["warning", "num.partitions"] == "the brokers have 1, and Shunter would decide by 3"
    status, found = check(yard, listener=f"PLAINTEXT://{yard.controller.address}")
    assert status == 1
    assert "can't be opened" in found["problem", "listener"]
    assert (sorted(zk.get_children("/")), zk.get("/controller")) == before


def test_defaults_are_compared_before_a_start_and_while_it_leads(yard):
    """A dynamic default of the cluster holds for Shunter and the brokers; a broker's start-up settings are compared."""

    def log():
        return yard.controller.log_tail(10_000)

    def set_default(value):
        operation = {"name": "min.insync.replicas", "config_operation": 0 if value else 1, "value": value}
        resource = {"resource_type": 4, "resource_name": "", "configs": [operation]}
        answer = ask(yard.cluster.brokers[1].port, 44, 1, resources=[resource], validate_only=False)
        assert [int(each.error_code) for each in answer.responses] == [0]

    set_default("2")
    try:
        wait_until(
            lambda: check(yard)[1].get(("fine", "min.insync.replicas")) == "2, as the brokers have it",
            what="all brokers have taken the dynamic default",
            timeout_s=60,
        )
        assert "min.insync.replicas: " not in log()
    finally:
        set_default(None)
    told = "default.replication.factor: the brokers have 1, and Shunter would decide by 3; set default_replication_factor=1"
    with yard.settings(default_replication_factor=3):
        wait_until(lambda: told in log(), what="the difference is told", timeout_s=30)
    wait_until(
        lambda: "default.replication.factor: no difference any more" in log(), what="its end is told", timeout_s=30
    )


@pytest.mark.parametrize(
    ("path", "rights", "lacking"),
    [("/brokers/topics", ("read",), "create children, delete children"), ("/feature", ("read", "write"), None)],
)
def test_the_check_sees_what_zookeepers_acls_forbid(yard, zk, path, rights, lacking):
    wait_until(lambda: zk.exists(path), what=f"the controller has made {path}", timeout_s=60)
    before, _ = zk.get_acls(path)
    granted = make_acl("world", "anyone", admin=True, **dict.fromkeys(rights, True))
    zk.set_acls(path, [granted])
    try:
        status, found = check(yard)
    finally:
        zk.set_acls(path, before)
    told = None if lacking is None else f"{path}: ZooKeeper's ACL does not let us {lacking}"
    assert found.get(("problem", "ZooKeeper")) == told
    assert status == (told is not None)


def requests_about_ann():
    upsertions = [
        {"name": "ann", "mechanism": 1, "iterations": 4096, **SALTED},
        {"name": "ann", "mechanism": 2, "iterations": 8192, **SALTED},
        {"name": "zoë b/c~*", "mechanism": 1, "iterations": 16384, **SALTED},
        {"name": "few", "mechanism": 1, "iterations": 1, **SALTED},
        {"name": "twice", "mechanism": 1, "iterations": 4096, **SALTED},
        {"name": "twice", "mechanism": 1, "iterations": 5000, **SALTED},
    ]
    deletions = [
        {"name": "", "mechanism": 1},
        {"name": "nobody", "mechanism": 1},
        {"name": "odd", "mechanism": 7},
    ]
    yield 51, 0, {"upsertions": upsertions, "deletions": deletions}
    yield 51, 0, {"upsertions": [], "deletions": [{"name": "ann", "mechanism": 1}]}
    yield 51, 0, {"upsertions": [], "deletions": [{"name": "ann", "mechanism": 1}]}
    yield 50, 0, {"users": [{"name": "ann"}, {"name": "nobody"}, {"name": "zoë b/c~*"}]}
    for level, upgrade in ((1, 1), (0, 2), (0, 1), (5, 9)):
        update = {"feature": "f", "max_version_level": level, "upgrade_type": upgrade}
        yield 57, 1, {"feature_updates": [update], "timeout": 5_000}


def told(answer):
    """An answer without order and times, in which any two controllers differ."""
    return (
        getattr(answer, "error_code", None),
        getattr(answer, "error_message", None),
        sorted(repr(result) for result in answer.results),
    )


def set_quota(broker, rate):
    """Send the request that `kafka-configs --entity-type clients` sends."""
    entity = [{"entity_type": "client-id", "entity_name": "test"}]
    ops = [{"key": "controller_mutation_rate", "value": rate or 0.0, "remove": rate is None}]
    answer = ask(broker, 49, 1, entries=[{"entity": entity, "ops": ops}], validate_only=False)
    assert [int(entry.error_code) for entry in answer.entries] == [0]


def throttled(broker, controller):
    """The answers to a client whose quota is used up, once the quota is in force."""
    set_quota(broker, 0.001)
    found = []

    def refused():
        names = [f"q-{uuid.uuid4().hex[:8]}" for _ in range(2)]
        topics = [{"name": name, "num_partitions": 2, "replication_factor": 1} for name in names]
        answer = ask(controller, 19, 7, topics=topics, timeout=10_000)
        found[:] = [(int(one.error_code), one.error_message) for one in answer.topics if int(one.error_code)]
        return found and answer.throttle_time.total_seconds() > 1_000

    wait_until(refused, what="the quota counts", timeout_s=60)
    set_quota(broker, None)
    return set(found)


def everything(zk):
    users = {user: znode(zk, f"/config/users/{user}") for user in zk.get_children("/config/users")}
    return users, znode(zk, "/feature")


@pytest.mark.timeout(600)
def test_field_by_field_it_is_what_apaches_controller_writes_and_answers(tmp_path):
    """The same requests to Shunter, and after it to Apache's broker that takes over."""
    from kazoo.client import KazooClient

    with ZooKeeperCluster(tmp_path, broker_ids=(1,), properties={"zookeeper.session.timeout.ms": 6000}) as cluster:
        zk = KazooClient(cluster.zookeeper_connect)
        zk.start()
        try:
            broker = cluster.brokers[1].port
            wait_until(lambda: znode(zk, "/controller"), what="Apache's broker leads", timeout_s=60)
            by_apache = [told(ask(broker, key, version, **asked)) for key, version, asked in requests_about_ann()]
            left_by_apache = everything(zk)
            throttled_by_apache = throttled(broker, broker)
            for user in zk.get_children("/config/users"):
                zk.delete(f"/config/users/{user}")
            zk.delete("/feature")
            with ShunterController(
                tmp_path / "shunter", cluster.zookeeper_connect, options=("--takeover", "preempt")
            ) as shunter:
                wait_until(shunter.is_leading, what="Shunter leads", timeout_s=60)
                wait_until(lambda: zk.exists("/feature"), what="/feature is made", timeout_s=30)
                by_shunter = [
                    told(ask(shunter.port, key, version, **asked)) for key, version, asked in requests_about_ann()
                ]
                left_by_shunter = everything(zk)
                throttled_by_shunter = throttled(broker, shunter.port)
        finally:
            zk.stop()
            zk.close()
    for theirs, ours in zip(by_apache, by_shunter, strict=True):
        assert ours == theirs
    assert left_by_shunter == left_by_apache
    assert throttled_by_shunter == throttled_by_apache
