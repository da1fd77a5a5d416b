"""Znodes of delegation tokens. Source: Apache Kafka 3.9, `DelegationTokenManagerZk`, `DelegationTokenInfoZNode`."""

from __future__ import annotations

from typing import NamedTuple

from shunter.formats.znodes.text import INT64, read_document, read_integer, read_version

TOKENS = "/delegation_token/tokens"
TOKEN_CHANGES = "/delegation_token/token_changes"  # noqa: S105 - a path
TOKEN_CHANGE_PREFIX = f"{TOKEN_CHANGES}/token_change_"


class TokenTimes(NamedTuple):
    """When a token expires if it is not renewed, and when it expires at the latest; ms since the epoch."""

    expiry_ms: int
    latest_ms: int


def decode_token(place: str, data: bytes | None) -> TokenTimes:
    """Read when a token expires, versions 1 to 3.

    Raises:
        FormatError: it can't be read.
    """
    document = read_document(data, place)
    read_version(document, place, (1, 2, 3))
    times = (read_integer(document, name, place, high=INT64) for name in ("expiryTimestamp", "maxTimestamp"))
    return TokenTimes(*times)


def encode_token_change(token_id: str) -> bytes:
    """Print the announcement that a token was changed or deleted."""
    return token_id.encode()
