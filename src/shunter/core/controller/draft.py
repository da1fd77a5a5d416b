"""A decision in the making: the records to be written, over a state that the decision must not touch.

Later decisions of the same slice see earlier ones, so an ISR change and the step that it allows are one write. The
draft becomes one atomic batch of records; a refused batch leaves no trace, because a decision changes no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from uuid import NAMESPACE_OID, UUID, uuid5

from shunter.core.controller.decisions import Decision, Ruling
from shunter.core.controller.moves.lifecycle import Transition, Trigger, phase_after
from shunter.core.controller.moves.load import Load
from shunter.core.controller.state import ControllerState, TopicState
from shunter.core.controller.topics.names_in_use import NamesInUse
from shunter.core.reassignment.situation import Step, Waiting
from shunter.errors import InvariantViolation
from shunter.model.notice import Notice
from shunter.model.partition import (
    EPOCH_DURING_DELETE,
    BrokerId,
    LeaderAndIsr,
    PartitionState,
    ReplicaAssignment,
    Replicas,
    TopicPartition,
)
from shunter.model.reassignment import Intervention, Phase, Reassignment, unfinished
from shunter.model.records import (
    PutTopic,
    Record,
)
from shunter.model.weights import (
    BATCH_FULL,
    DECISION_AT_MOST,
    entry_weight,
    leadership_weight,
    move_weight,
    record_weight,
    replicas_weight,
    topic_weight,
)

ENTRIES_PER_ZNODE = 9
"""So many entries of a legacy znode weigh about as much as the records of one partition: 75 bytes each, of 700."""
PARTITIONS_PER_ZNODE = 10
"""So many partitions of a topic weigh as much as one znode. A topic's znode is written whole: 30 bytes a partition,
where another znode has 290."""
SPARE_ZNODES = 900
"""Znodes that a request to ZooKeeper has room for beside a whole slice of partitions."""


def known_topic_weight(topic: TopicState) -> int:
    """The weight of a topic's present znode."""
    return topic_weight(topic.name, {number: partition.assignment for number, partition in topic.partitions.items()})


def serving_brokers(state: ControllerState) -> frozenset[BrokerId]:
    """Brokers that may serve partitions: live, not leaving, and not the controller."""
    return frozenset(state.brokers) - state.shutting_down - {state.controller_id}


NO_RULING = Ruling("", "", "")
PLACED_LIKE_ONE = 25
"""To place this many partitions of a new topic takes as long as to decide about one znode."""


