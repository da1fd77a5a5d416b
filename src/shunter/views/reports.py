"""The pipeline's lake about one cluster: the load model in a few figures, and tables to look at.

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
    """Rows of the model: one for each replica and role."""
    with_rates: int
    """Rows that have rates; for the others only sizes are known."""
    rates_until_ms: int | None
    """Start of the newest window with a rate."""
    coverage: float | None
    """The mean coverage of the rows with rates: the share of their time for which there is a rate."""
    confidence: float
    """The mean confidence of all rows."""


@dataclass(frozen=True, slots=True)
class ReportGist:
    """One table of the pipeline."""

    name: str
    title: str
    told: str
    """What the table shows, and the command that writes it."""
    rows: int
    """0: the table was not written yet, or is empty."""
    bytes: int
    written_ms: int | None
    """When its newest file was written; None: there is none."""
    trouble: str = ""
    """Why the table can't be read; "": it can."""


@dataclass(frozen=True, slots=True)
class ReportsView:
    """The reports of a cluster. `why`: why there are none at all; "": there may be some."""

    why: str = ""
    model: ModelGist | None = None
    model_trouble: str = ""
    """Why the model can't be read; "": it can, or there is no model."""
    unused: str = ""
    """Why plans do not use the model; "": it does, or there is no model."""
    reports: tuple[ReportGist, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """One column. `unit`: as the table's documentation has it, such as `bytes` or `bytes/s`; "" if there is none."""

    name: str
    unit: str
    told: str


@dataclass(frozen=True, slots=True)
class ReportPage:
    """Some rows of a report, in the report's own order."""

    columns: tuple[ReportColumn, ...]
    found: int
    """How many rows the search found; `rows` begin at `offset` of these."""
    offset: int
    rows: tuple[tuple[Cell, ...], ...]
    next: str | None = None
    """The query of the next page; null: this is the last one."""
