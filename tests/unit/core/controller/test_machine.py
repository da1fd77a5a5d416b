"""The controller's machine against a fake store and fake brokers: drafts, causes, notices, wake-ups, requests."""

from beginnings import TP
from harness import US, Harness, broker

from shunter.core.controller.draft import Draft
from shunter.core.controller.draft_records import records_of
from shunter.core.controller.events import (
    AlterPartitionReceived,
    BatchRefused,
    BrokersRead,
    ClusterLoaded,
    ConfigsRead,
    Elected,
    Envelope,
    IsrProposal,
    SessionExpired,
    TimePassed,
)
from shunter.core.controller.machine import ControllerMachine
from shunter.core.controller.state import ControllerState
from shunter.drivers.zookeeper.requests import JUTE_LIMIT
from shunter.errors import ErrorCode
from shunter.formats.znodes.topics import encode_topic
from shunter.model.partition import EPOCH_DURING_DELETE, TopicPartition
from shunter.model.reassignment import Intervention, Strategy
from shunter.model.records import DeleteReassignmentRequest, PutOwedDeletion, PutReassignmentRequest, PutTopic
from shunter.model.snapshot import ReassignmentRequest

FIRST, SECOND, THIRD = (TopicPartition("t", number) for number in range(3))
T0 = TopicPartition("t", 0)


def moved(**settings):
    return Harness(brokers=(1, 2, 3, 4, 5, 6), **settings).start()


def test_a_created_topic_is_led_before_its_creator_is_answered():
    world = moved()
    reply = world.create("t", [(1, 2, 3), (2, 3, 4)])
    assert reply.topics[0].error is ErrorCode.NONE
    assert world.leadership(TP).leader == 1
    assert world.leadership(("t", 1)).isr == (2, 3, 4)
    assert ("t", 0) in world.hosted[3]
    world.check()


def test_an_incremental_move_takes_the_seeds_four_steps():
    world = moved()
    world.create("t", [(1, 2, 3)])
    world.reassign({TP: (4, 5, 6)})
    assert world.result(1) == {TP: "NONE"}
    seen = [world.replicas(TP)]
    for _ in range(3):
        behind = [id_ for id_ in world.replicas(TP) if id_ not in world.leadership(TP).isr]
        world.catch_up(TP, *behind)
        seen.append(world.replicas(TP))
        world.check()
    assert seen == [(1, 2, 3, 4), (1, 3, 4, 5), (1, 4, 5, 6), (4, 5, 6)]
    assert world.leadership(TP).leader == 4
    assert world.deleted == [(2, TP), (3, TP), (1, TP)]
    assert world.store.reassignments == {}


def test_all_at_once_keeps_the_originals_to_the_end():
    world = moved(strategy=Strategy.ALL_AT_ONCE)
    world.create("t", [(1, 2, 3)])
    world.reassign({TP: (4, 5, 6)})
    assert world.replicas(TP) == (4, 5, 6, 1, 2, 3)
    assert world.leadership(TP).leader == 1
    world.catch_up(TP, 4, 5)
    assert world.replicas(TP) == (4, 5, 6, 1, 2, 3)
    world.catch_up(TP, 6)
    assert world.replicas(TP) == (4, 5, 6)
    world.check()
    assert sorted(world.deleted) == [(1, TP), (2, TP), (3, TP)]
    assert not world.machine.state.reassignments


def test_a_rollback_restores_the_order():
    world = moved(strategy=Strategy.ALL_AT_ONCE)
    world.create("t", [(2, 1, 3)])
    world.reassign({TP: (4, 5, 6)})
    world.catch_up(TP, 4, 5)
    world.reassign({TP: None}, token=2)
    assert world.result(2) == {TP: "NONE"}
    assert world.replicas(TP) == (2, 1, 3)
    assert world.leadership(TP).isr == (2, 1, 3)
    assert sorted(world.deleted) == [(4, TP), (5, TP), (6, TP)]
    assert not world.store.reassignments
    world.reassign({TP: None}, token=3)
    assert world.result(3) == {TP: "NO_REASSIGNMENT_IN_PROGRESS"}


def test_a_stop_keeps_what_is_in_sync():
    world = moved(strategy=Strategy.ALL_AT_ONCE)
    world.create("t", [(1, 2, 3)])
    world.reassign({TP: (4, 5, 6)})
    world.catch_up(TP, 4)
    world.reassign({TP: None}, token=2, intervention=Intervention.STOP)
    assert set(world.replicas(TP)) == {1, 2, 3, 4}
    assert not world.store.reassignments
    world.check()


