"""Weights are an upper bound of the store's writes, under a chroot of ordinary length."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from shunter.drivers.zookeeper.store_operations import estimate
from shunter.model import weights
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Phase, Reassignment, Strategy
from shunter.model.records import (
    DeleteTopic,
    PutDeletionMark,
    PutOwedDeletion,
    PutPartition,
    PutProducerIdBlock,
    PutReassignment,
    PutTopic,
)
from shunter.model.topic import Topic

names = st.text("abcXYZ019._-", min_size=1, max_size=249)
ids = st.integers(0, 2**31 - 1)
lists = st.lists(ids, min_size=1, max_size=6, unique=True).map(tuple)
partitions = st.builds(TopicPartition, names, ids)
assignments = st.one_of(lists.map(ReplicaAssignment), lists.map(lambda row: ReplicaAssignment(row, row[:2], row[2:])))
numbered = st.lists(assignments, min_size=1, max_size=60).map(lambda each: dict(enumerate(each)))
texts = st.text(max_size=60)


@given(names, numbered, st.dictionaries(texts, texts, max_size=5), st.booleans())
def test_topics(name, numbered, configs, new):
    record = PutTopic(Topic(name, UUID(int=5), numbered, -1 if new else 7), tuple(configs.items()) if new else ())
    assert estimate(record) + 2 * weights.CHROOT <= weights.record_weight(record)


@given(st.integers(1, 1_200), st.integers(1, 5), ids)
def test_partitions_that_are_to_be_placed(count, factor, highest):
    highest = max(highest, factor)
    row = tuple(range(highest, highest - factor, -1))
    placed = PutTopic(Topic("t", None, {number: ReplicaAssignment(row) for number in range(count)}, 3))
    empty = PutTopic(Topic("t", None, {}, 3))
    assert estimate(placed) - estimate(empty) <= weights.placed_weight(count, factor, highest)


@given(names, st.integers(0, weights.DELETED_AT_ONCE))
def test_deletions(name, count):
    record = DeleteTopic(name, tuple(range(count)))
    assert estimate(record) + (2 * count + 6) * weights.CHROOT <= weights.record_weight(record)


def test_the_greatest_deletion_is_no_more_than_one_decision():
    record = DeleteTopic("x" * 249, tuple(range(weights.DELETED_AT_ONCE)))
    assert weights.record_weight(record) <= weights.DECISION_AT_MOST


@given(names)
def test_marks_and_blocks(name):
    for record in (PutDeletionMark(name), PutProducerIdBlock(2**31 - 1, 2**62, 2**62, 5)):
        assert estimate(record) + 2 * weights.CHROOT <= weights.record_weight(record)


@given(partitions, lists, st.one_of(st.none(), lists))
def test_states(tp, isr, targets):
    record = PutPartition(tp, LeaderAndIsr(isr[0], 2**31 - 1, isr, -1, 2**31 - 1, True, targets))
    assert estimate(record) + 3 * weights.CHROOT <= weights.leadership_weight(tp, isr, targets)


@given(partitions, lists, lists, assignments)
def test_moves(tp, original, target, placed):
    move = Reassignment(
        UUID(int=5),
        original,
        target,
        Strategy.INCREMENTAL,
        Phase.ROLLING_BACK,
        placed,
        2**40,
        9,
        legacy=True,
        forced=True,
    )
    numbers = len(original) + len(target) + sum(map(len, placed))
    assert estimate(PutReassignment(tp, move)) + 2 * weights.CHROOT <= weights.move_weight(tp, numbers)


@given(st.lists(st.tuples(partitions, ids), max_size=40).map(tuple))
def test_owed_deletions(owed):
    most = weights.ZNODE + 100 + sum(weights.entry_weight(tp) for tp, _ in owed)
    assert estimate(PutOwedDeletion(2**31 - 1, owed, 5)) <= most
