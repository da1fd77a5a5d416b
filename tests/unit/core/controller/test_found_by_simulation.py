"""Bugs that `shunter simulate` found in the core, each as the shortest story that shows it (docs/reliability.md)."""

from dataclasses import replace
from uuid import UUID

import pytest
from harness import US, Harness, broker

from shunter.core.controller.events import (
    AlterPartitionReceived,
    BatchRefused,
    BrokersRead,
    ConfigsRead,
    ControlledShutdownRequested,
    ElectionRequested,
    Envelope,
    IsrProposal,
    NewTopic,
    ReassignmentChange,
    ReassignmentsSubmitted,
    RequestAnswered,
    SettingsChanged,
    TimePassed,
    TopicDeletionsFound,
    TopicDeletionsSubmitted,
    TopicIdsAgreed,
    TopicsRead,
    TopicsSubmitted,
)
from shunter.core.controller.ready import SendLeaderAndIsr, SendStopReplica
from shunter.errors import ErrorCode
from shunter.model.partition import EPOCH_DURING_DELETE, LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.reassignment import CancelMode, Phase, Strategy
from shunter.model.records import CloseReassignment, PutOwedDeletion
from shunter.model.snapshot import LeftOut, LegacyReassignments, OwedDeletions
from shunter.model.topic import Topic, TopicSnapshot

TP = TopicPartition("t", 0)


def test_no_wake_up_in_the_past_while_a_batch_is_written():
    world = Harness(slow_broker_ms=1_000).start()
    world.create("t", [(1, 2, 3)])
    world.silent.add(2)
    world.create("u", [(1, 2, 3)])
    world.hold_writes = True
    world.reassign({("t", 0): (2, 3, 4)}, token=5)
    world.reassign({("u", 0): (2, 3, 4)}, token=6)
    world.now_ms += 5_000
    world.feed(TimePassed())
    assert world.machine.outstanding is not None
    ready = world.machine.handle(Envelope(world.now_ms, "test", TimePassed()))
    assert ready.wake_at_ms is None or ready.wake_at_ms > world.now_ms


def test_no_wake_up_in_the_past_while_a_refused_batch_is_to_be_decided_again():
    world = Harness(slow_broker_ms=1_000, metadata_linger_ms=60_000).start()
    world.create("t", [(1, 2, 3)])
    world.silent.add(2)
    world.create("u", [(1, 2, 3)])
    world.hold_writes = True
    proposal = IsrProposal(TP, 0, 0, ((1, -1), (2, -1)))
    world.feed(AlterPartitionReceived(1, world.live[1].epoch, (proposal,), 9))
    world.reassign({("u", 0): (2, 3, 4)}, token=6)
    batch = world.machine.outstanding
    world.now_ms += 5_000
    world.machine.handle(Envelope(world.now_ms, "test", BatchRefused(batch.batch_id, "failed")))
    ready = world.machine.handle(Envelope(world.now_ms, "test", TimePassed()))
    assert world.machine.intake.queue.waits_for_barrier()
    assert ready.wake_at_ms == world.machine.retry_at_ms > world.now_ms


def test_what_moves_a_topic_that_is_being_deleted_leaves_no_record():
    world = Harness().start()
    world.create("t", [(1, 2, 3)])
    world.silent.add(3)
    world.feed(TopicDeletionsSubmitted(("t",), 7))
    topic = world.store.topics["t"]
    moving = ReplicaAssignment((1, 2, 3, 4), (4,), (3,))
    world.store.topics["t"] = topic._replace(assignments={0: moving}, version=topic.version + 1)
    world.fail_over()
    world.answer_all()
    assert "t" not in world.store.topics
    assert not world.store.reassignments
    assert not world.machine.state.reassignments


def test_a_leader_that_met_a_foreign_write_hears_of_a_new_epoch():
    world = Harness().start()
    world.create("t", [(1, 2, 3)])
    known = world.store.states[TP]
    world.store.states[TP] = known._replace(partition_epoch=known.partition_epoch + 1)
    proposal = IsrProposal(TP, known.leader_epoch, known.partition_epoch, ((1, -1), (2, -1)))
    world.feed(AlterPartitionReceived(1, world.live[1].epoch, (proposal,), 9))
    assert world.replies[9].partitions == ((TP, ErrorCode.INVALID_UPDATE_VERSION),)
    assert world.leadership(TP).leader_epoch == known.leader_epoch + 1
    assert world.leadership(TP).isr == known.isr
    assert world.hosted[1][TP].leadership == world.leadership(TP)


def test_a_dropped_replica_is_deleted_though_its_topic_went_meanwhile():
    world = Harness().start()
    world.create("t", [(1, 2, 3)])
    world.reassign({TP: (1, 2, 4)})
    world.silent.add(3)
    world.catch_up(TP, 4)
    assert (3, TP) not in world.deleted
    world.kill(3)
    world.feed(TopicDeletionsSubmitted(("t",), 8))
    world.fail_over()
    world.silent.clear()
    world.revive(3)
    world.pass_time(1_000)
    assert "t" not in world.store.topics
    assert (3, TP) in world.deleted
    assert not world.store.owed


