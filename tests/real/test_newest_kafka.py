"""The newest Kafka: what its controllers and tools do differently from older ones, also in an incident."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import executor_scenarios as scenarios
import pytest
from executor_process import Cluster, Shunter, leads_nothing, write_plan
from executor_scenarios import BROKERS, ORIGINAL, Yard
from kafka import KafkaProducer
from yard import HELD_BACK

from lab.testbed.artifacts import KRAFT_VERSION
from lab.testbed.kraft import KRaftCluster
from lab.testbed.tools import REASSIGN_PARTITIONS, TOPICS, kafka_tool
from lab.testbed.waiting import wait_until
from shunter.app.exit_codes import ExitCode

pytestmark = [pytest.mark.kraft, pytest.mark.timeout(400)]


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


SILENT_WITHIN_S = 15.0
"""A check-up with a broker that hangs takes 5 to 8 s on a quiet machine; one that waits for its requests, 20 s and more."""


@pytest.fixture
def held(newest: KRaftCluster) -> Iterator[tuple[Cluster, str]]:
    """A topic of one partition on brokers 1 and 3, and one by the name and `-alone` on broker 3."""
    cluster, topic = Cluster(newest.bootstrap), f"t{uuid4().hex[:8]}"
    cluster.make(topic, {0: (1, 3)})
    cluster.make(f"{topic}-alone", {0: (3,)})
    wait_until(lambda: cluster.in_sync(topic), what="all are in sync", timeout_s=60)
    yield cluster, topic
    cluster.admin.delete_topics([topic, f"{topic}-alone"])
    cluster.close()


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("leads", [False, True], ids=["another broker", "the quorum's leader"])
def test_a_broker_that_hangs_costs_seconds_and_is_named(newest: KRaftCluster, tmp_path: Path, *, leads: bool) -> None:
    """Brokers forward to a leader that hangs for half a minute: nothing else waits for that."""
    shunter = Shunter(newest.bootstrap, tmp_path / "moves.journal")
    leader = re.search(r"voters of the metadata quorum caught up, node (\d) leads", shunter.look("doctor").stdout)
    assert leader is not None
    frozen = int(leader[1]) if leads else next(node for node in (3, 2) if node != int(leader[1]))
    newest.nodes[frozen].pause()
    try:
        began = time.monotonic()
        told = shunter.look("doctor").stdout
        assert time.monotonic() - began < SILENT_WITHIN_S
        # After nine seconds without a heartbeat the controller fences it: then it is down.
        silent, fenced = (
            f"broker {frozen} is listed as live, and does not answer within 3 s",
            f"broker {frozen} is fenced",
        )
        assert silent in told or fenced in told, told
        # Under load another node may lead by now, and then nobody tells the quorum in a hurry.
        leads = leads or f"node {leader[1]} leads" not in told
        planned = shunter.look("plan")
        if leads and planned.returncode:
            assert planned.returncode == ExitCode.CLUSTER
            assert (
                "if the controller was there, brokers forward requests to it for another half a minute"
                in planned.stderr
            )
        else:
            told = planned.stderr
            assert f"broker {frozen} is listed as live and does not answer" in told or fenced in told, told
    finally:
        newest.nodes[frozen].resume()
    with closing(Cluster(newest.bootstrap)) as cluster:
        wait_until(lambda: cluster.live() == set(BROKERS), what="it is back", timeout_s=60)
    wait_until(lambda: shunter.look("list").returncode == 0, what="requests being forwarded again", timeout_s=120)


def test_beside_a_dead_broker_apaches_tool_and_ours_agree_and_differ_where_we_say(
    newest: KRaftCluster, held: tuple[Cluster, str], tmp_path: Path
) -> None:
    """KIP-966: the ISR of a partition whose last replica died is empty, and the ELR names it."""
    cluster, topic = held
    alone = f"{topic}-alone"
    shunter = Shunter(newest.bootstrap, tmp_path / "moves.journal")
    at = ("--bootstrap-server", newest.bootstrap)
    newest.nodes[3].kill()
    try:
        wait_until(lambda: leads_nothing(cluster, alone, 3), what="its end", timeout_s=60)
        apache = kafka_tool(TOPICS, *at, "--describe", "--topic", alone, version=KRAFT_VERSION).stdout
        assert shunter.look("kafka-topics", "--describe", "--topic", alone).stdout == apache
        assert "Isr: \tElr: 3\tLastKnownElr: 3" in apache
        assert "start broker 3: it is an eligible leader (ELR)" in shunter.look("doctor").stdout
        plan = tmp_path / "plan.json"
        row = {"topic": topic, "partition": 0, "replicas": [2, 3]}
        plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
        refused = kafka_tool(
            REASSIGN_PARTITIONS, *at, "--reassignment-json-file", str(plan), "--execute", version=KRAFT_VERSION
        )
        assert "Unknown broker id 3" in refused.stdout + refused.stderr
        done = shunter.run("execute", str(plan), "--yes")
        assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
        after = kafka_tool(TOPICS, *at, "--describe", "--topic", topic, version=KRAFT_VERSION).stdout
        assert "Replicas: 2,3\tIsr: 2\t" in after, after
    finally:
        newest.nodes[3].start()
        wait_until(lambda: leads_nothing(cluster, topic, 3), what="an answer to the client", timeout_s=60)


def a_submitted_cut_is_told_as_stuck(shunter: Shunter, cut: Path, alive: str) -> None:
    """Broker 1 is dead, and the smaller set keeps it: every view of the move says that it can't end."""
    stuck = "it can't end without broker 1, which is down and part of its target; `shunter rollback cut-0` cancels it"
    submitted = shunter.run("submit", str(cut), "--yes")
    assert stuck in submitted.stdout, submitted.stdout + submitted.stderr
    assert stuck in shunter.look("list").stdout
    assert stuck in shunter.look("status").stdout
    assert shunter.run("rollback", "cut-0", "--yes").returncode == ExitCode.DONE
    with closing(Cluster(alive)) as cluster:
        wait_until(lambda: cluster.replicas("cut") == {0: (1, 2, 3)}, what="it is cancelled", timeout_s=30)
        assert cluster.ongoing() == 0


