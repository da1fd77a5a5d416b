"""When the machine asks to be woken: never in the past, and not again and again."""

from beginnings import TP
from harness import Harness

from shunter.core.controller.events import (
    AlterPartitionReceived,
    BatchRefused,
    Envelope,
    IsrProposal,
    TimePassed,
)


def test_no_wake_up_in_the_past_while_a_batch_is_written():
    world = Harness(slow_broker_ms=1_000).start()
    world.create("t", [(1, 2, 3)])
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
    world = Harness(slow_broker_ms=1_000, metadata_linger_ms=60_000).start()
    world.create("t", [(1, 2, 3)])
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
