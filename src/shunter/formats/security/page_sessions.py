"""The file of the page's sessions: JSON, versioned. It holds digests, from which no cookie or token can be derived."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from shunter.errors import FormatError
from shunter.model.security.access import PageSession

VERSION = 1


def encode_sessions(sessions: Iterable[PageSession]) -> bytes:
    """Write sessions, the oldest first."""
    rows = [
        [each.digest, each.token, each.ends_ms, *((each.name, each.groups) if each.name else ())] for each in sessions
    ]
    return orjson.dumps({"version": VERSION, "sessions": rows}, option=orjson.OPT_APPEND_NEWLINE)


def decode_sessions(raw: bytes, place: str) -> tuple[PageSession, ...]:
    """Read sessions.

    Raises:
        FormatError: it is not a file of sessions, or has another version.
    """
    try:
        document = orjson.loads(raw)
        if document["version"] != VERSION:
            raise FormatError(place, f"version {document['version']} is not understood, {VERSION} is")
        return tuple(_session(*each) for each in document["sessions"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(place, f"is no file of sessions: {error!r}") from error


def _session(digest: object, token: object, ends_ms: object, name: object = "", groups: object = ()) -> PageSession:
    """A row; those of single sign-on have a name and groups."""
    if not (isinstance(digest, str) and isinstance(token, str) and isinstance(ends_ms, int)):
        raise TypeError("two digests and a time are wanted")
    if not (isinstance(name, str) and isinstance(groups, list | tuple) and bool(token) != bool(name)):
        raise TypeError("a token's digest or a name is wanted")
    return PageSession(digest, token, ends_ms, name, tuple(map(str, groups)))
