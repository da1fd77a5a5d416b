"""Requests and moves that wait: which ones a cancel ends, which ones a pause holds, and when the others go on."""

from dataclasses import replace
from uuid import UUID

import pytest
from beginnings import TP, busy, everything, let_write, submitted
from harness import Harness

from shunter.core.controller.events import (
    BatchRefused,
    ConfigsRead,
    ElectionRequested,
    ReassignmentChange,
    ReassignmentsSubmitted,
    SettingsChanged,
    TopicDeletionsFound,
    TopicsRead,
)
from shunter.core.controller.moves import pauses
from shunter.core.controller.ready import SendLeaderAndIsr, SendStopReplica
from shunter.errors import ErrorCode
from shunter.model.partition import ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Intervention, Phase, Strategy
from shunter.model.records import CreateReassignmentRequest
from shunter.model.snapshot import LegacyReassignments
from shunter.model.topic import Topic


def test_a_legacy_entry_for_what_a_record_does_already_goes_with_the_move():
    world = Harness().start(t=[(1, 2)])
    world.reassign({TP: (3, 4)})
    world.store.legacy = LegacyReassignments({TP: (3, 4)}, {}, 0, czxid=1_001)
    world.fail_over()
    world.catch_up_all()
    assert world.replicas(TP) == (3, 4)
    assert not world.store.reassignments
    assert world.store.legacy is None


def test_a_cancel_does_not_reach_what_is_asked_for_after_it():
    world = busy()
    world.feed(submitted(2, TP, (3, 4)), submitted(3, TP, None), submitted(4, TP, (4, 3)))
    let_write(world)
    assert world.replies[2].partitions == ((TP, ErrorCode.NONE, "cancelled before it was begun"),)
    assert world.replies[3].partitions == ((TP, ErrorCode.NONE, None),)
    assert world.replies[4].partitions == ((TP, ErrorCode.NONE, None),)
    assert world.store.reassignments[TP].target == (4, 3)


@pytest.mark.parametrize(("target", "present"), [((3, 4, 5), 2), ((3,), 2), ((3, 4), 2)])
def test_a_target_with_another_number_of_replicas_is_refused_where_the_request_says_so(target, present):
    """KIP-860; while a partition moves, the replicas at the end of its move count."""
    world = Harness().start(t=[(1, 2)])
    keeps = ReassignmentChange(TP, target, forced=True, changes_factor=False)
    for token in (1, 2):
        world.feed(ReassignmentsSubmitted((keeps,), reply_to=token))
        if len(target) == present:
            assert world.replies[token].partitions == ((TP, ErrorCode.NONE, None),)
        else:
            told = f"The replication factor is changed from {present} to {len(target)}"
            assert world.replies[token].partitions == ((TP, ErrorCode.INVALID_REPLICATION_FACTOR, told),)
        world.feed(submitted(token + 10, TP, (4, 3)))


def test_a_resume_cancels_nothing_that_waits():
    world = busy()
    world.feed(submitted(2, TP, (3, 4)), everything(3, Intervention.RESUME))
    let_write(world)
    assert world.replies[2].partitions == ((TP, ErrorCode.NONE, None),)
    assert world.store.reassignments[TP].phase is Phase.MOVING


def test_another_target_that_waits_when_its_move_is_paused_is_for_later():
    world = busy()
    world.feed(submitted(2, ("u", 0), (4, 1)), everything(3, Intervention.PAUSE))
    let_write(world)
    move = world.store.reassignments[TopicPartition("u", 0)]
    assert (move.phase, move.target, move.original) == (Phase.PAUSED, (4, 1), (1, 2))
    world.hold_writes = False
    world.feed(everything(4, Intervention.RESUME))
    world.catch_up_all()
    assert world.replicas(("u", 0)) == (4, 1)


def test_a_topic_that_is_deleted_while_its_move_is_accepted_leaves_no_legacy_entry():
    world = Harness().start(t=[(1,)])
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


