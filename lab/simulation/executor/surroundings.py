"""An executor's world as its parts see it. No part knows `ExecutorWorld`, which makes the parts and joins them.

A part that needs more than this declares a protocol of its own in its module.
"""

from __future__ import annotations

from typing import Protocol

from lab.simulation.coverage import Coverage
from lab.simulation.executor.admin import Network
from lab.simulation.executor.cluster import SimulatedCluster
from lab.simulation.executor.disk import JournalDisk
from lab.simulation.executor.observed import ObservedExecutorProcess
from lab.simulation.executor.rules import ExecutorRules
from lab.simulation.executor.shape import ExecutorShape
from lab.simulation.executor.topic import JournalTopic
from lab.simulation.scheduler import Scheduler
from shunter.model.execution import ThrottleKey
from shunter.model.partition import TopicPartition


class ExecutorSurroundings(Protocol):
    """The attributes that every part sees: time, the cluster, the network to it, the journal, and the rules."""

    shape: ExecutorShape
    scheduler: Scheduler
    coverage: Coverage
    cluster: SimulatedCluster
    network: Network
    disk: JournalDisk | JournalTopic
    disk_us: int
    quick_disk_us: int
    rules: ExecutorRules
    refused: set[TopicPartition]
    muddled: set[ThrottleKey]
    jump_ms: int
    local_minutes: int
    phase_two: bool
    last_end: str

    def driver(self) -> ObservedExecutorProcess | None:
        """The process that drives the journal now."""
        ...
