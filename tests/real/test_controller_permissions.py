"""Permissions on a secured cluster: Shunter decides by its ACLs, in Kafka's codes, and lends no client its rights."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import ClusterAuthorizationFailedError, TopicAuthorizationFailedError
from secured_login import LoggedIn
from secured_yard import PASSWORDS, PLANTED, SecuredYard, secured_yard

from lab.testbed.waiting import wait_until
from shunter.drivers.brokers.relay import PASSED_ON
from shunter.drivers.listener.handlers.dispatch import HANDLERS
from shunter.drivers.listener.handlers.rights import CLUSTER_RIGHTS, EACH
from shunter.model.security.acl import Operation

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

CLUSTER_FAILED, TOPIC_FAILED, GROUP_FAILED = 31, 29, 30


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredYard]:
    with secured_yard(tmp_path_factory.mktemp("permissions"), brokers=(1,)) as made:
        yield made


def admin_of(yard: SecuredYard, user: str) -> KafkaAdminClient:
    return KafkaAdminClient(
        bootstrap_servers=yard.at("PEOPLE"),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username=user,
        sasl_plain_password=PASSWORDS[user],
    )


@pytest.fixture(scope="module")
def root(yard: SecuredYard) -> Iterator[LoggedIn]:
    with LoggedIn(yard.ports["PEOPLE"], "root", PASSWORDS["root"]) as connection:
        names = ("orders", "secret", "orders-2")
        topics = [
            {"name": name, "num_partitions": 2, "replication_factor": 1, "assignments": (), "configs": ()}
            for name in names
        ]
        made = connection.ask(19, 5, {"topics": topics, "timeout": 30_000, "validate_only": False})
        assert {topic.error_code.name for topic in made.topics} == {"none"}, made
        yield connection


@pytest.fixture
def ann(yard: SecuredYard, root: LoggedIn) -> Iterator[LoggedIn]:
    """A user without rights. After each test its ACLs are deleted, and the deletion is in force before the next."""
    with LoggedIn(yard.ports["PEOPLE"], "ann", PASSWORDS["ann"]) as connection:
        yield connection
        anything = {
            "resource_type_filter": 1,
            "resource_name_filter": None,
            "pattern_type_filter": 1,
            "host_filter": None,
        }
        of_ann = {**anything, "principal_filter": "User:ann", "operation": 1, "permission_type": 1}

        def gone() -> bool:
            """A broker deletes the ACLs that it knows. It may learn late of one that a test wrote into ZooKeeper."""
            root.ask(31, 3, {"filters": [of_ann]})
            return seen(connection) == set() and CLUSTER_FAILED in codes(connection.ask(46, *REQUESTS[46]))

        comes_true(gone, "ann has no rights")


def allow(
    root: LoggedIn,
    ann: LoggedIn,
    kind: int,
    name: str,
    operation: Operation,
    *,
    prefixed: bool = False,
    deny: bool = False,
) -> dict[str, object]:
    """Make an ACL for ann, through Shunter."""
    acl = {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": 4 if prefixed else 3,
        "principal": "User:ann",
        "host": "*",
        "operation": int(operation),
        "permission_type": 2 if deny else 3,
    }
    (made,) = root.ask(30, 3, {"creations": [acl]}).results
    assert made.error_code.name == "none", made
    return acl


def forbid_again(root: LoggedIn, acl: dict[str, object]) -> None:
    filtered = {
        "resource_type_filter": acl["resource_type"],
        "resource_name_filter": acl["resource_name"],
        "pattern_type_filter": acl["resource_pattern_type"],
        "principal_filter": acl["principal"],
        "host_filter": "*",
        "operation": acl["operation"],
        "permission_type": acl["permission_type"],
    }
    (gone,) = root.ask(31, 3, {"filters": [filtered]}).filter_results
    assert len(gone.matching_acls) == 1, gone


def seen(connection: LoggedIn) -> set[str]:
    answer = connection.ask(3, 9, {"topics": None, "allow_auto_topic_creation": False})
    return {topic.name for topic in answer.topics}


def comes_true(condition: object, what: str) -> None:
    wait_until(condition, what=what, timeout_s=60)  # type: ignore[arg-type]


def test_whoever_has_no_acl_sees_nothing_and_changes_nothing(root: LoggedIn, ann: LoggedIn) -> None:
    assert seen(root) >= {"orders", "secret"}
    assert seen(ann) == set()
    (told,) = ann.ask(3, 9, {"topics": [{"name": "orders"}], "allow_auto_topic_creation": False}).topics
    assert (told.error_code.value, told.partitions) == (TOPIC_FAILED, ())
    cluster = ann.ask(60, 0, {"include_cluster_authorized_operations": True})
    assert cluster.cluster_authorized_operations == 0
    assert root.ask(60, 0, {"include_cluster_authorized_operations": True}).cluster_authorized_operations == sum(
        1 << bit for bit in (5, 7, 8, 9, 10, 11, 12)
    )


REQUESTS = {
    7: (3, {"broker_id": 1, "broker_epoch": 1}),
    34: (2, {"dirs": [{"path": "/d", "topics": [{"name": "orders", "partitions": [0]}]}]}),
    35: (4, {"topics": None}),
    43: (2, {"election_type": 0, "topic_partitions": [{"topic": "orders", "partitions": [0]}], "timeout": 1_000}),
    45: (0, {"timeout": 1_000, "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": None}]}]}),
    46: (0, {"timeout": 1_000, "topics": None}),
    51: (0, {"deletions": [{"name": "carl", "mechanism": 1}], "upsertions": ()}),
    56: (3, {"broker_id": 1, "broker_epoch": 1, "topics": ()}),
    57: (1, {"timeout": 1_000, "feature_updates": (), "validate_only": True}),
    67: (0, {"broker_id": 1, "broker_epoch": 1}),
    29: (3, {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
             "host_filter": None, "operation": 1, "permission_type": 1}),
    30: (3, {"creations": [{"resource_type": 2, "resource_name": "x", "resource_pattern_type": 3, "principal": "User:x",
                            "host": "*", "operation": 2, "permission_type": 3}]}),
    31: (3, {"filters": [{"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
                          "principal_filter": "User:x", "host_filter": None, "operation": 1, "permission_type": 1}]}),
    48: (1, {"components": (), "strict": False}),
    49: (1, {"entries": [{"entity": [{"entity_type": "user", "entity_name": "x"}], "ops": ()}], "validate_only": True}),
    50: (0, {"users": None}),
}  # fmt: skip
"""A request of each API that needs a right on the cluster."""


def codes(answer: object) -> set[int]:
    """Every error code in an answer, at any depth."""
    found: set[int] = set()
    for name in getattr(answer, "__dataclass_fields__", {}):
        value = getattr(answer, name)
        if name == "error_code":
            found.add(value.value)
        for one in value if isinstance(value, tuple) else (value,):
            found |= codes(one)
    return found


@pytest.mark.parametrize("api_key", sorted(REQUESTS))
def test_each_api_needs_its_right_on_the_cluster_and_no_more(api_key: int, root: LoggedIn, ann: LoggedIn) -> None:
    version, values = REQUESTS[api_key]
    refused = codes(ann.ask(api_key, version, values))
    assert CLUSTER_FAILED in refused, refused
    acl = allow(root, ann, 4, "kafka-cluster", CLUSTER_RIGHTS[api_key])
    comes_true(lambda: CLUSTER_FAILED not in codes(ann.ask(api_key, version, values)), "the ACL counts")
    forbid_again(root, acl)
    comes_true(lambda: CLUSTER_FAILED in codes(ann.ask(api_key, version, values)), "and counts no more")


def test_every_api_has_its_right_and_every_right_is_tried() -> None:
    assert set(HANDLERS) <= CLUSTER_RIGHTS.keys() | EACH.keys()
    assert not CLUSTER_RIGHTS.keys() & EACH.keys()
    assert CLUSTER_RIGHTS.keys() | EACH.keys() <= set(HANDLERS) | PASSED_ON.keys()
    assert REQUESTS.keys() == CLUSTER_RIGHTS.keys()


def test_rights_on_topics(root: LoggedIn, ann: LoggedIn) -> None:
    read = allow(root, ann, 2, "orders", Operation.READ, prefixed=True)
    comes_true(lambda: seen(ann) == {"orders", "orders-2"}, "a prefix counts")
    told = ann.ask(
        3,
        9,
        {
            "topics": [{"name": "orders"}],
            "include_topic_authorized_operations": True,
            "allow_auto_topic_creation": False,
        },
    )
    assert told.topics[0].topic_authorized_operations == 1 << 3 | 1 << 8
    denied = allow(root, ann, 2, "orders-2", Operation.DESCRIBE, deny=True)
    comes_true(lambda: seen(ann) == {"orders"}, "to deny is stronger")
    alter = {
        "topics": [{"name": name, "count": 3, "assignments": None} for name in ("orders", "secret")],
        "timeout": 9_000,
    }
    results = ann.ask(37, 3, {**alter, "validate_only": True}).results
    assert {each.name: each.error_code.value for each in results} == {"orders": TOPIC_FAILED, "secret": TOPIC_FAILED}
    gone = ann.ask(20, 5, {"topic_names": ["orders"], "timeout": 1_000}).responses
    assert [each.error_code.value for each in gone] == [TOPIC_FAILED]
    new = {"name": "orders-3", "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    asked = {"topics": [new, {**new, "name": "other"}], "timeout": 9_000, "validate_only": True}
    create = allow(root, ann, 2, "orders", Operation.CREATE, prefixed=True)

    def created() -> dict[str, int]:
        return {each.name: each.error_code.value for each in ann.ask(19, 5, asked).topics}

    comes_true(lambda: created() == {"orders-3": 0, "other": TOPIC_FAILED}, "one may be made")
    (orders,) = [each for each in ann.ask(19, 5, asked).topics if each.name == "orders-3"]
    assert (orders.topic_config_error_code, orders.configs) == (TOPIC_FAILED, ()), "it may not read its settings"
    for acl in (read, denied, create):
        forbid_again(root, acl)


def test_settings_are_judged_one_by_one_and_no_broker_is_asked_in_our_name(root: LoggedIn, ann: LoggedIn) -> None:
    acl = allow(root, ann, 2, "orders", Operation.ALTER_CONFIGS)
    resources = [
        {"resource_type": 2, "resource_name": name, "configuration_keys": None} for name in ("orders", "secret")
    ]
    resources += [{"resource_type": 4, "resource_name": name, "configuration_keys": None} for name in ("1", "1000")]

    def described() -> dict[str, int]:
        results = ann.ask(32, 2, {"resources": resources, "include_synonyms": False}).results
        return {each.resource_name: each.error_code.value for each in results}

    expected = {"orders": 0, "secret": TOPIC_FAILED, "1": CLUSTER_FAILED, "1000": CLUSTER_FAILED}
    comes_true(lambda: described() == expected, "to alter settings implies to read them")
    change = [{"name": "retention.ms", "config_operation": 0, "value": "60000"}]
    altered = ann.ask(
        44,
        1,
        {
            "resources": [
                {"resource_type": 2, "resource_name": name, "configs": change} for name in ("orders", "secret")
            ],
            "validate_only": False,
        },
    )
    assert {each.resource_name: each.error_code.value for each in altered.responses} == {
        "orders": 0,
        "secret": TOPIC_FAILED,
    }
    forbid_again(root, acl)


def test_nothing_is_passed_on_that_can_not_be_judged(yard: SecuredYard, root: LoggedIn, ann: LoggedIn) -> None:
    token = {"renewers": (), "max_lifetime": -1}
    assert codes(root.ask(38, 1, {"renewers": (), "max_lifetime": -1})) == {64}, token
    assert codes(ann.ask(22, 1, {"transactional_id": None, "transaction_timeout": 1_000})) == {CLUSTER_FAILED}
    assert codes(ann.ask(22, 1, {"transactional_id": "t", "transaction_timeout": 1_000})) == {53}
    with LoggedIn(yard.ports["PEOPLE"], "ann", PASSWORDS["ann"]) as other:
        assert other.ask_or_none(2, 1, {"replica_id": -1, "topics": ()}) is None, (
            "ListOffsets has no place for an error"
        )


def test_coordinators_are_told_by_the_listener_that_was_asked(root: LoggedIn, ann: LoggedIn) -> None:
    acl = allow(root, ann, 3, "mine", Operation.READ)

    def found() -> dict[str, int]:
        answer = ann.ask(10, 4, {"key_type": 0, "coordinator_keys": ["mine", "theirs"]})
        return {each.key: each.error_code.value for each in answer.coordinators}

    # Brokers have no listener PEOPLE, so no answer on it gives the address of a coordinator.
    comes_true(lambda: found() == {"mine": 15, "theirs": GROUP_FAILED}, "one group may be asked for")
    forbid_again(root, acl)


def test_real_clients_are_told_in_words_that_they_know(yard: SecuredYard, root: LoggedIn) -> None:
    admin = admin_of(yard, "bob")
    try:
        with pytest.raises(TopicAuthorizationFailedError):
            admin.create_topics([NewTopic("no", 1, 1)])
        with pytest.raises(ClusterAuthorizationFailedError):
            admin.list_partition_reassignments()
    finally:
        admin.close()
    told = yard.tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", yard.login("bob"), "--list")
    assert told.returncode == 1
    assert "ClusterAuthorizationException" in told.stdout + told.stderr
    log = (yard.shunter.folder / "shunter-1000.log").read_text()
    denied = "Principal = User:bob is Denied Operation = Describe from host = 127.0.0.1 on resource = Cluster:LITERAL:kafka-cluster"
    assert denied in log
    assert PLANTED not in log


def test_no_password_is_in_anything_that_a_run_leaves(yard: SecuredYard, root: LoggedIn, ann: LoggedIn) -> None:
    assert codes(ann.ask(45, *REQUESTS[45])) == {CLUSTER_FAILED}
    kept = yard.shunter.folder / "kept"
    log = kept / "audit.log"  # The log is created with its first line.
    wait_until(lambda: log.is_file() and "User:ann" in log.read_text(), what="the refusal is audited", timeout_s=60)
    left = [path for path in yard.shunter.folder.rglob("*") if path.is_file()]
    assert len(left) >= 2, left
    assert [path for path in left if PLANTED in path.read_text(errors="replace")] == []
    assert {path.stat().st_mode & 0o777 for path in kept.iterdir()} == {0o600}
    assert kept.stat().st_mode & 0o777 == 0o700
    arguments = Path(f"/proc/{yard.shunter.process.pid}/cmdline").read_bytes().decode()
    assert "--server-properties" in arguments
    assert PLANTED not in arguments
    assert PLANTED in (yard.folder / "server.properties").read_text(), "it is where it was planted"


def test_an_acl_that_can_not_be_read_denies(yard: SecuredYard, root: LoggedIn, ann: LoggedIn) -> None:
    allow(root, ann, 2, "orders-2", Operation.READ)
    comes_true(lambda: seen(ann) == {"orders-2"}, "ann sees it")
    path = "/kafka-acl/Topic/orders-2"
    before = yard.zookeeper.get(path)[0]
    yard.zookeeper.set(path, b"{broken")
    yard.zookeeper.create("/kafka-acl-changes/acl_changes_", b"TOPIC:orders-2", sequence=True)
    comes_true(lambda: seen(ann) == set(), "what can't be read may deny")
    yard.zookeeper.set(path, before)
    comes_true(lambda: seen(ann) == {"orders-2"}, "it is looked at again by itself")
    # The broker does not look again by itself: it needs a notification.
    yard.zookeeper.create("/kafka-acl-changes/acl_changes_", b"TOPIC:orders-2", sequence=True)
