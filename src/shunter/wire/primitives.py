"""Kafka's primitive types as bytes, both ways (source: Kafka protocol guide; KIP-482 for the compact forms)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from shunter.errors import FormatError

INT8: Final = struct.Struct(">b")
INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")

NO_TAGS: Final = b"\x00"
NULL_UUID: Final = bytes(16)

_SHORT_VARINTS: Final = tuple(bytes((value,)) for value in range(128))
_VARINT_BYTES: Final = 5
_LONGEST_LEGACY_STRING: Final = 0x7FFF


def unsigned_varint(value: int) -> bytes:
    """Encode a non-negative number of up to 31 bits, seven bits a byte, the least significant first."""
    if value < 128:
        return _SHORT_VARINTS[value]
    encoded = bytearray()
    while value >= 128:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def array_length(count: int, *, flexible: bool) -> bytes:
    """Encode an array's length: int32, or in flexible versions a varint of the length plus 1 (0 is null)."""
    return unsigned_varint(count + 1) if flexible else INT32.pack(count)


def string(text: str, *, flexible: bool) -> bytes:
    """Encode a string that is not null.

    Raises:
        FormatError: too long for the legacy form.
    """
    encoded = text.encode()
    if flexible:
        return unsigned_varint(len(encoded) + 1) + encoded
    if len(encoded) > _LONGEST_LEGACY_STRING:
        raise FormatError("request", f"a string of {len(encoded)} bytes does not fit the legacy form of 32767")
    return INT16.pack(len(encoded)) + encoded


def nullable_string(text: str | None, *, flexible: bool) -> bytes:
    """Encode a string that may be null."""
    if text is None:
        return NO_TAGS if flexible else b"\xff\xff"
    return string(text, flexible=flexible)


def compact_int32s(values: Sequence[int] | None) -> bytes:
    """Encode a compact, nullable array of int32."""
    if values is None:
        return b"\x00"
    return unsigned_varint(len(values) + 1) + struct.pack(f">{len(values)}i", *values)


def uuid(value: UUID | None) -> bytes:
    """Encode a UUID; None is all zeros."""
    return NULL_UUID if value is None else value.bytes


ARRAYS_TOGETHER = 4
"""All arrays of a message together may have this many times the elements of the longest allowed array."""


class Cursor:
    """A position in a message that is read from front to back; every read is checked against the end.

    `longest` bounds the elements of one array; four times `longest` bounds the elements of all arrays together. So a
    sender can't cause a large allocation by a mere number.
    """

    __slots__ = ("data", "end", "left", "longest", "offset", "place")

    def __init__(self, data: bytes | memoryview, *, place: str, offset: int = 0, longest: int = 1_000_000) -> None:
        self.data = memoryview(data)
        self.offset = offset
        self.end = len(self.data)
        self.place = place
        self.longest = longest
        self.left = ARRAYS_TOGETHER * longest

    def refuse(self, rule: str) -> FormatError:
        """Build the error that names this message and the byte that is wrong."""
        return FormatError(self.place, f"{rule}, at byte {self.offset} of {self.end}")

    def skip(self, count: int) -> int:
        """Move on by `count` bytes and return the offset where they begin."""
        start = self.offset
        if count < 0 or count > self.end - start:
            raise self.refuse(f"{count} bytes are announced and {self.end - start} are left")
        self.offset = start + count
        return start

    def int8(self) -> int:
        """Read a signed byte."""
        value: int = INT8.unpack_from(self.data, self.skip(1))[0]
        return value

    def int16(self) -> int:
        """Read two bytes."""
        value: int = INT16.unpack_from(self.data, self.skip(2))[0]
        return value

    def int32(self) -> int:
        """Read four bytes."""
        value: int = INT32.unpack_from(self.data, self.skip(4))[0]
        return value

    def uuid(self) -> UUID:
        """Read sixteen bytes."""
        start = self.skip(16)
        return UUID(bytes=bytes(self.data[start : start + 16]))

    def varint(self) -> int:
        """Read an unsigned varint of at most 31 bits."""
        value = 0
        for position in range(_VARINT_BYTES):
            byte = self.data[self.skip(1)]
            value |= (byte & 0x7F) << (7 * position)
            if byte < 128:
                if value > 0x7FFFFFFF:
                    break
                return value
        raise self.refuse("a varint is longer than 31 bits")

    def take(self, count: int) -> None:
        """Count elements of arrays against the bound for all arrays of the message."""
        self.left -= count
        if self.left < 0:
            raise self.refuse(f"more than {ARRAYS_TOGETHER * self.longest} elements in all arrays together")

    def array_length(self, *, flexible: bool, element_bytes: int = 1) -> int | None:
        """Read an array's number of elements; None is null.

        Args:
            flexible: whether the length is compact.
            element_bytes: the fewest bytes that an element can take. An array that can't fit into the rest of the
                message is refused here, before memory is allocated for it.
        """
        count = self.varint() - 1 if flexible else self.int32()
        if count == -1:
            return None
        if count < 0:
            raise self.refuse(f"an array of {count} elements")
        if count > self.longest:
            raise self.refuse(f"an array of {count} elements, and the limit is {self.longest}")
        self.take(count)
        if count * element_bytes > self.end - self.offset:
            raise self.refuse(f"an array of {count} elements does not fit in the rest")
        return count

    def filled_array_length(self, *, flexible: bool, element_bytes: int = 1) -> int:
        """Read the number of elements of an array that may not be null; see `array_length`."""
        count = self.array_length(flexible=flexible, element_bytes=element_bytes)
        if count is None:
            raise self.refuse("an array is null where null has no meaning")
        return count

    def nullable_string(self, *, flexible: bool) -> str | None:
        """Read a string that may be null."""
        length = self.varint() - 1 if flexible else self.int16()
        if length == -1:
            return None
        start = self.skip(length)
        try:
            return str(self.data[start : start + length], "utf-8")
        except UnicodeDecodeError as error:
            raise self.refuse("a string is not UTF-8") from error

    def string(self, *, flexible: bool) -> str:
        """Read a string that must not be null."""
        value = self.nullable_string(flexible=flexible)
        if value is None:
            raise self.refuse("a string is null where null has no meaning")
        return value

    def compact_int32s(self) -> tuple[int, ...] | None:
        """Read a compact, nullable array of int32."""
        count = self.array_length(flexible=True, element_bytes=4)
        return None if count is None else self._int32s(count)

    def filled_compact_int32s(self) -> tuple[int, ...]:
        """Read a compact array of int32 that may not be null."""
        return self._int32s(self.filled_array_length(flexible=True, element_bytes=4))

    def _int32s(self, count: int) -> tuple[int, ...]:
        return struct.unpack_from(f">{count}i", self.data, self.skip(4 * count))

    def tags(self) -> dict[int, bytes]:
        """Read tagged fields: tag -> bytes. Tags must be in ascending order (KIP-482)."""
        count = self.varint()
        if count == 0:
            return {}
        found: dict[int, bytes] = {}
        last = -1
        for _ in range(count):
            tag = self.varint()
            if tag <= last:
                raise self.refuse(f"tag {tag} after tag {last}")
            last = tag
            length = self.varint()
            start = self.skip(length)
            found[tag] = bytes(self.data[start : start + length])
        return found

    def finish(self) -> None:
        """Check that nothing is left.

        Raises:
            FormatError: bytes follow the message.
        """
        if self.offset != self.end:
            raise self.refuse(f"{self.end - self.offset} bytes follow the message")
