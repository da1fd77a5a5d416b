"""One line of a log that programs read: when, what kind, from which cause, and the facts of that kind."""

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
