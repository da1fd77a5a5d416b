"""Bugs that `shunter simulate` found in the core, each as the shortest story that shows it (docs/reliability.md)."""

from uuid import UUID

import pytest
from harness import US, Harness, broker

from shunter.core.controller.events import (
    AlterPartitionReceived,
    BrokersRead,
    Envelope,
    IsrProposal,
    ReassignmentChange,
    ReassignmentsSubmitted,
    TimePassed,
    TopicDeletionsSubmitted,
    TopicsRead,
)
from shunter.core.controller.ready import SendStopReplica
from shunter.errors import ErrorCode
from shunter.model.partition import ReplicaAssignment, TopicPartition
from shunter.model.reassignment import CancelMode, Phase
from shunter.model.snapshot import LegacyReassignments
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


def test_a_pending_move_that_somebody_else_began_is_finished():
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


@pytest.mark.parametrize("mode", [CancelMode.RESUME, CancelMode.PAUSE])
def test_a_pause_or_a_resume_cancels_nothing_that_waits(mode):
    world = busy()
    everything = ReassignmentsSubmitted((), cancel_all=True, cancel_mode=mode, reply_to=3)
    world.feed(submitted(2, TP, (3, 4)), everything)
    let_write(world)
    assert world.replies[2].partitions == ((TP, ErrorCode.NONE, None),)
    assert world.store.reassignments[TP].target == (3, 4)


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
