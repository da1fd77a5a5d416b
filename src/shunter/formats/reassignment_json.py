"""Plan files as Apache's kafka-reassign-partitions takes them, with Shunter's additions, such as a strategy.

`{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/d"]}]}`
Null or empty replicas cancel the move of that partition. `"strategy"` is "incremental" or "all-at-once".
`"original_replicas"` (KIP-236's name) are the replicas that the plan was made for. `"elect": true` asks for the first
replica to lead at the end; with the replicas that the partition has, that is all that the entry asks for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import orjson

from shunter.errors import FormatError
from shunter.formats.plan_sources import decode_proposals, is_of_cruise_control, plan_document
from shunter.formats.text_files import without_mark
from shunter.model.execution import MoveOrder
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import Strategy

VERSION = 1
ANY_LOG_DIR = "any"
_PLAN_KEYS = ("version", "partitions")
_ENTRY_KEYS = ("topic", "partition", "replicas", "log_dirs", "strategy", "original_replicas", "elect")
_STRATEGIES = {"incremental": Strategy.INCREMENTAL, "all-at-once": Strategy.ALL_AT_ONCE}
_STRATEGY_NAMES = {strategy: name for name, strategy in _STRATEGIES.items()}


def decode_plan(text: str | bytes, place: str) -> tuple[MoveOrder, ...]:
    """Read a plan, in its order; also one within the output of another tool (`plan_sources`).

    Args:
        text: The file.
        place: Its name, for messages.

    Raises:
        FormatError: not JSON, not a plan, or of a version that is not understood; the message names the entry and the
            rule.
    """
    written = plan_document(_text(text, place) if isinstance(text, bytes) else text, place)
    try:
        document = orjson.loads(written)
    except orjson.JSONDecodeError as error:
        raise FormatError(place, f"not JSON: {error}") from error
    _refuse_repeated_keys(written, place)
    if not isinstance(document, Mapping):
        raise FormatError(place, 'a plan is a JSON object: {"version": 1, "partitions": [...]}')
    if is_of_cruise_control(document):
        return decode_proposals(document, place)
    _known(document, _PLAN_KEYS, place)
    if document.get("version", VERSION) != VERSION:
        raise FormatError(place, f"plan version {document['version']!r} is not understood; {VERSION} is")
    if "partitions" not in document:
        raise FormatError(place, 'it has no "partitions": a plan is {"version": 1, "partitions": [...]}')
    partitions = document["partitions"]
    if not isinstance(partitions, list):
        raise FormatError(place, f"'partitions' is a list, not {type(partitions).__name__}")
    return tuple(_order(entry, f"{place}, partition {index}") for index, entry in enumerate(partitions))


def _text(raw: bytes, place: str) -> str:
    """A file's text: JSON's own error would not say where a byte is that is not UTF-8."""
    try:
        unmarked = without_mark(raw)
        return unmarked.decode()
    except UnicodeDecodeError as error:
        at = error.start + (len(raw) - len(unmarked) if error.encoding == "utf-8" else 0)
        told = f"byte 0x{error.object[error.start]:02x} at offset {at} is not {error.encoding.upper()}"
        raise FormatError(place, f"not JSON: {told}; write the file as UTF-8") from error


def _refuse_repeated_keys(text: str, place: str) -> None:
    """Refuse a key that comes twice in one object: its first value would be ignored without a word."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise FormatError(f"{place}{_named(dict(pairs))}", f"key {key!r} comes twice; remove one of them")
            found[key] = value
        return found

    try:
        json.loads(text, object_pairs_hook=once)
    except RecursionError as error:
        raise FormatError(
            place, "it is nested too deeply for a plan: a plan has lists of objects, no deeper"
        ) from error


def _named(entry: Mapping[str, Any]) -> str:
    """An entry's partition, to follow the file's name; "" for another object."""
    return f" ({entry['topic']}-{entry['partition']})" if {"topic", "partition"} <= entry.keys() else ""


