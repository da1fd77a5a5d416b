"""KIP-236, first protocol: cancel znode, extra znode, original replicas. Each test quotes the sentence it holds."""

import json

import pytest
from harness import Harness

from shunter.core.controller.ready import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from shunter.formats.znodes.admin import decode_legacy_reassignments, encode_legacy_reassignments
from shunter.model.partition import ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Phase, Strategy
from shunter.model.records import CloseReassignment, PutLegacyReassignments, PutTopic
from shunter.model.snapshot import LegacyReassignments

TP = TopicPartition("t", 0)
SECOND = TopicPartition("t", 1)
THIRD = TopicPartition("t", 2)


@pytest.fixture
def world():
    """Three partitions on 1, 2, 3; brokers up to 6; all new replicas at once, so that a rollback is one write."""
    return Harness(brokers=(1, 2, 3, 4, 5, 6), strategy=Strategy.ALL_AT_ONCE).start(t=[(1, 2, 3), (2, 1, 3), (3, 1, 2)])


def test_the_controller_is_informed_of_a_cancellation_by_a_watch_and_rolls_back(world):
    """'the controller will be informed of the reassignment cancellation via a ZooKeeper watch on this'"""
    world.write_legacy({TP: (4, 5, 6), SECOND: (4, 5, 6)})
    world.catch_up(TP, 4)
    world.write_cancel()
    assert world.replicas(TP) == (1, 2, 3)
    assert world.replicas(SECOND) == (2, 1, 3)
    assert not world.store.reassignments
    world.check()


def test_all_are_rolled_back_together(world):
    """'For each pending topic/partition reassignments, the cancellation /rollback works like below': in one write."""
    world.write_legacy({TP: (4, 5, 6), SECOND: (4, 5, 6), THIRD: (4, 5, 6)})
    before = len(world.store.log)
    world.write_cancel()
    rollbacks = [records for records in world.store.log[before:] if any(isinstance(r, PutTopic) for r in records)]
    assert len(rollbacks) == 1
    assert {
        number for record in rollbacks[0] if isinstance(record, PutTopic) for number in record.topic.assignments
    } == {
        0,
        1,
        2,
    }


def test_step_2_a_leader_outside_the_originals_is_replaced_from_them(world):
    """'If the leader is not in OAR, elect a new leader from OAR.'"""
    world.write_legacy({TP: (4, 5, 6)})
    world.catch_up(TP, 4)
    for id_ in (1, 2, 3):
        world.kill(id_)
    assert world.leadership(TP).leader == 4
    for id_ in (1, 2, 3):
        world.revive(id_)
    world.catch_up(TP, 1, 2, 3)
    world.write_cancel()
    assert world.leadership(TP).leader in (1, 2, 3)
    assert world.replicas(TP) == (1, 2, 3)


def test_step_2_the_leader_epoch_grows_even_where_the_leader_stays(world):
    """'If not, then leader epoch will be incremented in zookeeper and a LeaderAndIsr request will be sent.'"""
    world.write_legacy({TP: (4, 5, 6)})
    before, sent = world.leadership(TP), len(world.sent)
    world.write_cancel()
    after = world.leadership(TP)
    assert (after.leader, after.leader_epoch) == (before.leader, before.leader_epoch + 1)
    told = [r for r in world.sent[sent:] if isinstance(r, SendLeaderAndIsr)]
    assert {request.broker for request in told} == {1, 2, 3}
    assert all(
        state.assignment.replicas == (1, 2, 3) and not state.assignment.adding
        for request in told
        for topic in request.topics
        for _, state in topic.partitions
    )


