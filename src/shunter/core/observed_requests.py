"""Requests to Apache's controller, inferred from their effects: ZooKeeper shows its writes, not its requests.

| seen | event that the machine gets |
| --- | --- |
| an ISR that grew, or that shrank within one leader epoch | that ISR: leaders change it by AlterPartition |
| another ISR under the same leader, in a new leader epoch (1) | the same |
| an assignment that gets other replicas, or loses those that it was to get | a request to reassign, or to cancel |
| a move that Apache has ended | that all of its target was in sync: Apache ends no move before |
| another leader or a smaller ISR, without a live broker that leads nothing, is in no other ISR (1) | its shutdown |
| the same of single partitions, after a log dir of that broker was announced as failed (1) | that these failed |
| the first replica leads, and the leader before is in sync still (1) | a request to elect the preferred leader |
| a leader where there was none, that had not been in sync (1) | a request for an unclean election |

(1) waits for `settle`: a broker that stops in less time is seen to be gone, and then nothing is inferred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from shunter.core.controller.events import (
    ControlledShutdownRequested,
    ElectionRequested,
    Event,
    PartitionsRead,
    ReassignmentChange,
    ReplicasFailed,
    RequestAnswered,
)
from shunter.core.controller.ready import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from shunter.core.controller.state import ControllerState
from shunter.errors import ErrorCode
from shunter.model.partition import (
    NO_LEADER,
    BrokerId,
    LeaderAndIsr,
    PartitionState,
    ReplicaAssignment,
    Replicas,
    TopicPartition,
)
from shunter.model.reassignment import Intervention, Strategy

NOBODY_ASKED = 0
"""The reply token of a request that no caller here has sent."""


def answer_of(
    view: ControllerState, request: SendLeaderAndIsr | SendStopReplica | SendUpdateMetadata, broker: BrokerId
) -> RequestAnswered:
    """The answer that a broker would give to the machine's request, which nobody sends: it has done what it is told.

    A replica on a failed log dir stays offline until the broker is restarted, and refuses (Apache 3.9,
    `HostedPartition.Offline`).
    """
    failed = {tp for tp, brokers in view.offline_replicas.items() if broker in brokers}
    if not failed or not isinstance(request, SendLeaderAndIsr):
        return RequestAnswered(request.request_id, broker)
    named = (TopicPartition(topic.name, number) for topic in request.topics for number, _ in topic.partitions)
    errors = {tp: ErrorCode.KAFKA_STORAGE_ERROR for tp in named if tp in failed}
    return RequestAnswered(request.request_id, broker, partition_errors=errors)


class Place(NamedTuple):
    """The parts of a partition that are compared. Its leader is None before its first election."""

    replicas: Replicas
    adding: frozenset[BrokerId]
    removing: frozenset[BrokerId]
    leader: BrokerId | None
    isr: frozenset[BrokerId]

    def __str__(self) -> str:
        """The place in words for people."""
        led = "never led" if self.leader is None else f"leader {self.leader}, in sync {listed(sorted(self.isr))}"
        moving = "".join(
            f", {word} {listed(sorted(brokers))}"
            for word, brokers in (("adding", self.adding), ("removing", self.removing))
            if brokers
        )
        return f"replicas {listed(self.replicas)}{moving}, {led}"


def place_of(assignment: ReplicaAssignment, leadership: LeaderAndIsr | None) -> Place:
    """The parts of a partition that are compared."""
    leader, isr = (None, ()) if leadership is None else (leadership.leader, leadership.isr)
    return Place(
        assignment.replicas, frozenset(assignment.adding), frozenset(assignment.removing), leader, frozenset(isr)
    )


def request_behind(tp: TopicPartition, ours: ReplicaAssignment, shown: ReplicaAssignment) -> ReassignmentChange | None:
    """Infer the request behind an assignment that Apache wrote; None: the machine has this target already."""
    target = shown.target
    if target == ours.target:
        return None
    if ours.in_motion and set(target) == set(ours.original):
        return ReassignmentChange(tp, None, intervention=Intervention.ROLL_BACK)
    return ReassignmentChange(tp, target, strategy=Strategy.ALL_AT_ONCE)


def isr_news(
    known: PartitionState,
    before: LeaderAndIsr,
    shown: LeaderAndIsr,
    live: Collection[BrokerId],
    next_version: Callable[[], int],
) -> LeaderAndIsr | None:
    """Infer what leaders did to an ISR between two rounds, and apply it to the machine's ISR; None: they did nothing.

    Only leaders let an ISR grow. (An unclean election begins an ISR without any member of the ISR before.) Leaders
    shrink an ISR, too, and keep the leader epoch; a controller raises the epoch.
    """
    ours = known.leadership
    if ours is None or before.leader not in shown.isr:
        return None
    grown = set(shown.isr).difference(before.isr).intersection(live)
    lost = set(before.isr).difference(shown.isr)
    if (before.leader, before.leader_epoch) != (shown.leader, shown.leader_epoch):
        lost.intersection_update(lost.difference(known.assignment.replicas))
    lost.discard(ours.leader)
    isr = tuple(member for member in ours.isr if member not in lost)
    isr += tuple(sorted(grown.difference(isr)))
    return None if isr == ours.isr else ours._replace(isr=isr, partition_epoch=next_version())


@dataclass(slots=True)
class Inferred:
    """The requests that one round infers from their effects. `told` has the events for the machine."""

    view: ControllerState
    states: Mapping[TopicPartition, LeaderAndIsr]
    failed_dirs: Collection[BrokerId]
    next_version: Callable[[], int]
    told: list[tuple[Event, str]] = field(default_factory=list[tuple[Event, str]])
    counted: Counter[str] = field(default_factory=Counter[str])
    relieved: set[BrokerId] = field(default_factory=set[BrokerId])
    in_sync_elsewhere: set[BrokerId] | None = None

    def has_left(self, broker: BrokerId) -> bool:
        """Whether a broker is in no ISR, except where it is the only member: a controlled shutdown leaves it so."""
        if self.in_sync_elsewhere is None:
            self.in_sync_elsewhere = {
                member for state in self.states.values() if len(state.isr) > 1 for member in state.isr
            }
        return broker not in self.in_sync_elsewhere

    def tell(self, event: Event, cause: str, counted: str) -> None:
        """Add an event for the machine."""
        self.told.append((event, cause))
        self.counted[counted] += 1

    def tell_isr(self, tp: TopicPartition, isr: Collection[BrokerId], cause: str, counted: str) -> None:
        """Add an event with an ISR for the machine, under the leader that the machine has."""
        known = self.view.partition(tp)
        if known is None or known.leadership is None:
            return
        ours = known.leadership
        members = tuple(member for member in known.assignment.replicas if member in isr or member == ours.leader)
        after = ours._replace(isr=members, partition_epoch=self.next_version())
        self.tell(PartitionsRead({tp: after}), cause, counted)


def infer(found: Inferred, tp: TopicPartition, ours: Place, shown: Place, *, settled: bool) -> bool:
    """Infer from a difference what was asked of Apache's controller; returns whether there was something.

    Args:
        found: gets the inferred events.
        tp: a partition that the two sides have differently.
        ours: the machine's side.
        shown: Apache's side.
        settled: whether the difference has stood for long, and nothing was inferred from it yet.
    """
    if _ended(found, tp, ours, shown):
        return True
    if not settled or ours.replicas != shown.replicas:
        return False
    return _left(found, tp, ours, shown) or _altered(found, tp, ours, shown) or _elected(found, tp, ours, shown)


def _ended(found: Inferred, tp: TopicPartition, ours: Place, shown: Place) -> bool:
    """Apache has ended a move: its whole target was in sync, for a moment that no round has seen."""
    target = frozenset(ours.replicas) - ours.removing
    ended = (ours.adding or ours.removing) and not (shown.adding or shown.removing)
    if not ended or target != set(shown.replicas) or target <= ours.isr:
        return False
    isr = ours.isr | target.intersection(found.view.brokers)
    if isr == ours.isr:
        return False
    found.tell_isr(tp, isr, "all of a move's target was in sync", "moves that Apache ended")
    return True


def _left(found: Inferred, tp: TopicPartition, ours: Place, shown: Place) -> bool:
    """Live brokers have left the ISR: they are stopping, or their log dir has failed."""
    taken = False
    for broker in sorted(ours.isr - shown.isr):
        registered = found.view.brokers.get(broker)
        if registered is None:
            continue
        if broker in found.failed_dirs:
            found.tell(
                ReplicasFailed(broker, (tp,)), f"a log dir of broker {broker} failed", "replicas on failed log dirs"
            )
            taken = True
        elif found.has_left(broker):
            if broker not in found.relieved:
                found.relieved.add(broker)
                asked = ControlledShutdownRequested(broker, registered.epoch, NOBODY_ASKED)
                found.tell(asked, f"broker {broker} is stopping", "controlled shutdowns")
            taken = True
    return taken


def _altered(found: Inferred, tp: TopicPartition, ours: Place, shown: Place) -> bool:
    """The same leader has another ISR: it changed the ISR at the moment when the controller began a leader epoch."""
    if ours.leader != shown.leader or ours.leader in (None, NO_LEADER):
        return False
    if not shown.isr - ours.isr and not (ours.isr - shown.isr).intersection(found.view.brokers):
        return False
    found.tell_isr(tp, shown.isr, "leaders changed their ISRs", "ISRs with a new leader epoch")
    return True


def _elected(found: Inferred, tp: TopicPartition, ours: Place, shown: Place) -> bool:
    """The preferred replica leads, though the former leader could go on; or a replica leads that was not in sync."""
    if shown.leader not in found.view.brokers:
        return False
    if ours.leader == NO_LEADER and shown.leader not in ours.isr:
        found.tell(ElectionRequested((tp,), unclean=True), "an unclean election was asked for", "unclean elections")
        return True
    if shown.leader not in shown.replicas[:1] or ours.leader not in shown.isr:
        return False
    if not shown.isr <= ours.isr:
        found.tell_isr(tp, shown.isr | ours.isr, "leaders changed their ISRs", "ISRs with a new leader epoch")
    found.tell(ElectionRequested((tp,)), "its preferred leader was asked for", "preferred elections")
    return True


def listed(brokers: Collection[BrokerId]) -> str:
    """Brokers as a sentence of an observer names them."""
    return " ".join(map(str, brokers)) or "nobody"
