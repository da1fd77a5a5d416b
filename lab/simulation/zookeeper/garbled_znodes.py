"""Znodes that can be made unreadable: the path of each kind, how it is read, and how often it is chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.admin import decode_legacy_reassignments, decode_partitions, decode_producer_id_block
from shunter.formats.znodes.brokers import (
    decode_broker,
    decode_controller,
    decode_controller_epoch,
    decode_controller_id,
)
from shunter.formats.znodes.configs import decode_config
from shunter.formats.znodes.reassignments import decode_owed_deletions, decode_owed_replicas, decode_reassignment
from shunter.formats.znodes.requests import decode_request
from shunter.formats.znodes.topics import decode_state, decode_topic

READERS: dict[str, tuple[str, Callable[[str, bytes], Any]]] = {
    "state": (f"{znodes.TOPICS}/[^/]+/partitions/[0-9]+/state", lambda path, data: decode_state(path, data, 0, {})),
    "topic": (f"{znodes.TOPICS}/[^/]+", lambda path, data: decode_topic(last_name(path), data, 0, {})),
    "record": (
        f"{znodes.REASSIGNMENTS}/[^/]+/[0-9]+",
        lambda path, data: decode_reassignment(path, data, version=0, czxid=1),
    ),
    "owed deletions": (f"{znodes.OWED_DELETIONS}/.+", lambda path, data: decode_owed_deletions(path, data, 0)),
    "owed replicas": (f"{znodes.OWED_REPLICAS}/.+", lambda path, data: decode_owed_replicas(path, data, 0)),
    "controller id": (f"{znodes.CONTROLLERS}/.+", lambda path, data: decode_controller_id(last_name(path), data)),
    "registration": (f"{znodes.BROKER_IDS}/.+", lambda path, data: decode_broker(last_name(path), data, 1)),
    "config": (f"{znodes.CONFIGS}/topics/.+", decode_config),
    "legacy": (znodes.LEGACY_REASSIGNMENTS, lambda _, data: decode_legacy_reassignments(data, 0)),
    "extra": (znodes.EXTRA_REASSIGNMENTS, lambda _, data: decode_legacy_reassignments(data, 0)),
    "request": (
        f"{znodes.REASSIGNMENT_REQUESTS}/.+",
        lambda path, data: decode_request(last_name(path), data, czxid=1),
    ),
    "preferred election": (znodes.PREFERRED_ELECTION, decode_partitions),
    "producer ids": (znodes.PRODUCER_ID_BLOCK, lambda _, data: data and decode_producer_id_block(data)),
    "controller": (znodes.CONTROLLER, lambda _, data: decode_controller(data)),
    "controller epoch": (znodes.CONTROLLER_EPOCH, lambda _, data: decode_controller_epoch(data)),
}
"""Kinds of znodes that are overwritten: a pattern of paths, and how their data are read."""
GARBLED = tuple(READERS)
WEIGHTS = (6, 5, 6, 4, 6, 2, 2, 2, 1, 1, 2, 1, 1, 1, 1)
READ_AT_START = ("record", "owed deletions", "owed replicas", "controller id", "producer ids")
"""Read by a controller only at its election. After a repair a new election is forced, as the controller asks for."""


def last_name(path: str) -> str:
    """The last name of a path."""
    return path.rpartition("/")[2]
