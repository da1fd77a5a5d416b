"""Topic configurations that no broker can read. While ZooKeeper has one, no broker can start.

A starting broker parses the configuration of every topic (`LogManager.fetchTopicConfigOverrides`,
`LogConfig.fromProps`), and an exception there ends its process. A running broker can't make such a topic's log, and
the LeaderAndIsr that asks for it fails as a whole. The few names here stand for all. Other tests compare the full
table with real brokers.

Source: Apache Kafka 3.9, `LogConfig`, `ConfigDef.parseType`, `ReplicaManager.makeLeaders`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


def _number(least: int, most: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return least <= int(text.strip()) <= most
        except ValueError:
            return False

    return check


_INT, _LONG = (1 << 31) - 1, (1 << 63) - 1
_READERS: Mapping[str, Callable[[str], bool]] = {
    "retention.ms": _number(-1, _LONG),
    "segment.bytes": _number(14, _INT),
    "min.insync.replicas": _number(1, _INT),
    "max.message.bytes": _number(0, _INT),
    "unclean.leader.election.enable": lambda text: text.strip().lower() in {"true", "false"},
    "cleanup.policy": lambda text: all(each.strip() in {"compact", "delete"} for each in text.split(",")),
}
POISONS: tuple[tuple[str, str], ...] = (
    ("retention.ms", "7d"),
    ("retention.ms", ""),
    ("retention.ms", "9223372036854775808"),
    ("segment.bytes", "13"),
    ("segment.bytes", "2147483648"),
    ("max.message.bytes", "1e6"),
    ("cleanup.policy", "shred"),
    ("unclean.leader.election.enable", "yes"),
)


def is_poison(config: Mapping[str, str]) -> bool:
    """Whether a broker can't read a topic's configuration. A broker ignores unknown names."""
    return any(not readable(config[name]) for name, readable in _READERS.items() if name in config)
