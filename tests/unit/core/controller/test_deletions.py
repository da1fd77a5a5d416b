"""Deletions happen, whichever process dies meanwhile, and nothing else is deleted; debts are durable."""

from uuid import UUID

from beginnings import TP, let_write, submitted
from harness import Harness

from shunter.core.controller.events import (
    RequestAnswered,
    TopicDeletionsFound,
    TopicDeletionsSubmitted,
    TopicsRead,
)
from shunter.core.controller.ready import SendStopReplica
from shunter.errors import ErrorCode
from shunter.model.partition import ReplicaAssignment
from shunter.model.reassignment import Phase, Strategy
from shunter.model.records import CloseReassignment, PutOwedDeletion
from shunter.model.snapshot import LeftOut, LegacyReassignments
from shunter.model.topic import Topic


def test_what_moves_a_topic_that_is_being_deleted_leaves_no_record():
    world = Harness().start(t=[(1, 2, 3)])
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


def test_a_dropped_replica_is_deleted_though_its_topic_went_meanwhile():
    world = Harness().start(t=[(1, 2, 3)])
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
    world = Harness(brokers=(1, 2, 3, 4, 5)).start(t=[(1, 2)])
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


def test_a_broker_that_came_back_while_its_debt_was_written_is_asked():
    world = Harness(brokers=(1, 2, 3, 4)).start(t=[(1, 2)])
    world.kill(2)
    world.hold_writes = True
    world.reassign({TP: (1,)})
    world.revive(2)
    world.release_writes()
    world.pass_time(1_000)
    assert 2 not in world.replicas(TP)
    assert (2, TP) in world.deleted
    assert not world.store.owed


def test_a_cancel_reaches_what_waits_behind_the_last_deletions_of_a_move():
    world = Harness().start(t=[(1, 2)])
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
    world = Harness().start(t=[(1, 2)])
    world.store.left_out = LeftOut(topics=frozenset({"t"}))
    world.store.deleting = {"t"}
    world.fail_over()
    assert world.store.deleting == {"t"}


def test_a_move_that_is_found_owes_what_the_one_before_it_has_not_deleted():
    world = Harness(slow_broker_ms=1_000).start(t=[(1, 2)])
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


def test_a_deleted_topic_that_somebody_made_anew_is_another_one():
    world = Harness().start(t=[(1, 2)])
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
    world = Harness().start(t=[(2, 3)])
    world.hold_writes = True
    world.reassign({TP: (1, 2)}, strategy=Strategy.ALL_AT_ONCE)
    world.store.deleting = {"t"}
    world.feed(TopicDeletionsFound(("t",)))
    let_write(world)
    assert (1, TP) in world.deleted
    assert "t" not in world.store.topics
    assert not world.machine.state.waiting


def test_a_replica_of_a_target_that_was_given_up_is_deleted_though_its_topic_goes_and_the_controller_dies():
    world = Harness().start(t=[(1, 2)])
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
    """The review of a record at a start-up overtook the debt of a broker that had refused because it had bounced."""
    world = Harness(slice_partitions=1).start(t=[(1, 2, 3)])
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
    world = Harness().start(t=[(1, 2, 3)])
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


def test_a_record_is_closed_when_one_broker_owes_and_the_other_answers_while_that_is_written():
    world = Harness(brokers=(1, 2, 3, 4, 5)).start(t=[(1, 2, 3)])
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


def test_a_record_stays_until_what_its_last_step_drops_is_deleted_too():
    """Found by world 95378143: a debt of an earlier step became durable, and the last step was in the next write."""
    world = Harness().start(t=[(4, 1)])
    world.propose(TP, (4,))
    world.silent.update((1, 4))
    world.reassign({TP: (3,)})
    (stop,) = [request for id_, request in world.unanswered if id_ == 1 and isinstance(request, SendStopReplica)]
    world.hold_writes = True
    world.feed(RequestAnswered(stop.request_id, 1, ErrorCode.STALE_BROKER_EPOCH))
    world.catch_up(TP, 3)
    world.release_writes()
    assert world.replicas(TP) == (3,)
    assert world.store.reassignments[TP].phase is Phase.DROPPING
    world.silent.clear()
    world.fail_over()
    assert (4, TP) in world.deleted
    assert not world.store.reassignments


def test_a_late_refusal_of_a_former_deletion_says_nothing_of_the_later_one():
    """World 96001383: the replica was assigned and dropped again before the first request was answered."""
    world = Harness().start(t=[(3, 2)])
    world.reassign({TP: (3, 1)})
    world.silent.add(2)
    world.catch_up(TP, 1)
    for token, target in ((2, (3, 1, 2)), (3, (3, 1))):
        world.reassign({TP: target}, token=token)
        for _ in range(10):
            world.pass_time(1_000)
        assert world.replicas(TP) == target
    first, second = sorted(request for request, broker in world.machine.outbox.deletions if broker == 2)
    fenced = {TP: ErrorCode.FENCED_LEADER_EPOCH}
    world.feed(RequestAnswered(first, 2, partition_errors=fenced), RequestAnswered(second, 2))
    assert not world.store.owed
    assert not world.machine.intake.moves.refused
    assert not world.store.reassignments
