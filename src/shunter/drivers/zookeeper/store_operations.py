"""Turns the core's records into ZooKeeper operations, and finds out afterwards whether they were carried out.

A record names its own znode and the version that it expects. Which parents and which znodes below it exist is looked up
just before, so that this module has no state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from shunter.drivers.host.process_identity import this_process
from shunter.drivers.zookeeper.requests import ANY_VERSION, CheckVersion, Create, Operation, Put, Remove, Znode
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.admin import ProducerIdBlock, encode_legacy_reassignments, encode_producer_id_block
from shunter.formats.znodes.brokers import encode_broker
from shunter.formats.znodes.configs import encode_config
from shunter.formats.znodes.reassignments import encode_owed_deletions, encode_owed_replicas, encode_reassignment
from shunter.formats.znodes.requests import encode_request
from shunter.formats.znodes.topics import encode_state, encode_topic
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


def _queue_entry(record: DeleteQueueEntry) -> str:
    """Return the path of an entry in one of the admin queues."""
    return znodes.deletion(record.name) if record.kind == "delete_topics" else _WHOLE_QUEUES[record.kind]


_WHOLE_QUEUES = {"preferred_replica_election": znodes.PREFERRED_ELECTION}
"""Queues that consist of one znode."""


def folders_to_list(records: Iterable[Record]) -> tuple[str, ...]:
    """Return the paths whose children must be known before the records can be planned."""
    wanted: dict[str, None] = {}
    for record in records:
        if type(record) is DeleteTopic:
            wanted[znodes.partitions(record.name)] = None
            wanted[znodes.topic_reassignments(record.name)] = None
        elif type(record) is CloseReassignment and record.last:
            wanted[znodes.topic_reassignments(record.tp.topic)] = None
    return tuple(wanted)


def paths_to_find(records: Iterable[Record], children: Mapping[str, tuple[str, ...] | None]) -> tuple[str, ...]:
    """Return the paths whose existence must be known before the records can be planned."""
    wanted: dict[str, None] = {}
    for record in records:
        wanted.update(dict.fromkeys(_paths_of(record, children)))
    return tuple(wanted)


def _paths_of(record: Record, children: Mapping[str, tuple[str, ...] | None]) -> list[str]:
    if type(record) is PutTopic and record.topic.version < 0:
        return [znodes.config("topics", record.topic.name)]
    if type(record) is PutPartition and record.leadership.partition_epoch < 0:
        return [znodes.partitions(record.tp.topic), znodes.partition(record.tp)]
    if type(record) is PutReassignment and record.reassignment.version < 0:
        return [znodes.topic_reassignments(record.tp.topic)]
    if type(record) is PutDeletionMark:
        return [znodes.deletion(record.name)]
    if type(record) is DeleteQueueEntry:
        return [_queue_entry(record), *([znodes.topic(record.name)] if record.name else [])]
    if type(record) is PutRegistration:
        return [znodes.broker(record.ourselves.id)]
    if type(record) is ForgetControllerId:
        return [znodes.controller_id(record.id)]
    if type(record) is DeleteReassignmentRequest:
        return [znodes.reassignment_request(record.name)]
    if type(record) is DeleteTopic:
        name = record.name
        folders = [f"{znodes.partitions(name)}/{child}" for child in children.get(znodes.partitions(name)) or ()]
        states = [f"{folder}/state" for folder in folders]
        rest = [znodes.partitions(name), znodes.topic(name), znodes.config("topics", name), znodes.deletion(name)]
        return [*states, *folders, *rest, znodes.topic_reassignments(name)]
    return []


@dataclass(slots=True)
class MultiPlan:
    """Operations of one multi, without the fence, and for each record the operation that carries its version.

    `present` says which paths exist: at first as they were found, then as each planned operation changes it.
    """

    present: dict[str, bool]
    children: dict[str, set[str]] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    principals: list[int | None] = field(default_factory=list)
    """Index of the operation that carries a record's version; None if there is no such operation."""
    made: Mapping[str, int] = field(default_factory=dict)
    """By path: the transaction that created the znode that was found."""
    kept: set[str] = field(default_factory=set)
    """Topics whose entry stays in the deletion queue: its removal was decided, but a topic of that name exists now."""

    def add(self, record: Record) -> None:
        """Plan one record."""
        _PLANNERS[type(record)](self, record)

    def folder(self, path: str) -> None:
        """Create a parent, if it does not exist."""
        if not self.present.get(path, False):
            self.operations.append(Create(path, None))
            self.present[path] = True

    def write(self, path: str, data: bytes, version: int) -> None:
        """Write the record's own znode: create it if `version` is below 0, else set it."""
        self.principals.append(len(self.operations))
        self.operations.append(Create(path, data) if version < 0 else Put(path, data, version))
        self.present[path] = True

    def remove(self, path: str) -> None:
        """Delete a znode, if it exists."""
        if self.present.get(path, False):
            self.operations.append(Remove(path))
            self.present[path] = False

    def remove_own(self, path: str, version: int) -> None:
        """Delete the record's own znode at a version."""
        self.principals.append(len(self.operations))
        self.operations.append(Remove(path, version))
        self.present[path] = False

    def nothing_own(self) -> None:
        """Note that the record has no znode of its own whose version matters."""
        self.principals.append(None)


