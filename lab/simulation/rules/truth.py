"""ZooKeeper's content, decoded with each write: the truth with which rules compare brokers and controllers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from lab.simulation.zookeeper.tree import Change, Transaction
from shunter.drivers.zookeeper.requests import Znode
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.admin import decode_legacy_reassignments
from shunter.formats.znodes.brokers import decode_controller, decode_controller_epoch
from shunter.formats.znodes.configs import decode_config
from shunter.formats.znodes.reassignments import decode_owed_deletions, decode_reassignment
from shunter.formats.znodes.topics import decode_state, decode_topic
from shunter.model.partition import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Reassignment
from shunter.model.snapshot import LegacyReassignments, OwedDeletions
from shunter.model.topic import Topic

_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/([0-9]+)/state")
_RECORD = re.compile(r"/admin/reassignments/([^/]+)/([0-9]+)")


class Garbled(NamedTuple):
    """A znode that was overwritten with data that can't be read.

    `former` is its former content or, if not `seen`, the intended content; None: the znode is never repaired.
    """

    former: bytes | None
    seen: bool


class Touched:
    """The changes of one transaction: values before and after, None for absent."""

    __slots__ = ("records", "states", "topics", "writers")

    def __init__(self) -> None:
        """Begin without changes."""
        self.topics: dict[str, tuple[Topic | None, Topic | None]] = {}
        self.states: dict[TopicPartition, tuple[LeaderAndIsr | None, LeaderAndIsr | None]] = {}
        self.records: dict[TopicPartition, tuple[Reassignment | None, Reassignment | None]] = {}
        self.writers: dict[str, int] = {}
        """The sessions whose writes of the touched topics' znodes were the last ones before."""


