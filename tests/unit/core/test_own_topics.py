"""Why a topic that a driver needs takes no write, and what ends that."""

import pytest

from shunter.core.own_topics import shortage
from shunter.model.execution import ObservedPartition

EVERYWHERE = (2, 3, 5)
UP = "see in its log why broker 2 or 5, which is up, is not in sync"


@pytest.mark.parametrize(
    ("isr", "leader", "min_isr", "live", "told"),
    [
        ((3,), 3, 2, {3}, "topic j has 1 of 2 needed replicas in sync (3 of 2,3,5); start broker 2 or 5"),
        ((3,), 3, 2, {1, 3, 5}, "topic j has 1 of 2 needed replicas in sync (3 of 2,3,5); start broker 2"),
        ((3,), 3, 3, {3}, "topic j has 1 of 3 needed replicas in sync (3 of 2,3,5); start broker 2 and 5"),
        ((3,), 3, 2, {2, 3, 5}, f"topic j has 1 of 2 needed replicas in sync (3 of 2,3,5); {UP}"),
        ((3,), -1, 1, {2, 5}, "topic j has no leader (3 of 2,3,5); start broker 3"),
        ((), -1, 1, {1}, "topic j has no leader (none of 2,3,5); start broker 2 or 3 or 5"),
        ((2, 3), 3, 2, {3}, "None"),
        ((2, 3, 5), 3, 4, {3}, "None"),
    ],
)
def test_why_it_takes_no_write(isr: tuple[int, ...], leader: int, min_isr: int, live: set[int], told: str) -> None:
    assert str(shortage("topic j", ObservedPartition(EVERYWHERE, isr, leader), min_isr, live)) == told