def test_a_fail_over_goes_on_with_the_move():
    world = moved()
    world.create("t", [(1, 2, 3)])
    world.reassign({TP: (4, 5, 6)})
    world.catch_up(TP, 4)
    world.fail_over()
    world.catch_up_all()
    assert world.replicas(TP) == (4, 5, 6)
    assert not world.store.reassignments
    assert set(world.deleted) == {(1, TP), (2, TP), (3, TP)}
    world.check()


def test_a_dead_leader_is_replaced_and_the_dead_leave_the_isr():
    world = moved()
    world.create("t", [(1, 2, 3)])
    world.create("u", [(2, 1, 3)])
    world.kill(1)
    assert world.leadership(TP).leader == 2
    assert world.leadership(TP).isr == (2, 3)
    assert world.leadership(("u", 0)).isr == (2, 3)
    world.revive(1)
    world.catch_up_all()
    assert set(world.leadership(TP).isr) == {1, 2, 3}
    world.check()


def test_the_last_in_sync_replica_stays_in_the_isr():
    world = moved()
    world.create("t", [(1,)])
    world.kill(1)
    assert world.leadership(TP).leader == -1
    assert world.leadership(TP).isr == (1,)
    world.revive(1)
    assert world.leadership(TP).leader == 1
    world.check()


def test_a_dropped_replica_on_a_dead_broker_is_owed_until_it_returns():
    world = moved()
    world.create("t", [(1, 2, 3)])
    world.kill(2)
    world.reassign({TP: (1, 3, 4)})
    world.catch_up_all()
    assert world.replicas(TP) == (1, 3, 4)
    assert not world.store.reassignments
    assert 2 in world.store.owed
    world.revive(2)
    assert (2, TP) in world.deleted
    assert world.store.owed == {}


def test_a_stale_batch_is_decided_again():
    world = moved()
    world.create("t", [(1, 2, 3)])
    world.hold_writes = True
    world.reassign({TP: (1, 2, 4)})
    known = world.store.states[TP]
    world.store.states[TP] = known._replace(isr=(1, 2), partition_epoch=known.partition_epoch + 1)
    world.release_writes()
    assert world.result(1) == {TP: "NONE"}
    assert world.leadership(TP).isr == (1, 2)
    world.check()


def test_a_cancel_overtakes_a_large_submission():
    world = moved(slice_partitions=10)
    world.create("t", [(1, 2, 3)] * 100)
    world.hold_writes = True
    world.reassign({("t", n): (1, 2, 4) for n in range(100)})
    world.reassign({("t", n): None for n in range(100)}, token=2)
    world.release_writes()
    assert set(world.result(2).values()) == {"NONE"}
    assert set(world.result(1).values()) == {"NONE"}
    assert not world.store.reassignments
    assert all(world.replicas(("t", n)) == (1, 2, 3) for n in range(100))
    world.check()


def test_slices_of_partitions_of_many_large_topics_fit_zookeepers_limit():
    """Each topic's znode is written whole: 60 of them with 1,200 partitions each are 2 MB, and a request holds one."""
    world = moved()
    for topic in range(60):
        world.create(f"t{topic}", [(1, 2, 3)] * 1_200)
    batches = []
    write = world.store.write
    world.store.write = lambda batch: batches.append(batch) or write(batch)
    world.reassign({(f"t{topic}", 0): (1, 2, 4) for topic in range(60)})
    assert set(world.result(1).values()) == {"NONE"}
    sizes = [
        sum(len(encode_topic(record.topic)) for record in batch.records if isinstance(record, PutTopic))
        for batch in batches
    ]
    assert max(sizes) < JUTE_LIMIT / 2, sizes


def test_a_silent_broker_holds_waiting_work_back_only_so_long():
    world = moved()
    world.create("t", [(1, 2, 3)])
    world.silent = {3}
    world.reassign({TP: (1, 2, 4)})
    world.reassign({TP: (1, 2, 5)}, token=2)
    assert 2 not in world.replies
    world.pass_time(world.settings.slow_broker_ms)
    assert world.result(2) == {TP: "NONE"}


def test_a_topic_is_deleted_when_all_its_replicas_are():
    from shunter.core.controller.events import TopicDeletionsSubmitted

    world = moved()
    world.create("t", [(1, 2, 3)])
    world.kill(3)
    world.feed(TopicDeletionsSubmitted(("t",), 7))
    assert world.replies[7].topics[0].error is ErrorCode.NONE
    assert "t" in world.store.topics
    world.revive(3)
    assert "t" not in world.store.topics
    assert "t" not in world.machine.state.topics


