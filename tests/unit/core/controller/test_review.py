"""The review of a partition: its table is whole, its parts have one order, and a second review changes nothing."""

import pytest
from harness import Harness

from shunter.core.controller.draft import Draft
from shunter.core.controller.draft_records import records_of
from shunter.core.controller.events import ReassignmentChange, ReassignmentsSubmitted
from shunter.core.controller.review import LOOKS, Part, Reason
from shunter.model.partition import TopicPartition

TPS = [TopicPartition("t", number) for number in range(4)]


def test_the_table_has_every_reason_and_names_parts_in_their_order():
    assert set(LOOKS) == set(Reason)
    order = list(Part)
    for reason, look in LOOKS.items():
        assert list(look.parts) == sorted(look.parts, key=order.index), reason
        assert look.parts, reason
    assert {part for look in LOOKS.values() for part in look.parts} == set(Part)


def in_the_middle():
    """A cluster with work for most parts: moves that can step, a dead broker, a broker that is back, a mended state.

    No write is outstanding, and nothing is decided yet: the tests look at what the reviews decide.
    """
    world = Harness(brokers=(1, 2, 3, 4, 5), max_concurrent=2).start()
    world.create("t", [(1, 2, 5), (2, 3, 5), (3, 1, 5), (2, 1, 5)])
    world.reassign({TPS[0]: (3, 4, 5), TPS[1]: (4, 1, 5), TPS[2]: (4, 2, 5)})
    state = world.machine.state
    del state.brokers[1]
    state.offline_replicas[TPS[3]] = frozenset({2})
    return world


ONE_AT_A_TIME = {Reason.BROKER_BACK: 2, Reason.NOT_DELETED: 1}
"""Reasons that mark replicas, and whose replicas are marked here."""


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.name.lower())
def test_a_review_that_follows_itself_changes_nothing(reason):
    world = in_the_middle()
    draft = Draft(world.machine.state, world.now_ms)
    reviews = world.machine.intake.reviews
    marked = [(tp, ONE_AT_A_TIME[reason]) if reason in ONE_AT_A_TIME else tp for tp in TPS]
    for each in marked:
        reviews.review(draft, each, parts=LOOKS[reason].parts)
    once = records_of(draft)
    for each in marked:
        reviews.review(draft, each, parts=LOOKS[reason].parts)
    assert records_of(draft) == once


@pytest.mark.parametrize(
    "reason", [Reason.BROKER_GONE, Reason.BROKER_BACK, Reason.LOG_DIR_FAILED, Reason.READABLE_AGAIN, Reason.NOT_DELETED]
)
def test_there_is_something_to_do_in_that_cluster(reason):
    """Otherwise the test before would prove nothing."""
    world = in_the_middle()
    draft = Draft(world.machine.state, world.now_ms)
    for tp in TPS:
        marked = (tp, ONE_AT_A_TIME[reason]) if reason in ONE_AT_A_TIME else tp
        world.machine.intake.reviews.review(draft, marked, parts=LOOKS[reason].parts)
    assert records_of(draft)


def test_a_partition_that_is_marked_twice_is_written_once():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.reassign({TPS[0]: (3, 4)})
    reviews, before = world.machine.intake.reviews, len(world.store.log)
    for reason in (Reason.STEPPED, Reason.BROKERS_CHANGED, Reason.CONFIG_CHANGED):
        reviews.mark(reason, [TPS[0]])
    world.pass_time(1)
    assert len(world.store.log) == before


def test_a_cancel_overtakes_the_review_that_tells_who_is_right():
    """The partition is reconciled before the cancel is decided, in the same write."""
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.reassign({TPS[0]: (3, 4)})
    world.silent = {1}
    world.fail_over()
    assert world.machine.intake.adoption.unreconciled == {TPS[0]}, "its review waits for broker 1"
    world.feed(ReassignmentsSubmitted((ReassignmentChange(TPS[0], None),), reply_to=2))
    assert world.result(2) == {TPS[0]: "NONE"}
    assert not world.machine.intake.adoption.unreconciled
    world.answer_all()
    world.catch_up_all()
    assert world.replicas(TPS[0]) == (1, 2)
