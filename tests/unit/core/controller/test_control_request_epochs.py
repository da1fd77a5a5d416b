"""The KIP on the max broker epoch: which broker epoch goes into control requests, and the two passes of its upgrade."""

from dataclasses import replace

import pytest
from harness import US, Harness

from shunter.core.controller.events import SettingsChanged
from shunter.core.controller.ready import ConnectBrokers, SendLeaderAndIsr, SendUpdateMetadata
from shunter.errors import InvariantViolation
from shunter.model.reassignment import Phase
from shunter.model.settings import ControlRequestEpoch

TP = ("t", 0)


def epochs(world, since=0):
    """(kind, broker, epoch) of each request."""
    told = []
    for request in world.sent[since:]:
        if isinstance(request, ConnectBrokers):
            continue
        brokers = request.brokers if isinstance(request, SendUpdateMetadata) else (request.broker,)
        told += [(type(request), id_, request.broker_epoch) for id_ in brokers]
    return told


def test_the_maximum_of_all_epochs_goes_to_every_broker():
    world = Harness().start()
    world.create("t", [(1, 2, 3)])
    assert epochs(world)
    assert {epoch for _, _, epoch in epochs(world)} == {max(known.epoch for known in world.live.values())}


def test_per_broker_epochs_go_to_their_brokers():
    world = Harness(control_request_epoch=ControlRequestEpoch.PER_BROKER).start()
    world.create("t", [(1, 2, 3)])
    assert {kind for kind, _, _ in epochs(world)} == {SendUpdateMetadata, SendLeaderAndIsr}
    assert all(epoch == world.live[id_].epoch for _, id_, epoch in epochs(world))
    assert len({epoch for _, _, epoch in epochs(world)}) > 1


def test_the_two_passes_are_switched_without_a_restart():
    world = Harness(control_request_epoch=ControlRequestEpoch.PER_BROKER).start()
    world.create("t", [(1, 2, 3)])
    before = len(world.sent)
    world.feed(SettingsChanged(replace(world.settings, control_request_epoch=ControlRequestEpoch.MAX)))
    assert len(world.sent) == before, "a change of settings by itself tells nobody anything"
    world.create("u", [(2, 3, 4)])
    greatest = max(known.epoch for known in world.live.values())
    assert {epoch for _, _, epoch in epochs(world, before)} == {greatest}
    shared = [request for request in world.sent[before:] if isinstance(request, SendUpdateMetadata)]
    assert all(len(request.brokers) == 4 for request in shared), "one request for all brokers"
    before = len(world.sent)
    world.feed(SettingsChanged(world.settings))
    world.create("v", [(3, 4, 1)])
    assert all(epoch == world.live[id_].epoch for _, id_, epoch in epochs(world, before))


@pytest.mark.parametrize("policy", list(ControlRequestEpoch))
def test_what_was_decided_before_a_restart_is_below_the_new_epoch(policy):
    """e0 → e1 → e2: registered, read by the controller, registered again; the request between is obsolete."""
    world = Harness(control_request_epoch=policy).start()
    world.create("t", [(1, 2, 3)])
    decided = [epoch for _, id_, epoch in epochs(world) if id_ == 2]
    world.register(2)
    assert decided
    assert all(epoch < world.live[2].epoch for epoch in decided), "the broker of e2 refuses all of them"
    world.feed(world.brokers_read())
    after = [epoch for _, id_, epoch in epochs(world) if id_ == 2][len(decided) :]
    assert after
    assert all(epoch >= world.live[2].epoch for epoch in after), "it takes what was decided after"


def test_a_higher_bound_lets_pending_moves_begin():
    world = Harness(max_concurrent=1).start()
    world.create("t", [(1, 2), (2, 3)])
    world.reassign({("t", 0): (1, 4), ("t", 1): (2, 4)})
    phases = [move.phase for move in world.machine.state.reassignments.values()]
    assert sorted(phase.value for phase in phases) == ["moving", "pending"]
    world.feed(SettingsChanged(replace(world.settings, max_concurrent=2)))
    assert {move.phase for move in world.machine.state.reassignments.values()} == {Phase.MOVING}


def test_a_controller_keeps_its_id():
    world = Harness().start()
    with pytest.raises(InvariantViolation):
        world.feed(SettingsChanged(replace(world.settings, broker_id=US + 1)))
