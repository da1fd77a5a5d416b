"""Deliberate bugs at the controller's edge, most of them once its own: each must be found within its number of worlds.

They are hunted in the worlds that have edges, one of seven (`simulation.actions.EDGE_WEIGHTS`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from mutants import Mutant, mutant

from shunter.core.controller.liveness import Liveness
from shunter.core.controller.outbox import Outbox
from shunter.core.controller.ready import SendLeaderAndIsr
from shunter.simulation.actions import ASIDE_OF

EDGE_MUTANTS: list[Mutant] = []
edge_mutant: Callable[..., Callable[..., Any]] = partial(mutant, every=ASIDE_OF, into=EDGE_MUTANTS)


def _announced(requests, keep):
    return [replace(each, new=keep(each.new)) if isinstance(each, SendLeaderAndIsr) else each for each in requests]


@edge_mutant(Outbox, "leader_and_isr", within=20)
def first_replicas_are_not_new(original, self, changes, now_ms):
    """The bug that was found: a new topic's replicas are announced as if they had been there before."""
    return _announced(original(self, changes, now_ms), lambda new: new - changes.first)


@edge_mutant(Outbox, "leader_and_isr", within=20)
def added_replicas_are_not_new(original, self, changes, now_ms):
    """So are those that a move adds."""
    return _announced(original(self, changes, now_ms), lambda new: new & changes.first)


@edge_mutant(Liveness, "on_brokers_read", within=20)
def moved_endpoints_are_not_told(original, self, brokers, now_ms):
    """The bug that was found: nobody is told that a live broker has another address."""
    if {each.id: each.epoch for each in brokers} == {each.id: each.epoch for each in self.state.brokers.values()}:
        self.state.brokers = {each.id: each for each in brokers}
        return iter(())
    return original(self, brokers, now_ms)
