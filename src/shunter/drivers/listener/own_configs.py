"""This node's dynamic configuration, as tools set it: kept in memory.

Tools set and clear replication throttles on EVERY node, this one too, and fail if that is refused. This node copies no
data, so the values have no effect here: they are kept to be shown, and are lost at the end of the process. Other
settings are refused as a broker refuses those that can't be changed while it runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from shunter.core.throttles import FOLLOWER_RATE, LEADER_RATE, LOG_DIR_RATE
from shunter.errors import ErrorCode

SET, DELETE, APPEND, SUBTRACT = range(4)
"""Operations of IncrementalAlterConfigs."""
_ACCEPTED: Final = frozenset({LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE})
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_GREATEST: Final = 2**63 - 1


def refusal_of(values: Mapping[str, str]) -> str | None:
    """Say in a broker's words why these values can't be set on this node; None: they can."""
    fixed = [name for name in values if name not in _ACCEPTED]
    if fixed:
        return f"Cannot update these configs dynamically: Set({', '.join(fixed)})"
    for name, value in values.items():
        number = int(value) if len(value) < 99 and _WHOLE_NUMBER.fullmatch(value.strip()) else None
        if number is None or not -_GREATEST - 1 <= number <= _GREATEST:
            return f"Invalid value {value[:99]} for configuration {name}: Not a number of type LONG"
        if number < 0:
            return f"Invalid value {value} for configuration {name}: Value must be at least 0"
    return None


def refusal_of_operations(asked: Iterable[tuple[str, int, str | None]]) -> tuple[ErrorCode, str] | None:
    """Refuse operations (name, operation, value) with a broker's error and words; None: they can be carried out."""
    asked = tuple(asked)
    names = [name for name, _, _ in asked]
    if len(set(names)) < len(names):
        return ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"
    nulls = [name for name, operation, value in asked if operation != DELETE and value is None]
    if nulls:
        return ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}"
    told = refusal_of({name: value for name, operation, value in asked if operation != DELETE and value is not None})
    if told is not None:
        return ErrorCode.INVALID_REQUEST, told
    for name, operation, _ in asked:
        if operation in {APPEND, SUBTRACT}:
            verb = "append" if operation == APPEND else "subtract"
            return ErrorCode.INVALID_CONFIG, f"Config value {verb} is not allowed for config key: {name}"
    return None


@dataclass(slots=True)
class OwnConfigs:
    """Names and values as set by AlterConfigs and IncrementalAlterConfigs."""

    values: dict[str, str] = field(default_factory=dict)

    def replace(self, values: dict[str, str]) -> None:
        """Replace all values by these."""
        self.values = dict(values)

    def apply(self, name: str, operation: int, value: str | None) -> None:
        """Carry out one operation of IncrementalAlterConfigs that was not refused: set or delete."""
        if operation == DELETE:
            self.values.pop(name, None)
        elif value is not None:
            self.values[name] = value
