"""Brokers that are there and may get nothing: cordoned log dirs (KIP-1066) and fenced brokers (KIP-1073)."""

import asyncio
import json
import random
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from executor_process import Cluster, Shunter, write_plan
from executor_scenarios import nothing_is_lost
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError
from kafka.net import manager
from live_producer import LiveProducer, fill
from tidying import end_all
from yard import HELD_BACK

from lab.testbed.artifacts import KRAFT_VERSION
from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.app.exit_codes import ExitCode
from shunter.drivers.admin.cluster import KafkaPythonAdmin
from shunter.drivers.journal.compacted_topic import CompactedTopic
from shunter.formats.client_properties import client_configuration

pytestmark = [pytest.mark.kraft, pytest.mark.timeout(600)]

RELEASE = tuple(int(number) for number in KRAFT_VERSION.split(".")[:2])
cordons = pytest.mark.skipif(RELEASE < (4, 3), reason="cordoned log dirs came with Kafka 4.3")
refuses = pytest.mark.skipif(RELEASE < (4, 4), reason="4.3.1 takes a reassignment onto a broker that was just cordoned")
tells_fenced = pytest.mark.skipif(RELEASE < (4, 0), reason="brokers tell fenced ones since Kafka 4.0")
TOPIC = "orders"
CONNECTED_WITHIN_S = 12.0
"""For two connections one after the other. The library alone would wait up to 15 s for each, and then give up."""
HELD = {number: (1, 2) if number % 2 else (2, 1) for number in range(6)}


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KRaftCluster]:
    with KRaftCluster(tmp_path_factory.mktemp("four"), node_ids=(1, 2, 3, 4), properties=HELD_BACK) as cluster:
        with closing(Cluster(cluster.bootstrap)) as seen:
            seen.make(TOPIC, HELD)
        yield cluster
        end_all()


def cordon(cluster: Cluster, broker: int, value: str) -> None:
    resource = ConfigResource(ConfigResourceType.BROKER, str(broker), {"cordoned.log.dirs": value})
    done = cluster.admin.alter_configs([resource], raise_on_unknown=False, incremental=True)
    assert done["broker"][str(broker)] == "OK", done

    def seen() -> bool:
        (told,) = cluster.admin.describe_log_dirs(brokers=[broker])
        return all(log_dir["is_cordoned"] == bool(value) for log_dir in told["log_dirs"])

    wait_until(seen, what=f"broker {broker} shows its cordon", timeout_s=30)


def planned_onto(shunter: Shunter, cluster: Cluster, *arguments: str) -> set[int]:
    """The brokers that get replicas of the topic by a plan."""
    made = shunter.look("plan", *arguments)
    # It can't do all that it is asked for if the cluster's own topic is on all other brokers.
    assert made.returncode in {ExitCode.DONE, ExitCode.PARTLY}, made.stdout + made.stderr
    held = cluster.replicas(TOPIC)
    planned = [entry for entry in json.loads(made.stdout)["partitions"] if entry["topic"] == TOPIC]
    assert planned, "the broker that is drained holds some of them"
    return {broker for entry in planned for broker in entry["replicas"] if broker not in held[entry["partition"]]}


@cordons
def test_a_cordoned_broker_is_shown_gets_nothing_and_is_refused_by_name(four: KRaftCluster, tmp_path: Path) -> None:
    shunter = Shunter(four.bootstrap, tmp_path / "moves.journal")
    with closing(Cluster(four.bootstrap)) as cluster:
        cordon(cluster, 3, "*")
        held = cluster.replicas(TOPIC)
        try:
            told = shunter.run("doctor").stdout
            assert "broker 3: log dir" in told
            assert "is cordoned: it gets no new replicas" in told
            wanted = (2, 3) if held[0] != (2, 3) else (3, 2)
            plan = str(write_plan(tmp_path / "plan.json", TOPIC, {0: wanted, 1: (1, 4)}))
            done = shunter.run("execute", plan, "--yes")
            assert done.returncode == ExitCode.PARTLY, done.stdout + done.stderr
            assert (
                "broker 3 is cordoned, and Kafka takes no target for orders-0 that names it"
                in done.stdout + done.stderr
            )
            assert (cluster.replicas(TOPIC)[0], cluster.replicas(TOPIC)[1]) == (held[0], (1, 4))
            assert planned_onto(shunter, cluster, "--scope", "drain", "--brokers", "1") <= {2, 4}
        finally:
            cordon(cluster, 3, "")


