"""`shunter list` and `status`: moves between brokers, and copies between log dirs, of a cluster that a fake shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shunter.app.executor import orders, status
from shunter.app.exit_codes import ExitCode
from shunter.cli import main
from shunter.cli.execution import look
from shunter.drivers.admin.answers import TopicsSeen
from shunter.drivers.admin.log_dirs import LogDirsSeen
from shunter.drivers.admin.reassignments import PartitionReassignment
from shunter.model.execution import ObservedPartition, ObservedTopic
from shunter.model.log_dirs import LogDirCopies, LogDirCopy
from shunter.model.partition import TopicPartition

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
MOVE = PartitionReassignment((1, 2, 3), (3,), (2,), None)
ON_1, ON_2 = LogDirCopy(U0, 1, "/a", "/b", 2, 9), LogDirCopy(U0, 2, "/a", "/c", 3, 9)


class Cluster:
    """A fake of an Admin client: u-0 is on brokers 1 and 2, t-0 on 1, 2 and 3."""

    def __init__(
        self,
        found: LogDirCopies,
        moves: dict[TopicPartition, PartitionReassignment],
        live: Sequence[int] = (),
        broken: Sequence[int] = (),
    ) -> None:
        self.found, self.moves, self.live, self.broken = found, moves, live, broken

    async def close(self) -> None: ...

    async def cluster_id(self) -> str:
        return "c"

    async def quorum(self) -> None: ...

    async def brokers(self) -> dict[int, str | None]:
        return {}

    async def list_moves(self, _partitions: object) -> dict[TopicPartition, PartitionReassignment]:
        return self.moves

    async def list_reassignments(self) -> dict[TopicPartition, PartitionReassignment]:
        return self.moves

    async def observe_log_dirs(self, _asked: object) -> LogDirsSeen:
        return LogDirsSeen({}, {}, {}, dict.fromkeys(self.broken, ("/bad",)), ())

    async def observe_topics(self, names: Sequence[str]) -> TopicsSeen:
        replicas = {"t": (1, 2, 3), "u": (1, 2)}
        topics = {
            name: ObservedTopic(None, {0: ObservedPartition(replicas[name], (1, 2), 1)}) if name in replicas else None
            for name in names
        }
        return TopicsSeen(topics, dict.fromkeys(self.live), 1, needs_all=False)

    async def log_dir_copies(self) -> LogDirCopies:
        return self.found


def listed(
    monkeypatch: pytest.MonkeyPatch,
    copies: tuple[LogDirCopy, ...],
    *options: str,
    verb: str = "list",
    moves: dict[TopicPartition, PartitionReassignment] | None = None,
    live: Sequence[int] = (),
    broken: Sequence[int] = (),
    claimant: str = "",
    **failed: str,
) -> Result:
    told = {int(name.removeprefix("broker_")): why for name, why in failed.items()}

    async def connect(_target: object, **_: object) -> Cluster:
        return Cluster(LogDirCopies(copies, told), moves or {}, live, broken)

    async def claimed_by(*_: object) -> str:
        return claimant

    for module in (look, status, orders):
        monkeypatch.setattr(module, "connect", connect)
    monkeypatch.setattr(status, "claimed_by", claimed_by)
    return CliRunner().invoke(main, [verb, "--bootstrap-server", "k:9092", *options])


def test_copies_between_log_dirs_are_listed_with_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    done = listed(monkeypatch, (ON_1, ON_2))
    assert (done.exit_code, done.stderr) == (ExitCode.DONE, "")
    assert done.output.splitlines() == [
        "u-0 [1, 2] → [1, 2] (forward, moving): it is copied on broker 1 from /a to /b, 2 B of 9 B",
        "u-0 [1, 2] → [1, 2] (forward, moving): it is copied on broker 2 from /a to /c, 3 B of 9 B",
    ]
    first, second = listed(monkeypatch, (ON_1, ON_2), "--output", "plain").output.splitlines()
    assert first.split("\t")[0] == second.split("\t")[0] == "u-0"
    assert "it is copied on broker 1 from /a to /b, 2 B of 9 B" in first.split("\t")


def test_as_json_they_are_part_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    both = (LogDirCopy(T0, 1, "/a", "/b", 2, 9), LogDirCopy(T0, 2, "/a", "/b", 2, 9), ON_2)
    assert json.loads(listed(monkeypatch, both, "--json", moves={T0: MOVE}).output)["partitions"] == [
        {"topic": "t", "partition": 0, "replicas": [1, 3], "log_dirs": ["/b", "any"]},
        {"topic": "u", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/c"]},
    ]
    alone = json.loads(listed(monkeypatch, (), "--json", moves={T0: MOVE}).output)
    assert alone == {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 3]}]}


def test_a_replica_that_is_being_deleted_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = (LogDirCopy(U0, 3, "/a", "/b", 2, 9), LogDirCopy(TopicPartition("gone", 0), 1, "/a", "/b", 2, 9))
    done = listed(monkeypatch, gone)
    assert (done.output, done.stderr) == ("nothing moves\n", "nothing moves\n")
    assert listed(monkeypatch, gone, "--json").output == "{}\n"


def test_what_a_broker_does_not_tell_is_not_called_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    done = listed(monkeypatch, (), broker_2="timed out")
    assert done.exit_code == ExitCode.DONE
    assert done.output == (
        "broker 2 does not tell its log dirs, so what it copies between its log dirs is not known: timed out\n"
    )


def test_a_status_has_the_journals_moves_and_all_others_in_one_form(
    monkeypatch: pytest.MonkeyPatch, undriven: Path
) -> None:
    """The journal has t-0: what the cluster says of it is a step of that move."""
    at = ("--journal", str(undriven))
    moves = {T0: MOVE, U0: PartitionReassignment((1, 2), (2,), (1,), None)}
    done = listed(monkeypatch, (), *at, verb="status", moves=moves)
    assert done.exit_code == ExitCode.DONE, done.output
    assert "\n  t-0 [1, 2] → [3, 2] (forward, pending)\n" in done.stdout
    assert (
        "1 move is under way that the journal does not have: 0 B of 0 B; a rollback is instant\n"
        "  u-0 [1] → [2] (forward, moving)\n"
    ) in done.stdout
    told = json.loads(listed(monkeypatch, (), *at, "--json", verb="status", moves=moves).stdout)
    assert [row["partition"] for row in told["moves"]] == ["t-0"]
    assert [row["partition"] for row in told["others"]] == ["u-0"]
    assert told["moves"][0].keys() == told["others"][0].keys()
    named = listed(monkeypatch, (), "u-0", "t-9", verb="status", moves=moves)
    assert named.exit_code == ExitCode.PARTLY
    assert "t-9: the cluster has no such partition" in named.stdout


def test_without_a_journal_the_status_has_the_same_form(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHUNTER_STATE", str(tmp_path))
    done = listed(monkeypatch, (ON_1,), verb="status", moves={T0: MOVE}, broker_2="timed out")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (ExitCode.DONE, "nothing was executed from here")
    assert "2 moves are under way that the journal does not have: 2 B of 9 B" in done.stdout
    assert "broker 2 does not tell its log dirs" in done.stderr
    told = json.loads(listed(monkeypatch, (ON_1,), "--json", verb="status", moves={T0: MOVE}).stdout)
    assert (told["journal"], told["moves"], len(told["others"])) == (None, [], 2)


def test_beside_a_service_the_status_names_the_journal_that_has_its_moves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHUNTER_STATE", str(tmp_path))

    claimant = "ann on h, process 7, since 2026-11-27 09:00:00 UTC, under journal kafka:j, at 10.0.0.1"
    done = listed(monkeypatch, (), verb="status", moves={T0: MOVE}, claimant=claimant)
    assert "nothing was executed" not in done.stdout
    assert "its journal is not read here: `shunter status --journal-topic j` reads it" in done.stdout


def test_a_watch_ends_where_nothing_moves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHUNTER_STATE", str(tmp_path))
    done = listed(monkeypatch, (), verb="watch")
    assert (done.exit_code, done.stdout) == (ExitCode.DONE, "all moves have ended\n")
    unknown = listed(monkeypatch, (), "nosuch-0", verb="watch")
    assert unknown.exit_code == ExitCode.REFUSED
    assert "nosuch-0: the cluster has no such partition" in unknown.stderr


@pytest.mark.parametrize(
    ("live", "broken", "told"),
    [
        ((1, 2), (), "it can't end without broker 3, which is down and part of its target; `shunter rollback t-0` "),
        ((1, 2, 3), (3,), "it may not end: log dir /bad of broker 3 failed, and if t-0 was there, the broker takes no"),
        ((1, 2, 3), (), ""),
        ((1, 3), (), ""),  # Broker 2 leaves.
    ],
)
@pytest.mark.parametrize("verb", ["list", "status", "watch"])
def test_what_holds_up_a_move_is_told_whoever_began_it(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    verb: str,
    live: tuple[int, ...],
    broken: tuple[int, ...],
    told: str,
) -> None:
    """An outsider's find: only the dry run of `submit` said so, and no view of a move that another tool began."""
    monkeypatch.setenv("SHUNTER_STATE", str(tmp_path))
    shown = iter((False, True))
    monkeypatch.setattr(look, "output_lost", lambda: next(shown))
    monkeypatch.setattr(look, "WATCH_EVERY_S", 0)
    done = listed(monkeypatch, (), verb=verb, moves={T0: MOVE}, live=live, broken=broken)
    assert (told or "end") in done.stdout if told else " end" not in done.stdout.replace("have ended", "")


def test_the_journals_own_move_is_told_alike_if_no_executor_drives_it(
    monkeypatch: pytest.MonkeyPatch, undriven: Path
) -> None:
    done = listed(monkeypatch, (), "--journal", str(undriven), verb="status", live=(1, 2))
    assert "it can't end without broker 3, which is down and part of its target; `shunter " in done.stdout
