"""The values that the policy file may have, each with its rule: a wrong one is told by the rule's own sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator, WithJsonSchema

from shunter.app.profiles import meant
from shunter.drivers.host.http_client import is_open_to_others
from shunter.model.limits import WRITTEN, Window, bound_trouble, rate_trouble, read_window
from shunter.model.security.access import AccessRole
from shunter.model.service import INFORMED, NOTIFIED, NotifierKind

MOST_NUMBER = 2**31 - 1
"""Kafka's own bound of ids; as minutes it is 4,000 years."""
_MOST_BYTES = 2**63 - 1
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZE = r"(\d+(?:\.\d+)?)([KMGT]?)"
_MOST_DAYS = 3_650


class Wrong(ValueError):
    """A value breaks a rule. `tail` is the sentence after the place; `key`: of the table's keys, the one that is meant."""

    def __init__(self, tail: str, key: str = "") -> None:
        super().__init__(tail)
        self.tail, self.key = tail, key


# ---- values


def listed(value: Any) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise Wrong(f" = {value!r}: a list is wanted, as in [{value!r}]")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise Wrong(f" = {value!r}: a text is wanted")
    return value


def _number(value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise Wrong(f" = {value!r}: a whole number from {least} on is wanted")
    if value > MOST_NUMBER:
        raise Wrong(f" = {value!r}: at most {MOST_NUMBER:,} is allowed")
    return value


def _share(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 100:
        raise Wrong(f" = {value!r}: a number above 0 and below 100 is wanted")
    return float(value)


def _headroom(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 100:
        raise Wrong(f" = {value!r}: a number from 0 to below 100 is wanted")
    return float(value)


def _days(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= _MOST_DAYS:
        raise Wrong(f" = {value!r}: a number of days above 0 and up to {_MOST_DAYS:,} is wanted")
    return float(value)


def _size(value: Any) -> int:
    found = re.fullmatch(_SIZE, str(value)) if isinstance(value, str | int) else None
    size = float(found[1]) * _UNITS[found[2]] if found and not isinstance(value, bool) else 0.0
    if size > _MOST_BYTES:
        raise Wrong(f" = {value!r}: at most {_MOST_BYTES:,} bytes are allowed")
    if size < 1:
        raise Wrong(f' = {value!r}: bytes are wanted, as in "500G" (K, M, G, T: powers of ten)')
    return int(size)


def _rate(value: Any) -> int:
    rate = _size(value)
    if trouble := rate_trouble(rate):
        raise Wrong(f" = {value!r}: {trouble}")
    return rate


def _bound(value: Any) -> int:
    copies = _number(value, 0)
    if trouble := bound_trouble(copies):
        raise Wrong(f" = {value!r}: {trouble}")
    return copies


def _window(value: Any) -> Window:
    """A window by UTC, unless it names a zone: a service's clock is nobody's."""
    try:
        return read_window(str(value), "UTC")
    except ValueError as error:
        raise Wrong(f": {error}") from None


def http_url(value: Any) -> str:
    """An address of HTTP."""
    url = _text(value)
    parts = _parts(url)
    if parts is None or re.search(r"\s", url):
        raise Wrong(f" = {value!r}: http://HOST or https://HOST is wanted")
    return url


def _parts(url: str) -> Any:
    """The parts of an address of HTTP; None: it is none."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # The port is not a port, or brackets do not match.
        return None
    return parts if fits else None


def _metrics_address(value: Any) -> str:
    url = _text(value)
    parts = _parts(url)
    if parts is None or parts.port is None or "@" in url or url.rstrip("/") != f"{parts.scheme}://{parts.netloc}":
        raise Wrong(f': {value!r}: the address of a controller\'s metrics is wanted, as in "http://127.0.0.1:9464"')
    return url.rstrip("/")


_SENT = (*NOTIFIED, *INFORMED)


def _event(value: Any) -> str:
    if _text(value) not in _SENT:
        raise Wrong(f": {value!r} is not an event; {meant(value, _SENT)}")
    return str(value)


def one_of(*allowed: str) -> Callable[[Any], str]:
    """A check for one of these texts."""

    def check(value: Any) -> str:
        if value not in allowed:
            raise Wrong(f" = {value!r}: {' or '.join(allowed)} is wanted")
        return str(value)

    return check


def numbered(table: Any) -> Any:
    """Refuse keys that are no brokers' ids: TOML's keys are texts."""
    for key in tabled(table):
        if not key.isdecimal():
            raise Wrong(": a broker's id is wanted, as in { 3 = 7 }: broker 7 takes the place of 3", key)
    return table


def tabled(value: Any) -> dict[str, Any]:
    """A table."""
    if not isinstance(value, dict):
        raise Wrong(f" = {value!r}: a table is wanted")
    return value


Natural = Annotated[
    int,
    BeforeValidator(lambda value: _number(value, 0)),
    WithJsonSchema({"type": "integer", "minimum": 0, "maximum": MOST_NUMBER}),
]
Positive = Annotated[
    int,
    BeforeValidator(lambda value: _number(value, 1)),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MOST_NUMBER}),
]
Text = Annotated[str, BeforeValidator(_text), WithJsonSchema({"type": "string", "minLength": 1})]
Percent = Annotated[
    float, BeforeValidator(_share), WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 100})
]
Headroom = Annotated[
    float, BeforeValidator(_headroom), WithJsonSchema({"type": "number", "minimum": 0, "exclusiveMaximum": 100})
]
Days = Annotated[
    float, BeforeValidator(_days), WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": _MOST_DAYS})
]
_BYTES = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": f"^{_SIZE}$"}]}
Size = Annotated[int, BeforeValidator(_size), WithJsonSchema(_BYTES)]
Rate = Annotated[int, BeforeValidator(_rate), WithJsonSchema(_BYTES)]
Copies = Annotated[int, BeforeValidator(_bound), WithJsonSchema({"type": "integer", "minimum": 0})]
Texts = Annotated[tuple[Text, ...], BeforeValidator(listed)]
Brokers = Annotated[tuple[Natural, ...], BeforeValidator(listed)]
KeptWindow = Annotated[
    Window,
    BeforeValidator(_window),
    WithJsonSchema(
        {"type": "string", "pattern": f"^{WRITTEN.pattern.replace('?P<days>', '').replace('?P<zone>', '')}$"}
    ),
]


def _issuer(value: Any) -> str:
    url = http_url(value)
    if is_open_to_others(url):
        raise Wrong(f" = {value!r}: what an issuer says must not be changed on the way: https:// is wanted")
    return url


def _network(value: Any) -> IPv4Network | IPv6Network:
    try:
        network = ip_network(_text(value))
    except ValueError as error:
        raise Wrong(f": {error}: write an address or a network, as 10.0.0.5 or 10.1.0.0/16") from None
    if not network.prefixlen:
        raise Wrong(f": {value!r} is every address, and anybody could write the headers: name the proxies alone")
    return network


def _header(value: Any) -> str:
    if re.fullmatch(r"[A-Za-z0-9-]+", _text(value)) is None:
        raise Wrong(f" = {value!r}: a header's name is wanted, as X-Forwarded-User")
    return str(value)


_ROLES = tuple(each.value for each in AccessRole)
Address = Annotated[str, BeforeValidator(http_url), WithJsonSchema({"type": "string", "pattern": "^https?://"})]
Controller = Annotated[
    str, BeforeValidator(_metrics_address), WithJsonSchema({"type": "string", "pattern": "^https?://"})
]
Event = Annotated[str, BeforeValidator(_event), WithJsonSchema({"enum": list(_SENT)})]
Kind = Annotated[
    str,
    BeforeValidator(one_of(*(each.value for each in NotifierKind))),
    WithJsonSchema({"enum": [each.value for each in NotifierKind]}),
]
Issuer = Annotated[str, BeforeValidator(_issuer), WithJsonSchema({"type": "string", "pattern": "^https?://"})]
Network = Annotated[IPv4Network | IPv6Network, BeforeValidator(_network), WithJsonSchema({"type": "string"})]
HeaderName = Annotated[str, BeforeValidator(_header), WithJsonSchema({"type": "string", "pattern": "^[A-Za-z0-9-]+$"})]
Role = Annotated[
    AccessRole,
    BeforeValidator(lambda value: AccessRole(one_of(*_ROLES)(value))),
    WithJsonSchema({"enum": [*_ROLES]}),
]
_MODES = ("keep", "drive", "observe")
ServiceMode = Annotated[str, BeforeValidator(one_of(*_MODES)), WithJsonSchema({"enum": [*_MODES]})]
