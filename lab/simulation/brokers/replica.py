"""A partition on one broker, as `kafka.cluster.Partition` behaves in ZooKeeper mode (Apache Kafka 3.9).

A leader appends, has its high watermark over the MAXIMAL in-sync set, and has one ISR change in flight, which it keeps
until it gets new metadata or an answer that it understands. A follower fetches, and truncates its log where it diverges
from the leader's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from lab.simulation.brokers.log import Log, LogEntry
from lab.simulation.scheduler import SECOND
from shunter.core.controller.events import IsrProposal
from shunter.model.partition import BrokerId, LeaderAndIsr, PartitionState, Replicas, TopicPartition

LAG_US = 3 * SECOND
"""replica.lag.time.max.ms"""
FETCHED_AT_ONCE = 20


class Role(Enum):
    """The role of a replica."""

    IDLE = "idle"
    LEADER = "leader"
    FOLLOWER = "follower"


class FetchAnswer(NamedTuple):
    """A leader's answer: records from the requested offset, or the point where the logs diverge."""

    error: bool
    entries: tuple[LogEntry, ...] = ()
    high_watermark: int = 0
    diverging: tuple[int, int] | None = None
    moved: bool = False
    """Whether the follower got further, or may join the ISR. The leader then checks its high watermark and its ISR."""

    def tells(self, known: int) -> bool:
        """Whether the answer has news for a follower whose high watermark is `known`."""
        return bool(self.entries) or self.diverging is not None or self.high_watermark > known


@dataclass(slots=True)
class Follower:
    """A leader's knowledge of one follower."""

    end: int = -1
    caught_up_us: int = 0
    fetched_us: int = 0
    leader_end: int = 0
    """The end of the leader's log at the previous fetch. A follower that has reached it was caught up at that fetch."""