def test_controlled_shutdown_moves_leaders_away():
    from shunter.core.controller.events import ControlledShutdownRequested

    world = moved()
    world.create("t", [(1, 2, 3)])
    world.create("u", [(2, 1, 3)])
    world.feed(ControlledShutdownRequested(1, world.live[1].epoch - 1, 5))
    assert world.replies[5].error is ErrorCode.STALE_BROKER_EPOCH
    world.feed(ControlledShutdownRequested(1, world.live[1].epoch, 6))
    assert world.replies[6].remaining == ()
    assert world.leadership(TP).leader == 2
    assert world.leadership(("u", 0)).isr == (2, 3)
    world.check()


def test_an_election_says_what_it_is_about():
    world = moved()
    world.create("t", [(1, 2, 3), (2, 3, 1)])
    world.create("u", [(6,)])
    world.reassign({TP: (4, 5, 6)})
    del world.live[6]
    world.notices.clear()
    world.fail_over()
    (told,) = [notice.text for notice in world.notices if notice.kind == "in-charge"]
    assert told == "epoch 2: 5 brokers, 2 topics, 3 partitions (1 without a leader), 1 move under way"


def test_a_step_that_only_drops_is_followed_by_the_next():
    """A move to fewer replicas, one of them new and on a dead broker: one is dropped, and then the wait is noted."""
    world = moved(max_concurrent=1)
    world.create("t", [(1, 3, 2), (1, 2, 3)])
    other = ("t", 1)
    world.reassign({other: (1, 2, 5)})
    world.reassign({TP: (3, 4)}, token=2)
    world.kill(4)
    world.catch_up(other, 5)
    assert world.replicas(TP) == (1, 3)
    waiting, _ = world.machine.state.waiting[TP]
    assert waiting.brokers == (4,)
    world.revive(4)
    world.catch_up_all()
    assert world.replicas(TP) == (3, 4)
    world.check()


def waiting_request(*partitions):
    state = ControllerState(100)
    state.requests["request_1"] = ReassignmentRequest("request_1", dict.fromkeys(partitions, (1, 2)), False, 3, 7)
    return state


def test_two_partitions_of_one_request_are_withdrawn_by_one_draft():
    draft = Draft(waiting_request(FIRST, SECOND, THIRD), 1_000)
    assert draft.withdraw(FIRST, ["request_1"])
    assert draft.withdraw(SECOND, ["request_1"])
    assert not draft.withdraw(FIRST, ["request_1"]), "it is withdrawn already"
    [record] = records_of(draft)
    assert isinstance(record, PutReassignmentRequest)
    assert dict(record.targets) == {THIRD: (1, 2)}


def test_a_request_goes_with_the_last_partition_that_it_named():
    draft = Draft(waiting_request(FIRST, SECOND), 1_000)
    assert draft.withdraw(FIRST, ["request_1"])
    assert draft.withdraw(SECOND, ["request_1"])
    assert records_of(draft) == (DeleteReassignmentRequest("request_1"),)


def test_what_a_topic_that_goes_is_owed_stays_so_marked():
    """World 95210827: the broker came back, was not asked to delete it, and refused the next topic of the same name."""
    draft = Draft(ControllerState(100), 1_000)
    draft.owe(1, FIRST, EPOCH_DURING_DELETE)
    draft.owe(1, FIRST, 3)
    [record] = records_of(draft)
    assert isinstance(record, PutOwedDeletion)
    assert record.partitions == ((FIRST, EPOCH_DURING_DELETE),)


def a_leader_dies():
    world = Harness().start(t=[(1, 2)])
    before = world.store.snapshot(world.live.values())
    del world.live[1]
    return world, before


def handled(machine, event, cause):
    machine.handle(Envelope(2_000_000, cause, event))
    return [] if machine.outstanding is None else [task.cause for task in machine.outstanding.tasks]


def test_an_election_comes_from_the_death_and_not_from_what_was_heard_before():
    world, _ = a_leader_dies()
    assert handled(world.machine, ConfigsRead(), "a configuration") == []
    assert handled(world.machine, world.brokers_read(), "a death") == ["a death"]


