"""The names that Kafka allows for topics (`org.apache.kafka.common.internals.Topic`)."""

from __future__ import annotations

import re

from shunter.core.topic_configs import shortened

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_AT_MOST = 249


def illegal_name(name: str) -> str | None:
    """Say why no topic can have this name, in Kafka's words; None: the name is legal."""
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return f"'{name}' is not allowed"
    if len(name) > _AT_MOST:
        return f"the length of '{shortened(name)}' is longer than the max allowed length {_AT_MOST}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