def test_a_broker_that_died_unheard_is_asked_after_the_move_has_ended():
    world = Harness(brokers=(1, 2, 3, 4, 5)).start()
    world.create("t", [(1, 2)])
    world.reassign({TP: (4, 5)})
    world.silent.add(2)
    world.catch_up(TP, 4)
    assert 2 not in world.replicas(TP)
    del world.live[2]
    world.fail_over()
    world.catch_up_all()
    assert not list(world.store.reassignments)
    world.silent.clear()
    world.revive(2)
    world.pass_time(1_000)
    assert (2, TP) in world.deleted
    assert not world.store.owed


def test_a_topic_that_comes_without_an_id_gets_one():
    world = Harness().start()
    world.feed(TopicIdsAgreed(True))
    topic = Topic("old", None, {0: ReplicaAssignment((1, 2))}, 0)
    world.store.topics["old"], world.store.configs["old"] = topic, {}
    world.feed(TopicsRead((TopicSnapshot(topic, {}, {}),)))
    assert isinstance(world.store.topics["old"].topic_id, UUID)


def test_we_send_ourselves_nothing_when_our_own_registration_comes_anew():
    world = Harness().start()
    sent = len(world.sent)
    world.live[US] = broker(US, 9_999)
    world.feed(BrokersRead(tuple(world.live[id_] for id_ in sorted(world.live))))
    targets = [getattr(request, "brokers", None) or (request.broker,) for request in world.sent[sent:]]
    assert not [each for each in targets if US in each]
    assert US not in world.machine.outbox.unanswered


def test_a_resumed_addition_fetches_again_though_it_joined_the_isr_before_it_was_stopped():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.reassign({TP: (1, 2, 3, 4)})
    world.reassign({TP: None}, token=2, cancel_mode=CancelMode.PAUSE)
    world.catch_up(TP, 3)
    world.kill(4)
    epoch = world.leadership(TP).leader_epoch
    world.reassign({TP: None}, token=3, cancel_mode=CancelMode.RESUME)
    assert world.leadership(TP).leader_epoch > epoch


def test_a_paused_move_that_somebody_else_moved_on_holds_nobody_back():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.reassign({TP: (1, 3)})
    world.reassign({TP: None}, token=2, cancel_mode=CancelMode.PAUSE)
    topic = world.store.topics["t"]
    theirs = ReplicaAssignment((1, 2, 4), (4,), (2,))
    world.store.topics["t"] = topic._replace(assignments={0: theirs}, version=topic.version + 1)
    world.sent.clear()
    world.fail_over()
    stopped = [request for request in world.sent if isinstance(request, SendStopReplica)]
    assert not [stop for request in stopped for stop in request.partitions if request.broker == 4]
    assert world.machine.state.reassignments[TP].phase is Phase.MOVING


def test_a_broker_that_came_back_while_its_debt_was_written_is_asked():
    world = Harness(brokers=(1, 2, 3, 4)).start()
    world.create("t", [(1, 2)])
    world.kill(2)
    world.hold_writes = True
    world.reassign({TP: (1,)})
    world.revive(2)
    world.release_writes()
    world.pass_time(1_000)
    assert 2 not in world.replicas(TP)
    assert (2, TP) in world.deleted
    assert not world.store.owed


def test_a_broker_that_returns_while_its_partition_is_written_off_leads_it():
    world = Harness().start()
    world.create("t", [(2,)])
    world.hold_writes = True
    world.kill(2)
    world.revive(2)
    world.release_writes()
    assert world.leadership(TP).leader == 2


def test_a_leader_that_dies_while_its_election_is_written_is_replaced():
    world = Harness().start()
    world.create("t", [(1, 2, 3)])
    world.hold_writes = True
    world.kill(1)
    world.kill(2)
    world.release_writes()
    assert world.leadership(TP).leader == 3
    assert world.leadership(TP).isr == (3,)


def test_a_first_leader_that_dies_while_it_is_written_is_replaced():
    world = Harness().start()
    topic = Topic("t", UUID(int=1), {0: ReplicaAssignment((1, 2))}, 0)
    world.store.topics["t"], world.store.configs["t"] = topic, {}
    world.hold_writes = True
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)))
    world.kill(1)
    world.release_writes()
    assert world.leadership(TP).leader == 2


def test_a_legacy_entry_for_what_a_record_does_already_goes_with_the_move():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.reassign({TP: (3, 4)})
    world.store.legacy = LegacyReassignments({TP: (3, 4)}, {}, 0, czxid=1_001)
    world.fail_over()
    world.catch_up_all()
    assert world.replicas(TP) == (3, 4)
    assert not world.store.reassignments
    assert world.store.legacy is None


def pending_and_begun_by_somebody_else():
    world = Harness(max_concurrent=1).start()
    world.create("t", [(1, 2)])
    world.create("u", [(1, 2)])
    world.reassign({("u", 0): (1, 3)})
    world.reassign({TP: (3, 1, 2)}, token=2)
    assert world.store.reassignments[TP].phase is Phase.PENDING
    topic = world.store.topics["t"]
    begun = ReplicaAssignment((3, 1, 2), (3,))
    world.store.topics["t"] = topic._replace(assignments={0: begun}, version=topic.version + 1)
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)))
    return world


def test_a_pending_move_that_somebody_else_began_is_finished():
    world = pending_and_begun_by_somebody_else()
    world.reassign({TP: (3, 1, 2)}, token=3)
    world.catch_up_all()
    assert world.state(TP).assignment == ReplicaAssignment((3, 1, 2))
    assert not world.store.reassignments


