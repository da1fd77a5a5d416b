"""The keeper on a real cluster: it sees a lopsided topic, proposes a plan, executes it, and then finds nothing to do.

And the service: it proposes, gets an approval, moves, is killed with SIGKILL, goes on. Its kill switch acts at once.
"""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from executor_process import SHUNTER, Cluster, Shunter
from live_producer import LiveProducer, fill
from serve_process import SERVED, Service, counts, paused_at_ms

from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.app.executor.session import Target
from shunter.app.exit_codes import ExitCode
from shunter.app.service.stories import Stories, journal_of

pytestmark = [pytest.mark.kraft, pytest.mark.timeout(600)]

PARTITIONS = 12
TILTED = 6
PATIENCE = float(os.environ.get("SHUNTER_TEST_PATIENCE", "1"))
AWAY = '\n[cluster.away]\nbootstrap-server = "127.0.0.1:1"\n'
# The policy allows for a full disk on this machine. Conditions of leaders are off: brokers hold elections minutes later.
POLICY = """
[cluster.yard]
bootstrap-server = "{bootstrap}"
journal = "moves.journal"

[cluster.yard.balance]
headroom-percent = 0

[cluster.yard.conditions]
disk-band = {{ minutes = 0, begin-percent = 30, end-percent = 20 }}
replicas-band = {{ minutes = 0, begin-percent = 30, end-percent = 20 }}
leaders-band = "off"
broker-empty = "off"
leaders-away = "off"
disk-full = "off"
log-dir-full = "off"

[cluster.yard.limits]
moves-per-day = 100
frozen-topics = ["__*"]
"""


