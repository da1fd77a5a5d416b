"""Which process is the controller, and what its moves have left behind: asked when a cluster is handed back to Apache's."""

from __future__ import annotations

import os
import signal
from typing import NamedTuple

from kazoo.exceptions import KazooException, NoNodeError

from shunter.drivers.process_identity import is_alive_here
from shunter.drivers.zookeeper_access import PLAIN_ZOOKEEPER_ACCESS, ZooKeeperAccess
from shunter.errors import DriverError, FormatError
from shunter.formats import znodes
from shunter.formats.broker_znodes import ProcessIdentity, decode_controller, decode_process
from shunter.formats.topic_znodes import decode_state, decode_topic
from shunter.formats.znode_json import SharedReplicas
from shunter.model.partition import BrokerId

_QUEUES = (znodes.REASSIGNMENTS, znodes.REASSIGNMENT_REQUESTS, znodes.OWED_DELETIONS, znodes.OWED_REPLICAS)
CONNECT_SECONDS = 30.0
_REQUESTS = (znodes.LEGACY_REASSIGNMENTS, znodes.EXTRA_REASSIGNMENTS, znodes.CANCEL)


class SeatHolder(NamedTuple):
    """Who has `/controller`. `process` is known where a Shunter wrote it, on a system that tells processes apart."""

    broker: BrokerId
    shunter: bool
    process: ProcessIdentity | None


class SeatView:
    """A ZooKeeper session that only reads. Close it."""

    def __init__(self, connect_string: str, access: ZooKeeperAccess = PLAIN_ZOOKEEPER_ACCESS) -> None:
        """Connect.

        Raises:
            DriverError: no server lets us in.
        """
        self._client = access.opened(connect_string, CONNECT_SECONDS)

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()

    def holder(self) -> SeatHolder | None:
        """Who is the controller; None where nobody is.

        Raises:
            FormatError, DriverError: it can't be read.
        """
        data = self._data(znodes.CONTROLLER)
        if data is None:
            return None
        broker = decode_controller(data).broker
        process = decode_process(data, znodes.CONTROLLER)
        known = self._data(znodes.controller_id(broker)) is not None and self._data(znodes.broker(broker)) is None
        return SeatHolder(broker, process is not None or known, process)

    def left(self) -> tuple[str, ...]:
        """What Apache's controller would not know how to end: moves, requests, and what brokers owe."""
        found = [path for path in _REQUESTS if self._data(path) is not None]
        for queue in _QUEUES:
            for name in self._children(queue):
                path = f"{queue}/{name}"
                # A topic's folder may outlive its moves for a moment.
                found += (
                    [f"{path}/{each}" for each in self._children(path)] if queue == znodes.REASSIGNMENTS else [path]
                )
        return tuple(found)

    def under_replicated(self) -> frozenset[str]:
        """Partitions whose ISR lacks a replica, or that have no leader. Cost: one read for each topic and partition."""
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
                continue  # It was left alone before, and is so now.
        return frozenset(found)

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
    """Tell a controller of this machine to give the controllership back and end; False where it is none of ours."""
    if not is_alive_here(process):
        return False
    try:
        os.kill(process.pid, signal.SIGTERM)
    except OSError:
        return False
    return True