def busy():
    """A cluster whose controller is writing something else."""
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.create("u", [(1, 2)])
    world.hold_writes = True
    world.feed(submitted(1, ("u", 0), (3, 4)))
    assert world.held_batches
    return world


def submitted(token, tp, target):
    return ReassignmentsSubmitted((ReassignmentChange(TopicPartition(*tp), target, forced=True),), reply_to=token)


def let_write(world):
    while world.held_batches:
        batches, world.held_batches = world.held_batches, []
        world.feed(*(event for batch in batches for event in world._write(batch)))


def test_a_cancel_does_not_reach_what_is_asked_for_after_it():
    world = busy()
    world.feed(submitted(2, TP, (3, 4)), submitted(3, TP, None), submitted(4, TP, (4, 3)))
    let_write(world)
    assert world.replies[2].partitions == ((TP, ErrorCode.NONE, "cancelled before it was begun"),)
    assert world.replies[3].partitions == ((TP, ErrorCode.NONE, None),)
    assert world.replies[4].partitions == ((TP, ErrorCode.NONE, None),)
    assert world.store.reassignments[TP].target == (4, 3)


def everything(token, mode):
    return ReassignmentsSubmitted((), cancel_all=True, cancel_mode=mode, reply_to=token)


def test_a_resume_cancels_nothing_that_waits():
    world = busy()
    world.feed(submitted(2, TP, (3, 4)), everything(3, CancelMode.RESUME))
    let_write(world)
    assert world.replies[2].partitions == ((TP, ErrorCode.NONE, None),)
    assert world.store.reassignments[TP].phase is Phase.MOVING


def test_what_waits_when_everything_is_paused_is_taken_and_stands_still():
    world = busy()
    world.feed(submitted(2, TP, (3, 4)), everything(3, CancelMode.PAUSE))
    let_write(world)
    assert world.replies[2].partitions == ((TP, ErrorCode.NONE, None),)
    assert (TP, ErrorCode.NONE, None) in world.replies[3].partitions
    assert world.store.reassignments[TP].phase is Phase.PAUSED
    assert world.replicas(TP) == (1, 2)
    world.hold_writes = False
    world.feed(everything(4, CancelMode.RESUME))
    world.catch_up_all()
    assert world.replicas(TP) == (3, 4)


def test_another_target_that_waits_when_its_move_is_paused_is_for_later():
    world = busy()
    world.feed(submitted(2, ("u", 0), (4, 1)), everything(3, CancelMode.PAUSE))
    let_write(world)
    move = world.store.reassignments[TopicPartition("u", 0)]
    assert (move.phase, move.target, move.original) == (Phase.PAUSED, (4, 1), (1, 2))
    world.hold_writes = False
    world.feed(everything(4, CancelMode.RESUME))
    world.catch_up_all()
    assert world.replicas(("u", 0)) == (4, 1)


@pytest.mark.parametrize(
    ("mode", "told"), [(CancelMode.RESUME, None), (CancelMode.ROLL_BACK, "cancelled before it was begun")]
)
def test_what_was_paused_while_it_waited_is_resumed_or_cancelled_there(mode, told):
    world = busy()
    world.feed(submitted(2, TP, (3, 4)), everything(3, CancelMode.PAUSE), everything(4, mode))
    let_write(world)
    assert world.replies[2].partitions == ((TP, ErrorCode.NONE, told),)
    phase = world.store.reassignments[TP].phase if TP in world.store.reassignments else None
    assert phase is (Phase.MOVING if told is None else None)


def test_a_cancel_reaches_what_waits_behind_the_last_deletions_of_a_move():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.reassign({TP: (1, 3)})
    world.silent.add(2)
    world.catch_up(TP, 3)
    assert world.store.reassignments[TP].phase is Phase.DROPPING
    world.hold_writes = True
    world.feed(submitted(2, TP, (4, 1)), submitted(3, TP, None))
    let_write(world)
    world.hold_writes = False
    world.answer_all()
    assert world.replies[2].partitions == ((TP, ErrorCode.NONE, "cancelled before it was begun"),)
    assert world.replies[3].partitions == ((TP, ErrorCode.NONE, None),)
    assert world.replicas(TP) == (1, 3)


def test_an_entry_of_the_deletion_queue_that_names_no_topic_does_not_wait_for_one():
    world = Harness().start()
    world.store.deleting = {"t", "u"}
    world.feed(TopicDeletionsFound(("t",)))
    assert world.store.deleting == {"u"}
    world.fail_over()
    assert not world.store.deleting
    world.create("t", [(1, 2)])
    world.create("u", [(1, 2)])
    world.fail_over()
    assert set(world.store.topics) == {"t", "u"}


def test_an_entry_of_the_deletion_queue_that_names_a_topic_nobody_can_read_stays():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.store.left_out = LeftOut(topics=frozenset({"t"}))
    world.store.deleting = {"t"}
    world.fail_over()
    assert world.store.deleting == {"t"}


