"""Requests to brokers: which broker gets which, and which gets none."""

from beginnings import TP
from harness import US, Harness, broker

from shunter.core.controller.events import (
    AlterPartitionReceived,
    BrokersRead,
    IsrProposal,
)
from shunter.errors import ErrorCode


def test_a_leader_that_met_a_foreign_write_hears_of_a_new_epoch():
    world = Harness().start()
    world.create("t", [(1, 2, 3)])
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
    world = Harness().start()
    world.create("t", [(1, 2)])
    known = world.leadership(TP)
    proposal = IsrProposal(TP, known.leader_epoch, known.partition_epoch + 1, ((1, -1),))
    world.feed(AlterPartitionReceived(1, world.live[1].epoch, (proposal,), 9))
    assert world.replies[9].partitions == ((TP, ErrorCode.NOT_CONTROLLER),)
    assert world.leadership(TP).isr == known.isr
