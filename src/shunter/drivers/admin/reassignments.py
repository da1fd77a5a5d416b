"""KIP-455's Admin client in Python: futures per partition, three ways to list; and what Shunter's controller adds.

Everything goes over kafka-python's connections (TLS and SASL included), but with our own body: it has the draft's
nulls and Shunter's tagged fields, and what comes back keeps the controller's sentences. Both are sent only to a
controller that names the feature `shunter`: Apache's would take them for a plain cancel, which reverts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, overload

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest

from shunter.drivers.admin.answers import FEATURE
from shunter.errors import DriverError, ErrorCode, RequestRejected
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import CancelMode, Phase, Strategy
from shunter.wire.reassignments import (
    AlteredPartition,
    AlteredTopic,
    AlterReassignments,
    ListReassignments,
    MoveDetail,
    decode_detail,
    encode_alter_request,
    encode_list_request,
)

_CODES = {code.value: code for code in ErrorCode}
_Answer = TypeVar("_Answer")


class NewPartitionReassignment(NamedTuple):
    """A new partition reassignment: the brokers where the partition shall be, in order."""

    target_brokers: Replicas


class PartitionReassignment(NamedTuple):
    """A reassignment under way, as response 46 tells it.

    `replicas` are all replicas, those to come included, and `assigned` those that there are now; KIP-455's draft calls
    the latter `currentBrokers`, and its `targetBrokers` are `target`.
    """

    replicas: Replicas
    adding: Replicas
    removing: Replicas

    detail: MoveDetail | None = None
    """What Shunter's controller tells besides."""

    @property
    def assigned(self) -> Replicas:
        """What is assigned now; Apache's controller assigns everything that it adds at the start."""
        return self.detail.assigned if self.detail is not None and self.detail.assigned else self.replicas

    @property
    def target(self) -> Replicas:
        """Where it ends; where nobody but the shipped response tells: the replicas without the removing ones."""
        if self.detail is not None:
            return self.detail.original if self.detail.phase == Phase.ROLLING_BACK.value else self.detail.target
        everybody = dict.fromkeys((*self.replicas, *self.adding))
        return tuple(broker for broker in everybody if broker not in self.removing)


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignmentsOptions:
    """How a request 45 is meant. None: as the controller is configured. All but the time are Shunter's own."""

    timeout_ms: int = 60_000
    strategy: Strategy | None = None
    cancel_mode: CancelMode | None = None
    forced: bool = False

    @property
    def plain(self) -> bool:
        """Whether any controller understands it."""
        return self.strategy is None and self.cancel_mode is None and not self.forced


@dataclass(frozen=True, slots=True)
class ListPartitionReassignmentsOptions:
    """How a request 46 is meant."""

    timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignmentsResult:
    """`futures` has the outcome of each partition; a refused one raises `RequestRejected`."""

    futures: Mapping[TopicPartition, Future[None]]
    done: Future[None]

    def all(self) -> Future[None]:
        """One future for everything: it raises if any reassignment was rejected, the first by name."""
        return self.done


@dataclass(frozen=True, slots=True)
class ListPartitionReassignmentsResult:
    """`reassignments` resolves to what is under way, as one consistent view."""

    reassignments: Future[dict[TopicPartition, PartitionReassignment]]


class _Alter(AlterPartitionReassignmentsRequest, init=False):  # type: ignore[call-arg,misc]
    """A request 45 with our body."""

    body = b""

    def encode(self, version: int | None = None, *, header: bool = False, framed: bool = False) -> bytes:
        return _encoded(self, version, self.body, header=header, framed=framed)


class _List(ListPartitionReassignmentsRequest, init=False):  # type: ignore[call-arg,misc]
    """A request 46 with our body."""

    body = b""

    def encode(self, version: int | None = None, *, header: bool = False, framed: bool = False) -> bytes:
        return _encoded(self, version, self.body, header=header, framed=framed)


