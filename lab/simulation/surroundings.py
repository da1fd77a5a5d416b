"""A world as its parts see it. No part knows `World`, which makes the parts and joins them.

A part that needs more than this declares a protocol of its own in its module: `BrokersWorld` in `broker.py`, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from lab.simulation.actions import Action
from lab.simulation.coverage import Coverage
from lab.simulation.network import Delays
from lab.simulation.rules.edges import EdgeRules
from lab.simulation.rules.safety import Safety
from lab.simulation.rules.truth import Truth
from lab.simulation.scheduler import Scheduler
from lab.simulation.shape import Shape
from lab.simulation.zookeeper.tree import ZooKeeperTree
from shunter.model.partition import BrokerId, ReplicaAssignment, TopicPartition


class Surroundings(Protocol):
    """The attributes that every part sees: time, ZooKeeper, the truth about the cluster, and the rules."""

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
    """The ZooKeeper session of operators' tools."""
    zookeeper_delays: Delays
    phase_two: bool
    unclean_asked: set[TopicPartition]
    """Partitions for which an operator asked for an unclean election."""

    def delays(self, broker: BrokerId) -> Delays:
        """Delays of a broker's connections."""
        ...

    def session_opened(self, session: int, owner: str) -> None:
        """Remember the owner of a session."""
        ...

    def process_failed(self, name: str, failure: BaseException) -> None:
        """A process raised an exception that it did not catch."""
        ...

    def put_topic(
        self, name: str, placed: dict[int, ReplicaAssignment], configs: dict[str, str], topic_id: UUID | None
    ) -> bool:
        """Create a topic as a tool on ZooKeeper does; returns False if it exists."""
        ...

    def poisoned(self) -> list[str]:
        """Topics whose configuration keeps brokers from starting."""
        ...

    def violate(self, rule: str, told: str) -> None:
        """A rule is broken."""
        ...