def test_a_move_that_waits_is_not_recorded_with_an_original_that_somebody_has_changed():
    """KIP-236: the original has the replicas, in their ORDER, as they were when the record became durable."""
    world = Harness(max_concurrent=1).start(t=[(1, 2, 3), (1, 2, 3)])
    world.reassign({TP: (1, 2, 4)})
    waits = TopicPartition("t", 1)
    topic = world.store.topics["t"]
    by_hand = topic.assignments | {1: ReplicaAssignment((3, 2, 1))}
    world.store.topics["t"] = topic._replace(assignments=by_hand, version=topic.version + 1)
    world.reassign({waits: (1, 2, 4)}, token=8)
    recorded = world.store.reassignments[waits]
    assert (recorded.phase, recorded.original) == (Phase.PENDING, (3, 2, 1))


def waiting_request(**asked):
    """A request of two partitions: the first was accepted in the first slice, and the second waits."""
    world = Harness(slice_partitions=1).start(t=[(1, 2), (1, 2)])
    world.hold_writes = True
    world.write_request({("t", 0): (1, 3), ("t", 1): (1, 3)}, **asked)
    return world


@pytest.mark.parametrize("legacy", [False, True])
def test_a_cancel_of_everything_reaches_what_waits_in_a_request_for_good(legacy):
    world = waiting_request(legacy=legacy)
    world.feed(everything(7, Intervention.ROLL_BACK))
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
    world.feed(everything(2, Intervention.ROLL_BACK))
    let_write(world)
    world.release_writes()
    world.catch_up_all()
    assert world.replicas(TP) == (1, 2)
    assert world.store.legacy is None
    assert world.store.extra is None
    assert not world.store.requests


def test_a_write_that_zookeeper_forbids_leaves_what_the_extra_znode_asks_for_to_be_done():
    """Nothing was read back. That was taken for a znode that is gone, and its entries were forgotten."""
    world = Harness(max_concurrent=1).start(t=[(1, 2), (1, 2)])
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


def test_a_move_after_one_whose_replicas_are_still_being_deleted_has_the_original_of_this_moment():
    """Found by simulation: its record replaced the former move's, and the version of the topic was not checked."""
    world = Harness(brokers=(1, 2, 3, 4, 5), max_concurrent=1).start(t=[(1, 2)], u=[(4, 5)])
    world.silent.add(2)
    world.reassign({TP: (1, 3)})
    world.catch_up(TP, 3)
    assert world.store.reassignments[TP].phase is Phase.DROPPING
    world.reassign({TopicPartition("u", 0): (4, 3)}, token=3)
    world.pass_time(1_000)
    assert world.store.reassignments[TopicPartition("u", 0)].phase is Phase.MOVING
    topic = world.store.topics["t"]
    reordered = topic._replace(assignments={0: ReplicaAssignment((3, 1))}, version=topic.version + 1)
    world.store.topics["t"] = reordered
    world.reassign({TP: (1, 5)}, token=2)
    world.pass_time(1_000)
    assert world.result(2) == {TP: "NONE"}
    assert world.store.reassignments[TP].phase is Phase.PENDING
    assert world.store.reassignments[TP].original == (3, 1)


@pytest.mark.parametrize("while_away", [False, True])
def test_an_impossible_entry_of_the_legacy_znode_does_not_hold_the_others(while_away):
    """Apache's controller moves the others, too. The entry is told and taken out, so the znode goes in the end."""
    world = Harness(brokers=(1, 2, 3, 4)).start(t=[(1, 2), (1, 2), (1, 2)])
    entries = {("t", 0): (3, 3), ("t", 1): (3, 4), ("t", 2): (-1, 2)}
    if while_away:
        world.store.legacy = LegacyReassignments({TopicPartition(*tp): to for tp, to in entries.items()}, {}, 0, 5_000)
        world.fail_over()
    else:
        world.write_legacy(entries)
    world.catch_up_all()
    assert [world.replicas(("t", number)) for number in range(3)] == [(1, 2), (3, 4), (1, 2)]
    assert world.store.legacy is None
    assert {notice.about for notice in world.told("legacy-refused")} == {"t-0", "t-2"}
    written = [record for records in world.store.log for record in records]
    requested = [record for record in written if isinstance(record, CreateReassignmentRequest)]
    assert {tp for record in requested for tp, _ in record.targets} <= {("t", 1)}, "a request holds no such target"
    assert "repeat broker 3" in world.told("legacy-refused")[0].text


