"""Tokens for the HTTP API: made, checked, and kept as digests in a file that only its owner may read."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path

from shunter.app.access.private_files import modes_for_others, replace_file
from shunter.drivers.host.clock import wall_clock_ms
from shunter.errors import FormatError, SettingsError
from shunter.formats.security.access_tokens import decode_tokens, encode_tokens
from shunter.model.security.access import AccessRole, AccessToken, Person

PREFIX = "shunter_"
"""The prefix by which scanners for leaked secrets recognize a token."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_DAY_MS = 24 * 60 * 60 * 1000


class Tokens:
    """The tokens of a file. The file is read again when it has changed, so a removed token is invalid at once."""

    def __init__(self, path: Path, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        """Read the file.

        Raises:
            FormatError: it can't be read, is not a file of tokens, or other users may read it too.
        """
        self._path = path
        self._now_ms = now_ms
        self._stamp: tuple[int, int, int] | None = None
        self._tokens: tuple[AccessToken, ...] = ()
        self._refresh()

    def person(self, secret: str) -> Person | None:
        """The person whose token it is; None: unknown or expired. It takes the same time for every wrong token."""
        return self.person_of(digest_of(secret))

    def person_of(self, digest: str) -> Person | None:
        """The person whose token has this digest; None: it is unknown, or has expired."""
        token = self._found(digest)
        return None if token is None or self._expired(token) else Person(token.name, token.role, token.expires_ms)

    def expired_of(self, digest: str) -> str | None:
        """The name of the token with this digest if it has expired; else None."""
        token = self._found(digest)
        return token.name if token is not None and self._expired(token) else None

    def current(self) -> tuple[AccessToken, ...]:
        """The tokens that are valid now; none while the file can't be read."""
        with contextlib.suppress(FormatError):
            self._refresh()
        return tuple(token for token in self._tokens if not self._expired(token))

    def expiring(self, days: int) -> tuple[AccessToken, ...]:
        """The valid tokens that expire within some days."""
        until_ms = self._now_ms() + days * _DAY_MS
        return tuple(each for each in self.current() if each.expires_ms is not None and each.expires_ms < until_ms)

    def _found(self, digest: str) -> AccessToken | None:
        self._refresh()
        found = [token for token in self._tokens if hmac.compare_digest(token.digest, digest)]
        return found[0] if found else None

    def _expired(self, token: AccessToken) -> bool:
        return token.expires_ms is not None and token.expires_ms <= self._now_ms()

    def _refresh(self) -> None:
        """Read the file if it has changed. While it can't be read, no token is valid."""
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_ino, status.st_mode)
        except OSError as error:
            self._stamp, self._tokens = None, ()
            raise FormatError(str(self._path), f"can't be read: {error.strerror}") from error
        if stamp == self._stamp:
            return
        self._tokens = ()
        self._tokens = read_tokens(self._path)
        self._stamp = stamp


def digest_of(secret: str) -> str:
    """The digest that is kept of a token. A plain hash is enough, because a token has 256 random bits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def read_tokens(path: Path) -> tuple[AccessToken, ...]:
    """Read a file of tokens.

    Raises:
        FormatError: it can't be read, is not a file of tokens, or users other than its owner may read or write it.
    """
    try:
        status = path.stat()
        mode = status.st_mode & 0o777
        if modes_for_others(status, os.geteuid()):
            raise FormatError(str(path), f"has mode {mode:04o}, and only its owner may read it: chmod 600 {path}")
        return decode_tokens(path.read_bytes(), str(path))
    except OSError as error:
        raise FormatError(str(path), f"can't be read: {error.strerror}") from error


def add_token(path: Path, name: str, role: AccessRole, days: int | None) -> str:
    """Make a token, keep its digest in the file (which is made if it is missing), and return the token itself.

    Raises:
        SettingsError: the name is taken, or is not a valid name for a token.
        FormatError: the file can't be read or written.
    """
    if _NAME.fullmatch(name) is None:
        raise SettingsError(f"{name!r} can't name a token: use up to 64 letters, digits, and any of . _ @ -")
    tokens = read_tokens(path) if path.exists() else ()
    if any(token.name == name for token in tokens):
        raise SettingsError(f"{path} has a token {name!r} already: remove it first, or choose another name")
    secret = PREFIX + secrets.token_urlsafe(32)
    now = wall_clock_ms()
    made = AccessToken(name, role, digest_of(secret), now, None if days is None else now + days * _DAY_MS)
    replace_file(path, encode_tokens((*tokens, made)))
    return secret


def remove_token(path: Path, name: str) -> None:
    """Remove a token; the service refuses it from the next request on.

    Raises:
        SettingsError: there is no such token.
        FormatError: the file can't be read or written.
    """
    tokens = read_tokens(path)
    left = [token for token in tokens if token.name != name]
    if len(left) == len(tokens):
        there = ", ".join(token.name for token in tokens) or "none"
        raise SettingsError(f"{path} has no token {name!r}; it has: {there}")
    replace_file(path, encode_tokens(left))


__all__ = ["AccessRole", "AccessToken", "Person", "Tokens", "add_token", "digest_of", "read_tokens", "remove_token"]
