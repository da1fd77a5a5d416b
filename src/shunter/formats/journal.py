"""The executor's journal rows: one JSON object per entry, versioned, with a checksum, both ways.

A row is `{"at": ms, "cause": "...", "kind": "step-begun", ...fields}`, with the CRC-32 of its text beside it.
Fields are the record's own, in lower case; a partition is `"topic-0"` with the number after the last dash.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from shunter.errors import FormatError
from shunter.model.execution import (
    BoundsChanged,
    Command,
    CommandKind,
    CommandTaken,
    CopySeen,
    CopySight,
    Direction,
    DirectionChanged,
    ElectionBegun,
    ExecutionClosed,
    ExecutionOptions,
    FloorRelaxed,
    JournalEntry,
    LimitChanged,
    MoveAccepted,
    MoveClosed,
    MovePaused,
    Order,
    Outcome,
    PlanAccepted,
    RateObserved,
    SizeObserved,
    StepAccepted,
    StepBegun,
    StepDropped,
    StepFinished,
    ThrottleKey,
    ThrottleRemembered,
    ThrottleRestored,
    ThrottleSet,
)
from shunter.model.limits import Window, read_window, write_window
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy

VERSION = 2

_KINDS: dict[str, type[Any]] = {
    "plan-accepted": PlanAccepted,
    "move-accepted": MoveAccepted,
    "step-begun": StepBegun,
    "step-accepted": StepAccepted,
    "step-finished": StepFinished,
    "step-dropped": StepDropped,
    "election-begun": ElectionBegun,
    "copy-seen": CopySeen,
    "direction-changed": DirectionChanged,
    "move-paused": MovePaused,
    "floor-relaxed": FloorRelaxed,
    "move-closed": MoveClosed,
    "throttle-remembered": ThrottleRemembered,
    "throttle-set": ThrottleSet,
    "throttle-restored": ThrottleRestored,
    "limit-changed": LimitChanged,
    "bounds-changed": BoundsChanged,
    "command-taken": CommandTaken,
    "rate-observed": RateObserved,
    "size-observed": SizeObserved,
    "execution-closed": ExecutionClosed,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


class JournalRow(NamedTuple):
    """An entry as it is stored. `checksum` is the CRC-32 of `body`; None: a topic's row without one."""

    sequence: int
    body: str
    checksum: int | None

    @property
    def fits(self) -> bool:
        """Whether the checksum is the body's."""
        return zlib.crc32(self.body.encode()) == self.checksum


def encode_line(entry: JournalEntry) -> JournalRow:
    """Write an entry as a row of the current version."""
    record = entry.record
    values = {name: _plain(value) for name, value in zip(record._fields, record, strict=True)}
    document = {"at": entry.at_ms, "cause": entry.cause, "kind": _NAMES[type(record)], **values}
    body = orjson.dumps(document).decode()
    return JournalRow(entry.sequence, body, zlib.crc32(body.encode()))


