"""The keeper on a real cluster: a lopsided topic is seen, a plan is proposed and executed, and the next look is content."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from executor_process import SHUNTER, Cluster, Shunter
from live_producer import fill

from shunter.app.exit_codes import ExitCode
from shunter.testbed.kraft import KRaftCluster
from shunter.testbed.waiting import wait_until

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

PARTITIONS = 12
AWAY = '\n[cluster.away]\nbootstrap-server = "127.0.0.1:1"\n'
# This machine's disk may be full, and who leads right after a move is the brokers' matter.
POLICY = """
[cluster.yard]
bootstrap-server = "{bootstrap}"
journal = "moves.journal"

[cluster.yard.conditions]
disk-band = {{ minutes = 0, begin-percent = 30, end-percent = 20 }}
replicas-band = {{ minutes = 0, begin-percent = 30, end-percent = 20 }}
leaders-band = {{ minutes = 0, begin-percent = 30, end-percent = 20 }}
broker-empty = "off"
leaders-away = "off"
disk-full = "off"
log-dir-full = "off"

[cluster.yard.limits]
moves-per-day = 100
frozen-topics = ["__*"]
"""


def once(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """One look."""
    command = [*SHUNTER, "serve", str(folder / "keeper.toml"), "--once", "--state", str(folder / "state.json"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def look(folder: Path, *words: str) -> tuple[int, list[dict[str, Any]]]:
    """One look for programs: its exit status and its rows."""
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
        # What brokers made for themselves meanwhile may still be getting in sync.
        wait_until(lambda: look(tmp_path)[0] == ExitCode.DONE, what="the keeper is content", timeout_s=120)
        assert json.loads((tmp_path / "state.json").read_text())["clusters"]["yard"]["held"] == []

        moves = proposal["moves"]
        spent = policy.replace("moves-per-day = 100", f"moves-per-day = {moves}")
        (tmp_path / "keeper.toml").write_text(f"{spent}\n[cluster.yard.intents]\ndrain = [3]\n")
        code, rows = look(tmp_path)
        assert code == ExitCode.PARTLY
        (drain,) = (row for row in of_kind(rows, "proposal") if row["scope"] == "drain")
        assert not drain["ready"]
        assert f"{moves} of {moves} moves of moves-per-day were made in the last 24 hours" in drain["held_back"]

        told = once(tmp_path)
        assert told.returncode == ExitCode.PARTLY
        assert "== yard" in told.stdout
        assert "holds     drain: broker 3 is to be drained and holds " in told.stdout
        assert "held back drain: " in told.stdout
