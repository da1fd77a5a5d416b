"""Text files that people write: editors on Windows begin them with a byte order mark, and some write UTF-16."""

from __future__ import annotations

import codecs

_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def without_mark(raw: bytes) -> bytes:
    """A file's content as UTF-8 without its byte order mark. Content without a mark is returned unchanged.

    Raises:
        UnicodeDecodeError: it has UTF-16's mark, and is not UTF-16.
    """
    return raw.decode("utf-16").encode() if raw.startswith(_WIDE) else raw.removeprefix(codecs.BOM_UTF8)


def text_of(raw: bytes) -> str:
    r"""A file's text: UTF-8, or UTF-16 with its mark; its lines end with \n.

    Raises:
        UnicodeDecodeError: it is neither UTF-8 nor UTF-16 with a mark.
    """
    return without_mark(raw).decode().replace("\r\n", "\n").replace("\r", "\n")


__all__ = ["text_of", "without_mark"]
