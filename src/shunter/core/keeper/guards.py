"""The reasons that hold a proposal back, in sentences, and how much a plan may still copy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from shunter.core.keeper.cordons import why_not_cordoned
from shunter.core.keeper.memory import MINUTE_MS
from shunter.core.keeper.sighting import PastExecution, Sighting, external, no_end
from shunter.core.keeper.signs import under_min_isr
from shunter.core.planning.request import ORDER_ALONE, Scope
from shunter.core.wording import counted, named, told_bytes
from shunter.model.check_up import MOVES
from shunter.model.keeper import DAY_MINUTES, GuardRails, KeeperPolicy
from shunter.model.limits import WEEKDAYS, is_open, local_time, write_window

_WITH_DEAD = (Scope.OFFLINE, Scope.DRAIN, Scope.REPLACE, Scope.DEMOTE, Scope.LEADERS)
"""Scopes that may change a cluster with a dead broker."""
_DAY_MS = DAY_MINUTES * MINUTE_MS


class Remaining(NamedTuple):
    """The most that one plan may copy; None: no bound."""

    moves: int | None
    bytes: int | None


def remaining(sighting: Sighting, rails: GuardRails) -> Remaining:
    """The rest of the guard rails' bounds. A day's bound that is used up holds the whole proposal back instead."""
    spent_moves, spent_bytes = _spent(sighting)
    return Remaining(
        _least(rails.moves, _left(rails.moves_per_day, spent_moves)),
        _least(rails.bytes, _left(rails.bytes_per_day, spent_bytes)),
    )


def _left(per_day: int | None, spent: int) -> int | None:
    return None if per_day is None or spent >= per_day else per_day - spent


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)


def _spent(sighting: Sighting) -> tuple[int, int]:
    """Replicas and bytes of all executions that were under way at any time in the last 24 hours; each counts as a whole."""
    recent = [each for each in sighting.past or () if _end(each, sighting.at_ms) > sighting.at_ms - _DAY_MS]
    return sum(each.moves for each in recent), sum(each.bytes for each in recent)


def _end(execution: PastExecution, now_ms: int) -> int:
    return now_ms if execution.ended_at_ms is None else execution.ended_at_ms


def held_back(sighting: Sighting, scope: Scope, policy: KeeperPolicy) -> tuple[str, ...]:
    """The reasons why no plan of a scope may be begun now, a sentence each."""
    rails = policy.rails
    spent = () if scope in ORDER_ALONE else _spent_up(sighting, rails)
    cluster = (_under_way(sighting, scope), _unseen(sighting, scope), _unwell(sighting, scope, policy))
    return tuple(chain(*cluster, why_not_cordoned(sighting, scope, policy), not_now(sighting, rails), spent))


def held_back_whatever(sighting: Sighting, rails: GuardRails) -> frozenset[str]:
    """The reasons why no plan of any scope may be begun now: the sentences of `held_back` that hold for all scopes."""
    moving, unseen = _under_way(sighting, Scope.LEADERS), _unseen(sighting, Scope.LEADERS)
    return frozenset(chain(moving, unseen, not_now(sighting, rails)))


def _under_way(sighting: Sighting, scope: Scope) -> Iterator[str]:
    ongoing, ours = sighting.check_up.ongoing, sighting.journal.open_moves
    endless = {tp: why for tp, move in external(sighting) if (why := no_end(sighting, tp, move))}
    # What heals leaves such partitions out: another tool's move that never ends would keep all replicas offline.
    if ongoing and (scope is not Scope.OFFLINE or ongoing.keys() != endless.keys()):
        ends = f"; no end comes of {named(f'{tp}: {why}' for tp, why in endless.items())}" if endless else ""
        told = f"{counted(len(ongoing), 'partition')} being moved ({named(sorted(ongoing))})"
        yield f"{told}: a plan has to wait for the end{ends}"
    elif ours and sighting.journal.holder:
        yield f"{counted(len(ours), 'move')} under way ({named(sorted(ours))}): a plan has to wait for the end"
    elif ours:
        yield f"the journal has {counted(len(ours), 'open move')} ({named(sorted(ours))}): resume it, or roll it back"
    coming = [each for each in sighting.inventory.disks if each.coming]
    if coming and scope is Scope.DISKS:
        told = f"{counted(coming[0].coming, 'replica')} of broker {coming[0].broker}"
        yield f"{told} being copied from one log dir to another: a plan has to wait for the end"


def _unseen(sighting: Sighting, scope: Scope) -> Iterator[str]:
    for what, why in sighting.check_up.unread:
        if what == MOVES:
            yield f"it is not known which partitions are being moved: {why}"
    if sighting.past is None:
        yield "the journal can't be read, so it is not known what was moved lately"
    if scope not in ORDER_ALONE:
        for broker, why in sighting.inventory.unsized.items():
            yield f"broker {broker} did not tell its log dirs, so sizes are unknown: {why}"


def _unwell(sighting: Sighting, scope: Scope, policy: KeeperPolicy) -> Iterator[str]:
    below = under_min_isr(sighting)
    if below and not _mends_isr(scope, sighting, policy):
        yield f"{counted(len(below), 'partition')} under min.insync.replicas ({named(below)}): only what mends that is begun"
    dead = [broker for broker in sighting.dead if broker not in policy.rails.frozen_brokers]
    if dead and scope not in _WITH_DEAD:
        yield f"broker {dead[0]} is dead and holds replicas: start it, or let them go elsewhere first"


def _mends_isr(scope: Scope, sighting: Sighting, policy: KeeperPolicy) -> bool:
    """Whether a scope brings partitions under min ISR back, because it copies only replicas that dead brokers held."""
    return scope is Scope.OFFLINE or (scope is Scope.REPLACE and set(policy.intents.replace) <= set(sighting.dead))


def not_now(sighting: Sighting, rails: GuardRails) -> Iterator[str]:
    """The reasons that hold a plan back only until some time has passed."""
    if rails.windows and not any(is_open(window, sighting.at_ms) for window in rails.windows):
        zones = dict.fromkeys(window.zone for window in rails.windows)
        days = any(window.days for window in rails.windows)
        now = " and ".join(_told_now(sighting.at_ms, zone, day=days) for zone in zones)
        yield f"it is {now}, and windows = {', '.join(write_window(each, 'UTC') for each in rails.windows)}"
    turned = max(sighting.past or (), key=lambda each: each.turned_at_ms or 0, default=None)
    if turned is not None and turned.turned_at_ms is not None:
        ago = max(0, sighting.at_ms - turned.turned_at_ms) // MINUTE_MS
        if ago < rails.cool_off_minutes:
            who = turned.turned_by or "somebody"
            told = f"{who} stopped or rolled back moves {counted(ago, 'minute')} ago"
            yield f"{told}, and cool-off-minutes = {rails.cool_off_minutes}"
    ended = max((_end(each, sighting.at_ms) for each in sighting.past or ()), default=None)
    if ended is not None and sighting.at_ms - ended < rails.cool_down_minutes * MINUTE_MS:
        ago = max(0, sighting.at_ms - ended) // MINUTE_MS
        yield f"the last execution ended {counted(ago, 'minute')} ago, and cool-down-minutes = {rails.cool_down_minutes}"


def _spent_up(sighting: Sighting, rails: GuardRails) -> Iterator[str]:
    moves, size = _spent(sighting)
    lately = "in the last 24 hours"
    if rails.moves_per_day is not None and moves >= rails.moves_per_day:
        yield f"{moves:,} of {counted(rails.moves_per_day, 'move')} of moves-per-day were made {lately}"
    if rails.bytes_per_day is not None and size >= rails.bytes_per_day:
        yield f"{told_bytes(size)} of {told_bytes(rails.bytes_per_day)} of bytes-per-day were copied {lately}"


def _told_now(at_ms: int, zone: str, *, day: bool) -> str:
    now = local_time(at_ms, zone)
    return f"{WEEKDAYS[now.weekday()] + ' ' if day else ''}{now:%H:%M} {zone}"
