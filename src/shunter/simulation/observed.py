"""What rules see of a world, and how they say that it broke one. No rule knows `World`, and `World` calls the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from shunter.core.controller.lifecycle import Transition
from shunter.core.controller.machine import ControllerMachine
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.simulation.channels import SimulatedChannels
from shunter.simulation.coverage import Coverage
from shunter.simulation.replica import Replica
from shunter.simulation.scheduler import Scheduler
from shunter.simulation.shape import Shape
from shunter.simulation.truth import Truth


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that was broken, and how."""

    rule: str
    told: str
    at_us: int

    def __str__(self) -> str:
        """Say it in one line."""
        return f"{self.rule}: {self.told} (at {self.at_us / 1_000_000:.3f} s)"


class ObservedBroker(Protocol):
    """A broker in the eyes of rules."""

    id: BrokerId
    epoch: int
    fence: int
    """The last epoch that its process has got."""
    controller_epoch: int
    running: bool
    answered_error: bool
    replicas: dict[TopicPartition, Replica]


class ObservedProcess(Protocol):
    """A controller process in the eyes of rules: what it knew when it decided last."""

    name: str
    epochs: dict[BrokerId, int]
    learned_us: dict[BrokerId, int]
    decided_us: int
    decided_live: frozenset[BrokerId]
    decided_offline: dict[TopicPartition, frozenset[BrokerId]]
    channels: SimulatedChannels

    @property
    def machine(self) -> ControllerMachine:
        """Its core."""
        ...


class Judge(Protocol):
    """Where a broken rule is told."""

    def violate(self, rule: str, told: str) -> None:
        """A rule is broken."""
        ...


class ObservedWorld(Protocol):
    """A world in the eyes of rules."""

    scheduler: Scheduler
    coverage: Coverage
    truth: Truth
    shape: Shape
    violation: Violation | None
    acknowledged: int

    @property
    def brokers(self) -> Mapping[BrokerId, ObservedBroker]:
        """All brokers."""
        ...

    @property
    def processes(self) -> Mapping[int, ObservedProcess]:
        """All controllers' processes."""
        ...

    @property
    def safety(self) -> Judge:
        """Where a broken rule is told."""
        ...

    def owner_of(self, session: int) -> str:
        """Whose session it is."""
        ...

    def min_isr(self, topic: str) -> int:
        """min.insync.replicas of a topic."""
        ...

    def unclean_allowed(self, tp: TopicPartition) -> bool:
        """Whether an operator allowed a leader that is out of sync."""
        ...

    def believes_deleting(self, sender: str, topic: str) -> bool:
        """Whether a controller is deleting a topic."""
        ...

    def is_placing(self, sender: str, tp: TopicPartition) -> bool:
        """Whether a controller is writing a partition's replicas, and has not heard yet whether that happened."""
        ...

    def is_auto_created(self, tp: TopicPartition) -> bool:
        """Whether a broker made its topic, and placed it."""
        ...

    def forget_asked_factor(self, tp: TopicPartition) -> None:
        """Somebody moves it: how many replicas it was asked to have counts no more."""
        ...

    def transitions_of(self, writer: str) -> Sequence[Transition]:
        """What a controller's outstanding batch does to moves."""
        ...

    def live_in_the_eyes_of(self, writer: str, tp: TopicPartition) -> frozenset[BrokerId]:
        """Brokers that a controller took for able to serve a partition when it decided its last batch."""
        ...

    def epochs_known_to(self, writer: str) -> dict[BrokerId, int]:
        """The brokers' lives of which a controller knows."""
        ...

    def decided_us(self, writer: str) -> int:
        """When a controller decided its last batch."""
        ...

    def born_anew(self, writer: str, since_us: int) -> frozenset[BrokerId]:
        """Brokers of whose present life a controller has heard since a moment."""
        ...


class History(Judge, Protocol):
    """The rules about all partitions, in the eyes of those about moves, cancels and records."""

    truth: Truth

    @property
    def world(self) -> ObservedWorld:
        """The world."""
        ...

    def was_assigned(self, tp: TopicPartition, replicas: Replicas) -> bool:
        """Whether a partition has ever had these replicas."""
        ...

    def given_up(self, tp: TopicPartition, leader_epoch: int) -> set[BrokerId]:
        """Whom a leader has asked to take out of the ISR."""
        ...
