"""The JSON of `kafka-reassign-partitions`, and the messages with which Apache 3.9's tool refuses it.

Source: Apache Kafka 3.9, `ReassignPartitionsCommand`: `parsePartitionReassignmentData`, `formatAsReassignmentJson`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from shunter.errors import ShunterError
from shunter.model.partition import BrokerId, Replicas, TopicPartition

ANY_LOG_DIR = "any"


class PlanRefused(ShunterError):
    """The tool's input can't be used; the message is what Apache's tool says, where it says anything."""


class AskedFor(NamedTuple):
    """A reassignment JSON: partitions in its order (None: null replicas), and the log dirs that are not 'any'."""

    partitions: tuple[tuple[TopicPartition, Replicas | None], ...]
    log_dirs: Mapping[tuple[BrokerId, TopicPartition], str]


def parse_reassignment(text: str) -> AskedFor:
    """Read a reassignment JSON; repeats are left in it.

    Raises:
        PlanRefused: it can't be read.
    """
    document = _object(_parsed(text), "the document")
    _check_version(document)
    partitions: list[tuple[TopicPartition, Replicas | None]] = []
    log_dirs: dict[tuple[BrokerId, TopicPartition], str] = {}
    for entry in _list(document.get("partitions", []), "partitions"):
        fields = _object(entry, "an entry of partitions")
        tp = TopicPartition(_typed(fields, "topic", str), _typed(fields, "partition", int))
        replicas = _replicas(fields, tp)
        partitions.append((tp, replicas))
        named = fields.get("log_dirs")
        if named is None or replicas is None:
            continue
        paths = _list(named, "log_dirs")
        if len(paths) != len(replicas):
            told = f"[{', '.join(map(str, replicas))}] is different from size of log dirs list [{', '.join(paths)}]"
            raise PlanRefused(f"Size of replicas list {told} for partition {tp}")
        log_dirs.update(
            ((broker, tp), path) for broker, path in zip(replicas, paths, strict=True) if path != ANY_LOG_DIR
        )
    return AskedFor(tuple(partitions), log_dirs)


def parse_topics(text: str) -> tuple[str, ...]:
    """Read a topics-to-move JSON, in its order, repeats included.

    Raises:
        PlanRefused: it can't be read.
    """
    document = _object(_parsed(text), "the document")
    _check_version(document)
    entries = _list(document.get("topics", []), "topics")
    return tuple(_typed(_object(entry, "an entry of topics"), "topic", str) for entry in entries)


def format_reassignment(partitions: Mapping[TopicPartition, Replicas]) -> str:
    """Print a reassignment JSON as Apache's tool does: sorted, with a log dir of 'any' for each replica."""
    return orjson.dumps(
        {
            "version": 1,
            "partitions": [
                {
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "replicas": partitions[tp],
                    "log_dirs": [ANY_LOG_DIR] * len(partitions[tp]),
                }
                for tp in sorted(partitions)
            ],
        }
    ).decode()


def check_executable(asked: AskedFor, *, cancels: bool) -> None:
    """Refuse what can't be executed: nothing at all, repeats, and (unless they may cancel) empty replicas.

    Raises:
        PlanRefused: with Apache's sentence.
    """
    if not asked.partitions and not cancels:
        raise PlanRefused("Partition reassignment list cannot be empty")
    if not cancels and any(not replicas for _, replicas in asked.partitions):
        raise PlanRefused("Partition replica list cannot be empty")
    repeated = _repeats(tp for tp, _ in asked.partitions)
    if repeated:
        told = ",".join(map(str, repeated))
        raise PlanRefused(f"Partition reassignment contains duplicate topic partitions: {told}")
    doubled = [(tp, _repeats(replicas or ())) for tp, replicas in asked.partitions]
    told = ". ".join(
        f"{tp} contains multiple entries for {','.join(map(str, brokers))}" for tp, brokers in doubled if brokers
    )
    if told:
        raise PlanRefused(f"Partition replica lists may not contain duplicate entries: {told}")


def _repeats(items: Iterable[Any]) -> list[Any]:
    seen: dict[Any, int] = {}
    for item in items:
        seen[item] = seen.get(item, 0) + 1
    return [item for item, count in seen.items() if count > 1]


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise PlanRefused(f"The input string is not a valid JSON: {error}") from None


def _check_version(document: Mapping[str, Any]) -> None:
    version = document.get("version", 1)
    if type(version) is not int:
        raise PlanRefused(f"Expected `Integer` value, received {orjson.dumps(version).decode()}")
    if version != 1:
        raise PlanRefused(f"Not supported version field value {version}")


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if type(value) is not dict:
        raise PlanRefused(f"Expected JSON object, received {orjson.dumps(value).decode()} as {what}")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if type(value) is not list:
        raise PlanRefused(f"Expected JSON array, received {orjson.dumps(value).decode()} as {what}")
    return value


def _typed(fields: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    if name not in fields:
        raise PlanRefused(f'No such field exists: `"{name}"`')
    value = fields[name]
    if type(value) is not kind:
        wanted = "String" if kind is str else "Integer"
        raise PlanRefused(f"Expected `{wanted}` value, received {orjson.dumps(value).decode()}")
    return value


def _replicas(fields: Mapping[str, Any], tp: TopicPartition) -> Replicas | None:
    if "replicas" not in fields:
        raise PlanRefused('No such field exists: `"replicas"`')
    if fields["replicas"] is None:
        return None
    replicas = _list(fields["replicas"], f"replicas of {tp}")
    for broker in replicas:
        if type(broker) is not int:
            raise PlanRefused(f"Expected `Integer` value, received {orjson.dumps(broker).decode()}")
    return tuple(replicas)
