"""Znodes: Shunter reads what it and Apache write, and a refusal of a broken znode names place and rule."""

import contextlib
import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FormatError
from shunter.formats.znodes import acls as acl_znodes
from shunter.formats.znodes import admin as admin_znodes
from shunter.formats.znodes import brokers as broker_znodes
from shunter.formats.znodes import configs as config_znodes
from shunter.formats.znodes import features as feature_znode
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes import reassignments as reassignment_znodes
from shunter.formats.znodes import topics as topic_znodes
from shunter.formats.znodes.brokers import ControllerRegistration, ProcessIdentity
from shunter.formats.znodes.crashes import decode_crashes, encode_crashes
from shunter.formats.znodes.text import WITHHELD
from shunter.model.broker import Broker, Endpoint
from shunter.model.crashes import RememberedCrash
from shunter.model.features import FinalizedFeatures
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Phase, Reassignment, Strategy
from shunter.model.security.acl import Acl, Operation, Permission, ResourcePattern, ResourceType
from shunter.model.security.principal import Principal
from shunter.model.topic import Topic

INT32 = 2**31 - 1
broker_ids = st.integers(0, INT32)
replica_lists = st.lists(broker_ids, unique=True, max_size=6).map(tuple)
some_replicas = st.lists(broker_ids, unique=True, min_size=1, max_size=6).map(tuple)
names = st.text("abcXYZ019._-", min_size=1, max_size=20)
topic_partitions = st.builds(TopicPartition, names, st.integers(0, INT32))
PLACE = "/kafka-acl/Topic/t"
CRASH = RememberedCrash(1_000, 61_000, 1, "BrokersRead#3", "KeyError: 'x'", (("partition", "t-0"), ("legacy", "")))


@st.composite
def assignments(draw):
    replicas = draw(some_replicas)
    motion = draw(st.lists(st.sampled_from((0, 1, 2)), min_size=len(replicas), max_size=len(replicas)))
    adding = tuple(broker for broker, way in zip(replicas, motion, strict=True) if way == 1)
    removing = tuple(broker for broker, way in zip(replicas, motion, strict=True) if way == 2)
    return ReplicaAssignment(replicas, adding, removing)


@st.composite
def leaderships(draw):
    isr = draw(replica_lists)
    leader = draw(st.sampled_from((*isr, -1, -2)))
    epochs = st.integers(0, INT32)
    target = draw(st.none() | replica_lists)
    return LeaderAndIsr(leader, draw(epochs), isr, draw(epochs), draw(epochs), draw(st.booleans()), target)


@given(st.dictionaries(st.integers(0, INT32), assignments(), max_size=5), st.none() | st.uuids(), st.integers(0, INT32))
def test_a_topic_is_read_back_as_written(partitions, topic_id, version):
    topic = Topic("t", topic_id, dict(sorted(partitions.items())), version)
    assert topic_znodes.decode_topic("t", topic_znodes.encode_topic(topic), version, {}) == topic


@given(leaderships())
def test_a_state_is_read_back_as_written(leadership):
    data = topic_znodes.encode_state(leadership)
    assert json.loads(data)["version"] == 1
    assert topic_znodes.decode_state("p", data, leadership.partition_epoch, {}) == leadership


def test_equal_replica_lists_are_one_object():
    shared = {}
    topic = topic_znodes.decode_topic("t", b'{"version":3,"partitions":{"0":[1,2],"1":[1,2]}}', 0, shared)
    state = topic_znodes.decode_state(
        "p", b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1,2]}', 0, shared
    )
    assert topic.assignments[0].replicas is topic.assignments[1].replicas is state.isr


