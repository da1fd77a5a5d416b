"""The executor's interface to a cluster, independent of the client library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from shunter.errors import DriverError, ErrorCode
from shunter.model.execution import OngoingReassignment, ThrottleKey
from shunter.model.partition import BrokerId, Replicas, TopicPartition

if TYPE_CHECKING:
    from shunter.drivers.admin.answers import NotSet, SettingsSeen, TopicsSeen
    from shunter.drivers.admin.log_dirs import LogDirsSeen

StillOurs = Callable[[], Awaitable[None]]
"""Raises if this process may no longer change anything: another one may have taken its place while it stood still."""


async def always() -> None:
    """A `StillOurs` that never raises, for callers whose place no other process takes."""


class SettingsDenied(DriverError):
    """A permission is missing; `settings` are those that this process may not change."""

    def __init__(self, message: str, settings: tuple[ThrottleKey, ...]) -> None:
        self.settings = settings
        super().__init__(message, retriable=False)


class AdminClient(Protocol):
    """The executor's requests to a cluster. Every call raises `DriverError`, which says whether to try again."""

    async def cluster_id(self) -> str:
        """Return the cluster's id."""
        ...

    async def is_shunter(self) -> bool:
        """Whether the controller is Shunter's, which understands Shunter's tagged fields."""
        ...

    async def topic_names(self) -> list[str]:
        """Return the names of all topics, sorted."""
        ...

    async def list_reassignments(self) -> dict[TopicPartition, OngoingReassignment]:
        """Return all reassignments under way."""
        ...

    async def observe_topics(self, names: Sequence[str], *, sure: bool = False) -> TopicsSeen:
        """Read the metadata of topics, and which brokers are up. If `sure`, the call fails while brokers disagree."""
        ...

    async def observe_log_dirs(self, asked: Mapping[BrokerId, Sequence[TopicPartition]]) -> LogDirsSeen:
        """Read sizes of replicas and space of log dirs, per broker; brokers that do not answer are in `failed`."""
        ...

    async def read_settings(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        """Read settings of brokers and topics."""
        ...

    async def alter_reassignments(
        self, targets: Sequence[tuple[TopicPartition, Replicas | None]], *, keeps_factor: bool = False
    ) -> dict[TopicPartition, tuple[ErrorCode, str]]:
        """Send AlterPartitionReassignments (45), None cancels; return each partition's error and message.

        `keeps_factor`: a target with another number of replicas than its partition is refused (KIP-860), if the
        controller knows that.
        """
        ...

    async def alter_settings(
        self, settings: Sequence[tuple[ThrottleKey, str | None]], still_ours: StillOurs = always
    ) -> dict[ThrottleKey, NotSet]:
        """Send IncrementalAlterConfigs; return the errors. `still_ours` is called before each request that is sent."""
        ...

    async def elect_preferred(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, tuple[ErrorCode, str]]:
        """Send ElectLeaders for the first replica of each partition; return each partition's error and message."""
        ...

    async def alter_log_dirs(
        self, replicas: Sequence[tuple[BrokerId, TopicPartition, str]]
    ) -> dict[tuple[BrokerId, TopicPartition], ErrorCode]:
        """Send AlterReplicaLogDirs; return each replica's error."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
