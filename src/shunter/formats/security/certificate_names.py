"""From a certificate to a principal: its subject in the form of Java, and the rules that map it.

Source: RFC 2253 as Java's `X500Principal.getName` prints it; Kafka's `SslPrincipalMapper`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.x509.name import _ASN1Type as Asn1Type  # the only place with a value's encoding

from shunter.errors import FormatError

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""Attributes that RFC 2253 has a word for. Java prints others by number, with the value as hexadecimal DER."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_RULE: Final = re.compile(r"\s*((DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?))\s*(?:,\s*|$)")
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)")

Rule: TypeAlias = Callable[[str], str | None]
"""Maps a distinguished name to a principal's name; None if the rule does not match."""


def subject_of(certificate: bytes) -> str:
    """Print the subject of a certificate (DER) as Java does: the last part first, `CN=ann,OU=people`.

    Raises:
        FormatError: it is not a certificate.
    """
    try:
        name = x509.load_der_x509_certificate(certificate).subject
    except ValueError as refusal:
        raise FormatError("certificate", f"can't be read: {refusal}") from None
    return ",".join("+".join(_printed(one) for one in part) for part in reversed(name.rdns))


def _printed(attribute: x509.NameAttribute[str | bytes]) -> str:
    keyword = _KEYWORDS.get(attribute.oid.dotted_string)
    if keyword is None or isinstance(attribute.value, bytes):
        return f"{keyword or attribute.oid.dotted_string}=#{_der(attribute).hex()}"
    text = "".join(f"\\{letter}" if letter in _ESCAPED else letter for letter in attribute.value)
    leading = len(text) - len(text.lstrip(" "))
    trailing = len(text) - len(text.rstrip(" ")) if leading < len(text) else 0
    return f"{keyword}=" + "\\ " * leading + text.strip(" ") + "\\ " * trailing


def _der(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    kind: Asn1Type = attribute._type  # noqa: SLF001 - see the import
    encodings = {Asn1Type.BMPString: "utf-16-be", Asn1Type.UniversalString: "utf-32-be"}
    value = attribute.value
    data = value if isinstance(value, bytes) else value.encode(encodings.get(kind, "utf-8"))
    length = bytes([len(data)]) if len(data) < 128 else b"\x81" + bytes([len(data)]) if len(data) < 256 else b""
    if not length:
        length = b"\x82" + len(data).to_bytes(2, "big")
    return bytes([kind.value]) + length + data


@cache
def mapping_rules(text: str) -> tuple[Rule, ...]:
    """Read `ssl.principal.mapping.rules`: `RULE:PATTERN/REPLACEMENT/[LU]` and `DEFAULT`, with commas between.

    Raises:
        FormatError: a rule has another form, or its pattern uses Java's syntax that Python does not know.
    """
    rules: list[Rule] = []
    for found in _RULE.finditer(text.strip()):
        whole, default, pattern, replacement, case, other = found.groups()
        if default is not None:
            rules.append(lambda name: name)
        elif pattern is not None:
            if not whole.endswith(f"/{case}"):
                raise FormatError(f"rule {whole!r}", "after the last / only L or U may stand")
            rules.append(_rule(pattern, replacement, case))
        elif other:
            raise FormatError(f"rule {other!r}", "is neither DEFAULT nor RULE:PATTERN/REPLACEMENT/[LU]")
    return tuple(rules)


def _rule(pattern: str, replacement: str, case: str) -> Rule:
    r"""Make a rule. As in Java, `\w`, `\d`, `\s` and `(?i)` know ASCII alone, and L and U know all letters.

    Of `\b` that is true in Java since 19; before, it knows all letters.
    """
    try:
        compiled = re.compile(re.sub(r"\(\?<([A-Za-z]\w*)>", r"(?P<\1>", pattern), re.ASCII)
    except (re.error, ValueError) as error:  # ValueError: a flag that contradicts ASCII, as Java's (?u) does
        raise FormatError(f"rule's pattern {pattern!r}", str(error)) from None

    def apply(name: str) -> str | None:
        if compiled.fullmatch(name) is None:
            return None
        mapped = compiled.sub(lambda match: _expanded(replacement, match), name)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(case, mapped)

    return apply


def _expanded(replacement: str, match: re.Match[str]) -> str:
    """Replace `$1` by its group; a reference to a group that does not exist stays text, as in Kafka."""

    def one(found: re.Match[str]) -> str:
        if found[1] is not None:
            return found[1]
        digits, groups = found[2], match.re.groups
        number, rest = digits, ""
        while len(number) > 1 and int(number) > groups:
            number, rest = number[:-1], number[-1] + rest
        if int(number) > groups:
            return found[0]
        return (match[int(number)] or "") + rest

    return _REFERENCE.sub(one, replacement)


def principal_name(rules: tuple[Rule, ...], subject: str) -> str | None:
    """Return the name that the first matching rule makes of a subject; None if no rule matches."""
    return next((mapped for rule in rules if (mapped := rule(subject)) is not None), None)
