"""KIP-455, both drafts, against the controller's machine: each test quotes the sentence it holds."""

import asyncio

import pytest
from harness import Harness

from shunter.core.controller.events import ReassignmentChange, ReassignmentsSubmitted, TopicDeletionsSubmitted
from shunter.core.controller.ready import SendLeaderAndIsr
from shunter.drivers.listener.handlers.reassignments import whole_move
from shunter.formats.znodes.topics import decode_state, encode_state
from shunter.model.partition import ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Intervention, Phase, Strategy
from shunter.model.snapshot import LegacyReassignments

TP = TopicPartition("t", 0)
SECOND = TopicPartition("t", 1)
OTHER = TopicPartition("u", 0)


def yard(**settings):
    settings.setdefault("strategy", Strategy.ALL_AT_ONCE)
    return Harness(brokers=(1, 2, 3, 4, 5, 6), **settings).start(t=[(1, 2, 3), (2, 1, 3)], u=[(1, 2, 3)])


@pytest.fixture
def world():
    return yard()


def cancel_whole(world, topics=None, mode=Intervention.STOP, token=90):
    world.feed(
        ReassignmentsSubmitted((), tuple(topics or ()), cancel_all=topics is None, intervention=mode, reply_to=token)
    )
    return world.result(token)


def adding_and_removing(world, tp):
    return whole_move(world.state(tp).assignment, world.machine.state.reassignments[tp])[1:]


# ---- RPC 45


def test_reassignments_are_added_modified_and_removed_one_by_one(world):
    """'Change the reassignments for one or more partitions.' 'The reassignments to add, modify, or remove.'"""
    world.reassign({TP: (4, 5, 6), SECOND: (4, 5, 6)})
    world.reassign({TP: (4, 5, 1), SECOND: None, OTHER: (4, 2, 3)}, token=2)
    assert set(world.result(2).values()) == {"NONE"}
    assert set(world.store.reassignments) == {TP, OTHER}
    assert world.store.reassignments[TP].target == (4, 5, 1)


def test_null_topics_cancel_everything(world):
    """'The topics to reassign, or null to cancel all the pending reassignments for all topics.'"""
    world.reassign({TP: (4, 5, 6), SECOND: (4, 5, 6), OTHER: (4, 5, 6)})
    assert cancel_whole(world) == {TP: "NONE", SECOND: "NONE", OTHER: "NONE"}
    assert not world.store.reassignments


def test_null_partitions_cancel_a_topic(world):
    """'The partitions to reassign, or null to cancel all pending reassignments for this topic'"""
    world.reassign({TP: (4, 5, 6), SECOND: (4, 5, 6), OTHER: (4, 5, 6)})
    assert cancel_whole(world, ["t"]) == {TP: "NONE", SECOND: "NONE"}
    assert set(world.store.reassignments) == {OTHER}


def test_null_replicas_cancel_a_partition(world):
    """'The replicas to place the partitions on, or null to cancel a pending reassignment.'"""
    world.reassign({TP: (4, 5, 6), SECOND: (4, 5, 6)})
    world.reassign({TP: None}, token=2)
    assert world.result(2) == {TP: "NONE"}
    assert set(world.store.reassignments) == {SECOND}


@pytest.mark.parametrize("replicas", [(-1, 2), (2, 2), (2, 77), (), (2, 100)])
def test_invalid_replica_assignments(world, replicas):
    """'if it included negative numbers, repeated numbers, or specified a broker ID that the controller was not aware'"""
    world.reassign({TP: replicas, SECOND: (4, 5, 6)})
    assert world.result(1) == {TP: "INVALID_REPLICA_ASSIGNMENT", SECOND: "NONE"}


def test_an_empty_list_of_replicas_is_refused_and_cancels_nothing(world):
    """'null to cancel a pending reassignment': only null; docs/decisions/0106-targets.md."""
    world.reassign({TP: (4, 5, 6)})
    before = world.store.reassignments[TP]
    world.reassign({TP: ()}, token=2)
    assert world.result(2) == {TP: "INVALID_REPLICA_ASSIGNMENT"}
    assert "null cancels" in world.replies[2].partitions[0][2]
    assert world.store.reassignments[TP] == before


