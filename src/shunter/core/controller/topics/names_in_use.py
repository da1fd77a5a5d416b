"""Names of topics that exist, or will when a draft is durable: their weight, and which names collide with them."""

from __future__ import annotations

from dataclasses import dataclass, field

from shunter.core.controller.state import ControllerState
from shunter.model.weights import name_weight


@dataclass(slots=True)
class NamesInUse:
    """Counts names only when it is asked, because most drafts create no topic."""

    state: ControllerState
    new: list[str] = field(default_factory=list[str])
    by_metric: dict[str, str] | None = None
    """All names, by their spelling in metrics."""
    weight: int | None = None
    """The weight of a list of all topics; None: not counted yet."""

    def add(self, name: str) -> None:
        """Note a topic that the draft creates."""
        self.new.append(name)
        if self.weight is not None:
            self.weight += name_weight(name)
        if self.by_metric is not None:
            self.by_metric[_in_metrics(name)] = name

    def weight_with(self, name: str) -> int:
        """The weight of a list of all topics and one more."""
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
