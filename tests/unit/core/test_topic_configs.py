"""What a topic may be configured with. Real brokers are asked the same in tests/real/test_topic_configs_of_brokers.py."""

import pytest

from shunter.core.topic_configs import (
    CONFIG_KEYS,
    UNKNOWN_RELEASES,
    ConfigSource,
    Releases,
    check_topic_configs,
    effective_configs,
)
from shunter.errors import ErrorCode, RequestRejected

THROTTLED = (
    "Invalid value [1:2, x] for configuration leader.replication.throttled.replicas: "
    "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following "
    "format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
)


def refusal(configs, releases=UNKNOWN_RELEASES, **options):
    try:
        check_topic_configs(configs, releases, **options)
    except RequestRejected as refused:
        return refused.message if refused.error_code is ErrorCode.INVALID_CONFIG else refused.error_code
    return None


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("retention.ms", "7d", "Invalid value 7d for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        (
            "retention.ms",
            str(2**63),
            f"Invalid value {2**63} for configuration retention.ms: Not a number of type LONG",
        ),
        (
            "segment.bytes",
            "2147483648",
            "Invalid value 2147483648 for configuration segment.bytes: Not a number of type INT",
        ),
        ("min.insync.replicas", "0", "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1"),
        (
            "min.insync.replicas",
            "1_0",
            "Invalid value 1_0 for configuration min.insync.replicas: Not a number of type INT",
        ),
        (
            "min.cleanable.dirty.ratio",
            "1.5",
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "cleanup.policy",
            "compact,drop",
            "Invalid value drop for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            "preallocate",
            "yes",
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        ),
        ("retention", "5", "Unknown topic config name: retention"),
        (
            "leader.replication.throttled.replicas",
            "1:2,x",
            THROTTLED,
        ),
        (
            "message.format.version",
            "3.77",
            "Invalid value 3.77 for configuration message.format.version: Version 3.77 is not a valid version",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "remote.storage.enable",
            "true",
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        ),
        (
            "remote.log.copy.disable",
            "true",
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode.",
        ),
    ],
)
def test_what_a_broker_could_not_start_with_is_refused_in_kafkas_words(name, value, told):
    assert refusal({name: value}) == told


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", " 7 "),
        ("retention.ms", "+7"),
        ("retention.bytes", "-5"),
        ("cleanup.policy", "compact , delete"),
        ("cleanup.policy", ""),
        ("min.cleanable.dirty.ratio", "1e-1"),
        ("preallocate", "TRUE"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1, 1:2"),
        ("follower.replication.throttled.replicas", ""),
        ("message.format.version", "2.8-IV1"),
        ("message.format.version", "0.10.2"),
        ("message.format.version", "2.8.1"),
        ("compression.type", "zstd"),
        ("compression.zstd.level", "-5"),
    ],
)
def test_what_brokers_take_is_taken(name, value):
    assert refusal({name: value}) is None


def test_values_that_contradict_each_other_are_refused():
    lags = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}
    assert refusal(lags) == "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"
    assert refusal({"min.compaction.lag.ms": "10"}) is None
    cluster = {"log.cleaner.max.compaction.lag.ms": "5"}
    assert refusal({"min.compaction.lag.ms": "10"}, cluster=cluster) is not None
    assert refusal({"min.compaction.lag.ms": "10"}, cluster={"log.cleaner.max.compaction.lag.ms": "nonsense"}) is None


def test_a_topic_on_remote_storage_keeps_no_more_here_than_at_all():
    tiered = {"remote.storage.enable": "true"}
    assert refusal(tiered, tiered=True) is None
    assert "compacted" in refusal({**tiered, "cleanup.policy": "compact"}, tiered=True)
    kept = {**tiered, "retention.ms": "100", "local.retention.ms": "101"}
    assert "Value must not be more than retention.ms property value: 100" in refusal(kept, tiered=True)
    kept = {**tiered, "retention.bytes": "100", "local.retention.bytes": "-1"}
    assert "Value must not be -1 as retention.bytes value is set as 100." in refusal(kept, tiered=True)


def test_nothing_is_written_that_the_oldest_broker_does_not_start_with():
    version = {"message.format.version": "3.4"}
    assert refusal(version, Releases((2, 8), (3, 9))) is not None
    assert refusal(version, Releases((3, 4), (3, 9))) is None


def test_a_name_that_no_broker_can_know_is_refused():
    level = {"compression.zstd.level": "3"}
    assert refusal(level, Releases((2, 8), (3, 0))) == "Unknown topic config name: compression.zstd.level"
    assert refusal(level, Releases((2, 8), (3, 8))) is None


def test_a_sentence_is_short_however_long_the_value_is():
    assert len(refusal({"retention.ms": "x" * 100_000})) < 2_000
    assert len(refusal({"x" * 100_000: "1"})) < 2_000


def test_the_effective_configuration_says_where_each_value_comes_from():
    cluster = {"log.retention.ms": "5", "log.cleanup.policy": "nonsense", "min.insync.replicas": "3"}
    given = {"max.message.bytes": " 7 ", "min.insync.replicas": "2"}
    found = effective_configs(given, UNKNOWN_RELEASES, cluster=cluster, ours={"unclean.leader.election.enable": "true"})
    assert [config.name for config in found] == sorted(CONFIG_KEYS)
    told = {name: (value, source) for name, value, source in found}
    assert told["max.message.bytes"] == ("7", ConfigSource.TOPIC)
    assert told["min.insync.replicas"] == ("2", ConfigSource.TOPIC)
    assert told["retention.ms"] == ("5", ConfigSource.CLUSTER)
    assert told["cleanup.policy"] == ("delete", ConfigSource.DEFAULT)
    assert told["unclean.leader.election.enable"] == ("true", ConfigSource.OURS)
    old = effective_configs({}, Releases((2, 8), (3, 0)), cluster={}, ours={})
    assert "compression.zstd.level" not in {config.name for config in old}
