"""The KIP on the max broker epoch, sentence by sentence, against the controller's machine and encoders."""

import pytest
from harness import US, Harness

from shunter.core.controller.events import AlterPartitionReceived, ControlledShutdownRequested, SettingsChanged
from shunter.core.controller.ready import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from shunter.errors import ErrorCode
from shunter.model.partition import TopicPartition
from shunter.model.settings import ControllerSettings, ControlRequestEpoch

TP = TopicPartition("t", 0)


@pytest.fixture
def world():
    return Harness(brokers=(1, 2, 3, 4)).start(t=[(1, 2, 3)])


def sent(world, *kinds, since=0):
    return [request for request in world.sent[since:] if isinstance(request, kinds)]


def test_one_update_metadata_serves_all_brokers(world):
    """'making the UpdateMetadata requests cacheable so that a single copy can be used for all brokers'; 'reuse the same
    cached UpdateMetadata request for all brokers due to the same metadata change'
    """
    before = len(world.sent)
    world.kill(1)
    world.pass_time(1_000)
    told = sent(world, SendUpdateMetadata, since=before)
    assert told
    assert all(set(request.brokers) == {2, 3, 4} for request in told)


def test_the_greatest_epoch_is_in_all_three_control_requests(world):
    """'replace the per-broker epochs in control requests with a new field MaxBrokerEpoch, that represents the maximum of
    all brokers' zxids (epochs).' In the field that there is: docs/decisions/0007-max-broker-epoch.md.
    """
    world.reassign({TP: (4, 2, 3)})
    world.catch_up_all()
    greatest = max(known.epoch for known in world.live.values())
    for kind in (SendUpdateMetadata, SendLeaderAndIsr, SendStopReplica):
        found = sent(world, kind)
        assert found, kind
        assert {request.broker_epoch for request in found} == {greatest}, kind


def test_obsolete_controlled_shutdowns_are_fenced_off(world):
    """'obsolete ControlledShutdown requests can be fenced off by the controller'"""
    former = world.live[1].epoch
    world.bounce(1)
    world.feed(ControlledShutdownRequested(1, former, 9))
    assert world.replies[9].error is ErrorCode.STALE_BROKER_EPOCH


def test_obsolete_requests_of_brokers_are_fenced_off(world):
    """'still maintain the per-broker epochs in the controller's memory to fence off obsolete broker requests'"""
    former = world.live[1].epoch
    world.bounce(1)
    world.feed(AlterPartitionReceived(1, former, (), 9))
    assert world.replies[9].error is ErrorCode.STALE_BROKER_EPOCH


def test_bounced_brokers_are_detected(world):
    """'the controller can use the broker epoch to detect bounced brokers'"""
    assert world.leadership(TP).leader == 1
    world.bounce(1)
    assert world.leadership(TP).leader == 2


def test_the_maximum_is_of_all_registered_brokers(world):
    """'the controller calculates the max(all brokers' zxids) and uses the aggregated max in Message 5'"""
    world.bounce(4)
    before = len(world.sent)
    world.kill(1)
    assert {request.broker_epoch for request in sent(world, SendLeaderAndIsr, since=before)} == {world.live[4].epoch}


def test_a_two_pass_deployment():
    """'Adopting the change in this KIP requires a two pass deployment': by setting, without a restart (0007)."""
    world = Harness(control_request_epoch=ControlRequestEpoch.PER_BROKER).start(t=[(1, 2, 3)])
    assert all(len(request.brokers) == 1 for request in sent(world, SendUpdateMetadata))
    before = len(world.sent)
    world.feed(SettingsChanged(ControllerSettings(US)))
    world.create("u", [(1, 2, 3)])
    assert any(len(request.brokers) == 4 for request in sent(world, SendUpdateMetadata, since=before))