def test_apaches_topic_versions_are_read():
    old = topic_znodes.decode_topic("t", b'{"version":1,"partitions":{"1":[2,1],"0":[1]}}', 7, {})
    assert old == Topic("t", None, {0: ReplicaAssignment((1,)), 1: ReplicaAssignment((2, 1))}, 7)
    assert list(old.assignments) == [0, 1]
    data = (
        b'{"removing_replicas":{"0":[1]},"partitions":{"0":[2,1]},"topic_id":"YWJjZGVmZ2hpamtsbW5vcA",'
        b'"adding_replicas":{"0":[2]},"version":3}'
    )
    expected = Topic("t", UUID(bytes=b"abcdefghijklmnop"), {0: ReplicaAssignment((2, 1), (2,), (1,))}, 0)
    assert topic_znodes.decode_topic("t", data, 0, {}) == expected


def test_unknown_fields_of_a_state_are_ignored():
    data = b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1],"note":{"x":1}}'
    assert topic_znodes.decode_state("p", data, 3, {}) == LeaderAndIsr(1, 0, (1,), 3, 1)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (None, "empty"),
        (b"", "empty"),
        (b"{", "is not JSON"),
        (b"[]", "list where an object"),
        (b'{"version":4,"partitions":{}}', "version 4 is unknown"),
        (b'{"version":"3","partitions":{}}', "version '3' is unknown"),
        (b'{"partitions":{}}', "version None is unknown"),
        (b'{"version":3}', "partitions is None"),
        (b"(NoAuth)", "may not be read by us"),
        (b'{"version":3,"partitions":{"0":[-4294967296]}}', "names broker -4294967296"),
        (b'{"version":3,"partitions":{"0":[4294967296]}}', "names broker 4294967296"),
        (b'{"version":3,"partitions":{"0":["1"]}}', "list of broker ids"),
        (b'{"version":3,"partitions":{"0":[true]}}', "list of broker ids"),
        (b'{"version":3,"partitions":{"0":1}}', "list of broker ids"),
        (b'{"version":3,"partitions":{"00":[1]}}', "'00' is not a number"),
        (b'{"version":3,"partitions":{"x":[1]}}', "'x' is not a number"),
        (b'{"version":3,"partitions":{"0":[1]},"topic_id":"short"}', "topic_id is 'short'"),
        (b'{"version":3,"partitions":{"0":[1]},"topic_id":"!!!!!!!!!!!!!!!!!!!!!!"}', "url-safe base64"),
    ],
)
def test_a_broken_topic_is_named(data, rule):
    with pytest.raises(FormatError) as refusal:
        topic_znodes.decode_topic("t", data, 0, {})
    assert refusal.value.place == "/brokers/topics/t"
    assert rule in refusal.value.rule


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"version": 2}, "version 2 is unknown"),
        ({"leader": "1"}, "whole numbers"),
        ({"leader": True}, "whole numbers"),
        ({"leader": 3}, "leader 3 is not in the isr [1, 2]"),
        ({"leader": -3}, "leader -3 is not in the isr"),
        ({"leader_epoch": 2**31}, "out of range"),
        ({"controller_epoch": -1}, "out of range"),
        ({"isr": None}, "list of broker ids"),
        ({"isr": [1, 1]}, "repeats broker 1"),
        ({"leader_recovery_state": 2}, "leader_recovery_state is 2"),
        ({"targetReplicas": [1, "2"]}, "targetReplicas"),
    ],
)
def test_a_broken_state_is_named(change, rule):
    good = {"version": 1, "leader": 1, "leader_epoch": 0, "controller_epoch": 1, "isr": [1, 2]}
    with pytest.raises(FormatError) as refusal:
        topic_znodes.decode_state("/some/state", json.dumps(good | change).encode(), 0, {})
    assert refusal.value.place == "/some/state"
    assert rule in refusal.value.rule


