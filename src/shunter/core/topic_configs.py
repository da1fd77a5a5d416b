"""Validation of topics' configurations: names, types, ranges and relations, judged before anything is written.

A broker parses the configuration of every topic when it starts, and does not start if one value can't be parsed. So
no value is written that a broker of any release from the oldest in the cluster to 3.9 refuses.

Source: Kafka's `LogConfig` and `ConfigDef` of 2.8, 3.4 and 3.9; the sentences are Kafka's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from shunter.core.throttles import FOLLOWER_REPLICAS, LEADER_REPLICAS
from shunter.errors import ErrorCode, RequestRejected

Release: TypeAlias = tuple[int, int]
"""Such as (3, 9)."""
Value: TypeAlias = bool | int | float | str | tuple[str, ...]


class Releases(NamedTuple):
    """The known bounds of the live brokers' releases; the default: nothing is known."""

    oldest: Release = (2, 8)
    """No live broker is older."""
    newest: Release = (3, 9)
    """No live broker is newer."""


UNKNOWN_RELEASES: Final = Releases()


class ConfigSource(Enum):
    """Where a value of an effective configuration comes from."""

    TOPIC = "topic"
    CLUSTER = "cluster"
    """The brokers' dynamic default."""
    OURS = "ours"
    """This controller's settings."""
    DEFAULT = "default"


class EffectiveConfig(NamedTuple):
    """One setting of a topic, with its effective value."""

    name: str
    value: str
    source: ConfigSource