def overruled():
    """Our move of `t-0` was taken back by an Apache controller; we take over, and a slow broker holds the row up."""
    world = Harness().start()
    world.create("t", [(1,)])
    world.reassign({TP: (2,)})
    assert world.store.reassignments[TP].written.adding == (2,)
    topic = world.store.topics["t"]
    world.store.topics["t"] = topic._replace(assignments={0: ReplicaAssignment((1,))}, version=topic.version + 1)
    world.silent.add(4)
    world.fail_over()
    assert world.store.reassignments[TP].phase is Phase.MOVING
    return world


def test_news_of_an_isr_does_not_resume_what_somebody_overruled():
    world = overruled()
    world.propose(TP, (1,))
    world.answer_all()
    assert world.replicas(TP) == (1,)
    assert not world.store.reassignments


def test_a_cancel_of_what_somebody_overruled_finds_nothing_to_cancel():
    world = overruled()
    topic = world.store.topics["t"]
    world.store.topics["t"] = topic._replace(assignments={0: ReplicaAssignment((3,))}, version=topic.version + 1)
    world.fail_over()
    world.reassign({TP: None}, token=3)
    world.answer_all()
    assert world.result(3) == {TP: "NO_REASSIGNMENT_IN_PROGRESS"}
    assert world.replicas(TP) == (3,)


def test_a_batch_that_decides_who_is_right_and_is_refused_decides_again():
    world = overruled()
    world.hold_writes = True
    world.propose(TP, (1,))
    topic = world.store.topics["t"]
    moving = ReplicaAssignment((1, 3), (3,))
    world.store.topics["t"] = topic._replace(assignments={0: moving}, version=topic.version + 1)
    world.release_writes()
    world.answer_all()
    world.catch_up_all()
    assert not world.store.reassignments
    assert not world.state(TP).assignment.in_motion


def test_a_broker_that_returns_while_a_move_is_accepted_lets_it_begin():
    world = Harness().start()
    world.create("t", [(2,)])
    world.kill(2)
    world.hold_writes = True
    world.reassign({TP: (3,)}, forced=True)
    assert world.held_batches
    world.register(2)
    world.feed(world.brokers_read())
    world.release_writes()
    assert world.replicas(TP) == (2, 3)


def test_an_unclean_election_lets_a_move_go_on_that_waits_for_a_leader():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.propose(TP, (1,))
    world.kill(1)
    world.reassign({TP: (3, 4)}, forced=True)
    assert world.store.reassignments[TP].phase is Phase.PENDING
    world.feed(ElectionRequested((TP,), unclean=True, reply_to=8))
    assert world.leadership(TP).leader == 2
    assert world.store.reassignments[TP].phase is Phase.MOVING


def test_a_rollback_goes_on_when_min_insync_replicas_is_lowered():
    world = Harness().start()
    world.create("t", [(1, 2)], **{"min.insync.replicas": "2"})
    world.reassign({TP: (3, 4)})
    world.catch_up(TP, 3)
    assert world.replicas(TP) == (1, 3, 4)
    world.kill(2)
    world.reassign({TP: None}, token=2, cancel_mode=CancelMode.ROLL_BACK)
    assert 3 in world.replicas(TP)
    world.feed(ConfigsRead({"t": {"min.insync.replicas": "1"}}, {}))
    assert 3 not in world.replicas(TP)


def test_a_wish_to_leave_ends_with_the_life_in_which_it_was_wished():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.create("u", [(3, 4)])
    world.hold_writes = True
    world.reassign({("u", 0): (4, 3)}, token=2)
    assert world.held_batches
    world.feed(ControlledShutdownRequested(2, world.live[2].epoch, 9))
    world.bounce(2)
    world.release_writes()
    assert not any(isinstance(each, SendStopReplica) and each.broker == 2 for each in world.sent)


def test_what_is_left_of_an_older_topic_is_deleted_whatever_its_leader_epoch():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.reassign({TP: (1, 3)})
    world.silent.add(2)
    world.catch_up(TP, 3)
    assert world.store.reassignments[TP].phase is Phase.DROPPING
    topic = world.store.topics["t"]
    anew = Topic("t", UUID(int=77), {0: ReplicaAssignment((3,))}, topic.version)
    world.store.topics["t"] = anew
    world.store.states[TP] = world.store.states[TP]._replace(leader=3, leader_epoch=0, isr=(3,))
    world.silent.clear()
    world.sent.clear()
    world.fail_over()
    asked = {
        (each.broker, stop.leader_epoch)
        for each in world.sent
        if isinstance(each, SendStopReplica)
        for stop in each.partitions
    }
    assert asked == {(1, EPOCH_DURING_DELETE), (2, EPOCH_DURING_DELETE)}
    assert not world.store.reassignments


def test_what_takes_the_place_of_a_move_that_somebody_overruled_does_not_wait_for_it():
    world = Harness(max_concurrent=1).start()
    world.create("t", [(1, 2), (1, 2)])
    world.reassign({("t", 1): (1, 3)})
    topic = world.store.topics["t"]
    both = {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((1, 2))}
    world.store.topics["t"] = topic._replace(assignments=both, version=topic.version + 1)
    targets = {TP: (1, 4), TopicPartition("t", 1): (1, 4)}
    world.store.legacy = LegacyReassignments(targets, {}, 0, 900)
    world.fail_over()
    assert [world.store.reassignments[tp].phase for tp in targets].count(Phase.MOVING) == 1
    world.catch_up_all()
    assert [world.replicas(tp) for tp in targets] == [(1, 4), (1, 4)]


