"""Rules that a person adds to a plan, as words NAME=VALUE. They narrow the policy's guard rails, never widen them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from shunter.core.planning.request import PlanRequest
from shunter.model.keeper import KeeperPolicy
from shunter.model.service import OrderRefused, Refusal

_RULE = re.compile(r"([a-z][a-z-]*)=(.*)", re.DOTALL)
_BAND = "a percentage above 0 and below 100"
"""The same rule as the policy's and the planner's."""


class Rules(NamedTuple):
    """The rules of one plan. `band` is a share; None: as the policy has it."""

    band: float | None = None
    moves: int | None = None
    bytes: int | None = None
    brokers: tuple[int, ...] = ()
    """No replica comes to these brokers or leaves them."""
    topics: tuple[str, ...] = ()
    """Names, or patterns with * and ?: these topics do not change."""
    to: tuple[int, ...] = ()
    """The brokers that may hold what `move` moves."""

    def narrowed(self, policy: KeeperPolicy) -> KeeperPolicy:
        """The policy with these rules."""
        rails = policy.rails
        return replace(
            policy,
            rails=replace(
                rails,
                moves=_least(rails.moves, self.moves),
                bytes=_least(rails.bytes, self.bytes),
                frozen_brokers=(*rails.frozen_brokers, *self.brokers),
                frozen_topics=(*rails.frozen_topics, *self.topics),
            ),
        )

    def applied(self, request: PlanRequest) -> PlanRequest:
        """The request with these rules, as far as they are not in the policy."""
        return request if self.band is None else replace(request, band=self.band)


def split_rules(items: Iterable[str]) -> tuple[tuple[str, ...], Rules]:
    """Separate the words that say what a plan is about from its rules.

    Raises:
        OrderRefused: there is no such rule, or its value is not valid.
    """
    about: list[str] = []
    rules = Rules()
    for item in items:
        found = _RULE.fullmatch(item)
        if found is None:
            about.append(item)
            continue
        name, value = found.groups()
        if name not in RULES:
            raise OrderRefused(Refusal.INVALID, f"{item!r}: there is no rule {name!r}; there are {', '.join(RULES)}")
        rules = RULES[name](rules, value.strip(), item)
    return tuple(about), rules


def _band(rules: Rules, value: str, item: str) -> Rules:
    band = _number(value, item, _BAND) / 100
    if not 0 < band < 1:
        raise _refused(item, _BAND)
    return rules._replace(band=band)


def _moves(rules: Rules, value: str, item: str) -> Rules:
    return rules._replace(moves=_whole(value, item))


def _gigabytes(rules: Rules, value: str, item: str) -> Rules:
    gigabytes = _number(value, item, "a number of gigabytes above 0")
    if not 0 < gigabytes <= 1e9:
        raise _refused(item, "a number of gigabytes above 0")
    return rules._replace(bytes=round(gigabytes * 10**9))


def _brokers(rules: Rules, value: str, item: str) -> Rules:
    return rules._replace(brokers=(*rules.brokers, *(_whole(each, item, least=0) for each in value.split(","))))


def _to(rules: Rules, value: str, item: str) -> Rules:
    return rules._replace(to=(*rules.to, *(_whole(each, item, least=0) for each in value.split(","))))


def _topics(rules: Rules, value: str, item: str) -> Rules:
    names = tuple(value.split(","))
    if not all(names):
        raise _refused(item, "names of topics, or patterns with * and ?")
    return rules._replace(topics=(*rules.topics, *names))


RULES: dict[str, Callable[[Rules, str, str], Rules]] = {
    "band": _band,
    "most-moves": _moves,
    "most-gigabytes": _gigabytes,
    "without-brokers": _brokers,
    "without-topics": _topics,
    "to": _to,
}
"""The function of each rule, by name. It takes the rules so far, the value and the whole word."""


def _number(value: str, item: str, wanted: str) -> float:
    try:
        return float(value.removesuffix("%"))
    except ValueError:
        raise _refused(item, wanted) from None


def _whole(value: str, item: str, *, least: int = 1) -> int:
    if not value.isdecimal() or not value.isascii() or not least <= int(value) < 2**31:
        raise _refused(item, f"whole numbers from {least} on")
    return int(value)


def _refused(item: str, wanted: str) -> OrderRefused:
    return OrderRefused(Refusal.INVALID, f"{item!r}: {wanted} is wanted")


def _least(before: int | None, asked: int | None) -> int | None:
    return asked if before is None else before if asked is None else min(before, asked)
