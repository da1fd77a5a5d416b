"""One partition of the simulated cluster, and how its controller handles a reassignment of it.

Source: Apache 3.9, `ReplicaAssignment.reassignTo` and `KafkaController` (ZooKeeper mode); Apache 4.1,
`PartitionReassignmentReplicas`, `PartitionReassignmentRevert` and `ReplicationControlManager` (KRaft).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from shunter.errors import ErrorCode
from shunter.model.execution import ObservedPartition, OngoingReassignment
from shunter.model.partition import BrokerId, Replicas, TopicPartition

OURS = "executor"
FOREIGN = "somebody else"


@dataclass(slots=True)
class SimulatedPartition:
    """The truth about one partition: what its controller has decided, and how far copies have come, in bytes."""

    tp: TopicPartition
    replicas: Replicas
    isr: Replicas
    leader: BrokerId
    size: int
    adding: Replicas = ()
    removing: Replicas = ()
    have: dict[BrokerId, int] = field(default_factory=dict[BrokerId, int])
    mover: str = ""
    """The party that asked for the reassignment under way: `OURS` or `FOREIGN`."""
    base: Replicas = ()
    """The live in-sync replicas that the executor's step under way began with."""
    floor: int = 0
    """How many live in-sync replicas the executor's step under way has to leave."""
    began_us: int = 0
    """When the reassignment under way was asked for."""
    changed_us: int = -1
    """When its replicas or its reassignment changed last; -1: never since the world began."""
    foreign_us: int = -1
    """When another tool touched it last; -1: never."""
    shaken_us: int = -1
    """When a dead broker or a failed disk left its ISR last; also when a refusal ended."""
    led_us: dict[BrokerId, int] = field(default_factory=dict[BrokerId, int])
    """When each broker ceased to lead it last."""
    led_since_us: int = 0
    """When its leader was elected."""

    @property
    def in_motion(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> Replicas:
        """The replicas after the reassignment under way."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def settled(self) -> Replicas:
        """The replicas without those being added: what a cancel leaves."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    def seen(self, live: Collection[BrokerId]) -> ObservedPartition:
        """As metadata show it."""
        offline = tuple(broker for broker in self.replicas if broker not in live)
        return ObservedPartition(self.replicas, self.isr, self.leader, offline)

    def ongoing(self) -> OngoingReassignment:
        """As ListPartitionReassignments shows it."""
        return OngoingReassignment(self.replicas, self.adding, self.removing)

    def reassign(self, target: Replicas, *, kraft: bool, strands: bool = False) -> None:
        """Take a target on. Pre: it is valid.

        A ZooKeeper-mode controller starts from the originals, and drops additions that the new target does not have.
        KRaft's starts from all present replicas, and keeps them to the end. It still removes what an earlier request
        named for removal, unless the new request removes something itself (seen on 4.1). If it `strands` (4.3.1 and
        4.4.0), an addition that the new target drops is still being added, too, and the reassignment never ends.
        """
        base = self.replicas if kraft else self.settled
        added = tuple(broker for broker in target if broker not in base)
        dropped = tuple(broker for broker in self.adding if broker not in target) if kraft and strands else ()
        self.adding = tuple(broker for broker in target if broker in added or broker in self.adding) + dropped
        removing = tuple(broker for broker in base if broker not in target)
        self.removing = removing or (self.removing if kraft else ())
        self._place(target + tuple(broker for broker in self.removing if broker not in target))

    def cancel(self) -> ErrorCode:
        """Cancel the reassignment. The present order of the replicas stays."""
        if not self.in_motion:
            return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        if not any(broker in self.isr for broker in self.settled):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        self._place(self.settled)
        self.adding = self.removing = ()
        return ErrorCode.NONE

    def completable(self) -> bool:
        """Whether all of the target are in sync, and no replica is being added and removed at once."""
        return self.in_motion and set(self.target) <= set(self.isr) and not self.ongoing().stranded

    def complete(self) -> None:
        """End the reassignment: drop the replicas that are being removed."""
        self._place(self.target)
        self.adding = self.removing = ()

    def _place(self, replicas: Replicas) -> None:
        self.replicas = replicas
        self.isr = tuple(broker for broker in self.isr if broker in replicas) or self.isr
        for broker in [broker for broker in self.have if broker not in replicas]:
            del self.have[broker]
        for broker in replicas:
            self.have.setdefault(broker, 0)

    def elect(self, live: Collection[BrokerId], now_us: int) -> None:
        """Without a live leader in sync, elect the first live replica in sync."""
        if self.leader not in self.isr or self.leader not in live:
            self._lead(next((broker for broker in self.replicas if broker in self.isr and broker in live), -1), now_us)

    def elect_preferred(self, live: Collection[BrokerId], now_us: int) -> ErrorCode:
        """Elect the first replica, if it is live and in sync."""
        first = self.replicas[0]
        if self.leader == first:
            return ErrorCode.ELECTION_NOT_NEEDED
        if first not in self.isr or first not in live:
            return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        self._lead(first, now_us)
        return ErrorCode.NONE

    def _lead(self, leader: BrokerId, now_us: int) -> None:
        if leader != self.leader:
            self.led_us[self.leader] = self.led_since_us = now_us
            self.leader = leader