def test_a_move_that_is_found_owes_what_the_one_before_it_has_not_deleted():
    world = Harness(slow_broker_ms=1_000).start()
    world.create("t", [(1, 2)])
    world.reassign({TP: (1, 3)})
    world.silent.add(2)
    world.catch_up(TP, 3)
    assert world.store.reassignments[TP].phase is Phase.DROPPING
    world.store.legacy = LegacyReassignments({TP: (1, 4)}, {}, 0, 900)
    world.fail_over()
    world.propose(TP, (1,))
    world.pass_time(5_000)
    assert world.store.reassignments[TP].target == (1, 4)
    assert world.store.owed[2].partitions[0][0] == TP


def test_a_topic_that_is_deleted_while_its_move_is_accepted_leaves_no_legacy_entry():
    world = Harness().start()
    world.create("t", [(1,)])
    world.hold_writes = True
    world.write_legacy({TP: (3,)})
    (bridged,), world.held_batches = world.held_batches, []
    world.feed(*world._write(bridged))
    assert world.held_batches
    world.store.deleting = {"t"}
    world.feed(TopicDeletionsFound(("t",)))
    let_write(world)
    assert "t" not in world.store.topics
    assert world.store.legacy is None


def proposed(world, isr, token=9):
    told, epoch = world.leadership(TP), world.live[1].epoch
    members = tuple((member, -1) for member in isr)
    return AlterPartitionReceived(1, epoch, (IsrProposal(TP, told.leader_epoch, told.partition_epoch, members),), token)


def test_an_isr_change_of_a_leader_that_bounced_while_it_waited_is_refused():
    world = Harness().start()
    world.create("t", [(1, 2, 3)])
    world.create("u", [(3, 4)])
    world.propose(TP, (1, 2))
    world.hold_writes = True
    world.reassign({("u", 0): (4, 3)}, token=2)
    world.feed(proposed(world, (1, 2, 3)))
    world.bounce(1)
    world.release_writes()
    assert world.replies[9].error is ErrorCode.STALE_BROKER_EPOCH
    assert (world.leadership(TP).leader, world.leadership(TP).isr) == (2, (2,))


def test_a_leader_that_bounced_while_its_isr_change_was_written_is_not_told_of_its_former_life():
    world = Harness().start()
    world.create("t", [(1, 2, 3)])
    world.propose(TP, (1, 2))
    before = world.leadership(TP).leader_epoch
    world.hold_writes = True
    world.feed(proposed(world, (1, 2, 3)))
    world.sent.clear()
    world.bounce(1)
    told = [each for each in world.sent if isinstance(each, SendLeaderAndIsr) and each.broker == 1]
    assert [(each.topics, each.full) for each in told] == [((), False)]
    world.release_writes()
    assert world.leadership(TP)[:3] == (2, before + 1, (2, 3))


def test_a_leader_that_bounced_and_is_alone_leads_on_in_a_new_epoch():
    world = Harness().start()
    world.create("t", [(1,)])
    before = world.leadership(TP)
    world.bounce(1)
    assert world.leadership(TP)[:3] == (1, before.leader_epoch + 1, (1,))


def test_a_stop_for_leaving_does_not_reach_the_life_after_it():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.hold_writes = True
    world.feed(ControlledShutdownRequested(2, world.live[2].epoch, 9))
    assert world.held_batches
    world.bounce(2)
    world.release_writes()
    assert not any(isinstance(each, SendStopReplica) and each.broker == 2 for each in world.sent)


def test_what_a_broker_owes_of_a_topic_that_is_gone_goes_before_it_hears_of_another_of_that_name():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.silent.add(2)
    world.reassign({TP: (1, 3)})
    world.catch_up(TP, 3)
    world.kill(2)
    assert world.store.owed[2].partitions[0][0] == TP
    world.feed(TopicDeletionsSubmitted(("t",), 7))
    world.silent.clear()
    world.store.topics["t"] = Topic("t", UUID(int=77), {0: ReplicaAssignment((1, 2))}, 0)
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)))
    world.sent.clear()
    world.revive(2)
    told = [type(each) for each in world.sent if getattr(each, "broker", None) == 2]
    assert told.index(SendStopReplica) < told.index(SendLeaderAndIsr)
    assert (2, TP) in world.deleted
    assert TP in world.hosted[2]
    assert 2 not in world.store.owed


def test_a_cancel_that_overtakes_the_row_of_a_start_up_begins_nothing_before_it_ends_it():
    world = Harness(max_concurrent=1).start()
    world.create("t", [(1, 2)])
    world.create("u", [(1, 2)])
    world.reassign({("u", 0): (1, 3)})
    world.reassign({TP: (3, 2)}, token=2, strategy=Strategy.ALL_AT_ONCE)
    assert world.store.reassignments[TP].phase is Phase.PENDING
    before = world.leadership(TP)
    world.settings = replace(world.settings, max_concurrent=0)
    world.silent.add(4)
    world.fail_over()
    world.reassign({TP: None}, token=3, cancel_mode=CancelMode.STOP)
    assert TP not in world.store.reassignments
    assert world.replicas(TP) == (1, 2)
    assert world.leadership(TP)[:3] == before[:3]


