"""The audit log, the process' log and `shunter why` over files of a log: bounded, in order, and with broken lines."""

import logging
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from shunter.app.access.audit_log import FILES, MOST_NAMED, REFUSED_A_MINUTE, AuditLine, AuditLog
from shunter.app.access.process_log import A_MINUTE, KINDS, Repeats, is_for_operators
from shunter.app.controller.why import read_partition, read_since
from shunter.app.exit_codes import ExitCode
from shunter.cli import main
from shunter.errors import SettingsError
from shunter.formats.log_lines import encode_line, read_time, time_text
from shunter.model.log_line import LogLine
from shunter.model.partition import TopicPartition
from shunter.model.service import OrderDone, OrderKind, ServiceOrder, Signature

LINE = AuditLine("anna", "token", "10.0.0.1", "pause")


def lines(path: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def test_its_files_are_rotated_and_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with closing(AuditLog(path, file_bytes=2_000)) as log:
        for number in range(200):
            log.write(LINE, f"done {number}")
    files = list(tmp_path.iterdir())
    assert len(files) == FILES
    assert all(each.stat().st_size <= 2_000 and each.stat().st_mode & 0o777 == 0o600 for each in files)
    assert lines(path)[-1]["outcome"] == "done 199"


def test_a_full_disk_is_told_and_the_line_is_in_the_process_log(caplog: pytest.LogCaptureFixture) -> None:
    with closing(AuditLog(Path("/dev/full"))) as log, caplog.at_level(logging.ERROR):
        log.write(LINE, "done")
    assert "No space left on device" in caplog.text
    assert '"outcome":"done"' in caplog.text


def test_many_addresses_without_a_right_fill_nothing(tmp_path: Path) -> None:
    path, now_ms = tmp_path / "audit.log", [0]
    with closing(AuditLog(path, now_ms=lambda: now_ms[0])) as log:
        for number in range(1_000):
            log.write_refused(AuditLine("", "", f"10.0.{number // 250}.{number % 250}", "GET /"), "refused")
        now_ms[0] = 60_000
        log.write_refused(AuditLine("", "", "10.1.1.1", "GET /"), "refused")
    told = lines(path)
    assert len(told) == REFUSED_A_MINUTE + 2
    assert told[-2]["peer"] == "other addresses"
    assert told[-2]["outcome"] == f"{1_000 - REFUSED_A_MINUTE} more requests were refused in a minute"


async def test_an_order_names_its_first_objects(tmp_path: Path) -> None:
    async def done(_order: ServiceOrder, _signature: Signature) -> OrderDone:
        return OrderDone("done")

    order = ServiceOrder(OrderKind.STOP, "prod", partitions=tuple(f"t-{number}" for number in range(1_000)))
    with closing(AuditLog(tmp_path / "audit.log")) as log:
        await log.order(done, order, Signature("anna", "hot"), by="socket", peer="this host")
    (line,) = lines(tmp_path / "audit.log")
    about = line["about"]
    assert isinstance(about, list)
    assert (len(about), line["named"], line["comment"], line["by"]) == (MOST_NAMED, 1_000, "hot", "socket")


def record(text: str, minute: int, *values: object) -> logging.LogRecord:
    made = logging.LogRecord("shunter.web", logging.WARNING, "", 0, text, values, None)
    made.created = minute * 60.0
    return made


def test_what_repeats_is_counted_and_other_things_are_shown() -> None:
    repeats = Repeats()
    shown = [repeats.filter(record("%s is late", 1, number)) for number in range(100)]
    assert sum(shown) == A_MINUTE
    assert repeats.filter(record("the disk is full", 1))
    first, second = record("%s is late", 2, "it"), record("%s is late", 2, "it")
    assert repeats.filter(first)
    assert repeats.filter(second)
    assert first.getMessage() == "it is late (80 more like this in the minute before)"
    assert second.getMessage() == "it is late"


def test_an_outage_is_one_line_a_minute_of_the_client_library() -> None:
    """An SRE's find: an outage of an hour wrote thousands of lines, and the service's own were not to be found."""
    repeats = Repeats()
    shown = []
    for minute in (1, 2):
        for number in range(50):
            line = record("%s: Connection lost: %s", minute, f"<node {number}>", "ECONNREFUSED")
            line.name = "kafka.net.connection"
            shown += [line.getMessage()] if repeats.filter(line) else []
    assert shown == [
        "<node 0>: Connection lost: ECONNREFUSED",
        "<node 0>: Connection lost: ECONNREFUSED (49 more like this in the minute before)",
    ]


def test_a_librarys_hint_to_its_developers_is_not_shown() -> None:
    hint = record("Task %r ran for 0.6s. It is blocking the event loop -- likely a tight sync loop", 1)
    assert is_for_operators(hint)
    hint.name = "kafka.net.selector"
    assert not is_for_operators(hint)


def test_many_kinds_are_bounded_too() -> None:
    repeats = Repeats()
    assert sum(repeats.filter(record(f"kind {number}", 1)) for number in range(2 * KINDS)) == KINDS + A_MINUTE


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