@given(st.binary(max_size=60))
def test_bytes_of_any_kind_never_raise_anything_but_a_format_error(data):
    for decode in (
        lambda: topic_znodes.decode_topic("t", data, 0, {}),
        lambda: topic_znodes.decode_state("p", data, 0, {}),
        lambda: broker_znodes.decode_broker("1", data, 0),
        lambda: broker_znodes.decode_controller(data),
        lambda: broker_znodes.decode_controller_epoch(data),
        lambda: broker_znodes.decode_cluster_id(data),
        lambda: broker_znodes.decode_migration_owner(data),
        lambda: feature_znode.decode_features(data),
        lambda: broker_znodes.decode_process(data, "p"),
        lambda: config_znodes.decode_config("p", data),
        lambda: config_znodes.decode_config_change("p", data),
        lambda: admin_znodes.decode_legacy_reassignments(data, 0),
        lambda: admin_znodes.decode_partitions("p", data),
        lambda: admin_znodes.decode_log_dir_event("p", data),
        lambda: admin_znodes.decode_producer_id_block(data),
        lambda: reassignment_znodes.decode_reassignment("p", data, version=0, czxid=0),
        lambda: reassignment_znodes.decode_owed_deletions("p", data, 0),
        lambda: reassignment_znodes.decode_owed_replicas("p", data, 0),
        lambda: broker_znodes.decode_controller_id("100", data),
    ):
        with contextlib.suppress(FormatError):
            decode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
GOOD = {
    "topic": {"version": 3, "partitions": {"0": [1]}, "adding_replicas": {}, "removing_replicas": {}},
    "state": {"version": 1, "leader": 1, "leader_epoch": 0, "controller_epoch": 1, "isr": [1]},
    "broker": {
        "version": 5, "host": "h", "port": 1, "endpoints": ["PLAINTEXT://h:1"], "features": {"f": {}}, "rack": "r",
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"}, "shunter_process": {"pid": 1},
    },
    "move": {
        "version": 1, "original": [1], "target": [2], "strategy": "incremental", "phase": "moving",
        "written": {"replicas": [1], "adding": [], "removing": []}, "accepted_at_ms": 1, "top": 1, "legacy": False,
    },
    "legacy": {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]},
}  # fmt: skip
DECODERS = {
    "topic": lambda data: topic_znodes.decode_topic("t", data, 0, {}),
    "state": lambda data: topic_znodes.decode_state("p", data, 0, {}),
    "broker": lambda data: (broker_znodes.decode_broker("1", data, 0), broker_znodes.decode_process(data, "p")),
    "move": lambda data: reassignment_znodes.decode_reassignment("p", data, version=0, czxid=0),
    "legacy": lambda data: admin_znodes.decode_legacy_reassignments(data, 0),
}


@given(st.sampled_from(sorted(GOOD)), st.data(), json_values)
def test_a_field_of_any_other_kind_never_raises_anything_but_a_format_error(kind, data, value):
    field = data.draw(st.sampled_from(sorted(GOOD[kind])))
    with contextlib.suppress(FormatError):
        DECODERS[kind](json.dumps(GOOD[kind] | {field: value}).encode())


listeners = st.text("ABCDEFGHIJ_", min_size=1, max_size=8)
endpoints = st.builds(
    Endpoint,
    listeners,
    st.sampled_from(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    st.sampled_from(("localhost", "10.0.0.1", "::1", "a-b.c_d")),
    st.integers(0, 65535),
)


@given(
    st.lists(endpoints, max_size=3, unique_by=lambda endpoint: endpoint.listener),
    st.none() | st.text(max_size=5),
    st.integers(0, 2**40),
)
def test_a_registration_is_read_back_as_written(listed, rack, epoch):
    broker = Broker(7, epoch, tuple(listed), rack, (("feature", 1, 3),))
    process = ProcessIdentity("boot", "pid:[1]", 4, 5)
    data = broker_znodes.encode_broker(broker, timestamp_ms=1, process=process)
    assert broker_znodes.decode_broker("7", data, epoch) == broker
    assert broker_znodes.decode_process(data, "p") == process


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"version": 1, "host": "h", "port": 9092, "jmx_port": -1}, ("PLAINTEXT", "PLAINTEXT", "h", 9092)),
        ({"version": 2, "endpoints": ["SSL://h:1"], "jmx_port": -1}, ("SSL", "SSL", "h", 1)),
        ({"version": 3, "endpoints": ["PLAINTEXT://[::1]:1"]}, ("PLAINTEXT", "PLAINTEXT", "::1", 1)),
        (
            {"version": 4, "endpoints": ["IN://h:1"], "listener_security_protocol_map": {"IN": "SASL_SSL"}},
            ("IN", "SASL_SSL", "h", 1),
        ),
    ],
)
def test_older_registrations_are_read(document, expected):
    broker = broker_znodes.decode_broker("3", json.dumps(document).encode(), 9)
    assert broker == Broker(3, 9, (Endpoint(*expected),))


