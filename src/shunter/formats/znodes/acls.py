"""Permissions in ZooKeeper, and the announcements of their changes.

Literal patterns stand in `/kafka-acl/TYPE/NAME`, prefixes in `/kafka-acl-extended/prefixed/TYPE/NAME`; each has a
folder of announcements. Source: Apache Kafka 3.9, `ZkAclStore`, `ZkAclChangeStore`, `AclEntry`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, TypeVar

from shunter.errors import FormatError, SettingsError
from shunter.formats.znodes.text import Document, read_document, read_objects, read_text, read_version
from shunter.model.security.acl import Acl, Operation, Permission, ResourcePattern, ResourceType
from shunter.model.security.principal import parse_principal

LITERAL: Final = "/kafka-acl"
PREFIXED: Final = "/kafka-acl-extended/prefixed"
LITERAL_CHANGES: Final = "/kafka-acl-changes"
PREFIXED_CHANGES: Final = "/kafka-acl-extended-changes"

_Word = TypeVar("_Word", bound=IntEnum)


def _pascal(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _words(kind: type[_Word]) -> dict[str, _Word]:
    return {_pascal(each.name).upper(): each for each in kind}


_OPERATIONS: Final = _words(Operation)
_PERMISSIONS: Final = _words(Permission)
_TYPES: Final[Mapping[str, ResourceType]] = {each.value.upper(): each for each in ResourceType}
_TYPES_OF_ANNOUNCEMENTS: Final[Mapping[str, ResourceType]] = {each.name: each for each in ResourceType}


def resource_type(name: str) -> ResourceType | None:
    """Read the name of a folder of ACLs; None: Kafka does not know the type, and ignores its ACLs too."""
    return _TYPES.get(name.upper())


def path(pattern: ResourcePattern) -> str:
    """Path of a pattern's ACLs."""
    return f"{PREFIXED if pattern.prefixed else LITERAL}/{pattern.type.value}/{pattern.name}"


def decode_acls(place: str, data: bytes | None) -> frozenset[Acl]:
    """Read the ACLs of one pattern; a znode without data has none.

    Raises:
        FormatError: it can't be read, or ZooKeeper does not allow reading it.
    """
    if not data:
        return frozenset()
    document = read_document(data, place)
    read_version(document, place, (1,))
    return frozenset(_decode_acl(entry, place) for entry in read_objects(document, "acls", place))


def _decode_acl(entry: Document, place: str) -> Acl:
    try:
        principal = parse_principal(read_text(entry, "principal", place))
    except SettingsError as refusal:
        raise FormatError(place, str(refusal)) from None
    return Acl(
        principal,
        read_text(entry, "host", place),
        _OPERATIONS.get(read_text(entry, "operation", place).upper(), Operation.UNKNOWN),
        _PERMISSIONS.get(read_text(entry, "permissionType", place).upper(), Permission.UNKNOWN),
    )


def decode_change(place: str, data: bytes | None) -> ResourcePattern:
    """Read an announcement: the pattern whose ACLs have changed.

    Raises:
        FormatError: it can't be read.
    """
    if place.startswith(f"{PREFIXED_CHANGES}/"):
        document = read_document(data, place)
        read_version(document, place, (1,))
        kind, name = read_text(document, "resourceType", place), read_text(document, "name", place)
        pattern = read_text(document, "patternType", place)
        if pattern.upper() not in {"PREFIXED", "LITERAL"}:
            raise FormatError(place, f"patternType {pattern!r} is neither LITERAL nor PREFIXED")
        prefixed = pattern.upper() == "PREFIXED"
    else:
        kind, colon, name = (data or b"").decode("utf-8", "replace").partition(":")
        if not colon:
            raise FormatError(place, f"{kind[:80]!r} is not of the form TYPE:NAME")
        prefixed = False
    known = _TYPES_OF_ANNOUNCEMENTS.get(kind.upper())
    if known is None:
        raise FormatError(place, f"resource type {kind!r} is unknown")
    return ResourcePattern(known, name, prefixed)