@pytest.mark.parametrize(
    ("words", "target", "told"),
    [
        (((4, 2, 3), None), None, "NO_REASSIGNMENT_IN_PROGRESS"),
        ((None, (4, 2, 3)), (4, 2, 3), "NONE"),
        (((4, 4), (4, 2, 3)), (4, 2, 3), "NONE"),
        (((4, 2, 3), ()), None, "INVALID_REPLICA_ASSIGNMENT"),
    ],
)
def test_of_a_partition_that_is_named_twice_the_last_word_counts(world, words, target, told):
    """As with Apache's controller, which keeps one entry for each partition of a request."""
    world.feed(ReassignmentsSubmitted(tuple(ReassignmentChange(TP, word) for word in words), reply_to=1))
    assert world.result(1) == {TP: told}
    move = world.store.reassignments.get(TP)
    assert (None if move is None else move.target) == target


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("target", [(1, 2, 3, 4), (3, 2, 1), (2, 3), (4, 3, 2), (4, 1, 3)])
def test_a_dead_broker_that_has_a_replica_already_may_be_named(target, forced):
    """'a broker ID that the controller was not aware of': only of added replicas (0113, as Apache's controller)."""
    world = yard()
    world.kill(3)
    world.reassign({TP: target}, forced=forced)
    assert world.result(1) == {TP: "NONE"}
    world.catch_up_all()
    world.check()
    world.revive(3)
    world.catch_up_all()
    assert world.replicas(TP) == target
    assert not world.store.reassignments


def test_a_broker_that_is_added_has_to_be_live():
    """'a broker ID that the controller was not aware of' (0113)."""
    world = yard()
    world.kill(4)
    world.reassign({TP: (1, 2, 4)})
    assert world.result(1) == {TP: "INVALID_REPLICA_ASSIGNMENT"}
    assert "[1, 2, 4]" in world.replies[1].partitions[0][2]
    world.reassign({TP: (1, 2, 4)}, token=2, forced=True)
    assert world.result(2) == {TP: "INVALID_REPLICA_ASSIGNMENT"}


@pytest.mark.parametrize("strategy", Strategy)
def test_the_originals_of_a_moving_partition_may_be_returned_to_though_one_is_dead(strategy):
    """Issue: 'a return to the saved original assignment of a moving partition', dropped replicas included (0113)."""
    world = yard(strategy=strategy)
    world.reassign({TP: (4, 5, 6)})
    world.catch_up(TP, 4)
    world.kill(2)
    world.kill(3)
    world.reassign({TP: (1, 2, 3)}, token=2)
    assert world.result(2) == {TP: "NONE"}
    world.catch_up_all()
    world.revive(2)
    world.revive(3)
    world.catch_up_all()
    assert world.replicas(TP) == (1, 2, 3)
    assert not world.store.reassignments


@pytest.mark.parametrize("way", ["legacy", "extra", "request"])
def test_what_is_asked_for_by_znode_waits_for_a_dead_broker(way):
    """No caller reads an answer, so a refused request would be lost. It waits, as it does at a start-up (0113)."""
    world = yard()
    world.kill(6)
    write = {"legacy": world.write_legacy, "extra": world.write_extra, "request": world.write_request}[way]
    write({TP: (4, 5, 6)})
    assert world.store.reassignments[TP].target == (4, 5, 6)
    (told,) = world.told("waits-for-brokers")
    assert "[6]" in told.text
    world.catch_up_all()
    assert world.machine.view.waiting[TP][0].brokers == (6,)
    world.revive(6)
    world.catch_up_all()
    assert world.replicas(TP) == (4, 5, 6)
    assert world.store.legacy is None
    assert world.store.extra is None
    assert not world.store.requests


@pytest.mark.parametrize("target", [(4, 4), (4, 100), (-1, 4)])
def test_a_legacy_entry_that_can_never_be_carried_out_is_told_and_taken_out_at_a_start(target):
    world = yard()
    world.store.legacy = LegacyReassignments({TP: target, SECOND: (4, 5, 6)}, {}, 0, world.store.czxid)
    world.fail_over()
    assert [notice.about for notice in world.told("legacy-refused")] == [str(TP)]
    assert set(world.store.reassignments) == {SECOND}
    assert set(world.store.legacy.targets) == {SECOND}


def test_a_cancel_of_what_does_not_move(world):
    """Apache's NO_REASSIGNMENT_IN_PROGRESS, and UNKNOWN_TOPIC_OR_PARTITION for a partition that does not exist."""
    world.reassign({TP: None, ("nowhere", 0): None})
    assert world.result(1) == {TP: "NO_REASSIGNMENT_IN_PROGRESS", ("nowhere", 0): "UNKNOWN_TOPIC_OR_PARTITION"}


