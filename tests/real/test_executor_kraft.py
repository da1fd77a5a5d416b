"""The executor on a real KRaft cluster: plans run to their end, kills of the executor and of brokers, orders."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import executor_scenarios as scenarios
import pytest
from click.testing import CliRunner
from executor_process import Running, Shunter, write_plan
from executor_scenarios import BROKERS, ORIGINAL, PARTITIONS, TARGET, Yard
from kafka import TopicPartition
from kafka.admin import NewTopic
from tidying import remember, tidy_up

from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.api import Cluster as Program
from shunter.app.exit_codes import ExitCode
from shunter.cli import main
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.sqlite import SqliteJournal

pytestmark = [pytest.mark.kraft, pytest.mark.timeout(900)]


@pytest.fixture
def yard(kraft: KRaftCluster, tmp_path: Path) -> Iterator[Yard]:
    made = Yard(kraft.bootstrap, tmp_path)
    yield made
    made.close()


def test_a_plan_runs_to_its_end_and_nothing_acknowledged_is_lost(yard: Yard) -> None:
    scenarios.a_plan_runs_to_its_end(yard)


@pytest.mark.long
def test_what_was_done_is_undone(yard: Yard) -> None:
    scenarios.a_plan_runs_to_its_end(yard)
    scenarios.what_was_done_is_undone(yard)


@pytest.mark.parametrize("afterwards", ["resume", "rollback"])
@pytest.mark.parametrize("deaths", [pytest.param(3, id="three"), pytest.param(10, id="ten", marks=pytest.mark.long)])
def test_killed_at_random_moments_it_ends_in_the_target_or_the_original_order(
    yard: Yard, afterwards: str, deaths: int
) -> None:
    scenarios.killed_at_random_moments(yard, afterwards, deaths)


def test_a_broker_dies_and_returns_in_the_middle(kraft: KRaftCluster, yard: Yard) -> None:
    scenarios.a_broker_dies_and_returns(yard, kraft.nodes[3].kill, kraft.nodes[3].start)


@pytest.mark.long
def test_the_controller_dies_in_the_middle(kraft: KRaftCluster, yard: Yard) -> None:
    scenarios.the_controller_dies(yard, lambda id_: kraft.nodes[id_].kill(), lambda id_: kraft.nodes[id_].start())


@pytest.mark.long
def test_orders_come_from_other_shells_and_a_second_executor_is_refused(yard: Yard) -> None:
    scenarios.orders_come_from_other_shells(yard)


@pytest.mark.long
def test_a_broker_that_stays_dead_holds_up_no_later_execution(kraft: KRaftCluster, yard: Yard, tmp_path: Path) -> None:
    running = yard.shunter.start("execute", yard.plan, "--yes", "--throttle", "150K")
    running.wait_for(lambda: yard.cluster.ongoing() == PARTITIONS, about="moves under way")
    kraft.nodes[3].kill()
    try:
        running.wait_for(lambda: 3 in running.progress.get("brokers_down", ()), about="the death being seen")
        relaxed = yard.shunter.run("relax")
        assert "can't end without broker 3, which is down and part of its target" in relaxed.stdout
        assert yard.shunter.run("stop").returncode == ExitCode.DONE
        assert running.end(150) == ExitCode.TURNED, running.lines[-3:]
        owed = yard.shunter.run("status")
        assert "throttles are owed to broker 3" in owed.stdout
        assert "shunter throttles forget --broker 3" in owed.stdout
        order = str(write_plan(tmp_path / "order.json", yard.topic, {0: (2, 1)}))
        began = time.monotonic()
        done = yard.shunter.run("execute", order, "--yes", "--throttle", "5M")
        assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
        assert "1 done" in done.stdout.splitlines()[-1], "its counts are those of its own moves"
        assert time.monotonic() - began < 45, "it waits for nobody"
    finally:
        kraft.nodes[3].start()
    # The driving executor gives back the owed throttles as soon as the broker returns.
    wait_until(lambda: "owed" not in yard.shunter.run("resume").stdout, what="the debt being paid", timeout_s=90)
    yard.ended_in(ORIGINAL | {0: (2, 1)})


def test_one_executor_drives_a_cluster_whoever_it_is_and_wherever(yard: Yard, tmp_path: Path) -> None:
    """Two state folders stand for two accounts: neither sees the other's journal, nor its locked file."""
    first, second = (Shunter(yard.bootstrap, tmp_path / f"{n}.journal", state=tmp_path / n) for n in ("one", "two"))
    running = first.start("execute", yard.plan, "--yes", "--throttle", "200K")
    running.wait_for(lambda: yard.cluster.ongoing() > 0, about="moves under way")
    refused = second.run("execute", yard.plan, "--yes", "--throttle", "20K")
    assert refused.returncode == ExitCode.HELD, refused.stdout + refused.stderr
    for told in (f"process {running.process.pid}", "since 20", "one.journal", "--take-over-cluster"):
        assert told in refused.stderr
    rates = {value for key, value in yard.cluster.throttles(BROKERS, (yard.topic,)).items() if key.endswith("rate")}
    assert rates == {"200000"}, "the first one's throttle is as it was"
    # The refused command left an empty journal: nothing was executed under it. The answers name the driving executor.
    for verb, status in (("status", ExitCode.DONE), ("pause", ExitCode.REFUSED)):
        asked = second.run(verb)
        told_all = asked.stdout + asked.stderr
        assert asked.returncode == status, told_all
        assert f"process {running.process.pid}" in told_all
        assert "one.journal" in told_all
    running.kill()
    # A dead executor blocks no other: its own journal goes on at once, and so does another journal of this host.
    rolled_back = first.run("rollback", "--yes", timeout_s=120)
    assert rolled_back.returncode == ExitCode.DONE, rolled_back.stdout + rolled_back.stderr
    yard.ended_in(ORIGINAL)


