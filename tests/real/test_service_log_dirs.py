"""Log dirs within brokers (JBOD) under the service, on a real cluster whose brokers have two each."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from executor_process import Cluster, Shunter
from live_producer import LiveProducer, fill
from serve_process import Service

from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.app.exit_codes import ExitCode

pytestmark = [pytest.mark.kraft, pytest.mark.long, pytest.mark.timeout(900)]

TOPIC = "heaped"
PARTITIONS = 4
SIZE = 2_000_000
# This machine's disk may be full, and a plan fills a log dir only up to the limit at which log-dir-full begins.
POLICY = """
[cluster.yard]
bootstrap-server = "{bootstrap}"
journal = "moves.journal"

[cluster.yard.balance]
headroom-percent = 0

[cluster.yard.conditions]
log-dir-band = {{ minutes = 0, begin-percent = 60, end-percent = 20 }}
disk-band = "off"
replicas-band = "off"
leaders-band = "off"
broker-empty = "off"
leaders-away = "off"
disk-full = "off"
log-dir-full = {{ do = "off", begin-percent = 99.9 }}

[cluster.yard.execution]
throttle = "50M"

[service]
look-seconds = 2
"""


@pytest.fixture
def shelves(tmp_path: Path) -> Iterator[KRaftCluster]:
    """Three nodes with two log dirs each."""
    with KRaftCluster(tmp_path, node_ids=(1, 2, 3), heap_mib=200, more_log_dirs=("other",)) as cluster:
        yield cluster


def test_uneven_log_dirs_are_proposed_and_balanced(shelves: KRaftCluster, service: Service, tmp_path: Path) -> None:
    (tmp_path / "keeper.toml").write_text(POLICY.format(bootstrap=shelves.bootstrap))

    def held(node: int, path: str) -> set[int]:
        """Partitions of the topic in a log dir."""
        logs = (shelves.nodes[node].folder / path).glob(f"{TOPIC}-*[0-9]")
        return {int(log.name.rpartition("-")[2]) for log in logs}

    with closing(Cluster(shelves.bootstrap)) as cluster:
        cluster.make(TOPIC, dict.fromkeys(range(PARTITIONS), (1, 2)))
        wait_until(lambda: cluster.in_sync(TOPIC), what="all are in sync", timeout_s=60)
        wait_until(lambda: len(held(1, "data")) == len(held(1, "other")) == 2, what="Kafka counts logs", timeout_s=60)
        # Kafka counts logs, not bytes: here all growing partitions are in one log dir.
        full = held(1, "data")
        fill(shelves.bootstrap, TOPIC, sorted(full), SIZE)
        service.start()
        with LiveProducer(shelves.bootstrap, TOPIC, PARTITIONS, every_s=0.05) as producer:
            done = service.carry_out("disks")
            assert done["moves"] >= 1
            assert done["leader_changes"] == 0
            service.wait_for_event("condition-over", "log-dir-band broker 1")
        here, there = held(1, "data"), held(1, "other")
        assert (here | there, here & there) == ({*range(PARTITIONS)}, set()), "each replica is in one of them"
        assert len(here & full) == len(there & full) == 1, "one of the two great replicas went over"
        assert cluster.replicas(TOPIC) == dict.fromkeys(range(PARTITIONS), (1, 2)), "no replica changed its broker"
        assert service.stop() == 0
        executor = Shunter(shelves.bootstrap, tmp_path / "moves.journal")
        undone = executor.run("undo", "--yes")
        assert undone.returncode == 0, undone.stderr
        assert held(1, "data") == full, "an undo brings replicas back to their log dirs"
        _roll_back_after_a_kill(executor, shelves, sorted(full))
        wait_until(lambda: held(1, "data") == full, what="its copies are given up", timeout_s=60)
        assert held(1, "other") == {*range(PARTITIONS)} - full
        assert producer.failures == []
        assert producer.missing() == {}
        assert cluster.throttles((1, 2, 3), (TOPIC,)) == {}


def _roll_back_after_a_kill(executor: Shunter, shelves: KRaftCluster, numbers: list[int]) -> None:
    """Move partitions of broker 1 slowly to its other log dir, kill the executor, and roll the moves back."""
    other = str(shelves.nodes[1].folder / "other")
    rows = [{"topic": TOPIC, "partition": number, "replicas": [1, 2], "log_dirs": [other, "any"]} for number in numbers]
    plan = executor.journal.with_name("plan.json")
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    running = executor.start("execute", str(plan), "--yes", "--log-dir-throttle", "20K")

    def copying() -> bool:
        return any((shelves.nodes[1].folder / "other").glob(f"{TOPIC}-*-future"))

    running.wait_for(copying, about="a copy is under way")
    _look_at_the_copies(executor, plan, other)
    running.kill()
    back = executor.run("rollback", "--yes")
    assert back.returncode == 0, (back.stdout, back.stderr)
    assert not copying(), "a copy that had not arrived is given up"


def _look_at_the_copies(executor: Shunter, plan: Path, other: str) -> None:
    """What looks say of copies between log dirs that are under way: a plan that names the log dirs is not reached.

    To a user without the journal they are another tool's. Their throttle is not one that was left behind.
    """
    verified = executor.look("verify", str(plan))
    assert verified.returncode == ExitCode.PARTLY, verified.stdout
    assert f"{TOPIC}-" in verified.stdout
    assert f" to {other}: " in verified.stdout, verified.stdout
    listed = executor.look("list").stdout
    assert "it is copied on broker 1 from " in listed, listed
    other_host = Shunter(executor.bootstrap, plan.with_name("elsewhere.journal"))
    examined = other_host.run("doctor").stdout
    assert "between log dirs of a broker" in examined, examined
    assert "`shunter throttles clear`" not in examined, examined
    refused = other_host.run("throttles", "clear")
    assert refused.returncode != ExitCode.DONE, "nobody can be asked, and the executor drives the cluster"
    planned = other_host.run("execute", str(plan), "--dry-run")
    assert "somebody else copies it on broker 1 from " in planned.stdout, (planned.stdout, planned.stderr)
