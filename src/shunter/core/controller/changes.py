"""Apply: replays into the state what was written, and what was read about topics and partitions.

Nothing else changes topics, partitions and moves. Other facts are taken in where they arrive: live brokers
(`liveness`), configuration (`intake`), znodes that ask for moves (`znode_protocols`), deletions (`deletions`). The
functions return what changed, so that the requests to brokers follow from the difference alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shunter.core.controller.brokers.ourselves import live_brokers
from shunter.core.controller.state import ControllerState, TopicState
from shunter.core.reassignment.situation import Waiting
from shunter.model.partition import (
    EPOCH_DURING_DELETE,
    BrokerId,
    LeaderAndIsr,
    PartitionState,
    Replicas,
    TopicPartition,
)
from shunter.model.records import (
    CheckTopic,
    CloseOwedDeletion,
    CloseReassignment,
    CreateReassignmentRequest,
    DeleteQueueEntry,
    DeleteReassignmentRequest,
    DeleteTopic,
    ForgetControllerId,
    PutDeletionMark,
    PutExtraReassignments,
    PutLegacyReassignments,
    PutOwedDeletion,
    PutOwedReplicas,
    PutPartition,
    PutProducerIdBlock,
    PutReassignment,
    PutReassignmentRequest,
    PutRegistration,
    PutTopic,
    Record,
)
from shunter.model.snapshot import ClusterSnapshot, LegacyReassignments, OwedDeletions, OwedReplicas
from shunter.model.topic import Topic, TopicSnapshot


@dataclass(slots=True)
class Changes:
    """The changes of an apply that brokers have to hear of."""

    led: dict[TopicPartition, Replicas] = field(default_factory=dict[TopicPartition, Replicas])
    """Partitions whose leader, epoch or replicas changed, with the replicas before the change (() if it is new)."""
    first: set[TopicPartition] = field(default_factory=set[TopicPartition])
    """Partitions that got their first leader and ISR by this controller's write: no broker has a log of them yet."""
    isr: set[TopicPartition] = field(default_factory=set[TopicPartition])
    """Partitions of which only the ISR changed: all brokers get metadata, and replicas get no LeaderAndIsr."""
    deleted: list[TopicPartition] = field(default_factory=list[TopicPartition])
    urgent: bool = False
    """Some partition's leader changed: clients can't go on before they hear of it."""
    live: bool = False
    """The list of live brokers changed: all brokers get it, even if nothing else changed."""
    mended: list[TopicPartition] = field(default_factory=list[TopicPartition])
    """Partitions that could not be read, and can be now."""

    def add(self, other: Changes) -> None:
        """Take in the changes of a later apply."""
        for tp, before in other.led.items():
            self.led.setdefault(tp, before)
        self.first |= other.first
        self.isr |= other.isr
        self.deleted += other.deleted
        self.urgent |= other.urgent
        self.live |= other.live
        self.mended += other.mended


def apply_snapshot(state: ControllerState, snapshot: ClusterSnapshot) -> None:
    """Fill an empty state with all that was read, except the topics: `take_in` takes those one by one."""
    state.cluster_id = snapshot.cluster_id
    state.brokers = live_brokers(state, snapshot.brokers)
    state.shutting_down.clear()
    state.topics = {}
    state.topic_names = {}
    state.unreadable = set()
    state.left_out = snapshot.left_out
    state.deleting = {topic.topic.name for topic in snapshot.topics}.intersection(snapshot.deleting_topics)
    state.reassignments = dict(snapshot.reassignments)
    state.legacy = snapshot.legacy
    state.extra = snapshot.extra
    state.requests = {request.name: request for request in snapshot.requests}
    state.cancel = snapshot.cancel
    state.owed_deletions = dict(snapshot.owed_deletions)
    state.owed_replicas = dict(snapshot.owed_replicas)
    state.controller_ids = snapshot.controller_ids
    state.impossible_ids = set()
    state.offline_replicas = {}
    state.producer_id_block = snapshot.producer_id_block
    state.broker_configs = dict(snapshot.broker_configs)


