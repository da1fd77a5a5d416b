"""A world with its brokers and controllers, as operators and faults see it."""

from __future__ import annotations

from typing import Protocol

from lab.simulation.brokers.apache import ApacheController
from lab.simulation.brokers.broker import SimulatedBroker
from lab.simulation.process import ShunterProcess
from lab.simulation.surroundings import Surroundings
from shunter.model.partition import BrokerId


class InhabitedWorld(Surroundings, Protocol):
    """Brokers, controllers' processes, and Apache's controller."""

    brokers: dict[BrokerId, SimulatedBroker]
    processes: dict[int, ShunterProcess]
    apache: ApacheController

    def active_process(self) -> ShunterProcess | None:
        """The Shunter that clients would find: of those that believe to be the controller, the newest epoch's."""
        ...
