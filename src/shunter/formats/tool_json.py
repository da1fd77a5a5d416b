"""The JSON of `kafka-reassign-partitions`, and the messages with which Apache 3.9's tool refuses it.

Source: Apache Kafka 3.9, `ReassignPartitionsCommand`: `parsePartitionReassignmentData`, `formatAsReassignmentJson`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

import orjson

from shunter.errors import FormatError, ShunterError
from shunter.formats.plan_sources import SeveralPlans, decode_proposals, is_of_cruise_control, plan_document
from shunter.model.partition import BrokerId, Replicas, TopicPartition

ANY_LOG_DIR = "any"
_INPUT = "the reassignment JSON file"


class ToolInputRefused(ShunterError):
    """The tool's input can't be used. The message is that of Apache's tool, if it has one."""


class AskedFor(NamedTuple):
    """A reassignment JSON: partitions in its order (None: null replicas), and the log dirs that are not 'any'."""

    partitions: tuple[tuple[TopicPartition, Replicas | None], ...]
    log_dirs: Mapping[tuple[BrokerId, TopicPartition], str]


def parse_reassignment(text: str, *, nulls: bool = False) -> AskedFor:
    """Read a reassignment JSON; repeats stay in it.

    Args:
        text: The file.
        nulls: Whether null replicas are taken, as KIP-455's draft has them.

    Raises:
        ToolInputRefused: it can't be read.
    """
    try:
        document = _object(_parsed(_meant(text)))
        if is_of_cruise_control(document):
            return AskedFor(tuple((each.tp, each.target) for each in decode_proposals(document, _INPUT)), {})
    except FormatError as error:
        raise ToolInputRefused(str(error)) from error
    _check_version(document)
    partitions: list[tuple[TopicPartition, Replicas | None]] = []
    log_dirs: dict[tuple[BrokerId, TopicPartition], str] = {}
    for entry in _array(document.get("partitions", []), "Expected JSON array"):
        fields = _object(entry)
        tp = TopicPartition(_text(_field(fields, "topic")), _integer(_field(fields, "partition")))
        named = _field(fields, "replicas")
        replicas = None if nulls and named is None else tuple(map(_integer, _decoded_list(named)))
        partitions.append((tp, replicas))
        if replicas is None or "log_dirs" not in fields:
            continue
        paths = [_text(path) for path in _decoded_list(fields["log_dirs"])]
        if len(paths) != len(replicas):
            told = f"[{', '.join(map(str, replicas))}] is different from size of log dirs list [{', '.join(paths)}]"
            raise ToolInputRefused(f"Size of replicas list {told} for partition {tp}")
        log_dirs.update(
            ((broker, tp), path) for broker, path in zip(replicas, paths, strict=True) if path != ANY_LOG_DIR
        )
    return AskedFor(tuple(partitions), log_dirs)


def _meant(text: str) -> str:
    """The plan within a tool's output. Text behind a plan that is no plan is passed over, as Apache's parser does."""
    try:
        return plan_document(text, _INPUT)
    except SeveralPlans:
        raise
    except FormatError:
        if text.lstrip().startswith("{"):
            return text
        raise


def parse_topics(text: str) -> tuple[str, ...]:
    """Read a topics-to-move JSON, in its order, repeats included.

    Raises:
        ToolInputRefused: it can't be read.
    """
    document = _object(_parsed(text))
    _check_version(document)
    entries = _array(document.get("topics", []), "Expected JSON array")
    return tuple(_text(_field(_object(entry), "topic")) for entry in entries)


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
    """Refuse input that can't be executed: an empty list, repeats, and (unless they may cancel) empty replicas.

    Raises:
        ToolInputRefused: with Apache's message.
    """
    if not asked.partitions and not cancels:
        raise ToolInputRefused("Partition reassignment list cannot be empty")
    if not cancels and any(not replicas for _, replicas in asked.partitions):
        raise ToolInputRefused("Partition replica list cannot be empty")
    repeated = _repeats(tp for tp, _ in asked.partitions)
    if repeated:
        told = ",".join(map(str, repeated))
        raise ToolInputRefused(f"Partition reassignment contains duplicate topic partitions: {told}")
    doubled = [(tp, _repeats(replicas or ())) for tp, replicas in asked.partitions]
    told = ". ".join(
        f"{tp} contains multiple entries for {','.join(map(str, brokers))}" for tp, brokers in doubled if brokers
    )
    if told:
        raise ToolInputRefused(f"Partition replica lists may not contain duplicate entries: {told}")


def _repeats(items: Iterable[Any]) -> list[Any]:
    seen: dict[Any, int] = {}
    for item in items:
        seen[item] = seen.get(item, 0) + 1
    return [item for item, count in seen.items() if count > 1]


def _parsed(text: str) -> Any:
    """The document. Text behind it is passed over, as Apache's parser does."""
    if not text:
        raise ToolInputRefused("The input string shouldn't be empty")
    try:
        document, _end = _DECODER.raw_decode(text.lstrip(" \t\r\n"))
    except (ValueError, RecursionError) as error:
        raise ToolInputRefused(f"The input string is not a valid JSON: {error}") from None
    return document


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


_DECODER = json.JSONDecoder(parse_constant=_no_number)


def _printed(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _check_version(document: Mapping[str, Any]) -> None:
    version = _integer(document.get("version", 1))
    if version != 1:
        raise ToolInputRefused(f"Not supported version field value {version}")


def _object(value: Any) -> Mapping[str, Any]:
    if type(value) is not dict:
        raise ToolInputRefused(f"Expected JSON object, received {_printed(value)}")
    return value


def _array(value: Any, told: str) -> list[Any]:
    if type(value) is not list:
        raise ToolInputRefused(f"{told}, received {_printed(value)}")
    return value


def _decoded_list(value: Any) -> list[Any]:
    return _array(value, "Expected `JSON array` value")


def _field(fields: Mapping[str, Any], name: str) -> Any:
    if name not in fields:
        raise ToolInputRefused(f"No such field exists: `{name}`")
    return fields[name]


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ToolInputRefused(f"Expected `String` value, received {_printed(value)}")
    return value


def _integer(value: Any) -> int:
    """A whole number of 32 bits: partition numbers and broker ids have no more."""
    if type(value) is not int or not -(2**31) <= value < 2**31:
        raise ToolInputRefused(f"Expected `Integer` value, received {_printed(value)}")
    return value
