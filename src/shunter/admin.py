"""KIP-455's Admin client in Python, for programs: futures per partition, three ways to list, like Java's `Admin`.

It uses a connected client of kafka-python, and works with any controller. Options that only Shunter's controller
understands (a strategy, a kind of cancel) are refused under another controller, which would revert by a plain cancel.

    admin = ReassignmentAdmin(KafkaAdminClient(bootstrap_servers="kafka1:9092"))
    result = admin.alter_partition_reassignments({TopicPartition("orders", 0): NewPartitionReassignment((4, 5, 6))})
    result.all().result()
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, overload

from kafka import KafkaAdminClient

from shunter.drivers.admin import reassignments
from shunter.drivers.admin.answers import translated
from shunter.drivers.admin.client import is_shunters
from shunter.drivers.admin.reassignments import PartitionReassignment
from shunter.errors import DriverError, RequestRejected
from shunter.model.partition import Replicas, TopicPartition

__all__ = [
    "AlterPartitionReassignmentsOptions",
    "AlterPartitionReassignmentsResult",
    "ListPartitionReassignmentsOptions",
    "ListPartitionReassignmentsResult",
    "NewPartitionReassignment",
    "PartitionReassignment",
    "ReassignmentAdmin",
]

_Answer = TypeVar("_Answer")


class NewPartitionReassignment(NamedTuple):
    """A new partition reassignment: the partition's target brokers, in order."""

    target_brokers: Replicas


class AlterPartitionReassignmentsOptions(reassignments.AlterOptions):
    """Options of an AlterPartitionReassignments request (API key 45)."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ListPartitionReassignmentsOptions:
    """Options of a ListPartitionReassignments request (API key 46)."""

    timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignmentsResult:
    """`futures` has the outcome of each partition; the future of a refused change raises `RequestRejected`."""

    futures: Mapping[TopicPartition, Future[None]]
    done: Future[None]

    def all(self) -> Future[None]:
        """One future for all changes. If any was rejected, it raises the error of the first one by name."""
        return self.done


@dataclass(frozen=True, slots=True)
class ListPartitionReassignmentsResult:
    """`reassignments` resolves to the reassignments under way, as one consistent view."""

    reassignments: Future[dict[TopicPartition, PartitionReassignment]]


class ReassignmentAdmin:
    """Alters and lists partition reassignments. Calls return at once; one thread carries them out in their order."""

    def __init__(self, client: KafkaAdminClient) -> None:
        """Use a connected client. The caller closes the client."""
        self._client = client
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reassignment-admin")
        self._is_shunter: bool | None = None

    def close(self) -> None:
        """Carry out the calls that were made, and accept no further ones."""
        self._thread.shutdown()

    def is_shunter(self) -> bool:
        """Whether the controller is Shunter's own, which understands its tagged fields.

        Raises:
            DriverError: the controller did not answer.
        """
        if self._is_shunter is None:
            self._is_shunter = self._ask("ApiVersions", lambda: is_shunters(self._client))
        return self._is_shunter

    def alter_partition_reassignments(
        self,
        changes: Mapping[TopicPartition, NewPartitionReassignment | None],
        options: AlterPartitionReassignmentsOptions | None = None,
    ) -> AlterPartitionReassignmentsResult:
        """Change the reassignments of one or more partitions: add, modify, or (None) cancel."""
        chosen = options or AlterPartitionReassignmentsOptions()
        wanted = {tp: None if new is None else tuple(new.target_brokers) for tp, new in changes.items()}
        futures: dict[TopicPartition, Future[None]] = {tp: Future() for tp in sorted(wanted)}
        done: Future[None] = Future()

        def work() -> None:
            outcomes: Mapping[TopicPartition, Exception | None]
            try:
                outcomes = self._ask(
                    "AlterPartitionReassignments",
                    lambda: reassignments.alter_moves(self._client, wanted, chosen, shunter=self._understands(chosen)),
                )
                first = next((outcomes[tp] for tp in futures if outcomes[tp] is not None), None)
            except Exception as error:  # noqa: BLE001  any error has to reach the futures that callers wait for
                outcomes, first = dict.fromkeys(futures, error), error
            for tp, future in futures.items():
                _settle(future, outcomes[tp])
            _settle(done, first)

        self._thread.submit(work)
        return AlterPartitionReassignmentsResult(futures, done)

    def cancel_whole(
        self, topics: Collection[str] | None, options: AlterPartitionReassignmentsOptions | None = None
    ) -> dict[TopicPartition, Exception | None]:
        """Cancel every reassignment of some topics, or (None) of all: the draft's null partitions and null topics.

        Returns:
            The error of each partition that was being moved; None: its reassignment is cancelled.

        Raises:
            DriverError: no answer, or the controller is not Shunter's.
            RequestRejected: the whole request was refused.
        """
        chosen = options or AlterPartitionReassignmentsOptions()
        shunter = self.is_shunter()
        return self._ask(
            "AlterPartitionReassignments",
            lambda: reassignments.cancel_whole(self._client, topics, chosen, shunter=shunter),
        )

    @overload
    def list_partition_reassignments(
        self, *, options: ListPartitionReassignmentsOptions | None = None
    ) -> ListPartitionReassignmentsResult: ...
    @overload
    def list_partition_reassignments(
        self, partitions: Collection[TopicPartition], *, options: ListPartitionReassignmentsOptions | None = None
    ) -> ListPartitionReassignmentsResult: ...
    @overload
    def list_partition_reassignments(
        self, partitions: Collection[str], *, options: ListPartitionReassignmentsOptions | None = None
    ) -> ListPartitionReassignmentsResult: ...
    def list_partition_reassignments(
        self,
        partitions: Collection[TopicPartition] | Collection[str] | None = None,
        *,
        options: ListPartitionReassignmentsOptions | None = None,
    ) -> ListPartitionReassignmentsResult:
        """List reassignments under way: all of them, those of some partitions, or those of some topics.

        For topics, all reassignments are requested and then filtered: the shipped request can't name a whole topic.
        """
        timeout_ms = (options or ListPartitionReassignmentsOptions()).timeout_ms
        named = None if partitions is None else list(partitions)
        topics = {name for name in named or () if not isinstance(name, TopicPartition)}
        some = [tp for tp in named or () if isinstance(tp, TopicPartition)]
        future: Future[dict[TopicPartition, PartitionReassignment]] = Future()

        def work() -> None:
            try:
                found = {} if named == [] else self._list(some or None, timeout_ms)
            except Exception as error:  # noqa: BLE001  as above
                future.set_exception(error)
                return
            future.set_result({tp: move for tp, move in found.items() if not topics or tp.topic in topics})

        self._thread.submit(work)
        return ListPartitionReassignmentsResult(future)

    def _list(
        self, partitions: Collection[TopicPartition] | None, timeout_ms: int
    ) -> dict[TopicPartition, PartitionReassignment]:
        detailed = self.is_shunter()
        return self._ask(
            "ListPartitionReassignments",
            lambda: reassignments.list_moves(self._client, partitions, detailed=detailed, timeout_ms=timeout_ms),
        )

    def _understands(self, options: AlterPartitionReassignmentsOptions) -> bool:
        return not options.plain and self.is_shunter()

    def _ask(self, what: str, work: Callable[[], _Answer]) -> _Answer:
        try:
            return work()
        except (DriverError, RequestRejected):
            raise
        except Exception as error:
            self._client._controller_id = None  # noqa: SLF001  the client never forgets a dead controller
            raise translated(what, "Alter or Describe on Cluster", error) from error


def _settle(future: Future[None], error: Exception | None) -> None:
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
