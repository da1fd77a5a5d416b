"""The journal in a topic of a real cluster: durable in order, one driver, fenced by a transactional id."""

import time
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import executor_scenarios as scenarios
import pytest
from executor_process import Cluster, Shunter
from executor_scenarios import BROKERS, TARGET, Yard
from kafka import TopicPartition

from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.app.exit_codes import ExitCode
from shunter.drivers.journal.journals import LEASE_MS, JournalFenced, JournalHeld
from shunter.drivers.journal.topic import ANSWERS_KEPT_MS, TopicJournal, topic_exists
from shunter.model.execution import ExecutionOptions, JournalEntry, PlanAccepted, RateObserved

pytestmark = [pytest.mark.kraft, pytest.mark.timeout(600)]

NOW = 1_000_000


def entry(sequence: int) -> JournalEntry:
    record = PlanAccepted("p", "c", ExecutionOptions()) if sequence == 1 else RateObserved(1, sequence, limited=False)
    return JournalEntry(sequence, NOW + sequence, "test", record)


@pytest.fixture
def configuration(kraft: KRaftCluster) -> dict[str, Any]:
    return {"bootstrap_servers": kraft.bootstrap.split(","), "request_timeout_ms": 20_000}


@pytest.fixture
def topic() -> str:
    return f"shunter-journal-{uuid4().hex[:8]}"


def test_what_was_appended_is_read_back_by_another_process(configuration: dict[str, Any], topic: str) -> None:
    assert not topic_exists(configuration, topic)
    with closing(TopicJournal(configuration, topic, "first")) as journal:
        journal.acquire(NOW)
        journal.append([entry(1), entry(2)], NOW)
        journal.append([entry(3)], NOW)
    assert topic_exists(configuration, topic)
    with closing(TopicJournal(configuration, topic, "reader")) as reader:
        assert reader.load() == (entry(1), entry(2), entry(3))


def test_a_second_driver_is_refused_until_the_lease_ends_and_then_fences_the_first(
    configuration: dict[str, Any], topic: str
) -> None:
    with (
        closing(TopicJournal(configuration, topic, "first")) as first,
        closing(TopicJournal(configuration, topic, "second")) as second,
    ):
        first.acquire(NOW)
        first.append([entry(1)], NOW)
        with pytest.raises(JournalHeld, match="driven by process"):
            second.acquire(NOW + 1)
        second.acquire(NOW + LEASE_MS + 1)
        second.append([entry(2)], NOW + LEASE_MS + 1)
        with pytest.raises(JournalFenced):
            first.append([entry(2)], NOW + LEASE_MS + 1)
        assert second.load() == (entry(1), entry(2))


def test_a_journal_whose_leader_moves_is_read_and_renewed_within_seconds(
    configuration: dict[str, Any], topic: str, kraft: KRaftCluster
) -> None:
    """An SRE's find: the client asked the former leader for 20 s, and meanwhile nobody took a kill switch."""
    with closing(TopicJournal(configuration, topic, "first")) as journal, closing(Cluster(kraft.bootstrap)) as cluster:
        journal.acquire(NOW)
        journal.append([entry(1)], NOW)
        journal.check()
        held = cluster.replicas(topic)[0]
        leader = held[0]
        others = [broker for broker in BROKERS if broker != leader]
        cluster.admin.alter_partition_reassignments({TopicPartition(topic, 0): others})
        wait_until(lambda: cluster.replicas(topic)[0] == tuple(others), what="the journal has moved", timeout_s=60)
        began = time.monotonic()
        journal.check()
        journal.renew(NOW)
        assert time.monotonic() - began < 8, "the default is 20 s"
        journal.append([entry(2)], NOW)


def test_orders_reach_the_driver_and_are_answered(configuration: dict[str, Any], topic: str) -> None:
    with (
        closing(TopicJournal(configuration, topic, "driver")) as driver,
        closing(TopicJournal(configuration, topic, "shell")) as shell,
    ):
        driver.acquire(NOW)
        number = shell.order("command", {"kind": "stop"}, NOW)
        assert shell.answer_to(number) is None
        (found,) = driver.orders()
        assert (found.number, found.kind, found.body) == (number, "command", '{"kind":"stop"}')
        driver.answer(number, "done")
        # Readers see a transaction a moment after its commit was answered.
        wait_until(lambda: shell.answer_to(number) == "done", what="the answer is seen", timeout_s=10)
        wait_until(lambda: driver.answer_to(number) == "done", what="the driver sees its answer", timeout_s=10)
        assert driver.orders() == ()
        driver.renew(NOW)
        driver.renew(NOW + ANSWERS_KEPT_MS)
        wait_until(lambda: shell.answer_to(number) is None, what="the answer is deleted", timeout_s=10)
        driver.release()
        wait_until(lambda: shell.holder(NOW) is None, what="the release is seen", timeout_s=10)


@pytest.mark.long
def test_an_execution_survives_its_death_under_a_topic(
    kraft: KRaftCluster, tmp_path: Path, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUNTER_STATE", str(tmp_path))
    yard = Yard(kraft.bootstrap, tmp_path)
    try:
        shunter = Shunter(kraft.bootstrap, topic=topic)
        with yard.producer() as producer:
            running = shunter.start("execute", yard.plan, "--yes", "--throttle", "1M")
            running.wait_for(lambda: running.progress["counts"].get("moving", 0) > 0, about="moves under way")
            running.kill()
            running = shunter.start("resume")
            running.wait_for(lambda: running.progress["counts"].get("moving", 0) > 0, about="moves under way")
            limited = shunter.run("limit", "5M")
            assert limited.returncode == ExitCode.DONE, limited.stderr
            assert running.end(240) == ExitCode.DONE, running.lines[-3:]
        yard.ended_in(TARGET)
        scenarios.nothing_is_lost(producer)
        told = shunter.run("status")
        assert f"journal kafka:{topic}" in told.stdout
        assert "4 done" in told.stdout
    finally:
        yard.close()