def test_a_plan_that_an_executor_at_its_end_does_not_take_up_is_carried_out_by_who_gave_it(
    yard: Yard, tmp_path: Path
) -> None:
    plan = str(write_plan(tmp_path / "order.json", yard.topic, {0: (2, 1)}))
    with closing(SqliteJournal(yard.shunter.journal, "an executor at its end")) as ending:
        ending.acquire(SystemClock().now_ms())
        given = yard.shunter.start("execute", plan, "--yes")
        given.wait_for(lambda: ending.orders() != (), about="the plan being handed over")
        ending.release()
        assert given.end() == ExitCode.DONE, given.lines[-3:]
        assert any("the plan is carried out here" in told for told in given.errors), given.errors
        assert ending.orders() == ()
    yard.ended_in(ORIGINAL | {0: (2, 1)})
    undone = yard.shunter.run("undo", "--yes")
    assert undone.returncode == ExitCode.DONE, undone.stdout + undone.stderr
    yard.ended_in(ORIGINAL)


@pytest.mark.long
def test_a_journal_that_is_cut_off_under_an_executor_at_work_is_written_again(yard: Yard) -> None:
    running = yard.shunter.start("execute", yard.plan, "--yes", "--throttle", "100K")
    running.wait_for(lambda: yard.cluster.ongoing() > 0, about="moves under way")
    os.truncate(yard.shunter.journal, 1_000)

    def told() -> list[str]:
        return [line["text"] for line in list(running.lines) if line["event"] == "notice"]

    running.wait_for(lambda: any("was cut off from" in text for text in told()), about="the loss being told")
    assert yard.shunter.run("limit", "20M").returncode == ExitCode.DONE, "orders are taken as before"
    assert running.end(240) == ExitCode.DONE, running.lines[-3:]
    yard.ended_in(TARGET)


