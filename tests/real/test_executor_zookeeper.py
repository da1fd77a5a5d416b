"""The same executor on a real ZooKeeper-mode cluster under Apache's own controller; kills by default on KRaft alone."""

from collections.abc import Iterator
from pathlib import Path

import executor_scenarios as scenarios
import pytest
from executor_scenarios import BROKERS, Yard
from tidying import Tidied
from yard import HELD_BACK

from lab.testbed.cluster import ZooKeeperCluster

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def apache(shared_apache: ZooKeeperCluster, tidied: Tidied) -> Iterator[ZooKeeperCluster]:
    with tidied(shared_apache.brokers, shared_apache.bootstrap):
        yield shared_apache


@pytest.fixture(scope="module")
def shared_apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperCluster]:
    folder = tmp_path_factory.mktemp("apache")
    with ZooKeeperCluster(folder, broker_ids=BROKERS, heap_mib=192, properties=HELD_BACK) as cluster:
        yield cluster


@pytest.fixture
def yard(apache: ZooKeeperCluster, tmp_path: Path) -> Iterator[Yard]:
    made = Yard(apache.bootstrap, tmp_path)
    yield made
    made.close()


def test_a_plan_runs_to_its_end_and_nothing_acknowledged_is_lost(yard: Yard) -> None:
    scenarios.a_plan_runs_to_its_end(yard)


@pytest.mark.long
def test_what_was_done_is_undone(yard: Yard) -> None:
    scenarios.a_plan_runs_to_its_end(yard)
    scenarios.what_was_done_is_undone(yard)


@pytest.mark.long
@pytest.mark.parametrize("afterwards", ["resume", "rollback"])
@pytest.mark.parametrize("deaths", [3, 10], ids=["three", "ten"])
def test_killed_at_random_moments_it_ends_in_the_target_or_the_original_order(
    yard: Yard, afterwards: str, deaths: int
) -> None:
    scenarios.killed_at_random_moments(yard, afterwards, deaths)


@pytest.mark.long
def test_a_broker_dies_and_returns_in_the_middle(apache: ZooKeeperCluster, yard: Yard) -> None:
    scenarios.a_broker_dies_and_returns(yard, apache.brokers[3].kill, apache.brokers[3].start)


@pytest.mark.long
def test_the_controller_dies_in_the_middle(apache: ZooKeeperCluster, yard: Yard) -> None:
    scenarios.the_controller_dies(yard, lambda id_: apache.brokers[id_].kill(), lambda id_: apache.brokers[id_].start())


@pytest.mark.long
def test_orders_come_from_other_shells_and_a_second_executor_is_refused(yard: Yard) -> None:
    scenarios.orders_come_from_other_shells(yard)
