"""`shunter verify`: its exit status and its words, of a cluster that a fake shows."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from shunter.app.executor import reassign_session as session
from shunter.app.exit_codes import ExitCode
from shunter.cli import main
from shunter.drivers.admin.blocking import LiveNode, PartitionInfo
from shunter.model.log_dirs import ReplicaDir, ReplicaDirs
from shunter.model.partition import TopicPartition

T0 = TopicPartition("t", 0)


class Cluster:
    """A fake of `BlockingAdmin`: brokers 1 and 2 are live; each replica of t-0 is in the log dir /a of its broker."""

    def __init__(self, _configuration: Any) -> None:
        self.asked: list[int] = []

    def close(self) -> None: ...

    def nodes(self) -> tuple[LiveNode, ...]:
        return LiveNode(1, None), LiveNode(2, None)

    def list_moves(self, _partitions: object) -> dict[TopicPartition, Any]:
        return {}

    def partitions(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, PartitionInfo]:
        return {tp: PartitionInfo((1, 2, 3), (1, 2, 3), 1) for tp in tps}

    def log_dirs(self, wanted: Iterable[tuple[int, TopicPartition]]) -> ReplicaDirs:
        asked = list(wanted)
        assert 3 not in [broker for broker, _tp in asked], "a broker that is not live is not waited for"
        return ReplicaDirs({key: ReplicaDir("/a", None, 7) for key in asked}, {})


@pytest.fixture(autouse=True)
def _cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "BlockingAdmin", Cluster)


def verified(folder: Path, partitions: list[dict[str, Any]], *options: str) -> Result:
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return CliRunner().invoke(main, ["verify", str(plan), "--bootstrap-server", "k:9092", *options])


def placed(*log_dirs: str) -> list[dict[str, Any]]:
    return [{"topic": "t", "partition": 0, "replicas": [1, 2, 3], "log_dirs": list(log_dirs)}]


def test_a_plan_is_reached_only_in_its_log_dirs(tmp_path: Path) -> None:
    there = verified(tmp_path, placed("/a", "any", "any"))
    assert (there.exit_code, there.output) == (ExitCode.DONE, "1 of 1 partition is where the plan says\n")
    other = verified(tmp_path, placed("/b", "any", "any"))
    assert other.exit_code == ExitCode.PARTLY
    assert other.output.splitlines() == [
        "t-0 on broker 1 is in /a, the plan says /b, and nothing moves it there",
        "0 of 1 partition is where the plan says",
    ]


def test_programs_are_told_the_same(tmp_path: Path) -> None:
    done = verified(tmp_path, placed("/b", "/a", "/a"), "--json")
    differs, end = map(json.loads, done.output.splitlines())
    assert (done.exit_code, end["exit"]) == (ExitCode.PARTLY, ExitCode.PARTLY)
    assert (differs["event"], differs["partition"]) == ("differs", "t-0")
    wrong, unknown = differs["log_dirs"]
    assert (wrong["broker"], wrong["wanted"], wrong["now"], wrong["coming"], wrong["bytes"]) == (1, "/b", "/a", None, 7)
    assert (unknown["broker"], unknown["wanted"], unknown["now"]) == (3, "/a", None)
    assert unknown["text"].endswith("the broker does not tell it: it is not live")
    assert differs["text"] == f"{wrong['text']}; {unknown['text']}"


def test_an_empty_plan_says_that_there_is_nothing_to_compare(tmp_path: Path) -> None:
    done = verified(tmp_path, [])
    assert (done.exit_code, done.stderr) == (ExitCode.DONE, "the plan names no partition: nothing to compare\n")
