"""Suspects: the inputs that are blamed when a bug ends the controller."""

from uuid import UUID

import pytest
from harness import Harness

from shunter.core.controller.brokers import elections
from shunter.core.controller.events import (
    Envelope,
    LegacyReassignmentsFound,
    NewTopic,
    PartitionsRead,
    ReassignmentsSubmitted,
    TimePassed,
    TopicDeletionsSubmitted,
    TopicsSubmitted,
)
from shunter.core.controller.suspects import SUSPECTS_AT_MOST, Suspect, SuspectKind, content_of, of_event
from shunter.model.crashes import FORGOTTEN_AFTER_MS, LONGEST_PAUSE_MS, RememberedCrash, with_another
from shunter.model.partition import LeaderAndIsr, TopicPartition
from shunter.model.records import PutPartition


def test_the_partition_that_was_decided_is_suspected(monkeypatch):
    world = Harness((1, 2, 3)).start(fine=[[1, 2]], poison=[[1, 2]])
    decide = elections.elect_offline

    def deliberate(draft, settings, tp):
        if tp.topic == "poison":
            raise KeyError("a deliberate bug")
        decide(draft, settings, tp)

    monkeypatch.setattr(elections, "elect_offline", deliberate)
    with pytest.raises(KeyError):
        world.kill(1)
    assert world.machine.suspects == (Suspect(SuspectKind.PARTITION, "poison-0"),)


def test_what_was_written_together_is_suspected_with_the_requests_that_asked_for_it():
    world = Harness((1, 2, 3)).start(poison=[[1, 2]])
    world.hold_writes = True
    world.kill(1)
    (batch,) = world.held_batches
    assert isinstance(batch.records[0], PutPartition)
    written = world.store.write(batch)
    object.__setattr__(written, "versions", ())  # No ZooKeeper gives such an answer.
    with pytest.raises(Exception):  # noqa: B017 - any
        world.machine.handle(Envelope(world.now_ms, "test", written))
    assert world.machine.suspects == (Suspect(SuspectKind.PARTITION, "poison-0"),)
    assert world.machine.suspected_causes == ("test",)


def test_an_event_is_suspected_for_what_it_tells_of():
    legacy = LegacyReassignmentsFound(None)
    assert of_event(legacy) == (Suspect(SuspectKind.LEGACY, ""),)
    assert of_event(TimePassed()) == ()
    state = LeaderAndIsr(1, 1, (1,))
    few = {TopicPartition("t", number): state for number in range(2)}
    assert [suspect.name for suspect in of_event(PartitionsRead(few))] == ["t-0", "t-1"]
    many = {TopicPartition("t", number): state for number in range(SUSPECTS_AT_MOST + 1)}
    assert of_event(PartitionsRead(many)) == ()
    (asked,) = of_event(TopicDeletionsSubmitted(("t",), 5))
    assert asked.kind is SuspectKind.CALLER


def test_the_same_request_asked_again_has_the_same_content():
    assert content_of(TopicDeletionsSubmitted(("t",), 5)) == content_of(TopicDeletionsSubmitted(("t",), 6))
    assert content_of(TopicDeletionsSubmitted(("t",), 5)) != content_of(TopicDeletionsSubmitted(("u",), 5))
    assert content_of(ReassignmentsSubmitted((), cancel_all=True)) != content_of(ReassignmentsSubmitted(()))
    asked = [
        TopicsSubmitted((NewTopic("t", UUID(int=number), 1, 1, {}, {}, placement_seed=number),), False, number)
        for number in (1, 2)
    ]
    assert content_of(asked[0]) == content_of(asked[1])


def test_each_time_the_pause_is_twice_as_long_and_at_last_the_crash_is_forgotten():
    suspects = (("partition", "t-0"),)
    crash = RememberedCrash(1_000, 0, 1, "cause", "error", suspects)
    known = ()
    pauses = []
    for _ in range(9):
        known = with_another(known, crash)
        pauses.append(known[-1].until_ms - 1_000)
    assert pauses[:3] == [60_000, 120_000, 240_000]
    assert pauses[-1] == LONGEST_PAUSE_MS
    assert len(known) == 1
    other = crash._replace(suspects=(("topic", "u"),))
    assert [each.suspects for each in with_another(known, other)] == [suspects, other.suspects]
    late = other._replace(at_ms=known[0].until_ms + FORGOTTEN_AFTER_MS)
    assert [each.suspects for each in with_another(known, late)] == [other.suspects]
