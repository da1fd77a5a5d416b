"""The review of a partition: its table is whole, its parts have one order, and everything that happens marks for it."""

from dataclasses import replace

import pytest
from harness import Harness

from shunter.core.controller.draft import Draft
from shunter.core.controller.draft_records import records_of
from shunter.core.controller.events import (
    LogDirsFailed,
    PartitionsRead,
    ReassignmentChange,
    ReassignmentsSubmitted,
    RequestAnswered,
    SettingsChanged,
    TopicIdsAgreed,
)
from shunter.core.controller.intake import MOVES_READ_AT_ONCE, MOVES_READ_EVERY_MS
from shunter.core.controller.review import LOOKS, Part, Reason
from shunter.core.reassignment import WaitReason, describe_waiting
from shunter.errors import ErrorCode
from shunter.model.partition import NO_LEADER, TopicPartition

TPS = [TopicPartition("t", number) for number in range(4)]
TP = TopicPartition("t", 0)


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
    world = Harness(brokers=(1, 2, 3, 4, 5), max_concurrent=2).start(t=[(1, 2, 5), (2, 3, 5), (3, 1, 5), (2, 1, 5)])
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
    world = Harness().start(t=[(1, 2)])
    world.reassign({TPS[0]: (3, 4)})
    reviews, before = world.machine.intake.reviews, len(world.store.log)
    for reason in (Reason.STEPPED, Reason.BROKERS_CHANGED, Reason.CONFIG_CHANGED):
        reviews.mark(reason, [TPS[0]])
    world.pass_time(1)
    assert len(world.store.log) == before


def test_a_cancel_overtakes_the_review_that_tells_who_is_right():
    """The partition is reconciled before the cancel is decided, in the same write."""
    world = Harness().start(t=[(1, 2)])
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


def test_a_move_does_not_wait_for_a_failed_log_dir():
    """The move was said to catch up for ever: it was not reviewed, and not rolled back when it was overdue."""
    world = Harness(roll_back_after_ms=10_000).start(t=[(1, 2)])
    world.reassign({TP: (1, 3)})
    world.fail_log_dir(3, TP)
    assert world.machine.state.waiting[TP][0].reason is WaitReason.DEAD
    world.pass_time(11_000)
    world.pass_time(2_000)
    assert world.replicas(TP) == (1, 2)


def test_a_move_goes_on_without_a_replica_on_a_failed_log_dir_where_it_can():
    world = Harness().start(t=[(1, 2)])
    world.reassign({TP: (3, 4)})
    assert world.replicas(TP) == (1, 2, 3)
    world.fail_log_dir(3, TP)
    assert world.replicas(TP) == (1, 2, 3, 4)


def test_settings_that_allow_an_unclean_leader_elect_one():
    world = Harness(brokers=(1, 2)).start(t=[(1, 2)])
    world.kill(2)
    world.kill(1)
    world.revive(2)
    assert world.leadership(TP).leader == NO_LEADER
    world.feed(SettingsChanged(replace(world.settings, unclean_leader_election=True)))
    assert world.leadership(TP).leader == 2


def test_settings_that_ask_for_fewer_in_sync_let_a_rollback_go_on():
    """A rollback keeps additions as long as fewer replicas than min.insync.replicas would be in sync without them."""
    world = Harness(default_min_isr=2).start(t=[(1, 2)])
    world.reassign({TP: (3, 4)})
    world.catch_up_all(1)
    world.kill(2)
    world.reassign({TP: None}, token=2)
    assert world.replicas(TP) == (1, 3)
    world.feed(SettingsChanged(replace(world.settings, default_min_isr=1)))
    assert world.replicas(TP) == (1,)


def test_a_state_that_somebody_wrote_with_a_dead_follower_in_sync_is_mended():
    """A broker before 2.7 writes ISRs itself: this broker did not know yet that the follower had died."""
    world = Harness(brokers=(1, 2, 3)).start(t=[(1, 2, 3)])
    world.kill(3)
    told = world.leadership(TP)
    assert told.isr == (1, 2)
    world.store.states[TP] = told._replace(isr=(1, 2, 3), partition_epoch=told.partition_epoch + 1)
    world.feed(PartitionsRead({TP: world.store.states[TP]}))
    assert world.leadership(TP).isr == (1, 2)