def take_in(state: ControllerState, read: TopicSnapshot) -> TopicState:
    """Take in a topic that the state does not have yet."""
    topic, states = read.topic, read.states
    name = topic.name
    assignments = topic.assignments
    partitions = {number: PartitionState(assignments[number], states.get(number)) for number in sorted(assignments)}
    known = TopicState(name, topic.topic_id, topic.version, partitions, dict(read.configs))
    state.topics[name] = known
    _note_impossible(state, topic)
    if topic.topic_id is not None:
        state.topic_names[topic.topic_id] = name
    state.unreadable.update(TopicPartition(name, number) for number in read.unreadable)
    return known


def tell_older_debts_apart(state: ControllerState) -> None:
    """Mark debts of older topics whose names newer topics have now.

    A debt is marked when its topic is deleted, unless the debt's znode can't be read then, or another tool removes the
    topic. The leader epochs of one topic only grow. So a debt of a later leader epoch than its partition has is of
    another topic.
    """
    for broker, owed in state.owed_deletions.items():
        told = tuple(
            (tp, EPOCH_DURING_DELETE if _is_past(state, tp, epoch) else epoch) for tp, epoch in owed.partitions
        )
        if told != owed.partitions:
            state.owed_deletions[broker] = owed._replace(partitions=told)


def _is_past(state: ControllerState, tp: TopicPartition, leader_epoch: int) -> bool:
    if tp.topic in state.left_out.topics or tp in state.unreadable:
        return False
    partition = state.partition(tp)
    return partition is None or partition.leadership is None or leader_epoch > partition.leadership.leader_epoch


def _note_impossible(state: ControllerState, topic: Topic) -> None:
    for assignment in topic.assignments.values():
        if min(assignment.replicas, default=0) < 0:
            state.impossible_ids.update(broker for broker in assignment.replicas if broker < 0)


def apply_topic_read(state: ControllerState, read: TopicSnapshot) -> Changes:
    """Take in a topic as another process wrote it. A read that is older than the state changes nothing."""
    changes = Changes()
    topic = read.topic
    known = state.topics.get(topic.name)
    if known is not None and topic.topic_id is None and topic.version > known.version:
        # A tool from before Kafka 2.8, which knows no ids, rewrote this znode. Brokers have the old id on their disks.
        topic = topic._replace(topic_id=known.topic_id)
    if known is not None and known.topic_id == topic.topic_id and topic.version < known.version:
        return changes
    if known is None or (known.topic_id is not None and known.topic_id != topic.topic_id):
        if known is not None:
            _forget_topic(state, known, changes)
        known = TopicState(topic.name, topic.topic_id, topic.version)
        state.topics[topic.name] = known
        if topic.name in state.left_out.deleting:
            state.deleting.add(topic.name)
        if topic.name in state.left_out.topics:
            changes.mended += [TopicPartition(topic.name, number) for number in sorted(topic.assignments)]
        _read_at_last(state, topic.name)
    known.topic_id, known.version, known.configs = topic.topic_id, topic.version, dict(read.configs)
    _note_impossible(state, topic)
    if topic.topic_id is not None:
        state.topic_names[topic.topic_id] = topic.name
    for number in sorted(topic.assignments):
        tp = TopicPartition(topic.name, number)
        if number in read.unreadable:
            state.unreadable.add(tp)
        elif tp in state.unreadable:
            state.unreadable.discard(tp)
            changes.mended.append(tp)
        before = known.partitions.get(number)
        leadership = _newer(before.leadership if before else None, read.states.get(number))
        after = PartitionState(topic.assignments[number], leadership)
        known.partitions[number] = after
        _note(changes, tp, before, after)
    return changes


def _newer(known: LeaderAndIsr | None, read: LeaderAndIsr | None) -> LeaderAndIsr | None:
    if known is None or read is None:
        return read or known
    return known if known.partition_epoch > read.partition_epoch else read


