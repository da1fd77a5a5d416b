"""Log files: rotated and bounded; a failure to write does not stop the controller."""

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from lab.testbed.waiting import wait_until
from shunter.drivers.host import log_files
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.host.log_files import LogFile
from shunter.model.log_line import LogLine


def entries(number: int) -> Iterator[LogLine]:
    yield LogLine(number, "decided", {"number": number, "isr": (1, 2), "text": "x" * 500})


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., LogFile[int]]]:
    made: list[LogFile[int]] = []

    def start(path: Path = tmp_path / "logs" / "state.log", **options: int) -> LogFile[int]:
        log = LogFile(path, entries, SystemClock(), **{"file_bytes": 1_000_000, "files": 3, **options})
        log.start()
        made.append(log)
        return log

    yield start
    for log in made:
        log.close()


def lines(path: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def test_lines_are_in_the_file_when_it_is_closed(make: Callable[..., LogFile[int]]) -> None:
    log = make()
    for number in range(1_000):
        log.post(number)
    log.close()
    found = lines(log.path)
    assert [line["number"] for line in found] == list(range(1_000))
    assert found[1] == {
        "at": "1970-01-01T00:00:00.001Z",
        "kind": "decided",
        "number": 1,
        "isr": [1, 2],
        "text": "x" * 500,
    }
    assert (log.lines, log.lost) == (1_000, 0)


def test_files_are_put_by_and_thrown_away(make: Callable[..., LogFile[int]]) -> None:
    log = make(file_bytes=65_536)
    for number in range(1_000):
        log.post(number)
        if number % 50 == 0:
            wait_until(lambda: log.lines == number + 1, what="it is written", timeout_s=20)  # noqa: B023 - called at once
    log.close()
    kept = [log.path, *(log.path.with_name(f"state.log.{age}") for age in (1, 2))]
    assert all(path.stat().st_size <= 65_536 for path in kept)
    assert not log.path.with_name("state.log.3").exists()
    numbers = [line["number"] for path in reversed(kept) for line in lines(path)]
    assert numbers == list(range(1_000 - len(numbers), 1_000))


def test_a_full_disk_is_told_once_and_leaves_a_gap(
    make: Callable[..., LogFile[int]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "state.log"
    path.symlink_to("/dev/full")
    log = make(path)
    for number in range(3):
        log.post(number)
        wait_until(lambda: log.lost == number + 1, what="it is lost", timeout_s=20)  # noqa: B023 - called at once
    path.unlink()
    log.post(3)
    log.close()
    gap, line = lines(path)
    assert (gap["kind"], gap["lost"]) == ("gap", 3)
    assert line["number"] == 3
    told = [record.getMessage() for record in caplog.records if record.name == log_files.__name__]
    assert told == [
        f"{path} can't be written, and the controller goes on without it: [Errno 28] No space left on device",
        f"{path} is written again; 3 events are missing",
    ]


def test_each_gap_is_told_with_its_own_number(
    make: Callable[..., LogFile[int]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The process's own log counted since the start, and disagreed with the gap."""
    caplog.set_level(logging.INFO)
    log = make()

    def refuse() -> None:
        raise OSError(28, "No space left on device")

    for count in (2, 1):
        with monkeypatch.context() as patched:
            patched.setattr(log, "_open", refuse)
            for _ in range(count):
                lost = log.lost
                log.post(0)
                wait_until(lambda: log.lost > lost, what="it is lost", timeout_s=20)  # noqa: B023 - called at once
        written = log.lines
        log.post(1)
        wait_until(lambda: log.lines > written, what="it is written", timeout_s=20)  # noqa: B023 - called at once
    log.close()
    assert [line["lost"] for line in lines(log.path) if line["kind"] == "gap"] == [2, 1]
    told = [record.getMessage() for record in caplog.records if "written again" in record.getMessage()]
    assert told == [f"{log.path} is written again; {many} missing" for many in ("2 events are", "1 event is")]


def test_a_folder_that_is_none_is_told(
    make: Callable[..., LogFile[int]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logs").write_text("in the way")
    log = make()
    log.post(1)
    log.close()
    assert log.lost == 1
    assert "can't be written" in caplog.text


def test_two_processes_do_not_write_one_log(
    make: Callable[..., LogFile[int]], caplog: pytest.LogCaptureFixture
) -> None:
    first = make()
    first.post(1)
    wait_until(lambda: first.lines == 1, what="it is written", timeout_s=20)
    second = make()
    second.post(2)
    second.close()
    assert "another process writes it; give each controller a log_dir of its own" in caplog.text
    first.close()
    assert [line["number"] for line in lines(first.path)] == [1]


def test_what_can_not_be_kept_up_with_is_counted(tmp_path: Path) -> None:
    may_write = threading.Event()

    def slow(number: int) -> Iterator[LogLine]:
        may_write.wait(20)
        yield from entries(number)

    log = LogFile(tmp_path / "state.log", slow, SystemClock(), file_bytes=65_536, files=2)
    log.start()
    log.post(0, weight=log_files.WAITING_AT_MOST + 1)
    log.post(1)
    assert log.lost == 1
    may_write.set()
    wait_until(lambda: log.lines > 0, what="what waits is written", timeout_s=20)
    log.post(2)
    log.close()
    assert [(line["kind"], line.get("number")) for line in lines(log.path)] == [
        ("gap", None),
        ("decided", 0),
        ("decided", 2),
    ]


def test_a_line_that_can_not_be_made_does_not_end_the_thread(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken(number: int) -> Iterator[LogLine]:
        yield LogLine(number, "decided", {"number": 1 / number})

    log = LogFile(tmp_path / "state.log", broken, SystemClock(), file_bytes=65_536, files=2)
    log.start()
    log.post(0)
    wait_until(lambda: log.lost == 1, what="it is lost", timeout_s=20)
    log.post(1)
    log.close()
    assert [line["kind"] for line in lines(log.path)] == ["gap", "decided"]
    assert "division by zero" in caplog.text
