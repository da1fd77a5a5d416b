"""What a controller that leaves says about the moves that it can't end any more."""

from __future__ import annotations

from collections.abc import Iterator

from shunter.core.controller.state import ControllerState
from shunter.core.reassignment.left_behind import LeftMove, left_move, told_moves
from shunter.model.notice import Notice


def moves_left(state: ControllerState) -> list[Notice]:
    """The notice about moves that are not over; none if there are none. Cost: O(moves)."""
    left = sorted(_left(state))
    if not left:
        return []
    told = f"{told_moves(left)}. The next Shunter that leads goes on with them; `shunter hand-back` lists them"
    return [Notice("moves-left", "controller", told)]


def _left(state: ControllerState) -> Iterator[LeftMove]:
    legacy = frozenset[object]() if state.legacy is None else state.legacy.targets.keys()
    for tp, record in state.reassignments.items():
        topic, partition = state.topics.get(tp.topic), state.partition(tp)
        if topic is None or partition is None:
            continue
        left = left_move(tp, record, topic.topic_id, partition.assignment, by_legacy_znode=tp in legacy)
        if left is not None:
            yield left