@pytest.mark.long
def test_a_test_that_fails_in_the_middle_leaves_nothing_to_the_next(
    kraft: KRaftCluster, yard: Yard, tmp_path: Path
) -> None:
    running = yard.shunter.start("execute", yard.plan, "--yes", "--throttle", "50K")
    running.wait_for(lambda: yard.cluster.ongoing() == PARTITIONS, about="moves under way")
    kraft.nodes[3].kill()
    tidy_up(kraft.nodes.values(), {"bootstrap_servers": kraft.bootstrap.split(",")})
    assert not running.lives_for(0)
    left = yard.cluster.replicas(yard.topic)
    yard.ended_in(left)
    order = str(write_plan(tmp_path / "order.json", yard.topic, {0: (3, 1)}))
    done = Shunter(kraft.bootstrap, tmp_path / "next.journal").run("execute", order, "--yes")
    assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
    yard.ended_in(left | {0: (3, 1)})


@pytest.mark.long
def test_a_doctor_finds_what_is_wrong_and_says_what_to_do(kraft: KRaftCluster, yard: Yard) -> None:
    def findings() -> tuple[int, dict[str, dict[str, str]]]:
        looked = yard.shunter.run("doctor", "--json")
        lines = [json.loads(line) for line in looked.stdout.splitlines()]
        assert lines[-1]["exit"] == looked.returncode, looked.stderr
        return looked.returncode, {line["check"]: line for line in lines[:-1] if line["level"] != "fine"}

    # Other tests' clients may have made Kafka's own topics, which one broker's death stops. Brokers may be starting.
    wait_until(lambda: findings()[1].keys() <= {"min.insync.replicas"}, what="a cluster that is well", timeout_s=90)
    shown = yard.shunter.run("doctor").stdout
    assert "3 brokers, controller " in shown
    assert "Apache (KRaft)" in shown
    assert f"the Kafka of all brokers is {kraft.version.rpartition('.')[0]}" in shown
    assert "the controller's clock is within 5 s of this host's" in shown
    low = f"{yard.topic}-low"
    yard.cluster.admin.create_topics(
        [NewTopic(low, replica_assignments={0: [1, 2]}, topic_configs={"min.insync.replicas": "3"})]
    )
    yard.cluster.admin.wait_for_topics([low])
    assert yard.cluster.set_throttle(1, 77)
    running = yard.shunter.start("execute", yard.plan, "--yes", "--throttle", "150K")
    running.wait_for(lambda: yard.cluster.ongoing() == PARTITIONS, about="moves under way")
    assert f"process {running.process.pid}" in findings()[1]["moves"]["text"]
    running.kill()
    code, found = findings()
    assert code == ExitCode.PARTLY
    assert f"nobody drives {PARTITIONS} open moves" in found["moves"]["text"]
    assert "driven by" not in yard.shunter.run("doctor").stdout, "the claim of a dead process is nobody's"
    assert (
        "no end: no executor drives it until `shunter resume`, or a service that stands by takes over"
        in yard.shunter.run("status").stdout
    )
    assert low in found["min.insync.replicas"]["text"]
    assert yard.shunter.run("rollback", "--yes", timeout_s=120).returncode == ExitCode.DONE
    _code, found = findings()
    assert "broker 1 leader.replication.throttled.rate = 77" in found["throttles"]["text"]
    assert "shunter throttles clear" in found["throttles"]["advice"]
    assert yard.shunter.run("throttles", "clear", "--yes").returncode == ExitCode.DONE
    yard.cluster.admin.delete_topics([low])


