"""A world as its rules see it, and how they report violations. No rule knows `World`, which calls the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lab.simulation.brokers.channels import SimulatedChannels
from lab.simulation.brokers.replica import Replica
from lab.simulation.coverage import Coverage
from lab.simulation.rules.truth import Truth
from lab.simulation.scheduler import Scheduler
from lab.simulation.shape import Shape
from shunter.core.controller.machine import ControllerMachine
from shunter.core.controller.moves.lifecycle import Transition
from shunter.model.partition import BrokerId, Replicas, TopicPartition


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that was broken, and how."""

    rule: str
    told: str
    at_us: int

    def __str__(self) -> str:
        """Return one line of text."""
        return f"{self.rule}: {self.told} (at {self.at_us / 1_000_000:.3f} s)"


class ObservedBroker(Protocol):
    """A broker in the eyes of rules."""

    id: BrokerId
    epoch: int
    fence: int
    """The last broker epoch that its process has got."""
    controller_epoch: int
    running: bool
    answered_error: bool
    replicas: dict[TopicPartition, Replica]


class ObservedProcess(Protocol):
    """A controller process in the eyes of rules, with its knowledge at its last decision."""

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
    """Takes reports of violations."""

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
        """The judge that takes reports of violations."""
        ...

    def owner_of(self, session: int) -> str:
        """The owner of a session, by name."""
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
        """Whether a controller is writing a partition's replicas, and has no outcome of that write yet."""
        ...

    def is_auto_created(self, tp: TopicPartition) -> bool:
        """Whether a broker made the partition's topic, and placed it."""
        ...

    def forget_asked_factor(self, tp: TopicPartition) -> None:
        """A partition is reassigned: its topic's initial replication factor is not expected of it any longer."""
        ...

    def transitions_of(self, writer: str) -> Sequence[Transition]:
        """The transitions of moves in a controller's outstanding batch."""
        ...

    def live_in_the_eyes_of(self, writer: str, tp: TopicPartition) -> frozenset[BrokerId]:
        """Brokers that a controller believed able to serve a partition when it decided its last batch."""
        ...

    def epochs_known_to(self, writer: str) -> dict[BrokerId, int]:
        """The broker epochs that a controller knows."""
        ...

    def decided_us(self, writer: str) -> int:
        """When a controller decided its last batch."""
        ...

    def born_anew(self, writer: str, since_us: int) -> frozenset[BrokerId]:
        """Brokers whose present registration a controller has learned of since a moment."""
        ...


class History(Judge, Protocol):
    """The rules about all partitions, as the rules about moves, cancels and records see them."""

    truth: Truth

    @property
    def world(self) -> ObservedWorld:
        """The world."""
        ...

    def was_assigned(self, tp: TopicPartition, replicas: Replicas) -> bool:
        """Whether a partition has ever had these replicas."""
        ...

    def given_up(self, tp: TopicPartition, leader_epoch: int) -> set[BrokerId]:
        """Brokers that a leader has asked to take out of the ISR."""
        ...
