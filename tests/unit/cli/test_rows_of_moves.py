"""The line of a move under way, for people."""

from __future__ import annotations

import pytest

from shunter.app.reassign.session import MoveUnderWay
from shunter.cli.execution.rows import told_row
from shunter.model.partition import TopicPartition

TP = TopicPartition("mv", 2)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        pytest.param(
            MoveUnderWay(TP, (1, 2), (2,), (), (1, 2), (), "", ""),
            "mv-2: on [1, 2], adding [2], to [1, 2]",
            id="a step of Shunter's that an Apache controller goes on with",
        ),
        pytest.param(
            MoveUnderWay(TP, (1, 2), (2,), (1,), (2,), (), "", ""),
            "mv-2: on [1, 2], to [2]",
            id="a move of an Apache controller",
        ),
        pytest.param(
            MoveUnderWay(TP, (1, 2), (2,), (1,), (2,), (1,), "rolling_back", "waits for broker 1"),
            "mv-2: rolling back, on [1, 2], to [2] from [1]; waits for broker 1",
            id="a move of Shunter's controller",
        ),
    ],
)
def test_a_move_is_told_in_a_line(row: MoveUnderWay, told: str) -> None:
    assert told_row(row) == told