def test_a_move_that_goes_with_its_topic_makes_room_for_what_is_pending():
    world = Harness(max_concurrent=1).start()
    world.create("t", [(1,)])
    world.create("u", [(1, 2)])
    world.hold_writes = True
    world.reassign({TP: (3,)}, token=2)
    world.store.deleting = {"t"}
    world.feed(TopicDeletionsFound(("t",)))
    world.reassign({("u", 0): (3, 4)}, token=3)
    let_write(world)
    assert "t" not in world.store.topics
    assert world.store.reassignments[TopicPartition("u", 0)].phase is Phase.MOVING


def test_a_move_of_a_partition_that_nobody_has_led_yet_begins_when_somebody_does():
    world = busy()
    world.store.topics["n"] = Topic("n", UUID(int=5), {0: ReplicaAssignment((3,))}, 0)
    tp = TopicPartition("n", 0)
    world.feed(submitted(2, tp, (1,)), TopicsRead((world.store.topic_snapshot("n"),)))
    let_write(world)
    world.hold_writes = False
    world.catch_up_all()
    assert world.replicas(tp) == (1,)
    assert tp not in world.store.reassignments


def test_what_takes_the_place_of_a_paused_move_sets_its_replicas_going_again():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.reassign({TP: (1, 2, 3)}, strategy=Strategy.ALL_AT_ONCE)
    world.reassign({TP: None}, token=2, cancel_mode=CancelMode.PAUSE)
    before = world.leadership(TP).leader_epoch
    topic = world.store.topics["t"]
    reordered = ReplicaAssignment((3, 2, 1), (3,))
    world.store.topics["t"] = topic._replace(assignments={0: reordered}, version=topic.version + 1)
    world.fail_over()
    assert world.store.reassignments[TP].phase is Phase.MOVING
    assert world.leadership(TP).leader_epoch > before


def test_a_doomed_topic_that_somebody_made_anew_is_another_one():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.kill(2)
    world.store.deleting = {"t"}
    world.feed(TopicDeletionsFound(("t",)))
    assert "t" in world.store.topics, "broker 2 has not deleted its replica"
    world.store.topics["t"] = Topic("t", UUID(int=5), {0: ReplicaAssignment((1,))}, 0)
    del world.store.states[TP]
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)), TopicDeletionsFound(("t",)))
    assert "t" not in world.store.topics
    assert not world.store.deleting


def test_a_replica_that_is_placed_while_its_topic_is_deleted_already_goes_too():
    world = Harness().start()
    world.create("t", [(2, 3)])
    world.hold_writes = True
    world.reassign({TP: (1, 2)}, strategy=Strategy.ALL_AT_ONCE)
    world.store.deleting = {"t"}
    world.feed(TopicDeletionsFound(("t",)))
    let_write(world)
    assert (1, TP) in world.deleted
    assert "t" not in world.store.topics
    assert not world.machine.state.waiting


def with_an_older_replica(replicas, *, led):
    """Broker 1 still has a replica of an older topic t, and has not answered yet that it deleted it."""
    world = Harness()
    world.store.topics["t"] = Topic("t", UUID(int=5), {0: ReplicaAssignment(replicas)}, 0)
    if led:
        world.store.states[TP] = LeaderAndIsr(replicas[0], 0, replicas, 0)
    world.store.owed[1] = OwedDeletions(((TP, EPOCH_DURING_DELETE),), 0)
    world.silent.add(1)
    world.start()
    return world


def test_who_has_to_delete_a_replica_of_an_older_topic_is_in_sync_with_none_of_the_newer_one():
    world = with_an_older_replica((1, 2), led=False)
    assert world.leadership(TP)[:3] == (2, 0, (2,))


def test_a_partition_that_nobody_else_can_lead_waits_for_that_deletion():
    world = with_an_older_replica((1,), led=False)
    assert world.leadership(TP) is None
    world.answer_all()
    assert not world.store.owed
    assert world.leadership(TP)[:3] == (1, 0, (1,))


def test_a_move_to_where_an_older_replica_lies_does_not_forget_that_it_has_to_go():
    world = with_an_older_replica((2, 3), led=True)
    world.reassign({TP: (1, 2)}, strategy=Strategy.ALL_AT_ONCE)
    world.pass_time(20_000)  # Nobody waits for broker 1 any longer.
    assert 1 in world.replicas(TP)
    assert world.store.owed[1].partitions == ((TP, EPOCH_DURING_DELETE),)
    world.answer_all()
    assert not world.store.owed


def test_who_may_be_told_again_to_delete_an_older_replica_is_not_in_sync_yet():
    world = with_an_older_replica((2, 3), led=True)
    world.reassign({TP: (1, 2)}, strategy=Strategy.ALL_AT_ONCE)
    world.pass_time(20_000)  # Nobody waits for broker 1 any longer.
    assert world.propose(TP, (2, 3, 1)).partitions == ((TP, ErrorCode.INELIGIBLE_REPLICA),)
    world.answer_all()
    assert not world.store.owed
    world.catch_up(TP, 1)
    assert world.replicas(TP) == (1, 2)


def test_what_is_left_of_an_older_topic_elsewhere_goes_whatever_the_newer_ones_epoch():
    world = with_an_older_replica((2, 3), led=True)
    asked = [each for each in world.sent if isinstance(each, SendStopReplica)]
    assert [(each.broker, stop.tp, stop.leader_epoch) for each in asked for stop in each.partitions] == [
        (1, TP, EPOCH_DURING_DELETE)
    ]


