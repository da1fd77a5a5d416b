"""The page of differences, docs/apache-tests.md, and the results that it is made from."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

from shunter.testbed.apache_tests.results import Result, Verdict, differences
from shunter.testbed.apache_tests.run import Judged

REASONS = Path(__file__).with_name("reasons.toml")
HEAD = """# Apache's own tests, with Shunter as the controller

Written by `./test --apache [CLASS…]`. Each class of Apache's integration tests (Kafka 3.9.1) runs twice on real brokers:
once with Apache's controller, once with Shunter's, which leads before the first broker starts. KRaft's variants are left
out. A test that passes with Apache's controller has to pass with Shunter's, or its line below says why not.

"""

Outcome = Mapping[Judged, Mapping[str, Result]]


def reasons() -> dict[str, str]:
    """Why a test differs, by its name."""
    read: dict[str, str] = tomllib.loads(REASONS.read_text())["reasons"]
    return read


def page(outcomes: Mapping[str, Outcome]) -> str:
    """The page for the outcomes by class."""
    lines = ["| class | with Apache's controller | with Shunter's | differ |", "| --- | --- | --- | --- |"]
    told: list[str] = []
    known = reasons()
    for name, outcome in sorted(outcomes.items()):
        apache, shunter = outcome[Judged.APACHE], outcome[Judged.SHUNTER]
        differ = differences(apache, shunter)
        lines.append(f"| `{name}` | {_counted(apache)} | {_counted(shunter)} | {len(differ)} |")
        for test, result in differ.items():
            why = known.get(test, "not looked into (open)")
            told.append(f"| `{test}` | {_cell(result.told)} | {why} |")
    table = ["| test | how it ends with Shunter's controller | why |", "| --- | --- | --- |", *told] if told else []
    return HEAD + "\n".join([*lines, "", "## Differences", "", *(table or ["None."]), ""])


def _counted(results: Mapping[str, Result]) -> str:
    passed = sum(result.verdict is Verdict.PASSED for result in results.values())
    failed = sum(result.verdict is Verdict.FAILED for result in results.values())
    return f"{passed} passed" + (f", {failed} failed" if failed else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")[:200]


def store(folder: Path, name: str, outcome: Outcome) -> None:
    """Keep a class' results, so that the page can be made from several runs."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        judged.value: {test: [result.verdict.value, result.told] for test, result in results.items()}
        for judged, results in outcome.items()
    }
    (folder / f"{name}.json").write_text(json.dumps(document, indent=1, sort_keys=True))


def stored(folder: Path) -> dict[str, Outcome]:
    """What `store` kept, by class; classes of which one controller's run is missing are left out."""
    outcomes: dict[str, Outcome] = {}
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text())
        outcome = {
            judged: {test: Result(Verdict(verdict), told) for test, (verdict, told) in document[judged.value].items()}
            for judged in Judged
            if judged.value in document
        }
        if len(outcome) == len(Judged):
            outcomes[path.stem] = outcome
    return outcomes
