"""The input of the choice of a step, and its result: a `Step`, or a `Waiting` that names brokers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from shunter.core.wording import told_brokers
from shunter.model.partition import NO_LEADER, BrokerId, ReplicaAssignment, Replicas


@dataclass(frozen=True, slots=True)
class Situation:
    """One partition as it stands now.

    `assignment` is the topic znode's: its `adding` tells a replica that is still being fetched from one that fell
    behind. `live` are the brokers, of all the cluster, that can serve this partition: leave out a broker whose log
    directory for it has failed. The values may be of another writer: ISR members outside the assignment do not count,
    and a leader that is dead or out of sync does not count as the leader.
    """

    assignment: ReplicaAssignment
    isr: Replicas
    leader: BrokerId
    """`NO_LEADER` (-1) while the partition is offline."""
    live: frozenset[BrokerId]
    min_isr: int
    in_sync: Replicas = field(init=False, compare=False, repr=False)
    """The replicas that count for durability now: assigned, live, and in the ISR; in assignment order."""

    def __post_init__(self) -> None:
        """Compute `in_sync` once: every rule asks for it, most of them several times."""
        isr, live = self.isr, self.live
        in_sync = tuple([broker for broker in self.assignment.replicas if broker in isr and broker in live])
        object.__setattr__(self, "in_sync", in_sync)

    @property
    def replicas(self) -> Replicas:
        """The current replicas (CR of KAFKA-6794), in order."""
        return self.assignment.replicas

    @property
    def serving_leader(self) -> BrokerId:
        """The leader if it is live and in sync, else `NO_LEADER`."""
        return self.leader if self.leader in self.in_sync else NO_LEADER

    def after(self, step: Step) -> Situation:
        """The partition once `step` has been written and nothing else has happened."""
        return Situation(step.assignment, step.isr, step.leader, self.live, self.min_isr)


class Step(NamedTuple):
    """One atomic write: assignment, leader and ISR change together or not at all.

    Invariants: `isr` is a subset of `replicas`; a leader that is not `NO_LEADER` is in `isr`.
    """

    dropped: Replicas
    added: Replicas
    assignment: ReplicaAssignment
    """The assignment in the topic znode after this write; its order is the final one if `final`."""
    isr: Replicas
    leader: BrokerId
    final: bool
    """The move ends with this write: everything asked for is assigned, in order, and what was new is in sync."""

    @property
    def replicas(self) -> Replicas:
        """The replicas after this step, in order."""
        return self.assignment.replicas


class WaitReason(Enum):
    """Why a move stands still."""

    CATCHING_UP = "catching_up"
    """A new replica is being fetched; it is live."""
    DEAD = "dead"
    """A broker of the target is dead, or its log dir for the partition failed: its replica can't be made, or can't catch
    up."""
    FLOOR = "floor"
    """Dropping the next replica would leave too few live ones in sync."""
    ORIGINALS = "originals"
    """A rollback has too few originals that are live and in sync."""
    NO_LEADER = "no_leader"
    """No replica in sync is live: to go on would lose records."""


class Waiting(NamedTuple):
    """The move can't take a step now. It goes on when `brokers` return, or catch up."""

    reason: WaitReason
    brokers: Replicas
    have: int = 0
    """Live in-sync replicas that would stay (FLOOR), or live in-sync originals (ORIGINALS)."""
    need: int = 0
    """The least number of such replicas that lets the move go on."""
    failed: Replicas = ()
    """Those of `brokers` that are live, and whose log dir for the partition failed: only a restart brings them back."""


def describe_waiting(waiting: Waiting) -> str:
    """One sentence for a person: what the move waits for, and why."""
    brokers = told_brokers(waiting.brokers)
    counted = f"{waiting.have} of the {waiting.need}"
    sentence = {
        WaitReason.CATCHING_UP: f"waits for {brokers} to catch up",
        WaitReason.DEAD: f"waits for {brokers} to come back: dead, and part of the target",
        WaitReason.FLOOR: f"waits for {brokers} to be live and in sync: the next drop would leave {counted}"
        " live in-sync replicas that must stay",
        WaitReason.ORIGINALS: f"waits for {brokers} to be live and in sync: {counted} original replicas"
        " that a rollback needs are",
        WaitReason.NO_LEADER: f"waits for {brokers} to come back: no live replica is in sync, nobody can lead",
    }[waiting.reason]
    return sentence if not waiting.failed else _with_failed_log_dirs(waiting, sentence)


def _with_failed_log_dirs(waiting: Waiting, sentence: str) -> str:
    """The sentence of a move that waits for a live broker whose log dir failed: such a broker is not dead."""
    failed, several = waiting.failed, len(waiting.failed) != 1
    dirs = f"log dir{'s' if several else ''}"
    if waiting.reason is not WaitReason.DEAD:
        return f"{sentence}; the {dirs} on {told_brokers(failed)} failed"
    whose, are = ("their", "they are") if several else ("its", "it is")
    restart = f"{told_brokers(failed)} to be restarted: {whose} {dirs} failed, and {are} part of the target"
    dead = tuple(broker for broker in waiting.brokers if broker not in failed)
    if not dead:
        return f"waits for {restart}"
    return f"waits for {told_brokers(dead)} to come back: dead, and part of the target; and for {restart}"
