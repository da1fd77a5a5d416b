"""`shunter list` and `status`: moves between brokers, and copies between log dirs, of a cluster that a fake shows."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import pytest
from click.testing import CliRunner, Result

from shunter.app.exit_codes import ExitCode
from shunter.app.reassign import session
from shunter.cli import main
from shunter.drivers.admin.blocking import PartitionInfo
from shunter.drivers.admin.reassignments import PartitionReassignment
from shunter.model.log_dirs import LogDirCopies, LogDirCopy
from shunter.model.partition import TopicPartition

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
MOVE = PartitionReassignment((1, 2, 3), (3,), (2,), None)
ON_1, ON_2 = LogDirCopy(U0, 1, "/a", "/b", 2, 9), LogDirCopy(U0, 2, "/a", "/c", 3, 9)


class Cluster:
    """A fake of `BlockingAdmin`: u-0 is on brokers 1 and 2, t-0 on 1, 2 and 3."""

    moves: dict[TopicPartition, PartitionReassignment]
    found: LogDirCopies

    def __init__(self, _configuration: Any) -> None: ...

    def close(self) -> None: ...

    def list_moves(self, _partitions: object) -> dict[TopicPartition, PartitionReassignment]:
        return self.moves

    def partitions(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, PartitionInfo]:
        known = {T0: PartitionInfo((1, 2, 3), (1, 2), 1), U0: PartitionInfo((1, 2), (1, 2), 1)}
        return {tp: known[tp] for tp in tps if tp in known}

    def log_dir_copies(self) -> LogDirCopies:
        return self.found


@pytest.fixture(autouse=True)
def _cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "BlockingAdmin", Cluster)
    monkeypatch.setattr(Cluster, "moves", {}, raising=False)


def listed(monkeypatch: pytest.MonkeyPatch, copies: tuple[LogDirCopy, ...], *options: str, **failed: str) -> Result:
    told = {int(name.removeprefix("broker_")): why for name, why in failed.items()}
    monkeypatch.setattr(Cluster, "found", LogDirCopies(copies, told), raising=False)
    return CliRunner().invoke(main, ["list", "--bootstrap-server", "k:9092", *options])


def test_copies_between_log_dirs_are_listed_with_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    done = listed(monkeypatch, (ON_1, ON_2))
    assert (done.exit_code, done.stderr) == (ExitCode.DONE, "")
    assert done.output.splitlines() == [
        "u-0: it is copied on broker 1 from /a to /b, 2 B of 9 B",
        "u-0: it is copied on broker 2 from /a to /c, 3 B of 9 B",
    ]
    first, second = listed(monkeypatch, (ON_1, ON_2), "--output", "plain").output.splitlines()
    assert first.split("\t")[0] == second.split("\t")[0] == "u-0"
    assert "between_log_dirs" in first.split("\t")


def test_as_json_they_are_part_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "moves", {T0: MOVE})
    both = (LogDirCopy(T0, 1, "/a", "/b", 2, 9), LogDirCopy(T0, 2, "/a", "/b", 2, 9), ON_2)
    assert json.loads(listed(monkeypatch, both, "--json").output)["partitions"] == [
        {"topic": "t", "partition": 0, "replicas": [1, 3], "log_dirs": ["/b", "any"]},
        {"topic": "u", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/c"]},
    ]
    alone = json.loads(listed(monkeypatch, (), "--json").output)
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
