"""The executor in the hour of need: the topic of groups, by which executors claim a cluster, can't be made or is offline."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from executor_process import Cluster, Running, Shunter, write_plan
from tidying import end_all

from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.app.exit_codes import ExitCode

pytestmark = [pytest.mark.kraft, pytest.mark.timeout(600)]

NOT_TO_BE_MADE = {"offsets.topic.replication.factor": 4, "offsets.topic.num.partitions": 1}


@pytest.fixture
def three(tmp_path: Path) -> Iterator[KRaftCluster]:
    """Three brokers that want four replicas for the topic of groups."""
    with KRaftCluster(tmp_path, node_ids=(1, 2, 3), properties=NOT_TO_BE_MADE) as cluster:
        yield cluster
        end_all()


def told(running: Running, kind: str) -> bool:
    return any(line.get("kind") == kind for line in list(running.lines))


@pytest.mark.long
def test_moves_go_on_without_the_topic_of_groups_and_the_claim_is_made_once_it_answers(
    three: KRaftCluster, tmp_path: Path
) -> None:
    with closing(Cluster(three.bootstrap)) as seen:
        seen.make("orders", {0: (2, 1), 1: (2, 1)})
    live = ",".join(three.nodes[node].bootstrap for node in (2, 3))
    shunter = Shunter(live, tmp_path / "moves.journal")
    done = shunter.run("execute", str(write_plan(tmp_path / "plan.json", "orders", {0: (3, 1)})), "--yes")
    said = done.stdout + done.stderr
    assert done.returncode == ExitCode.DONE, said
    assert "does not answer (topic __consumer_offsets does not exist" in said
    assert "going on without the claim" in said
    for verb in ("status", "list", "stop"):
        assert shunter.run(verb).returncode != ExitCode.CLUSTER, verb
    assert shunter.look("throttles", "list").returncode == ExitCode.DONE
    with closing(Cluster(three.bootstrap)) as seen:
        seen.make("__consumer_offsets", {0: (1,)})
    three.nodes[1].kill()
    with closing(Cluster(live)) as seen:
        wait_until(lambda: seen.live() == {2, 3}, what="broker 1 is fenced", timeout_s=60)
    # It waits for its hour, twelve hours from now.
    later = (time.localtime().tm_hour + 12) % 24
    window = ("--only-between", f"{later:02}:00-{later:02}:30")
    plan = str(write_plan(tmp_path / "later.json", "orders", {1: (3, 1)}))
    running = shunter.start("execute", plan, "--yes", *window)
    running.wait_for(lambda: told(running, "cluster-unclaimed"), about="going on without the claim")
    assert any("__consumer_offsets-0 with replicas [1] has no leader" in str(line) for line in running.lines)
    running.wait_for(lambda: running.progress["counts"].get("pending", 0) > 0, about="the move being open")
    three.nodes[1].start()
    running.wait_for(lambda: told(running, "cluster-claimed"), about="the claim being made", timeout_s=120)
    assert shunter.run("stop").returncode == ExitCode.DONE
    assert running.end() == ExitCode.TURNED
