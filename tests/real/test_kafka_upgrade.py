"""An execution goes on while brokers roll from Kafka 4.1 to 4.4, and while `metadata.version` is raised after that."""

import re
from contextlib import closing
from pathlib import Path

import executor_scenarios as scenarios
import pytest
from executor_scenarios import BROKERS, PARTITIONS, TARGET, Yard

from lab.testbed.artifacts import KRAFT_VERSION
from lab.testbed.kraft import KRaftCluster
from lab.testbed.tools import FEATURES, kafka_tool
from lab.testbed.waiting import wait_until
from shunter.app.exit_codes import ExitCode

pytestmark = [pytest.mark.long, pytest.mark.kraft, pytest.mark.timeout(900)]

OLDER = "4.1.2"
RELEASE = KRAFT_VERSION.rpartition(".")[0]


def features(kraft: KRaftCluster, *asked: str) -> str:
    done = kafka_tool(FEATURES, "--bootstrap-server", kraft.bootstrap, *asked, version=KRAFT_VERSION)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def in_force(kraft: KRaftCluster) -> str:
    """The `metadata.version` that is finalized, such as 4.1-IV1."""
    (line,) = (line for line in features(kraft, "describe").splitlines() if "metadata.version" in line)
    found = re.search(r"FinalizedVersionLevel: (\S+)", line)
    assert found is not None, line
    return found.group(1)


def test_brokers_roll_to_the_newest_kafka_and_its_version_comes_in_force_in_the_middle(tmp_path: Path) -> None:
    with (
        KRaftCluster(tmp_path, node_ids=BROKERS, version=OLDER, heap_mib=200) as kraft,
        closing(Yard(kraft.bootstrap, tmp_path)) as yard,
        yard.producer() as producer,
    ):
        running = yard.shunter.start("execute", yard.plan, "--yes", "--throttle", "10K")
        running.wait_for(lambda: yard.cluster.ongoing() == PARTITIONS, about="moves under way")

        def healthy() -> bool:
            """Each original replica that is still there is in sync again."""
            if yard.cluster.live() != set(BROKERS):
                return False
            (found,) = yard.cluster.admin.describe_topics([yard.topic])
            originals = {
                part["partition_index"]: scenarios.ORIGINAL[part["partition_index"]] for part in found["partitions"]
            }
            return all(
                {*originals[part["partition_index"]]} & {*part["replica_nodes"]} <= {*part["isr_nodes"]}
                for part in found["partitions"]
            )

        for node in kraft.nodes.values():
            node.stop()
            node.version = KRAFT_VERSION
            node.start()
            yard.reconnect()
            wait_until(healthy, what=f"{node.name} is in sync again", timeout_s=90)
        assert yard.cluster.ongoing() > 0, "all of that was in the middle"
        assert f"the Kafka of all brokers is {RELEASE}" in yard.shunter.run("doctor").stdout
        before = in_force(kraft)
        raised = features(kraft, "upgrade", "--release-version", RELEASE)
        wait_until(lambda: in_force(kraft) != before, what=f"{RELEASE} in force: {raised}", timeout_s=60)
        assert (before[:3], in_force(kraft)[:3]) == (OLDER[:3], RELEASE)
        assert yard.cluster.ongoing() > 0
        assert yard.shunter.run("limit", "20M").returncode == ExitCode.DONE
        assert running.end(240) == ExitCode.DONE, running.lines[-3:]
        kinds = {line["kind"] for line in running.lines if line["event"] == "notice"}
        assert {"broker-down", "broker-up"} <= kinds, kinds
        yard.ended_in(TARGET)
        producer.stop()
        scenarios.nothing_is_lost(producer)