def plan(
    records: Sequence[Record],
    present: dict[str, bool],
    children: Mapping[str, tuple[str, ...] | None],
    made: Mapping[str, int] = MappingProxyType({}),
) -> MultiPlan:
    """Plan the operations of a batch.

    Args:
        records: In the order in which they are to happen.
        present: Which of `paths_to_find` exist.
        children: Names below `folders_to_list`; None if there is no such folder.
        made: czxids of the paths that exist.
    """
    planned = MultiPlan(present, {path: set(names or ()) for path, names in children.items()}, made=made)
    for record in records:
        planned.add(record)
    return planned


def estimate(record: Record) -> int:
    """Return the most bytes that a record takes in a multi (a topic's deletion: with the partitions that it names)."""
    names = {znodes.partitions(record.name): tuple(map(str, record.partitions))} if type(record) is DeleteTopic else {}
    paths = paths_to_find((record,), names)
    if type(record) is DeleteQueueEntry:
        paths = paths[:1]  # If the topic's path were present too, nothing would be removed.
    deleting = type(record) in {DeleteTopic, DeleteQueueEntry, DeleteReassignmentRequest, ForgetControllerId}
    operations = plan((record,), dict.fromkeys(paths, deleting), names).operations
    return sum(_size(operation) for operation in operations)


def _size(operation: Operation) -> int:
    """Bound an operation's bytes: header (9), path, and version (4) or data, ACL and flags."""
    data = operation.data if isinstance(operation, Create | Put) else None
    return 64 + len(operation.path.encode()) + len(data or b"")


def happened(operations: Sequence[Operation], found: Sequence[Znode | None]) -> bool | None:
    """Find out from the present znodes whether a multi whose answer was lost was carried out.

    A multi is one transaction: one operation that certainly was carried out, or certainly was not, decides for all. A
    znode that the multi would have removed and that exists decides last: another process may have created it again.

    Returns:
        None if other processes have overwritten everything that could show it.
    """
    pairs = list(zip(operations, found, strict=True))
    verdicts = [_happened(operation, znode) for operation, znode in pairs]
    if False in verdicts:
        return False
    if True in verdicts:
        return True
    removals = [(operation, znode) for operation, znode in pairs if type(operation) is Remove]
    if any(znode is not None and each.version in {znode.version, ANY_VERSION} for each, znode in removals):
        return False
    return True if removals and all(znode is None for _, znode in removals) else None


def transaction(operations: Sequence[Operation], found: Sequence[Znode | None]) -> int:
    """Return the zxid of a multi that was carried out, by one of its znodes not written since; 0 if there is none."""
    for operation, znode in zip(operations, found, strict=True):
        if znode is not None and _happened(operation, znode):
            return znode.mzxid
    return 0


