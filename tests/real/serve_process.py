"""The service as an operator runs it: a process, and the commands that talk to it."""

import json
import subprocess
import tomllib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from executor_process import SHUNTER, Running, Shunter
from kafka import KafkaAdminClient

from lab.testbed.waiting import wait_until
from shunter.app.service.client import SOCKET
from shunter.core.own_topics import WORDS_TOPIC as TOPIC
from shunter.drivers.journal.sqlite import SqliteJournal
from shunter.model.execution import MovePaused

SERVED = """
[cluster.yard]
bootstrap-server = "{bootstrap}"
journal = "moves.journal"

[cluster.yard.balance]
headroom-percent = 0

[cluster.yard.conditions]
disk-band = {{ minutes = 0, begin-percent = 30, end-percent = 20 }}
replicas-band = "off"
leaders-band = "off"
broker-empty = "off"
leaders-away = "off"
disk-full = "off"
log-dir-full = "off"

[cluster.yard.limits]
frozen-topics = ["__*"]

[cluster.yard.execution]
throttle = "2K"

[cluster.away]
bootstrap-server = "127.0.0.1:1"

[service]
look-seconds = 2
snapshots = "snapshots"
"""

OPEN = ("waiting", "approved", "starting", "running", "carried-out")


class Service:
    """`shunter serve FILE` with its state beside the file."""

    def __init__(self, folder: Path, host: Path | None = None) -> None:
        """Describe it. Another state folder of Shunter's stands for another host."""
        self.folder = folder
        self._host = [] if host is None else ["/usr/bin/env", f"SHUNTER_STATE={host}"]
        self.process: Running | None = None
        self.more: list[str] = []
        """More flags."""

    def start(self) -> None:
        place = ["--state-dir", str(self.folder / "s")]
        self.process = Running([*self._host, *SHUNTER, "serve", str(self.folder / "keeper.toml"), *place, *self.more])
        self.process.wait_for(
            lambda: self.ask("status").returncode in (0, 1, 3) and self.rows("status"), about="it serves"
        )

    def close(self) -> None:
        """End the process, and delete the words that it left in its cluster."""
        if self.process is not None and self.process.process.poll() is None:
            self.process.kill()
        policy = self.folder / "keeper.toml"
        if self.process is None or not policy.exists():
            return
        bootstrap = tomllib.loads(policy.read_text())["cluster"]["yard"]["bootstrap-server"]
        admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
        try:
            if TOPIC in admin.list_topics():
                admin.delete_topics([TOPIC])
                wait_until(lambda: TOPIC not in admin.list_topics(), what="the words are deleted", timeout_s=60)
        finally:
            admin.close()

    def kill_and_restart(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.start()

    def stop(self) -> int:
        """Ask the process to end (SIGTERM); its exit status."""
        assert self.process is not None
        self.process.process.terminate()
        return self.process.end()

    def wait_until_driven(self) -> None:
        """Wait until the executor has the journal again, and takes orders."""

        def asked() -> bool:
            return self.ask("limit", "2K", "--cluster", "yard").returncode == 0

        wait_until(asked, what="the cluster is driven", timeout_s=120)

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        looks = ["serve"] if words[0] in ("status", "proposals", "events") else []
        command = [*SHUNTER, *looks, *words, "--service", str(self.folder / "s" / SOCKET), "--json"]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def rows(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.ask(*words).stdout.splitlines()]

    def proposals(self) -> list[dict[str, Any]]:
        return self.rows("proposals", "--cluster", "yard", "--all")

    def approve(self, scope: str) -> dict[str, Any]:
        """Wait for a proposal of a scope, and approve it."""
        rows = self.until(lambda rows: any(_waits(row, scope) for row in rows), f"{scope} is proposed")
        proposal = next(row for row in rows if _waits(row, scope))
        done = self.ask("approve", proposal["id"], "--cluster", "yard", "--comment", "go")
        assert done.returncode == 0, done.stderr
        return proposal

    def carry_out(self, scope: str) -> dict[str, Any]:
        """Approve a proposal of a scope, and wait until all of it is done; the proposal as it ended."""
        wanted = self.approve(scope)["id"]
        rows = self.until(
            lambda rows: any(row["id"] == wanted and row["state"] not in OPEN for row in rows), f"{wanted} is over"
        )
        ended = next(row for row in rows if row["id"] == wanted)
        assert ended["state"] == "done", ended
        return ended

    def intend(self, *words: str) -> None:
        """Give an intent, or withdraw it."""
        done = self.ask(*words, "--cluster", "yard")
        assert done.returncode == 0, done.stderr

    def wait_for_event(self, kind: str, subject: str) -> None:
        """Wait until the service reported an event of this kind."""

        def told() -> bool:
            return any((row["kind"], row["subject"]) == (kind, subject) for row in self.rows("events"))

        wait_until(told, what=f"{kind}: {subject}", timeout_s=150)

    def until(self, found: Callable[[list[dict[str, Any]]], bool], what: str) -> list[dict[str, Any]]:
        seen: list[list[dict[str, Any]]] = []

        def holds() -> bool:
            seen.append(self.proposals())
            return found(seen[-1])

        wait_until(holds, what=what, timeout_s=150)
        return seen[-1]


def _waits(row: dict[str, Any], scope: str) -> bool:
    return bool(row["scope"] == scope and row["state"] == "waiting")


def counts(executor: Shunter) -> dict[str, int]:
    """How many moves are in which state, by the journal."""
    done = executor.run("status", "--json")
    assert done.stdout, done.stderr
    status: dict[str, Any] = json.loads(done.stdout.splitlines()[0])
    return dict(status["counts"])


def paused_at_ms(journal: Path) -> int:
    """The time at which the journal took the kill switch's order."""
    with closing(SqliteJournal(journal, "reader")) as opened:
        records = [(entry.at_ms, entry.record) for entry in opened.load()]
    return next(at for at, record in records if isinstance(record, MovePaused) and record.paused)