@pytest.mark.parametrize(
    ("name", "change", "rule"),
    [
        ("x", {}, "'x' is not a number"),
        ("1", {"version": 6}, "version 6 is unknown"),
        ("1", {"endpoints": "PLAINTEXT://h:1"}, "list of texts"),
        ("1", {"endpoints": ["h:1"]}, "LISTENER://host:port"),
        ("1", {"endpoints": ["PLAINTEXT://h:70000"]}, "LISTENER://host:port"),
        ("1", {"endpoints": ["INTERNAL://h:1"]}, "security protocol 'INTERNAL'"),
        ("1", {"rack": 4}, "rack is 4"),
        ("1", {"features": {"f": {"min_version": 1}}}, "max_version is None"),
    ],
)
def test_a_broken_registration_is_named(name, change, rule):
    with pytest.raises(FormatError) as refusal:
        broker_znodes.decode_broker(name, json.dumps(GOOD["broker"] | {"features": {}} | change).encode(), 0)
    assert refusal.value.place == f"/brokers/ids/{name}"
    assert rule in refusal.value.rule


def test_the_controller_is_read_in_both_versions():
    ours = broker_znodes.encode_controller(4, timestamp_ms=12)
    assert json.loads(ours) == {"version": 2, "brokerid": 4, "timestamp": "12", "kraftControllerEpoch": -1}
    assert broker_znodes.decode_controller(ours) == ControllerRegistration(4)
    assert broker_znodes.decode_controller(b'{"version":1,"brokerid":2,"timestamp":"1"}') == ControllerRegistration(2)
    kraft = b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":5}'
    assert broker_znodes.decode_controller(kraft) == ControllerRegistration(3000, 5)


def test_small_znodes_are_read_back_as_written():
    assert broker_znodes.decode_controller_epoch(broker_znodes.encode_controller_epoch(17)) == 17
    assert broker_znodes.decode_cluster_id(broker_znodes.encode_cluster_id("abc")) == "abc"
    block = admin_znodes.ProducerIdBlock(1, 1000, 1999)
    data = admin_znodes.encode_producer_id_block(block)
    assert json.loads(data) == {"version": 1, "broker": 1, "block_start": "1000", "block_end": "1999"}
    assert admin_znodes.decode_producer_id_block(data) == block
    assert admin_znodes.decode_producer_id_block(None) is None
    assert admin_znodes.decode_log_dir_event("p", admin_znodes.encode_log_dir_event(5)) == 5
    change = config_znodes.ConfigChange("topics", "t")
    assert config_znodes.decode_config_change("p", config_znodes.encode_config_change(change)) == change
    old = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    assert config_znodes.decode_config_change("p", old) == change
    nested = config_znodes.decode_config_change("p", b'{"version":2,"entity_path":"users/u/clients/c"}')
    assert nested == config_znodes.ConfigChange("users", "u/clients/c")
    assert config_znodes.decode_config("p", None) == {}
    migration = {"version": 0, "kraft_controller_id": 3000, "kraft_controller_epoch": 1}
    assert broker_znodes.decode_migration_owner(json.dumps(migration).encode()) == 3000


