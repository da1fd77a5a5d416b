"""Snapshots of clusters as JSON lines, version 1: a line for the cluster, then one for each partition.

The cluster's line says how many partitions follow, so that a file that was cut off is recognized. Every line names its
cluster and its time, so that a reader on many machines may take the lines apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from shunter.errors import FormatError
from shunter.formats.broker_facts import facts_row, read_facts
from shunter.model.inventory import Inventory, InventoryBroker, InventoryPartition

VERSION = 1


def encode_inventory(inventory: Inventory) -> Iterator[bytes]:
    """Write a snapshot line by line, each with its newline."""
    every = {"cluster_id": inventory.cluster_id, "taken_at_ms": inventory.taken_at_ms}
    head = {
        "kind": "cluster",
        "version": VERSION,
        **every,
        "brokers": [*map(_broker_row, (*inventory.brokers, *inventory.fenced))],
        "unanswered": _why_rows(inventory.unanswered),
        "partitions": len(inventory.partitions),
    }
    if inventory.untold_throttles:
        head["untold_throttles"] = _why_rows(inventory.untold_throttles)
    yield orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE)
    for partition in inventory.partitions:
        sizes = [{"broker": broker, "bytes": size} for broker, size in partition.sizes]
        line = {"kind": "partition", "version": VERSION, **every, **partition._asdict(), "sizes": sizes}
        # A snapshot is of the assignment; whether a move was under way does not count later.
        del line["adding"], line["removing"]
        yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def decode_inventory(raw: bytes, place: str) -> Inventory:
    """Read a snapshot.

    Raises:
        FormatError: names the line that is not JSON, not of this version, or without a field; or says how many partitions
            are missing.
    """
    head: dict[str, Any] | None = None
    partitions: list[InventoryPartition] = []
    for number, line in enumerate(raw.splitlines(), start=1):
        where = f"{place}, line {number}"
        try:
            document = orjson.loads(line)
            if document["version"] != VERSION:
                raise FormatError(where, f"version {document['version']} is not understood; {VERSION} is")
            if document["kind"] == "cluster":
                head = document
            else:
                partitions.append(_partition(document))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise FormatError(where, f"is no line of a snapshot: {error!r}") from error
    if head is None:
        raise FormatError(place, "has no line of kind cluster: the snapshot was cut off")
    if head["partitions"] != len(partitions):
        told = f"holds {len(partitions)} of its {head['partitions']} partitions: the snapshot was cut off"
        raise FormatError(place, told)
    live = [_broker(row, place) for row in head["brokers"] if row["facts"].get("live") is not False]
    fenced = [_broker(row, place) for row in head["brokers"] if row["facts"].get("live") is False]
    unanswered, untold = _whys(head["unanswered"]), _whys(head.get("untold_throttles", ()))
    taken = Inventory(head["cluster_id"], head["taken_at_ms"], tuple(live), tuple(partitions), unanswered)
    return taken._replace(fenced=tuple(fenced), untold_throttles=untold)


def _why_rows(found: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
    """Brokers that did not tell something, and why."""
    return [{"broker": broker, "why": why} for broker, why in found]


def _whys(rows: Iterable[dict[str, Any]]) -> tuple[tuple[int, str], ...]:
    return tuple((row["broker"], row["why"]) for row in rows)


_OF_BROKER = ("id", "host", "rack", "disk_total_bytes", "disk_usable_bytes")


def _broker_row(broker: InventoryBroker) -> dict[str, Any]:
    """A broker; what is known of it beside is an object of its own, which a lake keeps as it is."""
    facts = facts_row(broker.facts._replace(log_dirs=broker.log_dirs))
    return {name: getattr(broker, name) for name in _OF_BROKER} | {"facts": facts}


def _broker(row: dict[str, Any], place: str) -> InventoryBroker:
    facts = read_facts(row["facts"], f"{place}: broker {row['id']}")._asdict()
    del facts["live"]
    return InventoryBroker(**{name: row[name] for name in _OF_BROKER}, **facts)


def _partition(document: dict[str, Any]) -> InventoryPartition:
    values = {name: document[name] for name in InventoryPartition._fields if name not in ("adding", "removing")}
    for name in ("replicas", "isr", "offline"):
        values[name] = tuple(values[name])
    values["sizes"] = tuple((entry["broker"], entry["bytes"]) for entry in values["sizes"])
    return InventoryPartition(**values)
