"""Answers and errors of kafka-python's Admin client, converted to Shunter's values and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from kafka import errors as kafka_errors
from kafka.admin import ConfigResourceType

from shunter.errors import DriverError, ErrorCode
from shunter.model.execution import ObservedPartition, ObservedTopic, ThrottleKey
from shunter.model.partition import BrokerId

_NAMED_CODES = {code.value: code for code in ErrorCode}
_OWN_SOURCE = {"broker": "DYNAMIC_BROKER_CONFIG", "topic": "DYNAMIC_TOPIC_CONFIG"}


class TopicsSeen(NamedTuple):
    """Topics by name (None: absent), live brokers with their racks, the controller (-1: not known)."""

    topics: dict[str, ObservedTopic | None]
    brokers: dict[BrokerId, str | None]
    controller: BrokerId
    needs_all: bool | None = None
    """Whether the controller ends a step only when its whole target is in sync; None: its version is not known."""


class SettingsSeen(NamedTuple):
    """Settings as set at the resource itself (None: not set there), and the effective settings."""

    own: dict[ThrottleKey, str | None]
    effective: dict[ThrottleKey, str | None]


class NotSet(NamedTuple):
    """Why a setting does not count as set. `refused`: a broker refused it, and nothing was changed.

    Else it may have been changed: no broker answered, or one does not report it yet.
    """

    told: str
    refused: bool


def topic_seen(found: Mapping[str, Any], min_isr: Mapping[str, int]) -> ObservedTopic | None:
    """Convert a topic of a Metadata answer; None if there is no such topic, or its name is not valid."""
    name, code = str(found["name"]), int(found["error_code"])
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        raise DriverError(f"not allowed to see topic {name}: needs Describe on Topic {name}", retriable=False)
    if code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_TOPIC_EXCEPTION):
        return None
    if code != 0:
        raise DriverError(f"Metadata of topic {name}: error {code}", retriable=True)
    partitions = {
        int(partition["partition_index"]): ObservedPartition(
            tuple(partition["replica_nodes"]),
            tuple(partition["isr_nodes"]),
            int(partition["leader_id"]),
            tuple(partition.get("offline_replicas") or ()),
        )
        for partition in found["partitions"]
    }
    return ObservedTopic(_topic_id(found.get("topic_id")), partitions, min_isr.get(name, 1))


def _topic_id(value: object) -> UUID | None:
    if value is None:
        return None
    identity = value if isinstance(value, UUID) else UUID(str(value))
    return None if identity.int == 0 else identity


def check_described(kind: int, name: str, code: int, message: str | None) -> None:
    """Check the error of one resource of a DescribeConfigs answer. A topic that does not exist is not an error.

    Args:
        kind: Kafka's `ConfigResourceType`.
        name: Of the topic or the broker.
        code: The resource's error; other resources of the answer may have none.
        message: The broker's message for it.

    Raises:
        DriverError: the resource's settings could not be read.
    """
    if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        return
    what = f"{ConfigResourceType(kind).name.lower()} {name}"
    if code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
        needed = f"Topic {name}" if kind == ConfigResourceType.TOPIC.value else "Cluster"
        raise DriverError(f"not allowed to read settings of {what}: needs DescribeConfigs on {needed}", retriable=False)
    raise DriverError(f"DescribeConfigs of {what}: error {code}: {message}", retriable=True)


def setting_seen(key: ThrottleKey, found: Mapping[str, Any] | None) -> tuple[str | None, str | None]:
    """Return a setting's values: (set at the resource itself, effective)."""
    if found is None:
        return None, None
    effective = None if found.get("value") is None else str(found["value"])
    for synonym in found.get("synonyms") or ():
        if synonym["source"] == _OWN_SOURCE[key.kind]:
            return (None if synonym["value"] is None else str(synonym["value"])), effective
    if found.get("config_source") == _OWN_SOURCE[key.kind]:
        return effective, effective
    return None, effective


def code_of(error: Any) -> tuple[ErrorCode, str]:
    """Return the error code of a library's error class, and the class's name."""
    if error is None:
        return ErrorCode.NONE, ""
    return _NAMED_CODES.get(int(error.errno), ErrorCode.UNKNOWN_SERVER_ERROR), str(error.__name__)


def translated(what: str, permission: str, error: Exception) -> DriverError:
    """Convert an error of the client library: it says whether to try again, and which permission is missing."""
    if isinstance(error, kafka_errors.AuthorizationError):
        return DriverError(f"{what} is not allowed: needs {permission} ({type(error).__name__})", retriable=False)
    if isinstance(error, kafka_errors.SaslAuthenticationFailedError):
        return DriverError(f"{what}: the cluster does not let us in: {_said(error)}", retriable=False)
    if isinstance(error, kafka_errors.UnsupportedVersionError | kafka_errors.IncompatibleBrokerVersion):
        return DriverError(f"{what} is not known to this cluster (it came with Kafka 2.4): {error}", retriable=False)
    if isinstance(error, kafka_errors.KafkaConfigurationError):
        return DriverError(f"{what}: {error}", retriable=False)
    # All other errors come from the network, a controller that moves, or a broker that starts: they are temporary.
    return DriverError(f"{what} failed: {in_words(error)}", retriable=True)


_IN_WORDS = {
    kafka_errors.KafkaTimeoutError: "no answer came in time",
    kafka_errors.RequestTimedOutError: "no answer came in time",
    kafka_errors.NodeNotReadyError: "there is no connection to that broker now",
    kafka_errors.KafkaConnectionError: "the connection failed",
    kafka_errors.UnknownBrokerIdError: "the cluster does not list that broker now",
}
"""What errors of the library's own connections mean; errors that a broker answered keep Kafka's names."""


def in_words(error: Exception) -> str:
    """Return an error of the library as words, with what it says itself."""
    words = next((words for kind, words in _IN_WORDS.items() if isinstance(error, kind)), type(error).__name__)
    told = _said(error)
    return f"{words}: {told}" if told else words


def _said(error: Exception) -> str:
    """What an error of the library says itself. The library puts its number and name first, the name once or twice."""
    name, told = type(error).__name__, str(error)
    told = told.removeprefix(f"[Error {getattr(error, 'errno', None)}] ")
    while told.startswith(name):
        told = told.removeprefix(name).removeprefix(": ")
    return told
