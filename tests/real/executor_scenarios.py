"""Scenarios that an execution must survive under every controller. One test file for each kind of cluster runs them."""

import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from executor_process import Cluster, Shunter, write_plan
from kafka.errors import UnknownBrokerIdError
from live_producer import LiveProducer, fill

from lab.testbed.failures import PartFailed
from lab.testbed.waiting import wait_until
from shunter.app.exit_codes import ExitCode

BROKERS = (1, 2, 3)
PARTITIONS = 4
BYTES = 6_000_000
ORIGINAL = {0: (1, 2), 1: (2, 1), 2: (1, 2), 3: (2, 1)}
TARGET = {0: (3, 1), 1: (3, 2), 2: (2, 3), 3: (1, 3)}


def _connected(bootstrap: str) -> Cluster:
    """A client that knows every broker: it keeps the list from when it connected, and one broker's list may be late."""
    knowing: list[Cluster] = []

    def knows_all() -> bool:
        made = Cluster(bootstrap)
        try:
            made.throttles(BROKERS, ())
        except UnknownBrokerIdError:
            made.close()
            return False
        knowing.append(made)
        return made.live() >= set(BROKERS)

    try:
        wait_until(knows_all, what="a client knows every broker", timeout_s=60)
    finally:
        for late in knowing[:-1]:
            late.close()
    return knowing[-1]