@cordons
def test_a_plan_beside_a_cordoned_broker_is_taken_whole_and_carried_out(four: KRaftCluster, tmp_path: Path) -> None:
    """A plan for all topics has no change that Kafka refuses; what it leaves beside the broker, it says."""
    shunter, plan = Shunter(four.bootstrap, tmp_path / "moves.journal"), tmp_path / "plan.json"
    beside = {0: (1, 2, 3), 1: (2, 1, 3), 2: (3, 1, 2), 3: (1, 3, 2)}
    with closing(Cluster(four.bootstrap)) as cluster:
        cluster.make("beside", beside)
        cluster.make("free", dict.fromkeys(range(12), (1, 2)))
        cordon(cluster, 3, "*")
        try:
            made = shunter.look("plan", "--scope", "rebalance")
            assert made.returncode in {ExitCode.DONE, ExitCode.PARTLY}, made.stdout + made.stderr
            assert "partitions have replicas on cordoned brokers (" in made.stderr
            assert "or `shunter drain 3`" in made.stderr
            plan.write_text(made.stdout)
            rows = {
                (each["topic"], each["partition"]): tuple(each["replicas"])
                for each in json.loads(made.stdout)["partitions"]
            }
            assert sum(topic == "free" for topic, _ in rows) > 1, "broker 4 has too few replicas"
            done = shunter.run("execute", str(plan), "--yes")
            assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
            for (topic, number), replicas in rows.items():
                assert cluster.replicas(topic)[number] == replicas
            assert cluster.replicas("beside") == beside

            left = shunter.look("plan", "--scope", "drain", "--brokers", "2")
            topics = {each["topic"] for each in json.loads(left.stdout)["partitions"]}
            assert "free" in topics
            assert "beside" not in topics
            assert "a replica on a cordoned broker would stay, and Kafka takes no assignment" in left.stderr
            refused = shunter.run("execute", str(write_plan(plan, "beside", {2: (2, 1, 3)})), "--yes")
            assert "Kafka takes no target for beside-2 that names it" in refused.stdout + refused.stderr
            drained = shunter.run("drain", "3", "--yes")
            assert drained.returncode == ExitCode.DONE, drained.stdout + drained.stderr
            assert not any(3 in replicas for replicas in cluster.replicas("beside").values())
        finally:
            cordon(cluster, 3, "")
            cluster.admin.delete_topics(["beside", "free"])


