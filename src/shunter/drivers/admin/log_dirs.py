"""Log dirs of brokers: reads their contents, and moves replicas between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from shunter.drivers.admin.answers import code_of
from shunter.errors import ErrorCode
from shunter.model.broker import CONTROLLERS_LOG_DIR
from shunter.model.execution import LogDirSpace, ReplicaSize
from shunter.model.partition import BrokerId, TopicPartition

Told = TypeVar("Told")


class LogDirsSeen(NamedTuple):
    """Sizes of replicas, future replicas, space, the brokers that answered, and why the others (`failed`) did not."""

    sizes: dict[tuple[BrokerId, TopicPartition], ReplicaSize]
    futures: dict[tuple[BrokerId, TopicPartition], ReplicaSize]
    spaces: dict[tuple[BrokerId, str], LogDirSpace]
    broken: dict[BrokerId, tuple[str, ...]]
    """Log dirs that have failed, of brokers that answered and have such."""
    brokers: tuple[BrokerId, ...]
    failed: tuple[tuple[BrokerId, str], ...] = ()


async def gather_log_dirs(
    brokers: Iterable[BrokerId],
    ask: Callable[[BrokerId], Awaitable[Told | str]],
    take: Callable[[LogDirsSeen, BrokerId, Told], None],
) -> LogDirsSeen:
    """Ask brokers for their log dirs, all at the same time.

    Args:
        brokers: The brokers to ask.
        ask: Returns a broker's answer, or as a text why there is none.
        take: Adds a broker's answer to the result.
    """
    asked = sorted(brokers)
    seen = LogDirsSeen({}, {}, {}, {}, ())
    answered: list[BrokerId] = []
    failed: list[tuple[BrokerId, str]] = []
    for broker, answer in zip(asked, await asyncio.gather(*map(ask, asked)), strict=True):
        if isinstance(answer, str):
            failed.append((broker, answer))
        else:
            take(seen, broker, answer)
            answered.append(broker)
    return seen._replace(brokers=tuple(answered), failed=tuple(failed))


def take_log_dirs(seen: LogDirsSeen, broker: BrokerId, log_dirs: Iterable[Mapping[str, Any]]) -> None:
    """Add a broker's answer about its log dirs."""
    for log_dir in log_dirs:
        path = str(log_dir["log_dir"])
        if log_dir["error_code"] != 0:
            seen.broken[broker] = (*seen.broken.get(broker, ()), path)
            continue
        seen.spaces[broker, path] = LogDirSpace(
            int(log_dir.get("total_bytes", -1)), int(log_dir.get("usable_bytes", -1)), bool(log_dir.get("is_cordoned"))
        )
        for topic in log_dir["topics"]:
            for partition in topic["partitions"]:
                tp = TopicPartition(str(topic["name"]), int(partition["partition_index"]))
                future = bool(partition["is_future_key"])
                size = ReplicaSize(int(partition["partition_size"]), path, future)
                (seen.futures if future else seen.sizes)[broker, tp] = size


def unlisted(
    replicas: Iterable[BrokerId], settled: Iterable[BrokerId], damaged: Iterable[BrokerId], holders: Iterable[BrokerId]
) -> tuple[BrokerId, ...]:
    """Replicas of a partition that lie on a failed log dir, though Kafka's metadata do not call them offline.

    KRaft's controller learns from the broker in which log dir a replica is. If the log dir fails before that, the
    controller does not know that the replica is offline.

    Args:
        replicas: All of the partition.
        settled: Replicas of it that are in sync, or being added or removed: these may have no log yet, or none any more.
        damaged: Brokers that answered, and of which a log dir has failed.
        holders: Brokers that list the partition in a working log dir.
    """
    known = {*settled, *holders}
    lost = {*damaged}
    return tuple(broker for broker in replicas if broker in lost and broker not in known)


def describe_log_dirs(
    client: Any, broker: BrokerId, partitions: Iterable[TopicPartition] | None
) -> list[dict[str, Any]]:
    """Ask one broker for its log dirs, and for some partitions (None: all) in them. Blocks.

    A Shunter controller has none.
    """
    topics: dict[str, list[int]] | None = None
    if partitions is not None:
        topics = {}
        for tp in partitions:
            topics.setdefault(tp.topic, []).append(tp.partition)
    answered = client.describe_log_dirs(topics, brokers=[broker])
    return [found for found in answered[0]["log_dirs"] if found["log_dir"] != CONTROLLERS_LOG_DIR]


def move_replicas(
    client: Any, replicas: Sequence[tuple[BrokerId, TopicPartition, str]]
) -> dict[tuple[BrokerId, TopicPartition], ErrorCode]:
    """Ask brokers to move replicas between their log dirs. Blocks."""
    asked = {(tp.topic, tp.partition, broker): path for broker, tp, path in replicas}
    return {
        (moved.broker_id, TopicPartition(moved.topic, moved.partition)): code_of(error)[0]
        for moved, error in client.alter_replica_log_dirs(asked).items()
    }