def test_a_pause_of_one_move_holds_whatever_else_moves(yard: Yard) -> None:
    running = yard.shunter.start("execute", yard.plan, "--yes", "--throttle", "150K")

    def copied() -> list[str]:
        rows = running.progress.get("moves", ())
        return [str(row["partition"]) for row in rows if row["copied_bytes"] > 0]

    # Under a throttle Kafka may copy one partition while another starves: the test pauses the one that has begun.
    running.wait_for(lambda: copied() != [], about="some of one being copied")
    first = copied()[0]
    number = int(first.rpartition("-")[2])
    unasked = yard.shunter.run("pause", first)
    assert unasked.returncode == ExitCode.USAGE, unasked.stdout
    assert "are copied again: 1 paused copy is cancelled" in unasked.stderr, "its cost is told first"
    assert yard.shunter.run("pause", first, "--yes").returncode == ExitCode.DONE
    running.wait_for(lambda: number not in yard.cluster.moving(yard.topic), about="the paused copy being cancelled")
    assert set(yard.cluster.replicas(yard.topic)[number]) == set(ORIGINAL[number])
    assert yard.shunter.run("limit", "20M").returncode == ExitCode.DONE
    running.wait_for(lambda: running.progress["counts"] == {"done": 3, "paused": 1}, about="the others' end")
    assert set(yard.cluster.replicas(yard.topic)[number]) == set(ORIGINAL[number]), "a pause holds"
    assert yard.shunter.run("resume", first).returncode == ExitCode.DONE
    assert running.end(240) == ExitCode.DONE, running.lines[-3:]
    yard.ended_in(TARGET)


def test_an_order_for_one_move_waits_for_no_paused_one(yard: Yard) -> None:
    """An outsider's find: after a pause and the executor's death, `stop ONE-MOVE` stopped it and never ended."""
    running = yard.shunter.start("execute", yard.plan, "--yes", "--throttle", "150K")
    running.wait_for(lambda: running.progress["counts"].get("moving", 0) > 0, about="moves under way")
    assert yard.shunter.run("pause", "--yes").returncode == ExitCode.DONE
    running.wait_for(lambda: running.progress["counts"].get("paused", 0) == PARTITIONS, about="the pause")
    running.kill()
    stopped = yard.shunter.run("stop", f"{yard.topic}-0", "--yes", timeout_s=120)
    assert stopped.returncode == ExitCode.DONE, stopped.stdout + stopped.stderr
    assert f"{PARTITIONS - 1} other moves stay paused under the journal: `shunter resume` goes on" in stopped.stdout
    assert "1 stopped" in stopped.stdout
    assert "open moves to their end" not in stopped.stderr, "paused ones are not driven"
    assert "3 paused" in yard.shunter.run("status").stdout
    back = yard.shunter.run("rollback", "--yes", timeout_s=120)
    assert back.returncode == ExitCode.DONE, back.stdout + back.stderr
    yard.ended_in(ORIGINAL)


def test_a_dry_run_and_a_plan_of_the_live_cluster_say_what_would_happen_and_touch_nothing(
    yard: Yard, tmp_path: Path
) -> None:
    done = yard.shunter.run("execute", yard.plan, "--dry-run")
    assert done.returncode == ExitCode.DONE, done.stderr
    assert "1. [3, 1]  copies 6." in done.stdout
    assert "a guess" in done.stdout
    assert not yard.shunter.journal.exists()
    saved = tmp_path / "saved.json"
    # Other tests' clients may have made Kafka's own topics, whose three replicas fit on no two brokers.
    theirs = ",".join(name for name in yard.cluster.admin.list_topics() if name != yard.topic)
    asked = ["plan", "--scope", "drain", "--brokers", "1", "--exclude-topics", theirs]
    live = CliRunner().invoke(main, [*asked, "--bootstrap-server", yard.bootstrap, "--save", str(saved)])
    # Replicas of excluded topics stay, and that is told as not done.
    assert live.exit_code == (ExitCode.PARTLY if "the topics are excluded" in live.stderr else ExitCode.DONE), (
        live.stderr
    )
    plan = {(row["topic"], row["partition"]): row for row in json.loads(live.stdout)["partitions"]}
    found = {number: tuple(plan[yard.topic, number]["original_replicas"]) for number in ORIGINAL}
    assert found == ORIGINAL
    assert all(1 not in row["replicas"] for row in plan.values())
    assert "3 brokers in 1 rack" in live.stderr
    assert CliRunner().invoke(main, [*asked, "--from", str(saved), "--ignore-racks"]).stdout == live.stdout
    yard.ended_in(ORIGINAL)


