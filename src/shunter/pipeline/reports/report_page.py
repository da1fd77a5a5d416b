"""The report as one HTML file: no script, no font, no picture from anywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple

from shunter.pipeline.reports.plots import (
    BrokerBar,
    EstimateAndOutcome,
    FlowArrow,
    Lane,
    bars,
    estimates,
    flows,
    timeline,
)

UNITS = {
    "disk": "bytes",
    "bytes in": "bytes/s",
    "bytes out": "bytes/s",
    "replicas": "",
    "leaders": "",
    "leaders' bytes in": "bytes/s",
    "processors": "average brokers",
}
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --line: #d0d7de; --before: #9aa4b0; --after: #1f6feb;
  --stall: #d1242f; --planned: #d8c4f0; --flow: #1f6feb; --wait: #d0d7de; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --line: #30363d; --before: #6e7681;
  --after: #58a6ff; --stall: #ff7b72; --planned: #4b3a6b; --flow: #58a6ff; --wait: #30363d; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; } h3 { font-size: 1rem; }
svg { width: 100%; height: auto; font: 11px system-ui, sans-serif; } svg text { fill: var(--ink); }
.before { fill: var(--before); } .after, .step { fill: var(--after); } .stall { fill: var(--stall); }
.planned { fill: var(--planned); } .wait { fill: var(--wait); } .grid { stroke: var(--line); } .mean { stroke: var(--ink); stroke-dasharray: 4 4; }
.flow { fill: none; stroke: var(--flow); opacity: .35; } .flow:hover { opacity: .8; }
table { border-collapse: collapse; width: 100%; font-size: .9em; } th, td { text-align: left; padding: .25rem .6rem .25rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top; } .number { text-align: right; font-variant-numeric: tabular-nums; }
.key span { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; } dd { margin: 0; }
"""


class Listing(NamedTuple):
    """A table for people; `more` rows are not shown. A number column is aligned to the right."""

    title: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int = 0


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything that a report shows, gathered."""

    title: str
    facts: tuple[tuple[str, str], ...]
    loads: tuple[tuple[str, tuple[BrokerBar, ...]], ...] = ()
    """(resource, brokers)."""
    flows: tuple[FlowArrow, ...] = ()
    flows_left_out: int = 0
    lanes: tuple[Lane, ...] = ()
    lanes_left_out: int = 0
    estimates: tuple[EstimateAndOutcome, ...] = ()
    listings: tuple[Listing, ...] = field(default_factory=tuple)


def page(data: ReportData) -> str:
    """Write the report."""
    body = [f"<h1>{escape(data.title)}</h1>", _facts(data.facts)]
    if data.loads:
        body.append("<h2>Load per broker, before and after</h2>" + _key(("before", "before"), ("after", "after")))
        for resource, brokers in data.loads:
            unit = UNITS.get(resource, "")
            body.append(
                f"<h3>{escape(resource)}</h3>"
                + bars(brokers, unit=unit, title=f"{resource} per broker, before and after")
            )
    if data.flows:
        body.append("<h2>Moves as flows</h2>" + flows(data.flows, title="bytes that move between brokers"))
        body.append(_left_out(data.flows_left_out, "smaller flows"))
    if data.lanes:
        kinds = (
            ("planned", "planned"),
            ("wait", "waiting for its turn"),
            ("step", "a step under way"),
            ("stall", "standing still: paused, or a step dropped"),
        )
        body.append(
            "<h2>Timeline of moves</h2>" + _key(*kinds) + timeline(data.lanes, title="moves over time, with stalls")
        )
        body.append(_left_out(data.lanes_left_out, "shorter moves"))
    if data.estimates:
        marks = (("planned", "interval that was planned"), ("before", "expected"), ("after", "what it took"))
        body.append(
            "<h2>Planned against real duration</h2>"
            + _key(*marks)
            + estimates(data.estimates, title="planned and real duration")
        )
    body += [_listing(listing) for listing in data.listings]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(data.title)}</title><style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts) + "</dl>"


def _key(*entries: tuple[str, str]) -> str:
    marks = (f'<span style="background: var(--{_COLOUR[kind]})"></span>{escape(words)}' for kind, words in entries)
    return f'<p class="key">{"".join(marks)}</p>'


_COLOUR = {
    "before": "before",
    "after": "after",
    "step": "after",
    "stall": "stall",
    "planned": "planned",
    "wait": "wait",
}


def _left_out(count: int, what: str) -> str:
    return f"<p>{count:,} {what} are not drawn; the tables have them all.</p>" if count else ""


def _listing(listing: Listing) -> str:
    if not listing.rows:
        return ""
    columns = tuple(zip(*listing.rows, strict=True))
    numbers = [any(column) and all(map(_is_figure, column)) for column in columns]
    head = "".join(_cell(name, "th", number=number) for name, number in zip(listing.names, numbers, strict=True))
    lines = "".join(
        "<tr>"
        + "".join(_cell(value, "td", number=number) for value, number in zip(row, numbers, strict=True))
        + "</tr>"
        for row in listing.rows
    )
    return f"<h2>{escape(listing.title)}</h2><table><tr>{head}</tr>{lines}</table>{_left_out(listing.more, 'rows')}"


def _is_figure(value: str) -> bool:
    """A number, with a unit at the most."""
    return not value or (value[0].isdigit() and len(value.split()) <= 2)


def _cell(value: str, tag: str, *, number: bool) -> str:
    return f'<{tag} class="number">{escape(value)}</{tag}>' if number else f"<{tag}>{escape(value)}</{tag}>"