@pytest.mark.parametrize(
    ("data", "features"),
    [
        (b'{"version":2,"status":1,"features":{"f":{"max_version_level":7}}}', FinalizedFeatures(2, True, {"f": 7})),
        (
            b'{"version":1,"status":1,"features":{"f":{"max_version_level":7,"min_version_level":7}}}',
            FinalizedFeatures(1, True, {"f": 7}),
        ),
        (b'{"version":1,"status":0,"features":{}}', FinalizedFeatures(1, False)),
    ],
)
def test_features_are_read_and_written_in_both_layouts(data, features):
    assert feature_znode.decode_features(data) == features
    assert json.loads(feature_znode.encode_features(features)) == json.loads(data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":3,"status":1,"features":{}}',
        b'{"version":2,"features":{}}',
        b'{"version":2,"status":2,"features":{}}',
        b'{"version":2,"status":1,"features":{"f":{"max_version_level":0}}}',
        b'{"version":1,"status":1,"features":{"f":{"max_version_level":1}}}',
        b'{"version":1,"status":1,"features":{"f":{"max_version_level":1,"min_version_level":2}}}',
    ],
)
def test_features_that_apache_refuses_are_refused(data):
    with pytest.raises(FormatError, match="/feature"):
        feature_znode.decode_features(data)


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8), max_size=4))
def test_configs_are_read_back_as_written(configs):
    assert config_znodes.decode_config("p", config_znodes.encode_config(configs)) == configs


def test_a_broken_config_or_change_is_named():
    with pytest.raises(FormatError, match="value 5 of a is not a text"):
        config_znodes.decode_config("p", b'{"version":1,"config":{"a":5}}')
    with pytest.raises(FormatError, match="does not begin with one of"):
        config_znodes.decode_config_change("p", b'{"version":2,"entity_path":"nonsense/x"}')
    with pytest.raises(FormatError, match="version 3 is unknown"):
        config_znodes.decode_config_change("p", b'{"version":3,"entity_path":"topics/x"}')


@given(st.dictionaries(topic_partitions, st.tuples(replica_lists, st.none() | replica_lists), max_size=4))
def test_legacy_reassignments_are_read_back_as_written(wanted):
    targets = {tp: target for tp, (target, _) in wanted.items()}
    originals = {tp: original for tp, (_, original) in wanted.items() if original is not None}
    data = admin_znodes.encode_legacy_reassignments(targets.items(), originals)
    found = admin_znodes.decode_legacy_reassignments(data, 4)
    assert (found.targets, found.originals, found.version) == (targets, originals, 4)


def test_legacy_reassignments_carry_no_field_that_apache_refuses():
    data = admin_znodes.encode_legacy_reassignments([(TopicPartition("t", 0), (1, 2))])
    assert json.loads(data) == {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}


def test_of_a_partition_named_twice_the_last_entry_counts():
    entries = [
        {"topic": "t", "partition": 0, "replicas": [1], "original_replicas": [5]},
        {"topic": "t", "partition": 0, "replicas": [2]},
    ]
    found = admin_znodes.decode_legacy_reassignments(json.dumps({"partitions": entries}).encode(), 0)
    assert found.targets == {TopicPartition("t", 0): (2,)}
    assert found.originals == {}


@given(st.lists(topic_partitions, unique=True, max_size=4))
def test_lists_of_partitions_are_read_back_as_written(partitions):
    data = admin_znodes.encode_partitions(partitions)
    assert admin_znodes.decode_partitions("p", data) == tuple(partitions)


times = st.integers(0, 2**60)
moves = st.builds(
    Reassignment,
    topic_id=st.none() | st.uuids(),
    original=replica_lists,
    target=replica_lists,
    strategy=st.sampled_from(Strategy),
    phase=st.sampled_from(Phase),
    written=assignments(),
    accepted_at_ms=times,
    top=st.integers(0, 10),
    changes=st.integers(0, INT32),
    legacy=st.booleans(),
    forced=st.booleans(),
    relaxed_since_ms=st.none() | times,
    version=st.integers(0, INT32),
    czxid=times,
)


@given(moves)
def test_a_move_is_read_back_as_written(move):
    data = reassignment_znodes.encode_reassignment(move)
    assert reassignment_znodes.decode_reassignment("p", data, version=move.version, czxid=move.czxid) == move