@dataclass(slots=True, eq=False)
class Replica:
    """One replica on one broker. `isr` is the last committed one; `proposed` is in flight or kept."""

    tp: TopicPartition
    log: Log
    role: Role = Role.IDLE
    leader: BrokerId = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    replicas: Replicas = ()
    isr: Replicas = ()
    proposed: Replicas | None = None
    start: int = 0
    """The offset at which the present leader epoch began."""
    followers: dict[BrokerId, Follower] = field(default_factory=dict[BrokerId, Follower])
    waiting: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Records of producers with acks=all that are not acknowledged yet: (offset, value)."""
    min_isr: int = 1

    @property
    def maximal_isr(self) -> set[BrokerId]:
        """Committed and proposed members together: the high watermark waits for all of them."""
        return {*self.isr, *(self.proposed or ())}

    # ---- roles, from the controller

    def lead(self, state: PartitionState, leadership: LeaderAndIsr, us: BrokerId, now_us: int) -> bool:
        """Become or remain the leader; returns False for an older partition epoch, which is ignored."""
        if leadership.partition_epoch < self.partition_epoch:
            return False
        newly = self.role is not Role.LEADER
        self.role, self.leader = Role.LEADER, us
        self.replicas, self.isr = state.assignment.replicas, leadership.isr
        self.proposed = None
        self.partition_epoch = leadership.partition_epoch
        if leadership.leader_epoch > self.leader_epoch:
            self.leader_epoch = leadership.leader_epoch
            self.start = self.log.end
            known = self.followers
            self.followers = {broker: Follower() for broker in self.replicas if broker != us}
            for broker, follower in self.followers.items():
                if broker in self.isr:
                    follower.caught_up_us = now_us
                if not newly and broker in known:
                    follower.end = known[broker].end
        return True

    def follow(self, state: PartitionState, leadership: LeaderAndIsr) -> bool:
        """Become or remain a follower; returns False for an older partition epoch, which is ignored."""
        if leadership.partition_epoch < self.partition_epoch:
            return False
        self.role, self.leader = Role.FOLLOWER, leadership.leader
        self.leader_epoch, self.partition_epoch = leadership.leader_epoch, leadership.partition_epoch
        self.replicas, self.isr, self.proposed = state.assignment.replicas, (), None
        self.waiting.clear()
        self.followers = {}
        return True

    # ---- a leader's work

    def append(self, value: int) -> int | None:
        """Append a record of a producer with acks=all; returns its offset, or None if too few replicas are in sync."""
        if len(self.isr) < self.min_isr:
            return None
        self.log.entries.append(LogEntry(self.leader_epoch, value))
        self.waiting.append((self.log.end - 1, value))
        return self.log.end - 1

    def serve_fetch(
        self, broker: BrokerId, offset: int, last_epoch: int, leader_epoch: int, now_us: int
    ) -> FetchAnswer:
        """Answer a follower's fetch, and learn its position from the offset."""
        if self.role is not Role.LEADER or leader_epoch != self.leader_epoch or broker not in self.replicas:
            return FetchAnswer(error=True)
        epoch, end = self.log.end_of_epoch(last_epoch)
        if offset and (epoch < last_epoch or end < offset):
            return FetchAnswer(error=False, diverging=(epoch, end))
        if offset > self.log.end:
            return FetchAnswer(error=False, diverging=(epoch, self.log.end))
        follower = self.followers.setdefault(broker, Follower())
        moved = follower.end != offset or broker not in self.isr
        follower.end = offset
        if offset >= self.log.end:
            follower.caught_up_us = now_us
        elif offset >= follower.leader_end:
            follower.caught_up_us = max(follower.caught_up_us, follower.fetched_us)
        follower.fetched_us, follower.leader_end = now_us, self.log.end
        entries = tuple(self.log.entries[offset : offset + FETCHED_AT_ONCE])
        return FetchAnswer(False, entries, self.log.high_watermark, moved=moved)

    def raise_high_watermark(self, us: BrokerId, alive: frozenset[BrokerId], now_us: int) -> bool:
        """Raise the high watermark to the offset that all of the maximal ISR have; returns whether it was raised.

        It also waits for followers that are caught up and may join soon (KAFKA-7168 and others in Partition.scala).
        """
        if len(self.isr) < self.min_isr:
            return False
        mark = self.log.end
        waited = self.maximal_isr
        for broker, follower in self.followers.items():
            if follower.end < mark and (
                broker in waited or (broker in alive and follower.end >= 0 and now_us - follower.caught_up_us <= LAG_US)
            ):
                mark = follower.end
        if any(broker != us and broker not in self.followers for broker in waited):
            return False
        if mark <= self.log.high_watermark:
            return False
        self.log.high_watermark = mark
        return True

    def acknowledged(self) -> list[tuple[int, int]]:
        """Take the records that can be acknowledged now: (offset, value)."""
        if len(self.maximal_isr) < self.min_isr:
            return []
        mark = self.log.high_watermark
        done = [each for each in self.waiting if each[0] < mark]
        if done:
            self.waiting = [each for each in self.waiting if each[0] >= mark]
        return done

    def proposal(self, us: BrokerId, alive: frozenset[BrokerId], now_us: int, *, shrink: bool) -> Replicas | None:
        """The ISR that the leader wants to propose; None if nothing would change, or while a proposal is in flight.

        Kafka looks for followers that may join at each fetch, and for lagging members (`shrink`) periodically.
        """
        if self.role is not Role.LEADER or self.proposed is not None:
            return None
        for broker in self.replicas:
            follower = self.followers.get(broker)
            if broker in self.isr or follower is None or broker not in alive:
                continue
            if follower.end >= max(self.log.high_watermark, self.start):
                return (*self.isr, broker)
        if not shrink:
            return None
        behind = [
            broker
            for broker in self.isr
            if broker != us and (broker not in self.followers or self._lags(self.followers[broker], now_us))
        ]
        return tuple(broker for broker in self.isr if broker not in behind) if behind else None

    def _lags(self, follower: Follower, now_us: int) -> bool:
        return follower.end != self.log.end and now_us - follower.caught_up_us > LAG_US

    def propose(self, isr: Replicas, epochs: dict[BrokerId, int]) -> IsrProposal:
        """Put a change in flight."""
        self.proposed = isr
        members = tuple((broker, epochs.get(broker, -1)) for broker in isr)
        return IsrProposal(self.tp, self.leader_epoch, self.partition_epoch, members)

    def take_answer(self, leader_epoch: int, isr: Replicas, partition_epoch: int) -> bool:
        """Take a committed ISR from an AlterPartition answer; returns False if the answer is out of date."""
        if self.role is not Role.LEADER or leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            return False
        self.isr, self.partition_epoch, self.proposed = isr, partition_epoch, None
        return True

    # ---- a follower's work

    def take_fetched(self, answer: FetchAnswer) -> None:
        """Append the fetched records, or truncate to the point where the logs diverge."""
        log = self.log
        if answer.diverging is not None:
            epoch, end = answer.diverging
            own_epoch, own_end = log.end_of_epoch(epoch)
            log.truncate(min(end, own_end) if own_epoch == epoch or epoch < 0 else own_end)
            return
        log.entries.extend(answer.entries)
        log.high_watermark = max(log.high_watermark, min(answer.high_watermark, log.end))
