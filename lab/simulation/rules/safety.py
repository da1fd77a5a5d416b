"""Safety rules, checked with each event: each with the sentence it comes from. The first violation ends the world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.simulation.brokers.channels import DecidedRequest
from lab.simulation.brokers.log import Log
from lab.simulation.brokers.replica import Replica, Role
from lab.simulation.rules.cancels import CancelRules
from lab.simulation.rules.ledger import Ledgers
from lab.simulation.rules.moves import MoveRules
from lab.simulation.rules.truth import Truth
from lab.simulation.rules.violation import Violation
from lab.simulation.zookeeper.tree import Transaction
from shunter.core.controller.ready import Request, SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata, StopPartition
from shunter.errors import FormatError
from shunter.formats.znodes import paths as znodes
from shunter.model.partition import EPOCH_DURING_DELETE, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.topic import Topic

if TYPE_CHECKING:
    from lab.simulation.brokers.broker import SimulatedBroker
    from lab.simulation.world import World


GUARDED = (
    znodes.TOPICS,
    znodes.REASSIGNMENTS,
    znodes.OWED_DELETIONS,
    znodes.LEGACY_REASSIGNMENTS,
    znodes.EXTRA_REASSIGNMENTS,
    znodes.REASSIGNMENT_REQUESTS,
    znodes.DELETE_TOPICS,
)

ANNOUNCED = (znodes.ISR_CHANGES, znodes.LOG_DIR_EVENTS)
"""Znodes that a controller removes once it has seen them."""
TAKEN_OVER = (znodes.REASSIGNMENT_REQUESTS, znodes.PREFERRED_ELECTION)
"""Znodes that a controller removes once it has done what it read there."""


class Safety:
    """Checks every transaction, every request handed out, every request that a broker accepts, each acknowledgement."""

    def __init__(self, world: World, truth: Truth) -> None:
        """Begin with nothing seen."""
        self.world = world
        self.truth = truth
        self.ledgers = Ledgers(self)
        self.moves = MoveRules(self)
        self.cancels = CancelRules(self)
        self._epoch_owners: dict[int, str] = {}
        self._assignments: dict[tuple[str, object], dict[int, set[ReplicaAssignment]]] = {}
        self._proposed: dict[tuple[TopicPartition, int], frozenset[BrokerId]] = {}
        self.checks = 0
        self._given_up: dict[tuple[TopicPartition, int], set[BrokerId]] = {}
        self._next_producer_id = 0

    def isr_proposed(self, tp: TopicPartition, leader_epoch: int, isr: tuple[BrokerId, ...]) -> None:
        """A leader proposes an ISR: from now on it waits for these replicas, and one of them may be elected leader."""
        known = self._proposed.get((tp, leader_epoch), frozenset())
        self._proposed[tp, leader_epoch] = known | frozenset(isr)
        state = self.truth.states.get(tp)
        if state is not None:
            self._given_up.setdefault((tp, leader_epoch), set()).update(set(state.isr) - set(isr))

    def was_assigned(self, tp: TopicPartition, replicas: tuple[BrokerId, ...]) -> bool:
        """Whether a partition has ever had these replicas, in any topic of that name.

        A process that was paused answers for the topic that it knew, although another topic may have the name now.
        """
        ever = (seen.get(tp.partition, ()) for (name, _id), seen in self._assignments.items() if name == tp.topic)
        return any(assignment.replicas == replicas for seen in ever for assignment in seen)

    def given_up(self, tp: TopicPartition, leader_epoch: int) -> set[BrokerId]:
        """Brokers that a leader has asked to take out of the ISR."""
        return self._given_up.get((tp, leader_epoch), set())

    def violate(self, rule: str, told: str) -> None:
        """A rule is broken."""
        if self.world.violation is None:
            self.world.violation = Violation(rule, told, self.world.scheduler.now_us)
            self.world.scheduler.note(f"VIOLATION {rule}: {told}")

    # ---- ZooKeeper

    def committed(self, transaction: Transaction) -> None:
        """Apply a transaction to the truth, and check what it touched."""
        truth = self.truth
        owner = truth.epoch_session
        epoch = truth.controller_epoch
        writer = self.world.owner_of(transaction.session)
        self._writer(transaction, writer, owner)
        self._deleted_topics(transaction, writer)
        self._left_alone(transaction, writer)
        try:
            touched = truth.apply(transaction)
        except FormatError as unreadable:
            self.violate("what is written can be read", f"{writer}: {unreadable}")
            return
        self.checks += 1
        if truth.controller_epoch < epoch:
            self.violate("epochs never go back", f"controller epoch {epoch} became {truth.controller_epoch}")
        foreign = writer == "operator"
        for name, (before, after) in touched.topics.items():
            self._topic(name, before, after)
        for tp, (known, now) in touched.states.items():
            self._state(tp, known, now, writer)
        if not foreign:
            partitions = {*touched.states}
            for name, (before, after) in touched.topics.items():
                partitions.update(_differing(name, before, after))
            for tp in sorted(partitions):
                self._subsets(tp)
            self.moves.committed(touched, writer)
            self.cancels.committed(touched, writer)

    def _writer(self, transaction: Transaction, writer: str, owner: int) -> None:
        """One controller per epoch acts, and a fenced one changes nothing.

        Source: KIP-380 and the controller redesign, "the controller ... single writer"; issue: "a fenced one changes
        nothing". The writer of a topic, a state or a move was elected last (the fence is the version of
        `/controller_epoch`).
        """
        if not writer.startswith(("shunter", "apache")) or transaction.session == owner:
            return
        for change in transaction.changes:
            if change.path.startswith(GUARDED):
                told = f"{writer} wrote {change.path} after session {owner} had raised the epoch"
                self.violate("a fenced controller changes nothing", told)
                return

    def _deleted_topics(self, transaction: Transaction, writer: str) -> None:
        """A controller deletes only topics that are queued for deletion.

        Source: Apache's TopicDeletionManager, "the controller ... removes the admin/delete_topics path" as the last.
        """
        if not writer.startswith(("shunter", "apache")):
            return
        for change in transaction.changes:
            name = change.path.removeprefix(f"{znodes.TOPICS}/")
            if change.after is None and "/" not in name and name not in self.truth.deleting:
                self.violate("what is not marked for deletion is not deleted", f"{writer} deleted topic {name}")

    def _left_alone(self, transaction: Transaction, writer: str) -> None:
        """A znode that can't be read is neither overwritten nor removed, except together with its topic.

        Source: docs/decisions/0017-unreadable.md. Apache's controller removes a legacy znode that it can't parse. Both
        remove a preferred election that they can't parse.
        """
        if not self.truth.garbled or not writer.startswith("shunter"):
            return
        for change in transaction.changes:
            if change.path not in self.truth.garbled or change.path.startswith(ANNOUNCED):
                continue
            if change.before is not None and change.before.owner == transaction.session:
                continue  # Its own ephemeral znode.
            if change.path == znodes.PREFERRED_ELECTION and change.after is None:
                continue
            if change.path.startswith(TAKEN_OVER) and self.truth.garbled[change.path].seen:
                continue  # The controller had read it before, and has done what it read.
            if change.after is not None or self.truth.deleting.keys().isdisjoint(change.path.split("/")):
                told = f"{writer} has written over {change.path}, which it can't have read"
                self.violate("what can't be read is left alone", told)

    def _topic(self, name: str, before: Topic | None, after: Topic | None) -> None:
        if after is not None:
            seen = self._assignments.setdefault((name, after.topic_id), {})
            for number, assignment in after.assignments.items():
                seen.setdefault(number, set()).add(assignment)
        # A topic that gets its first id stays the same topic. A deletion ends it, and so does another id.
        if before is not None and (after is None or before.topic_id not in (None, after.topic_id)):
            self.ledgers.topic_gone(name)

    def _state(self, tp: TopicPartition, before: LeaderAndIsr | None, after: LeaderAndIsr | None, writer: str) -> None:
        """Epochs never go back; a leader never changes without a new epoch.

        Source: KIP-101, "leader epoch ... monotonically increasing"; kafka-facts, "A leader epoch it already has gives 11".
        """
        if after is None or before is None:
            return
        if after.leader_epoch < before.leader_epoch:
            self.violate(
                "epochs never go back", f"{tp}: leader epoch {before.leader_epoch} became {after.leader_epoch}"
            )
        if after.leader != before.leader and after.leader_epoch == before.leader_epoch:
            told = f"{tp}: leader {before.leader} became {after.leader} within epoch {after.leader_epoch}"
            self.violate("a new leader has a new epoch", told)
        if after.controller_epoch < before.controller_epoch and writer != "operator":
            told = f"{tp}: controller epoch {before.controller_epoch} became {after.controller_epoch}"
            self.violate("epochs never go back", told)
        proposed = self._proposed.get((tp, before.leader_epoch), frozenset())
        if after.leader >= 0 and after.leader not in before.isr:
            self._unclean(tp, before, after, proposed)

    def _unclean(
        self, tp: TopicPartition, before: LeaderAndIsr, after: LeaderAndIsr, proposed: frozenset[BrokerId]
    ) -> None:
        """Acknowledged records survive: no replica out of sync becomes leader, unless that was allowed.

        Source: KAFKA-14424, "never unclean, never leaderless".
        """
        if self.world.unclean_allowed(tp):
            self.ledgers.forgive(tp)
            return
        if after.leader in proposed:
            return  # Taken into the ISR and made leader in one write.
        told = f"{tp}: {after.leader} leads, and was not in the ISR {list(before.isr)}"
        self.violate("nobody out of sync leads", told)

    def _subsets(self, tp: TopicPartition) -> None:
        """The ISR is within the replicas, the leader in it. Source: KIP-455, "ISR ⊆ replicas"; design, one multi."""
        state, assignment = self.truth.states.get(tp), self.truth.assignment(tp)
        if state is None or assignment is None:
            return
        told = f"{tp}: replicas {list(assignment.replicas)}, ISR {list(state.isr)}, leader {state.leader}"
        if not state.isr or not set(state.isr) <= set(assignment.replicas):
            self.violate("the ISR is within the replicas", told)
        elif state.leader >= 0 and state.leader not in state.isr:
            self.violate("the leader is in the ISR", told)

    # ---- requests

    def request_handed_out(self, sender: str, request: Request) -> None:
        """Durable before sent: brokers are told only what ZooKeeper has, or has had.

        Source: the controller redesign, "make state change, then send"; issue: "durable before sent".
        """
        self.checks += 1
        if isinstance(request, SendLeaderAndIsr | SendUpdateMetadata):
            for topic in request.topics:
                for number, state in topic.partitions:
                    if state.leadership is not None:
                        tp = TopicPartition(topic.name, number)
                        self._durable(sender, tp, topic.topic_id, state.assignment, state.leadership)
        elif isinstance(request, SendStopReplica):
            for stop in request.partitions:
                if stop.delete:
                    self._deletion_decided(sender, request.broker, stop)

    def _durable(
        self, sender: str, tp: TopicPartition, topic_id: object, assignment: ReplicaAssignment, told: LeaderAndIsr
    ) -> None:
        topic, state = self.truth.topics.get(tp.topic), self.truth.states.get(tp)
        if topic is None or state is None or topic.topic_id != topic_id:
            return
        if told.partition_epoch > state.partition_epoch or (
            told.partition_epoch == state.partition_epoch
            and told.leader >= -1
            and (told.leader, told.leader_epoch, told.isr) != (state.leader, state.leader_epoch, state.isr)
        ):
            self.violate("durable before sent", f"{sender} tells {tp} {told}; ZooKeeper has {state}")
        seen = self._assignments.get((tp.topic, topic_id), {}).get(tp.partition, set())
        if assignment not in seen:
            self.violate("durable before sent", f"{sender} tells {tp} {assignment}, which was never in ZooKeeper")

    def _deletion_decided(self, sender: str, broker: BrokerId, stop: StopPartition) -> None:
        """A replica that is to be deleted is in no current assignment.

        Source: issue, "a deleted replica was in no current assignment"; KIP-236, the drop set. Exceptions: A
        controller that was deposed without knowing it may err, because brokers refuse it, or have nothing in sync to
        lose (see `replica_deleted`). So may a controller that has not read another tool's write yet, or does not know
        yet that its own write happened: the request that makes the replica again follows on the same connection, with
        a newer leader epoch. And a broker's owed deletion of an older topic of that name has to come before its
        replica of this one.
        """
        truth = self.truth
        assignment = truth.assignment(stop.tp)
        if assignment is None or broker not in assignment.replicas or stop.tp.topic in truth.deleting:
            return
        if stop.leader_epoch == EPOCH_DURING_DELETE and self._owes_an_older(broker, stop.tp):
            return
        if self.world.owner_of(truth.controller_session) != sender:
            return
        if truth.topic_writers.get(stop.tp.topic) != truth.controller_session:
            return
        if self.world.believes_deleting(sender, stop.tp.topic) or self.world.is_placing(sender, stop.tp):
            return
        told = f"{sender} has {broker} delete {stop.tp}, whose replicas are {list(assignment.replicas)}"
        self.violate("a deleted replica was in no current assignment", told)

    def _owes_an_older(self, broker: BrokerId, tp: TopicPartition) -> bool:
        owed, state = self.truth.owed.get(broker), self.truth.states.get(tp)
        in_sync = state is not None and broker in state.isr
        return owed is not None and (tp, EPOCH_DURING_DELETE) in owed.partitions and not in_sync

    def control_request_accepted(self, broker: SimulatedBroker, decided: DecidedRequest) -> None:
        """A request decided before a bounce never takes effect after it; one controller per epoch.

        Source: KIP-380, and the KIP on the max broker epoch, "obsolete control requests can be rejected by a broker".
        """
        self.checks += 1
        request = decided.request
        if decided.broker_epoch < broker.fence:
            told = (
                f"broker {broker.id} of epoch {broker.fence} takes a {type(request).__name__} of {decided.sender}"
                f" decided for epoch {decided.broker_epoch}"
            )
            self.violate("a request decided before a bounce never takes effect after it", told)
        owner = self._epoch_owners.setdefault(request.controller_epoch, decided.sender)
        if owner != decided.sender:
            told = f"{decided.sender} and {owner} both speak for controller epoch {request.controller_epoch}"
            self.violate("one controller per epoch acts", told)
        if request.controller_epoch < broker.controller_epoch:
            self.violate(
                "epochs never go back", f"broker {broker.id} takes controller epoch {request.controller_epoch}"
            )

    def replica_deleted(self, broker: SimulatedBroker, stop: StopPartition, log: Log, sender: str) -> None:
        """No broker deletes a replica that is in the ISR of the same topic.

        Source: issue, "a deleted replica was in no current assignment"; kafka-facts, "a late one is dangerous".
        """
        self.checks += 1
        topic, state = self.truth.topics.get(stop.tp.topic), self.truth.states.get(stop.tp)
        if topic is None or state is None or stop.tp.topic in self.truth.deleting or broker.id not in state.isr:
            return
        if log.topic_id is not None and log.topic_id != topic.topic_id:
            return
        told = f"broker {broker.id} deletes {stop.tp} at the word of {sender}; the ISR is {list(state.isr)}"
        self.violate("nobody deletes an in-sync replica", told)

    def producer_ids_given(self, first: int, length: int) -> None:
        """No producer id is given twice. Source: KIP-730, "blocks of producer ids ... unique across the cluster"."""
        if first < self._next_producer_id:
            self.violate("producer ids are given once", f"{first} is given, {self._next_producer_id} is the next")
        self._next_producer_id = max(self._next_producer_id, first + length)

    # ---- records

    def leader_began(self, broker: SimulatedBroker, replica: Replica) -> None:
        """A broker became leader: check that it has every acknowledged record."""
        self.checks += 1
        state = self.truth.states.get(replica.tp)
        if state is not None and (state.leader, state.leader_epoch) == (broker.id, replica.leader_epoch):
            self.ledgers.leader_began(broker.id, replica)

    def high_watermark_raised(self, broker: SimulatedBroker, replica: Replica) -> None:
        """A leader raised its high watermark: check the committed records."""
        self.checks += 1
        self.ledgers.committed(broker.id, replica)

    def acknowledged(self, broker: SimulatedBroker, replica: Replica, offset: int, value: int) -> None:
        """A record was acknowledged: check that the present leader has it."""
        self.checks += 1
        self.world.acknowledged += 1
        self.ledgers.acknowledged(broker.id, replica, offset, value)
        state = self.truth.states.get(replica.tp)
        if state is None or state.leader == broker.id:
            return
        leader = self.world.brokers.get(state.leader)
        theirs = leader.replicas.get(replica.tp) if leader is not None and leader.running else None
        if theirs is not None and theirs.role is Role.LEADER and theirs.leader_epoch == state.leader_epoch:
            self.ledgers.leader_began(state.leader, theirs)


def _differing(name: str, before: Topic | None, after: Topic | None) -> list[TopicPartition]:
    if after is None:
        return []
    known = {} if before is None else before.assignments
    return [TopicPartition(name, number) for number, each in after.assignments.items() if known.get(number) != each]