def test_a_broker_that_returns_while_a_move_is_accepted_lets_it_begin():
    world = Harness().start(t=[(2,)])
    world.kill(2)
    world.hold_writes = True
    world.reassign({TP: (3,)}, forced=True)
    assert world.held_batches
    world.register(2)
    world.feed(world.brokers_read())
    world.release_writes()
    assert world.replicas(TP) == (2, 3)


def test_an_unclean_election_lets_a_move_go_on_that_waits_for_a_leader():
    world = Harness().start(t=[(1, 2)])
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
    world.reassign({TP: None}, token=2, intervention=Intervention.ROLL_BACK)
    assert 3 in world.replicas(TP)
    world.feed(ConfigsRead({"t": {"min.insync.replicas": "1"}}, {}))
    assert 3 not in world.replicas(TP)


def test_a_move_that_goes_with_its_topic_makes_room_for_what_is_pending():
    world = Harness(max_concurrent=1).start(t=[(1,)], u=[(1, 2)])
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


def test_a_broker_that_returns_with_its_log_dir_while_a_move_is_accepted_lets_it_begin():
    world = Harness().start(t=[(1, 2)])
    world.machine.intake.liveness.on_replicas_failed(3, [TP])
    world.hold_writes = True
    world.reassign({TP: (1, 3)})
    assert world.held_batches
    world.bounce(3)
    world.release_writes()
    world.catch_up_all()
    assert world.replicas(TP) == (1, 3)


def test_what_became_pending_while_settings_changed_begins_by_the_new_ones():
    """Seed 94100008: the bound on moves was lifted while a write made two of them pending."""
    world = Harness(max_concurrent=1).start(t=[(1, 2), (1, 2)])
    world.reassign({("t", 1): (1, 3)})
    world.hold_writes = True
    world.reassign({TP: (1, 4)}, token=6)
    world.feed(SettingsChanged(replace(world.settings, max_concurrent=0)))
    world.release_writes()
    assert world.store.reassignments[TP].phase is Phase.MOVING


def test_a_resumed_addition_fetches_again_though_it_joined_the_isr_before_it_was_stopped():
    world = Harness().start(t=[(1, 2)])
    world.reassign({TP: (1, 2, 3, 4)})
    world.reassign({TP: None}, token=2, intervention=Intervention.PAUSE)
    world.catch_up(TP, 3)
    world.kill(4)
    epoch = world.leadership(TP).leader_epoch
    world.reassign({TP: None}, token=3, intervention=Intervention.RESUME)
    assert world.leadership(TP).leader_epoch > epoch


def test_a_paused_move_that_somebody_else_moved_on_holds_nobody_back():
    world = Harness().start(t=[(1, 2)])
    world.reassign({TP: (1, 3)})
    world.reassign({TP: None}, token=2, intervention=Intervention.PAUSE)
    topic = world.store.topics["t"]
    theirs = ReplicaAssignment((1, 2, 4), (4,), (2,))
    world.store.topics["t"] = topic._replace(assignments={0: theirs}, version=topic.version + 1)
    world.sent.clear()
    world.fail_over()
    stopped = [request for request in world.sent if isinstance(request, SendStopReplica)]
    assert not [stop for request in stopped for stop in request.partitions if request.broker == 4]
    assert world.machine.state.reassignments[TP].phase is Phase.MOVING


