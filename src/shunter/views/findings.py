"""Findings of `shunter doctor` and `shunter controller --check`, as lines for people and as values for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shunter.model.check_up import Finding, Level

_MARKS = {Level.FINE: "ok", Level.NOTE: "note", Level.WARNING: "warning", Level.PROBLEM: "PROBLEM"}


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """One line for each finding, and one for each advice."""
    for finding in findings:
        yield f"{_MARKS[finding.level]:<8} {finding.check}: {finding.text}"
        if finding.advice:
            yield f"{'':<8}   → {finding.advice}"


def finding_values(finding: Finding) -> dict[str, str]:
    """A finding's fields as JSON has them."""
    return {"level": finding.level.value, "check": finding.check, "text": finding.text, "advice": finding.advice}
