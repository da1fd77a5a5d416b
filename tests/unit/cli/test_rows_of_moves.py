"""The line of a move of the cluster's list, for people."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shunter.app.executor.under_way import move_row
from shunter.cli.execution.display import told_move, told_others
from shunter.drivers.admin.reassignments import PartitionReassignment
from shunter.model.partition import TopicPartition
from shunter.wire.reassignments import MoveDetail

TP = TopicPartition("mv", 2)


@pytest.mark.parametrize(
    ("move", "told"),
    [
        pytest.param(
            PartitionReassignment((1, 2), (2,), ()),
            "mv-2 [1] → [1, 2] (forward, moving)",
            id="a step of Shunter's that an Apache controller goes on with",
        ),
        pytest.param(
            PartitionReassignment((1, 2), (2,), (1,)),
            "mv-2 [1] → [2] (forward, moving)",
            id="a move of an Apache controller",
        ),
        pytest.param(
            PartitionReassignment(
                (1, 2), (), (2,), MoveDetail((1,), (2,), "rolling_back", "waits for broker 1", (1, 2))
            ),
            "mv-2 [1, 2] → [1] (back, rolling back): waits for broker 1",
            id="a move of Shunter's controller",
        ),
    ],
)
def test_a_move_is_told_in_a_line(move: PartitionReassignment, told: str) -> None:
    assert told_move(move_row(TP, move, {})) == told


def test_moves_are_summed_up_with_the_price_of_a_rollback() -> None:
    move = PartitionReassignment((2, 3, 4), (4,), (2,), MoveDetail((1, 2), (3, 4), "moving", "", (2, 3, 4)))
    row = move_row(TP, move, {(2, TP): 10, (3, TP): 10, (4, TP): 4})
    assert (row.current, row.step, row.total_bytes, row.copied_bytes, row.rollback_bytes) == (
        (2, 3),
        (2, 3, 4),
        10,
        4,
        10,
    )
    assert told_others([row]) == (
        "1 move is under way that the journal does not have: 4 B of 10 B; a rollback copies 10 B"
    )
    told = "2 moves are under way that the journal does not have: 8 B of 20 B; 1 can't end now"
    assert told_others([row, replace(row, stuck="it can't end without broker 5")]) == told
