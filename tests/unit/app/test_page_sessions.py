"""Sessions of the page: they outlive the process, and what is kept of them is of no use to whoever reads it."""

import stat
from pathlib import Path

import pytest

from shunter.app.access.page_sessions import MOST_SESSIONS, SESSION_SECONDS, SET_BACK_SECONDS, PageSessions

LATER_MS = SESSION_SECONDS * 1000


class Clock:
    """Time that goes on when a test says so."""

    def __init__(self) -> None:
        self.ms = 1_795_400_000_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_restart_signs_nobody_out(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "sessions.json"
    before = PageSessions(path, clock)
    made = before.begin("cookie-1", "token-1")
    before.begin("cookie-2", "token-2")
    before.end("cookie-2")
    after = PageSessions(path, clock)
    assert after.find("cookie-1") == made
    assert after.find("cookie-2") is None, "who signed out stays signed out"
    clock.ms += LATER_MS
    assert after.find("cookie-1") is None, "a restart makes no session longer"
    assert PageSessions(path, clock).find("cookie-1") is None


def test_the_file_holds_neither_cookie_nor_token(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "sessions.json"
    PageSessions(path, clock).begin("cookie-1", "token-1")
    text = path.read_text()
    assert "cookie-1" not in text
    assert "token-1" not in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    digest = PageSessions(path, clock).find("cookie-1")
    assert digest is not None
    assert PageSessions(path, clock).find(digest.digest) is None, "who reads the file can't sign in with what it has"


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b"[]", b'{"version": 9, "sessions": []}', b'{"version": 1, "sessions": [[1]]}', b"\xff"]
)
def test_a_damaged_file_signs_everybody_out_and_stops_nothing(tmp_path: Path, clock: Clock, raw: bytes) -> None:
    path = tmp_path / "sessions.json"
    path.write_bytes(raw)
    sessions = PageSessions(path, clock)
    sessions.begin("cookie-1", "token-1")
    assert PageSessions(path, clock).find("cookie-1") is not None


def test_a_disk_that_takes_nothing_stops_nothing(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "file").write_text("")
    sessions = PageSessions(tmp_path / "file" / "sessions.json", clock)
    sessions.begin("cookie-1", "token-1")
    assert sessions.find("cookie-1") is not None


def test_a_clock_that_was_set_back_makes_no_session_much_longer(clock: Clock) -> None:
    sessions = PageSessions(None, clock)
    sessions.begin("cookie-1", "token-1")
    clock.ms -= SET_BACK_SECONDS * 1000
    assert sessions.find("cookie-1") is not None
    clock.ms -= 1
    assert sessions.find("cookie-1") is None


def test_the_oldest_of_too_many_ends(clock: Clock) -> None:
    sessions = PageSessions(None, clock)
    for number in range(MOST_SESSIONS + 1):
        sessions.begin(f"cookie-{number}", "token")
    assert sessions.find("cookie-0") is None
    assert sessions.find("cookie-1") is not None
    assert sessions.find(f"cookie-{MOST_SESSIONS}") is not None