def test_what_was_held_until_the_start_keeps_its_cause():
    world, before = a_leader_dies()
    machine = ControllerMachine(world.settings)
    assert handled(machine, Elected(9, 9), "an election") == []
    assert handled(machine, world.brokers_read(), "a death") == []
    assert handled(machine, ClusterLoaded(before), "a start") == ["a death"]


def test_what_writes_nothing_is_told_too():
    """A new partition that no broker can lead: its topic was written before, and its review writes nothing."""
    world = Harness().start(t=[(9,)])
    [told] = world.told("partition-offline")
    assert (told.about, told.text) == ("t-0", "none of its replicas can be led yet")


def test_an_offline_partition_is_not_told_anew_with_every_broker():
    world = Harness().start(t=[(9,)])
    world.bounce(1)
    world.kill(2)
    assert len(world.told("partition-offline")) == 1
    world.revive(9)
    assert world.leadership(T0).leader == 9


def test_what_is_refused_is_told_once_and_when_it_is_true():
    world = Harness(brokers=(1, 2)).start(t=[(1,)])
    world.hold_writes = True
    world.kill(1)
    [batch] = world.held_batches
    assert not world.told("partition-offline"), "its leader may be back before this is written"
    world.held_batches.clear()
    world.feed(BatchRefused(batch.batch_id, "lost", (), ()))
    world.pass_time(1_000)
    world.release_writes()
    [told] = world.told("partition-offline")
    assert told.text == "no replica of ISR (1,) is live"


def test_no_wake_up_in_the_past_while_a_batch_is_written():
    world = Harness(slow_broker_ms=1_000).start(t=[(1, 2, 3)])
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
    world = Harness(slow_broker_ms=1_000, metadata_linger_ms=60_000).start(t=[(1, 2, 3)])
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


def test_a_leader_that_met_a_foreign_write_hears_of_a_new_epoch():
    world = Harness().start(t=[(1, 2, 3)])
    known = world.store.states[TP]
    world.store.states[TP] = known._replace(partition_epoch=known.partition_epoch + 1)
    proposal = IsrProposal(TP, known.leader_epoch, known.partition_epoch, ((1, -1), (2, -1)))
    world.feed(AlterPartitionReceived(1, world.live[1].epoch, (proposal,), 9))
    assert world.replies[9].partitions == ((TP, ErrorCode.INVALID_UPDATE_VERSION),)
    assert world.leadership(TP).leader_epoch == known.leader_epoch + 1
    assert world.leadership(TP).isr == known.isr
    assert world.hosted[1][TP].leadership == world.leadership(TP)


def test_we_send_ourselves_nothing_when_our_own_registration_comes_anew():
    world = Harness().start()
    sent = len(world.sent)
    world.live[US] = broker(US, 9_999)
    world.feed(BrokersRead(tuple(world.live[id_] for id_ in sorted(world.live))))
    targets = [getattr(request, "brokers", None) or (request.broker,) for request in world.sent[sent:]]
    assert not [each for each in targets if US in each]
    assert US not in world.machine.outbox.unanswered


def test_a_leader_that_knows_a_newer_state_than_we_do_is_sent_to_look_for_the_controller():
    """A controller that was elected later wrote the state. Source: `KafkaController.tryProcessAlterPartition`."""
    world = Harness().start(t=[(1, 2)])
    known = world.leadership(TP)
    proposal = IsrProposal(TP, known.leader_epoch, known.partition_epoch + 1, ((1, -1),))
    world.feed(AlterPartitionReceived(1, world.live[1].epoch, (proposal,), 9))
    assert world.replies[9].partitions == ((TP, ErrorCode.NOT_CONTROLLER),)
    assert world.leadership(TP).isr == known.isr


def test_moves_that_are_left_are_told_with_the_place_where_another_controller_ends_them():
    world = Harness().start(t=[(1, 2)])
    world.reassign({TP: (3, 4)})
    world.feed(SessionExpired("/migration is there"))
    assert [notice.text for notice in world.told("resigned")] == ["/migration is there"]
    (told,) = world.told("moves-left")
    assert told.text.startswith("1 move of topic t is not over; a controller that is no Shunter ends 1 short of the ")
    assert "t-0 at [1, 2, 3], not at [3, 4]" in told.text
    assert "`shunter hand-back`" in told.text


def test_where_no_move_is_left_nothing_is_told():
    world = Harness().start(t=[(1, 2)])
    world.reassign({TP: (3, 4)})
    world.catch_up_all()
    world.feed(SessionExpired("/migration is there"))
    assert world.told("resigned")
    assert not world.told("moves-left")
