"""Scopes on a real cluster, planned and executed in one command: leaders, offline replicas, wanted topic settings."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from executor_process import SHUNTER, Cluster, Shunter, leads_nothing, write_plan
from live_producer import fill

from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.app.exit_codes import ExitCode

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


class Small:
    """A topic of a few records, and commands about it."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        """Connect; the test makes the topic."""
        self.cluster = Cluster(bootstrap)
        self.topic = f"t{uuid4().hex[:8]}"
        self.shunter = Shunter(bootstrap, folder / "moves.journal")

    def make(self, assignment: dict[int, tuple[int, ...]]) -> None:
        wanted = {broker for replicas in assignment.values() for broker in replicas}
        wait_until(lambda: self.cluster.live() >= wanted, what="the brokers live", timeout_s=60)
        self.cluster.make(self.topic, assignment)
        wait_until(lambda: self.cluster.in_sync(self.topic), what="all are in sync", timeout_s=60)

    def do(self, *words: str, wanted: ExitCode = ExitCode.DONE) -> str:
        done = self.shunter.run(*words, "--yes", timeout_s=240)
        assert done.returncode == wanted, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def small(kraft: KRaftCluster, tmp_path: Path) -> Iterator[Small]:
    made = Small(kraft.bootstrap, tmp_path)
    yield made
    made.cluster.admin.delete_topics([made.topic])
    made.cluster.close()


def test_demoted_brokers_lead_nothing_and_no_byte_moves(small: Small) -> None:
    small.make({0: (1, 2), 1: (1, 3), 2: (2, 1), 3: (3, 2)})
    told = small.do("demote", "1")
    assert "0 replicas to copy" in told, told
    wait_until(lambda: leads_nothing(small.cluster, small.topic, 1), what="others lead", timeout_s=30)
    assert small.cluster.replicas(small.topic) == {0: (2, 1), 1: (3, 1), 2: (2, 1), 3: (3, 2)}
    small.do("demote", "1")
    assert small.cluster.replicas(small.topic) == {0: (2, 1), 1: (3, 1), 2: (2, 1), 3: (3, 2)}


def test_topics_come_where_they_are_wanted(small: Small, tmp_path: Path) -> None:
    small.make({0: (1, 2), 1: (2, 1)})
    wanted = tmp_path / "wanted.toml"
    wanted.write_text(f'["{small.topic[:5]}*"]\nreplication = 1\nbrokers = [3]\n')
    plan = ("plan", "--scope", "topics", "--wanted", str(wanted), "--execute")
    small.do(*plan)
    assert small.cluster.replicas(small.topic) == {0: (3,), 1: (3,)}
    assert "nothing is to be moved" in small.do(*plan)


def test_what_is_offline_gets_another_broker(kraft: KRaftCluster, small: Small) -> None:
    small.make({0: (1, 3), 1: (3, 2), 2: (1, 2)})
    alone = f"{small.topic}-alone"
    small.cluster.make(alone, {0: (3,)})
    kraft.nodes[3].kill()
    try:
        # Until its session ends, the cluster sometimes names the dead broker as its controller.
        listed = [small.shunter.look("list") for _time in range(4)]
        assert [done.returncode for done in listed] == [ExitCode.DONE] * 4
        unknown = "broker 3 does not tell its log dirs"  # It is named as live, and does not answer.
        assert all(done.stderr == "nothing moves\n" or done.stderr.startswith(unknown) for done in listed), listed
        wait_until(lambda: leads_nothing(small.cluster, small.topic, 3), what="its end", timeout_s=60)
        assert "broker 3 is fenced: nothing comes to it" in small.do("plan")
        told = small.do("plan", "--scope", "offline", "--execute", wanted=ExitCode.PARTLY)
        assert f"{alone}-0 stays where it is: all its replicas are offline" in told, told
        assert small.cluster.replicas(small.topic) == {0: (1, 2), 1: (1, 2), 2: (1, 2)}
    finally:
        kraft.nodes[3].start()
    small.cluster.admin.delete_topics([alone])
    wait_until(lambda: small.cluster.in_sync(small.topic), what="all are in sync again", timeout_s=60)


def test_beside_a_dead_broker_the_others_are_planned(kraft: KRaftCluster, small: Small) -> None:
    small.make({0: (3, 1), 1: (1, 3), 2: (1, 2), 3: (3, 2)})
    kraft.nodes[3].kill()
    try:
        wait_until(lambda: leads_nothing(small.cluster, small.topic, 3), what="its end", timeout_s=60)
        told = small.do("demote", "1", wanted=ExitCode.PARTLY)
        assert "broker 3 is fenced: it is put first nowhere" in told, told
        assert f"{small.topic}-0 is still led by broker 1" in told, told
        assert "no other replica can lead now" in told, told
        wait_until(lambda: small.cluster.leaders(small.topic)[2] == 2, what="broker 2 leads", timeout_s=30)
        assert small.cluster.replicas(small.topic) == {0: (3, 1), 1: (1, 3), 2: (2, 1), 3: (3, 2)}
        small.do("plan", "--scope", "change-replication", "--replication", "1", "--topics", small.topic, "--execute")
        left = small.cluster.replicas(small.topic)
        assert (left[0], left[1], left[3]) == ((1,), (1,), (2,)), "what was offline went first"
        told = small.do("plan", "--scope", "fill", "--brokers", "3", wanted=ExitCode.REFUSED)
        assert "broker 3 is fenced: it may receive nothing" in told
    finally:
        kraft.nodes[3].start()
    wait_until(lambda: small.cluster.in_sync(small.topic), what="all are in sync again", timeout_s=60)


def test_a_copy_that_waits_for_a_dead_broker_holds_up_no_other_and_a_rollback_ends_it(
    before_4_3: KRaftCluster, tmp_path: Path
) -> None:
    """Controllers before Kafka 4.3 end a step only when its whole target is in sync (KAFKA-19975)."""
    kraft, small = before_4_3, Small(before_4_3.bootstrap, tmp_path)
    small.make({0: (1, 2), 1: (2, 4)})
    kraft.nodes[1].kill()
    try:
        wait_until(lambda: leads_nothing(small.cluster, small.topic, 1), what="its end", timeout_s=60)
        plan = write_plan(tmp_path / "plan.json", small.topic, {0: (1, 3), 1: (3, 4)})
        running = small.shunter.start("execute", str(plan), "--yes", "--max-in", "1", "--relax-after", "3600")
        running.wait_for(lambda: small.cluster.replicas(small.topic)[1] == (3, 4), about="the other one goes on")
        running.wait_for(lambda: "stuck" in running.progress.get("held", ""), about="the first one is stuck")
        # Until the copy is in sync, a stop ends it too.
        running.wait_for(
            lambda: "; `shunter rollback`, given its name, ends it" in running.progress["held"], about="it is copied"
        )
        told = small.shunter.run("stop", "--yes")
        assert "can't end now" in told.stdout, told.stdout + told.stderr
        assert "rolled back; it is instant" in small.shunter.run("rollback", "--yes").stdout
        running.end(60)
        assert set(small.cluster.replicas(small.topic)[0]) == {1, 2}
        assert "offline replica (" in small.do("rebalance", "--dry-run")
        grow = ("plan", "--scope", "change-replication", "--replication", "3", "--topics", small.topic)
        assert "before Kafka 4.3 end no copy beside one, as this one;" in small.do(*grow, wanted=ExitCode.PARTLY)
    finally:
        kraft.nodes[1].start()
    wait_until(lambda: small.cluster.in_sync(small.topic), what="all are in sync again", timeout_s=60)


@pytest.fixture
def before_4_3(tmp_path: Path) -> Iterator[KRaftCluster]:
    with KRaftCluster(tmp_path / "older", node_ids=(1, 2, 3, 4), heap_mib=200, version="4.1.2") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def shelves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KRaftCluster]:
    """One broker with two log dirs."""
    folder = tmp_path_factory.mktemp("shelves")
    with KRaftCluster(folder, heap_mib=200, more_log_dirs=("other",)) as cluster:
        yield cluster


def test_log_dirs_are_balanced_and_emptied(shelves: KRaftCluster, tmp_path: Path) -> None:
    small = Small(shelves.bootstrap, tmp_path)
    try:
        small.make(dict.fromkeys(range(4), (1,)))
        fill(shelves.bootstrap, small.topic, 4, 40_000)
        other = shelves.nodes[1].folder / "other"

        def there() -> int:
            return len(list(other.glob(f"{small.topic}-*[0-9]")))

        assert there() == 2, "Kafka itself puts as many replicas into each"
        # This machine's disk may be nearly full.
        plan = ("plan", "--scope", "disks", "--execute", "--headroom-percent", "1")
        small.do(*plan, "--empty", f"1:{other}")
        assert there() == 0
        small.do(*plan)
        assert there() == 2
    finally:
        small.cluster.close()


def test_where_nothing_was_executed_the_cluster_itself_is_shown(kraft: KRaftCluster, tmp_path: Path) -> None:
    for verb, told in (
        ("status", "nothing was executed from here"),
        ("watch", "all moves have ended"),
    ):
        command = [*SHUNTER, verb, "--bootstrap-server", kraft.bootstrap]
        env = {**os.environ, "SHUNTER_STATE": str(tmp_path)}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == ExitCode.DONE, done.stderr
        assert told in done.stdout
        unknown = subprocess.run(
            [*command, "nosuch-0"], env=env, capture_output=True, text=True, timeout=90, check=False
        )
        assert unknown.returncode == ExitCode.REFUSED, unknown.stderr
        assert "nosuch-0: the cluster has no such partition" in unknown.stdout + unknown.stderr


def test_what_a_failed_log_dir_held_gets_another_broker(tmp_path: Path) -> None:
    """The log dir's broker is alive, and the replicas on its other log dir stay there."""
    other = tmp_path / "other"
    log_dirs = {3: {"log.dirs": f"{tmp_path / 'broker-3' / 'data'},{other}"}}
    with ZooKeeperCluster(tmp_path, broker_ids=(1, 2, 3), heap_mib=192, broker_properties=log_dirs) as cluster:
        small = Small(cluster.bootstrap, tmp_path)
        try:
            small.make(dict.fromkeys(range(4), (1, 3)))
            logs = f"{small.topic}-*[0-9]"
            wait_until(lambda: len(list(tmp_path.glob(f"broker-3/data/{logs}"))) == 2, what="logs in one", timeout_s=60)
            wait_until(lambda: len(list(other.glob(logs))) == 2, what="as many in the other", timeout_s=60)
            held = {int(path.name.rpartition("-")[2]) for path in other.glob(logs)}
            cluster.brokers[3].stop()
            shutil.rmtree(other)
            other.write_text("A log dir that is no folder has failed, to a broker.")
            cluster.brokers[3].start()
            wait_until(lambda: offline(small).keys() == held, what="the failure being told", timeout_s=90)
            small.do("plan", "--scope", "offline", "--execute")
            moved = {number: (1, 2) if number in held else (1, 3) for number in range(4)}
            assert small.cluster.replicas(small.topic) == moved
            wait_until(lambda: small.cluster.in_sync(small.topic), what="all are in sync again", timeout_s=60)
        finally:
            small.cluster.close()


def offline(small: Small) -> dict[int, list[int]]:
    """Replicas of the topic that are offline, by partition."""
    (found,) = small.cluster.admin.describe_topics([small.topic])
    return {
        part["partition_index"]: part["offline_replicas"] for part in found["partitions"] if part["offline_replicas"]
    }
