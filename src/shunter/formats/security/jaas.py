"""One login of a JAAS configuration, in the language of Kafka's `sasl.jaas.config`.

It is that of Java's `StreamTokenizer` as `JaasConfig` of Kafka 2.x and 3.x sets it up: words of letters, digits, and
`. - _ $`; numbers, which are no words; texts in double or single quotes, with escapes as in C; comments by `/`, which
hides the rest of a line, and by `/* … */`. Everything else is a character of its own.

In one point it is stricter: an option without a name (`,="x"`) is refused, and Kafka passes over it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from shunter.errors import FormatError

_FLAGS: Final = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_TOKEN: Final = re.compile(
    r"""
    (?P<blank> [\x00-\x20]+ | /\*.*?(?:\*/|\Z) | //[^\r\n]* | /.?[^\r\n]* )
    | (?P<number> -?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]*) )
    | (?P<word> [A-Za-z_$\u00a0-\U0010ffff][A-Za-z0-9_$.\-\u00a0-\U0010ffff]* )
    | (?P<quote>["'])(?P<text> (?:\\.|(?!(?P=quote))[^\\\r\n])* )(?:(?P=quote)|\\?)
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
"""A single `/` hides the character after it too, be it the end of the line, as in Java."""
_WORDS: Final = "words of letters, digits and . - _ $ that begin with a letter, _ or $"
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_LETTERS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class _Token(NamedTuple):
    text: str | None
    """Of a word or a quoted text; None: it is neither."""
    sign: str
    """What stands there, if it is a character of its own: `=` and `;` mean something. Else empty."""


class _Refused(Exception):
    """The rule that a configuration breaks."""


def jaas_options(text: str, place: str) -> dict[str, str]:
    """Read the options of a configuration of one login: `MODULE required a="b" c=d;`.

    Args:
        text: the configuration.
        place: its file and its name, for the error.

    Raises:
        FormatError: Kafka would refuse it. No message has a value, because values may be passwords.
    """
    tokens = list(_tokens(text))
    try:
        options = _entry(tokens)
        if tokens:
            raise _Refused("has something after its `;`: it may name one login module alone")
    except _Refused as refused:
        raise FormatError(place, str(refused)) from None
    return options


def _entry(tokens: list[_Token]) -> dict[str, str]:
    """Take an entry from the start of the tokens."""
    if len(tokens) < 2 or tokens[0].text is None or (tokens[1].text or "").upper() not in _FLAGS:
        flags = ", ".join(_FLAGS).lower()
        raise _Refused(f'does not begin with a login module and one of {flags}: write MODULE required NAME="VALUE" …;')
    del tokens[:2]
    options: dict[str, str] = {}
    while tokens and tokens[0].sign != ";":
        name, value = _option(tokens)
        options[name] = value
    if not tokens:
        raise _Refused("is not ended: put `;` after its last option, and outside of quotes and comments")
    del tokens[0]
    return options


def _option(tokens: list[_Token]) -> tuple[str, str]:
    key = tokens.pop(0)
    if key.text is None:
        told = "has something else than a name where an option begins"
        raise _Refused(f"{told}: put the value before it into double quotes, as everything but {_WORDS}")
    if not tokens or tokens.pop(0).sign != "=":
        raise _Refused("has an option without `=`: put a value with blanks or other signs into double quotes")
    value = tokens.pop(0) if tokens else None
    if value is None or value.text is None:
        raise _Refused(f"has no word as the value of {key.text}: put it into double quotes, as everything but {_WORDS}")
    return key.text, value.text


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        if found["quote"] is not None:
            yield _Token(_ESCAPE.sub(_decoded, found["text"]), "")
        elif found["blank"] is None:
            yield _Token(found["word"], found["other"] or "")


def _decoded(found: re.Match[str]) -> str:
    escaped = found[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _LETTERS.get(escaped, escaped)