class Truth:
    """The cluster as ZooKeeper has it now."""

    def __init__(self) -> None:
        """Begin with an empty cluster."""
        self.topics: dict[str, Topic] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.states: dict[TopicPartition, LeaderAndIsr] = {}
        self.records: dict[TopicPartition, Reassignment] = {}
        self.owed: dict[BrokerId, OwedDeletions] = {}
        self.deleting: dict[str, None] = {}
        self.legacy: LegacyReassignments | None = None
        self.requests: dict[str, None] = {}
        """Paths of KIP-236's znodes: requests, extra reassignments, the cancel."""
        self.brokers: dict[BrokerId, int] = {}
        self.controller: BrokerId = -1
        self.controller_session = 0
        self.controller_epoch = 0
        self.epoch_session = 0
        """The session that raised the controller epoch last. Only its writes pass the fence."""
        self.topic_writers: dict[str, int] = {}
        """Session that wrote each topic's znode last."""
        self.garbled: dict[str, Garbled] = {}
        """Znodes that can't be read, by path. Their last readable content counts until they are repaired."""
        self._nonsense: Garbled | None = None

    def assignment(self, tp: TopicPartition) -> ReplicaAssignment | None:
        """The assignment of a partition."""
        topic = self.topics.get(tp.topic)
        return None if topic is None else topic.assignments.get(tp.partition)

    def partitions(self) -> list[TopicPartition]:
        """All partitions, by name."""
        return [
            TopicPartition(name, number) for name in sorted(self.topics) for number in self.topics[name].assignments
        ]

    def expect_nonsense(self, nonsense: Garbled | None) -> None:
        """From now on, take transactions for writes of data that can't be read; None: back to normal."""
        self._nonsense = nonsense

    def apply(self, transaction: Transaction) -> Touched:
        """Apply a transaction."""
        touched = Touched()
        for change in transaction.changes:
            path = change.path
            self.garbled.pop(path, None)
            if self._nonsense is not None:
                self.garbled[path] = self._nonsense
            elif path.startswith(znodes.TOPICS):
                self._topic_or_state(change, transaction.session, touched)
            elif path.startswith(znodes.REASSIGNMENTS):
                self._record(change, touched)
            else:
                epoch = self.controller_epoch
                self._other(path, change.after)
                if self.controller_epoch > epoch:
                    self.epoch_session = transaction.session
        return touched

    def _topic_or_state(self, change: Change, session: int, touched: Touched) -> None:
        path, after = change.path, change.after
        found = _STATE.fullmatch(path)
        if found:
            tp = TopicPartition(found[1], int(found[2]))
            before = self.states.pop(tp, None)
            if after is not None:
                self.states[tp] = decode_state(path, after.data, after.version, {})
            touched.states[tp] = (before, self.states.get(tp))
            return
        name = path.removeprefix(f"{znodes.TOPICS}/")
        if "/" in name or name == path:
            return
        known = self.topics.pop(name, None)
        if after is not None:
            self.topics[name] = decode_topic(name, after.data, after.version, {})
        touched.writers[name] = self.topic_writers.get(name, 0)
        self.topic_writers[name] = session
        touched.topics[name] = (known, self.topics.get(name))

    def _record(self, change: Change, touched: Touched) -> None:
        found = _RECORD.fullmatch(change.path)
        if not found:
            return
        tp = TopicPartition(found[1], int(found[2]))
        before = self.records.pop(tp, None)
        if change.after is not None:
            self.records[tp] = decode_reassignment(
                change.path, change.after.data, version=change.after.version, czxid=change.after.czxid
            )
        touched.records[tp] = (before, self.records.get(tp))

    def _other(self, path: str, after: Znode | None) -> None:
        for prefix, take in _PREFIXES:
            if path.startswith(prefix):
                take(self, path.removeprefix(prefix), after)
                return

    def _take_broker(self, name: str, after: Znode | None) -> None:
        self.brokers.pop(int(name), None)
        if after is not None:
            self.brokers[int(name)] = after.czxid

    def _take_owed(self, name: str, after: Znode | None) -> None:
        self.owed.pop(int(name), None)
        if after is not None:
            self.owed[int(name)] = decode_owed_deletions(name, after.data, after.version)

    def _take_deletion(self, name: str, after: Znode | None) -> None:
        self.deleting.pop(name, None)
        if after is not None:
            self.deleting[name] = None

    def _take_config(self, name: str, after: Znode | None) -> None:
        self.configs[name] = {} if after is None else dict(decode_config(name, after.data))

    def _take_legacy(self, _: str, after: Znode | None) -> None:
        self.legacy = None if after is None else decode_legacy_reassignments(after.data, after.version)

    def _take_request(self, name: str, after: Znode | None) -> None:
        self.requests.pop(name, None)
        if after is not None:
            self.requests[name] = None

    def _take_controller_epoch(self, _: str, after: Znode | None) -> None:
        self.controller_epoch = 0 if after is None else decode_controller_epoch(after.data)

    def _take_controller(self, rest: str, after: Znode | None) -> None:
        if not rest:
            self.controller = -1 if after is None else decode_controller(after.data).broker
            self.controller_session = 0 if after is None else after.owner


_PREFIXES: tuple[tuple[str, Callable[[Truth, str, Znode | None], None]], ...] = (
    (f"{znodes.BROKER_IDS}/", Truth._take_broker),  # noqa: SLF001 - its own table
    (f"{znodes.OWED_DELETIONS}/", Truth._take_owed),  # noqa: SLF001
    (f"{znodes.DELETE_TOPICS}/", Truth._take_deletion),  # noqa: SLF001
    (f"{znodes.CONFIGS}/topics/", Truth._take_config),  # noqa: SLF001
    (f"{znodes.REASSIGNMENT_REQUESTS}/", Truth._take_request),  # noqa: SLF001
    (znodes.EXTRA_REASSIGNMENTS, lambda truth, _, after: truth._take_request("the extra znode", after)),  # noqa: SLF001
    (znodes.CANCEL, lambda truth, _, after: truth._take_request("the cancel znode", after)),  # noqa: SLF001
    (znodes.LEGACY_REASSIGNMENTS, Truth._take_legacy),  # noqa: SLF001
    (znodes.CONTROLLER_EPOCH, Truth._take_controller_epoch),  # noqa: SLF001
    (znodes.CONTROLLER, Truth._take_controller),  # noqa: SLF001
)
"""Longer prefixes first. Paths below `/admin/reassignments` never get here."""