def test_beside_a_dead_broker_only_a_smaller_set_is_stuck_and_force_cancels_it(
    newest: KRaftCluster, tmp_path: Path
) -> None:
    """KAFKA-19975: this controller ends a copy beside an offline replica that stays, and no cut."""
    with closing(Cluster(newest.bootstrap)) as cluster:
        cluster.make("cut", {0: (1, 2, 3)})
        cluster.make("swapped", {0: (1, 2)})
        wait_until(lambda: cluster.in_sync("cut") and cluster.in_sync("swapped"), what="in sync", timeout_s=60)
    alive = ",".join(node.bootstrap for number, node in newest.nodes.items() if number != 1)
    shunter = Shunter(alive, tmp_path / "moves.journal")
    newest.nodes[1].kill()
    try:

        def offline() -> bool:
            with closing(Cluster(alive)) as cluster:
                return cluster.isr("cut")[0] == {2, 3}

        wait_until(offline, what="broker 1 is out of sync", timeout_s=60)
        swap = write_plan(tmp_path / "swap.json", "swapped", {0: (1, 3)})
        told = shunter.run("execute", str(swap), "--dry-run").stdout
        assert "without broker 1" not in told, "by the controller's version it is known to end"
        assert "waits for broker 1" not in told, "the dry run foretells what the executor does"
        done = shunter.run("execute", str(swap), "--yes")
        assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
        grow = ("plan", "--scope", "change-replication", "--replication", "3", "--topics", "swapped", "--execute")
        grown = shunter.run(*grow, "--yes")
        assert grown.returncode == ExitCode.DONE, grown.stdout + grown.stderr
        with closing(Cluster(alive)) as cluster:
            assert set(cluster.replicas("swapped")[0]) == {1, 2, 3}
        cut = write_plan(tmp_path / "cut.json", "cut", {0: (1, 2)})
        told = shunter.run("execute", str(cut), "--dry-run").stdout
        assert "it can't end without broker 1, which is down and part of its target" in told, told
        running = shunter.start("execute", str(cut), "--yes", "--relax-after", "3600")
        running.wait_for(lambda: "stuck" in json.dumps(running.progress.get("held", "")), about="it is stuck")
        assert any(line["event"] == "notice" and line["kind"] == "held-up" for line in running.lines)
        refused = shunter.run("rollback", "--force")
        assert refused.returncode == ExitCode.USAGE, "nobody agreed"
        assert "producers with acks=all are refused" in refused.stderr
        turned = shunter.run("rollback", "--force", "--yes")
        assert turned.returncode == ExitCode.DONE, turned.stdout + turned.stderr
        assert running.end(60) in (ExitCode.DONE, ExitCode.TURNED), running.lines[-3:]
        with closing(Cluster(alive)) as cluster:
            assert cluster.replicas("cut") == {0: (1, 2, 3)}
        a_submitted_cut_is_told_as_stuck(shunter, cut, alive)
        told = "2 of 3 voters of the metadata quorum caught up"
        wait_until(lambda: told in shunter.look("doctor").stdout, what="doctor tells it", timeout_s=60)
        assert told in shunter.look("status").stdout
    finally:
        newest.nodes[1].start()


