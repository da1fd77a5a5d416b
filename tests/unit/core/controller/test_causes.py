"""Causes of decisions: logs show them to people, so each task has the cause of its own event."""

from harness import Harness

from shunter.core.controller.events import ClusterLoaded, ConfigsRead, Elected, Envelope
from shunter.core.controller.machine import ControllerMachine


def a_leader_dies():
    world = Harness().start()
    world.create("t", [(1, 2)])
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