def _happened(operation: Operation, znode: Znode | None) -> bool | None:
    if type(operation) is Put and znode is not None:
        if znode.version == operation.version:
            return False
        return True if znode.version == operation.version + 1 and znode.data == operation.data else None
    if type(operation) is Create and operation.sequential:
        return None  # The name that ZooKeeper gave the znode is not known.
    if type(operation) is Create:
        if znode is None:
            return False
        return True if operation.data is not None and znode.version == 0 and znode.data == operation.data else None
    return None


def _put_topic(planned: MultiPlan, record: PutTopic) -> None:
    topic = record.topic
    if topic.version < 0:
        path = znodes.config("topics", topic.name)
        configs = encode_config(dict(record.configs))
        planned.operations.append(
            Put(path, configs, ANY_VERSION) if planned.present.get(path, False) else Create(path, configs)
        )
        planned.present[path] = True
    planned.write(znodes.topic(topic.name), encode_topic(topic), topic.version)


def _check_topic(planned: MultiPlan, record: CheckTopic) -> None:
    planned.principals.append(len(planned.operations))
    planned.operations.append(CheckVersion(znodes.topic(record.name), record.version))


def _delete_topic(planned: MultiPlan, record: DeleteTopic) -> None:
    """Delete a topic together with its entry in the deletion queue. Without that entry it is another topic, and stays.

    That happens if the answer to a first attempt was lost, and another process has created a topic of that name since.
    """
    planned.nothing_own()
    name = record.name
    if not planned.present.get(znodes.deletion(name), False):
        return
    folder = znodes.partitions(name)
    for child in sorted(planned.children.get(folder, ())):
        planned.remove(f"{folder}/{child}/state")
        planned.remove(f"{folder}/{child}")
    planned.remove(folder)
    moves = znodes.topic_reassignments(name)
    for child in sorted(planned.children.pop(moves, ())):
        planned.operations.append(Remove(f"{moves}/{child}"))
    for path in (moves, znodes.topic(name), znodes.config("topics", name), znodes.deletion(name)):
        planned.remove(path)


def _put_partition(planned: MultiPlan, record: PutPartition) -> None:
    tp, leadership = record.tp, record.leadership
    if leadership.partition_epoch < 0:
        planned.folder(znodes.partitions(tp.topic))
        planned.folder(znodes.partition(tp))
    planned.write(znodes.state(tp.topic, tp.partition), encode_state(leadership), leadership.partition_epoch)


def _put_reassignment(planned: MultiPlan, record: PutReassignment) -> None:
    folder = znodes.topic_reassignments(record.tp.topic)
    version = record.reassignment.version
    if version < 0:
        planned.folder(folder)
    planned.children.setdefault(folder, set()).add(str(record.tp.partition))
    planned.write(znodes.reassignment(record.tp), encode_reassignment(record.reassignment), version)


def _close_reassignment(planned: MultiPlan, record: CloseReassignment) -> None:
    folder = znodes.topic_reassignments(record.tp.topic)
    planned.remove_own(znodes.reassignment(record.tp), record.version)
    left = planned.children.setdefault(folder, set())
    left.discard(str(record.tp.partition))
    if record.last and not left:
        planned.operations.append(Remove(folder))
        planned.present[folder] = False


def _put_owed_deletion(planned: MultiPlan, record: PutOwedDeletion) -> None:
    planned.write(znodes.owed_deletions(record.broker), encode_owed_deletions(record.partitions), record.version)


def _close_owed_deletion(planned: MultiPlan, record: CloseOwedDeletion) -> None:
    planned.remove_own(znodes.owed_deletions(record.broker), record.version)


def _put_owed_replicas(planned: MultiPlan, record: PutOwedReplicas) -> None:
    path = znodes.owed_replicas(record.topic)
    if record.partitions:
        planned.write(path, encode_owed_replicas(record.topic_id, record.partitions), record.version)
    else:
        planned.remove_own(path, record.version)


def _put_registration(planned: MultiPlan, record: PutRegistration) -> None:
    path = znodes.broker(record.ourselves.id)
    if record.registered is planned.present.get(path, False):
        planned.nothing_own()
    elif record.registered:
        planned.principals.append(len(planned.operations))
        data = encode_broker(record.ourselves, timestamp_ms=record.at_ms, process=this_process(), controller_only=True)
        planned.operations.append(Create(path, data, ephemeral=True))
        planned.present[path] = True
    else:
        planned.remove_own(path, 0)


