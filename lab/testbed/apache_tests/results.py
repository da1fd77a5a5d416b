"""The results of a run of test classes, read from JUnit's own reports."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

VARIANT = re.compile(r"display-name: (?P<name>.*)")
FEED = re.compile(
    r"^JUnit Jupiter > (?P<name>[^>]*) > (?P<method>\w+)\((?P<types>[^)]*)\)(?: > (?P<variant>.*))? :: (?P<end>[A-Z]+)$"
)
_KRAFT = "quorum=kraft"
METHOD = re.compile(r"unique-id: .*\[(?:method|test-template):(?P<method>[^]]*)\]")


class CaseOutcome(Enum):
    """How one test ended."""

    PASSED = "passed"
    FAILED = "failed"
    LEFT_OUT = "left out"
    """A KRaft variant, or a test that its own assumptions exclude."""


class Result(NamedTuple):
    """One test's end. `told` is the first line of its failure; `method` is its name for JUnit's selection, if known."""

    verdict: CaseOutcome
    told: str = ""
    method: str = ""


def read_reports(folder: Path) -> dict[str, Result]:
    """Read the reports of one class: results by test, as `Class.method [variant]`.

    Raises:
        FileNotFoundError: The run left no report: it ended before its first test, or was killed.
    """
    results: dict[str, Result] = {}
    for report in sorted(folder.glob("TEST-*.xml")):
        for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - JUnit wrote it a moment ago
            name = _name(case)
            results[name] = counted(name, _result(case))
    if not results:
        raise FileNotFoundError(f"{folder} has no report of a test")
    return results


def counted(name: str, result: Result) -> Result:
    """The result that counts. A KRaft variant is aborted at its start, and may then fail in its clean-up."""
    if _KRAFT in name and result.verdict is CaseOutcome.FAILED:
        return Result(CaseOutcome.LEFT_OUT, method=result.method)
    return result


def _name(case: ET.Element) -> str:
    method = case.get("name", "").split("(")[0]
    output = "".join(element.text or "" for element in case.iter("system-out"))
    found = VARIANT.search(output)
    return _named(case.get("classname", "").rpartition(".")[2], method, found["name"] if found else "")


def _named(short: str, method: str, variant: str) -> str:
    # In a class with `@ClusterTest` the variant begins with the method's name.
    variant = variant.strip().removeprefix(method).removeprefix("()").strip()
    return f"{short}.{method}" + (f" {variant}" if variant else "")


def _result(case: ET.Element) -> Result:
    named = METHOD.search("".join(element.text or "" for element in case.iter("system-out")))
    method = named["method"].removesuffix("()") if named else ""
    if case.find("skipped") is not None:
        return Result(CaseOutcome.LEFT_OUT, method=method)
    for kind in ("failure", "error"):
        failed = case.find(kind)
        if failed is not None:
            lines = (failed.get("message") or failed.text or failed.get("type") or "").strip().splitlines()
            return Result(CaseOutcome.FAILED, lines[0] if lines else kind, method)
    return Result(CaseOutcome.PASSED, method=method)


def read_feed(console: Path) -> dict[str, Result]:
    """Read what JUnit printed while it ran. A class that was ended before its last test has no report."""
    results: dict[str, Result] = {}
    lines = console.read_text(errors="replace").splitlines()
    for line, after in itertools.zip_longest(lines, lines[1:], fillvalue=""):
        told = FEED.match(line)
        verdict = _ENDS.get(told["end"]) if told else None
        if told is None or verdict is None:
            continue
        # Types are printed without their packages, so a method with other types than String can't be selected.
        method = told["method"] + {"": "", "String": "(java.lang.String)"}.get(told["types"], "?")
        why = after.strip().partition(": ")[2] if verdict is CaseOutcome.FAILED else ""
        name = _named(told["name"], told["method"], told["variant"] or "")
        results[name] = counted(name, Result(verdict, why, "" if "?" in method else method))
    return results


_ENDS = {"SUCCESSFUL": CaseOutcome.PASSED, "FAILED": CaseOutcome.FAILED, "ABORTED": CaseOutcome.LEFT_OUT}


def failed_methods(results: Iterable[Mapping[str, Result]]) -> list[str] | None:
    """Methods that failed in any of these runs of a class, sorted; None if the name of a failed method is not known."""
    failed = {result.method for run in results for result in run.values() if result.verdict is CaseOutcome.FAILED}
    return None if "" in failed else sorted(failed)


def differences(apache: Mapping[str, Result], shunter: Mapping[str, Result]) -> dict[str, Result]:
    """Tests that pass with Apache's controller and fail with Shunter's, with their results there."""
    return {
        name: shunter.get(name, Result(CaseOutcome.FAILED, "it did not run"))
        for name, result in sorted(apache.items())
        if result.verdict is CaseOutcome.PASSED
        and shunter.get(name, Result(CaseOutcome.FAILED)).verdict is CaseOutcome.FAILED
    }
