"""The file in which a look of `shunter serve --once` leaves the facts that the next look needs: JSON, versioned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from shunter.errors import FormatError
from shunter.model.keeper import Condition, Memory, Since, Subject

VERSION = 1


def encode_memories(memories: Mapping[str, Memory]) -> bytes:
    """Write the memory of each cluster, by the cluster's name in the policy file."""
    clusters = {
        name: {
            "cluster_id": memory.cluster_id,
            "at_ms": memory.at_ms,
            "held": [
                {
                    "condition": each.subject.condition.value,
                    "about": each.subject.about,
                    "since_ms": each.since_ms,
                    "mark": each.mark,
                }
                for each in memory.held
            ],
        }
        for name, memory in sorted(memories.items())
    }
    return orjson.dumps(
        {"version": VERSION, "clusters": clusters}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    )


def decode_memories(raw: bytes, place: str) -> dict[str, Memory]:
    """Read the memories of clusters.

    Raises:
        FormatError: it is not such a file, or has another version; the message says what to do.
    """
    way_out = "name another file by --state, or delete this one: what holds is then counted anew"
    try:
        document = orjson.loads(raw)
        if document["version"] != VERSION:
            raise FormatError(place, f"version {document['version']} is not understood, {VERSION} is: {way_out}")
        return {str(name): _memory(each) for name, each in document["clusters"].items()}
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(place, f"is no state of `shunter serve` ({error!r}): {way_out}") from error


def _memory(document: dict[str, Any]) -> Memory:
    held = tuple(
        Since(Subject(Condition(each["condition"]), str(each["about"])), int(each["since_ms"]), str(each["mark"]))
        for each in document["held"]
    )
    return Memory(str(document["cluster_id"]), int(document["at_ms"]), held)
