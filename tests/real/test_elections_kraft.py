"""Elections as a part of executions, on real brokers that elect nobody by themselves, one of them dead."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from executor_process import Cluster, Shunter
from tidying import end_all

from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.app.exit_codes import ExitCode

pytestmark = [pytest.mark.kraft, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KRaftCluster]:
    """Four brokers; nobody but the tests elects leaders."""
    off = {"auto.leader.rebalance.enable": False}
    with KRaftCluster(tmp_path_factory.mktemp("quiet"), node_ids=(1, 2, 3, 4), properties=off) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def everybody_up(quiet: KRaftCluster) -> None:
    """Begin each test with four live brokers, whatever the one before left behind."""
    if not quiet.nodes[1].alive:
        quiet.nodes[1].start()
    with closing(Cluster(quiet.bootstrap)) as cluster:
        wait_until(lambda: cluster.live() == set(quiet.nodes), what="four brokers are live", timeout_s=60)


def _plan(folder: Path, topic: str, targets: dict[int, tuple[int, ...]], *, elect: bool) -> str:
    entries = [
        {"topic": topic, "partition": number, "replicas": list(replicas), **({"elect": True} if elect else {})}
        for number, replicas in targets.items()
    ]
    path = folder / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return str(path)


def _beside_a_dead_broker(quiet: KRaftCluster, topic: str, assignment: dict[int, tuple[int, ...]]) -> str:
    """Make a topic that broker 3 leads, and let broker 1 die; returns the brokers that are left."""
    with closing(Cluster(quiet.bootstrap)) as cluster:
        cluster.make(topic, assignment)
        wait_until(lambda: cluster.in_sync(topic), what="all are in sync", timeout_s=60)
    quiet.nodes[1].kill()
    live = ",".join(quiet.nodes[node].bootstrap for node in (2, 3, 4))
    with closing(Cluster(live)) as cluster:

        def led() -> bool:
            return cluster.live() == {2, 3, 4} and cluster.leaders(topic) == dict.fromkeys(assignment, 3)

        wait_until(led, what="broker 1 is fenced, and broker 3 leads", timeout_s=60)
    return live


def _return(quiet: KRaftCluster, cluster: Cluster, topic: str) -> None:
    quiet.nodes[1].start()
    wait_until(lambda: cluster.in_sync(topic), what="broker 1 is in sync again", timeout_s=90)


def test_elections_belong_to_the_execution(quiet: KRaftCluster, tmp_path: Path) -> None:
    """Found on 48647b9: [1, 3, 2] led by broker 3 stayed led by it, and a refused election was ignored."""
    topic = "elected"
    live = _beside_a_dead_broker(quiet, topic, {0: (3, 2, 4), 1: (3, 1, 2)})
    shunter = Shunter(live, tmp_path / "moves.journal")
    with closing(Cluster(live)) as cluster:
        # The order alone changes, as Kafka's own tool leaves it: nobody is elected.
        order = {0: (2, 3, 4), 1: (2, 3, 1)}
        done = shunter.run("execute", _plan(tmp_path, topic, order, elect=False), "--yes")
        assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
        assert (cluster.replicas(topic)[0], cluster.leaders(topic)[0]) == ((2, 3, 4), 3)
        # The order is right already, and the wish is an election alone, beside a follower that is dead.
        done = shunter.run("execute", _plan(tmp_path, topic, order, elect=True), "--yes")
        assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
        assert cluster.leaders(topic) == {0: 2, 1: 2}
        undone = shunter.run("undo", "--yes")
        assert (
            "its leader stays, for broker 3, which led it, was not its first replica" in undone.stdout + undone.stderr
        )
        # An order changes and is undone, with its leader.
        back = {0: (4, 3, 2)}
        done = shunter.run("execute", _plan(tmp_path, topic, back, elect=True), "--yes")
        assert (done.returncode, cluster.leaders(topic)[0]) == (ExitCode.DONE, 4), done.stdout + done.stderr
        undone = shunter.run("undo", "--yes")
        assert undone.returncode == ExitCode.DONE, undone.stdout + undone.stderr
        assert (cluster.replicas(topic)[0], cluster.leaders(topic)[0]) == ((2, 3, 4), 2)
        _return(quiet, cluster, topic)


def test_an_election_waits_is_stopped_and_survives_a_kill(quiet: KRaftCluster, tmp_path: Path) -> None:
    topic = "waited-for"
    live = _beside_a_dead_broker(quiet, topic, {0: (1, 3, 4)})
    shunter = Shunter(live, tmp_path / "moves.journal")
    plan = _plan(tmp_path, topic, {0: (1, 3, 4)}, elect=True)
    with closing(Cluster(live)) as cluster:
        told = "waits for broker 1 to lead: broker 1 is down"

        def waits() -> bool:
            return told in shunter.run("status").stdout

        running = shunter.start("execute", plan, "--yes")
        running.wait_for(waits, about="the wait being told")
        stopped = shunter.run("stop")
        assert stopped.returncode == ExitCode.DONE, stopped.stdout + stopped.stderr
        assert running.end() == ExitCode.TURNED
        running = shunter.start("execute", plan, "--yes")
        running.wait_for(waits, about="the wait being told again")
        running.kill()
        _return(quiet, cluster, topic)
        resumed = shunter.run("resume")
        assert resumed.returncode == ExitCode.DONE, resumed.stdout + resumed.stderr
        assert cluster.leaders(topic) == {0: 1}
    end_all()
