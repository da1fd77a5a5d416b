"""The executor on the newest Kafka: what its controllers do differently from older ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import executor_scenarios as scenarios
import pytest
from executor_scenarios import BROKERS, ORIGINAL, Yard
from yard import HELD_BACK

from lab.testbed.kraft import KRaftCluster
from shunter.app.exit_codes import ExitCode

pytestmark = [pytest.mark.real, pytest.mark.kraft, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KRaftCluster]:
    folder = tmp_path_factory.mktemp("newest")
    with KRaftCluster(folder, node_ids=BROKERS, heap_mib=200, properties=HELD_BACK) as cluster:
        yield cluster


@pytest.mark.parametrize(("verb", "status"), [(("rollback", "--yes"), ExitCode.DONE), (("stop",), ExitCode.TURNED)])
def test_a_copy_under_way_is_turned_and_the_execution_ends(
    newest: KRaftCluster, tmp_path: Path, verb: tuple[str, ...], status: ExitCode
) -> None:
    """Kafka 4.3.1 and 4.4.0 never end a reassignment whose additions another target drops."""
    yard = Yard(newest.bootstrap, tmp_path)
    with yard.producer() as producer:
        running = yard.shunter.start("execute", yard.plan, "--yes", "--throttle", "200K")
        running.wait_for(lambda: yard.cluster.ongoing() > 0, about="moves under way")
        turned = yard.shunter.run(*verb)
        assert turned.returncode == ExitCode.DONE, turned.stdout + turned.stderr
        code = running.end(120)
    assert code in (status, ExitCode.TURNED), running.lines[-3:]
    yard.ended_in(ORIGINAL)
    scenarios.nothing_is_lost(producer)
    yard.close()
