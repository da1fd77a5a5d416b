"""How long the copies of an execution take from here. A move's steps run one after another, all moves in parallel.

A fluid model: a receiving broker shares its rate among the copies that it receives, and so does a sending one (max-min
fair). A move's next copy begins when the one before it is in sync. Two partitions that both go from brokers 1 and 2 to brokers
3 and 4 take twice as long as their bytes for broker 3 alone: first both copy to 3, then both to 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from shunter.model.partition import BrokerId

Pair: TypeAlias = tuple[BrokerId, BrokerId]
"""(sender, receiver); the sender is -1 if it is not known."""
_Side: TypeAlias = tuple[str, BrokerId]

MOST_LINES = 32
"""More lines than this are not simulated one by one: that would cost their number squared, times their steps."""
_NOTHING = 0.5
"""Fewer bytes than this count as none: sums of floats rarely end at 0."""


MOST_WAITING = 80
"""More lines than this are not played where moves wait for their turn."""
START_S = 0.5
"""Seconds between the turn of a move and its first byte: the request, its answer, and the first fetch."""


class Places(NamedTuple):
    """How many lines run together: in all, into one broker, and out of one. 0: no bound.

    `starts_s`: seconds between the turn of a line and its first byte.
    """

    total: int = 0
    into: int = 0
    out: int = 0
    starts_s: float = START_S


class Rates(NamedTuple):
    """Rates that brokers can carry, in bytes per second.

    `into` and `out` have single brokers that carry less than `each`. `sends` False: sending is not bounded.
    """

    each: float
    into: Mapping[BrokerId, float]
    out: Mapping[BrokerId, float]
    sends: bool = True


@dataclass(slots=True)
class Line:
    """The copies that a move has still to make: the bytes that each broker receives, stage after stage.

    `weight` moves share the line.
    """

    sender: BrokerId
    stages: list[dict[BrokerId, float]]
    weight: int = 1
    rests_s: float = field(default=0.0, kw_only=True)
    """Seconds until its first stage begins."""
    waits: bool = field(default=False, kw_only=True)
    """Whether it waits for its turn."""
    sides: tuple[_Side, ...] = field(default=(), kw_only=True)
    """Where it takes places."""


def shared(copies: Mapping[Pair, int], rates: Rates) -> dict[Pair, float]:
    """Bytes per second of each single copy, by pair. `copies` counts the copies that run between two brokers."""
    room: dict[_Side, float] = {}
    load: Counter[_Side] = Counter()
    sides = {pair: _sides(pair, rates) for pair in copies}
    for pair, count in copies.items():
        for side in sides[pair]:
            lower = rates.into if side[0] == "in" else rates.out
            room[side] = min(rates.each, lower.get(side[1], rates.each))
            load[side] += count
    found: dict[Pair, float] = {}
    while len(found) < len(copies):
        tightest = min((side for side in room if load[side] > 0), key=lambda side: room[side] / load[side])
        rate = max(0.0, room[tightest]) / load[tightest]
        for pair in [pair for pair in copies if pair not in found and tightest in sides[pair]]:
            found[pair] = rate
            for side in sides[pair]:
                room[side] -= rate * copies[pair]
                load[side] -= copies[pair]
    return found


def _sides(pair: Pair, rates: Rates) -> tuple[_Side, ...]:
    sender, receiver = pair
    bounded = sender >= 0 and (rates.sends or sender in rates.out)
    return (("in", receiver), ("out", sender)) if bounded else (("in", receiver),)


def grouped(lines: Sequence[Line]) -> list[Line]:
    """The same copies as fewer lines, if there are many: lines with the same sender and stages become one."""
    if len(lines) <= MOST_LINES:
        return list(lines)
    groups: dict[tuple[BrokerId, tuple[tuple[BrokerId, ...], ...]], Line] = {}
    for line in lines:
        way = line.sender, tuple(tuple(stage) for stage in line.stages)
        group = groups.get(way)
        if group is None:
            groups[way] = Line(line.sender, [dict(stage) for stage in line.stages], line.weight)
            continue
        group.weight += line.weight
        for mine, more in zip(group.stages, line.stages, strict=True):
            for broker, missing in more.items():
                mine[broker] += missing
    return list(groups.values())


def least_seconds(lines: Iterable[Line], rates: Rates, *, rest_s: float) -> float:
    """The least seconds that all lines take: those of the busiest receiver or sender, or those of the longest line.

    Cost: the number of lines times their steps.
    """
    load: dict[_Side, float] = {}
    longest = 0.0
    for line in lines:
        alone = 0.0
        for stage in line.stages:
            for broker, missing in stage.items():
                for side in _sides((line.sender, broker), rates):
                    load[side] = load.get(side, 0.0) + missing
            alone += rest_s + max(stage.values()) / rates.each / line.weight
        longest = max(longest, alone)
    busiest = 0.0
    for side, missing in load.items():
        lower = rates.into if side[0] == "in" else rates.out
        busiest = max(busiest, missing / min(rates.each, lower.get(side[1], rates.each)))
    return max(longest, busiest)


def seconds_left(lines: Sequence[Line], rates: Rates, *, rest_s: float, places: Places | None = None) -> float:
    """Seconds until all lines have ended.

    Args:
        lines: Changed by this call; no more than `MOST_LINES`, or `MOST_WAITING` if most of them wait for their turn.
            Those that wait begin in this order.
        rates: Rates that brokers carry; `each` must be more than 0.
        rest_s: Seconds between two stages of a line, and after its last stage, in which the line copies nothing.
        places: How many lines run together; None: all.
    """
    waiting = [line for line in lines if line.stages and line.waits] if places is not None else []
    running = [line for line in lines if line.stages and not (line.waits and places is not None)]
    for line in (*waiting, *running):
        line.sides = (("out", line.sender), *(("in", broker) for broker in line.stages[0]))
    elapsed = 0.0
    while running or waiting:
        if places is not None:
            waiting = _start(waiting, running, places)
        copies: Counter[Pair] = Counter()
        for line in running:
            if line.rests_s <= 0:
                copies.update({(line.sender, broker): line.weight for broker in line.stages[0]})
        speeds = shared(copies, rates)
        elapsed += _pass(running, speeds)
        for line in running:
            _go_on(line, rest_s)
        running = [line for line in running if line.stages or line.rests_s > 0]
    return elapsed


def _start(waiting: Sequence[Line], running: list[Line], places: Places) -> list[Line]:
    """Let lines begin that have places; returns those that still wait. At least one line runs then."""
    taken = Counter(side for line in running for side in line.sides)
    left: list[Line] = []
    for line in waiting:
        full = 0 < places.total <= len(running)
        full |= any(
            0 < (places.into if side == "in" else places.out) <= taken[side, broker] for side, broker in line.sides
        )
        if full and running:
            left.append(line)
            continue
        line.rests_s = places.starts_s
        taken.update(line.sides)
        running.append(line)
    return left


def _pass(running: Sequence[Line], speeds: Mapping[Pair, float]) -> float:
    """Let time pass until the first copy, or the first rest, is over; returns the seconds that passed."""
    until_s = min(
        line.rests_s
        if line.rests_s > 0
        else min(
            missing / max(1e-9, speeds[line.sender, broker] * line.weight) for broker, missing in line.stages[0].items()
        )
        for line in running
    )
    for line in running:
        if line.rests_s > 0:
            line.rests_s = max(0.0, line.rests_s - until_s)
            continue
        stage = line.stages[0]
        for broker in stage:
            stage[broker] -= speeds[line.sender, broker] * line.weight * until_s
    return until_s


def _go_on(line: Line, rest_s: float) -> None:
    """Remove copies that have ended, and let the line rest if its stage has."""
    if not line.stages or line.rests_s > 0:
        return
    stage = line.stages[0]
    for broker in [broker for broker, missing in stage.items() if missing <= _NOTHING]:
        del stage[broker]
    if not stage:
        del line.stages[0]
        line.rests_s = rest_s