def _put_legacy(planned: MultiPlan, record: PutLegacyReassignments) -> None:
    if record.targets is None:
        planned.remove_own(znodes.LEGACY_REASSIGNMENTS, record.version)
    else:
        data = encode_legacy_reassignments(record.targets)
        planned.write(znodes.LEGACY_REASSIGNMENTS, data, record.version)


def _put_extra(planned: MultiPlan, record: PutExtraReassignments) -> None:
    if record.targets is None:
        planned.remove_own(znodes.EXTRA_REASSIGNMENTS, record.version)
    else:
        planned.write(znodes.EXTRA_REASSIGNMENTS, encode_legacy_reassignments(record.targets), record.version)


def _create_request(planned: MultiPlan, record: CreateReassignmentRequest) -> None:
    data = encode_request(record.targets, legacy=record.legacy)
    planned.operations.append(Create(znodes.REASSIGNMENT_REQUEST_PREFIX, data, sequential=True))
    planned.nothing_own()


def _put_request(planned: MultiPlan, record: PutReassignmentRequest) -> None:
    """Write a request again under its name, so that it keeps its turn."""
    data = encode_request(record.targets, legacy=record.legacy)
    planned.write(znodes.reassignment_request(record.name), data, record.version)


def _forget_controller_id(planned: MultiPlan, record: ForgetControllerId) -> None:
    planned.remove(znodes.controller_id(record.id))
    planned.nothing_own()


def _delete_request(planned: MultiPlan, record: DeleteReassignmentRequest) -> None:
    planned.remove(znodes.reassignment_request(record.name))
    planned.nothing_own()


def _put_deletion_mark(planned: MultiPlan, record: PutDeletionMark) -> None:
    planned.folder(znodes.deletion(record.name))
    planned.nothing_own()


def _put_producer_id_block(planned: MultiPlan, record: PutProducerIdBlock) -> None:
    data = encode_producer_id_block(ProducerIdBlock(record.broker, record.first, record.last))
    planned.write(znodes.PRODUCER_ID_BLOCK, data, record.version)


def _is_of_a_former_topic(planned: MultiPlan, entry: str, topic: str) -> bool:
    """Whether the topic of this name was created after the entry, by their transactions: the entry has only a name."""
    return planned.made.get(entry, 0) < planned.made.get(topic, 0)


def _delete_queue_entry(planned: MultiPlan, record: DeleteQueueEntry) -> None:
    """Remove an entry. It stays if a topic of its name exists now, and the entry was created after that topic."""
    entry, topic = _queue_entry(record), znodes.topic(record.name) if record.name else ""
    if not planned.present.get(topic, False) or _is_of_a_former_topic(planned, entry, topic):
        planned.remove(entry)
    elif planned.present.get(entry, False):
        planned.kept.add(record.name)
    planned.nothing_own()


_PLANNERS: Mapping[type, Callable[[MultiPlan, Any], None]] = {
    PutTopic: _put_topic,
    CheckTopic: _check_topic,
    DeleteTopic: _delete_topic,
    PutPartition: _put_partition,
    PutReassignment: _put_reassignment,
    CloseReassignment: _close_reassignment,
    PutOwedDeletion: _put_owed_deletion,
    CloseOwedDeletion: _close_owed_deletion,
    PutOwedReplicas: _put_owed_replicas,
    PutRegistration: _put_registration,
    PutLegacyReassignments: _put_legacy,
    PutExtraReassignments: _put_extra,
    CreateReassignmentRequest: _create_request,
    PutReassignmentRequest: _put_request,
    DeleteReassignmentRequest: _delete_request,
    PutDeletionMark: _put_deletion_mark,
    PutProducerIdBlock: _put_producer_id_block,
    DeleteQueueEntry: _delete_queue_entry,
    ForgetControllerId: _forget_controller_id,
}