def once(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the keeper once."""
    command = [*SHUNTER, "serve", str(folder / "keeper.toml"), "--once", "--state", str(folder / "state.json"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def look(folder: Path, *words: str) -> tuple[int, list[dict[str, Any]]]:
    """Run the keeper once with `--json`: its exit status and its rows."""
    done = once(folder, "--json", *words)
    assert done.stdout, done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def of_kind(rows: Sequence[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["event"] == event]


def test_what_is_proposed_is_executed_and_the_next_look_is_content(kraft: KRaftCluster, tmp_path: Path) -> None:
    policy = POLICY.format(bootstrap=kraft.bootstrap)
    (tmp_path / "keeper.toml").write_text(policy + AWAY)
    with closing(Cluster(kraft.bootstrap)) as cluster:
        cluster.make("lopsided", dict.fromkeys(range(PARTITIONS), (1, 2)))
        fill(kraft.bootstrap, "lopsided", PARTITIONS, 3_000_000)
        wait_until(lambda: cluster.in_sync("lopsided"), what="all are in sync", timeout_s=60)

        code, rows = look(tmp_path, "--plans", str(tmp_path / "plans"))
        assert code == ExitCode.CLUSTER, "the other cluster does not answer"
        assert [row["cluster"] for row in of_kind(rows, "error")] == ["away"]
        held = {row["about"] for row in of_kind(rows, "condition") if row["condition"] == "disk-band"}
        assert held == {"broker 1", "broker 2", "broker 3"}
        proposal = next(row for row in of_kind(rows, "proposal") if row["ready"])
        assert (proposal["scope"], proposal["held_back"]) == ("rebalance", [])
        assert 6 <= proposal["moves"] <= 9, "about a third of 24 replicas"
        assert cluster.replicas("lopsided") == dict.fromkeys(range(PARTITIONS), (1, 2)), "a look touches nothing"

        done = Shunter(kraft.bootstrap, tmp_path / "moves.journal").run("execute", proposal["plan"], "--yes")
        assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
        assert sum(3 in replicas for replicas in cluster.replicas("lopsided").values()) == proposal["moves"]

        (tmp_path / "keeper.toml").write_text(policy)
        # Kafka's internal topics, made meanwhile, may not be in sync yet.
        wait_until(lambda: look(tmp_path)[0] == ExitCode.DONE, what="the keeper is content", timeout_s=120)
        assert json.loads((tmp_path / "state.json").read_text())["clusters"]["yard"]["held"] == []

        moves = proposal["moves"]
        spent = policy.replace("moves-per-day = 100", f"moves-per-day = {moves}")
        lake = '\n[service]\nlake = "lake"\n'
        (tmp_path / "keeper.toml").write_text(f"{spent}\n[cluster.yard.intents]\ndrain = [3]\n{lake}")
        code, rows = look(tmp_path)
        assert code == ExitCode.PARTLY
        (drain,) = (row for row in of_kind(rows, "proposal") if row["scope"] == "drain")
        assert not drain["ready"]
        assert f"{moves} of {moves} moves of moves-per-day were made in the last 24 hours" in drain["held_back"]
        (unused,) = (row["text"] for row in of_kind(rows, "condition") if row["condition"] == "model-unused")
        assert "it has no rates of this cluster" in unused

        told = once(tmp_path)
        assert told.returncode == ExitCode.PARTLY
        assert "== yard" in told.stdout
        assert "holds     drain: broker 3 is to be drained and holds " in told.stdout
        assert re.search(r"^(blocked|nothing)\s+drain: ", told.stdout, re.MULTILINE), told.stdout
        cluster.admin.delete_topics(["lopsided"])


def test_proposed_approved_killed_and_done(kraft: KRaftCluster, service: Service, tmp_path: Path) -> None:
    (tmp_path / "keeper.toml").write_text(SERVED.format(bootstrap=kraft.bootstrap))
    executor = Shunter(kraft.bootstrap, tmp_path / "moves.journal")
    with closing(Cluster(kraft.bootstrap)) as cluster:
        cluster.make("tilted", dict.fromkeys(range(TILTED), (1, 2)))
        fill(kraft.bootstrap, "tilted", TILTED, 2_000_000, held_back=True)
        wait_until(lambda: cluster.in_sync("tilted"), what="all are in sync", timeout_s=60)
        with LiveProducer(kraft.bootstrap, "tilted", TILTED, every_s=0.02) as producer:
            service.start()
            (waiting,) = service.until(lambda rows: [row["state"] for row in rows] == ["waiting"], "it proposes")
            assert waiting["scope"] == "rebalance"
            assert cluster.ongoing() == 0, "nobody has approved it"
            done = service.ask("approve", waiting["id"], "--cluster", "yard", "--comment", "go")
            assert done.returncode == 0, done.stderr
            wait_until(lambda: cluster.ongoing() > 0, what="it moves", timeout_s=60)
            moving = seen_anew(service)
            assert moving["under_replicated"] == 0, "a replica that is being added is not yet due"
            assert f"this service carries out {waiting['id']}" in moving["doing"]
            service.kill_and_restart()  # At 2 KB/s the move would take another hour.
            service.wait_until_driven()
            assert service.ask("pause").returncode == ExitCode.PARTLY, "the other cluster does not answer"
            wait_until(lambda: counts(executor).keys() <= {"paused", "done"}, what="all is paused", timeout_s=60)

            service.kill_and_restart()
            service.wait_until_driven()
            assert {row["cluster"]: row["paused"] for row in service.rows("status")}.keys() == {"yard", "away"}
            assert all(row["paused"] for row in service.rows("status"))
            assert counts(executor).keys() <= {"paused", "done"}, "the switch outlived the service"
            assert counts(executor)["paused"] > 0
            assert service.ask("resume").returncode == ExitCode.PARTLY
            assert service.ask("limit", "none", "--cluster", "yard").returncode == 0
            rows = service.until(lambda rows: {row["state"] for row in rows} <= {"done"}, "it is done")
        assert [row["id"] for row in rows] == [waiting["id"]], "one plan, once"
        assert sum(3 in replicas for replicas in cluster.replicas("tilted").values()) == waiting["moves"]
        history = executor.run("history", "--json").stdout.splitlines()
        assert [json.loads(line)["plans"] for line in history if "plans" in line] == [[waiting["id"]]]
        assert producer.failures == []
        assert producer.missing() == {}
        assert cluster.throttles((1, 2, 3), ("tilted",)) == {}
        away = next(row for row in service.rows("status") if row["cluster"] == "away")
        assert away["state"] == "unreachable"
        assert [*(tmp_path / "snapshots").glob("*.jsonl")]
        told = [row for row in service.rows("events", "--cluster", "yard") if row["kind"] == "approve"]
        assert [row["cause"] for row in told] == ["go"]
        (thrown,) = (row["at_ms"] for row in service.rows("events") if row["kind"] == "pause-all")
        paused_after_ms = paused_at_ms(tmp_path / "moves.journal") - thrown
        print(f"the kill switch was in the journal after {paused_after_ms} ms")
        assert paused_after_ms < 5_000 * PATIENCE, "a calm machine takes some tens of milliseconds"
        assert service.stop() == 0
        asyncio.run(the_journal_tells_it(tmp_path / "moves.journal", waiting["id"], cluster.replicas("tilted")))
        cluster.admin.delete_topics(["tilted"])


def seen_anew(service: Service) -> dict[str, Any]:
    """What `serve status` says of the cluster after its next observation."""

    def row() -> dict[str, Any]:
        return next(each for each in service.rows("status") if each["cluster"] == "yard")

    before_ms = row()["observed_at_ms"]
    wait_until(lambda: row()["observed_at_ms"] > before_ms, what="it is observed again", timeout_s=60)
    return row()


async def the_journal_tells_it(journal: Path, plan: str, replicas: dict[int, tuple[int, ...]]) -> None:
    """The journal shows each step of the move, although the process was killed twice and the move paused."""
    stories = Stories(journal_of(Target("", journal=journal), str))
    (execution,) = await stories.executions()
    assert execution.plans == (plan,)
    assert execution.counts.keys() == {"done"}
    told = [await stories.story(move.partition, None, None) for move in await stories.moves(1)]
    assert {each.plan for each in told} == {plan}
    for each in told:
        assert each.replicas == replicas[int(each.partition.rpartition("-")[2])] == each.target
        done = [step for step in each.steps if step.state == "done"]
        assert done[-1].after == each.target
        assert done[-1].isr, "who was in sync when it ended; a busy broker may be missing for a moment"
        assert each.events[-1].kind == "ended"
    pauses = [event for each in told for event in each.events if event.kind == "paused"]
    assert pauses
    assert all(event.cause.startswith("pause, asked for by kill switch of ") for event in pauses)