def test_a_target_below_min_insync_replicas_is_refused_and_taken_by_force():
    """Issue: 'a target smaller than min.insync.replicas (refused; taken with --force)'."""
    world = yard(default_min_isr=2)
    world.reassign({TP: (4,)})
    assert world.result(1) == {TP: "INVALID_REPLICA_ASSIGNMENT"}
    world.reassign({TP: (4,)}, token=2, forced=True)
    assert world.result(2) == {TP: "NONE"}
    world.catch_up_all()
    assert world.replicas(TP) == (4,)


# ---- cancellation


def test_a_stop_is_not_a_revert(world):
    """'a cancellation of a rebalance means stopping on-going partition movements': replicas in the ISR stay."""
    world.reassign({TP: (4, 5, 6)})
    world.catch_up(TP, 4)
    world.reassign({TP: None}, token=2, intervention=Intervention.STOP)
    assert set(world.replicas(TP)) == {1, 2, 3, 4}
    assert set(world.leadership(TP).isr) == {1, 2, 3, 4}


def test_a_stop_may_leave_a_higher_replication_factor(world):
    """'it is possible to have a partition's replication factor become higher than configured … stopped half-way'"""
    world.reassign({TP: (4, 5, 6)})
    world.catch_up(TP, 4, 5)
    cancel_whole(world)
    assert len(world.replicas(TP)) == 5
    world.reassign({TP: (4, 5, 6)}, token=7)  # 'users are expected to run another reassignment'
    world.catch_up_all()
    assert world.replicas(TP) == (4, 5, 6)


@pytest.mark.parametrize("mode", [Intervention.STOP, Intervention.ROLL_BACK])
def test_a_cancel_before_the_start_forgets_the_move(mode):
    """Issue: stop and rollback 'in any state, also before the start'."""
    world = yard(max_concurrent=1)
    world.reassign({TP: (4, 5, 6), SECOND: (4, 5, 6)})
    assert world.store.reassignments[SECOND].phase is Phase.PENDING
    world.reassign({SECOND: None}, token=2, intervention=mode)
    assert world.result(2) == {SECOND: "NONE"}
    assert SECOND not in world.store.reassignments
    assert world.replicas(SECOND) == (2, 1, 3)


@pytest.mark.parametrize("caught_up", [(), (4,), (4, 5)])
def test_a_rollback_restores_the_order_from_any_point(caught_up):
    """Issue: stop and rollback 'in the last step, and twice'; a rollback restores the originals' ORDER."""
    world = yard(strategy=Strategy.INCREMENTAL)
    world.reassign({SECOND: (4, 5, 6)})
    for broker in caught_up:
        world.catch_up(SECOND, broker)
    world.reassign({SECOND: None}, token=2, intervention=Intervention.ROLL_BACK)
    world.reassign({SECOND: None}, token=3, intervention=Intervention.ROLL_BACK)
    assert world.result(2) == {SECOND: "NONE"}
    assert world.result(3)[SECOND] in {"NONE", "NO_REASSIGNMENT_IN_PROGRESS"}
    world.catch_up_all()
    assert world.replicas(SECOND) == (2, 1, 3)
    assert not world.store.reassignments
    world.check()


def test_the_controllers_own_staggering_lists_and_cancels_pending_ones():
    """Design: 'the rest are pending, listed as such, and a cancel simply forgets them'"""
    world = yard(max_concurrent=1)
    world.reassign({TP: (4, 5, 6), SECOND: (4, 5, 6), OTHER: (4, 5, 6)})
    phases = sorted(move.phase.value for move in world.store.reassignments.values())
    assert phases == ["moving", "pending", "pending"]
    assert adding_and_removing(world, OTHER) == ((4, 5, 6), (1, 2, 3))
    world.catch_up_all()
    assert not world.store.reassignments


def test_a_broker_that_is_upgraded_in_the_middle_of_a_move_takes_it_up(world):
    """'At this point, part of the reassignment is "stuck". Partitions with a targetReplica of C will never complete until
    the controller gets restarted and a new LeaderAndIsr is sent out.': a broker that comes back is told everything.
    """
    world.reassign({TP: (1, 2, 6)})
    world.kill(6)  # "Broker C gets upgraded"
    before = len(world.sent)
    world.revive(6)
    told = [request for request in world.sent[before:] if isinstance(request, SendLeaderAndIsr) and request.broker == 6]
    assert any(
        number == 0 and 6 in state.assignment.adding for r in told for t in r.topics for number, state in t.partitions
    )
    world.catch_up(TP, 6)
    assert world.replicas(TP) == (1, 2, 6)


