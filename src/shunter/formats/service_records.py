"""Stored forms of the service's proposals, looks and orders: JSON, strict about what is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from shunter.errors import FormatError
from shunter.model.service import (
    BrokerEffect,
    IntentKind,
    KeptProposal,
    LogDirChange,
    LookGist,
    OrderKind,
    PlannedChange,
    ProposalState,
    ServiceOrder,
    Vote,
)

VERSION = 1


def encode_proposal(proposal: KeptProposal) -> str:
    """A proposal as one JSON object, without the partitions that it changes."""
    document = {
        name: getattr(proposal, name)
        for name in KeptProposal.__dataclass_fields__
        if name not in ("changes", "votes", "brokers", "state")
    }
    document["state"] = proposal.state.value
    document["votes"] = [list(each) for each in proposal.votes]
    document["brokers"] = [list(each) for each in proposal.brokers]
    return orjson.dumps(document).decode()


def encode_changes(proposal: KeptProposal) -> str:
    """The partitions that a proposal changes, as one JSON array."""
    rows = (
        [*each[:4], *([list(map(list, each.log_dirs)), each.elect] if each.log_dirs or each.elect else [])]
        for each in proposal.changes
    )
    return orjson.dumps(list(rows)).decode()


def decode_proposal(raw: str, place: str, changes: str = "[]") -> KeptProposal:
    """Read a proposal, with the partitions that it changes or without.

    Raises:
        FormatError: it is not a proposal.
    """
    try:
        document: dict[str, Any] = orjson.loads(raw)
        document["state"] = ProposalState(document["state"])
        document["changes"] = tuple(map(_change, orjson.loads(changes)))
        document["votes"] = tuple(Vote(*each) for each in document["votes"])
        document["brokers"] = tuple(
            BrokerEffect(int(broker), (before[0], before[1], before[2]), (after[0], after[1], after[2]))
            for broker, before, after in document["brokers"]
        )
        for name in ("conditions", "reasons", "held_back", "undone"):
            document[name] = tuple(map(str, document[name]))
        return KeptProposal(**document)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise FormatError(place, f"is no proposal: {error!r}") from error


def _change(row: list[Any]) -> PlannedChange:
    # Log dirs and elections are present only if there are any.
    topic, partition, replicas, original, found, elect = [*row, [], False] if len(row) == 4 else row
    log_dirs = tuple(LogDirChange(int(each[0]), str(each[1]), str(each[2]), int(each[3])) for each in found)
    return PlannedChange(str(topic), int(partition), tuple(replicas), tuple(original), log_dirs, bool(elect))


def encode_look(gist: LookGist) -> str:
    """The gist of a look as one JSON object."""
    return orjson.dumps(
        {
            "brokers": [list(each) for each in gist.disks],
            "partitions": gist.partitions,
            "under_replicated": gist.under_replicated,
            "conditions": list(gist.conditions),
            "topics": dict(gist.topics),
            "others": [list(each) for each in gist.others],
        }
    ).decode()


def decode_look(at_ms: int, raw: str, place: str) -> LookGist:
    """Read the gist of a look.

    Raises:
        FormatError: it is not the gist of a look.
    """
    try:
        document = orjson.loads(raw)
        return LookGist(
            at_ms,
            tuple((int(broker), int(used), int(total)) for broker, used, total in document["brokers"]),
            int(document["partitions"]),
            int(document["under_replicated"]),
            tuple(map(str, document["conditions"])),
            tuple((topic, int(size)) for topic, size in document["topics"].items()),
            tuple((int(broker), int(size)) for broker, size in document["others"]),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(place, f"is no look: {error!r}") from error


def encode_body(order: ServiceOrder) -> dict[str, Any]:
    """The body of an order, as JSON has it in the API: `decode_body` reads it."""
    return {
        name: value.value if name == "intent" else dict(_pairs(value)) if name == "replacements" else value
        for name, value in order.body.items()
    }


def _pairs(pairs: Iterable[tuple[int, int]]) -> Iterable[tuple[str, int]]:
    return ((str(old), new) for old, new in pairs)


def decode_body(kind: OrderKind, cluster: str, body: Mapping[str, Any]) -> ServiceOrder:
    """The order with this body.

    Raises:
        TypeError, ValueError: it has a field that no order has, or a value that makes no sense.
    """
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in body.items()}
    if fields.get("intent") is not None:
        fields["intent"] = IntentKind(fields["intent"])
    if "replacements" in fields:
        fields["replacements"] = tuple((int(old), int(new)) for old, new in fields["replacements"].items())
    return ServiceOrder(kind, cluster, **fields)


def encode_order(order: ServiceOrder) -> str:
    """An order as one JSON array. Two orders that ask for the same give the same text."""
    return orjson.dumps([order.kind.value, order.cluster, encode_body(order)]).decode()


__all__ = [
    "VERSION",
    "decode_body",
    "decode_look",
    "decode_proposal",
    "encode_body",
    "encode_changes",
    "encode_look",
    "encode_order",
    "encode_proposal",
]