def test_steps_3_to_5_the_new_replicas_leave_the_isr_are_stopped_and_deleted(world):
    """'shrink the isr to remove RAR - OAR in zookeeper'; 'send a StopReplica (delete = true)'; 'Update AR in ZK'

    One StopReplica with delete=true does what the seed's two do: docs/decisions/0110-znode-protocols.md.
    """
    world.write_legacy({TP: (4, 5, 6)})
    world.catch_up(TP, 4, 5)
    sent = len(world.sent)
    world.write_cancel()
    assert world.leadership(TP).isr == (1, 2, 3)
    stops = [r for r in world.sent[sent:] if isinstance(r, SendStopReplica)]
    assert {(r.broker, stop.tp, stop.delete) for r in stops for stop in r.partitions} == {
        (4, TP, True),
        (5, TP, True),
        (6, TP, True),
    }
    assert world.store.topics["t"].assignments[0].replicas == (1, 2, 3)


def test_step_6_the_partition_leaves_the_legacy_znode(world):
    """'Update the /admin/reassign_partitions path in ZK to remove this partition.'"""
    world.write_legacy({TP: (4, 5, 6), SECOND: (4, 5, 6)})
    assert set(world.store.legacy.targets) == {TP, SECOND}
    world.write_cancel()
    assert world.store.legacy is None


def test_step_7_every_broker_hears_of_it(world):
    """'So resend the update metadata request to every broker.'"""
    world.write_legacy({TP: (4, 5, 6)})
    sent = len(world.sent)
    world.write_cancel()
    world.pass_time(1_000)
    told = [request for request in world.sent[sent:] if isinstance(request, SendUpdateMetadata)]
    assert {broker for request in told for broker in request.brokers} == {1, 2, 3, 4, 5, 6}


def test_the_cancel_znode_is_not_deleted_by_the_controller(world):
    """'Note that /admin/reassign_cancel will not be deleted after the cancellation is completed.'"""
    world.write_legacy({TP: (4, 5, 6)})
    world.write_cancel()
    assert world.store.cancel is not None
    assert not world.store.reassignments


def test_nothing_new_starts_by_rpc_while_it_is_there_and_the_submitter_is_told_why(world):
    """'While znode /admin/reassign_cancel is present, no new reassignments can be submitted.'"""
    world.write_cancel()
    world.reassign({TP: (4, 5, 6)})
    assert world.result(1) == {TP: "REASSIGNMENT_IN_PROGRESS"}
    assert "/admin/reassign_cancel" in world.replies[1].partitions[0][2]
    assert world.replicas(TP) == (1, 2, 3)


def test_nothing_new_starts_by_the_legacy_znode_until_it_is_removed(world):
    """'if (zkClient.reassignCancelInPlace()) return // if the ReassignCancelZNode exists , skip reassignment'"""
    world.write_cancel()
    world.write_legacy({TP: (4, 5, 6)})
    assert world.replicas(TP) == (1, 2, 3)
    assert world.store.legacy is not None
    assert world.told("held-back")
    world.remove_cancel()
    assert set(world.replicas(TP)) == {1, 2, 3, 4, 5, 6}


def test_nothing_new_starts_by_the_extra_or_a_request_znode_until_it_is_removed(world):
    """'While znode /admin/reassign_cancel is present, no new reassignments can be submitted.'"""
    world.write_cancel()
    world.write_extra({TP: (4, 5, 6)})
    world.write_request({SECOND: (4, 5, 6)})
    assert not world.store.reassignments
    assert len(world.told("held-back")) == 2
    world.remove_cancel()
    assert set(world.store.reassignments) == {TP, SECOND}
    assert world.store.extra is None
    assert not world.store.requests


def test_what_was_asked_for_before_the_cancel_and_had_not_begun_is_cancelled_too(world):
    """'The controller will read the current pending reassignments'; decision 0110: creation order tells which."""
    world.hold_writes = True
    world.reassign({THIRD: (4, 5, 6)})
    world.write_legacy({TP: (4, 5, 6)})
    world.write_request({SECOND: (4, 5, 6)})
    world.write_cancel()
    world.release_writes()
    assert not world.store.reassignments
    assert world.store.legacy is None
    assert not world.store.requests
    assert all(world.replicas(("t", n))[:3] == world.store.topics["t"].assignments[n].replicas for n in range(3))
    world.remove_cancel()
    assert not world.store.reassignments
    world.check()