@dataclass(slots=True)
class Draft:
    """One slice of decisions. All of them become durable together, or none does."""

    state: ControllerState
    now_ms: int
    leaderships: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict[TopicPartition, LeaderAndIsr])
    """New values; `partition_epoch` is the expected version."""
    assignments: dict[str, dict[int, ReplicaAssignment]] = field(
        default_factory=dict[str, dict[int, ReplicaAssignment]]
    )
    new_topics: dict[str, PutTopic] = field(default_factory=dict[str, PutTopic])
    topic_ids: dict[str, UUID] = field(default_factory=dict[str, UUID])
    reassignments: dict[TopicPartition, Reassignment | None] = field(
        default_factory=dict[TopicPartition, Reassignment | None]
    )
    owed: dict[BrokerId, dict[TopicPartition, int]] = field(default_factory=dict[BrokerId, dict[TopicPartition, int]])
    """By broker: its whole new list of owed deletions; an empty list closes the record."""
    owed_replicas: dict[str, dict[int, tuple[int, Replicas]]] = field(
        default_factory=dict[str, dict[int, tuple[int, Replicas]]]
    )
    """By topic: its whole new list of owed replicas, by partition; an empty list closes the record."""
    owed_weights: dict[BrokerId, int] = field(default_factory=dict[BrokerId, int])
    legacy: dict[TopicPartition, Replicas] | None = None
    """The entries that the legacy znode shall have; None: it is not written."""
    extra: dict[TopicPartition, Replicas] | None = None
    requests: dict[str, dict[TopicPartition, Replicas]] = field(
        default_factory=dict[str, dict[TopicPartition, Replicas]]
    )
    """By request znode: the entries that it shall still have; an empty znode is deleted."""
    ended: bool = False
    """Whether a move ends with this draft, or began and ended within it: other moves may begin."""
    other_records: list[Record] = field(default_factory=list[Record])
    dropped: dict[TopicPartition, set[BrokerId]] = field(default_factory=dict[TopicPartition, set[BrokerId]])
    """Replicas to delete once this draft is durable."""
    stopped: dict[TopicPartition, set[BrokerId]] = field(default_factory=dict[TopicPartition, set[BrokerId]])
    """Replicas to stop, not delete (a pause)."""
    written_off: set[tuple[BrokerId, TopicPartition]] = field(default_factory=set[tuple[BrokerId, TopicPartition]])
    """Deletions whose answers are not waited for once this draft is durable: they are owed, or not wanted any more."""
    relieved: dict[TopicPartition, set[BrokerId]] = field(default_factory=dict[TopicPartition, set[BrokerId]])
    """Replicas to stop for their broker's controlled shutdown, unless it was restarted meanwhile."""
    notices: list[Notice] = field(default_factory=list[Notice])
    cause: str = ""
    """Id of the event that asked for the task that is being decided; the task sets it."""
    reason: str = ""
    """Why the partitions of this task are looked at: name of a `review.Reason`, or empty."""
    part: str = ""
    """Which part of a review decides now: name of a `review.Part`, or empty."""
    ruling: Ruling = NO_RULING
    """The last ruling; most partitions of a slice share it."""
    rulings: dict[TopicPartition, tuple[PartitionState | None, tuple[Ruling, ...]]] = field(
        default_factory=dict[TopicPartition, tuple[PartitionState | None, tuple[Ruling, ...]]]
    )
    """By partition: its state before, and which rules had a say."""
    newly_owed: list[tuple[BrokerId, TopicPartition]] = field(default_factory=list[tuple[BrokerId, TopicPartition]])
    """Deletions that are owed from now on."""
    transitions: list[Transition] = field(default_factory=list[Transition])
    """The transitions of moves, in order."""
    waits: dict[TopicPartition, tuple[Waiting, int] | None] = field(
        default_factory=dict[TopicPartition, tuple[Waiting, int] | None]
    )
    """By partition: what its move waits for from now on, and since when, ms; None: for nothing."""
    interventions: dict[tuple[int, TopicPartition], Intervention | None] = field(
        default_factory=dict[tuple[int, TopicPartition], Intervention | None]
    )
    """By submission's number and partition whose turn has not come: its cancel or pause; None: it was resumed."""
    configs_read: int = field(init=False)
    """The state's `configs_read` when this draft was begun."""
    load: Load | None = None
    """How many moves are under way, counted when that is first needed."""
    reconciled: set[TopicPartition] = field(default_factory=set[TopicPartition])
    """Partitions about which this draft decided which source is right after a failover."""
    live: frozenset[BrokerId] | None = None
    topics_size: int = 0
    """Size of the topics in `assignments` and `new_topics`, in znodes."""
    weighed: int = 0
    """Weight of what was decided, with the first `records_weighed` of `other_records`; `weight` adds the rest."""
    records_weighed: int = 0
    names: NamesInUse = field(init=False)

    def __post_init__(self) -> None:
        """Remember which reading of the configuration this draft is decided by."""
        self.configs_read = self.state.configs_read
        self.names = NamesInUse(self.state)

    @property
    def size(self) -> int:
        """How much was decided, in znodes, in proportion to bytes: a batch has to fit ZooKeeper's `jute.maxbuffer`."""
        decided = len(self.leaderships) + len(self.reassignments) + self.topics_size
        if self.legacy is None and self.extra is None and not self.requests:
            return decided  # This runs for each partition that is decided, and there is hardly ever more to count.
        entries = sum(
            len(targets) for targets in (self.legacy, self.extra, *self.requests.values()) if targets is not None
        )
        return decided + max(0, entries // ENTRIES_PER_ZNODE - SPARE_ZNODES)

    @property
    def weight(self) -> int:
        """How much was decided: an upper bound in bytes of a ZooKeeper request (`model.weights`)."""
        if self.records_weighed < len(self.other_records):
            self.weighed += sum(map(record_weight, self.other_records[self.records_weighed :]))
            self.records_weighed = len(self.other_records)
        return self.weighed

    def is_full(self, size_limit: int) -> bool:
        """Whether no more is decided into this draft."""
        return self.size >= size_limit or self.weight >= BATCH_FULL

    def note_placed(self, partitions: int) -> None:
        """Count the placing of a new topic's partitions as work, whether the topic is written or only validated."""
        self.topics_size += 1 + partitions // PLACED_LIKE_ONE

    def create(self, put: PutTopic) -> None:
        """Write a new topic."""
        self.new_topics[put.topic.name] = put
        self.note_placed(len(put.topic.assignments))
        self.weighed += record_weight(put)
        self.names.add(put.topic.name)

    def partition(self, tp: TopicPartition) -> PartitionState | None:
        """The partition as it will be when this draft is durable; without leader and ISR if these can't be read."""
        known = self.state.partition(tp)
        if known is not None and self.state.unreadable and tp in self.state.unreadable:
            known = PartitionState(known.assignment, None)
        changed = self.assignments.get(tp.topic)
        assignment = changed.get(tp.partition) if changed else None
        leadership = self.leaderships.get(tp)
        if assignment is None and leadership is None:
            return known
        if known is None:
            return None if assignment is None else PartitionState(assignment, leadership)
        return PartitionState(assignment or known.assignment, leadership or known.leadership)

    def reassignment(self, tp: TopicPartition) -> Reassignment | None:
        """The move of a partition as it will be when this draft is durable."""
        if tp in self.reassignments:
            return self.reassignments[tp]
        return self.state.reassignments.get(tp)

    def unfinished(self, tp: TopicPartition) -> Reassignment | None:
        """As `reassignment`, but None if the move is over and only deletions are left."""
        return unfinished(self.reassignment(tp))

    def serving(self, tp: TopicPartition) -> frozenset[BrokerId]:
        """Brokers that can serve a partition: live, not leaving, not the controller, with a working log dir for it."""
        if self.live is None:
            self.live = serving_brokers(self.state)
        failed = self.state.offline_replicas.get(tp)
        return self.live - failed if failed else self.live

    def unburdened(self, tp: TopicPartition) -> frozenset[BrokerId]:
        """Serving brokers, without those that still hold a replica of an older topic and so refuse this topic's id."""
        serving = self.serving(tp)
        burdened = [
            broker for broker in self.state.owed_deletions if broker in serving and self.owes_an_older(broker, tp)
        ]
        return serving.difference(burdened) if burdened else serving

    def owes_an_older(self, broker: BrokerId, tp: TopicPartition) -> bool:
        """Whether a broker has not acknowledged yet that it deleted its replica of an older topic of that name."""
        owed = self.state.owed_deletions.get(broker)
        if owed is None or (tp, EPOCH_DURING_DELETE) not in owed.partitions:
            return False
        return broker not in self.owed or tp in self.owed[broker]

    def rule_on(self, tp: TopicPartition) -> None:
        """Remember which rule has a say about a partition, for the state-change log."""
        ruling = self.ruling
        if ruling.part is not self.part or ruling.reason is not self.reason or ruling.cause is not self.cause:
            ruling = self.ruling = Ruling(self.cause, self.reason, self.part)
        known = self.rulings.get(tp)
        if known is None:
            self.rulings[tp] = (self.state.partition(tp), (ruling,))
        elif known[1][-1] != ruling:
            self.rulings[tp] = (known[0], (*known[1], ruling))

    def lead(self, tp: TopicPartition, leadership: LeaderAndIsr) -> None:
        """Write a partition's leader and ISR, expecting the version that is known now."""
        self.rule_on(tp)
        known = self.state.partition(tp)
        expected = known.leadership.partition_epoch if known is not None and known.leadership is not None else -1
        if tp not in self.leaderships:
            self.weighed += leadership_weight(tp, leadership.isr, leadership.target_replicas)
        self.leaderships[tp] = leadership._replace(
            partition_epoch=expected, controller_epoch=self.state.controller_epoch
        )

    def place(self, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Write where a partition's replicas are; all of a topic's changes go into one write of its znode."""
        self.rule_on(tp)
        self._topic_changes(tp.topic)[tp.partition] = assignment
        self.weighed += replicas_weight(assignment)

    def _topic_changes(self, name: str) -> dict[int, ReplicaAssignment]:
        changes = self.assignments.get(name)
        if changes is None:
            changes = self.assignments[name] = {}
            topic = self.state.topics.get(name)
            self.topics_size += 1 + (0 if topic is None else len(topic.partitions) // PARTITIONS_PER_ZNODE)
            self.weighed += 0 if topic is None else known_topic_weight(topic)
        return changes

    def transition(
        self, tp: TopicPartition, trigger: Trigger, record: Reassignment, *, step: Step | None = None
    ) -> Reassignment:
        """Write the durable record of a partition's move, in the phase that the table gives for the trigger.

        Args:
            record: The record as it shall be; its phase is ignored.
            step: The step that is written with it.

        Returns:
            The record as it is written.

        Raises:
            InvariantViolation: The table has no such pair of phase and trigger, or the trigger closes the record.
        """
        before, after = self._phases(tp, trigger)
        if after is None:
            raise InvariantViolation("a record is closed by `close` alone", tp=tp, trigger=trigger)
        known = self.state.reassignments.get(tp)
        if tp not in self.reassignments:
            self.weighed += move_weight(tp, 3 * len({*record.original, *record.target}))
        version, czxid = (-1, 0) if known is None else (known.version, known.czxid)
        written = record._replace(phase=after, version=version, czxid=czxid)
        self.transitions.append(Transition(tp, before, trigger, after, step, self.cause, written))
        self.reassignments[tp] = written
        return written

    def close(self, tp: TopicPartition, *, step: Step | None = None) -> None:
        """Close the durable record of a partition's move: it is over.

        Raises:
            InvariantViolation: There is no record.
        """
        before, after = self._phases(tp, Trigger.ENDED)
        record = self.reassignment(tp)
        if record is not None:  # It never is None: by the table a move without a record can't end.
            self.transitions.append(Transition(tp, before, Trigger.ENDED, after, step, self.cause, record))
        self.ended = True
        if tp in self.state.reassignments:
            self.reassignments[tp] = None
            self.weighed += move_weight(tp, 0)
        else:
            self.reassignments.pop(tp, None)

    def _phases(self, tp: TopicPartition, trigger: Trigger) -> tuple[Phase | None, Phase | None]:
        """The phase of a partition's move as it is, and as the table gives it for the trigger."""
        known = self.reassignment(tp)
        before = None if known is None else known.phase
        return before, phase_after(before, trigger, tp)

    def waiting(self, tp: TopicPartition) -> tuple[Waiting, int] | None:
        """What a move waits for when this draft is durable, and since when, ms."""
        return self.waits[tp] if tp in self.waits else self.state.waiting.get(tp)

    def wait(self, tp: TopicPartition, waiting: Waiting) -> None:
        """Remember what a move waits for, and since when: since now, unless it waits for the same already."""
        self.rule_on(tp)
        known = self.waiting(tp)
        since_ms = known[1] if known is not None and known[0] == waiting else self.now_ms
        self.waits[tp] = (waiting, since_ms)

    def wait_no_more(self, tp: TopicPartition) -> None:
        """A move goes on, or ends, or now waits only for its turn."""
        if self.waiting(tp) is not None:
            self.rule_on(tp)
            self.waits[tp] = None

    def drop(self, tp: TopicPartition, replicas: Replicas, leader_epoch: int) -> None:
        """Delete replicas once this draft is durable. A dead broker's deletions are owed, durably, until it returns."""
        self.rule_on(tp)
        controllers = self.state.controllers
        for broker in replicas:
            if broker in self.state.brokers and broker not in controllers:
                self.dropped.setdefault(tp, set()).add(broker)
            else:
                self.owe(broker, tp, leader_epoch)

    def dropped_of_the_dead(self) -> dict[BrokerId, list[TopicPartition]]:
        """By broker that died while this draft was written: the replicas that it was to delete."""
        lost: dict[BrokerId, list[TopicPartition]] = {}
        for tp, brokers in self.dropped.items():
            for broker in brokers - self.state.brokers.keys():
                lost.setdefault(broker, []).append(tp)
        return lost

    def decisions(self) -> Iterator[Decision]:
        """The decisions about partitions. Pre: the records are applied, and `waits` is not applied yet.

        Rulings that changed nothing are left out.
        """
        owed: dict[TopicPartition, list[BrokerId]] = {}
        for broker, tp in self.newly_owed:
            owed.setdefault(tp, []).append(broker)
        waiting = self.state.waiting
        for tp, (before, rulings) in self.rulings.items():
            after = self.state.partition(tp)
            dropped = tuple(sorted(self.dropped[tp])) if tp in self.dropped else ()
            known = waiting.get(tp) if waiting else None
            waits = self.waits.get(tp, known)
            anew = waits is not known and (waits and waits[0]) != (known and known[0])
            if before != after or dropped or anew or tp in owed:
                reason = None if waits is None else waits[0]
                yield Decision(tp, rulings, before, after, dropped, tuple(owed.get(tp, ())), reason, anew)

    def owe(self, broker: BrokerId, tp: TopicPartition, leader_epoch: int) -> None:
        """Remember durably that a broker still holds a replica that is not assigned to it. A controller holds none."""
        if broker in self.state.controllers:
            return
        if broker in self.state.left_out.owed:
            told = f"broker {broker} is to delete its replica, but its list of owed deletions can't be read"
            self.notices.append(Notice("not-owed", str(tp), told))
            return
        owed = self._owed_list(broker)
        if tp not in owed:
            if self.owed_weights[broker] > DECISION_AT_MOST:
                told = (
                    f"broker {broker} is to delete its replica, but its list of {len(owed)} deletions has no more room"
                )
                self.notices.append(Notice("not-owed", str(tp), told))
                return
            self.owed_weights[broker] += entry_weight(tp)
            self.weighed += entry_weight(tp)
            self.newly_owed.append((broker, tp))
            self.rule_on(tp)
        if owed.get(tp) != EPOCH_DURING_DELETE:  # The debt for an older topic of that name stays as it is.
            owed[tp] = leader_epoch

    def settle(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """Forget owed deletions that were done."""
        owed = self._owed_list(broker)
        for tp in partitions:
            owed.pop(tp, None)

    def keep(self, tp: TopicPartition, broker: BrokerId) -> None:
        """A replica is wanted again: neither delete it nor owe its deletion."""
        if tp in self.dropped:
            self.dropped[tp].discard(broker)
        if broker in self.owed or self.state.owes(broker, tp):
            owed = self._owed_list(broker)
            if owed.get(tp) != EPOCH_DURING_DELETE:  # A replica of an older topic of that name still has to go.
                owed.pop(tp, None)

    def _owed_list(self, broker: BrokerId) -> dict[TopicPartition, int]:
        if broker not in self.owed:
            known = self.state.owed_deletions.get(broker)
            self.owed[broker] = dict(known.partitions) if known is not None else {}
            self.owed_weights[broker] = sum(map(entry_weight, self.owed[broker]))
            self.weighed += self.owed_weights[broker]
        return self.owed[broker]

    def owed_replicas_of(self, topic: str) -> dict[int, tuple[int, Replicas]]:
        """A topic's owed replicas, to be changed. This draft writes the record again, or deletes it when empty.

        By partition: how many replicas were asked for, and the replicas that it has.
        """
        if topic not in self.owed_replicas:
            known = self.state.owed_replicas.get(topic)
            entries = known.partitions if known is not None else ()
            self.owed_replicas[topic] = {number: (wanted, replicas) for number, wanted, replicas in entries}
        return self.owed_replicas[topic]

    def legacy_targets(self) -> dict[TopicPartition, Replicas]:
        """The legacy znode's entries, to be changed. This draft writes the znode again, or deletes it when empty."""
        if self.legacy is None:
            self.legacy = dict(self.legacy_listed)
        return self.legacy

    @property
    def legacy_listed(self) -> Mapping[TopicPartition, Replicas]:
        """The legacy znode's entries as they will be when this draft is durable."""
        return self.legacy if self.legacy is not None else self.state.legacy.targets if self.state.legacy else {}

    @property
    def extra_listed(self) -> Mapping[TopicPartition, Replicas]:
        """The extra znode's entries as they will be when this draft is durable."""
        return self.extra if self.extra is not None else self.state.extra.targets if self.state.extra else {}

    def extra_targets(self) -> dict[TopicPartition, Replicas]:
        """The extra znode's entries, to be changed. This draft writes the znode again, or deletes it when empty."""
        if self.extra is None:
            self.extra = dict(self.extra_listed)
        return self.extra

    def requested(self, name: str) -> Mapping[TopicPartition, Replicas]:
        """The entries of a request of the queue when this draft is durable; none, if the request does not exist."""
        known = self.state.requests.get(name)
        return self.requests.get(name, known.targets if known is not None else {})

    def withdraw(self, tp: TopicPartition, names: Iterable[str]) -> bool:
        """Take a partition out of requests whose turn has not come; returns whether one of them named it."""
        naming = [name for name in names if tp in self.requested(name)]
        for name in naming:
            if name not in self.requests:
                self.requests[name] = dict(self.state.requests[name].targets)
            del self.requests[name][tp]
        return bool(naming)

    def identify(self, name: str, salt: int) -> None:
        """Give an id to a topic from before Kafka 2.8. By another `salt` another topic of that name gets another id."""
        self.topic_ids[name] = uuid5(NAMESPACE_OID, f"{self.state.cluster_id}/{name}/{salt}")
        self._topic_changes(name)

    def keep_id(self, name: str) -> None:
        """Write a topic's znode once more, with the id that the state has."""
        self._topic_changes(name)
