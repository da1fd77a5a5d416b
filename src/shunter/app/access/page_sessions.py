"""Sessions of the page, each with its token and its end. They are kept in a file, so that they survive a restart."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from shunter.app.access.access_tokens import digest_of
from shunter.app.access.private_files import replace_file
from shunter.drivers.host.clock import wall_clock_ms
from shunter.errors import FormatError
from shunter.formats.security.page_sessions import decode_sessions, encode_sessions
from shunter.model.security.access import PageSession

LOG = logging.getLogger(__name__)
SESSION_SECONDS = 12 * 60 * 60
SET_BACK_SECONDS = 60 * 60
"""If the clock is set back by less than this, no session ends."""
MOST_SESSIONS = 1_000


class PageSessions:
    """Open sessions, by the digest of the id in the cookie."""

    def __init__(self, path: Path | None = None, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        """Read the file. If it can't be read, people have to sign in again. `path` None: no file is kept."""
        self._path = path
        self._now_ms = now_ms
        self._open: dict[str, PageSession] = {}
        try:
            if path is not None and path.exists():
                kept = decode_sessions(path.read_bytes(), str(path))
                self._open = {each.digest: each for each in self._current(kept)[-MOST_SESSIONS:]}
        except (OSError, FormatError) as error:
            LOG.warning("%s can't be read, so people have to sign in again: %s", path, error)

    def begin(self, name: str, secret: str) -> PageSession:
        """Open a session for a valid token; `name` is the session's id, which has to be unguessable."""
        return self._add(PageSession(digest_of(name), digest_of(secret), self._now_ms() + SESSION_SECONDS * 1000))

    def begin_for(self, name: str, person: str, groups: tuple[str, ...], ends_ms: int) -> PageSession:
        """Open a session by single sign-on; it ends at `ends_ms`, or after `SESSION_SECONDS` if that is earlier."""
        latest = self._now_ms() + SESSION_SECONDS * 1000
        return self._add(PageSession(digest_of(name), "", min(latest, ends_ms), person, groups))

    def _add(self, made: PageSession) -> PageSession:
        current = self._current(self._open.values())[-(MOST_SESSIONS - 1) :]
        self._open = {each.digest: each for each in (*current, made)}
        self._keep()
        return made

    def find(self, name: str) -> PageSession | None:
        """The session of an id; None: there is none, or it has ended."""
        found = self._open.get(digest_of(name))
        return None if found is None or not self._lives(found) else found

    def end(self, name: str) -> None:
        """Close a session."""
        if self._open.pop(digest_of(name), None) is not None:
            self._keep()

    def _current(self, sessions: Iterable[PageSession]) -> list[PageSession]:
        return [each for each in sessions if self._lives(each)]

    def _lives(self, session: PageSession) -> bool:
        # The upper bound: a clock that was set back far must not make a session much longer.
        return 0 < session.ends_ms - self._now_ms() <= (SESSION_SECONDS + SET_BACK_SECONDS) * 1000

    def _keep(self) -> None:
        if self._path is None:
            return
        try:
            replace_file(self._path, encode_sessions(self._open.values()))
        except FormatError as error:
            LOG.warning("sessions can't be kept, and end with this process: %s", error)
