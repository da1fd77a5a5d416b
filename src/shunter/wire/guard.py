"""Checks a request before kio decodes it.

kio allocates an array by the length that a frame claims: twenty bytes that claim 2^31 elements make kio ask for 16 GiB,
which ends the process. kio also accepts null where the schema does not allow it, and refuses unknown tagged fields,
which KIP-482 says to skip. So this module walks over the bytes first, by kio's schema. It checks each length against
the bytes that are left and against the limits, checks null against the schema, and cuts unknown tagged fields out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from types import NoneType
from typing import Any, Final, get_args, get_origin

from shunter.errors import InvariantViolation
from shunter.wire.primitives import Cursor, unsigned_varint

_FIXED: Final = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}


class _Walk(Cursor):
    """A walk over one request. `cuts` has (start, end, replacement) of tagged fields that kio does not know."""

    __slots__ = ("cuts",)

    def __init__(self, data: bytes, offset: int, longest: int, place: str) -> None:
        super().__init__(data, place=place, offset=offset, longest=longest)
        self.cuts: list[tuple[int, int, bytes]] = []

    def elements(self, element_bytes: int, *, flexible: bool, nullable: bool) -> int:
        """Read an array's length. Null is refused where the schema does not allow it, and is 0 elsewhere."""
        count = self.array_length(flexible=flexible, element_bytes=element_bytes)
        if count is None:
            if not nullable:
                raise self.refuse("an array is null where null has no meaning")
            return 0
        return count


_Step = Callable[[_Walk], object]


@dataclasses.dataclass(frozen=True, slots=True)
class _Shape:
    """How to walk over an entity: its steps, and the fewest bytes that the entity takes."""

    steps: tuple[_Step, ...]
    least: int

    def walk(self, walk: _Walk) -> None:
        for step in self.steps:
            step(walk)


def look_over(schema: Any, frame: bytes, offset: int, longest: int, place: str) -> tuple[bytes, int]:
    """Check a request's body against its schema.

    Args:
        schema: kio's entity of the request.
        frame: the request without its size.
        offset: where the body begins.
        longest: the most elements that one array may have.
        place: named in errors.

    Returns:
        A frame that kio can read, and the offset of its body there: both unchanged where nothing was cut out.

    Raises:
        FormatError: an impossible length, a null that the schema does not allow, or missing bytes.

    Bytes behind the message are ignored, as Apache does: librdkafka sends some where it asks for all topics.

    Cost: O(elements). Memory is allocated only where something is cut out.
    """
    walk = _Walk(frame, offset, longest, place)
    _shape(schema).walk(walk)
    if not walk.cuts:
        return frame, offset
    parts: list[bytes] = []
    copied = offset
    for start, end, replacement in walk.cuts:
        parts += (frame[copied:start], replacement)
        copied = end
    parts.append(frame[copied:])
    return b"".join(parts), 0


@cache
def _shape(schema: Any) -> _Shape:
    flexible = bool(schema.__flexible__)
    steps: list[_Step] = []
    least = 0
    known: set[int] = set()
    for field in dataclasses.fields(schema):
        if "tag" in field.metadata:
            known.add(int(field.metadata["tag"]))
            continue
        step, size = _field(field, flexible=flexible)
        steps.append(step)
        least += size
    if flexible:
        steps.append(_tags_step(frozenset(known)))
        least += 1
    return _Shape(tuple(steps), least)


def _field(field: dataclasses.Field[Any], *, flexible: bool) -> tuple[_Step, int]:
    """Make the step over one field, and count the fewest bytes that the field takes."""
    declared: Any = field.type
    nullable = NoneType in get_args(declared)
    if nullable:
        (declared,) = (option for option in get_args(declared) if option is not NoneType)
    if get_origin(declared) is tuple:
        return _array(field, get_args(declared)[0], flexible=flexible, nullable=nullable)
    kind = field.metadata.get("kafka_type")
    if kind in _FIXED:
        return _fixed_step(_FIXED[kind]), _FIXED[kind]
    if kind == "string":
        return _string_step(flexible=flexible, nullable=nullable), 1 if flexible else 2
    if kind == "bytes":
        return _bytes_step(flexible=flexible, nullable=nullable), 1 if flexible else 4
    raise InvariantViolation("every field of a served request has a known kind", field=field.name, kind=kind)


def _array(field: dataclasses.Field[Any], element: Any, *, flexible: bool, nullable: bool) -> tuple[_Step, int]:
    """Make the step over an array, and count the fewest bytes that the array takes."""
    least = 1 if flexible else 4
    if hasattr(element, "__flexible__"):
        return _entities_step(_shape(element), flexible=flexible, nullable=nullable), least
    kind = field.metadata["kafka_type"]
    if kind in _FIXED:
        return _numbers_step(_FIXED[kind], flexible=flexible, nullable=nullable), least
    return _strings_step(flexible=flexible, nullable=nullable), least


def _fixed_step(size: int) -> _Step:
    return lambda walk: walk.skip(size)


def _string_step(*, flexible: bool, nullable: bool) -> _Step:
    return _counted_step(_Walk.int16, flexible=flexible, nullable=nullable)


def _bytes_step(*, flexible: bool, nullable: bool) -> _Step:
    return _counted_step(_Walk.int32, flexible=flexible, nullable=nullable)


def _counted_step(fixed_length: Callable[[_Walk], int], *, flexible: bool, nullable: bool) -> _Step:
    """Make the step over bytes behind their length. `fixed_length` reads the length in versions without compact forms."""

    def step(walk: _Walk) -> None:
        length = walk.varint() - 1 if flexible else fixed_length(walk)
        if length == -1 and nullable:
            return
        walk.skip(length)

    return step


def _numbers_step(size: int, *, flexible: bool, nullable: bool) -> _Step:
    return lambda walk: walk.skip(size * walk.elements(size, flexible=flexible, nullable=nullable))


def _strings_step(*, flexible: bool, nullable: bool) -> _Step:
    one = _string_step(flexible=flexible, nullable=False)

    def step(walk: _Walk) -> None:
        for _ in range(walk.elements(1 if flexible else 2, flexible=flexible, nullable=nullable)):
            one(walk)

    return step


def _entities_step(shape: _Shape, *, flexible: bool, nullable: bool) -> _Step:
    def step(walk: _Walk) -> None:
        for _ in range(walk.elements(shape.least, flexible=flexible, nullable=nullable)):
            shape.walk(walk)

    return step


def _tags_step(known: frozenset[int]) -> _Step:
    def step(walk: _Walk) -> None:
        start = walk.offset
        tags = walk.tags()
        if tags.keys() <= known:
            return
        kept = [unsigned_varint(tag) + unsigned_varint(len(tags[tag])) + tags[tag] for tag in tags if tag in known]
        walk.cuts.append((start, walk.offset, unsigned_varint(len(kept)) + b"".join(kept)))

    return step