@given(st.lists(st.tuples(topic_partitions, st.integers(0, INT32)), max_size=4).map(tuple))
def test_owed_deletions_are_read_back_as_written(owed):
    data = reassignment_znodes.encode_owed_deletions(owed)
    assert reassignment_znodes.decode_owed_deletions("p", data, 3) == (owed, 3)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"version": 2}, "version 2 is unknown"),
        ({"strategy": "fast"}, "strategy 'fast' is not one of incremental, all-at-once"),
        ({"phase": None}, "phase is None"),
        ({"written": {}}, "written replicas is None"),
        ({"legacy": 1}, "legacy is 1"),
        ({"top": -1}, "top is -1, outside 0"),
    ],
)
def test_a_broken_move_is_named(change, rule):
    with pytest.raises(FormatError) as refusal:
        reassignment_znodes.decode_reassignment(
            "/admin/reassignments/t/0", json.dumps(GOOD["move"] | change).encode(), version=0, czxid=0
        )
    assert refusal.value.place == "/admin/reassignments/t/0"
    assert rule in refusal.value.rule


def test_paths():
    tp = TopicPartition("t", 3)
    assert znodes.state("t", 3) == f"{znodes.partition(tp)}/state" == "/brokers/topics/t/partitions/3/state"
    assert znodes.reassignment(tp) == "/admin/reassignments/t/3"
    assert znodes.config("topics", "t") == "/config/topics/t"


@given(topic_id=st.none() | st.uuids(), owed=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), unique=True))
def test_owed_replicas_are_read_back_as_written(topic_id, owed):
    entries = tuple(sorted((number, wanted, (number, number + 1)) for number, wanted in owed))
    data = reassignment_znodes.encode_owed_replicas(topic_id, entries)
    assert reassignment_znodes.decode_owed_replicas("p", data, 3) == (topic_id, entries, 3)


def test_a_controllers_id_is_read_back_as_written():
    assert broker_znodes.decode_controller_id("100", broker_znodes.encode_controller_id()) == 100


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("x", b'{"version":1}', "broker id 'x' is not a number from 0 to 2147483647"),
        ("-1", b'{"version":1}', "broker id '-1' is not a number"),
        ("007", b'{"version":1}', "broker id '007' is not a number"),
        ("100", b'{"version":2}', "version 2 is unknown"),
        ("100", b"{}", "version None is unknown"),
        ("100", b"nonsense", "is not JSON"),
        ("100", b"", "is empty"),
        ("100", None, "is empty"),
    ],
)
def test_a_controllers_id_that_cant_be_read_is_told(name, data, told):
    with pytest.raises(FormatError) as refusal:
        broker_znodes.decode_controller_id(name, data)
    assert refusal.value.place == f"/admin/shunter/controllers/{name}"
    assert refusal.value.rule.startswith(told)


def test_a_target_of_the_legacy_znode_may_be_one_that_the_core_refuses():
    """One bad entry must not hold the others."""
    data = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,1]},{"topic":"t","partition":1,"replicas":[-1]}]}'
    found = admin_znodes.decode_legacy_reassignments(data, 0)
    assert list(found.targets.values()) == [(1, 1), (-1,)]
    with pytest.raises(FormatError, match="expected"):
        admin_znodes.decode_legacy_reassignments(data.replace(b"-1", b'"1"'), 0)


@pytest.mark.parametrize(
    ("partitions", "adding", "removing", "read", "told"),
    [
        ([1, 1, 2], {}, {}, ((1, 2), (), ()), "replicas of partition 0 [1, 1, 2] repeat a broker: each counts once"),
        ([1, 2], {"0": [3]}, {}, ((1, 2), (), ()), "adding [3] and removing [] of partition 0 are not disjoint parts"),
        ([1, 2, 3], {"0": [3, 3]}, {}, ((1, 2, 3), (3,), ()), "adding replicas of partition 0 [3, 3] repeat a broker"),
        ([1, 2, 3], {"0": [3]}, {"0": [1, 3, 9]}, ((1, 2, 3), (), (1, 3)), "removing [1, 3, 9] of partition 0"),
        ([1, 2], {"1": [1]}, {}, ((1, 2), (), ()), "adding [1] and removing [] of partition 1 are not disjoint parts"),
    ],
)
def test_a_topic_that_contradicts_itself_is_read_and_told(partitions, adding, removing, read, told):
    """Apache's controller serves such topics. A topic that can't be read could not be deleted by a tool."""
    document = {
        "version": 3,
        "partitions": {"0": partitions},
        "adding_replicas": adding,
        "removing_replicas": removing,
    }
    odd: list[str] = []
    topic = topic_znodes.decode_topic("t", json.dumps(document).encode(), 0, {}, odd)
    assert topic.assignments == {0: ReplicaAssignment(*read)}
    (sentence,) = odd
    assert told in sentence


