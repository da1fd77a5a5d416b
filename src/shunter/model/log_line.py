"""One line of a log that programs read: the time, the kind of event, and its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LogLine:
    """Something that happened.

    Attributes:
        at_ms: Milliseconds since the Unix epoch.
        kind: A stable name.
        facts: By field: texts, numbers, lists and objects of them, as JSON has them.
    """

    at_ms: int
    kind: str
    facts: Mapping[str, Any]
