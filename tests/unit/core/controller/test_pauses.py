"""Pauses and resumes, of moves and of changes that wait."""

import pytest
from beginnings import TP, busy, everything, let_write, submitted
from harness import Harness

from shunter.core.controller.moves import pauses
from shunter.core.controller.ready import SendLeaderAndIsr, SendStopReplica
from shunter.errors import ErrorCode
from shunter.model.partition import ReplicaAssignment
from shunter.model.reassignment import Intervention, Phase, Strategy


def test_a_resumed_addition_fetches_again_though_it_joined_the_isr_before_it_was_stopped():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.reassign({TP: (1, 2, 3, 4)})
    world.reassign({TP: None}, token=2, intervention=Intervention.PAUSE)
    world.catch_up(TP, 3)
    world.kill(4)
    epoch = world.leadership(TP).leader_epoch
    world.reassign({TP: None}, token=3, intervention=Intervention.RESUME)
    assert world.leadership(TP).leader_epoch > epoch


def test_a_paused_move_that_somebody_else_moved_on_holds_nobody_back():
    world = Harness().start()
    world.create("t", [(1, 2)])
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
    world = Harness().start()
    world.create("t", [(1, 2)])
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
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.create("u", [(1, 2)])
    world.reassign({TP: (1, 2, 3)})
    world.hold_writes = True
    world.feed(submitted(7, ("u", 0), (3, 4)), everything(8, Intervention.PAUSE), everything(9, Intervention.RESUME))
    let_write(world)
    assert world.store.reassignments[TP].phase is Phase.MOVING
    assert not [request for request in world.sent if isinstance(request, SendStopReplica)]


def test_a_rollback_that_needs_what_was_stopped_for_the_pause_has_it_fetched_again():
    """World 96122536: an original that had been dropped was being added again when the move was paused."""
    world = Harness(brokers=(1, 2, 3, 4, 5)).start()
    world.create("t", [(5, 3, 2)])
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
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.reassign({TP: (1, 3)})
    world.reassign({TP: None}, token=2, intervention=Intervention.PAUSE)
    state = world.machine.state
    assert pauses.woken(state, [TP]) == {TP: {3}}
    assert pauses.woken(state, [TP], frozenset({3})) == {TP: {3}}
    assert pauses.woken(state, [TP], frozenset({4})) == {}
    assert pauses.woken(state, [TP], frozenset()) == {}