def test_a_failover_in_the_middle_goes_on_with_the_cancellation():
    """Decision 0110: the znode is read at start-up, so a new controller rolls back the moves that are left."""
    world = Harness(brokers=(1, 2, 3, 4, 5, 6), strategy=Strategy.ALL_AT_ONCE, slice_partitions=2).start()
    world.create("t", [(1, 2, 3)] * 6)
    world.write_legacy({("t", n): (4, 5, 6) for n in range(6)})
    assert len(world.store.reassignments) == 6
    world.hold_writes = True
    world.write_cancel()
    world.feed(*world._write(world.held_batches.pop(0)))
    world.feed(*world._write(world.held_batches.pop(0)))
    under_way = [number for number, known in world.store.topics["t"].assignments.items() if known.in_motion]
    assert 0 < len(under_way) < 6
    world.fail_over()
    assert not world.store.reassignments
    assert world.store.legacy is None
    assert all(world.replicas(("t", n)) == (1, 2, 3) for n in range(6))
    world.reassign({TP: (4, 5, 6)})
    assert world.result(1) == {TP: "REASSIGNMENT_IN_PROGRESS"}
    world.check()


def test_a_cancel_overtakes_what_waits_for_the_barrier(world):
    """'rollback the pending reassignments … immediately': a cancel does not wait for a slow broker."""
    world.silent = {3}
    world.write_legacy({TP: (4, 5, 6)})
    world.pass_time(world.settings.slow_broker_ms)
    assert set(world.replicas(TP)) == {1, 2, 3, 4, 5, 6}
    world.reassign({SECOND: (4, 5, 6)})
    world.write_cancel()
    assert world.replicas(TP) == (1, 2, 3)


def test_a_paused_move_is_rolled_back_too(world):
    """'rollback … every pending reassignment': a paused one is pending."""
    from shunter.model.reassignment import Intervention

    world.reassign({TP: (4, 5, 6)})
    world.reassign({TP: None}, token=2, intervention=Intervention.PAUSE)
    assert world.store.reassignments[TP].phase is Phase.PAUSED
    world.write_cancel()
    assert world.replicas(TP) == (1, 2, 3)
    assert not world.store.reassignments
    world.reassign({TP: None}, token=3, intervention=Intervention.RESUME)
    assert world.result(3) == {TP: "NO_REASSIGNMENT_IN_PROGRESS"}


def test_the_original_replicas_of_a_tool_decide_what_a_rollback_restores(world):
    """'This "original_replicas" will be used for rollback of the topic/partition replicas assignment'

    If another controller has begun the move, the topic has the originals but not their order; otherwise the partition's
    replicas have it: docs/decisions/0110-znode-protocols.md.
    """
    topic = world.store.topics["t"]
    begun = ReplicaAssignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))
    world.store.topics["t"] = topic._replace(assignments={**topic.assignments, 0: begun}, version=topic.version + 1)
    targets = {TP: (4, 5, 6)}
    world.store.legacy = LegacyReassignments(targets, {TP: (3, 2, 1)}, 0, world.store.czxid)
    world.fail_over()
    assert world.store.reassignments[TP].original == (3, 2, 1)
    world.write_cancel()
    assert world.replicas(TP) == (3, 2, 1)
    assert not world.told("original-replicas-ignored")


@pytest.mark.parametrize("given", [(77, 78), (5, 6), (3, 2, 1), (1, 2), (), (-1, 2, 3), (1, 1, 2)])
@pytest.mark.parametrize("at_start", [False, True])
def test_original_replicas_that_are_not_what_stands_there_are_told_and_not_used(world, given, at_start):
    """A rollback to replicas that the partition never had would wait for ever, or end at a wrong place (0110)."""
    if at_start:
        world.store.legacy = LegacyReassignments({TP: (4, 5, 6)}, {TP: given}, 0, world.store.czxid)
        world.fail_over()
    else:
        world.write_legacy({TP: (4, 5, 6)}, originals={TP: given})
    assert world.store.reassignments[TP].original == (1, 2, 3)
    (told,) = world.told("original-replicas-ignored")
    assert str(list(given)) in told.text
    assert "[1, 2, 3]" in told.text
    world.write_cancel()
    world.catch_up_all()
    assert world.replicas(TP) == (1, 2, 3)
    assert not world.store.reassignments


