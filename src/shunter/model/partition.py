"""A partition: its replicas, its leader, its ISR.

These are named tuples, not dataclasses: a controller holds hundreds of thousands of them, and a named tuple is
built and hashed several times faster and weighs less.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

BrokerId: TypeAlias = int
Replicas: TypeAlias = tuple[BrokerId, ...]

NO_LEADER: BrokerId = -1
LEADER_DURING_DELETE: BrokerId = -2

INITIAL_LEADER_EPOCH = 0
EPOCH_DURING_DELETE = -2
NO_EPOCH = -1


class TopicPartition(NamedTuple):
    """Name of a partition; sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class EligibleLeaders(NamedTuple):
    """Replicas outside the ISR that may lead (KIP-966): the ELR has every acknowledged record, the last known may lack some."""

    elr: Replicas = ()
    last_known: Replicas = ()


class ReplicaAssignment(NamedTuple):
    """A partition's replicas, and which of them are being added and removed (topic znode v3, KIP-455 as shipped).

    Invariants: no repeats in `replicas`; `adding` and `removing` are disjoint subsets of `replicas`.
    `replicas` may be empty: Apache's controller makes a topic of that kind, and a person can write one. Two assignments
    are equal only if their orders are.
    """

    replicas: Replicas
    adding: Replicas = ()
    removing: Replicas = ()

    @property
    def preferred(self) -> BrokerId:
        """The preferred leader: the first replica, or NO_LEADER if there is no replica."""
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def original(self) -> Replicas:
        """The replicas before the step under way: without the adding ones, in order."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def target(self) -> Replicas:
        """The replicas after the step under way: without the removing ones, in order."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def in_motion(self) -> bool:
        """Whether a reassignment step is under way."""
        return bool(self.adding or self.removing)


class LeaderAndIsr(NamedTuple):
    """A partition's leader and ISR (partition state znode).

    `partition_epoch` is the znode's version; -1 before it exists. Invariant: a leader ≥ 0 is in `isr`.
    `target_replicas` is KIP-455's draft field `targetReplicas`, written for readers of the draft; None when absent.
    """

    leader: BrokerId
    leader_epoch: int
    isr: Replicas
    partition_epoch: int = -1
    controller_epoch: int = 0
    recovering: bool = False
    target_replicas: Replicas | None = None

    def in_new_epoch(self) -> LeaderAndIsr:
        """The same in the next leader epoch: in the present one brokers would ignore the request as a repeat."""
        return self._replace(leader_epoch=self.leader_epoch + 1)


class PartitionState(NamedTuple):
    """A partition as the controller knows it; `leadership` is None until its first election."""

    assignment: ReplicaAssignment
    leadership: LeaderAndIsr | None