def test_a_bootstrap_server_that_hangs_costs_seconds_whichever_client_connects(
    four: KRaftCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The library chooses at random; here it chooses the server that hangs, if it is given that one.
    chance = SimpleNamespace(choice=lambda found: found[0], shuffle=random.shuffle, uniform=random.uniform)
    monkeypatch.setattr(manager, "random", chance)
    frozen = four.nodes[1]
    servers = ",".join(four.nodes[node].bootstrap for node in (1, 2, 3, 4))
    configuration = client_configuration({}, servers, "test")

    async def connects() -> list[str]:
        admin = await KafkaPythonAdmin.connect(configuration)
        try:
            return await admin.topic_names()
        finally:
            await admin.close()

    frozen.pause()
    try:
        for _ in range(2):
            began = time.monotonic()
            assert TOPIC in asyncio.run(connects())
            assert CompactedTopic(configuration, TOPIC, "x").exists()
            assert time.monotonic() - began < CONNECTED_WITHIN_S
        began = time.monotonic()
        topic = CompactedTopic(configuration, TOPIC, "x")
        topic.open()
        topic.close()
        assert time.monotonic() - began < CONNECTED_WITHIN_S
    finally:
        frozen.resume()
    with closing(Cluster(four.bootstrap)) as cluster:
        wait_until(lambda: cluster.live() == {1, 2, 3, 4}, what="broker 1 is back", timeout_s=60)


def told_live(cluster: Cluster) -> set[int]:
    """The live brokers; none if the client asks the one that hangs."""
    try:
        return cluster.live()
    except KafkaError:
        return set()


@tells_fenced
def test_a_broker_that_hangs_is_told_as_fenced_and_gets_nothing(four: KRaftCluster, tmp_path: Path) -> None:
    four.nodes[4].pause()
    try:
        live = ",".join(four.nodes[node].bootstrap for node in (1, 2, 3))
        with closing(Cluster(live)) as cluster:
            wait_until(lambda: told_live(cluster) == {1, 2, 3}, what="broker 4 is fenced", timeout_s=60)
            shunter = Shunter(live, tmp_path / "moves.journal")
            assert planned_onto(shunter, cluster, "--scope", "drain", "--brokers", "2") <= {1, 3}
        told = shunter.run("doctor").stdout
        assert "broker 4 is fenced: it is registered, but its heartbeats don't reach the controller" in told
        assert "its listener does not answer within 3 s" in told
        assert "broker 4 is down" not in told
        # A plan may name a broker that holds replicas of the topic and is not live: its move waits. So this is another one.
        with closing(Cluster(live)) as cluster:
            cluster.make("fresh", {0: (1, 2)})
        done = shunter.run("execute", str(write_plan(tmp_path / "plan.json", "fresh", {0: (1, 4)})), "--yes")
        assert done.returncode == ExitCode.REFUSED, done.stdout + done.stderr
    finally:
        four.nodes[4].resume()
    with closing(Cluster(four.bootstrap)) as cluster:
        wait_until(lambda: cluster.live() == {1, 2, 3, 4}, what="broker 4 is back", timeout_s=60)


def test_what_is_offline_goes_to_the_free_broker_and_not_to_one_that_a_throttle_holds(
    four: KRaftCluster, tmp_path: Path
) -> None:
    """An outsider's find: an operator's throttle held broker 4 to 20 kB/s, which got all that was offline."""
    shunter, topic = Shunter(four.bootstrap, tmp_path / "moves.journal"), "urgent"
    rate, listed = "follower.replication.throttled.rate", "follower.replication.throttled.replicas"
    held = "somebody else's throttle holds broker 4 to 20.0 kB/s"
    with closing(Cluster(four.bootstrap)) as cluster:
        cluster.make(topic, dict.fromkeys(range(6), (1, 3)), {"min.insync.replicas": "2", listed: "*"})
        fill(four.bootstrap, topic, 6, 1_000_000)
        wait_until(lambda: cluster.in_sync(topic), what="all are in sync", timeout_s=60)
        throttled = ConfigResource(ConfigResourceType.BROKER, "4", {rate: "20000"})
        cluster.admin.alter_configs([throttled], raise_on_unknown=False, incremental=True)
        wait_until(lambda: cluster.throttles((4,), ()), what="broker 4 shows its rate", timeout_s=30)
        four.nodes[3].kill()
        try:
            wait_until(lambda: 3 not in cluster.live(), what="broker 3 is fenced", timeout_s=60)
            done = shunter.run("plan", "--scope", "offline", "--execute", "--yes")
            assert f"{held}: " in done.stdout + done.stderr  # What no other broker may take goes there all the same.
            assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
            ends = dict.fromkeys(range(6), (1, 2))  # The broker that the client asks may learn late of the end.
            wait_until(lambda: cluster.replicas(topic) == ends, what="every broker shows the end", timeout_s=20)
            wait_until(lambda: cluster.in_sync(topic), what="all are in sync", timeout_s=20)
        finally:
            four.nodes[3].start()
            shunter.run("throttles", "clear", "--yes")
            cluster.admin.delete_topics([topic])
        wait_until(lambda: 3 in cluster.live(), what="broker 3 is back", timeout_s=60)


def test_an_execution_without_a_throttle_knows_the_rate_that_holds_it(four: KRaftCluster, tmp_path: Path) -> None:
    """Outsiders' find: an ETA of 5 s for copies that somebody's throttle held for minutes."""
    shunter, topic = Shunter(four.bootstrap, tmp_path / "moves.journal"), "held"
    rate, listed = "follower.replication.throttled.rate", "follower.replication.throttled.replicas"
    with closing(Cluster(four.bootstrap)) as cluster:
        cluster.make(topic, dict.fromkeys(range(4), (1, 2)), {listed: "*"})
        fill(four.bootstrap, topic, 4, 12_000_000)
        throttled = ConfigResource(ConfigResourceType.BROKER, "4", {rate: "20000"})
        cluster.admin.alter_configs([throttled], raise_on_unknown=False, incremental=True)
        wait_until(lambda: cluster.throttles((4,), ()), what="broker 4 shows its rate", timeout_s=30)
        plan = write_plan(tmp_path / "plan.json", topic, dict.fromkeys(range(4), (1, 4)))
        running = shunter.start("execute", str(plan), "--yes")
        try:
            running.wait_for(lambda: running.progress.get("lower") == "broker 4 to 20.0 kB/s", about="the rate is told")
            told = [
                line["text"] for line in running.lines if line["event"] == "notice" and line["kind"] == "throttle-lower"
            ]
            assert len(told) == 1
            assert told[0].startswith("somebody else's throttle holds broker 4 to 20.0 kB/s: it stays")
            unknown = "at somebody's rate, which others may share (broker 4 to 20.0 kB/s)"
            running.wait_for(lambda: unknown in running.progress["held"], about="why no end is told")
            assert running.progress["left_ms"] is None
            assert shunter.run("throttles", "clear", "--yes").returncode == ExitCode.DONE
            assert running.end(120) == ExitCode.DONE, running.lines[-3:]
            assert cluster.replicas(topic) == dict.fromkeys(range(4), (1, 4))
        finally:
            shunter.run("throttles", "clear", "--yes")
            cluster.admin.delete_topics([topic])


def test_a_follower_that_min_insync_replicas_needs_is_not_given_to_a_throttle(
    four: KRaftCluster, tmp_path: Path
) -> None:
    """An outsider's find: at a new leader epoch it left the isr, and acks=all was refused for a minute."""
    shunter, topic = Shunter(four.bootstrap, tmp_path / "moves.journal"), "needed"
    rate, listed = "follower.replication.throttled.rate", "follower.replication.throttled.replicas"
    with closing(Cluster(four.bootstrap)) as cluster:
        cluster.make(topic, {0: (1, 4)}, {"min.insync.replicas": "2", listed: "0:4"})
        throttled = ConfigResource(ConfigResourceType.BROKER, "4", {rate: "20000"})
        cluster.admin.alter_configs([throttled], raise_on_unknown=False, incremental=True)
        wait_until(lambda: cluster.throttles((4,), ()), what="broker 4 shows its rate", timeout_s=30)
        plan = write_plan(tmp_path / "plan.json", topic, {0: (2, 4)})
        assert (
            "needed-0 would have fewer than min.insync.replicas"
            in shunter.run("execute", str(plan), "--dry-run").stdout
        )
        running = shunter.start("execute", str(plan), "--yes")
        try:
            waits = "waiting for somebody's throttle of broker 4 (20.0 kB/s) to be lifted"
            running.wait_for(lambda: waits in running.progress.get("held", ""), about="it waits")
            assert {1, 4} <= set(cluster.replicas(topic)[0])
            assert shunter.run("throttles", "clear", "--yes").returncode == ExitCode.DONE
            assert running.end(60) == ExitCode.DONE, running.lines[-3:]
            wait_until(lambda: cluster.replicas(topic) == {0: (2, 4)}, what="every broker shows it", timeout_s=20)
        finally:
            shunter.run("throttles", "clear", "--yes")
            cluster.admin.delete_topics([topic])


def test_doctor_tells_the_release_of_these_brokers(four: KRaftCluster, tmp_path: Path) -> None:
    told = Shunter(four.bootstrap, tmp_path / "moves.journal").run("doctor").stdout
    assert f"the Kafka of all brokers is {KRAFT_VERSION.rpartition('.')[0]}" in told


def cordoned(cluster: Cluster, broker: int) -> bool:
    (told,) = cluster.admin.describe_log_dirs(brokers=[broker])
    return all(log_dir["is_cordoned"] for log_dir in told["log_dirs"])


@cordons
def test_a_drain_cordons_first_and_its_undo_takes_that_back(four: KRaftCluster, tmp_path: Path) -> None:
    shunter = Shunter(four.bootstrap, tmp_path / "moves.journal")
    with closing(Cluster(four.bootstrap)) as cluster:
        before = cluster.replicas(TOPIC)
        cluster.make("leaves", {0: (1, 2)})  # Tests before may have emptied the broker, and then nothing is cordoned.
        foretold = shunter.run("drain", "1", "--cordon", "--dry-run")
        assert "broker 1 is cordoned first: it gets no new replicas" in foretold.stderr, foretold.stderr
        assert not cordoned(cluster, 1)
        done = shunter.run("drain", "1", "--cordon", "--yes")
        assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
        wait_until(lambda: cordoned(cluster, 1), what="broker 1 is cordoned", timeout_s=30)
        assert not any(1 in replicas for replicas in cluster.replicas(TOPIC).values())
        assert "broker 1 is cordoned by plan " in shunter.run("status").stdout
        told = shunter.run("doctor").stdout
        assert "is cordoned by plan " in told
        assert "else `shunter undrain 1`" in told
        undone = shunter.run("undo", "--yes")
        assert undone.returncode == ExitCode.DONE, undone.stdout + undone.stderr
        assert "broker 1 gets its former cordoned.log.dirs back first: none" in undone.stderr
        assert cluster.replicas(TOPIC) == before
        wait_until(lambda: not cordoned(cluster, 1), what="broker 1 is not cordoned any more", timeout_s=30)
        cluster.admin.delete_topics(["leaves"])


@cordons
@pytest.mark.parametrize("theirs", [False, True])
def test_a_rollback_in_the_middle_of_a_drain_takes_its_cordon_back(
    four: KRaftCluster, tmp_path: Path, theirs: bool
) -> None:
    """The original replicas name the cordoned broker, which Kafka refuses in a target: the step is cancelled."""
    shunter = Shunter(four.bootstrap, tmp_path / "moves.journal")
    topic = f"slow-{theirs}"
    held = {0: (1, 2), 1: (1, 3), 2: (2, 1)}
    with closing(Cluster(four.bootstrap)) as cluster:
        cluster.make(topic, held)
        wait_until(lambda: cluster.in_sync(topic), what="all are in sync", timeout_s=60)
        if theirs:
            cordon(cluster, 1, "*")
        try:
            fill(four.bootstrap, topic, len(held), 3_000_000)
            with LiveProducer(four.bootstrap, topic, len(held)) as producer:
                running = shunter.start("drain", "1", "--cordon", "--yes", "--throttle", "200K")
                running.wait_for(lambda: bool(cluster.moving(topic)), about="moves under way")
                assert cordoned(cluster, 1)
                turned = shunter.run("rollback", "--yes")
                assert turned.returncode == ExitCode.DONE, turned.stdout + turned.stderr
                wait_until(lambda: not cluster.moving(topic), what="the copies are cancelled", timeout_s=30)
                former = {number: {*row} for number, row in held.items()}
                wait_until(  # A broker's Metadata may be a moment behind the controller.
                    lambda: {number: {*row} for number, row in cluster.replicas(topic).items()} == former,
                    what="the former replicas are back",
                    timeout_s=30,
                )
                if theirs:  # A cancel does not keep the order, and Kafka takes no target that names the broker.
                    cordon(cluster, 1, "")
                assert running.end(120) in (ExitCode.DONE, ExitCode.TURNED, ExitCode.PARTLY), running.lines[-3:]
            assert not cluster.ongoing()
            assert cluster.replicas(topic) == held, running.lines
            nothing_is_lost(producer)
            wait_until(lambda: not cordoned(cluster, 1), what="the cordon is taken back", timeout_s=30)
            assert "cordoned" not in shunter.run("status").stdout
        finally:
            cordon(cluster, 1, "")
            cluster.admin.delete_topics([topic])


@refuses
def test_a_cordon_in_the_middle_of_an_execution_holds_the_next_step_until_it_is_lifted(
    four: KRaftCluster, tmp_path: Path
) -> None:
    shunter, topic = Shunter(four.bootstrap, tmp_path / "moves.journal"), "held"
    lifts = "`kafka-configs --alter --entity-type brokers --entity-name 4 --delete-config cordoned.log.dirs` lifts that"
    with closing(Cluster(four.bootstrap)) as cluster:
        cluster.make(topic, {0: (1, 2)})
        cluster.make("wide", dict.fromkeys(range(3), (1, 2)))
        wider = str(write_plan(tmp_path / "wider.json", "wide", {2: (1, 2, 3)}))
        assert shunter.run("execute", wider, "--yes").returncode == ExitCode.DONE
        fill(four.bootstrap, topic, 1, 2_000_000)
        plan = str(write_plan(tmp_path / "plan.json", topic, {0: (3, 4)}))
        try:
            running = shunter.start("execute", plan, "--yes", "--throttle", "200K")
            running.wait_for(lambda: bool(cluster.moving(topic)), about="the first step")
            cordon(cluster, 4, "*")
            assert shunter.run("limit", "none").returncode == ExitCode.DONE
            told = f"1 stuck: it can't end while broker 4 has its log dirs cordoned: Kafka takes no target that names it; {lifts}"
            running.wait_for(lambda: told in running.progress.get("held", ""), about="the move is told as stuck")
            assert "`shunter rollback` or `shunter stop`, given its name, ends it" in running.progress["held"]
            assert (cluster.replicas(topic), cluster.ongoing()) == ({0: (1, 2, 3)}, 0)
            assert lifts in shunter.run("status").stdout
            seen = shunter.run("doctor").stdout
            assert "1 partition with more than the 2 replicas that most of wide have (wide-2)" in seen
            assert "held-0" not in seen
            narrow = shunter.look("plan", "--scope", "change-replication", "--topics", "wide", "--replication", "2")
            assert [each["partition"] for each in json.loads(narrow.stdout)["partitions"]] == [2]
        finally:
            cordon(cluster, 4, "")
        assert running.end(60) == ExitCode.DONE, running.lines[-3:]
        assert cluster.replicas(topic) == {0: (3, 4)}
        refusals = [line for line in running.lines if line.get("kind") == "step-refused"]
        assert len(refusals) <= 1, refusals
        cluster.admin.delete_topics([topic, "wide"])


@cordons
def test_undrain_takes_the_cordon_back_and_moves_nothing(four: KRaftCluster, tmp_path: Path) -> None:
    shunter = Shunter(four.bootstrap, tmp_path / "moves.journal")
    with closing(Cluster(four.bootstrap)) as cluster:
        cluster.make("fourth", {0: (4, 1)})
        done = shunter.run("drain", "4", "--cordon", "--yes")
        assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
        assert cordoned(cluster, 4)
        held = cluster.replicas("fourth")
        undrained = shunter.run("undrain", "4")
        assert undrained.returncode == ExitCode.DONE, undrained.stdout + undrained.stderr
        wait_until(lambda: not cordoned(cluster, 4), what="broker 4 is not cordoned any more", timeout_s=30)
        assert cluster.replicas("fourth") == held
        assert "cordoned" not in shunter.run("status").stdout
        again = shunter.run("undrain", "4")
        assert again.returncode == ExitCode.REFUSED, again.stdout + again.stderr
        assert "no drain of this journal cordoned broker 4" in again.stdout


@pytest.mark.skipif(RELEASE >= (4, 3), reason="these brokers can be cordoned")
def test_brokers_that_can_not_be_cordoned_are_named(four: KRaftCluster, tmp_path: Path) -> None:
    refused = Shunter(four.bootstrap, tmp_path / "moves.journal").run("drain", "1", "--cordon", "--yes")
    assert refused.returncode == ExitCode.USAGE, refused.stdout + refused.stderr
    assert "broker 1 can't be cordoned: cordoned.log.dirs came with Kafka 4.3" in refused.stderr