def test_the_controller_finds_the_originals_where_a_client_did_not_give_them(world):
    """'When client are submitting reassignments, it only needs to submit "replicas"'"""
    world.write_legacy({SECOND: (4, 5, 6)})
    assert world.store.reassignments[SECOND].original == (2, 1, 3)


def test_original_replicas_are_kept_in_our_record_and_hidden_from_apaches_parser(world):
    """'adding "original_replicas" to support rollback': departed from in decision 0110 (Apache's strict parser)."""
    world.write_legacy({TP: (4, 5, 6)}, originals={TP: (1, 2, 3)})
    written = [r for records in world.store.log for r in records if isinstance(r, PutLegacyReassignments)]
    assert written
    assert world.store.legacy.originals == {}


def test_the_format_of_the_legacy_znode_with_original_replicas():
    """'{"version":1, "partitions":[{"topic": "foo1", "partition": 0, "replicas": [1,2,4], "original_replicas": …'"""
    document = {
        "version": 1,
        "partitions": [
            {"topic": "foo1", "partition": 0, "replicas": [1, 2, 4], "original_replicas": [1, 2, 3]},
            {"topic": "foo2", "partition": 1, "replicas": [7, 9, 8], "original_replicas": [5, 6, 8]},
        ],
    }
    found = decode_legacy_reassignments(json.dumps(document).encode(), 3)
    assert found.originals == {("foo1", 0): (1, 2, 3), ("foo2", 1): (5, 6, 8)}
    assert json.loads(encode_legacy_reassignments(found.targets.items(), found.originals)) == document


def test_extra_reassignments_start_while_others_are_in_flight(world):
    """'For submitting new reassignments while some are still pending, the new /admin/reassign_partitions_extra'"""
    world.write_legacy({TP: (4, 5, 6)})
    world.write_extra({SECOND: (4, 5, 6)})
    assert set(world.store.reassignments) == {TP, SECOND}


def test_an_extra_entry_is_put_into_the_legacy_znode_and_leaves_the_extra_one_in_the_same_write(world):
    """'After the topic/partition is put in /admin/reassign_partitions, it will be removed from …_extra'"""
    world.write_legacy({TP: (4, 5, 6)})
    before = len(world.store.log)
    world.write_extra({SECOND: (4, 5, 6), THIRD: (4, 5, 6)})
    assert set(world.store.legacy.targets) == {TP, SECOND, THIRD}
    taken = [
        records for records in world.store.log[before:] if any(isinstance(r, PutLegacyReassignments) for r in records)
    ]
    assert len(taken) == 1
    assert {type(record).__name__ for record in taken[0]} >= {"PutLegacyReassignments", "PutExtraReassignments"}


def test_the_extra_znode_goes_when_it_is_empty(world):
    """'when /admin/reassign_partitions_extra is empty, the znode will be deleted'"""
    world.write_extra({SECOND: (4, 5, 6)})
    assert world.store.extra is None
    world.write_extra({})
    assert world.store.extra is None


def test_a_conflicting_extra_is_rolled_back_first_and_starts_anew(world):
    """'the conflict resolution … is to first cancel / rollback the reassignments …, then submit new reassignments'"""
    world.write_legacy({TP: (4, 5, 6)})
    world.catch_up(TP, 4)
    world.write_extra({TP: (1, 2, 5)})
    move = world.store.reassignments[TP]
    assert move.target == (1, 2, 5)
    assert move.original == (1, 2, 3)
    assert 6 not in world.replicas(TP)
    assert (6, TP) in world.deleted
    world.catch_up_all()
    assert world.replicas(TP) == (1, 2, 5)
    assert not world.store.reassignments
    assert world.store.legacy is None


