"""An operator's wishes about topics: TOML, a table for each topic or pattern of topics.

```
[orders]
replication = 3
racks = ["a", "b"]

["clicks-*"]          # every topic of this pattern that has no table of its own
brokers = [1, 2, 3]
```
"""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from typing import Any

from shunter.errors import FormatError
from shunter.formats.text_files import text_of
from shunter.model.inventory import TopicWish

_KEYS = ("replication", "racks", "brokers")


def decode_wishes(raw: bytes, place: str, topics: tuple[str, ...]) -> tuple[TopicWish, ...]:
    """Read the wishes for the topics of a cluster.

    Args:
        raw: The file's content.
        place: The file's name in errors.
        topics: Names of the cluster's topics.

    Raises:
        FormatError: it is not such a file, or names a topic that does not exist; the message names key, value and rule.
    """
    try:
        document = tomllib.loads(text_of(raw))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FormatError(place, f"is no TOML: {error}") from error
    if not document:
        raise FormatError(place, "names no topic: write [TOPIC] and below it replication, racks or brokers")
    wishes: dict[str, TopicWish] = {}
    # Names go before patterns, and an earlier pattern before a later one.
    for name in sorted(document, key=_is_pattern):
        wish = _wish(place, name, document[name])
        found = [topic for topic in topics if fnmatchcase(topic, name)] if _is_pattern(name) else [name]
        if not set(found) & set(topics):
            raise FormatError(place, f"[{name}]: the cluster has no such topic")
        for topic in found:
            wishes.setdefault(topic, wish._replace(topic=topic))
    return tuple(wishes[topic] for topic in sorted(wishes))


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


def _wish(place: str, name: str, table: Any) -> TopicWish:
    if not isinstance(table, dict) or not table:
        raise FormatError(place, f"[{name}] says nothing: replication, racks or brokers is wanted")
    unknown = sorted(set(table) - set(_KEYS))
    if unknown:
        raise FormatError(place, f"[{name}]: unknown key {unknown[0]!r}; known are {', '.join(_KEYS)}")
    replication = table.get("replication", 0)
    if not _is_number(replication) or (replication < 1 and "replication" in table):
        raise FormatError(place, f"[{name}] replication = {replication!r}: a whole number from 1 on is wanted")
    racks = table.get("racks", [])
    if not isinstance(racks, list) or not all(isinstance(each, str) and each for each in racks):
        raise FormatError(place, f"[{name}] racks = {racks!r}: a list of racks' names is wanted")
    brokers = table.get("brokers", [])
    if not isinstance(brokers, list) or not all(_is_number(each) for each in brokers):
        raise FormatError(place, f"[{name}] brokers = {brokers!r}: a list of broker ids is wanted")
    return TopicWish(name, replication, tuple(racks), tuple(brokers))


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
