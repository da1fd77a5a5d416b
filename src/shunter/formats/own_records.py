"""Small records that one version of Shunter writes and another one may read: who drives, and until when."""

from __future__ import annotations

from typing import TypeVar

import orjson

from shunter.errors import FormatError

Read = TypeVar("Read")


def read_record(kind: type[Read], raw: bytes | str, place: str) -> Read:
    """Read a record's fields. Those that this version does not have are left out: a later one wrote them.

    Raises:
        FormatError: it is no record of this kind.
    """
    known: tuple[str, ...] = getattr(kind, "__match_args__")  # noqa: B009 - of named tuples and dataclasses alike
    try:
        document = orjson.loads(raw)
        return kind(**{name: document[name] for name in known if name in document})
    except (orjson.JSONDecodeError, TypeError) as error:
        raise FormatError(place, f"this is no record of a {kind.__name__}: {error!r}") from error
