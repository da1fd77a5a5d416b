"""`shunter why` over files of a log: in order, over several files, and with what is broken in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from shunter.app.controller.why import read_partition, read_since
from shunter.app.exit_codes import ExitCode
from shunter.cli import main
from shunter.errors import SettingsError
from shunter.formats.log_lines import encode_line, read_time, time_text
from shunter.model.log_line import LogLine
from shunter.model.partition import TopicPartition


def decided(at_ms: int, leader: int) -> bytes:
    before, after = {"replicas": [1, 2], "leader": leader - 1}, {"replicas": [1, 2], "leader": leader}
    named = {"topic": "orders", "partition": 7, "cause": f"BrokersRead#{leader}", "n": leader}
    return encode_line(
        LogLine(at_ms, "decided", {**named, "rules": ["broker-gone/elect"], "before": before, "after": after})
    )


def answer(folder: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["why", *arguments, "--log-dir", str(folder)])
    return done.exit_code, done.output


def test_files_are_read_from_the_oldest_on_and_broken_lines_are_counted(tmp_path: Path) -> None:
    for name, leader in (("state-changes.log", 12), ("state-changes.log.1", 11), ("state-changes.log.10", 2)):
        (tmp_path / name).write_bytes(decided(leader * 1_000, leader) + b"\n\n")
    with (tmp_path / "state-changes.log").open("ab") as newest:
        newest.write(b'{"at":"2026-11-22T17:0\n[]\n' + encode_line(LogLine(13_000, "gap", {"lost": 5})) + b"\n")
    status, told = answer(tmp_path, "orders-7")
    assert status == 0
    assert [told.index(f"leader {leader - 1} → {leader}") for leader in (2, 11, 12)] == sorted(
        told.index(f"leader {leader - 1} → {leader}") for leader in (2, 11, 12)
    )
    assert "begins at 1970-01-01T00:00:02.000Z" in told
    assert "2 lines of it can't be read" in told
    assert "5 events are missing in it" in told
    assert "the brokers in ZooKeeper changed [BrokersRead#12]" in told
    since = answer(tmp_path, "orders-7", "--since", "1970-01-01T00:00:11.500Z")[1]
    assert "leader 10 → 11" not in since
    assert "leader 11 → 12" in since
    status, told = answer(tmp_path, "other-0")
    assert status == ExitCode.PARTLY
    assert "Nothing is logged about other-0" in told


def test_requests_that_tell_a_broker_everything_name_nobody(tmp_path: Path) -> None:
    everything = {"n": 1, "cause": "BrokersRead#1", "request": 5, "api": "UpdateMetadata", "brokers": [3], "full": True}
    lines = [
        LogLine(1_000, "brokers", {"n": 1, "cause": "BrokersRead#1", "live": [1, 2, 3]}),
        LogLine(1_001, "sent", {**everything, "partition_count": 60}),
        LogLine(1_002, "answered", {"request": 5, "broker": 3}),
        LogLine(1_003, "sent", {**everything, "request": 6, "partition_count": 1, "partitions": {"orders": [7]}}),
    ]
    (tmp_path / "state-changes.log").write_bytes(b"".join(encode_line(line) + b"\n" for line in lines))
    for named, unnamed in ((("orders-7",), ("other-0",)), (("--topic", "orders"), ("--topic", "other"))):
        assert "Nothing is logged" not in answer(tmp_path, *named)[1]
        status, told = answer(tmp_path, *unnamed)
        assert status == 1
        assert "UpdateMetadata #5 queued to broker 3, everything" in told, "it may have told of that, too"
        nothing = told.index("Nothing is logged about")
        assert nothing < told.index("What follows is about the whole cluster.") < told.index("UpdateMetadata #5")
    assert "Nothing is logged" not in answer(tmp_path, "--broker", "3")[1]
    assert "Nothing is logged about broker 9" in answer(tmp_path, "--broker", "9")[1]


def test_a_log_that_is_not_there_or_can_not_be_read(tmp_path: Path) -> None:
    assert answer(tmp_path, "orders-7")[0] == ExitCode.JOURNAL
    (tmp_path / "state-changes.log").mkdir()
    status, told = answer(tmp_path, "orders-7")
    assert status == ExitCode.JOURNAL
    assert "can't be read" in told


def test_times() -> None:
    assert read_since("90s", 100_000) == 10_000
    assert read_since(" 2h ", 7_200_000) == 0
    assert read_since("2026-11-22T17:00:00+01:00", 0) == read_time("2026-11-22T16:00:00Z")
    assert time_text(read_time("2026-11-22T16:00:00.007Z")) == "2026-11-22T16:00:00.007Z"
    for wrong in ("yesterday", "2026-11-22T17:00:00", "-5m"):
        with pytest.raises(SettingsError, match="--since"):
            read_since(wrong, 0)


def test_partitions() -> None:
    assert read_partition("a-b-12") == TopicPartition("a-b", 12)
    for wrong in ("orders", "-1", "orders-", "orders-x", "orders-²"):
        with pytest.raises(SettingsError, match="not a TOPIC-PARTITION"):
            read_partition(wrong)
