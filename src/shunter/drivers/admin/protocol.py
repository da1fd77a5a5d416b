"""What the executor asks of a cluster, without the library that asks it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from shunter.errors import DriverError, ErrorCode
from shunter.model.execution import OngoingReassignment, ThrottleKey
from shunter.model.partition import BrokerId, Replicas, TopicPartition

if TYPE_CHECKING:
    from shunter.drivers.admin.answers import SettingsSeen, TopicsSeen
    from shunter.drivers.admin.log_dirs import LogDirsSeen

StillOurs = Callable[[], Awaitable[None]]
"""Raises if this process may not change anything any more: another may have taken its place while it stood still."""


async def always() -> None:
    """The `StillOurs` of a caller whose place nobody takes: it never raises."""


class SettingsDenied(DriverError):
    """A permission is missing; `settings` are those that we may not change."""

    def __init__(self, message: str, settings: tuple[ThrottleKey, ...]) -> None:
        self.settings = settings
        super().__init__(message, retriable=False)


class AdminClient(Protocol):
    """What the executor asks of a cluster. Every call raises `DriverError`, which says whether to try again."""

    async def cluster_id(self) -> str:
        """The cluster's id."""
        ...

    async def is_shunter(self) -> bool:
        """Whether the controller is Shunter's own, which understands its tagged fields."""
        ...

    async def topic_names(self) -> list[str]:
        """Names of all topics, sorted."""
        ...

    async def list_reassignments(self) -> dict[TopicPartition, OngoingReassignment]:
        """Every reassignment under way."""
        ...

    async def observe_topics(self, names: Sequence[str], *, sure: bool = False) -> TopicsSeen:
        """Metadata of topics, and which brokers are up; where it is to be `sure`, it fails while brokers disagree."""
        ...

    async def observe_log_dirs(self, asked: Mapping[BrokerId, Sequence[TopicPartition]]) -> LogDirsSeen:
        """Sizes of replicas and space of log dirs, broker by broker; a broker that does not answer is left out."""
        ...

    async def read_settings(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        """Settings of brokers and topics."""
        ...

    async def alter_reassignments(
        self, targets: Sequence[tuple[TopicPartition, Replicas | None]]
    ) -> dict[TopicPartition, tuple[ErrorCode, str]]:
        """AlterPartitionReassignments (45) for these targets (None: cancel); every partition's error and its message."""
        ...

    async def alter_settings(
        self, settings: Sequence[tuple[ThrottleKey, str | None]], still_ours: StillOurs = always
    ) -> dict[ThrottleKey, str]:
        """IncrementalAlterConfigs; returns what went wrong. `still_ours` is called before each request that is sent."""
        ...

    async def alter_log_dirs(
        self, replicas: Sequence[tuple[BrokerId, TopicPartition, str]]
    ) -> dict[tuple[BrokerId, TopicPartition], ErrorCode]:
        """AlterReplicaLogDirs."""
        ...

    async def close(self) -> None:
        """End all connections."""
        ...