def encode_plan(moves: Iterable[MoveOrder]) -> str:
    """Write a plan. A strategy, which Apache's tool would refuse, is written only if it is set."""
    return orjson.dumps({"version": VERSION, "partitions": [_entry(move) for move in moves]}).decode()


def _order(entry: object, place: str) -> MoveOrder:
    if not isinstance(entry, Mapping):
        raise FormatError(place, f"{entry!r} is no JSON object")
    _known(entry, _ENTRY_KEYS, place)
    topic, number = entry.get("topic"), entry.get("partition")
    if not isinstance(topic, str) or not topic:
        raise FormatError(place, f"topic {topic!r} is no name")
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise FormatError(place, f"partition {number!r} of topic {topic} is no number from 0")
    if "replicas" not in entry:
        raise FormatError(f"{place} ({topic}-{number})", 'it has no "replicas"; write null to cancel what moves it')
    replicas = _replicas(entry.get("replicas"), f"{place} ({topic}-{number})")
    log_dirs = _log_dirs(entry.get("log_dirs"), replicas, f"{place} ({topic}-{number})")
    name = entry.get("strategy")
    if name is not None and name not in _STRATEGIES:
        raise FormatError(place, f"strategy {name!r} is none of {', '.join(_STRATEGIES)}")
    strategy = None if name is None else _STRATEGIES[str(name)]
    planned_from = _replicas(entry.get("original_replicas"), f"{place} ({topic}-{number}), original_replicas")
    elect = entry.get("elect", False)
    if not isinstance(elect, bool) or (elect and not replicas):
        raise FormatError(
            place, f"elect {elect!r} of {topic}-{number} is not true or false, for an entry with replicas"
        )
    return MoveOrder(TopicPartition(topic, number), replicas, strategy, log_dirs, planned_from, elect)


def _known(document: Mapping[str, Any], keys: Sequence[str], place: str) -> None:
    """Refuse an unknown key: it is probably misspelt, and its value would be ignored without a word."""
    unknown = [key for key in document if key not in keys]
    if unknown:
        near = get_close_matches(unknown[0], keys, 1)
        meant = f"; {near[0]!r} is one" if near else f"; {', '.join(keys)} are"
        raise FormatError(place, f"{unknown[0]!r} is no key of a plan{meant}")


def _replicas(value: object, place: str) -> Replicas:
    if value is None:
        return ()
    if not isinstance(value, list) or any(not isinstance(item, int) or isinstance(item, bool) for item in value):
        raise FormatError(place, f"replicas {value!r} are no list of broker ids")
    return tuple(value)


def _log_dirs(value: object, replicas: Replicas, place: str) -> tuple[tuple[int, str], ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or any(not isinstance(item, str) for item in value):
        raise FormatError(place, f"log_dirs {value!r} are no list of paths")
    if len(value) != len(replicas):
        raise FormatError(
            place,
            f"log_dirs has {len(value)} entries, and replicas {len(replicas)}: each replica has a log dir, or 'any'",
        )
    for path in value:
        if path != ANY_LOG_DIR and not path.startswith("/"):
            raise FormatError(place, f"log dir {path!r} is not absolute; write 'any' for any")
    return tuple((broker, path) for broker, path in zip(replicas, value, strict=True) if path != ANY_LOG_DIR)


def _entry(move: MoveOrder) -> dict[str, Any]:
    entry: dict[str, Any] = {"topic": move.tp.topic, "partition": move.tp.partition}
    entry["replicas"] = list(move.target) or None
    if move.log_dirs:
        paths = dict(move.log_dirs)
        entry["log_dirs"] = [paths.get(broker, ANY_LOG_DIR) for broker in move.target]
    if move.strategy is not None:
        entry["strategy"] = _STRATEGY_NAMES[move.strategy]
    if move.planned_from:
        entry["original_replicas"] = list(move.planned_from)
    if move.elect:
        entry["elect"] = True
    return entry
