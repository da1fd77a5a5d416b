"""This node's dynamic configuration, as tools set it: kept in memory.

Tools set and clear replication throttles on EVERY node, this one too, and fail if that is refused. This node copies no
data, so the values have no effect here: they are kept to be shown, and are lost at the end of the process.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class OwnConfigs:
    """Names and values as set by AlterConfigs and IncrementalAlterConfigs."""

    values: dict[str, str] = field(default_factory=dict)

    def replace(self, values: dict[str, str]) -> None:
        """Replace all values by these."""
        self.values = dict(values)

    def apply(self, name: str, operation: int, value: str | None) -> None:
        """Carry out one operation of IncrementalAlterConfigs: 0 set, 1 delete, 2 append, 3 subtract."""
        if operation == 1:
            self.values.pop(name, None)
            return
        items = [item for item in self.values.get(name, "").split(",") if item]
        asked = [item for item in (value or "").split(",") if item]
        if operation == 0:
            self.values[name] = value or ""
        elif operation == 2:
            self.values[name] = ",".join([*items, *(item for item in asked if item not in items)])
        else:
            self.values[name] = ",".join(item for item in items if item not in asked)
