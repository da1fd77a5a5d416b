"""What is known of brokers as JSON, in plan inputs and in snapshots. A key that is missing or null is unknown."""

from __future__ import annotations

from typing import Any

from shunter.errors import FormatError
from shunter.model.inventory import BrokerFacts, Disk

_STATES = ("live", "fenced", "cordoned", "silent", "needs_all")
FACT_KEYS = (*_STATES, "throttle", "held_followers", "log_dirs")
_SIZES = {"total": "total_bytes", "usable": "usable_bytes"}
_FLAGS = ("failed", "cordoned")
_LOG_DIR_KEYS = ("path", *_SIZES, *_FLAGS, "replicas")


def facts_row(facts: BrokerFacts) -> dict[str, Any]:
    """The keys of a broker for what is known of it."""
    row = {key: value for key in FACT_KEYS[:-1] if (value := getattr(facts, key)) is not None}
    if facts.log_dirs is None:
        return row
    return row | {"log_dirs": [_log_dir_row(each) for each in facts.log_dirs]}


def _log_dir_row(log_dir: Disk) -> dict[str, Any]:
    row: dict[str, Any] = {"path": log_dir.path}
    for key, name in _SIZES.items():
        size = getattr(log_dir, name)
        if size is not None:
            row[key] = size
    if log_dir.failed:
        row["failed"] = True
    return row | {key: value for key in ("cordoned", "replicas") if (value := getattr(log_dir, key)) is not None}


def read_facts(entry: dict[str, Any], place: str) -> BrokerFacts:
    """Read the keys of a broker; other keys are passed over.

    Args:
        entry: The broker's object.
        place: Its name in errors.

    Raises:
        FormatError: names the key whose value breaks a rule.
    """
    live, fenced, cordoned, silent, needs_all = (_flag(entry, key, place) for key in _STATES)
    rest = silent, needs_all, _amount(entry, "throttle", place), _names(entry, "held_followers", place)
    found = entry.get("log_dirs")
    if found is None:
        return BrokerFacts(live, fenced, cordoned, None, *rest)
    if not isinstance(found, list):
        raise FormatError(place, f"log_dirs: {found!r} is not a list")
    log_dirs = tuple(_read_log_dir(each, f"{place}.log_dirs[{at}]") for at, each in enumerate(found))
    return BrokerFacts(live, fenced, cordoned, log_dirs, *rest)


def _read_log_dir(found: Any, place: str) -> Disk:
    if not isinstance(found, dict) or not isinstance(found.get("path"), str):
        raise FormatError(place, f"{found!r} is not an object with a path")
    unknown = sorted(set(found) - set(_LOG_DIR_KEYS))
    if unknown:
        raise FormatError(place, f"unknown key {unknown[0]!r}; known are {sorted(_LOG_DIR_KEYS)}")
    for key in (*_SIZES, "replicas"):
        _amount(found, key, place)
    failed, cordoned = (_flag(found, key, place) for key in _FLAGS)
    return Disk(
        found["path"], found.get("total"), found.get("usable"), failed or False, cordoned, found.get("replicas")
    )


def _amount(entry: dict[str, Any], key: str, place: str) -> float | None:
    value = entry.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e18):
        raise FormatError(place, f"{key}: {value!r} is not a number of at least 0")
    return value


def _names(entry: dict[str, Any], key: str, place: str) -> tuple[str, ...] | None:
    value = entry.get(key)
    if value is not None and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        raise FormatError(place, f"{key}: {value!r} is not a list of partitions")
    return None if value is None else tuple(value)


def _flag(entry: dict[str, Any], key: str, place: str) -> bool | None:
    value = entry.get(key)
    if value is not None and not isinstance(value, bool):
        raise FormatError(place, f"{key}: {value!r} is neither true nor false, nor null (unknown)")
    return value
