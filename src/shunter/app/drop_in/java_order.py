"""The iteration order of a Java `HashSet` of whole numbers or short texts, in which Apache's tool prints.

Source: `java.util.HashMap`: buckets by `hash ^ (hash >>> 16)`, 16 of them at first, doubled when three quarters full.
Within a bucket, elements are in the order of insertion.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

_Element = TypeVar("_Element", int, str)


def hash_set_order(elements: Iterable[_Element]) -> list[_Element]:
    """The distinct elements, in the iteration order of a `HashSet` to which they were added one by one."""
    distinct = list(dict.fromkeys(elements))
    buckets = 16
    while len(distinct) > buckets * 3 // 4:
        buckets *= 2
    return sorted(distinct, key=lambda element: _spread(element) & (buckets - 1))


def _spread(element: int | str) -> int:
    hashed = element & 0xFFFFFFFF if isinstance(element, int) else _text_hash(element)
    return hashed ^ (hashed >> 16)


def _text_hash(text: str) -> int:
    hashed = 0
    encoded = text.encode("utf-16-be")
    for index in range(0, len(encoded), 2):
        hashed = (31 * hashed + int.from_bytes(encoded[index : index + 2], "big")) & 0xFFFFFFFF
    return hashed