def written(principal="User:ann", host="*", operation="ClusterAction", permission="Deny"):
    entry = f'{{"principal":"{principal}","permissionType":"{permission}","operation":"{operation}","host":"{host}"}}'
    return f'{{"version":1,"acls":[{entry}]}}'.encode()


def test_names_are_read_in_any_case_and_unknown_ones_mean_nothing():
    ann = Principal("User", "ann")
    for operation, permission in (("ClusterAction", "Deny"), ("CLUSTERACTION", "DENY")):
        found = acl_znodes.decode_acls(PLACE, written(operation=operation, permission=permission))
        assert found == {Acl(ann, "*", Operation.CLUSTER_ACTION, Permission.DENY)}
    found = acl_znodes.decode_acls(PLACE, written(operation="Fly", permission="Perhaps"))
    assert found == {Acl(ann, "*", Operation.UNKNOWN, Permission.UNKNOWN)}
    assert acl_znodes.resource_type("TransactionalId") is ResourceType.TRANSACTIONAL_ID
    assert acl_znodes.resource_type("Planet") is None
    assert acl_znodes.decode_acls(PLACE, b"") == frozenset()


@pytest.mark.parametrize(
    "data", [b"{", b'{"version":2,"acls":[]}', b'{"version":1}', b'{"version":1,"acls":[1]}', WITHHELD, written("ann")]
)
def test_what_cannot_be_read_is_refused(data):
    with pytest.raises(FormatError, match=PLACE):
        acl_znodes.decode_acls(PLACE, data)


def test_announcements_of_both_kinds():
    literal = acl_znodes.decode_change("/kafka-acl-changes/acl_changes_1", b"TRANSACTIONAL_ID:a:b")
    assert literal == ResourcePattern(ResourceType.TRANSACTIONAL_ID, "a:b")
    assert acl_znodes.path(literal) == "/kafka-acl/TransactionalId/a:b"
    told = b'{"version":1,"resourceType":"TOPIC","name":"t","patternType":"PREFIXED"}'
    prefixed = acl_znodes.decode_change("/kafka-acl-extended-changes/acl_changes_1", told)
    assert prefixed == ResourcePattern(ResourceType.TOPIC, "t", prefixed=True)
    assert acl_znodes.path(prefixed) == "/kafka-acl-extended/prefixed/Topic/t"


@pytest.mark.parametrize(
    ("place", "data"),
    [
        ("/kafka-acl-changes/x", b"TOPIC"),
        ("/kafka-acl-changes/x", b"PLANET:t"),
        ("/kafka-acl-changes/x", None),
        ("/kafka-acl-extended-changes/x", b'{"version":1,"resourceType":"TOPIC","name":"t","patternType":"MATCH"}'),
    ],
)
def test_an_announcement_that_cannot_be_read_is_refused(place, data):
    with pytest.raises(FormatError, match=place):
        acl_znodes.decode_change(place, data)


def test_both_ways():
    assert decode_crashes(encode_crashes((CRASH, CRASH._replace(times=2)))) == (CRASH, CRASH._replace(times=2))
    assert decode_crashes(None) == ()


@pytest.mark.parametrize(
    "broken",
    [b"", b"x", b"[]", b'{"version":2,"crashes":[]}', b'{"version":1,"crashes":{}}', b'{"version":1,"crashes":[{}]}'],
)
def test_what_is_broken_is_refused_with_its_path(broken):
    with pytest.raises(FormatError, match="/admin/shunter/crashes"):
        decode_crashes(broken)