def test_the_documented_program_moves_a_topic_and_back(yard: Yard, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "api-python.md").read_text(encoding="utf-8")
    program = page.split("```python\n")[1].split("```")[0]
    program = program.replace("scope=", "headroom_percent=0, scope=")
    exec(program.replace("kafka1:9092", yard.bootstrap).replace("orders", yard.topic), {})
    told = capsys.readouterr().out
    assert f"{PARTITIONS} replicas to copy" in told
    assert f"{yard.topic}-0 1 to 3 its topic is wanted elsewhere" in told
    yard.ended_in(ORIGINAL)


def test_a_program_turns_the_moves_of_another(yard: Yard) -> None:
    """And by the verbs: a plan through a pipe, and a move by hand."""
    words = ("--scope", "topics", "--partitions", yard.topic, "--to", "2,3", "--bootstrap-server", yard.bootstrap)
    planned = CliRunner().invoke(main, ["plan", *words])
    command = yard.shunter.command("execute", "-", "--yes", "--throttle", "200K")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        remember(running)
        assert running.stdin is not None
        running.stdin.write(planned.stdout)
        running.stdin.close()
        wait_until(lambda: yard.cluster.ongoing() > 0, what="moves under way", timeout_s=60)
        program = Program(yard.bootstrap, journal=yard.shunter.journal)
        outcome = program.rollback()
        assert (outcome.status, outcome.view) == (ExitCode.DONE, None), outcome.told
        assert running.wait(120) == ExitCode.TURNED
    yard.ended_in(ORIGINAL)
    assert [len(each.moves) for each in program.history()] == [PARTITIONS]
    done = yard.shunter.run("move", f"{yard.topic}-0,{yard.topic}-1", "--to", "2,3", "--yes", timeout_s=240)
    assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
    assert {number: set(row) for number, row in yard.cluster.replicas(yard.topic).items()} == {
        0: {2, 3},
        1: {2, 3},
        2: {1, 2},
        3: {1, 2},
    }


@pytest.mark.long
def test_what_of_a_plan_does_not_fit_is_refused_by_partition_and_the_rest_is_moved(yard: Yard, tmp_path: Path) -> None:
    entries = [
        {"topic": yard.topic, "partition": 0, "replicas": [3, 1], "original_replicas": [1, 2]},
        {"topic": yard.topic, "partition": 1, "replicas": [3, 2], "original_replicas": [1, 2]},
        {"topic": yard.topic, "partition": 2, "replicas": [2, 99]},
        {"topic": yard.topic, "partition": 9, "replicas": [2, 1]},
        {"topic": f"{yard.topic}-gone", "partition": 0, "replicas": [2, 1]},
    ]
    plan = tmp_path / "misfit.json"
    plan.write_text(json.dumps({"version": 1, "partitions": entries}))
    done = yard.shunter.run("execute", str(plan), "--yes", "--throttle", "5M", timeout_s=240)
    assert done.returncode == ExitCode.PARTLY, done.stdout + done.stderr
    for told in (
        f"{yard.topic}-1 was not taken on: the plan was made when {yard.topic}-1 was on [1, 2]; now it is on [2, 1]",
        "name broker 99, which is not a live broker; live are [1, 2, 3]; start it first, or name a live one",
        f"topic {yard.topic} has {PARTITIONS} partitions, and no 9",
        f"there is no topic {yard.topic}-gone",
        "1 done",
    ):
        assert told in done.stdout, done.stdout
    yard.ended_in(ORIGINAL | {0: (3, 1)})


