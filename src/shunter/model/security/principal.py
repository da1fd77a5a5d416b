"""Kafka principals, such as `User:alice`."""

from __future__ import annotations

from typing import NamedTuple

from shunter.errors import SettingsError


class Principal(NamedTuple):
    """A user or service, as permissions and super users name it."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


USER = "User"
ANONYMOUS = Principal(USER, "ANONYMOUS")
"""Every peer that connects by a listener without authentication."""


def parse_principal(text: str) -> Principal:
    """Read `TYPE:NAME`; a name may hold colons, and either may be empty, as in Kafka.

    Raises:
        SettingsError: the text has another form. Source: Apache's `SecurityUtils.parseKafkaPrincipal`.
    """
    kind, colon, name = text.partition(":")
    if not colon:
        raise SettingsError(f"principal {text!r} is not of the form TYPE:NAME, for instance User:alice")
    return Principal(kind, name)
