"""The picture of a cluster: what flows between brokers while moves run."""

from __future__ import annotations

from shunter.core.keeper.situation import ClusterFacts, unseen
from shunter.views.execution import ExecutionView, MoveRow
from shunter.views.keeper_picture import Surrounding, dressed
from shunter.views.service import FleetRow, FlowView, KeptClusterView


def row(state: str, direction: str, current: tuple[int, ...], step: tuple[int, ...] | None = None) -> MoveRow:
    """A move of a partition from brokers 0, 1, 2 to 3, 4, 2."""
    return MoveRow("t-0", state, direction, (0, 1, 2), current, (3, 4, 2), step, 1, "", "", 100, 60, 0)


def flows(*rows: MoveRow) -> tuple[FlowView, ...]:
    execution = ExecutionView(0, "c", "p", True, None, {}, 0, 0, None, None, None, None, "", 0, (), 0, 0, "", rows)
    page = KeptClusterView(1, FleetRow("lab", "c", unseen("lab")))
    return dressed(page, Surrounding(ClusterFacts("lab", 0), (), execution)).flows


def test_replicas_flow_from_where_they_go_to_where_they_come() -> None:
    begun = row("moving", "forward", (0, 1, 2, 3), (0, 1, 2, 3))
    assert flows(begun) == (FlowView(0, 3, 1, 1, 20), FlowView(1, 4, 1, 1, 20))
    half = row("moving", "forward", (1, 2, 3, 4), (1, 2, 3, 4))
    assert [(each.source, each.target) for each in flows(half)] == [(1, 4)], "the first replica has arrived"
    waits = row("pending", "forward", (0, 1, 2))
    assert flows(waits, waits)[0] == FlowView(0, 3, 2, 0, 40)
    assert flows(row("done", "forward", (3, 4, 2))) == ()


def test_a_rollback_flows_back() -> None:
    back = row("moving", "back", (3, 4, 2, 1), (3, 4, 2, 1))
    assert [(each.source, each.target) for each in flows(back)] == [(3, 0), (4, 1)]