class Yard:
    """A cluster with a filled topic, a plan for it, and commands against it."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        """Make the topic and the plan."""
        self.bootstrap = bootstrap
        self.cluster = _connected(bootstrap)
        self.topic = f"t{uuid4().hex[:8]}"
        self.cluster.make(self.topic, ORIGINAL)
        fill(bootstrap, self.topic, PARTITIONS, BYTES)
        self.shunter = Shunter(bootstrap, folder / "moves.journal")
        self.plan = str(write_plan(folder / "plan.json", self.topic, TARGET))
        self.throttles = self.cluster.throttles(BROKERS, (self.topic,))

    def close(self) -> None:
        self.cluster.close()

    def reconnect(self) -> None:
        """A new client: one that was there while a broker was down may have forgotten that broker."""
        self.cluster.close()
        self.cluster = _connected(self.bootstrap)

    def ended_in(self, assignment: dict[int, tuple[int, ...]]) -> None:
        """Wait until every broker shows the wanted replicas in order, and no move or throttle of the test is left."""
        wanted = (assignment, 0, self.throttles)
        with suppress(PartFailed):
            wait_until(lambda: self._found() == wanted, what="the brokers say so", timeout_s=20)
        assert self._found() == wanted

    def _found(self) -> tuple[dict[int, tuple[int, ...]], int, dict[str, str]]:
        replicas, ongoing = self.cluster.replicas(self.topic), self.cluster.ongoing()
        return replicas, ongoing, self.cluster.throttles(BROKERS, (self.topic,))

    def producer(self) -> LiveProducer:
        return LiveProducer(self.bootstrap, self.topic, PARTITIONS)


def nothing_is_lost(producer: LiveProducer) -> None:
    assert producer.count > 0
    assert producer.failures == [], (len(producer.failures), producer.failures[:3])
    assert producer.missing() == {}


def a_plan_runs_to_its_end(yard: Yard) -> None:
    with yard.producer() as producer:
        done = yard.shunter.run("execute", yard.plan, "--yes", "--throttle", "3M", timeout_s=240)
    assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
    yard.ended_in(TARGET)
    nothing_is_lost(producer)


def what_was_done_is_undone(yard: Yard) -> None:
    """After a plan that ran to its end: execute its reverse, and then the reverse of the reverse."""
    told = yard.shunter.run("history")
    assert told.returncode == ExitCode.DONE, told.stderr
    assert "  1  20" in told.stdout
    assert f"{PARTITIONS} done" in told.stdout
    assert yard.shunter.run("undo", "7", "--yes").returncode == ExitCode.REFUSED
    idle = yard.shunter.run("pause")
    assert (idle.returncode, "nothing is under way: there is nothing to pause" in idle.stderr) == (
        ExitCode.REFUSED,
        True,
    )
    unasked = yard.shunter.run("undo")
    assert unasked.returncode == ExitCode.USAGE, "a script has to say that it means it"
    shown = yard.shunter.run("undo", "--dry-run")
    assert shown.returncode == ExitCode.DONE, shown.stderr
    assert f"{yard.topic}-0  [3, 1] → [1, 2]" in shown.stdout
    yard.ended_in(TARGET)
    done = yard.shunter.run("undo", "--yes", "--throttle", "20M", timeout_s=240)
    assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
    yard.ended_in(ORIGINAL)
    again = yard.shunter.run("undo", "1", "--yes")
    assert again.returncode == ExitCode.DONE, again.stdout + again.stderr
    assert f"{PARTITIONS} done" in again.stdout, "what is back already is left where it is"
    yard.ended_in(ORIGINAL)
    listed = yard.shunter.run("history", "--json").stdout.splitlines()
    assert [json.loads(line)["counts"] for line in listed] == 3 * [{"done": PARTITIONS}]


def killed_at_random_moments(yard: Yard, afterwards: str, deaths: int) -> None:
    dice = random.Random(f"{afterwards} {deaths}")
    with yard.producer() as producer:
        running = yard.shunter.start("execute", yard.plan, "--yes", "--throttle", "300K")
        running.wait_for(lambda: running.progress["counts"].get("moving", 0) > 0, about="moves under way")
        for death in range(deaths):
            assert running.lives_for(dice.uniform(0.2, 2.0 if deaths > 3 else 4.0)), running.lines[-3:]
            running.kill()
            running = yard.shunter.start(
                *(["resume"] if death < deaths - 1 or afterwards == "resume" else ["rollback", "--yes"])
            )
        if afterwards == "resume":
            # It was so slow that every kill fell into the middle of the moves. Now it may end.
            running.wait_for(lambda: running.progress["counts"] != {}, about="the journal being taken up")
            assert yard.shunter.run("limit", "20M").returncode == ExitCode.DONE
        code = running.end(300)
    assert code == ExitCode.DONE, running.lines[-3:]
    yard.ended_in(TARGET if afterwards == "resume" else ORIGINAL)
    nothing_is_lost(producer)


def a_broker_dies_and_returns(yard: Yard, kill: Callable[[], object], start: Callable[[], object]) -> None:
    with yard.producer() as producer:
        running = yard.shunter.start("execute", yard.plan, "--yes", "--throttle", "1500K")
        running.wait_for(lambda: running.progress["counts"].get("moving", 0) > 0, about="moves under way")
        kill()
        running.wait_for(lambda: 3 in running.progress.get("brokers_down", ()), about="the death being seen")
        start()
        code = running.end(300)
    assert code == ExitCode.DONE, running.lines[-3:]
    notices = [line for line in running.lines if line["event"] == "notice"]
    kinds = {line["kind"] for line in notices}
    assert {"broker-down", "broker-up"} <= kinds
    assert "throttles-left-behind" not in kinds, notices
    yard.ended_in(TARGET)
    nothing_is_lost(producer)


def the_controller_dies(yard: Yard, kill: Callable[[int], object], start: Callable[[int], object]) -> None:
    """The controller is killed in the middle, even if it is also a broker of the moves, and returns later."""
    with yard.producer() as producer:
        running = yard.shunter.start("execute", yard.plan, "--yes", "--throttle", "300K")
        running.wait_for(lambda: running.progress["counts"].get("moving", 0) > 0, about="moves under way")
        controller = yard.cluster.controller()
        kill(controller)

        def told(kind: str) -> list[str]:
            return [line["text"] for line in list(running.lines) if line["event"] == "notice" and line["kind"] == kind]

        running.wait_for(lambda: told("controller-moved") != [], about="the new controller being told")
        assert f"moved from {controller} to " in told("controller-moved")[0]
        assert yard.shunter.run("limit", "3M").returncode == ExitCode.DONE, "orders are taken meanwhile"
        start(controller)
        code = running.end(300)
    assert code == ExitCode.DONE, running.lines[-3:]
    assert told("throttles-left-behind") == []
    yard.ended_in(TARGET)
    nothing_is_lost(producer)


def orders_come_from_other_shells(yard: Yard) -> None:
    running = yard.shunter.start("execute", yard.plan, "--yes", "--throttle", "200K")
    running.wait_for(lambda: running.progress["counts"].get("moving", 0) > 0, about="moves under way")
    held = yard.shunter.run("status")
    assert f"driven by process {running.process.pid}" in held.stdout
    paused = yard.shunter.run("pause")
    assert paused.returncode == ExitCode.DONE, paused.stderr
    assert "paused" in paused.stdout
    running.wait_for(lambda: running.progress["counts"].get("paused", 0) == PARTITIONS, about="the pause")
    assert yard.shunter.run("resume").returncode == ExitCode.DONE
    assert "the limit is 300.0 kB/s" in yard.shunter.run("limit", "300K").stdout
    running.wait_for(lambda: running.progress["limit"] == 300_000, about="the new limit")
    misspelt = yard.shunter.run("stop", "--topic", f"{yard.topic}-misspelt")
    told = "nothing that was named is being moved\n"
    assert (misspelt.returncode, misspelt.stdout) == (ExitCode.REFUSED, told), misspelt.stderr
    bounded = yard.shunter.run("limit", "--max-in", "1", "--max-concurrent", "0")
    assert bounded.returncode == ExitCode.DONE, bounded.stderr
    assert "max-concurrent without bound, max-in 1" in bounded.stdout
    rolled = yard.shunter.run("rollback", "--yes")
    assert rolled.returncode == ExitCode.DONE, rolled.stderr
    assert running.end() == ExitCode.TURNED
    yard.ended_in(ORIGINAL)