@pytest.mark.long
def test_what_others_began_is_left_alone(yard: Yard, tmp_path: Path) -> None:
    theirs = str(write_plan(tmp_path / "theirs.json", yard.topic, {0: (3, 2)}))
    running = yard.shunter.start("execute", theirs, "--yes", "--throttle", "10K")
    running.wait_for(lambda: yard.cluster.ongoing() > 0, about="a move that others began")
    running.kill()
    ours = str(write_plan(tmp_path / "ours.json", yard.topic, {0: (3, 1)}))
    refused = Shunter(yard.bootstrap, tmp_path / "second.journal").run("execute", ours, "--yes")
    assert refused.returncode == ExitCode.REFUSED
    assert "already being moved" in refused.stdout + refused.stderr
    assert TopicPartition(yard.topic, 0) in yard.cluster.admin.list_partition_reassignments()
    assert yard.shunter.run("rollback", "--yes", timeout_s=120).returncode == ExitCode.DONE
    yard.ended_in(ORIGINAL)


@pytest.mark.long
def test_throttles_that_a_dead_executor_left_behind_are_listed_and_cleared(yard: Yard) -> None:
    running = yard.shunter.start("execute", yard.plan, "--yes", "--throttle", "100K")
    running.wait_for(lambda: yard.cluster.ongoing() > 0, about="moves under way")
    running.kill()
    listed = yard.shunter.run("throttles", "list")
    assert listed.returncode == ExitCode.DONE, listed.stderr
    assert "broker 1 leader.replication.throttled.rate = 100000" in listed.stdout
    assert f"topic {yard.topic} follower.replication.throttled.replicas = " in listed.stdout
    assert "under the journal" in listed.stdout
    refused = yard.shunter.run("throttles", "clear", "--yes")
    assert refused.returncode == ExitCode.REFUSED, refused.stdout
    assert yard.shunter.run("rollback", "--yes", timeout_s=120).returncode == ExitCode.DONE
    yard.ended_in(ORIGINAL)
    assert yard.cluster.set_throttle(1, 77)
    assert "broker 1 leader.replication.throttled.rate = 77" in yard.shunter.run("throttles", "list").stdout
    assert yard.shunter.run("throttles", "clear", "--yes").returncode == ExitCode.DONE
    yard.ended_in(ORIGINAL)


@pytest.mark.long
def test_an_executor_whose_output_nobody_reads_drives_on(yard: Yard) -> None:
    command = yard.shunter.command("execute", yard.plan, "--yes", "--throttle", "200K")
    driving = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    remember(driving)
    assert driving.stdout is not None
    assert driving.stderr is not None
    driving.stdout.readline()
    driving.stdout.close()
    told = [driving.stderr.readline() for _line in range(2)]
    assert told[-1] == "shunter: nobody reads the output any more: this goes on without it\n", told
    assert yard.shunter.run("rollback", "--yes").returncode == ExitCode.DONE, "it takes orders"
    assert driving.wait(120) == ExitCode.TURNED
    assert driving.stderr.read() == ""
    driving.stderr.close()
    yard.ended_in(ORIGINAL)


@pytest.mark.long
def test_a_terminal_that_is_closed_leaves_as_sigterm_does_and_nohup_drives_on(yard: Yard) -> None:
    command = yard.shunter.command("execute", yard.plan, "--yes", "--throttle", "200K", "--json")
    running = Running(["/usr/bin/env", "nohup", *command])
    running.wait_for(lambda: running.progress["counts"].get("moving", 0) > 0, about="moves under way")
    running.process.send_signal(signal.SIGHUP)
    paused = yard.shunter.run("pause")
    assert paused.returncode == ExitCode.DONE, paused.stderr
    running.process.send_signal(signal.SIGTERM)
    assert running.end() == ExitCode.LEFT
    second = yard.shunter.start("resume")
    second.wait_for(lambda: second.progress["counts"].get("moving", 0) > 0, about="moves under way")
    second.process.send_signal(signal.SIGHUP)
    assert second.end() == ExitCode.LEFT
    assert "left running under the journal" in str(second.lines[-1]["told"])
    assert yard.shunter.run("rollback", "--yes").returncode == ExitCode.DONE
    yard.ended_in(ORIGINAL)