def _encoded(request: Any, version: int | None, body: bytes, *, header: bool, framed: bool) -> bytes:
    if version is not None:
        request.API_VERSION = version
    data = (request.encode_header(flexible=True) if header else b"") + body
    return len(data).to_bytes(4, "big") + data if framed else data


class ReassignmentAdmin:
    """Alters and lists partition reassignments. Calls return at once; one thread carries them out in their order."""

    def __init__(self, client: KafkaAdminClient) -> None:
        """Use a connected client, which stays its owner's."""
        self._client: Any = client
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reassignment-admin")
        self._is_shunter: bool | None = None

    def close(self) -> None:
        """Carry out what was asked for, and take nothing more."""
        self._thread.shutdown()

    def is_shunter(self) -> bool:
        """Whether the controller is Shunter's own, which understands its tagged fields.

        Raises:
            DriverError: it did not answer.
        """
        if self._is_shunter is None:
            self._is_shunter = self._ask(lambda: FEATURE in self._client.describe_features(True))
        return self._is_shunter

    def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, NewPartitionReassignment | None],
        options: AlterPartitionReassignmentsOptions | None = None,
    ) -> AlterPartitionReassignmentsResult:
        """Change the reassignments of one or more partitions: add, modify, or (None) cancel."""
        chosen = options or AlterPartitionReassignmentsOptions()
        by_topic: dict[str, list[AlteredPartition]] = {}
        for tp, new in sorted(reassignments.items()):
            replicas = None if new is None else tuple(new.target_brokers)
            by_topic.setdefault(tp.topic, []).append(AlteredPartition(tp.partition, replicas))
        topics = tuple(AlteredTopic(name, tuple(partitions)) for name, partitions in by_topic.items())
        futures: dict[TopicPartition, Future[None]] = {tp: Future() for tp in sorted(reassignments)}
        done: Future[None] = Future()

        def work() -> None:
            try:
                results = self._alter(topics, chosen) if reassignments else {}
            except (DriverError, RequestRejected) as error:
                results = dict.fromkeys(futures, error)
                _settle(done, error)
            missing = RequestRejected(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer does not name the partition")
            outcomes = {tp: results.get(tp, missing) for tp in futures}
            for tp, future in futures.items():
                _settle(future, outcomes[tp])
            if not done.done():
                _settle(done, next((error for error in outcomes.values() if error is not None), None))

        self._thread.submit(work)
        return AlterPartitionReassignmentsResult(futures, done)

    def cancel_whole(
        self, topics: Collection[str] | None, options: AlterPartitionReassignmentsOptions | None = None
    ) -> dict[TopicPartition, Exception | None]:
        """Cancel every reassignment of some topics, or (None) of all: the draft's null partitions and null topics.

        Returns:
            What became of each partition that was being moved; None: it is cancelled.

        Raises:
            DriverError: no answer, or the controller is not Shunter's.
            RequestRejected: refused as a whole.
        """
        chosen = options or AlterPartitionReassignmentsOptions()
        altered = None if topics is None else tuple(AlteredTopic(name, None) for name in sorted(topics))
        return self._alter(altered, chosen)

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

        A request for topics asks for everything: the shipped request has no way to ask for a whole topic.
        """
        timeout_ms = (options or ListPartitionReassignmentsOptions()).timeout_ms
        named = None if partitions is None else list(partitions)
        topics = {name for name in named or () if not isinstance(name, TopicPartition)}
        some = [tp for tp in named or () if isinstance(tp, TopicPartition)]
        future: Future[dict[TopicPartition, PartitionReassignment]] = Future()

        def work() -> None:
            try:
                found = {} if named == [] else self._list(some or None, timeout_ms)
            except (DriverError, RequestRejected) as error:
                future.set_exception(error)
                return
            future.set_result({tp: move for tp, move in found.items() if not topics or tp.topic in topics})

        self._thread.submit(work)
        return ListPartitionReassignmentsResult(future)

    def _alter(
        self, topics: tuple[AlteredTopic, ...] | None, options: AlterPartitionReassignmentsOptions
    ) -> dict[TopicPartition, Exception | None]:
        whole = topics is None or any(topic.partitions is None for topic in topics)
        if (whole or not options.plain) and not self.is_shunter():
            told = "the controller is not Shunter's: it would take this for a plain cancel, and revert in silence"
            raise DriverError(told, retriable=False)
        request = _Alter(max_version=0)
        request.body = encode_alter_request(
            AlterReassignments(topics, options.timeout_ms, options.strategy, options.cancel_mode, options.forced)
        )
        response = self._send(request)
        return {
            TopicPartition(topic.name, result.partition_index): _rejection(result.error_code, result.error_message)
            for topic in response.responses
            for result in topic.partitions
        }

    def _list(
        self, partitions: Iterable[TopicPartition] | None, timeout_ms: int
    ) -> dict[TopicPartition, PartitionReassignment]:
        by_topic: dict[str, list[int]] = {}
        for tp in sorted(partitions or ()):
            by_topic.setdefault(tp.topic, []).append(tp.partition)
        asked = None if partitions is None else tuple((name, tuple(numbers)) for name, numbers in by_topic.items())
        request = _List(max_version=0)
        request.body = encode_list_request(ListReassignments(asked, timeout_ms, detailed=self.is_shunter()))
        return {
            TopicPartition(topic.name, found.partition_index): PartitionReassignment(
                tuple(found.replicas), tuple(found.adding_replicas), tuple(found.removing_replicas), _detail(found)
            )
            for topic in self._send(request).topics
            for found in topic.partitions
        }

    def _send(self, request: Any) -> Any:
        """Send to the controller, wherever it is now; once more when it has just moved."""
        client = self._client

        def errors_of(response: Any) -> Iterable[type]:
            yield kafka_errors.for_code(response.error_code)

        def work() -> Any:
            return client._manager.run(client._send_request_to_controller, request, errors_of, False)  # noqa: SLF001

        response = self._ask(work)
        refused = _rejection(response.error_code, response.error_message)
        if refused is not None:
            raise refused
        return response

    def _ask(self, work: Callable[[], _Answer]) -> _Answer:
        try:
            return work()
        except (RuntimeError, OSError, kafka_errors.KafkaError) as error:
            self._client._controller_id = None  # noqa: SLF001  it remembers a dead controller for ever
            raise DriverError(f"{type(error).__name__}: {error}", retriable=True) from error


def alter_under_shunter(
    client: KafkaAdminClient, targets: Iterable[tuple[TopicPartition, Replicas | None]]
) -> dict[TopicPartition, tuple[ErrorCode, str]]:
    """A request 45 of somebody who takes the steps himself: each all at once, and null gives the originals back.

    Returns:
        What became of each partition, with the controller's sentence.

    Raises:
        DriverError: no answer, or the controller is not Shunter's any more.
    """
    asked = {tp: None if replicas is None else NewPartitionReassignment(replicas) for tp, replicas in targets}
    options = AlterPartitionReassignmentsOptions(strategy=Strategy.ALL_AT_ONCE, cancel_mode=CancelMode.ROLL_BACK)
    admin = ReassignmentAdmin(client)
    try:
        futures = admin.alter_partition_reassignments(asked, options).futures
        return {tp: _answered(future.exception()) for tp, future in futures.items()}
    finally:
        admin.close()


def _answered(error: BaseException | None) -> tuple[ErrorCode, str]:
    if error is None:
        return ErrorCode.NONE, ""
    if isinstance(error, RequestRejected):
        return error.error_code, str(error)
    raise error


def _detail(found: Any) -> MoveDetail | None:
    """What kafka-python did not know: tagged fields under their numbers, as `_10011`."""
    tags = {int(name[1:]): bytes(value) for name, value in (found.unknown_tags or {}).items()}
    return decode_detail(tags, "response 46")


def _rejection(code: int, message: str | None) -> RequestRejected | None:
    if code == 0:
        return None
    known = _CODES.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)
    told = message or str(getattr(kafka_errors.for_code(code), "description", "") or known.name)
    return RequestRejected(known, told)


def _settle(future: Future[None], error: Exception | None) -> None:
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
