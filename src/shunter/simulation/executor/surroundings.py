"""An executor's world as its parts see it. No part knows `ExecutorWorld`, which makes the parts and joins them.

A part that needs more than this declares a protocol of its own in its module.
"""

from __future__ import annotations

from typing import Protocol

from shunter.model.execution import ThrottleKey
from shunter.model.partition import TopicPartition
from shunter.simulation.coverage import Coverage
from shunter.simulation.executor.admin import Network
from shunter.simulation.executor.cluster import SimulatedCluster
from shunter.simulation.executor.disk import JournalDisk
from shunter.simulation.executor.observed import ObservedExecutorProcess
from shunter.simulation.executor.rules import ExecutorRules
from shunter.simulation.executor.shape import ExecutorShape
from shunter.simulation.executor.topic import JournalTopic
from shunter.simulation.scheduler import Scheduler


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
