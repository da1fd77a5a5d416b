"""The process that is the controller, and what its moves have left; read to hand a cluster back to Apache's."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from typing import NamedTuple

from kazoo.exceptions import KazooException, NoNodeError

from shunter.core.reassignment import LeftMove, left_move
from shunter.core.throttles import LISTS, RATES
from shunter.drivers.host.process_identity import is_alive_here
from shunter.drivers.zookeeper.access import PLAIN_ZOOKEEPER_ACCESS, ZooKeeperAccess
from shunter.errors import DriverError, FormatError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.admin import decode_legacy_reassignments
from shunter.formats.znodes.brokers import NO_KRAFT, ProcessIdentity, decode_controller, decode_process
from shunter.formats.znodes.configs import decode_config
from shunter.formats.znodes.reassignments import decode_reassignment
from shunter.formats.znodes.text import SharedReplicas
from shunter.formats.znodes.topics import decode_state, decode_topic
from shunter.model.partition import BrokerId, TopicPartition
from shunter.model.reassignment import Phase
from shunter.model.topic import Topic

_QUEUES = (znodes.REASSIGNMENTS, znodes.REASSIGNMENT_REQUESTS, znodes.OWED_DELETIONS, znodes.OWED_REPLICAS)
CONNECT_SECONDS = 30.0
_REQUESTS = (znodes.LEGACY_REASSIGNMENTS, znodes.EXTRA_REASSIGNMENTS, znodes.CANCEL)


class ControllerHolder(NamedTuple):
    """The holder of `/controller`. `process` is known if a Shunter wrote it, on a system that shows its identity."""

    broker: BrokerId
    shunter: bool
    process: ProcessIdentity | None
    kraft: bool = False
    """Whether it is a KRaft controller, which holds `/controller` during a migration."""

    def __str__(self) -> str:
        who = "Shunter" if self.shunter else "KRaft controller" if self.kraft else "broker"
        return f"{who} {self.broker}"


class LeftBehind(NamedTuple):
    """What a Shunter that leads no more has left in ZooKeeper."""

    moves: tuple[LeftMove, ...]
    """Moves that are not over."""
    others: tuple[str, ...]
    """Other znodes whose work is not done: requests, owed deletions and replicas, records that can't be read."""
    over: int
    """How many records are of moves that are over."""