def test_what_waits_when_everything_is_paused_is_taken_and_stands_still():
    world = busy()
    world.feed(submitted(2, TP, (3, 4)), everything(3, Intervention.PAUSE))
    let_write(world)
    assert world.replies[2].partitions == ((TP, ErrorCode.NONE, None),)
    assert (TP, ErrorCode.NONE, None) in world.replies[3].partitions
    assert world.store.reassignments[TP].phase is Phase.PAUSED
    assert world.replicas(TP) == (1, 2)
    world.hold_writes = False
    world.feed(everything(4, Intervention.RESUME))
    world.catch_up_all()
    assert world.replicas(TP) == (3, 4)


@pytest.mark.parametrize(
    ("mode", "told"), [(Intervention.RESUME, None), (Intervention.ROLL_BACK, "cancelled before it was begun")]
)
def test_what_was_paused_while_it_waited_is_resumed_or_cancelled_there(mode, told):
    world = busy()
    world.feed(submitted(2, TP, (3, 4)), everything(3, Intervention.PAUSE), everything(4, mode))
    let_write(world)
    assert world.replies[2].partitions == ((TP, ErrorCode.NONE, told),)
    phase = world.store.reassignments[TP].phase if TP in world.store.reassignments else None
    assert phase is (Phase.MOVING if told is None else None)


def test_what_takes_the_place_of_a_paused_move_sets_its_replicas_going_again():
    world = Harness().start(t=[(1, 2)])
    world.reassign({TP: (1, 2, 3)}, strategy=Strategy.ALL_AT_ONCE)
    world.reassign({TP: None}, token=2, intervention=Intervention.PAUSE)
    before = world.leadership(TP).leader_epoch
    topic = world.store.topics["t"]
    reordered = ReplicaAssignment((3, 2, 1), (3,))
    world.store.topics["t"] = topic._replace(assignments={0: reordered}, version=topic.version + 1)
    world.fail_over()
    assert world.store.reassignments[TP].phase is Phase.MOVING
    assert world.leadership(TP).leader_epoch > before


def test_a_pause_that_ends_in_the_write_in_which_it_began_stops_nothing():
    world = Harness().start(t=[(1, 2)], u=[(1, 2)])
    world.reassign({TP: (1, 2, 3)})
    world.hold_writes = True
    world.feed(submitted(7, ("u", 0), (3, 4)), everything(8, Intervention.PAUSE), everything(9, Intervention.RESUME))
    let_write(world)
    assert world.store.reassignments[TP].phase is Phase.MOVING
    assert not [request for request in world.sent if isinstance(request, SendStopReplica)]


def test_a_rollback_that_needs_what_was_stopped_for_the_pause_has_it_fetched_again():
    """World 96122536: an original that had been dropped was being added again when the move was paused."""
    world = Harness(brokers=(1, 2, 3, 4, 5)).start(t=[(5, 3, 2)])
    world.reassign({TP: (1, 4, 3)})
    world.catch_up(TP, 1)
    assert world.replicas(TP) == (5, 3, 1, 4)
    world.reassign({TP: (1, 3, 2, 5)}, token=2)
    assert world.store.topics["t"].assignments[0].adding == (2,)
    world.reassign({TP: None}, token=3, intervention=Intervention.PAUSE)
    world.sent.clear()
    epoch = world.leadership(TP).leader_epoch
    world.reassign({TP: None}, token=4, intervention=Intervention.ROLL_BACK)
    assert world.leadership(TP).leader_epoch > epoch
    assert any(isinstance(request, SendLeaderAndIsr) and request.broker == 2 for request in world.sent)


def test_a_paused_addition_is_stopped_only_if_its_broker_was_told():
    world = Harness().start(t=[(1, 2)])
    world.reassign({TP: (1, 3)})
    world.reassign({TP: None}, token=2, intervention=Intervention.PAUSE)
    state = world.machine.state
    assert pauses.woken(state, [TP]) == {TP: {3}}
    assert pauses.woken(state, [TP], frozenset({3})) == {TP: {3}}
    assert pauses.woken(state, [TP], frozenset({4})) == {}
    assert pauses.woken(state, [TP], frozenset()) == {}
