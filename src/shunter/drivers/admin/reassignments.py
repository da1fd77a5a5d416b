"""RPC 45 and 46 over kafka-python's connections (TLS and SASL included), with bodies that Shunter encodes.

The bodies may have the nulls of KIP-455's draft and Shunter's tagged fields; answers keep the controller's messages.
These nulls and fields are sent only to a controller that lists the feature `shunter`: Apache's controller would take
such a request for a plain cancel, which reverts. Every call blocks, and raises the library's errors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest

from shunter.core.throttles import CopyEnds
from shunter.errors import DriverError, ErrorCode, RequestRejected
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import Intervention, Phase, Strategy
from shunter.wire.reassignments import (
    AlteredPartition,
    AlteredTopic,
    AlterReassignmentsRequest,
    ListReassignmentsRequest,
    MoveDetail,
    decode_detail,
    encode_alter_request,
    encode_list_request,
)

_CODES = {code.value: code for code in ErrorCode}


class PartitionReassignment(NamedTuple):
    """A reassignment under way, as in a response 46.

    `replicas` has all replicas, including those to be added; `assigned` has those that are assigned now. KIP-455's
    draft calls the latter `currentBrokers`, and calls `target` `targetBrokers`.
    """

    replicas: Replicas
    adding: Replicas
    removing: Replicas

    detail: MoveDetail | None = None
    """The fields that only Shunter's controller sends."""

    @property
    def assigned(self) -> Replicas:
        """The replicas that are assigned now. Apache's controller assigns all replicas that it adds at the start."""
        return self.detail.assigned if self.detail is not None and self.detail.assigned else self.replicas

    @property
    def target(self) -> Replicas:
        """The replicas at the end. If the answer is Apache's: `replicas` without those that are being removed."""
        if self.detail is not None:
            return self.detail.original if self.detail.phase == Phase.ROLLING_BACK.value else self.detail.target
        everybody = dict.fromkeys((*self.replicas, *self.adding))
        return tuple(broker for broker in everybody if broker not in self.removing)

    @property
    def traffic(self) -> CopyEnds:
        """The brokers that send, and the brokers that receive the partition."""
        return CopyEnds(frozenset(self.replicas) - frozenset(self.adding), frozenset(self.adding))


@dataclass(frozen=True, slots=True)
class AlterOptions:
    """Options of a request 45. None: as the controller is configured. All but the first and last are Shunter's."""

    timeout_ms: int = 60_000
    strategy: Strategy | None = None
    intervention: Intervention | None = None
    forced: bool = False
    changes_factor: bool = True
    """False: a target with another number of replicas than its partition is refused, by controllers since Kafka 4.1
    (KIP-860). Older ones take it."""

    @property
    def plain(self) -> bool:
        """Whether every controller understands these options."""
        return self.strategy is None and self.intervention is None and not self.forced


class _Alter(AlterPartitionReassignmentsRequest, init=False):  # type: ignore[call-arg,misc]
    """A request 45 with a body that Shunter encodes, for the version that the connection has found out."""

    asked = AlterReassignmentsRequest(())

    def encode(self, version: int | None = None, *, header: bool = False, framed: bool = False) -> bytes:
        body = encode_alter_request(self.asked, self.API_VERSION if version is None else version)
        return _encoded(self, version, body, header=header, framed=framed)


class _List(ListPartitionReassignmentsRequest, init=False):  # type: ignore[call-arg,misc]
    """A request 46 with a body that Shunter encodes."""

    body = b""

    def encode(self, version: int | None = None, *, header: bool = False, framed: bool = False) -> bytes:
        return _encoded(self, version, self.body, header=header, framed=framed)


def _encoded(request: Any, version: int | None, body: bytes, *, header: bool, framed: bool) -> bytes:
    if version is not None:
        request.API_VERSION = version
    data = (request.encode_header(flexible=True) if header else b"") + body
    return len(data).to_bytes(4, "big") + data if framed else data


