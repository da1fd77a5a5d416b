"""ZooKeeper for KIP-236's tool: the znodes by which reassignments are requested and cancelled. Its calls block."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import BadVersionError, KazooException, NoAuthError, NodeExistsError, NoNodeError

from shunter.drivers.zookeeper.access import PLAIN_ZOOKEEPER_ACCESS, ZooKeeperAccess
from shunter.errors import DriverError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.admin import decode_legacy_reassignments, encode_legacy_reassignments
from shunter.formats.znodes.reassignments import decode_reassignment
from shunter.formats.znodes.text import read_partition_number
from shunter.formats.znodes.topics import decode_topic
from shunter.model.partition import ReplicaAssignment, Replicas, TopicPartition
from shunter.model.reassignment import Reassignment, unfinished
from shunter.model.snapshot import LegacyReassignments

CONNECT_SECONDS = 10.0
_ATTEMPTS = 5


class ReassignZnodes:
    """One session, for the duration of a command."""

    def __init__(self, connect: str, access: ZooKeeperAccess = PLAIN_ZOOKEEPER_ACCESS) -> None:
        """Connect to `HOST:PORT[,…][/CHROOT]`.

        Raises:
            DriverError: no server accepts the connection within ten seconds.
        """
        self._client: Any = access.opened(connect, CONNECT_SECONDS)

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()

    def _asked(self, verb: str, path: str, *arguments: Any, **options: Any) -> Any:
        """Send a request. Errors that callers handle are raised as kazoo's; others as DriverError."""
        try:
            return getattr(self._client, verb)(path, *arguments, **options)
        except (NodeExistsError, NoNodeError, BadVersionError):
            raise
        except NoAuthError:
            told = f"ZooKeeper's ACL does not let us {verb} {path}: log in as the brokers do (--zk-tls-config-file)"
            raise DriverError(told, retriable=False) from None
        except KazooException as failure:
            raise DriverError(f"ZooKeeper did not {verb} {path}: {failure!r}", retriable=True) from None

    def cancelling(self) -> bool:
        """Whether `/admin/reassign_cancel` exists."""
        return self._asked("exists", znodes.CANCEL) is not None

    def create_cancel(self) -> bool:
        """Create `/admin/reassign_cancel`; False if it exists already."""
        try:
            self._asked("create", znodes.CANCEL, b"", makepath=True)
        except NodeExistsError:
            return False
        return True

    def remove_cancel(self) -> bool:
        """Remove `/admin/reassign_cancel`; False if it did not exist."""
        try:
            self._asked("delete", znodes.CANCEL)
        except NoNodeError:
            return False
        return True

    def legacy(self) -> LegacyReassignments | None:
        """Read `/admin/reassign_partitions`; None if it does not exist."""
        return self._targets(znodes.LEGACY_REASSIGNMENTS)

    def extra(self) -> LegacyReassignments | None:
        """Read `/admin/reassign_partitions_extra`; None if it does not exist."""
        return self._targets(znodes.EXTRA_REASSIGNMENTS)

    def create_legacy(self, targets: dict[TopicPartition, Replicas], originals: dict[TopicPartition, Replicas]) -> bool:
        """Create `/admin/reassign_partitions`; False if it exists already: controllers ignore later writes to it."""
        try:
            data = encode_legacy_reassignments(sorted(targets.items()), originals)
            self._asked("create", znodes.LEGACY_REASSIGNMENTS, data, makepath=True)
        except NodeExistsError:
            return False
        return True

    def add_extra(self, targets: dict[TopicPartition, Replicas]) -> None:
        """Add to `/admin/reassign_partitions_extra`; entries that are there already stay.

        Raises:
            DriverError: other processes changed it at each attempt.
        """
        for _ in range(_ATTEMPTS):
            try:
                known = self.extra()
                merged = {**(known.targets if known is not None else {}), **targets}
                data = encode_legacy_reassignments(sorted(merged.items()))
                if known is None:
                    self._asked("create", znodes.EXTRA_REASSIGNMENTS, data, makepath=True)
                else:
                    self._asked("set", znodes.EXTRA_REASSIGNMENTS, data, version=known.version)
            except (NodeExistsError, NoNodeError, BadVersionError):
                continue
            return
        told = f"{znodes.EXTRA_REASSIGNMENTS} was written by others {_ATTEMPTS} times in a row; try again"
        raise DriverError(told, retriable=True)

    def moves(self) -> dict[TopicPartition, Reassignment]:
        """Read Shunter's records of moves that are not over."""
        found: dict[TopicPartition, Reassignment] = {}
        for topic in self._children(znodes.REASSIGNMENTS):
            for child in self._children(znodes.topic_reassignments(topic)):
                path = f"{znodes.REASSIGNMENTS}/{topic}/{child}"
                try:
                    data, stat = self._asked("get", path)
                except NoNodeError:
                    continue
                move = decode_reassignment(path, data, version=stat.version, czxid=stat.czxid)
                if unfinished(move):
                    found[TopicPartition(topic, read_partition_number(child, path))] = move
        return dict(sorted(found.items()))

    def assignments(self, topic: str) -> dict[TopicPartition, ReplicaAssignment] | None:
        """Read a topic's assignment; None if there is no such topic."""
        try:
            data, stat = self._asked("get", znodes.topic(topic))
        except NoNodeError:
            return None
        found = decode_topic(topic, data, stat.version, {})
        return {TopicPartition(topic, number): each for number, each in found.assignments.items()}

    def _targets(self, path: str) -> LegacyReassignments | None:
        try:
            data, stat = self._asked("get", path)
        except NoNodeError:
            return None
        return decode_legacy_reassignments(data, stat.version, path)._replace(czxid=stat.czxid)

    def _children(self, path: str) -> list[str]:
        try:
            return sorted(self._asked("get_children", path))
        except NoNodeError:
            return []