@pytest.mark.parametrize("begun", [False, True])
def test_a_cancel_ends_what_a_start_up_has_not_come_to_yet(begun):
    world = Harness()
    replicas = ReplicaAssignment((1, 2, 3), (3,), ()) if begun else ReplicaAssignment((1, 2))
    world.store.topics["t"] = Topic("t", UUID(int=5), {0: replicas}, 0)
    world.store.states[TP] = LeaderAndIsr(1, 0, (1, 2), 0, target_replicas=None if begun else (3, 4))
    world.silent.add(4)
    world.start()
    assert not world.store.reassignments  # The look at who is right waits for broker 4.
    world.write_cancel()
    world.answer_all()
    world.remove_cancel()
    world.catch_up_all()
    assert world.replicas(TP) == (1, 2)
    assert world.leadership(TP).target_replicas is None
    assert not world.store.reassignments


def test_who_makes_a_topic_is_answered_though_one_of_its_partitions_has_no_live_broker():
    world = Harness().start()
    world.hold_writes = True
    new = NewTopic("t", UUID(int=5), -1, -1, {0: (1,), 1: (2,)}, {})
    world.feed(TopicsSubmitted((new,), False, 9))
    world.kill(1)
    world.release_writes()
    assert world.leadership(TP) is None
    assert world.leadership(TopicPartition("t", 1)).leader == 2
    assert [result.error for result in world.replies[9].topics] == [ErrorCode.NONE]
    world.revive(1)
    assert world.leadership(TP).leader == 1
    replies = world.machine.intake.topic_replies
    assert not replies.unled
    assert not replies.announced


def test_a_move_that_waits_is_not_recorded_with_an_original_that_somebody_has_changed():
    """KIP-236: the original is what the replicas were, in their ORDER, when the record became durable."""
    world = Harness(max_concurrent=1).start()
    world.create("t", [(1, 2, 3), (1, 2, 3)])
    world.reassign({TP: (1, 2, 4)})
    waits = TopicPartition("t", 1)
    topic = world.store.topics["t"]
    by_hand = topic.assignments | {1: ReplicaAssignment((3, 2, 1))}
    world.store.topics["t"] = topic._replace(assignments=by_hand, version=topic.version + 1)
    world.reassign({waits: (1, 2, 4)}, token=8)
    recorded = world.store.reassignments[waits]
    assert (recorded.phase, recorded.original) == (Phase.PENDING, (3, 2, 1))


def test_a_replica_of_a_target_that_was_given_up_is_deleted_though_its_topic_goes_and_the_controller_dies():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.reassign({TP: (1, 2, 4)})
    world.silent.add(4)
    world.reassign({TP: (1, 2)}, token=8)
    world.store.deleting.add("t")
    world.feed(TopicDeletionsFound(("t",)))
    world.fail_over()
    world.silent.clear()
    world.fail_over()
    assert (4, TP) in world.deleted
    assert "t" not in world.store.topics


def test_a_debt_is_durable_before_the_record_that_names_it_goes():
    """A start-up's look at a record overtook the debt of a broker whose answer was that it had bounced."""
    world = Harness(slice_partitions=1).start()
    world.create("t", [(1, 2, 3)])
    world.silent.add(3)
    world.reassign({TP: (1, 2, 4)})
    world.catch_up(TP, 4)
    assert world.store.reassignments[TP].phase is Phase.DROPPING
    world.fail_over()
    bounced = [(id_, request) for id_, request in world.unanswered if id_ == 3]
    world.hold_writes = True
    world.feed(*(RequestAnswered(request.request_id, 3, ErrorCode.STALE_BROKER_EPOCH) for _, request in bounced))
    assert [type(record) for batch in world.held_batches for record in batch.records] == [
        CloseReassignment,
        PutOwedDeletion,
    ]


def test_a_broker_that_dies_while_its_replica_is_dropped_owes_it_though_the_topic_goes():
    world = Harness().start()
    world.create("t", [(1, 2, 3)])
    world.reassign({TP: (1, 2, 4)})
    world.hold_writes = True
    world.catch_up(TP, 4)
    world.kill(3)
    world.store.deleting.add("t")
    world.feed(TopicDeletionsFound(("t",)))
    world.release_writes()
    assert "t" not in world.store.topics
    world.fail_over()
    world.revive(3)
    assert (3, TP) in world.deleted
    assert not world.store.owed


def test_a_pause_that_ends_in_the_write_in_which_it_began_stops_nothing():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.create("u", [(1, 2)])
    world.reassign({TP: (1, 2, 3)})
    world.hold_writes = True
    world.feed(submitted(7, ("u", 0), (3, 4)), everything(8, CancelMode.PAUSE), everything(9, CancelMode.RESUME))
    let_write(world)
    assert world.store.reassignments[TP].phase is Phase.MOVING
    assert not [request for request in world.sent if isinstance(request, SendStopReplica)]


def test_a_pending_move_that_somebody_else_began_is_taken_back_by_a_cancel():
    world = pending_and_begun_by_somebody_else()
    world.reassign({TP: None}, token=3)
    assert world.state(TP).assignment == ReplicaAssignment((1, 2))
    assert TP not in world.store.reassignments