def alter_moves(
    client: KafkaAdminClient,
    changes: Mapping[TopicPartition, Replicas | None],
    options: AlterOptions,
    *,
    shunter: bool,
) -> dict[TopicPartition, Exception | None]:
    """Begin moves of partitions, or (None) cancel them.

    Args:
        client: Connected.
        changes: The target replicas of each partition.
        options: Of the request.
        shunter: Whether the controller is Shunter's.

    Returns:
        The outcome of each partition; None: it was accepted.

    Raises:
        DriverError: only Shunter's controller understands `options`, and the controller is another one.
        RequestRejected: refused as a whole.
    """
    if not changes:
        return {}
    by_topic: dict[str, list[AlteredPartition]] = {}
    for tp, replicas in sorted(changes.items()):
        by_topic.setdefault(tp.topic, []).append(AlteredPartition(tp.partition, replicas))
    topics = tuple(AlteredTopic(name, tuple(partitions)) for name, partitions in by_topic.items())
    outcomes = _alter(client, topics, options, understood=shunter or options.plain)
    missing = RequestRejected(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer does not name the partition")
    return {tp: outcomes.get(tp, missing) for tp in changes}


def cancel_whole(
    client: KafkaAdminClient, topics: Collection[str] | None, options: AlterOptions, *, shunter: bool
) -> dict[TopicPartition, Exception | None]:
    """Cancel every reassignment of some topics, or (None) of all: the draft's null partitions and null topics.

    Returns:
        The outcome of each partition that was being moved; None: it is cancelled.

    Raises:
        DriverError: the controller is not Shunter's.
        RequestRejected: refused as a whole.
    """
    altered = None if topics is None else tuple(AlteredTopic(name, None) for name in sorted(topics))
    return _alter(client, altered, options, understood=shunter)


def _alter(
    client: KafkaAdminClient, topics: tuple[AlteredTopic, ...] | None, options: AlterOptions, *, understood: bool
) -> dict[TopicPartition, Exception | None]:
    if not understood:
        told = "the controller is not Shunter's: it would take this for a plain cancel, and revert in silence"
        raise DriverError(told, retriable=False)
    request = _Alter(max_version=1)
    request.asked = AlterReassignmentsRequest(
        topics,
        options.timeout_ms,
        options.strategy,
        options.intervention,
        options.forced,
        options.changes_factor,
    )
    return {
        TopicPartition(topic.name, result.partition_index): _rejection(result.error_code, result.error_message)
        for topic in _send(client, request).responses
        for result in topic.partitions
    }


def list_moves(
    client: KafkaAdminClient,
    partitions: Iterable[TopicPartition] | None,
    *,
    detailed: bool,
    timeout_ms: int = 60_000,
) -> dict[TopicPartition, PartitionReassignment]:
    """Return reassignments under way, of some partitions or (None) of all; `detailed`: with Shunter's tagged fields.

    Raises:
        RequestRejected: the controller refuses.
    """
    by_topic: dict[str, list[int]] = {}
    for tp in sorted(partitions or ()):
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    asked = None if partitions is None else tuple((name, tuple(numbers)) for name, numbers in by_topic.items())
    if asked == ():
        return {}
    request = _List(max_version=0)
    request.body = encode_list_request(ListReassignmentsRequest(asked, timeout_ms, detailed=detailed))
    return {
        TopicPartition(topic.name, found.partition_index): PartitionReassignment(
            tuple(found.replicas), tuple(found.adding_replicas), tuple(found.removing_replicas), _detail(found)
        )
        for topic in _send(client, request).topics
        for found in topic.partitions
    }


def _send(client: Any, request: Any) -> Any:
    """Send a request to the current controller; send it once more if the controller has just moved."""

    def errors_of(response: Any) -> Iterable[type]:
        yield kafka_errors.for_code(response.error_code)

    response = client._manager.run(client._send_request_to_controller, request, errors_of, False)  # noqa: SLF001
    refused = _rejection(response.error_code, response.error_message)
    if refused is not None:
        raise refused
    return response


def _detail(found: Any) -> MoveDetail | None:
    """Decode the tagged fields; kafka-python has unknown ones by number, for instance `_10011`."""
    tags = {int(name[1:]): bytes(value) for name, value in (found.unknown_tags or {}).items()}
    return decode_detail(tags, "response 46")


def _rejection(code: int, message: str | None) -> RequestRejected | None:
    if code == 0:
        return None
    known = _CODES.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)
    told = message or str(getattr(kafka_errors.for_code(code), "description", "") or known.name)
    return RequestRejected(known, told)