def apply_topic_gone(state: ControllerState, name: str) -> Changes:
    """Forget a topic whose znode is gone."""
    changes = Changes()
    known = state.topics.get(name)
    if known is not None:
        _forget_topic(state, known, changes)
    _read_at_last(state, name)
    return changes


def apply_topics_unreadable(state: ControllerState, names: Iterable[str]) -> None:
    """Leave out new topics that can't be read. A topic that could be read once stays as it was then."""
    unknown = frozenset(names) - state.topics.keys()
    state.left_out = state.left_out._replace(topics=state.left_out.topics | unknown)


def _read_at_last(state: ControllerState, name: str) -> None:
    """A topic that could not be read has been mended, or removed."""
    if name in state.left_out.topics:
        left_out = state.left_out
        state.left_out = left_out._replace(topics=left_out.topics - {name}, deleting=left_out.deleting - {name})


def _forget_topic(state: ControllerState, topic: TopicState, changes: Changes) -> None:
    del state.topics[topic.name]
    if topic.topic_id is not None:
        state.topic_names.pop(topic.topic_id, None)
    state.deleting.discard(topic.name)
    gone = [TopicPartition(topic.name, number) for number in topic.partitions]
    changes.deleted += gone
    state.unreadable.difference_update(gone)
    for tp in state.offline_replicas.keys() & gone if state.offline_replicas else ():
        del state.offline_replicas[tp]


def apply_leadership_read(state: ControllerState, tp: TopicPartition, read: LeaderAndIsr) -> Changes:
    """Take in a partition's state that a broker wrote by itself, or that a refused write met."""
    changes = Changes()
    before = state.partition(tp)
    if before is None:
        return changes
    if tp in state.unreadable:
        changes.mended.append(tp)
    elif before.leadership is not None and before.leadership.partition_epoch >= read.partition_epoch:
        return changes
    state.unreadable.discard(tp)
    after = PartitionState(before.assignment, read)
    state.topics[tp.topic].partitions[tp.partition] = after
    _note(changes, tp, before, after)
    return changes


def apply_records(
    state: ControllerState, records: tuple[Record, ...], versions: tuple[int, ...], czxids: tuple[int, ...]
) -> Changes:
    """Replay a batch that is durable now. `versions` and `czxids` belong to the records, in order."""
    changes = Changes()
    for index, record in enumerate(records):
        czxid = czxids[index] if index < len(czxids) else 0
        _apply_record(state, record, versions[index], czxid, changes)
    return changes


def _apply_record(state: ControllerState, record: Record, version: int, czxid: int, changes: Changes) -> None:
    match record:
        case PutPartition(tp, leadership):
            before = state.partition(tp)
            if before is None:
                return  # Another tool created the topic again, with fewer partitions, during this write.
            after = PartitionState(before.assignment, leadership._replace(partition_epoch=version))
            state.topics[tp.topic].partitions[tp.partition] = after
            if before.leadership is None and tp not in state.unreadable:
                changes.first.add(tp)
            _note(changes, tp, before, after)
        case PutTopic(topic, configs):
            _apply_topic(state, topic, dict(configs), version, changes)
        case PutReassignment(tp, reassignment):
            state.reassignments[tp] = reassignment._replace(version=version, czxid=czxid or reassignment.czxid)
        case CloseReassignment(tp):
            state.reassignments.pop(tp, None)
        case PutOwedDeletion(broker, partitions):
            state.owed_deletions[broker] = OwedDeletions(partitions, version)
        case CloseOwedDeletion(broker):
            state.owed_deletions.pop(broker, None)
        case PutOwedReplicas(name, topic_id, partitions):
            if partitions:
                state.owed_replicas[name] = OwedReplicas(topic_id, partitions, version)
            else:
                state.owed_replicas.pop(name, None)
        case PutRegistration(_, registered):
            state.registered = registered
            if registered and state.ourselves is not None:
                state.ourselves = state.ourselves._replace(epoch=czxid)
        case PutLegacyReassignments(targets):
            state.legacy = _rewritten(state.legacy, targets, version, czxid)
        case PutExtraReassignments(targets):
            state.extra = _rewritten(state.extra, targets, version, czxid)
        case PutReassignmentRequest(name, targets):
            if name in state.requests:  # Otherwise the request was withdrawn meanwhile.
                state.requests[name] = state.requests[name]._replace(targets=dict(targets), version=version)
        case DeleteReassignmentRequest(name):
            state.requests.pop(name, None)
        case CreateReassignmentRequest():
            pass  # ZooKeeper chooses the request's name, and the watch reports it.
        case PutDeletionMark(name):
            state.deleting.add(name)
        case DeleteTopic(name):
            changes.add(apply_topic_gone(state, name))
            for moved in [tp for tp in state.reassignments if tp.topic == name]:
                del state.reassignments[moved]  # Their znodes went in the same batch.
        case PutProducerIdBlock(last=last):
            state.producer_id_block = (last + 1, version)
        case ForgetControllerId(id_):
            state.controller_ids -= {id_}
        case DeleteQueueEntry() | CheckTopic():
            pass