def test_what_both_the_old_and_the_extra_target_want_is_not_fetched_again(world):
    """Decision 0105: nothing is deleted and fetched again when a conflicting extra wants it too."""
    world.write_legacy({TP: (4, 5, 6)})
    world.write_extra({TP: (1, 5, 6)})
    assert (5, TP) not in world.deleted
    assert (6, TP) not in world.deleted


def test_an_extra_that_is_refused_is_told_and_does_not_stay(world):
    """'it will be removed from /admin/reassign_partitions_extra': an impossible entry, too, with a notice."""
    world.write_extra({TP: (4, 4)})
    assert world.told("legacy-refused")
    assert world.store.extra is None
    assert world.store.legacy is None
    assert not world.store.reassignments


def test_extra_entries_wait_while_the_legacy_znode_is_as_large_as_zookeeper_takes():
    """'The ZooKeeper-imposed limit of 1MB on znode size places an upper limit on the number of reassignments that can be
    done at a given time.': further entries wait in the extra znode until others have left the legacy znode.
    """
    world = Harness(brokers=(1, 2, 3, 4), max_concurrent=1).start()
    long = "t" * 249
    world.create(long, [(1, 2, 3)] * 2_000)
    several = [TopicPartition(long, number) for number in range(2_000)]
    world.write_legacy(dict.fromkeys(several[:1_900], (1, 2, 4)))
    more = set(several[1_900:])
    world.write_extra(dict.fromkeys(more, (1, 2, 4)))
    assert set(world.store.extra.targets) == more
    assert not more & set(world.store.reassignments)
    world.reassign(dict.fromkeys(several[1_000:1_900]), token=2)
    assert world.store.extra is None
    assert more <= set(world.store.legacy.targets)
    assert more <= set(world.store.reassignments)
    written = [r for records in world.store.log for r in records if isinstance(r, PutLegacyReassignments) and r.targets]
    assert max(len(encode_legacy_reassignments(record.targets)) for record in written) < 1_000_000


def test_an_extra_survives_a_failover_before_it_was_taken(world):
    """Decision 0110: the extra znode is read at start-up."""
    world.write_legacy({TP: (4, 5, 6)})
    world.hold_writes = True
    world.write_extra({SECOND: (4, 5, 6)})
    world.fail_over()
    assert set(world.store.reassignments) == {TP, SECOND}
    world.catch_up_all()
    assert world.replicas(SECOND) == (4, 5, 6)
    assert world.store.extra is None
    assert world.store.legacy is None


def test_a_tool_that_writes_the_extra_znode_meanwhile_loses_nothing(world):
    """Decision 0110: a write that met a newer extra znode is decided again by the znode's new contents."""
    world.hold_writes = True
    world.write_extra({TP: (4, 5, 6)})
    known = world.store.extra
    world.store.extra = known._replace(targets={**known.targets, SECOND: (4, 5, 6)}, version=known.version + 1)
    world.release_writes()
    world.pass_time(1_000)
    assert set(world.store.reassignments) == {TP, SECOND}
    assert world.store.extra is None


def test_entries_leave_the_legacy_znode_as_they_finish(world):
    """'The controller removes partition from /admin/reassign_partitions, or … is deleted.'"""
    world.write_legacy({TP: (4, 5, 6), SECOND: (4, 5, 6)})
    world.catch_up(TP, 4, 5, 6)
    assert set(world.store.legacy.targets) == {SECOND}
    closed = [r for records in world.store.log for r in records if isinstance(r, CloseReassignment)]
    world.catch_up(SECOND, 4, 5, 6)
    assert world.store.legacy is None
    assert len([r for records in world.store.log for r in records if isinstance(r, CloseReassignment)]) > len(closed)


def test_a_non_empty_legacy_znode_ignores_further_writes(world):
    """'Once the znode is non-empty, further writes to it will be ignored.'"""
    world.write_legacy({TP: (4, 5, 6)})
    world.write_legacy({TP: (4, 5, 6), SECOND: (4, 5, 6)})
    assert SECOND not in world.store.reassignments
    assert world.told("legacy-ignored")
    assert set(world.store.legacy.targets) == {TP}
