"""Errors of the client library are converted: whether to try again, and which right is missing."""

from __future__ import annotations

import ssl

import pytest
from kafka import errors as kafka_errors

from shunter.drivers.admin.answers import check_described, code_of, setting_seen, topic_seen, translated
from shunter.drivers.admin.cluster import _code
from shunter.errors import DriverError, ErrorCode, RequestRejected, told_code
from shunter.model.execution import ObservedPartition, ThrottleKey

KEY = ThrottleKey("topic", "t", "leader.replication.throttled.replicas")


@pytest.mark.parametrize(
    ("error", "retriable", "told"),
    [
        (kafka_errors.ClusterAuthorizationFailedError(), False, "needs Alter on Cluster"),
        (kafka_errors.TopicAuthorizationFailedError(), False, "needs Alter on Cluster"),
        (kafka_errors.SaslAuthenticationFailedError(), False, "does not let us in"),
        (kafka_errors.UnsupportedVersionError(), False, "came with Kafka 2.4"),
        (kafka_errors.IncompatibleBrokerVersion(), False, "came with Kafka 2.4"),
        (kafka_errors.KafkaConfigurationError("no"), False, "no"),
        (kafka_errors.KafkaConnectionError("refused"), True, "refused"),
        (kafka_errors.NotControllerError(), True, "NotController"),
        (kafka_errors.KafkaTimeoutError(), True, "no answer came in time"),
        (RuntimeError("Failed to find active controller id!"), True, "controller"),
        (OSError("network is unreachable"), True, "unreachable"),
    ],
)
def test_every_error_says_whether_to_try_again(error: Exception, retriable: bool, told: str) -> None:
    error_of_ours = translated("AlterPartitionReassignments", "Alter on Cluster", error)
    assert isinstance(error_of_ours, DriverError)
    assert error_of_ours.retriable is retriable
    assert told in str(error_of_ours)
    assert str(error_of_ours).startswith("AlterPartitionReassignments")
    assert not {"KafkaTimeoutError", "KafkaConnectionError"} & {*str(error_of_ours).replace(":", " ").split()}


def test_errors_of_partitions_keep_kafkas_codes() -> None:
    assert code_of(None) == (ErrorCode.NONE, "")
    assert code_of(kafka_errors.NoReassignmentInProgressError)[0] is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert code_of(kafka_errors.InvalidReplicationAssignmentError)[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert code_of(kafka_errors.OffsetOutOfRangeError)[0] is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_setting_is_ours_to_remember_only_where_it_is_set_at_the_resource_itself() -> None:
    own = {"value": "1:2", "config_source": "DYNAMIC_TOPIC_CONFIG", "synonyms": []}
    default = {"value": "9", "config_source": "DYNAMIC_DEFAULT_BROKER_CONFIG", "synonyms": []}
    both = {
        "value": "5",
        "config_source": "DYNAMIC_TOPIC_CONFIG",
        "synonyms": [
            {"source": "DYNAMIC_TOPIC_CONFIG", "value": "5"},
            {"source": "STATIC_BROKER_CONFIG", "value": "6"},
        ],
    }
    assert setting_seen(KEY, None) == (None, None)
    assert setting_seen(KEY, own) == ("1:2", "1:2")
    assert setting_seen(KEY, default) == (None, "9")
    assert setting_seen(KEY, both) == ("5", "5")


@pytest.mark.parametrize(
    ("kind", "code", "told", "retriable"),
    [
        (2, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "settings of topic t: needs DescribeConfigs on Topic t", False),
        (4, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "settings of broker t: needs DescribeConfigs on Cluster", False),
        (4, ErrorCode.UNKNOWN_SERVER_ERROR, "DescribeConfigs of broker t: error -1: no", True),
    ],
)
def test_settings_that_could_not_be_read_are_an_error(kind: int, code: int, told: str, retriable: bool) -> None:
    with pytest.raises(DriverError, match=told) as failed:
        check_described(kind, "t", code, "no")
    assert failed.value.retriable is retriable


def test_settings_of_a_topic_that_is_gone_are_none() -> None:
    check_described(2, "t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)


def described(code: int) -> dict[str, object]:
    partition = {
        "partition_index": 3,
        "replica_nodes": [1, 2],
        "isr_nodes": [2],
        "leader_id": 2,
        "offline_replicas": [1],
    }
    return {
        "name": "t",
        "error_code": code,
        "topic_id": "00000000-0000-0000-0000-000000000000",
        "partitions": [partition],
    }


def test_a_topic_without_an_id_has_none_and_one_that_is_gone_is_none() -> None:
    seen = topic_seen(described(0), {"t": 2})
    assert seen is not None
    assert (seen.topic_id, seen.min_isr) == (None, 2)
    assert seen.partitions == {3: ObservedPartition((1, 2), (2,), 2, (1,))}
    assert topic_seen(described(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), {}) is None


def test_a_topic_that_may_not_be_seen_names_the_permission() -> None:
    with pytest.raises(DriverError, match="needs Describe on Topic t") as refused:
        topic_seen(described(ErrorCode.TOPIC_AUTHORIZATION_FAILED), {})
    assert not refused.value.retriable
    with pytest.raises(DriverError) as passing:
        topic_seen(described(ErrorCode.LEADER_NOT_AVAILABLE), {})
    assert passing.value.retriable


def test_certificates_that_do_not_fit_and_timeouts_may_pass() -> None:
    assert translated("connecting", "", ssl.SSLError("bad certificate")).retriable
    assert translated("connecting", "", TimeoutError()).retriable


def test_a_name_that_no_topic_can_have_names_no_topic() -> None:
    assert topic_seen({"name": "big/0", "error_code": int(ErrorCode.INVALID_TOPIC_EXCEPTION)}, {}) is None


@pytest.mark.parametrize("code", [39, 41, 31])
@pytest.mark.parametrize("message", ["", "why"])
def test_no_error_is_named_twice(code: int, message: str) -> None:
    error = kafka_errors.for_code(code)(*filter(None, [message]))
    told = str(translated("A request", "Alter", error))
    assert told.count(type(error).__name__) == 1
    assert "[Error" not in told


@pytest.mark.parametrize(
    "message", ["", "INVALID_REPLICA_ASSIGNMENT", "INVALID_REPLICA_ASSIGNMENT: broker 9", "broker 9"]
)
def test_no_code_is_named_twice(message: str) -> None:
    """An outsider's find: "the cluster refuses the step: INVALID_REPLICA_ASSIGNMENT: INVALID_REPLICA_ASSIGNMENT: …"."""
    told = str(RequestRejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message))
    assert told.count("INVALID_REPLICA_ASSIGNMENT") == 1
    assert told_code(*_code(RequestRejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message))) == told