def test_a_move_that_an_older_controller_left_is_sent_out_in_a_new_leader_epoch(world):
    """'…until the controller gets restarted and a new LeaderAndIsr is sent out.': Apache's writes the assignment first,
    and then the leader epoch. If it dies in between, the leader knows no addition, and takes one only in a new epoch.
    """
    topic, known = world.store.topics["t"], world.leadership(TP).leader_epoch
    left = {**topic.assignments, 0: ReplicaAssignment((4, 2, 3, 1), (4,), (1,))}
    world.store.topics["t"] = topic._replace(assignments=left, version=topic.version + 1)
    before = len(world.sent)
    world.fail_over()
    told = {
        request.broker
        for request in world.sent[before:]
        if isinstance(request, SendLeaderAndIsr)
        for each in request.topics
        for number, state in each.partitions
        if number == 0 and state.leadership.leader_epoch == known + 1 and state.assignment.adding == (4,)
    }
    assert told == {1, 2, 3, 4}


def test_a_controller_that_knows_nothing_of_a_move_ends_it_and_is_believed(world):
    """'As soon as the controller gets downgraded, it will send a LeaderAndIsr with no targetReplicas which ensures that
    all brokers will stop their reassignments': the assignment that it leaves counts, and our record is closed (0107).
    """
    world.reassign({TP: (4, 5, 6)})
    topic = world.store.topics["t"]
    ended = {**topic.assignments, 0: ReplicaAssignment((1, 2, 3))}
    world.store.topics["t"] = topic._replace(assignments=ended, version=topic.version + 1)
    known = world.store.states[TP]
    world.store.states[TP] = known._replace(
        leader_epoch=known.leader_epoch + 1, target_replicas=None, partition_epoch=known.partition_epoch + 1
    )
    world.fail_over()
    assert TP not in world.store.reassignments
    assert world.replicas(TP) == (1, 2, 3)
    assert world.told("record-closed")


def test_a_deletion_ends_the_moves_of_its_topic():
    """0117: the deletion does not wait for the end of a move; additions are deleted like the other replicas."""
    world = yard(max_concurrent=1)
    world.reassign({TP: (4, 5, 6), SECOND: (4, 5, 6)})
    world.catch_up(TP, 4)
    world.feed(TopicDeletionsSubmitted(("t",), 7))
    world.pass_time(1_000)
    assert "t" not in world.store.topics
    assert not world.store.reassignments
    assert {(broker, TP) for broker in range(1, 7)} <= set(world.deleted)
    assert {(broker, SECOND) for broker in range(1, 4)} <= set(world.deleted)
    world.reassign({TP: (1, 2)}, token=8)
    assert world.result(8) == {TP: "UNKNOWN_TOPIC_OR_PARTITION"}


# ---- RPC 46


def test_a_list_tells_current_and_target_replicas_of_a_whole_move():
    """'The replicas which the partition is being reassigned to': of the whole move, not of a step (design)."""
    world = yard(strategy=Strategy.INCREMENTAL)
    world.reassign({TP: (4, 5, 6)})
    assert adding_and_removing(world, TP) == ((4, 5, 6), (1, 2, 3))
    world.catch_up(TP, 4)
    assert adding_and_removing(world, TP) == ((5, 6), (1, 3))


def test_a_list_is_answered_from_memory(world):
    """'It will keep an in-memory cache of on-going reassignments that it loads from the zNode and updates'"""
    world.reassign({TP: (4, 5, 6)})
    before = len(world.store.log)
    assert set(world.machine.view.reassignments) == {TP}
    assert len(world.store.log) == before
    world.fail_over()
    assert set(world.machine.view.reassignments) == {TP}


# ---- targetReplicas


