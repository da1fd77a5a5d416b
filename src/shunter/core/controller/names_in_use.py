"""Names of topics that exist, or will when a draft is durable: how much they weigh, and which names collide with them."""

from __future__ import annotations

from dataclasses import dataclass, field

from shunter.core.controller.state import ControllerState
from shunter.model.weights import name_weight


@dataclass(slots=True)
class NamesInUse:
    """Counts only when it is asked: most drafts make no topic."""

    state: ControllerState
    new: list[str] = field(default_factory=list[str])
    by_metric: dict[str, str] | None = None
    """All names by how metrics spell them."""
    weight: int | None = None
    """What a list of all topics weighs."""

    def add(self, name: str) -> None:
        """Note a topic that the draft makes."""
        self.new.append(name)
        if self.weight is not None:
            self.weight += name_weight(name)
        if self.by_metric is not None:
            self.by_metric[_in_metrics(name)] = name

    def weight_with(self, name: str) -> int:
        """What a list of all topics would weigh with one more."""
        if self.weight is None:
            self.weight = sum(map(name_weight, (*self.state.topics, *self.new)))
        return self.weight + name_weight(name)

    def collision(self, name: str) -> str | None:
        """A topic whose name metrics would spell like this one; None: there is none."""
        if self.by_metric is None:
            self.by_metric = {_in_metrics(other): other for other in (*self.state.topics, *self.new)}
        return self.by_metric.get(_in_metrics(name))


def _in_metrics(name: str) -> str:
    return name.replace(".", "_")
