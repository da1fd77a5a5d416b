"""Beginnings of stories that several tests share: the work that is under way when something happens."""

from harness import Harness

from shunter.core.controller.events import (
    ReassignmentChange,
    ReassignmentsSubmitted,
)
from shunter.model.partition import TopicPartition

TP = TopicPartition("t", 0)


def busy():
    """A cluster whose controller is writing something else."""
    world = Harness().start(t=[(1, 2)], u=[(1, 2)])
    world.hold_writes = True
    world.feed(submitted(1, ("u", 0), (3, 4)))
    assert world.held_batches
    return world


def submitted(token, tp, target):
    return ReassignmentsSubmitted((ReassignmentChange(TopicPartition(*tp), target, forced=True),), reply_to=token)


def let_write(world):
    while world.held_batches:
        batches, world.held_batches = world.held_batches, []
        world.feed(*(event for batch in batches for event in world._write(batch)))


def everything(token, mode):
    return ReassignmentsSubmitted((), cancel_all=True, intervention=mode, reply_to=token)