def test_target_replicas_are_written_and_kept_whole_until_the_end():
    """ "'targetReplicas'": 'Saving 'targetReplicas' in tact until the very end'; pending moves have none (0115)."""
    world = yard()
    assert world.store.states[TP].target_replicas is None  # 'not present or null, there is no ongoing reassignment'
    world.reassign({TP: (4, 5, 6)})
    assert world.store.states[TP].target_replicas == (4, 5, 6)
    world.catch_up(TP, 4, 5)
    assert world.store.states[TP].target_replicas == (4, 5, 6)
    world.catch_up(TP, 6)
    assert world.store.states[TP].target_replicas is None
    assert world.replicas(TP) == (4, 5, 6)


def test_the_state_znodes_content():
    """'{"version":1, "leader":1, …, "isr":[1, 2, 3], "targetReplicas":[4, 5, 6] # <-- NEW }'"""
    data = b'{"version":1,"leader":1,"leader_epoch":1,"controller_epoch":1,"isr":[1,2,3],"targetReplicas":[4,5,6]}'
    state = decode_state("/x", data, 3, {})
    assert state.target_replicas == (4, 5, 6)
    assert decode_state("/x", encode_state(state), 3, {}) == state


def test_a_controller_loads_active_reassignments_from_the_state_znodes():
    """'When the controller starts up, it will load all of the currently active reassignments from the partition state'"""
    world = yard()
    known = world.store.states[TP]
    world.store.states[TP] = known._replace(target_replicas=(4, 5, 6), partition_epoch=known.partition_epoch + 1)
    world.fail_over()
    assert world.store.reassignments[TP].target == (4, 5, 6)
    world.catch_up_all()
    assert world.replicas(TP) == (4, 5, 6)
    assert world.store.states[TP].target_replicas is None


def test_the_legacy_znode_takes_precedence_over_the_state_znodes():
    """'from the `[partition]/state' zNodes and the `admin/reassign_partitions` zNode, with the latter taking'"""
    from shunter.model.snapshot import LegacyReassignments

    world = yard()
    known = world.store.states[TP]
    world.store.states[TP] = known._replace(target_replicas=(4, 5, 6), partition_epoch=known.partition_epoch + 1)
    world.store.legacy = LegacyReassignments({TP: (1, 2, 4)}, {}, 0, 1)
    world.fail_over()
    assert world.store.reassignments[TP].target == (1, 2, 4)


def test_a_rolled_back_move_leaves_no_target_replicas():
    """'clear the targetReplicas': a field left behind would start the move again at the next failover."""
    world = yard()
    world.reassign({TP: (4, 5, 6)})
    world.reassign({TP: None}, token=2)
    assert world.store.states[TP].target_replicas is None
    world.fail_over()
    assert not world.store.reassignments


# ---- pause, 2.A, relaxing by the operator


def test_a_pause_stops_what_is_fetched_and_forgets_nothing():
    """Decision 0111: StopReplica without deletion; a resume goes on from where it stood."""
    world = yard()
    world.reassign({TP: (4, 5, 6)})
    world.catch_up(TP, 4)
    sent = len(world.sent)
    world.reassign({TP: None}, token=2, intervention=Intervention.PAUSE)
    stops = [
        (r.broker, s.delete) for r in world.sent[sent:] if type(r).__name__ == "SendStopReplica" for s in r.partitions
    ]
    assert sorted(stops) == [(5, False), (6, False)]
    world.catch_up(TP, 5, 6)  # A fetch that was on its way arrives: the move still stands.
    assert set(world.replicas(TP)) == {1, 2, 3, 4, 5, 6}
    assert world.store.reassignments[TP].phase is Phase.PAUSED
    world.fail_over()
    assert world.store.reassignments[TP].phase is Phase.PAUSED
    world.reassign({TP: None}, token=3, intervention=Intervention.RESUME)
    world.catch_up_all()
    assert world.replicas(TP) == (4, 5, 6)


def test_a_paused_replica_that_is_told_again_is_stopped_again():
    """Decision 0111: a broker that bounces, or is told of another leader, must not go on fetching."""
    world = yard()
    world.reassign({TP: (4, 5, 6)})
    world.reassign({TP: None}, token=2, intervention=Intervention.PAUSE)
    sent = len(world.sent)
    world.bounce(5)
    stops = [r.broker for r in world.sent[sent:] if type(r).__name__ == "SendStopReplica"]
    assert 5 in stops
    sent = len(world.sent)
    world.kill(1)
    stops = {r.broker for r in world.sent[sent:] if type(r).__name__ == "SendStopReplica"}
    assert stops == {4, 5, 6}


