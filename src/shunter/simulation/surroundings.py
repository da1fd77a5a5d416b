"""What the parts of a world see of it. No part knows `World`, which makes the parts and joins them.

A part that needs more than this says so in a protocol of its own, beside it: `BrokersWorld` in `broker.py`, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from shunter.model.partition import BrokerId, ReplicaAssignment, TopicPartition
from shunter.simulation.actions import Action
from shunter.simulation.coverage import Coverage
from shunter.simulation.edge_rules import EdgeRules
from shunter.simulation.network import Delays
from shunter.simulation.safety import Safety
from shunter.simulation.scheduler import Scheduler
from shunter.simulation.shape import Shape
from shunter.simulation.truth import Truth
from shunter.simulation.zookeeper_tree import ZooKeeperTree


class Surroundings(Protocol):
    """Time, ZooKeeper, the truth about the cluster, and the rules: what every part sees."""

    seed: int
    shape: Shape
    actions: Sequence[Action]
    scheduler: Scheduler
    coverage: Coverage
    truth: Truth
    safety: Safety
    edge_rules: EdgeRules
    tree: ZooKeeperTree
    operator: int
    """The ZooKeeper session of people's tools."""
    zookeeper_delays: Delays
    phase_two: bool
    unclean_asked: set[TopicPartition]
    """Partitions for which somebody asked for an unclean election."""

    def delays(self, broker: BrokerId) -> Delays:
        """Delays of a broker's connections."""
        ...

    def session_opened(self, session: int, owner: str) -> None:
        """Remember whose session it is."""
        ...

    def process_failed(self, name: str, failure: BaseException) -> None:
        """Something of a process raised and nobody caught it."""
        ...

    def put_topic(
        self, name: str, placed: dict[int, ReplicaAssignment], configs: dict[str, str], topic_id: UUID | None
    ) -> bool:
        """Create a topic as a tool on ZooKeeper does; False when it is there."""
        ...

    def poisoned(self) -> list[str]:
        """Topics whose configuration keeps brokers from starting."""
        ...

    def violate(self, rule: str, told: str) -> None:
        """A rule is broken."""
        ...
