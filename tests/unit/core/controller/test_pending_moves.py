"""Moves that wait: when the reason is gone, a move goes on without being asked again."""

from dataclasses import replace
from uuid import UUID

from beginnings import TP, busy, let_write, submitted
from harness import Harness

from shunter.core.controller.events import (
    ConfigsRead,
    ElectionRequested,
    SettingsChanged,
    TopicDeletionsFound,
    TopicsRead,
)
from shunter.model.partition import ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Intervention, Phase
from shunter.model.topic import Topic


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
    world.reassign({TP: None}, token=2, intervention=Intervention.ROLL_BACK)
    assert 3 in world.replicas(TP)
    world.feed(ConfigsRead({"t": {"min.insync.replicas": "1"}}, {}))
    assert 3 not in world.replicas(TP)


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
