"""Copies between log dirs (JBOD) and room on disks, on real brokers with two log dirs each."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from executor_process import Cluster, Shunter, write_plan
from kafka import KafkaAdminClient
from live_producer import fill

from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.app.exit_codes import ExitCode

pytestmark = [pytest.mark.kraft, pytest.mark.long, pytest.mark.timeout(600)]

SIZE = 2_000_000
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


class Shelves:
    """Broker 1 holds two filled partitions, which a plan moves to the log dir in which each is not."""

    def __init__(self, made: KRaftCluster, folder: Path) -> None:
        self.kraft, self.cluster, self.topic = made, Cluster(made.bootstrap), f"t{uuid4().hex[:8]}"
        self.cluster.make(self.topic, {0: (1,), 1: (1,)})
        fill(made.bootstrap, self.topic, [0, 1], SIZE)
        self.first = {number: self.place(number) for number in (0, 1)}
        self.other = {number: self.log_dirs[1 - self.log_dirs.index(path)] for number, path in self.first.items()}
        rows = [
            {"topic": self.topic, "partition": number, "replicas": [1], "log_dirs": [self.other[number]]}
            for number in (0, 1)
        ]
        self.plan = folder / "plan.json"
        self.plan.write_text(json.dumps({"version": 1, "partitions": rows}))
        self.shunter = Shunter(made.bootstrap, folder / "moves.journal")
        self.slow = ("execute", str(self.plan), "--yes", "--log-dir-throttle", "20K")

    @property
    def log_dirs(self) -> list[str]:
        return [str(self.kraft.nodes[1].folder / name) for name in ("data", "other")]

    def place(self, number: int) -> str:
        (found,) = (path for path in self.log_dirs if (Path(path) / f"{self.topic}-{number}").exists())
        return found

    def copies(self) -> list[int]:
        """Partitions that broker 1 copies from one of its log dirs to the other."""
        found = (log for path in self.log_dirs for log in Path(path).glob(f"{self.topic}-*-future"))
        return sorted(int(log.name.split("-")[1].split(".")[0]) for log in found)

    def untouched(self) -> None:
        """Each replica is where it was, nothing copies it, and no throttle is left."""
        wait_until(lambda: self.copies() == [], what="the copies are gone", timeout_s=30)
        assert {number: self.place(number) for number in (0, 1)} == self.first
        settings = self.shunter.look("throttles", "list").stdout
        assert LOG_DIR_RATE not in settings, settings


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KRaftCluster]:
    folder = tmp_path_factory.mktemp("shelves")
    with KRaftCluster(folder, node_ids=(1, 2), heap_mib=200, more_log_dirs=("other",)) as made:
        yield made


@pytest.fixture
def shelves(yard: KRaftCluster, tmp_path: Path) -> Iterator[Shelves]:
    found = Shelves(yard, tmp_path)
    with closing(found.cluster):
        yield found


def test_they_keep_bounds_and_end_at_a_stop(shelves: Shelves) -> None:
    executor = shelves.shunter
    planned = executor.run("execute", str(shelves.plan), "--dry-run", "--log-dir-throttle", "20K")
    assert "from another log dir; rollback copies" in planned.stdout, planned.stdout
    running = executor.start(*shelves.slow, "--max-in", "1")
    running.wait_for(lambda: len(shelves.copies()) == 1, about="a copy is under way")
    told = "waits for its turn: broker 1 receives 1 copy, the bound is 1"
    running.wait_for(lambda: told in executor.run("status").stdout, about="the other one is told to wait")
    stopped = executor.run("stop")
    assert stopped.returncode == ExitCode.DONE, stopped.stderr
    assert "1 copy between log dirs is given up" in stopped.stdout, stopped.stdout
    assert running.end() == ExitCode.TURNED, running.lines[-3:]
    shelves.untouched()


def test_a_stop_after_a_kill_has_only_the_journal(shelves: Shelves) -> None:
    executor = shelves.shunter
    running = executor.start(*shelves.slow)
    running.wait_for(lambda: shelves.copies() == [0, 1], about="both copies are under way")
    running.kill()
    assert shelves.copies() == [0, 1]
    stopped = executor.run("stop")
    assert stopped.returncode in (ExitCode.DONE, ExitCode.TURNED), (stopped.stdout, stopped.stderr)
    shelves.untouched()


def test_another_tools_cancel_holds(shelves: Shelves) -> None:
    executor = shelves.shunter
    running = executor.start(*shelves.slow)
    running.wait_for(lambda: shelves.copies() == [0, 1], about="both copies are under way")
    running.wait_for(lambda: _journal(executor).count("copy-seen") == 2, about="the journal has them")
    with closing(KafkaAdminClient(bootstrap_servers=shelves.kraft.bootstrap)) as admin:
        admin.alter_replica_log_dirs({(shelves.topic, 0, 1): shelves.first[0]})
    running.wait_for(
        lambda: any(line.get("kind") == "copy-cancelled" for line in running.lines), about="the cancel being seen"
    )
    assert shelves.copies() == [1], "the other one goes on"
    stopped = executor.run("stop", f"{shelves.topic}-1")
    assert stopped.returncode == ExitCode.DONE, stopped.stderr
    running.end()
    told = executor.run("history", "--moves").stdout
    assert "somebody else cancelled its copy to another log dir of broker 1" in told, told
    shelves.untouched()


def test_a_move_without_room_waits_and_says_why(shelves: Shelves, tmp_path: Path) -> None:
    """Every disk is in use by more than a hundredth, so nothing fits under that share."""
    executor = shelves.shunter
    order = write_plan(tmp_path / "order.json", shelves.topic, {0: (2,)})
    share = ("--disk-share", "0.01")
    dry = executor.run("execute", str(order), "--dry-run", *share)
    assert "waits for disk: log dir " in dry.stdout, dry.stdout
    running = executor.start("execute", str(order), "--yes", *share)
    running.wait_for(lambda: "waits for disk: log dir " in executor.run("status").stdout, about="the move waits")
    again = executor.run("execute", str(order), "--yes", "--disk-share", "1")
    assert again.returncode == ExitCode.DONE, again.stdout + again.stderr
    assert running.end() == ExitCode.DONE, running.lines[-3:]
    assert shelves.cluster.replicas(shelves.topic)[0] == (2,)


def _journal(executor: Shunter) -> str:
    copy = Path(f"{executor.journal}.copy")
    return copy.read_text() if copy.exists() else ""
