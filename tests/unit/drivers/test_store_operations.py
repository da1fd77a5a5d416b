"""Records become operations; afterwards the znodes show whether the operations were carried out."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.drivers.zookeeper.requests import Create, Put, Remove, Znode, creator_acl, multi_request
from shunter.drivers.zookeeper.store_operations import (
    estimate,
    folders_to_list,
    happened,
    paths_to_find,
    plan,
    transaction,
)
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Phase, Reassignment, Strategy
from shunter.model.records import (
    CheckTopic,
    CloseOwedDeletion,
    CloseReassignment,
    DeleteQueueEntry,
    DeleteTopic,
    ForgetControllerId,
    PutDeletionMark,
    PutLegacyReassignments,
    PutOwedDeletion,
    PutOwedReplicas,
    PutPartition,
    PutProducerIdBlock,
    PutReassignment,
    PutReassignmentRequest,
    PutTopic,
)
from shunter.model.topic import Topic

TP = TopicPartition("t", 0)
MOVE = Reassignment(
    UUID(int=1), (1, 2), (2, 3), Strategy.INCREMENTAL, Phase.MOVING, ReplicaAssignment((1, 2, 3), (3,), (1,)), 5
)


def leadership(version):
    return LeaderAndIsr(1, 0, (1, 2), version)


def planned(records, present=(), children=None):
    children = dict.fromkeys(folders_to_list(records)) | (children or {})
    paths = paths_to_find(records, children)
    return plan(records, {path: path in present for path in paths}, children)


def znode(data, version=0, mzxid=9):
    return Znode(data, mzxid - version, mzxid, version, 0, 0, 0)


def test_a_new_topic_with_its_first_states_makes_each_parent_once():
    topic = Topic("t", None, {0: ReplicaAssignment((1,)), 1: ReplicaAssignment((1,))})
    states = [PutPartition(TopicPartition("t", number), leadership(-1)) for number in (0, 1)]
    made = planned([PutTopic(topic), *states])
    assert [operation.path for operation in made.operations] == [
        "/config/topics/t",
        "/brokers/topics/t",
        "/brokers/topics/t/partitions",
        "/brokers/topics/t/partitions/0",
        "/brokers/topics/t/partitions/0/state",
        "/brokers/topics/t/partitions/1",
        "/brokers/topics/t/partitions/1/state",
    ]
    assert made.principals == [1, 4, 6]


def test_daily_writes_need_no_look_beforehand():
    records = [
        PutTopic(Topic("t", None, {}, 3)),
        PutPartition(TP, leadership(4)),
        PutReassignment(TP, MOVE._replace(version=0)),
    ]
    assert folders_to_list(records) == paths_to_find(records, {}) == ()
    assert [type(operation) for operation in planned(records).operations] == [Put, Put, Put]


def test_the_folder_of_moves_goes_with_the_last_and_stays_for_others():
    folder = "/admin/reassignments/t"
    closing = [CloseReassignment(TP, 2, last=True)]
    alone = planned(closing, children={folder: ("0",)})
    assert [operation.path for operation in alone.operations] == [f"{folder}/0", folder]
    in_company = planned(closing, children={folder: ("0", "5")})
    assert [operation.path for operation in in_company.operations] == [f"{folder}/0"]
    followed = planned(
        [*closing, PutReassignment(TopicPartition("t", 7), MOVE)], present=(folder,), children={folder: ("0",)}
    )
    assert [operation.path for operation in followed.operations] == [f"{folder}/0", folder, folder, f"{folder}/7"]


def test_deleting_what_is_half_gone_takes_what_is_left():
    left = ("/brokers/topics/t/partitions/3", "/brokers/topics/t/partitions", "/admin/delete_topics/t")
    made = planned([DeleteTopic("t", (0, 3))], present=left, children={"/brokers/topics/t/partitions": ("3",)})
    assert made.operations == [Remove(path) for path in left]
    assert made.principals == [None]
    assert not planned([DeleteTopic("t", (0, 3))]).operations


def test_what_is_left_of_a_request_is_written_under_its_name_if_nobody_else_wrote_it():
    path = "/admin/reassignment_requests/request_0000000007"
    left = [PutReassignmentRequest("request_0000000007", ((TP, (1, 2)),), legacy=False, version=3)]
    assert folders_to_list(left) == paths_to_find(left, {}) == ()
    assert [(type(each), each.path, each.version) for each in planned(left).operations] == [(Put, path, 3)]


@pytest.mark.parametrize(
    ("operations", "found", "verdict"),
    [
        ([Put("a", b"x", 3)], [znode(b"x", 4)], True),
        ([Put("a", b"x", 3)], [znode(b"w", 3)], False),
        ([Put("a", b"x", 3)], [znode(b"y", 5)], None),
        ([Put("a", b"x", 3)], [None], None),
        ([Put("a", b"x", 3), Put("b", b"x", 0)], [znode(b"y", 5), znode(b"x", 1)], True),
        ([Put("a", b"x", 3), Put("b", b"x", 0)], [znode(b"y", 5), znode(b"w", 0)], False),
        ([Create("a", b"x")], [znode(b"x")], True),
        ([Create("a", b"x")], [None], False),
        ([Create("a", b"x")], [znode(b"y")], None),
        ([Create("a", None)], [znode(None)], None),
        ([Remove("a", 1)], [None], True),
        ([Remove("a", 1)], [znode(b"x", 1)], False),
        ([Remove("a")], [znode(b"x", 8)], False),
        ([Remove("a", 1)], [znode(b"x", 2)], None),
        ([Remove("a", 1), Put("b", b"x", 0)], [None, znode(b"w", 0)], False),
    ],
)
def test_what_stands_there_tells_whether_a_multi_happened(operations, found, verdict):
    assert happened(operations, found) is verdict


def test_the_transaction_is_told_by_a_znode_that_nobody_wrote_since():
    operations = [Put("a", b"x", 3), Put("b", b"x", 0)]
    assert transaction(operations, [znode(b"y", 5, mzxid=30), znode(b"x", 1, mzxid=20)]) == 20
    assert transaction([Remove("a")], [None]) == 0


names = st.text("abé._-", min_size=1, max_size=30)
replicas = st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=5).map(tuple)
partitions = st.builds(TopicPartition, names, st.integers(0, 9999))
versions = st.integers(-1, 3)
records = st.one_of(
    st.builds(
        lambda name, lists, version, configs: PutTopic(
            Topic(name, UUID(int=5), {n: ReplicaAssignment(each) for n, each in enumerate(lists)}, version), configs
        ),
        names, st.lists(replicas, max_size=5), versions, st.lists(st.tuples(names, names), max_size=2).map(tuple),
    ),
    st.builds(CheckTopic, names, versions),
    st.builds(DeleteTopic, names, st.lists(st.integers(0, 99), unique=True, max_size=5).map(tuple)),
    st.builds(lambda tp, isr, version: PutPartition(tp, LeaderAndIsr(-1, 7, isr, version)), partitions, replicas, versions),
    st.builds(lambda tp, to, version: PutReassignment(tp, MOVE._replace(target=to, version=version)), partitions, replicas, versions),
    st.builds(CloseReassignment, partitions, st.integers(0, 3), st.booleans()),
    st.builds(PutOwedDeletion, st.integers(0, 99), st.lists(st.tuples(partitions, st.integers(0, 9))).map(tuple), versions),
    st.builds(CloseOwedDeletion, st.integers(0, 99), st.integers(0, 3)),
    st.builds(PutLegacyReassignments, st.none() | st.lists(st.tuples(partitions, replicas)).map(tuple), st.integers(0, 3)),
    st.builds(PutReassignmentRequest, names, st.lists(st.tuples(partitions, replicas)).map(tuple), st.booleans(), versions),
    st.builds(PutDeletionMark, names),
    st.builds(PutProducerIdBlock, st.integers(0, 9), st.integers(0, 2**60), st.integers(0, 2**60), versions),
    st.builds(DeleteQueueEntry, st.sampled_from(("delete_topics", "preferred_replica_election")), names),
)  # fmt: skip


@given(records, st.booleans())
def test_an_estimate_is_never_too_low(record, everything_there):
    children = {}
    for folder in folders_to_list([record]):
        children[folder] = tuple(map(str, record.partitions)) if folder.endswith("/partitions") else ()
    paths = paths_to_find([record], children)
    made = plan([record], dict.fromkeys(paths, everything_there), children)
    assert len(multi_request(made.operations, lambda _: creator_acl(readable=True)).body) - 9 <= estimate(record)


def test_owed_replicas_are_created_set_and_deleted_with_the_last():
    entries = ((0, 3, (1, 2)),)
    records = [PutOwedReplicas("a", None, entries, -1), PutOwedReplicas("b", None, entries, 4)]
    made = planned([*records, PutOwedReplicas("c", None, (), 2)]).operations
    assert [type(operation) for operation in made] == [Create, Put, Remove]
    assert [operation.path.rsplit("/", 2)[1:] for operation in made] == [["owed_replicas", name] for name in "abc"]
    assert [operation.version for operation in made[1:]] == [4, 2]


def test_a_controllers_id_is_deleted_where_it_is():
    path = "/admin/shunter/controllers/101"
    assert list(paths_to_find((ForgetControllerId(101),), {})) == [path]
    assert plan((ForgetControllerId(101),), {path: True}, {}).operations == [Remove(path)]
    assert plan((ForgetControllerId(101),), {path: False}, {}).operations == []