def test_a_record_is_closed_when_one_broker_owes_and_the_other_answers_while_that_is_written():
    world = Harness(brokers=(1, 2, 3, 4, 5)).start()
    world.create("t", [(1, 2, 3)])
    world.silent.update((2, 3))
    world.reassign({TP: (1,)})
    world.catch_up_all()
    assert world.store.reassignments[TP].phase is Phase.DROPPING
    stops = {id_: request for id_, request in world.unanswered if isinstance(request, SendStopReplica)}
    world.hold_writes = True
    world.feed(RequestAnswered(stops[2].request_id, 2, ErrorCode.STALE_BROKER_EPOCH))
    world.feed(RequestAnswered(stops[3].request_id, 3))
    world.release_writes()
    assert TP not in world.store.reassignments


def waiting_request(**asked):
    """A request of two partitions whose first was taken on in the first slice, and whose second waits."""
    world = Harness(slice_partitions=1).start()
    world.create("t", [(1, 2), (1, 2)])
    world.hold_writes = True
    world.write_request({("t", 0): (1, 3), ("t", 1): (1, 3)}, **asked)
    return world


@pytest.mark.parametrize("legacy", [False, True])
def test_a_cancel_of_everything_reaches_what_waits_in_a_request_for_good(legacy):
    world = waiting_request(legacy=legacy)
    world.feed(everything(7, CancelMode.ROLL_BACK))
    while 7 not in world.replies:
        batches, world.held_batches = world.held_batches, []
        world.feed(*(event for batch in batches for event in world._write(batch)))
    world.fail_over()
    world.catch_up_all()
    assert {tp: world.replicas(tp) for tp in (TP, TopicPartition("t", 1))} == dict.fromkeys(
        (TP, TopicPartition("t", 1)), (1, 2)
    )
    assert not world.store.reassignments
    assert not world.store.requests


def test_what_is_asked_for_after_a_cancel_is_taken_though_it_names_the_same():
    world = waiting_request()
    world.feed(submitted(7, ("t", 1), None))
    world.write_request({("t", 1): (2, 4)})
    let_write(world)
    world.release_writes()
    world.catch_up_all()
    assert world.replicas(TP) == (1, 3)
    assert world.replicas(TopicPartition("t", 1)) == (2, 4)
    assert not world.store.requests


@pytest.mark.parametrize("place", ["write_legacy", "write_extra"])
def test_a_cancel_of_everything_reaches_what_waits_in_the_other_znodes(place):
    world = busy()
    getattr(world, place)({TP: (3, 4)})
    world.feed(everything(2, CancelMode.ROLL_BACK))
    let_write(world)
    world.release_writes()
    world.catch_up_all()
    assert world.replicas(TP) == (1, 2)
    assert world.store.legacy is None
    assert world.store.extra is None
    assert not world.store.requests


def test_a_broker_that_returns_with_its_log_dir_while_a_move_is_accepted_lets_it_begin():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.machine.intake.liveness.on_replicas_failed(3, [TP])
    world.hold_writes = True
    world.reassign({TP: (1, 3)})
    assert world.held_batches
    world.bounce(3)
    world.release_writes()
    world.catch_up_all()
    assert world.replicas(TP) == (1, 3)


def test_a_write_that_zookeeper_forbids_leaves_what_the_extra_znode_asks_for_to_be_done():
    """Nothing was read back: that was taken for a znode that is gone, and what it asked for was forgotten."""
    world = Harness(max_concurrent=1).start()
    world.create("t", [(1, 2), (1, 2)])
    world.reassign({("t", 1): (1, 3)})
    world.hold_writes = True
    world.write_extra({TP: (1, 4), ("t", 1): (1, 3)})
    for _ in range(2):
        [batch] = world.held_batches
        world.held_batches.clear()
        world.feed(BatchRefused(batch.batch_id, "failed"))
        world.pass_time(1_000)
    world.release_writes()
    world.catch_up_all()
    assert world.replicas(TP) == (1, 4)
    assert world.store.extra is None


def test_a_leader_that_knows_a_newer_state_than_we_do_is_sent_to_look_for_the_controller():
    """Somebody who was elected after us wrote it. Source: `KafkaController.tryProcessAlterPartition`."""
    world = Harness().start()
    world.create("t", [(1, 2)])
    known = world.leadership(TP)
    proposal = IsrProposal(TP, known.leader_epoch, known.partition_epoch + 1, ((1, -1),))
    world.feed(AlterPartitionReceived(1, world.live[1].epoch, (proposal,), 9))
    assert world.replies[9].partitions == ((TP, ErrorCode.NOT_CONTROLLER),)
    assert world.leadership(TP).isr == known.isr


def test_what_became_pending_while_settings_changed_begins_by_the_new_ones():
    """Seed 94100008: the bound on moves was lifted while a write made two of them pending."""
    world = Harness(max_concurrent=1).start()
    world.create("t", [(1, 2), (1, 2)])
    world.reassign({("t", 1): (1, 3)})
    world.hold_writes = True
    world.reassign({TP: (1, 4)}, token=6)
    world.feed(SettingsChanged(replace(world.settings, max_concurrent=0)))
    world.release_writes()
    assert world.store.reassignments[TP].phase is Phase.MOVING
