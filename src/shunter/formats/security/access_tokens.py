"""The file of tokens for the HTTP API: JSON, versioned; it holds digests, never a token."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import orjson

from shunter.errors import FormatError
from shunter.model.security.access import AccessRole, AccessToken

VERSION = 1
_DIGEST = re.compile(r"[0-9a-f]{64}")


def encode_tokens(tokens: Iterable[AccessToken]) -> bytes:
    """Write tokens, sorted by name."""
    rows = [
        {
            "name": each.name,
            "role": each.role.value,
            "sha256": each.digest,
            "made_ms": each.made_ms,
            "expires_ms": each.expires_ms,
        }
        for each in sorted(tokens)
    ]
    return orjson.dumps({"version": VERSION, "tokens": rows}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def decode_tokens(raw: bytes, place: str) -> tuple[AccessToken, ...]:
    """Read tokens.

    Raises:
        FormatError: it is not a file of tokens, has another version, or two tokens have one name.
    """
    way_out = "make a new one: `shunter token add NAME --tokens FILE`"
    try:
        document = orjson.loads(raw)
        if document["version"] != VERSION:
            raise FormatError(place, f"version {document['version']} is not understood, {VERSION} is: {way_out}")
        found = tuple(_token(each) for each in document["tokens"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(place, f"is no file of tokens ({error!r}): {way_out}") from error
    names = [each.name for each in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise FormatError(place, f"has two tokens of the name {twice[0]!r}: remove one")
    return found


def _token(document: dict[str, Any]) -> AccessToken:
    digest = str(document["sha256"])
    if _DIGEST.fullmatch(digest) is None:
        raise ValueError("sha256 has to be 64 hexadecimal digits")
    expires = document["expires_ms"]
    return AccessToken(
        str(document["name"]),
        AccessRole(document["role"]),
        digest,
        int(document["made_ms"]),
        None if expires is None else int(expires),
    )