def test_a_throttle_of_another_tool_is_in_the_status_of_any_shell(newest: KRaftCluster, tmp_path: Path) -> None:
    """An outsider's find: it slowed all copies down, and no second shell said so."""
    with closing(Cluster(newest.bootstrap)) as cluster:
        wait_until(lambda: cluster.set_throttle(2, 123_456), what="the throttle being taken", timeout_s=30)
        try:
            told = Shunter(newest.bootstrap, tmp_path / "moves.journal").look("status").stdout
            assert "somebody else's throttle holds at broker 2: " in told
            assert ".replication.throttled.rate = 123456" in told
        finally:
            Shunter(newest.bootstrap).look("throttles", "clear", "--yes")


def test_a_replica_that_a_failed_log_dir_held_is_not_taken_back_and_that_is_said(tmp_path: Path) -> None:
    """An outsider's find: `undo` sent it back, the broker logged "resides in an offline log directory", nobody said so."""
    with KRaftCluster(tmp_path, node_ids=BROKERS, heap_mib=200, more_log_dirs=("other",)) as kraft:
        shunter = Shunter(kraft.bootstrap, tmp_path / "moves.journal")
        with closing(Cluster(kraft.bootstrap)) as cluster:
            cluster.make("held", dict.fromkeys(range(4), (1, 2)))
            wait_until(lambda: cluster.in_sync("held"), what="all are in sync", timeout_s=60)
            failed = tmp_path / "node-2" / "other"
            # By the broker's own answer: a log that it still makes when its log dir goes, it makes again in another one.
            wait_until(lambda: bool(cluster.listed(2, failed, "held")), what="a log in that log dir", timeout_s=30)
            number = min(cluster.listed(2, failed, "held"))
            failed.rename(
                tmp_path / "was-other"
            )  # At once: the broker writes there while files are removed one by one.
            failed.write_text("A log dir that is no folder fails at the next checkpoint.")

            def planned() -> bool:
                # Writes make the isr shrink also where the controller was not told in time in which log dir the replica
                # is: a follower that fetches no more counts as in sync until its leader has more than it.
                writer.send("held", partition=number, value=b"later")
                told = shunter.run("plan", "--scope", "offline", "--dry-run")
                print(told.stdout, told.stderr)
                return f"held-{number}  [1, 2] → [1, 3]" in told.stdout

            # The isr shrinks a moment before every broker's Metadata calls the replica offline.
            with closing(KafkaProducer(bootstrap_servers=kraft.bootstrap, acks=1)) as writer:
                wait_until(planned, what="a plan for the offline replica", timeout_s=60)
            away = write_plan(tmp_path / "away.json", "held", {number: (1, 3)})
            done = shunter.run("execute", str(away), "--yes")
            assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
            assert "may not end" not in done.stdout, "nothing comes to broker 2"
            unsure = f"it may not end: log dir {failed} of broker 2 failed, and if held-{number} was there"
            told = shunter.run("undo", "--dry-run").stdout
            assert unsure in told, told
            running = shunter.start("undo", "--yes")
            running.wait_for(lambda: "stuck" in json.dumps(running.progress.get("held", "")), about="it is stuck")
            assert f"log dir {failed} of broker 2 failed, where held-{number} may have been" in running.progress["held"]
            turned = shunter.run("rollback", "--yes")
            assert turned.returncode == ExitCode.DONE, turned.stdout + turned.stderr
            assert running.end(60) == ExitCode.TURNED, running.lines[-3:]
            assert cluster.replicas("held")[number] == (1, 3)
            assert "broker 2 has a failed log dir" in shunter.run("plan").stderr, "no plan sends anything there"


def test_beside_a_dead_replica_nothing_goes_that_min_insync_replicas_needs(tmp_path: Path) -> None:
    """An outsider's find: the last but one in sync went, and writers with acks=all were refused until 3 was back."""
    with KRaftCluster(tmp_path, node_ids=BROKERS, heap_mib=200) as kraft:
        shunter = Shunter(kraft.bootstrap, tmp_path / "moves.journal")
        with closing(Cluster(kraft.bootstrap)) as cluster:
            cluster.make("thin", {0: (1, 3)}, {"min.insync.replicas": "2"})
            wait_until(lambda: cluster.in_sync("thin"), what="all are in sync", timeout_s=60)
            kraft.nodes[3].kill()
            wait_until(lambda: cluster.live() == {1, 2}, what="the death being seen", timeout_s=60)
            plan = str(write_plan(tmp_path / "plan.json", "thin", {0: (2, 3)}))
            assert "it can't end without broker 3, which is down" in shunter.run("execute", plan, "--dry-run").stdout
            running = shunter.start("execute", plan, "--yes")
            two = {0: {1, 2}}
            wait_until(lambda: cluster.isr("thin") == two, what="two in sync", timeout_s=60)
            running.wait_for(lambda: "stuck" in json.dumps(running.progress), about="it waits for broker 3")
            wait_until(lambda: cluster.isr("thin") == two, what="still two in sync", timeout_s=60)
            kraft.nodes[3].start()
            assert running.end(120) == ExitCode.DONE, running.lines[-3:]
            assert cluster.replicas("thin") == {0: (2, 3)}