def test_a_paused_pending_move_begins_when_it_is_resumed():
    world = yard(max_concurrent=1)
    world.reassign({TP: (4, 5, 6), SECOND: (4, 5, 6)})
    world.reassign({SECOND: None}, token=2, intervention=Intervention.PAUSE)
    world.catch_up_all()
    assert world.store.reassignments[SECOND].phase is Phase.PAUSED
    assert world.replicas(SECOND) == (2, 1, 3)
    world.reassign({SECOND: None}, token=3, intervention=Intervention.RESUME)
    world.catch_up_all()
    assert world.replicas(SECOND) == (4, 5, 6)


def test_a_rollback_is_not_paused():
    world = yard(strategy=Strategy.INCREMENTAL)
    world.reassign({TP: (4, 5, 6)})
    for broker in (4, 5):
        world.catch_up(TP, broker)
    world.reassign({TP: None}, token=2, intervention=Intervention.ROLL_BACK)
    assert world.store.reassignments[TP].phase is Phase.ROLLING_BACK
    world.reassign({TP: None}, token=3, intervention=Intervention.PAUSE)
    assert world.result(3) == {TP: "INVALID_REQUEST"}


def test_a_dead_target_makes_the_move_wait_and_say_for_whom():
    """Controller redesign, 2.A: the other moves go on; it is always said what a move waits for."""
    world = yard()
    world.reassign({TP: (4, 5, 6), SECOND: (4, 2, 3)})
    world.kill(6)
    world.catch_up_all()
    assert world.replicas(SECOND) == (4, 2, 3)
    waiting, _ = world.machine.view.waiting[TP]
    assert waiting.reason.value == "dead"
    assert waiting.brokers == (6,)
    world.revive(6)
    world.catch_up_all()
    assert world.replicas(TP) == (4, 5, 6)


def test_a_move_that_waits_for_the_dead_is_rolled_back_after_a_configured_time():
    """Controller redesign, 2.A: 'we may choose to remove broker 2 from replica list': by setting, after a time."""
    world = yard(roll_back_after_ms=60_000)
    world.reassign({TP: (4, 5, 6)})
    world.kill(6)
    world.catch_up(TP, 4, 5)
    world.pass_time(2_000)
    assert TP in world.store.reassignments
    world.pass_time(60_000)
    world.pass_time(2_000)
    assert world.replicas(TP) == (1, 2, 3)
    assert world.told("rolled-back-overdue")


def test_the_operators_word_relaxes_the_floor():
    """Design, KAFKA-19975: 'after reassignment.relax-after, or at the operator's word'."""
    world = yard()
    world.reassign({TP: (4, 2, 3)})
    world.kill(3)
    world.catch_up(TP, 4)
    assert set(world.replicas(TP)) == {1, 2, 3, 4}
    assert world.machine.view.waiting[TP][0].reason.value == "floor"
    world.reassign({TP: (4, 2, 3)}, token=2, forced=True)
    assert world.replicas(TP) == (4, 2, 3)


def test_a_second_reassignment_takes_over_cleanly(world):
    """Controller redesign, step 3: 'the second partition assignment will overrides the first one'"""
    world.reassign({TP: (4, 5, 6)})
    world.reassign({TP: (2, 3, 4)}, token=2)
    world.catch_up_all()
    assert world.replicas(TP) == (2, 3, 4)
    assert {(5, TP), (6, TP)} <= set(world.deleted)


def test_a_list_with_details_tells_what_a_move_waits_for(world):
    """Issue: 'the move waits, says for whom': in tagged fields of RPC 46, for clients that ask."""
    from shunter.drivers.listener.handlers.reassignments import list_partition_reassignments
    from shunter.wire.reassignments import ListReassignmentsRequest

    world.reassign({TP: (4, 5, 6)})
    world.kill(6)
    world.catch_up(TP, 4, 5)

    class Call:
        view = world.machine.view

    listed = asyncio.run(list_partition_reassignments(ListReassignmentsRequest(None, detailed=True), Call()))
    (one,) = listed.topics[0].partitions
    assert one.detail.original == (1, 2, 3)
    assert one.detail.assigned == world.replicas(TP)
    assert one.detail.target == (4, 5, 6)
    assert one.detail.phase == "moving"
    assert "broker 6" in one.detail.waiting
    plain = asyncio.run(list_partition_reassignments(ListReassignmentsRequest(None), Call()))
    assert plain.topics[0].partitions[0].detail is None
