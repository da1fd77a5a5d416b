"""Lines of the state-change log and of the audit log: one JSON object each, both ways.

`{"at": "2026-11-22T17:00:00.123Z", "kind": "decided", …facts}`; times are UTC. Fields may be added; a reader passes over
those that it does not know.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from shunter.errors import FormatError
from shunter.model.log_line import LogLine

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def time_text(at_ms: int) -> str:
    """Print a time, UTC, to the millisecond."""
    moment = _EPOCH + timedelta(milliseconds=at_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"


def read_time(text: str) -> int:
    """Read what `time_text` prints, or any ISO 8601 time that says its zone: milliseconds since the Unix epoch.

    Raises:
        ValueError: it is no such time.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} does not say its time zone")
    return (moment - _EPOCH) // _MILLISECOND


def encode_line(entry: LogLine, at: str | None = None) -> bytes:
    """Print an entry, without the end of the line. `at`: its time, if that is printed already."""
    document = {"at": time_text(entry.at_ms) if at is None else at, "kind": entry.kind, **entry.facts}
    return orjson.dumps(document, default=_plain)


def decode_line(line: bytes, place: str) -> LogLine:
    """Read a line.

    Raises:
        FormatError: it is not a line of these logs, or was cut off.
    """
    try:
        document: Any = orjson.loads(line)
        at, kind = document.pop("at"), document.pop("kind")
        if type(kind) is not str:
            raise FormatError(place, f"kind is {kind!r} where a text is expected")
        return LogLine(read_time(at), kind, document)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as refusal:
        raise FormatError(place, f"is no line of ours: {refusal}") from None


def _plain(value: object) -> object:
    """Convert named tuples and sets, which the encoder does not take by itself."""
    if isinstance(value, tuple):
        return list(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, set | frozenset):
        return sorted(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    raise TypeError(f"{type(value).__name__} has no place in a log")
