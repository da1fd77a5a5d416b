"""`/admin/shunter/crashes`: inputs that ended controllers, so that the next controller does not retry them at once."""

from __future__ import annotations

from collections.abc import Iterable

from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.text import (
    INT64,
    read_document,
    read_integer,
    read_objects,
    read_text,
    read_version,
    write_document,
)
from shunter.model.crashes import RememberedCrash

VERSION = 1


def decode_crashes(data: bytes | None) -> tuple[RememberedCrash, ...]:
    """Read the remembered crashes; none if there is no such znode.

    Raises:
        FormatError: it can't be read.
    """
    if data is None:
        return ()
    place = znodes.CRASHES
    document = read_document(data, place)
    read_version(document, place, (VERSION,))
    return tuple(
        RememberedCrash(
            at_ms=read_integer(entry, "at_ms", place, high=INT64),
            until_ms=read_integer(entry, "until_ms", place, high=INT64),
            times=read_integer(entry, "times", place, low=1),
            cause=read_text(entry, "cause", place),
            error=read_text(entry, "error", place),
            suspects=tuple(
                (read_text(suspect, "kind", place), str(suspect.get("name", "")))
                for suspect in read_objects(entry, "suspects", place)
            ),
        )
        for entry in read_objects(document, "crashes", place)
    )


def encode_crashes(crashes: Iterable[RememberedCrash]) -> bytes:
    """Print the remembered crashes."""
    entries = [
        {**crash._asdict(), "suspects": [{"kind": kind, "name": name} for kind, name in crash.suspects]}
        for crash in crashes
    ]
    return write_document({"version": VERSION, "crashes": entries})
