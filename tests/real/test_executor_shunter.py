"""The same plan and the same commands against Shunter's own controller, whose tagged fields the executor uses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import executor_scenarios as scenarios
import pytest
from executor_scenarios import ORIGINAL, PARTITIONS, Yard

from lab.testbed.probes import zookeeper_get
from shunter.app.exit_codes import ExitCode
from shunter.formats.znodes import paths as znodes
from shunter.model.partition import TopicPartition

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def moves(yard: Any, tmp_path: Path) -> Iterator[Yard]:
    made = Yard(yard.bootstrap, tmp_path)
    yield made
    made.close()


def test_a_plan_runs_to_its_end_and_nothing_acknowledged_is_lost(moves: Yard) -> None:
    scenarios.a_plan_runs_to_its_end(moves)


@pytest.mark.parametrize("afterwards", ["resume", "rollback"])
def test_killed_at_random_moments_it_ends_in_the_target_or_the_original_order(moves: Yard, afterwards: str) -> None:
    scenarios.killed_at_random_moments(moves, afterwards, 3)


def test_orders_come_from_other_shells_and_a_second_executor_is_refused(moves: Yard) -> None:
    scenarios.orders_come_from_other_shells(moves)


def test_each_step_is_asked_for_all_at_once_for_the_executor_takes_the_steps(yard: Any, moves: Yard) -> None:
    running = moves.shunter.start("execute", moves.plan, "--yes", "--throttle", "100K")
    running.wait_for(lambda: running.progress["counts"].get("moving", 0) > 0, about="moves under way")

    def records() -> list[bytes]:
        """The controller's own records of the moves, as ZooKeeper has them."""
        paths = [znodes.reassignment(TopicPartition(moves.topic, number)) for number in range(PARTITIONS)]
        found = [zookeeper_get(yard.cluster.zookeeper_connect, path) for path in paths]
        return [record[0] for record in found if record is not None]

    running.wait_for(lambda: len(records()) > 0, about="the controller's records")
    assert all(b"all-at-once" in record.replace(b"_", b"-") for record in records()), records()
    assert moves.shunter.run("rollback", "--yes").returncode == ExitCode.DONE
    assert running.end() == ExitCode.TURNED
    moves.ended_in(ORIGINAL)