def test_each_of_many_moves_is_read_in_its_turn_while_brokers_write_isrs_themselves():
    """The first 500 moves were read each second. They were stuck, so no other move was ever read."""
    count = MOVES_READ_AT_ONCE + 100
    world = Harness().start()
    world.create("t", [(1, 2)] * count)
    world.feed(TopicIdsAgreed(False))
    world.reassign({TopicPartition("t", number): (1, 2, 3) for number in range(count)})
    assert len(world.machine.state.reassignments) == count
    last = TopicPartition("t", count - 1)
    told = world.leadership(last)
    world.store.states[last] = told._replace(isr=(1, 2, 3), partition_epoch=told.partition_epoch + 1)
    for _ in range(3):
        world.pass_time(MOVES_READ_EVERY_MS)
    assert last not in world.machine.state.reassignments


# ---- failed log dirs
def waits(world):
    return describe_waiting(world.machine.state.waiting[TP][0])


def test_a_move_waits_for_the_restart_of_a_live_broker_whose_log_dir_failed():
    """The sentence said that the broker was dead."""
    world = Harness().start(t=[(1, 3)])
    world.fail_log_dir(3, TP)
    world.reassign({TP: (1, 2)})
    world.catch_up_all()
    assert world.replicas(TP) == (1, 2)
    world.reassign({TP: (1, 3)}, token=2)
    assert waits(world) == "waits for broker 3 to be restarted: its log dir failed, and it is part of the target"
    world.bounce(3)
    world.catch_up_all()
    assert world.replicas(TP) == (1, 3)
    assert not world.machine.state.reassignments


def test_a_move_goes_on_with_a_replica_that_its_broker_serves_again():
    """Apache: a partition without an error in the answer leaves `replicasOnOfflineDirs`."""
    world = Harness().start(t=[(1, 2)])
    world.reassign({TP: (1, 3)})
    world.fail_log_dir(3, TP)
    assert world.machine.state.waiting[TP][0].reason is WaitReason.DEAD
    world.failed.clear()
    world.feed(LogDirsFailed((3,)))
    assert not world.machine.state.offline_replicas
    assert world.machine.state.waiting[TP][0].reason is WaitReason.CATCHING_UP
    world.catch_up_all()
    assert world.replicas(TP) == (1, 3)


def test_a_replica_that_its_broker_serves_again_leads_a_partition_without_a_leader():
    world = Harness().start(t=[(3,)])
    world.fail_log_dir(3, TP)
    assert world.leadership(TP).leader == NO_LEADER
    world.failed.clear()
    world.feed(LogDirsFailed((3,)))
    assert world.leadership(TP).leader == 3


def test_the_last_answer_says_whether_a_replica_is_served():
    """Both requests were sent before the first of them was answered."""
    world = Harness().start(t=[(1, 2, 3)])
    world.silent = {3}
    world.feed(LogDirsFailed((3,)), LogDirsFailed((3,)))
    first, second = (request.request_id for _, request in world.unanswered)
    world.feed(RequestAnswered(first, 3, partition_errors={TP: ErrorCode.KAFKA_STORAGE_ERROR}))
    assert world.machine.state.offline_replicas == {TP: {3}}
    world.feed(RequestAnswered(second, 3))
    assert not world.machine.state.offline_replicas
    world.answer_all()
    assert not world.machine.outbox.roles


@pytest.mark.parametrize(
    ("error", "partition_error"),
    [
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE),
        (ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH),
        (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_a_replica_that_is_refused_stays_offline(error, partition_error):
    world = Harness().start(t=[(1, 2, 3)])
    world.fail_log_dir(3, TP)
    world.silent = {3}
    world.feed(LogDirsFailed((3,)))
    ((_, request),) = world.unanswered
    world.feed(RequestAnswered(request.request_id, 3, error, {TP: partition_error} if partition_error else {}))
    assert world.machine.state.offline_replicas == {TP: {3}}
