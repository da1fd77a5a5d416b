"""Strict reading of JSON from outside: every refusal is a FormatError that names the place and the rule."""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import Any, TypeAlias
from uuid import UUID

import orjson

from shunter.errors import FormatError
from shunter.model.partition import Replicas, TopicPartition

Document: TypeAlias = dict[str, Any]
SharedReplicas: TypeAlias = dict[Replicas, Replicas]
"""Equal replica lists read so far: most ISRs equal their assignment, and a cluster has few different lists."""

INT32 = 2**31 - 1
INT64 = 2**63 - 1
WITHHELD = b"(NoAuth)"
"""Stands for a znode's data that ZooKeeper does not allow reading."""
SET_ASIDE = b"(SetAside)"
"""Stands for a znode's data that the crash-loop guard keeps from the controller for a while."""
_INTEGERS = {int}
_PARTITION_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


def read_document(data: bytes | None, place: str) -> Document:
    """Parse a JSON object.

    Raises:
        FormatError: there is no data, it is withheld or set aside, it is not JSON, or it is JSON of another kind.
    """
    if data == WITHHELD:
        raise FormatError(place, "may not be read by us (NoAuth): ZooKeeper's ACL has to let us")
    if data == SET_ASIDE:
        raise FormatError(place, "is set aside: a controller ended while it handled it; it is tried again later")
    if not data:
        raise FormatError(place, "is empty where a JSON object is expected")
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as refusal:
        raise FormatError(place, f"is not JSON: {refusal}") from None
    if type(document) is not dict:
        raise FormatError(place, f"holds a JSON {_kind(document)} where an object is expected")
    return document


def read_version(document: Document, place: str, known: Iterable[int], *, absent: int | None = None) -> int:
    """Read `version`; `absent` is its value if it is missing, for znodes in which Apache's reader does not need it."""
    version = document.get("version", absent)
    if type(version) is not int or version not in known:
        raise FormatError(place, f"version {version!r} is unknown; known are {', '.join(map(str, known))}")
    return version


def read_integer(document: Document, field: str, place: str, *, low: int = 0, high: int = INT32) -> int:
    """Read a whole number within bounds, both inclusive."""
    value = document.get(field)
    if type(value) is not int:
        raise FormatError(place, f"{field} is {_told(value)} where a whole number is expected")
    if not low <= value <= high:
        raise FormatError(place, f"{field} is {value}, outside {low} to {high}")
    return value


def read_text(document: Document, field: str, place: str) -> str:
    """Read a text that is not empty."""
    value = document.get(field)
    if type(value) is not str or not value:
        raise FormatError(place, f"{field} is {_told(value)} where a text is expected")
    return value


def read_flag(document: Document, field: str, place: str) -> bool:
    """Read true or false; absent means false."""
    value = document.get(field, False)
    if type(value) is not bool:
        raise FormatError(place, f"{field} is {_told(value)} where true or false is expected")
    return value


def read_object(document: Document, field: str, place: str) -> Document:
    """Read a nested object; absent or null means an empty one."""
    value = document.get(field)
    if value is None:
        return {}
    if type(value) is not dict:
        raise FormatError(place, f"{field} is {_told(value)} where an object is expected")
    return value


def read_objects(document: Document, field: str, place: str) -> list[Document]:
    """Read a list of objects; it must be there."""
    value = document.get(field)
    if type(value) is not list or not all(type(entry) is dict for entry in value):
        raise FormatError(place, f"{field} is {_told(value)} where a list of objects is expected")
    return value


def read_replicas(
    value: object, what: str, place: str, shared: SharedReplicas, *, low: int = 0, repeats: bool = False
) -> Replicas:
    """Check a list of broker ids: whole numbers, none below `low`, none repeated unless `repeats`; order is kept.

    Args:
        value: The JSON value.
        what: Names the list in a refusal, e.g. `replicas of partition 3`.
        place: The znode's path.
        shared: Equal lists become one object.
    """
    if type(value) is not list or (value and {*map(type, value)} != _INTEGERS):
        raise FormatError(place, f"{what} is {_told(value)} where a list of broker ids is expected")
    replicas = tuple(value)
    known = shared.get(replicas)
    if known is not None:
        return known
    for broker in replicas:
        if not low <= broker <= INT32:
            raise FormatError(place, f"{what} {value} names broker {broker}, outside {low} to {INT32}")
    if len(set(replicas)) != len(replicas):
        if repeats:
            return replicas
        repeated = next(broker for broker in replicas if replicas.count(broker) > 1)
        raise FormatError(place, f"{what} {value} repeats broker {repeated}")
    if min(replicas, default=0) >= 0:
        shared[replicas] = replicas
    return replicas


def read_partition_number(text: str, place: str, noun: str = "partition") -> int:
    """Read a partition number (or another number, named by `noun`) that is an object's key or a znode's name."""
    if not _PARTITION_NUMBER.fullmatch(text) or int(text) > INT32:
        raise FormatError(place, f"{noun} {text!r} is not a number from 0 to {INT32}")
    return int(text)


def read_topic_partition(document: Document, place: str) -> TopicPartition:
    """Read `topic` and `partition` of an entry."""
    return TopicPartition(read_text(document, "topic", place), read_integer(document, "partition", place))


def read_topic_id(value: object, place: str) -> UUID | None:
    """Read a topic id as Kafka prints it (url-safe base64, unpadded); None if there is none (before 2.8)."""
    if value is None:
        return None
    if type(value) is str and len(value) == 22:
        try:
            return UUID(bytes=b64decode(value + "==", altchars=b"-_", validate=True))
        except ValueError:
            pass
    raise FormatError(place, f"topic_id is {_told(value)} where 22 characters of url-safe base64 are expected")


def topic_id_text(topic_id: UUID) -> str:
    """Print a topic id as Kafka does."""
    return urlsafe_b64encode(topic_id.bytes)[:22].decode("ascii")


def write_document(document: Document) -> bytes:
    """Print a JSON object without blanks."""
    return orjson.dumps(document)


def _kind(value: object) -> str:
    return {list: "list", str: "text", int: "number", float: "number", bool: "truth value"}.get(type(value), "null")


def _told(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
