"""Plots as SVG text: bars before and after, flows between brokers, timelines, intervals against truth.

Colours are classes (`before`, `after`, `stall`, …) that the page defines, and every mark has a title, so that a plot can
be read without colour and by a screen reader.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from shunter.core.wording import counted

WIDTH = 960
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 40, 28, 34
_LINE = 14.0
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")


class BrokerBar(NamedTuple):
    """One broker's load, before and after."""

    broker: str
    before: float
    after: float


class FlowArrow(NamedTuple):
    """Bytes from one broker to another."""

    source: str
    target: str
    bytes: float
    copies: int


class PlotSpan(NamedTuple):
    """A stretch of time, seconds from the plot's start; kind is `planned`, `step`, `wait` or `stall`."""

    start: float
    end: float
    kind: str
    title: str


class Lane(NamedTuple):
    """One line of a timeline."""

    label: str
    spans: tuple[PlotSpan, ...]


class EstimateAndOutcome(NamedTuple):
    """The duration that a schedule expected, with its interval, and the real one (None: not known yet)."""

    label: str
    low: float
    expected: float
    high: float
    real: float | None


def bars(brokers: Sequence[BrokerBar], *, unit: str, title: str) -> str:
    """Two bars for each broker, and a line at the mean."""
    if not brokers:
        return ""
    height, top = 220, max(max(bar.before, bar.after) for bar in brokers) or 1.0
    inner, deep = WIDTH - _LEFT - _RIGHT, height - _TOP - _BOTTOM
    slot = inner / len(brokers)
    bar_width = max(1.0, slot * 0.38)
    parts: list[str] = [*_value_axis(top, deep, unit)]
    for at, bar in enumerate(brokers):
        for offset, name, value in ((0.1, "before", bar.before), (0.5, "after", bar.after)):
            x, tall = _LEFT + slot * (at + offset), deep * value / top
            told = f"broker {bar.broker} {name}: {amount(value, unit)}"
            parts.append(_rect(x, _TOP + deep - tall, bar_width, tall, name, told))
        if len(brokers) <= 60 or at % (len(brokers) // 30) == 0:
            parts.append(_text(_LEFT + slot * (at + 0.5), height - 16, bar.broker, "middle"))
    mean = sum(bar.after for bar in brokers) / len(brokers)
    level = _TOP + deep - deep * mean / top
    parts.append(
        f'<line class="mean" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{level:.1f}" y2="{level:.1f}"><title>mean after: {escape(amount(mean, unit))}</title></line>'
    )
    return _svg(height, title, parts)


def flows(found: Sequence[FlowArrow], *, title: str) -> str:
    """Brokers that give on the left, brokers that get on the right, ribbons as wide as their bytes."""
    if not found:
        return ""
    total = sum(flow.bytes for flow in found) or 1.0
    sources = _sums([(flow.source, flow.bytes) for flow in found])
    targets = _sums([(flow.target, flow.bytes) for flow in found])
    room, gap = max(120, 26 * max(len(sources), len(targets))), 6.0
    scale = (room - gap * max(len(sources), len(targets))) / total
    left, right = _stack(sources, scale, gap), _stack(targets, scale, gap)
    height = 40 + max(
        places[name] + sizes[name] * scale for sizes, places in ((sources, left), (targets, right)) for name in sizes
    )
    parts: list[str] = []
    used: dict[tuple[str, str], float] = {}
    for flow in found:
        wide = max(0.6, flow.bytes * scale)
        y1, y2 = (
            left[flow.source] + used.get(("from", flow.source), 0.0),
            right[flow.target] + used.get(("to", flow.target), 0.0),
        )
        used["from", flow.source] = used.get(("from", flow.source), 0.0) + flow.bytes * scale
        used["to", flow.target] = used.get(("to", flow.target), 0.0) + flow.bytes * scale
        told = (
            f"{flow.source} to {flow.target}: {amount(flow.bytes, 'bytes')} in {counted(flow.copies, 'copy', 'copies')}"
        )
        parts.append(_ribbon(180, WIDTH - 180, y1 + wide / 2, y2 + wide / 2, wide, told))
    for names, places, x, anchor in ((sources, left, 170, "end"), (targets, right, WIDTH - 170, "start")):
        for name, size in names.items():
            parts.append(_text(x, places[name] + size * scale / 2 + 4, f"{name} ({amount(size, 'bytes')})", anchor))
    return _svg(height, title, parts)


def timeline(lanes: Sequence[Lane], *, title: str) -> str:
    """One line for each move: what was planned, steps, and where it stood still."""
    if not lanes:
        return ""
    end = max((span.end for lane in lanes for span in lane.spans), default=1.0) or 1.0
    row, label = 18, 220
    height = row * len(lanes) + _TOP + _BOTTOM
    scale = (WIDTH - label - _RIGHT) / end
    parts: list[str] = []
    for at, tick in enumerate(_time_ticks(end)):
        x = label + tick * scale
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{height - _BOTTOM + 6}"/>')
        parts.append(_text(x, height - 12, duration(tick), "middle" if at else "start"))
    for at, lane in enumerate(lanes):
        y = _TOP + row * at
        parts.append(_text(label - 8, y + 11, lane.label[-34:], "end"))
        for span in lane.spans:
            tall, shift = {"planned": (row - 4, 0.0), "wait": (2, 6.0)}.get(span.kind, (row - 9, 2.5))
            wide = max(1.0, (span.end - span.start) * scale)
            parts.append(_rect(label + span.start * scale, y + shift, wide, tall, span.kind, span.title))
    return _svg(height, title, parts)


def estimates(found: Sequence[EstimateAndOutcome], *, title: str) -> str:
    """Each plan's interval, its expected duration, and the real one."""
    if not found:
        return ""
    end = max(max(one.high, one.real or 0.0) for one in found) or 1.0
    row, label = 30, 260
    height = row * len(found) + _TOP + _BOTTOM
    scale = (WIDTH - label - _RIGHT) / end
    parts: list[str] = []
    for at, tick in enumerate(_time_ticks(end)):
        parts.append(_text(label + tick * scale, height - 12, duration(tick), "middle" if at else "start"))
    for at, one in enumerate(found):
        y = _TOP + row * at
        parts.append(_text(label - 8, y + 12, one.label[-42:], "end"))
        told = f"planned {duration(one.low)} to {duration(one.high)}"
        parts.append(_rect(label + one.low * scale, y + 3, max(1.0, (one.high - one.low) * scale), 12, "planned", told))
        parts.append(_rect(label + one.expected * scale - 1, y, 2, 18, "before", f"expected {duration(one.expected)}"))
        if one.real is not None:
            parts.append(_rect(label + one.real * scale - 1.5, y - 2, 3, 22, "after", f"took {duration(one.real)}"))
    return _svg(height, title, parts)


def amount(value: float, unit: str) -> str:
    """A figure with its unit, bytes in powers of ten."""
    if not unit.startswith("bytes"):
        return f"{value:,.4g} {unit}".strip()
    power = _power(value)
    return f"{value / 1000**power:,.4g} {_SIZES[power]}{unit.removeprefix('bytes')}"


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7_200:
        return f"{seconds / 60:.3g} min"
    if seconds < 172_800:
        return f"{seconds / 3_600:.3g} h"
    return f"{seconds / 86_400:.3g} d"


def _power(value: float) -> int:
    return min(len(_SIZES) - 1, int(math.log(abs(value), 1000))) if abs(value) >= 1 else 0


def _sums(found: Sequence[tuple[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name, size in found:
        sums[name] = sums.get(name, 0.0) + size
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def _stack(sizes: dict[str, float], scale: float, gap: float) -> dict[str, float]:
    """Where each broker's bar begins; thin bars keep the distance that their names need."""
    places: dict[str, float] = {}
    y = 20.0
    for name, size in sizes.items():
        places[name] = y
        y += max(size * scale + gap, _LINE)
    return places


def _ticks(end: float) -> list[float]:
    rough = end / 6
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next((factor * power for factor in (1, 2, 5) if factor * power >= rough), 10 * power)
    return [step * at for at in range(int(end / step) + 1)]


def _time_ticks(end: float) -> list[float]:
    """Ticks at round times: 30 s, 5 min, 6 h."""
    if end < 60:
        return _ticks(end)
    steps = [*(60.0 * part for part in (0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)), 86_400.0]
    step = next((step for step in steps if step * 7 >= end), 86_400.0 * math.ceil(end / (7 * 86_400.0)))
    return [step * at for at in range(int(end / step) + 1)]


def _value_axis(top: float, deep: float, unit: str) -> list[str]:
    parts: list[str] = []
    # Round numbers of the unit that is shown: 200 GB, not 186.3.
    scale = 1000 ** _power(top) if unit.startswith("bytes") else 1
    for tick in (mark * scale for mark in _ticks(top / scale)):
        y = _TOP + deep - deep * tick / top
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(_LEFT - 6, y + 4, amount(tick, unit), "end"))
    return parts


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    name = escape(title, quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{name}"><title>{name}</title>{"".join(parts)}</svg>'


def _rect(x: float, y: float, wide: float, tall: float, kind: str, title: str) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{max(0.0, tall):.1f}"><title>{escape(title)}</title></rect>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _ribbon(x1: float, x2: float, y1: float, y2: float, wide: float, title: str) -> str:
    middle = (x1 + x2) / 2
    path = f"M{x1:.1f},{y1:.1f} C{middle:.1f},{y1:.1f} {middle:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"
    return f'<path class="flow" d="{path}" stroke-width="{wide:.1f}"><title>{escape(title)}</title></path>'
