"""The controller's machine against a fake store and fake brokers."""

from harness import Harness

from shunter.drivers.zookeeper.requests import JUTE_LIMIT
from shunter.errors import ErrorCode
from shunter.formats.znodes.topics import encode_topic
from shunter.model.reassignment import Intervention, Strategy
from shunter.model.records import PutTopic

TP = ("t", 0)


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
