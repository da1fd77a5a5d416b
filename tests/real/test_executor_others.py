"""The executor beside others: moves of Apache's own tool, an executor of another host, and one that stands still."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_process import Running, Shunter, write_plan
from executor_scenarios import BROKERS, BYTES, ORIGINAL, PARTITIONS, Yard
from live_producer import fill

from lab.testbed import tools
from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.app.exit_codes import ExitCode

pytestmark = [pytest.mark.kraft, pytest.mark.long, pytest.mark.timeout(600)]

THEIRS = {0: (3, 1), 1: (3, 2)}
OURS = {0: (3, 2), 1: (3, 2)}
RATE = "20000"


@pytest.fixture
def yard(kraft: KRaftCluster, tmp_path: Path) -> Iterator[Yard]:
    made = Yard(kraft.bootstrap, tmp_path)
    # Kafka's throttles let a megabyte of each partition through at once, every ten seconds or so.
    fill(kraft.bootstrap, made.topic, PARTITIONS, 2 * BYTES)
    yield made
    # All tests share the brokers: a throttle that one test left there would slow the next test's moves.
    Shunter(kraft.bootstrap, tmp_path / "none.journal").run("throttles", "clear", "--yes")
    made.close()


def reassign(kraft: KRaftCluster, plan: str, *options: str) -> str:
    """Run Apache's own tool with a plan."""
    arguments = ["--bootstrap-server", kraft.bootstrap, "--reassignment-json-file", plan, *options]
    done = tools.kafka_tool(tools.REASSIGN_PARTITIONS, *arguments, version=kraft.version, timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def theirs(kraft: KRaftCluster, yard: Yard, tmp_path: Path) -> str:
    """Begin moves by Apache's tool, under its own throttle: so slow that they outlast every test."""
    plan = str(write_plan(tmp_path / "theirs.json", yard.topic, THEIRS))
    reassign(kraft, plan, "--execute", "--throttle", RATE)
    wait_until(lambda: yard.cluster.ongoing() == len(THEIRS), what="their moves are under way", timeout_s=60)
    wait_until(lambda: len(their_throttles(yard)) == 2 * len(BROKERS) + 2, what="their throttles", timeout_s=60)
    return plan


def their_throttles(yard: Yard) -> dict[str, str]:
    return yard.cluster.throttles(BROKERS, (yard.topic,))


def notices(running: Running, kind: str) -> list[str]:
    return [line["text"] for line in list(running.lines) if line["event"] == "notice" and line["kind"] == kind]


@pytest.mark.usefixtures("theirs")
def test_nothing_is_taken_over_unless_that_is_asked_for_twice(yard: Yard, tmp_path: Path) -> None:
    ours = str(write_plan(tmp_path / "ours.json", yard.topic, OURS))
    refused = yard.shunter.run("execute", ours, "--yes")
    assert refused.returncode == ExitCode.REFUSED
    assert "already being moved to [3, 1] by somebody else" in refused.stdout
    # The refused command left a journal without an execution.
    status = yard.shunter.run("status").stdout
    assert "nothing was executed under it yet\n2 moves are under way that the journal does not have: " in status
    assert f"  {yard.topic}-0 [1, 2] → [3, 1] (forward, moving)\n" in status
    shown = yard.shunter.run("execute", ours, "--dry-run", "--take-over")
    assert "the order of its original replicas is a guess" in shown.stdout
    unasked = yard.shunter.run("execute", ours, "--take-over")
    assert unasked.returncode == ExitCode.USAGE
    assert "whose original order is unknown" in unasked.stderr
    assert yard.cluster.ongoing() == len(THEIRS)
    # The journal has none of them, so the controller is asked, and it has no pause.
    assert yard.shunter.run("pause", f"{yard.topic}-0", "--yes").returncode == ExitCode.REFUSED
    unasked = yard.shunter.run("rollback")
    assert unasked.returncode == ExitCode.USAGE
    assert "not in the journal, so another tool or `shunter submit` began this" in unasked.stderr
    assert yard.cluster.ongoing() == len(THEIRS)
    one = yard.shunter.run("stop", f"{yard.topic}-0", "--yes")
    assert (one.returncode, yard.cluster.ongoing()) == (ExitCode.DONE, len(THEIRS) - 1), one.stdout + one.stderr
    assert yard.shunter.run("rollback", "--yes").returncode == ExitCode.DONE
    wait_until(lambda: yard.cluster.replicas(yard.topic) == ORIGINAL, what="all is as it was", timeout_s=30)
    assert yard.cluster.ongoing() == 0


def test_a_plan_that_is_submitted_needs_no_process(yard: Yard, tmp_path: Path) -> None:
    plan = str(write_plan(tmp_path / "plan.json", yard.topic, OURS))
    assert yard.shunter.run("submit", plan, "--dry-run").returncode == ExitCode.DONE
    assert yard.cluster.ongoing() == 0
    done = yard.shunter.run("submit", plan, "--yes")
    assert (done.returncode, done.stdout) == (ExitCode.DONE, "2 of 2 partitions taken on by the controller\n")
    wait_until(lambda: yard.shunter.look("verify", plan).returncode == ExitCode.DONE, what="the plan", timeout_s=60)


@pytest.mark.usefixtures("theirs")
def test_what_is_taken_over_ends_in_our_target_and_copies_nothing_twice(yard: Yard, tmp_path: Path) -> None:
    ours = str(write_plan(tmp_path / "ours.json", yard.topic, OURS))
    foretold = yard.shunter.run("execute", ours, "--take-over", "--dry-run", "--throttle", "5M")
    assert "! somebody else's throttle holds broker " in foretold.stdout, foretold.stdout + foretold.stderr
    running = yard.shunter.start("execute", ours, "--take-over", "--yes", "--throttle", "5M")
    running.wait_for(lambda: len(notices(running, "taken-over")) == len(OURS), about="both being taken over")
    assert any("[1, 2] may have had another order" in text for text in notices(running, "taken-over"))
    assert notices(running, "foreign-move") == []
    running.wait_for(lambda: notices(running, "throttle-lower") != [], about="their throttle being told")
    running.wait_for(lambda: "broker 1 to " in running.progress.get("lower", ""), about="it stands beside the ETA")
    # Broker 2, which their target drops and the plan wants, keeps its replica: nothing is copied again.
    running.wait_for(lambda: {1, 2} <= set(yard.cluster.replicas(yard.topic)[0]), about="broker 2 staying")
    assert yard.shunter.run("throttles", "clear", "--yes").returncode == ExitCode.DONE
    assert running.end(240) == ExitCode.DONE, running.lines[-3:]
    found = yard.cluster.replicas(yard.topic)
    assert {number: found[number] for number in OURS} == OURS
    assert yard.cluster.ongoing() == 0
    # Their list of throttled replicas, which the executor had extended, is restored. Their rates were cleared.
    assert set(their_throttles(yard).values()) == {"0:1,0:2,1:1,1:2"}
    assert yard.shunter.run("throttles", "clear", "--yes").returncode == ExitCode.DONE
    assert their_throttles(yard) == {}


def test_what_is_taken_over_rolls_back_to_what_adding_and_removing_tell(
    kraft: KRaftCluster, yard: Yard, theirs: str, tmp_path: Path
) -> None:
    nothing = tmp_path / "null.json"
    nothing.write_text(Path(theirs).read_text().replace("[3, 1]", "null").replace("[3, 2]", "null"))
    cancelled = yard.shunter.run("execute", str(nothing), "--take-over", "--yes")
    assert cancelled.returncode == ExitCode.TURNED, cancelled.stdout + cancelled.stderr
    assert "2 rolled back" in cancelled.stdout
    assert yard.cluster.replicas(yard.topic) == ORIGINAL
    assert yard.cluster.ongoing() == 0
    assert len(their_throttles(yard)) == 2 * len(BROKERS) + 2, "what they set is theirs to take away"
    reassign(kraft, theirs, "--verify")
    wait_until(lambda: their_throttles(yard) == {}, what="Apache's --verify clearing its throttles", timeout_s=60)


def test_who_takes_a_cluster_over_finds_what_the_other_left_and_says_so(yard: Yard, tmp_path: Path) -> None:
    """As on two hosts, while the first executor is still alive."""
    first, second = (Shunter(yard.bootstrap, tmp_path / f"{n}.journal", state=tmp_path / n) for n in ("one", "two"))
    plan = str(write_plan(tmp_path / "one.json", yard.topic, {0: (3, 1), 1: (3, 2)}))
    one = first.start("execute", plan, "--yes", "--throttle", "300K")
    one.wait_for(lambda: yard.cluster.ongoing() == 2, about="the first one's moves")
    plan = str(write_plan(tmp_path / "two.json", yard.topic, {1: (3, 1), 2: (3, 2)}))
    two = second.start("execute", plan, "--yes", "--throttle", "100K", "--take-over-cluster")
    two.wait_for(lambda: yard.cluster.ongoing() == 3, about="the second one's move")
    assert one.end() == ExitCode.HELD, "it asks for nothing any more"
    assert "the claim was lost: this cluster is driven by" in str(one.lines[-1]["told"])
    assert second.run("limit", "none").returncode == ExitCode.DONE
    assert two.end(240) == ExitCode.PARTLY
    assert f"{yard.topic}-1 is already being moved to" in str(two.lines[-1]["told"])
    assert first.run("rollback", "--yes").returncode == ExitCode.DONE
    assert yard.cluster.replicas(yard.topic) == ORIGINAL | {2: (3, 2)}
    assert yard.cluster.ongoing() == 0
    # The second executor found and gave back the first one's throttles. The first one gave them back as well.
    assert any(
        "the value that another tool had set is given back" in told for told in notices(two, "throttle-theirs-again")
    )
    assert their_throttles(yard) == {}


def stopped(yard: Yard) -> Running:
    """An executor that was suspended in the middle of its moves, and whose lease has run out."""
    running = yard.shunter.start("execute", yard.plan, "--yes", "--throttle", "150K")
    running.wait_for(lambda: yard.cluster.ongoing() == PARTITIONS, about="moves under way")
    running.process.send_signal(signal.SIGSTOP)
    about = "the lease running out"
    wait_until(lambda: standing(running) in yard.shunter.run("status").stdout, what=about, timeout_s=90)
    return running


def standing(running: Running) -> str:
    return f"process {running.process.pid} has not renewed its lease since"


def goes_on(yard: Yard, running: Running) -> None:
    """Continue a suspended executor: it takes an order again, and carries it out."""
    running.process.send_signal(signal.SIGCONT)
    assert yard.shunter.run("rollback", "--yes").returncode == ExitCode.DONE, "it takes orders again"
    assert running.end() == ExitCode.TURNED, running.lines[-3:]
    yard.ended_in(ORIGINAL)


def test_nobody_takes_anything_from_an_executor_that_stands_still_and_it_goes_on(yard: Yard) -> None:
    running = stopped(yard)
    for verb, *options in (("resume",), ("rollback", "--yes"), ("execute", yard.plan, "--yes"), ("pause",)):
        refused = yard.shunter.run(verb, *options)
        assert refused.returncode == ExitCode.HELD, refused.stdout + refused.stderr
        way_out = f"continue it (kill -CONT {running.process.pid}) or end it (kill -9 {running.process.pid})"
        assert standing(running) in refused.stderr
        assert way_out in refused.stderr
    goes_on(yard, running)


def test_an_executor_that_stood_still_longer_than_its_claim_claims_again(yard: Yard) -> None:
    running = stopped(yard)
    second = Shunter(yard.bootstrap, yard.shunter.journal.with_name("two.journal"), state=yard.shunter.journal.parent)
    claimed = "drives this cluster under another journal"
    assert claimed in second.run("pause").stderr
    wait_until(lambda: claimed not in second.run("pause").stderr, what="the claim running out", timeout_s=120)
    goes_on(yard, running)


def test_a_journal_is_taken_over_from_an_executor_that_stands_still_which_then_ends(yard: Yard) -> None:
    first = stopped(yard)
    second = yard.shunter.start("resume", "--take-over-cluster")
    second.wait_for(lambda: second.progress["counts"].get("moving", 0) > 0, about="the second one driving")
    first.process.send_signal(signal.SIGCONT)
    assert first.end() == ExitCode.HELD, first.lines[-3:]
    assert f"is driven by process {second.process.pid}" in str(first.lines[-1]["told"])
    assert yard.shunter.run("rollback", "--yes").returncode == ExitCode.DONE
    assert second.end() == ExitCode.TURNED, second.lines[-3:]
    yard.ended_in(ORIGINAL)
