"""The page of differences, docs/apache-tests.md, and the results that it is made from."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from lab.testbed.apache_tests.results import CaseOutcome, Result, counted, differences
from lab.testbed.apache_tests.run import JudgedController

REASONS = Path(__file__).with_name("reasons.toml")
PARTLY = "partly"
NOT_LOOKED_INTO = "not looked into (open)"
HEAD = """# Apache's own tests, with Shunter as the controller

Written by `./test --apache [CLASS…]`. Each class of Apache's integration tests (Kafka 3.9.1) runs on real brokers,
once with Apache's controller, once with Shunter's, which leads before the first broker starts. Classes that move
partitions run once more with `strategy=all-at-once`. KRaft's variants are left out. A test that passes with Apache's
controller has to pass with Shunter's, or its line below says why not.

The lines have the results with Shunter's controller. Where Apache's figures are missing, or count fewer tests, only
tests that failed with Shunter's controller ran with Apache's.

"""

Outcome = Mapping[JudgedController, Mapping[str, Result]]


class Former(NamedTuple):
    """Lines of the former page by class name: one for each class, and those of tests that differ."""

    classes: Mapping[str, str]
    tests: Mapping[str, list[str]]


NOTHING = Former({}, {})
_OF_A_CLASS = re.compile(r"- `(?P<name>[\w.]+)`( \(some of its tests\))?: ")
_OF_TESTS = re.compile(r"- `(?P<name>[\w.]+)`: ")


def former(document: str) -> Former:
    """Read the former page. Classes whose results are kept on another machine keep their lines."""
    classes, _, tests = document.partition("## Differences")
    by_class: dict[str, list[str]] = {}
    for line in tests.splitlines():
        if found := _OF_TESTS.match(line):
            by_class.setdefault(found["name"], []).append(line)
    lines = ((_OF_A_CLASS.match(line), line) for line in classes.splitlines())
    return Former({found["name"]: line for found, line in lines if found}, by_class)


def reasons(judged: JudgedController = JudgedController.SHUNTER) -> dict[str, str]:
    """The reasons why tests differ, by name. Those about moves by steps do not count for the strategy all at once."""
    read: dict[str, dict[str, str]] = tomllib.loads(REASONS.read_text())
    return {**read["reasons"], **(read["by-steps"] if judged is JudgedController.SHUNTER else {})}


def unexplained(outcome: Outcome) -> dict[str, Result]:
    """Differences of one class that have no reason in `reasons.toml`."""
    return {
        f"{test} ({judged.value})": result
        for judged in _ours(outcome)
        for test, result in differences(outcome.get(JudgedController.APACHE, {}), outcome[judged]).items()
        if test not in reasons(judged)
    }


def _ours(outcome: Outcome) -> list[JudgedController]:
    return [judged for judged in (JudgedController.SHUNTER, JudgedController.AT_ONCE) if judged in outcome]


def page(
    outcomes: Mapping[str, Outcome],
    chosen: Iterable[str] = (),
    partly: Collection[str] = frozenset(),
    before: Former = NOTHING,
) -> str:
    """The page for the outcomes by class. It names chosen classes without an outcome, and classes that ran in part."""
    told: list[str] = []
    for name in sorted(outcomes.keys() | before.classes.keys()):
        told += _reasons_of(outcomes[name], name) if name in outcomes else before.tests.get(name, [])
    waiting = [f"- `{name}`" for name in sorted(set(chosen) - outcomes.keys() - before.classes.keys())]
    not_run = ["", "## Not run yet", "", "These are in the standing list, and nobody has run them:", ""]
    ending = [*not_run, *waiting] if waiting else []
    lines = [*_classes(outcomes, partly, before), "", "## Differences", "", *(told or ["None."]), *ending, ""]
    return HEAD + "\n".join(lines)


def _reasons_of(outcome: Outcome, name: str) -> list[str]:
    """One line for each reason why tests of a class differ. A difference without a reason says how the test ended."""
    short = name.rpartition(".")[2]
    tests: dict[str, set[str]] = {}
    for judged in _ours(outcome):
        known = reasons(judged)
        for test, result in _differing(outcome, judged).items():
            why = known.get(test, f"{NOT_LOOKED_INTO}: {result.told[:200]}")
            tests.setdefault(why, set()).add(test.removeprefix(f"{short}.").partition(" ")[0])
    by_test = sorted((sorted(names), why) for why, names in tests.items())
    return [f"- `{name}`: {', '.join(f'`{test}`' for test in names)}: {why}" for names, why in by_test]


def _classes(outcomes: Mapping[str, Outcome], partly: Collection[str], before: Former) -> list[str]:
    """One line for each class: how its tests ended with each controller, and how many differ."""
    lines = dict(before.classes)
    for name, outcome in outcomes.items():
        apache = outcome.get(JudgedController.APACHE)
        told = [_told(outcome, JudgedController.SHUNTER)]
        told += [f"all at once: {_told(outcome, judged)}" for judged in _ours(outcome)[1:]]
        told += [] if apache is None else [f"Apache's: {_counted(apache)}"]
        lines[name] = f"- `{name}`{' (some of its tests)' if name in partly else ''}: {'; '.join(told)}"
    return [line for _, line in sorted(lines.items())]


def _told(outcome: Outcome, judged: JudgedController) -> str:
    """How the tests ended with one of Shunter's strategies: `9 passed, 4 failed, 3 differ`."""
    differing = len(_differing(outcome, judged))
    return _counted(outcome[judged]) + (f", {differing} differ" if differing else "")


def _differing(outcome: Outcome, judged: JudgedController) -> dict[str, Result]:
    """Differences from Apache's controller. If its side was not run, each failed test counts as one."""
    results = outcome[judged]
    expected = dict.fromkeys(results, Result(CaseOutcome.PASSED))
    return differences(outcome.get(JudgedController.APACHE, expected), results)


def _counted(results: Mapping[str, Result]) -> str:
    passed = sum(result.verdict is CaseOutcome.PASSED for result in results.values())
    failed = sum(result.verdict is CaseOutcome.FAILED for result in results.values())
    return f"{passed} passed" + (f", {failed} failed" if failed else "")


def store(folder: Path, name: str, outcome: Outcome, *, partly: bool = False) -> None:
    """Store a class's results, so that a page can be made from several runs; `partly`: only some of its tests ran."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        judged.value: {test: [result.verdict.value, result.told] for test, result in results.items()}
        for judged, results in outcome.items()
    }
    (folder / f"{name}.json").write_text(json.dumps({**document, PARTLY: partly}, indent=1, sort_keys=True))


def partly_run(folder: Path) -> frozenset[str]:
    """Classes of which only some tests were run."""
    return frozenset(path.stem for path in folder.glob("*.json") if json.loads(path.read_text()).get(PARTLY))


def stored(folder: Path) -> dict[str, Outcome]:
    """Stored results by class; classes that were not run with Shunter's controller are left out."""
    outcomes: dict[str, Outcome] = {}
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text())
        outcome = {
            controller: {
                test: counted(test, Result(CaseOutcome(verdict), told))
                for test, (verdict, told) in document[controller.value].items()
            }
            for controller in JudgedController
            if controller.value in document
        }
        if JudgedController.SHUNTER in outcome:
            outcomes[path.stem] = outcome
    return outcomes