class LeadershipView:
    """A ZooKeeper session that only reads. The caller has to close it."""

    def __init__(self, connect_string: str, access: ZooKeeperAccess = PLAIN_ZOOKEEPER_ACCESS) -> None:
        """Connect.

        Raises:
            DriverError: no server accepts the connection.
        """
        self._client = access.opened(connect_string, CONNECT_SECONDS)

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()

    def holder(self) -> ControllerHolder | None:
        """Return the controller; None if there is none.

        Raises:
            FormatError, DriverError: `/controller` can't be read.
        """
        data = self._data(znodes.CONTROLLER)
        if data is None:
            return None
        broker, kraft_epoch = decode_controller(data)
        if kraft_epoch != NO_KRAFT:
            return ControllerHolder(broker, False, None, kraft=True)
        process = decode_process(data, znodes.CONTROLLER)
        known = self._data(znodes.controller_id(broker)) is not None and self._data(znodes.broker(broker)) is None
        return ControllerHolder(broker, process is not None or known, process)

    def left(self) -> tuple[str, ...]:
        """Return znodes whose work Apache's controller can't finish: moves, requests, owed deletions and replicas."""
        found = [path for path in _REQUESTS if self._data(path) is not None]
        for queue in _QUEUES:
            for name in self._children(queue):
                path = f"{queue}/{name}"
                # A topic's folder may outlive its moves for a moment.
                found += (
                    [f"{path}/{each}" for each in self._children(path)] if queue == znodes.REASSIGNMENTS else [path]
                )
        return tuple(found)

    def left_behind(self, *, kraft: bool) -> LeftBehind:
        """Compare what is left with the assignments: which moves are not over. Cost: one read per record and topic.

        Args:
            kraft: The next controller is a KRaft controller, which does not read `/admin/reassign_partitions`.

        Raises:
            DriverError: ZooKeeper does not let us read it.
        """
        legacy = frozenset[TopicPartition]() if kraft else self._in_legacy()
        moves: list[LeftMove] = []
        others: list[str] = []
        over = 0
        topics: dict[str, Topic | None] = {}
        for path in self.left():
            if not path.startswith(f"{znodes.REASSIGNMENTS}/"):
                others.append(path)
                continue
            try:
                move, ended = self._left_move(path, topics, legacy)
            except (FormatError, ValueError):
                others.append(path)
                continue
            if move is not None:
                moves.append(move)
            elif ended:
                over += 1
            else:
                others.append(path)
        return LeftBehind(tuple(sorted(moves)), tuple(others), over)

    def _left_move(
        self, path: str, topics: dict[str, Topic | None], legacy: Collection[TopicPartition]
    ) -> tuple[LeftMove | None, bool]:
        """The move of a record, if it is not over, and whether the record is of no more use.

        Raises:
            FormatError, ValueError: the record, its name or its topic can't be read.
        """
        _, name, number = path.rsplit("/", 2)
        tp = TopicPartition(name, int(number))
        if name not in topics:
            topics[name] = self._topic(name)
        topic, data = topics[name], self._data(path)
        assignment = None if topic is None else topic.assignments.get(tp.partition)
        if topic is None or assignment is None or data is None:
            return None, True
        record = decode_reassignment(path, data, version=0, czxid=0)
        left = left_move(tp, record, topic.topic_id, assignment, by_legacy_znode=tp in legacy)
        return left, record.phase is not Phase.DROPPING or record.topic_id not in {None, topic.topic_id}

    def _topic(self, name: str) -> Topic | None:
        data = self._data(znodes.topic(name))
        return None if data is None else decode_topic(name, data, 0, {})

    def _in_legacy(self) -> Collection[TopicPartition]:
        """The partitions that `/admin/reassign_partitions` names; none if it can't be read."""
        data = self._data(znodes.LEGACY_REASSIGNMENTS)
        try:
            return () if data is None else decode_legacy_reassignments(data, 0).targets
        except FormatError:
            return ()

    def under_replicated(self) -> frozenset[str]:
        """Return partitions whose ISR lacks a replica, or without a leader. Cost: one read per topic and partition."""
        found: set[str] = set()
        shared: SharedReplicas = {}
        for name in self._children(znodes.TOPICS):
            data = self._data(znodes.topic(name))
            try:
                topic = None if data is None else decode_topic(name, data, 0, shared)
                for number, assignment in () if topic is None else topic.assignments.items():
                    path = znodes.state(name, number)
                    state = self._data(path)
                    led = None if state is None else decode_state(path, state, 0, shared)
                    if led is None or led.leader < 0 or len(led.isr) < len(assignment.replicas):
                        found.add(f"{name}-{number}")
            except FormatError:
                continue  # Shunter's controller left such a topic alone too.
        return frozenset(found)

    def throttled(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the brokers with a throttle's rate, and the topics with a list of throttled replicas, by name."""
        return self._with_config("brokers", RATES), self._with_config("topics", LISTS)

    def _with_config(self, kind: str, keys: Collection[str]) -> tuple[str, ...]:
        found: list[str] = []
        for name in self._children(f"{znodes.CONFIGS}/{kind}"):
            path = znodes.config(kind, name)
            try:
                if any(decode_config(path, self._data(path)).get(key) for key in keys):
                    found.append(name)
            except FormatError:
                continue  # Brokers can't read such a configuration either.
        return tuple(found)

    def _data(self, path: str) -> bytes | None:
        try:
            data: bytes = self._client.get(path)[0]
        except NoNodeError:
            return None
        except KazooException as failure:
            raise DriverError(f"ZooKeeper does not let us read {path}: {failure!r}", retriable=True) from None
        return data

    def _children(self, path: str) -> list[str]:
        try:
            return sorted(self._client.get_children(path))
        except NoNodeError:
            return []
        except KazooException as failure:
            raise DriverError(f"ZooKeeper does not let us list {path}: {failure!r}", retriable=True) from None


def end_here(process: ProcessIdentity) -> bool:
    """Make a controller process of this machine give the controllership back and end; False if it is not on it."""
    if not is_alive_here(process):
        return False
    try:
        os.kill(process.pid, signal.SIGTERM)
    except OSError:
        return False
    return True