def apply_waits(state: ControllerState, waits: Mapping[TopicPartition, tuple[Waiting, int] | None]) -> None:
    """Take in what moves wait for according to a draft that is durable now; None: a move waits for nothing."""
    for tp, waiting in waits.items():
        if waiting is not None and tp in state.reassignments:  # Its topic may have gone meanwhile.
            state.waiting[tp] = waiting
        else:
            state.waiting.pop(tp, None)


def _rewritten(
    known: LegacyReassignments | None,
    targets: tuple[tuple[TopicPartition, Replicas], ...] | None,
    version: int,
    czxid: int,
) -> LegacyReassignments | None:
    if targets is None:
        return None
    kept: Mapping[TopicPartition, Replicas] = known.originals if known is not None else {}
    return LegacyReassignments(dict(targets), kept, version, known.czxid if known is not None else czxid)


def _apply_topic(state: ControllerState, topic: Topic, configs: dict[str, str], version: int, changes: Changes) -> None:
    known = state.topics.get(topic.name)
    if known is None:
        known = TopicState(topic.name, topic.topic_id, version, configs=configs)
        state.topics[topic.name] = known
    if known.topic_id is None and topic.topic_id is not None:
        # The topic has an id from now on: its replicas and the metadata of all brokers need it.
        changes.led.update(
            (TopicPartition(topic.name, number), partition.assignment.replicas)
            for number, partition in known.partitions.items()
        )
    known.version, known.topic_id = version, topic.topic_id
    if topic.topic_id is not None:
        state.topic_names[topic.topic_id] = topic.name
    for number, assignment in topic.assignments.items():
        before = known.partitions.get(number)
        if before is not None and before.assignment is assignment:
            continue
        after = PartitionState(assignment, before.leadership if before else None)
        known.partitions[number] = after
        _note(changes, TopicPartition(topic.name, number), before, after)


def _note(changes: Changes, tp: TopicPartition, before: PartitionState | None, after: PartitionState) -> None:
    if before is None:
        changes.led.setdefault(tp, ())
        return
    old, new = before.leadership, after.leadership
    moved = old is None or new is None or (old.leader, old.leader_epoch) != (new.leader, new.leader_epoch)
    if (old.leader if old else None) != (new.leader if new else None):
        changes.urgent = True
    if moved or before.assignment != after.assignment:
        changes.led.setdefault(tp, before.assignment.replicas)
    elif old != new:
        changes.isr.add(tp)


def brokers_changed(
    state: ControllerState, live: dict[BrokerId, int]
) -> tuple[tuple[BrokerId, ...], tuple[BrokerId, ...]]:
    """Compare live brokers (id -> epoch) with what is known: (came or bounced, went or bounced), ids ascending."""
    us = state.controller_id  # A new registration of the controller itself means nothing.
    before = {id_: broker.epoch for id_, broker in state.brokers.items() if id_ != us}
    came = tuple(id_ for id_ in sorted(live) if id_ != us and before.get(id_) != live[id_])
    went = tuple(id_ for id_ in sorted(before) if live.get(id_) != before[id_])
    return came, went