def decode_line(row: JournalRow, place: str) -> JournalEntry:
    """Read a row.

    Raises:
        FormatError: the checksum does not fit, the row is not a JSON object, or a field is missing or of another kind.
    """
    if not row.fits:
        raise FormatError(f"{place}, entry {row.sequence}", "the checksum does not fit: the entry was damaged")
    try:
        document = orjson.loads(row.body)
        kind = _KINDS[document["kind"]]
        record = kind(**{name: _READERS[kind, name](document[name]) for name in kind._fields if name in document})
        return JournalEntry(row.sequence, int(document["at"]), str(document["cause"]), record)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{place}, entry {row.sequence}", f"not a journal entry: {error!r}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, TopicPartition):
        return str(value)
    if isinstance(value, ThrottleKey):
        return [value.kind, value.name, value.setting]
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Strategy):
        return value.name.lower()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, ExecutionOptions):
        return options_to_json(value)
    if isinstance(value, Command):
        return command_to_json(value)
    if isinstance(value, Window):
        return write_window(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def options_to_json(options: ExecutionOptions) -> dict[str, Any]:
    """Options as a JSON object, one member for each field."""
    return {field.name: _plain(getattr(options, field.name)) for field in fields(options)}


def options_from_json(document: Mapping[str, Any]) -> ExecutionOptions:
    """Options from a JSON object. A missing option has its default; an unknown one, of a later version, is ignored."""
    known = {field.name for field in fields(ExecutionOptions)}
    values = {name: value for name, value in document.items() if name in known}
    if "strategy" in values:
        values["strategy"] = Strategy[str(values["strategy"]).upper()]
    if "orders" in values:
        values["orders"] = tuple(Order(order) for order in values["orders"])
    values["cordons"] = tuple((int(broker), str(value)) for broker, value in values.get("cordons", ()))
    if values.get("window") is not None:
        values["window"] = read_window(values["window"])
    return ExecutionOptions(**values)


def command_to_json(command: Command) -> dict[str, Any]:
    """An operator's order as a JSON object."""
    return {
        "kind": command.kind.value,
        "partitions": [str(tp) for tp in command.partitions],
        "bytes_per_s": command.bytes_per_s,
        "given_by": command.given_by,
        "brokers": list(command.brokers),
        "bounds": dict(command.bounds),
        **({"key": command.key} if command.key else {}),
        **({"force": True} if command.force else {}),
    }


def command_from_json(document: Mapping[str, Any]) -> Command:
    """An operator's order from a JSON object."""
    partitions = tuple(partition_from_text(text) for text in document.get("partitions", ()))
    rate = document.get("bytes_per_s")
    given_by = str(document.get("given_by", ""))
    brokers = _replicas(document.get("brokers", ()))
    bytes_per_s = None if rate is None else int(rate)
    bounds = tuple((str(name), int(value)) for name, value in document.get("bounds", {}).items())
    key, force = str(document.get("key", "")), _flag(document.get("force", False))
    return Command(CommandKind(document["kind"]), partitions, bytes_per_s, given_by, brokers, bounds, key, force)


def partition_from_text(text: str) -> TopicPartition:
    """`topic-0` as a partition; the number is what follows the last dash.

    Raises:
        ValueError: there is no dash, or no number after it.
    """
    topic, dash, number = text.rpartition("-")
    if not dash or not topic or not number.isdigit():
        raise ValueError(f"{text!r} is no partition: write topic-number, for instance orders-0")
    return TopicPartition(topic, int(number))


def _replicas(value: Any) -> tuple[int, ...]:
    return tuple(int(broker) for broker in value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is no truth value")
    return value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)


def _log_dirs(value: Any) -> tuple[tuple[int, str], ...]:
    return tuple((int(broker), str(path)) for broker, path in value)


def _key(value: Any) -> ThrottleKey:
    kind, name, setting = value
    return ThrottleKey(str(kind), str(name), str(setting))


def _strategy(value: Any) -> Strategy:
    return Strategy[str(value).upper()]


_BY_NAME: dict[str, Callable[[Any], Any]] = {
    "tp": partition_from_text,
    "topic_id": lambda value: None if value is None else UUID(str(value)),
    "original": _replicas,
    "target": _replicas,
    "before": _replicas,
    "after": _replicas,
    "replicas": _replicas,
    "isr": _replicas,
    "placing": _replicas,
    "strategy": _strategy,
    "size_bytes": int,
    "copied_bytes": int,
    "bytes_per_s": lambda value: None if value is None else int(value),
    "number": int,
    "refused": int,
    "broker": int,
    "leader": int,
    "led_by": lambda value: None if value is None else int(value),
    "log_dirs": _log_dirs,
    "origins": _log_dirs,
    "bounds": lambda value: tuple((str(name), int(bound)) for name, bound in value),
    "adopted": _flag,
    "cancels": _flag,
    "paused": _flag,
    "left": _flag,
    "forgotten": _flag,
    "forced": _flag,
    "limited": _flag,
    "sized": _flag,
    "direction": Direction,
    "sight": CopySight,
    "outcome": Outcome,
    "key": _key,
    "value": _text_or_none,
    "command": command_from_json,
    "options": options_from_json,
    "reason": str,
    "plan_id": str,
    "cluster_id": str,
    "summary": str,
}
_READERS: dict[tuple[type[Any], str], Callable[[Any], Any]] = {
    (kind, name): _BY_NAME[name] for kind in _KINDS.values() for name in kind._fields
}
