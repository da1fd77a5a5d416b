"""Protocols: the executor's world as its rules see it. No rule knows `ExecutorWorld`, which calls the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lab.simulation.coverage import Coverage
from lab.simulation.executor.cluster import SimulatedCluster
from lab.simulation.executor.shape import ExecutorShape
from lab.simulation.rules.observed import Violation
from lab.simulation.scheduler import Scheduler
from shunter.core.executor.machine import Executor
from shunter.drivers.journal.execution import ExecutionDriver
from shunter.model.execution import ThrottleKey
from shunter.model.partition import BrokerId, TopicPartition


class ObservedClock(Protocol):
    """A process's clock."""

    skew_ms: int

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...


class ObservedExecutorProcess(Protocol):
    """An executor's process in the eyes of rules."""

    name: str
    owner: str
    driving: bool
    """Whether it took the lease and loaded the journal."""
    drives_since_us: int
    driver: ExecutionDriver | None

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        ...

    @property
    def clock(self) -> ObservedClock:
        """Its clock."""
        ...

    @property
    def core(self) -> Executor:
        """Its core."""
        ...

    def cross(self) -> None:
        """Count an event or request that enters or leaves it."""
        ...


class ObservedJournal(Protocol):
    """Where the journal is kept."""

    @property
    def damaged(self) -> object:
        """The damaged entry as it was before; None: no entry is damaged."""
        ...

    def owner(self) -> str:
        """The owner of the lease."""
        ...

    def answer_to(self, number: int) -> str | None:
        """The answer to an order of another shell."""
        ...


class ObservedNetwork(Protocol):
    """The network between executors and the cluster."""

    mended_us: int

    @property
    def steady(self) -> bool:
        """Whether nothing is lost or refused on the way."""
        ...


class ObservedExecutorWorld(Protocol):
    """The executor's world in the eyes of rules."""

    scheduler: Scheduler
    coverage: Coverage
    shape: ExecutorShape
    cluster: SimulatedCluster
    violation: Violation | None
    refused: set[TopicPartition]
    refused_dirs: set[tuple[BrokerId, TopicPartition]]
    muddled: set[ThrottleKey]
    hindered_us: int
    murky_until_us: int
    turned_us: int

    @property
    def disk(self) -> ObservedJournal:
        """Where the journal is kept."""
        ...

    @property
    def network(self) -> ObservedNetwork:
        """The network to the cluster."""
        ...

    @property
    def processes(self) -> Sequence[ObservedExecutorProcess]:
        """All live processes."""
        ...

    def driver(self) -> ObservedExecutorProcess | None:
        """The process that drives the journal now."""
        ...

    def virtual_us(self, process: ObservedExecutorProcess, moment_ms: int) -> int:
        """A moment of a process's clock as the world's time."""
        ...

    def window_open(self, process: ObservedExecutorProcess) -> bool:
        """Whether the plan's time window is open by a process's clock."""
        ...


class ObservedRules(Protocol):
    """The rules about requests, as the rules about the journal see them."""

    @property
    def world(self) -> ObservedExecutorWorld:
        """The world."""
        ...

    def violate(self, rule: str, told: str) -> None:
        """A rule is broken."""
        ...

    def in_window(self, told: str) -> None:
        """Copies begin in their time window."""
        ...
