"""The number of moves under way, for `reassignment_max_concurrent` and its per-broker bound."""

from __future__ import annotations

from dataclasses import dataclass, field

from shunter.model.partition import BrokerId, Replicas


@dataclass(slots=True)
class Load:
    """How many moves are under way, in all and by receiving broker; counted once per draft."""

    total: int = 0
    by_broker: dict[BrokerId, int] = field(default_factory=dict[BrokerId, int])

    def add(self, brokers: Replicas, by: int = 1) -> None:
        """Count a move that begins (or, by -1, ends)."""
        self.total += by
        for broker in brokers:
            self.by_broker[broker] = self.by_broker.get(broker, 0) + by