class ConfigType(Enum):
    """Kafka's types of values."""

    BOOLEAN = "BOOLEAN"
    INT = "INT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    LIST = "LIST"


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One name that a topic's configuration may have, with the rules for its value.

    `cluster` is the brokers' setting that has its default; None: there is none.
    """

    name: str
    kind: ConfigType
    default: str
    cluster: str | None
    least: int | None = None
    most: int | None = None
    words: tuple[str, ...] = ()
    since: Release = (2, 8)


_LONGEST = str(2**63 - 1)
_BITS: Final = {ConfigType.INT: 31, ConfigType.LONG: 63}
MIN_LAG: Final = "min.compaction.lag.ms"
MAX_LAG: Final = "max.compaction.lag.ms"
FORMAT_VERSION: Final = "message.format.version"
GZIP_LEVEL: Final = "compression.gzip.level"
REMOTE: Final = "remote.storage.enable"
COPY_DISABLE: Final = "remote.log.copy.disable"
DELETE_ON_DISABLE: Final = "remote.log.delete.on.disable"

_KEYS: Final = (
    ConfigKey("segment.bytes", ConfigType.INT, "1073741824", "log.segment.bytes", 14),
    ConfigKey("segment.ms", ConfigType.LONG, "604800000", "log.roll.ms", 1),
    ConfigKey("segment.jitter.ms", ConfigType.LONG, "0", "log.roll.jitter.ms", 0),
    ConfigKey("segment.index.bytes", ConfigType.INT, "10485760", "log.index.size.max.bytes", 4),
    ConfigKey("flush.messages", ConfigType.LONG, _LONGEST, "log.flush.interval.messages", 1),
    ConfigKey("flush.ms", ConfigType.LONG, _LONGEST, "log.flush.interval.ms", 0),
    ConfigKey("retention.bytes", ConfigType.LONG, "-1", "log.retention.bytes"),
    ConfigKey("retention.ms", ConfigType.LONG, "604800000", "log.retention.ms", -1),
    ConfigKey("max.message.bytes", ConfigType.INT, "1048588", "message.max.bytes", 0),
    ConfigKey("index.interval.bytes", ConfigType.INT, "4096", "log.index.interval.bytes", 0),
    ConfigKey("delete.retention.ms", ConfigType.LONG, "86400000", "log.cleaner.delete.retention.ms", 0),
    ConfigKey(MIN_LAG, ConfigType.LONG, "0", "log.cleaner.min.compaction.lag.ms", 0),
    ConfigKey(MAX_LAG, ConfigType.LONG, _LONGEST, "log.cleaner.max.compaction.lag.ms", 1),
    ConfigKey("file.delete.delay.ms", ConfigType.LONG, "60000", "log.segment.delete.delay.ms", 0),
    ConfigKey("min.cleanable.dirty.ratio", ConfigType.DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio", 0, 1),
    ConfigKey("cleanup.policy", ConfigType.LIST, "delete", "log.cleanup.policy", words=("compact", "delete")),
    ConfigKey("unclean.leader.election.enable", ConfigType.BOOLEAN, "false", "unclean.leader.election.enable"),
    ConfigKey("min.insync.replicas", ConfigType.INT, "1", "min.insync.replicas", 1),
    ConfigKey(
        "compression.type",
        ConfigType.STRING,
        "producer",
        "compression.type",
        words=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    ConfigKey(GZIP_LEVEL, ConfigType.INT, "-1", "compression.gzip.level", since=(3, 8)),
    ConfigKey("compression.lz4.level", ConfigType.INT, "9", "compression.lz4.level", 1, 17, since=(3, 8)),
    ConfigKey("compression.zstd.level", ConfigType.INT, "3", "compression.zstd.level", -131072, 22, since=(3, 8)),
    ConfigKey("preallocate", ConfigType.BOOLEAN, "false", "log.preallocate"),
    ConfigKey(FORMAT_VERSION, ConfigType.STRING, "3.0-IV1", None),
    ConfigKey(
        "message.timestamp.type",
        ConfigType.STRING,
        "CreateTime",
        "log.message.timestamp.type",
        words=("CreateTime", "LogAppendTime"),
    ),
    ConfigKey(
        "message.timestamp.difference.max.ms", ConfigType.LONG, _LONGEST, "log.message.timestamp.difference.max.ms", 0
    ),
    ConfigKey(
        "message.timestamp.before.max.ms",
        ConfigType.LONG,
        _LONGEST,
        "log.message.timestamp.before.max.ms",
        0,
        since=(3, 6),
    ),
    ConfigKey(
        "message.timestamp.after.max.ms",
        ConfigType.LONG,
        _LONGEST,
        "log.message.timestamp.after.max.ms",
        0,
        since=(3, 6),
    ),
    ConfigKey(LEADER_REPLICAS, ConfigType.LIST, "", None),
    ConfigKey(FOLLOWER_REPLICAS, ConfigType.LIST, "", None),
    ConfigKey("message.downconversion.enable", ConfigType.BOOLEAN, "true", "log.message.downconversion.enable"),
    ConfigKey(REMOTE, ConfigType.BOOLEAN, "false", None, since=(3, 0)),
    ConfigKey("local.retention.ms", ConfigType.LONG, "-2", "log.local.retention.ms", -2, since=(3, 0)),
    ConfigKey("local.retention.bytes", ConfigType.LONG, "-2", "log.local.retention.bytes", -2, since=(3, 0)),
    ConfigKey(COPY_DISABLE, ConfigType.BOOLEAN, "false", None, since=(3, 9)),
    ConfigKey(DELETE_ON_DISABLE, ConfigType.BOOLEAN, "false", None, since=(3, 9)),
)
"""In Kafka's order, which decides which error is reported if several values are wrong."""
CONFIG_KEYS: Final[Mapping[str, ConfigKey]] = {key.name: key for key in _KEYS}

_FORMAT_VERSIONS: Final[Mapping[str, int]] = {
    "0.8.0": 0, "0.8.1": 0, "0.8.2": 0, "0.9.0": 0, "0.10.0": 2, "0.10.1": 3, "0.10.2": 1, "0.11.0": 3, "1.0": 1,
    "1.1": 1, "2.0": 2, "2.1": 3, "2.2": 2, "2.3": 2, "2.4": 2, "2.5": 1, "2.6": 1, "2.7": 3, "2.8": 2, "3.0": 2,
    "3.1": 1, "3.2": 1, "3.3": 4, "3.4": 1, "3.5": 3, "3.6": 3, "3.7": 5, "3.8": 1, "3.9": 1,
}  # fmt: skip
"""Releases as `message.format.version` names them, and how many internal versions (-IV0, …) each had."""
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?")
_BETWEEN_ITEMS = re.compile(r"\s*,\s*", re.ASCII)
_THROTTLED = re.compile(r"([0-9]+:[0-9]+)?")
_TOLD_AT_MOST = 1_000
_BLANKS = "".join(map(chr, range(33)))
"""The characters that Java's `trim` removes."""


