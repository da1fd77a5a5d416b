"""What the pipeline's lake says of one cluster: its load model in a few figures, and tables to be looked at.

Times are milliseconds since 1970 UTC, sizes bytes, shares 0 to 1. None means that it is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

Cell = str | int | float | bool | None
"""A value of a table. Moments and days are texts, as 2026-11-23T04:05:00Z and 2026-11-23."""


@dataclass(frozen=True, slots=True)
class ModelGist:
    """The newest load model, summed up."""

    written_ms: int
    """When `shunter pipeline model` wrote it."""
    replicas: int
    """Its rows: one for each replica and role."""
    with_rates: int
    """Rows that have rates; of the others sizes alone are known."""
    rates_until_ms: int | None
    """Start of the newest window with a rate."""
    coverage: float | None
    """The share of their time for which rows with rates have one: the mean."""
    confidence: float
    """The mean of all rows."""


@dataclass(frozen=True, slots=True)
class ReportGist:
    """One table of the lake."""

    name: str
    title: str
    told: str
    """What it tells, and the command that writes it."""
    rows: int
    """0: nobody has made it yet, or it has nothing to say."""
    bytes: int
    written_ms: int | None
    """When its newest file was written; None: there is none."""
    trouble: str = ""
    """Why it can't be read; "": it can."""


@dataclass(frozen=True, slots=True)
class ReportsView:
    """What there is of a cluster. `why`: why there is nothing at all; "": there may be something."""

    why: str = ""
    model: ModelGist | None = None
    model_trouble: str = ""
    """Why the model can't be read; "": it can, or there is none."""
    unused: str = ""
    """Why the keeper does not use the model; "": it does, or there is none."""
    reports: tuple[ReportGist, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """One column. `unit`: as the table's documentation has it, such as `bytes` or `bytes/s`; "" where there is none."""

    name: str
    unit: str
    told: str


@dataclass(frozen=True, slots=True)
class ReportPage:
    """Some rows of a report, in the order in which one wants to read it."""

    columns: tuple[ReportColumn, ...]
    found: int
    """How many rows were searched for; `rows` begin at `offset` of these."""
    offset: int
    rows: tuple[tuple[Cell, ...], ...]