def check_topic_configs(
    configs: Mapping[str, str],
    releases: Releases,
    *,
    tiered: bool = False,
    cluster: Mapping[str, str] | None = None,
) -> None:
    """Refuse a configuration that a broker would refuse.

    Args:
        configs: The requested configuration.
        tiered: Whether the brokers have a remote storage system.
        cluster: The brokers' dynamic defaults, by the brokers' names; values that can't be parsed are passed over.

    Raises:
        RequestRejected: INVALID_CONFIG, with Kafka's sentence.
    """
    for name in sorted(configs):
        if name not in CONFIG_KEYS or CONFIG_KEYS[name].since > releases.newest:
            raise _refused(f"Unknown topic config name: {shortened(name)}")
    values = {key.name: parse(key, configs[key.name], releases.oldest) for key in _KEYS if key.name in configs}
    _check_relations({**_defaults(cluster or {}), **values}, tiered=tiered)


def effective_configs(
    configs: Mapping[str, str], releases: Releases, *, cluster: Mapping[str, str], ours: Mapping[str, str]
) -> tuple[EffectiveConfig, ...]:
    """List the effective configuration of a topic whose `configs` were checked; `ours` are this controller's settings.

    Only names that the newest broker may know are listed.
    """
    found: list[EffectiveConfig] = []
    for key in sorted(_KEYS, key=lambda each: each.name):
        if key.since > releases.newest:
            continue
        known = _from_cluster(key, cluster)
        if key.name in configs:
            text, source = written(parse(key, configs[key.name], releases.oldest)), ConfigSource.TOPIC
        elif known is not None:
            text, source = written(known), ConfigSource.CLUSTER
        elif key.name in ours:
            text, source = ours[key.name], ConfigSource.OURS
        else:
            text, source = key.default, ConfigSource.DEFAULT
        found.append(EffectiveConfig(key.name, text, source))
    return tuple(found)


def parse(key: ConfigKey, text: str, oldest: Release = (3, 9)) -> Value:
    """Read a value as Kafka does.

    Raises:
        RequestRejected: INVALID_CONFIG.
    """
    trimmed = text.strip(_BLANKS)
    if key.kind is ConfigType.BOOLEAN:
        if trimmed.lower() not in {"true", "false"}:
            raise _invalid(key, text, "Expected value to be either true or false")
        return trimmed.lower() == "true"
    if key.kind is ConfigType.LIST:
        return _parsed_list(key, trimmed)
    if key.kind is ConfigType.STRING:
        if key.words:
            _check_word(key, trimmed)
        if key.name == FORMAT_VERSION and _format_release(trimmed) > oldest:
            raise _invalid(key, trimmed, f"Version {shortened(trimmed)} is not a valid version")
        return trimmed
    return _parsed_number(key, text, trimmed)


def written(value: Value) -> str:
    """Print a value as Kafka does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _parsed_number(key: ConfigKey, text: str, trimmed: str) -> int | float:
    wanted = _DECIMAL if key.kind is ConfigType.DOUBLE else _WHOLE_NUMBER
    if len(trimmed) > 40 or not wanted.fullmatch(trimmed):
        raise _invalid(key, text, f"Not a number of type {key.kind.value}")
    if key.kind is ConfigType.DOUBLE:
        number: int | float = float(trimmed.rstrip("dDfF"))
    else:
        number = int(trimmed)
        bits = _BITS[key.kind]
        if not -(1 << bits) <= number < 1 << bits:
            raise _invalid(key, text, f"Not a number of type {key.kind.value}")
    if key.name == GZIP_LEVEL and number != -1 and not 1 <= number <= 9:
        raise _invalid(key, number, "Value must be between 1 and 9 or equal to -1")
    if key.least is not None and number < key.least:
        raise _invalid(key, number, f"Value must be at least {key.least}")
    if key.most is not None and number > key.most:
        raise _invalid(key, number, f"Value must be no more than {key.most}")
    return number


def _parsed_list(key: ConfigKey, trimmed: str) -> tuple[str, ...]:
    items = tuple(_BETWEEN_ITEMS.split(trimmed)) if trimmed else ()
    if key.words:
        for item in items:
            _check_word(key, item)
    elif not all(map(_THROTTLED.fullmatch, items)) and "".join(items) != "*":
        told = (
            f"{key.name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )
        raise _invalid(key, f"[{', '.join(items)}]", told)
    return items


def _check_word(key: ConfigKey, word: str) -> None:
    if word not in key.words:
        raise _invalid(key, word, f"String must be one of: {', '.join(key.words)}")


def _format_release(text: str) -> Release:
    """The release that a format version names; (99, 0), which never came, if it names none."""
    parts = text.split(".")
    release, _, internal = ".".join(parts[: 3 if text.startswith("0.") else 2]).partition("-IV")
    known = _FORMAT_VERSIONS.get(release)
    if known is None or ("-IV" in text and internal not in set(map(str, range(known)))):
        return (99, 0)
    major, minor, *_ = map(int, release.split("."))
    return major, minor


def _defaults(cluster: Mapping[str, str]) -> dict[str, Value]:
    known = {key.name: _from_cluster(key, cluster) for key in _KEYS} if cluster else {}
    return {**_DEFAULTS, **{name: value for name, value in known.items() if value is not None}}


def _from_cluster(key: ConfigKey, cluster: Mapping[str, str]) -> Value | None:
    if key.cluster is None or key.cluster not in cluster:
        return None
    try:
        return parse(key, cluster[key.cluster])
    except RequestRejected:
        return None


def _check_relations(values: Mapping[str, Value], *, tiered: bool) -> None:
    shortest, longest = values[MIN_LAG], values[MAX_LAG]
    if isinstance(shortest, int) and isinstance(longest, int) and shortest > longest:
        raise _refused(f"conflict topic config setting {MIN_LAG} ({shortest}) > {MAX_LAG} ({longest})")
    if values[COPY_DISABLE] or values[DELETE_ON_DISABLE]:
        raise _refused(f"It is invalid to set `{DELETE_ON_DISABLE}` or `{COPY_DISABLE}` under Zookeeper's mode.")
    if not values[REMOTE]:
        return
    if not tiered:
        told = "Tiered Storage functionality is disabled in the broker. "
        raise _refused(told + "Topic cannot be configured with remote log storage.")
    policy = values["cleanup.policy"]
    if isinstance(policy, tuple) and "compact" in policy:
        raise _refused("Remote log storage is unsupported for the compacted topics")
    for unit in ("bytes", "ms"):
        _check_local_retention(values, f"local.retention.{unit}", f"retention.{unit}")


def _check_local_retention(values: Mapping[str, Value], local: str, whole: str) -> None:
    kept, everything = values[local], values[whole]
    if not isinstance(kept, int) or not isinstance(everything, int) or everything < 0 or kept == -2:
        return  # The whole log is kept for ever; or -2: the local part is kept as long as the whole.
    if kept == -1:
        raise _invalid(CONFIG_KEYS[local], kept, f"Value must not be -1 as {whole} value is set as {everything}.")
    if kept > everything:
        raise _invalid(CONFIG_KEYS[local], kept, f"Value must not be more than {whole} property value: {everything}")


def shortened(text: str) -> str:
    """The part of a client's text that a sentence quotes: an answer of the older versions holds 32,767 bytes."""
    return text if len(text) <= _TOLD_AT_MOST else f"{text[:_TOLD_AT_MOST]}…"


def _invalid(key: ConfigKey, value: object, why: str) -> RequestRejected:
    return _refused(f"Invalid value {shortened(str(value))} for configuration {key.name}: {why}")


def _refused(told: str) -> RequestRejected:
    return RequestRejected(ErrorCode.INVALID_CONFIG, told)


_DEFAULTS: Final[Mapping[str, Value]] = {key.name: parse(key, key.default) for key in _KEYS}
