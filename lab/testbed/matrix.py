"""`./test --matrix`: tests against each version of Kafka, Python and PySpark, and the outcome as tables in docs/versions.md.

The tables are the only store: a cell that is filled is not run again unless its version is named. So a run that was
ended goes on where it stood.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "versions.md"
NOT_RUN, PASSED, FAILED, LACKS = "not run", "passed", "FAILED", "n/a"
RUN_AT = "run at"
CELL_WITHIN_S = 1_200.0
NO_PYTHON = 3
"""The exit status of `scripts/version-venv` if a version of Python is not there."""
_QUICK = "not long and not spark and not browser and not real"
_REST = ("admin", "app", "cli", "formats", "model", "pipeline", "simulation", "views", "web", "wire")


class Feature(NamedTuple):
    """A row of a table: what is tested, and by which of the real tests."""

    name: str
    tests: tuple[str, ...]
    """Files and folders under `tests`, as patterns."""
    only: str = ""
    """An expression for pytest's `-k`; "": all of them."""
    marks: str = ""
    """An expression for pytest's `-m`; "": no long tests, but for those that `only` names."""


class VersionTable(NamedTuple):
    """A table of the page: how a version is chosen, its columns, and its rows."""

    title: str
    variable: str
    """The environment's variable that names Kafka's version, or the kind of `scripts/version-venv`."""
    versions: tuple[str, ...]
    features: tuple[Feature, ...]


TABLES = (
    VersionTable(
        "KRaft",
        "SHUNTER_TEST_KRAFT_VERSION",
        ("3.9.2", "4.0.2", "4.1.2", "4.2.2", "4.3.1", "4.4.0"),
        (
            Feature("executor", ("real/test_executor_kraft.py",), "runs_to_its_end or undone or controller_dies"),
            Feature(
                "rollback and stop in the middle",
                ("real/test_newest_kafka.py",),
                "copy_under_way or another_tool or min_insync",
            ),
            Feature("throttles", ("real/test_executor_kraft.py",), "pause_of_one_move or throttles_that_a_dead"),
            Feature(
                "claims", ("real/test_executor_kraft.py", "real/test_claim_kraft.py"), "one_executor or topic_of_groups"
            ),
            Feature("journal in a topic", ("real/test_journal_topic.py",)),
            Feature("log dirs", ("real/test_log_dir_copies.py",), "bounds or another_tools"),
            Feature("elections", ("real/test_elections_kraft.py",)),
            Feature("cordoned and fenced brokers, releases", ("real/test_cordoned_and_fenced.py",)),
        ),
    ),
    VersionTable(
        "ZooKeeper mode",
        "SHUNTER_TEST_ZOOKEEPER_MODE_VERSION",
        ("2.8.2", "3.0.2", "3.4.1", "3.6.2", "3.9.2"),
        (
            Feature(
                "controller", ("real/test_controller_tools.py",), "topic_command or reassign_partitions or log_dirs"
            ),
            Feature(
                "drop-ins", ("real/test_reassign_tools.py",), "changes_nothing or whole_reassignment or kips_flags"
            ),
            Feature("executor", ("real/test_executor_zookeeper.py",), "runs_to_its_end or undone"),
        ),
    ),
    VersionTable(
        "Python",
        "python",
        ("3.11", "3.12", "3.13", "3.14"),
        (
            Feature("the executor's decisions", ("unit/core/executor",), marks=_QUICK),
            Feature("the controller's decisions", ("unit/core/controller", "kip"), marks=_QUICK),
            Feature(
                "planning and keeping", ("unit/core/planning", "unit/core/keeper", "unit/core/test_*.py"), marks=_QUICK
            ),
            Feature("drivers and testbed", ("unit/drivers", "unit/testbed"), marks=_QUICK),
            Feature("all other rooms", tuple(f"unit/{room}" for room in _REST), marks=_QUICK),
            Feature("executor", ("real/test_executor_kraft.py", "real/test_elections_kraft.py"), "undone or election"),
        ),
    ),
    VersionTable(
        "PySpark",
        "pyspark",
        ("4.1.4", "4.2.1", "4.3.0"),
        (
            Feature("stages", ("spark/test_spark_stages.py", "spark/test_spark_load_model.py"), marks="spark"),
            Feature("properties, compared with plain Python", ("spark/test_spark_exactness.py",), "small_case"),
            Feature("plans, compared with plain Python", ("spark/test_spark_exact_plans.py",), marks="spark"),
            Feature("reports' figures", ("spark/test_spark_figures.py",), marks="spark"),
        ),
    ),
)


def _python(kind: str, version: str) -> str | None:
    """A Python with these packages, made if it is not there; None: there is none on this machine."""
    made = subprocess.run(
        [ROOT / "scripts" / "version-venv", kind, version], stdout=subprocess.PIPE, text=True, check=False
    )
    return None if made.returncode == NO_PYTHON else made.stdout.strip()


def read(table: VersionTable, page: str) -> dict[tuple[str, str], str]:
    """The filled cells of a table, by row and version."""
    found: dict[tuple[str, str], str] = {}
    for row in (*(feature.name for feature in table.features), RUN_AT):
        line = re.search(rf"^\| {re.escape(row)} \|(.*)\|$", _part(table, page), re.MULTILINE)
        cells = [cell.strip() for cell in line.group(1).split("|")] if line else []
        if len(cells) == len(table.versions):
            found |= {(row, version): cell for version, cell in zip(table.versions, cells, strict=True)}
    return {key: cell for key, cell in found.items() if cell not in ("", NOT_RUN)}


def written(table: VersionTable, page: str, cells: dict[tuple[str, str], str]) -> str:
    """The page with a table that has these cells."""
    rows = (*(feature.name for feature in table.features), RUN_AT)
    lines = [f"| {table.title} | {' | '.join(table.versions)} |", f"| --- |{' --- |' * len(table.versions)}"]
    lines += [f"| {row} | {' | '.join(cells.get((row, each), NOT_RUN) for each in table.versions)} |" for row in rows]
    return page.replace(_part(table, page), "\n".join(lines) + "\n")


def _part(table: VersionTable, page: str) -> str:
    """The table's lines in the page."""
    found = re.search(rf"^\| {re.escape(table.title)} \|(?:.*\n)(?:\|.*\n)+", page, re.MULTILINE)
    if found is None:
        raise SystemExit(f"{PAGE}: there is no table {table.title!r}")
    return found.group(0)


def run_cell(table: VersionTable, feature: Feature, version: str) -> str:
    """Run a feature's tests against a version; what came of it."""
    python = sys.executable if table.variable.isupper() else _python(table.variable, version)
    if python is None:
        return NOT_RUN
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=600", "-m"]
    command += [feature.marks or ("long or not long" if feature.only else "not long")]
    command += [str(path) for each in feature.tests for path in sorted((ROOT / "tests").glob(each))]
    command += ["-k", feature.only] if feature.only else []
    path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    environment = os.environ | {table.variable: version, "SHUNTER_TEST_PATIENCE": "5", "PYTHONPATH": path}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, timeout=CELL_WITHIN_S, check=False)
    except subprocess.TimeoutExpired:
        return FAILED
    no_tests = 5
    return PASSED if done.returncode == 0 else LACKS if done.returncode == no_tests else FAILED


def main(arguments: Sequence[str]) -> int:
    """Run the cells that are not filled, or those of the named versions; the exit status."""
    parser = argparse.ArgumentParser(prog="./test --matrix", description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="run these again (default: what was not run)")
    parser.add_argument("--feature", action="append", help="only this row; may be given several times")
    asked = parser.parse_args(arguments)
    known = {version for table in TABLES for version in table.versions}
    if unknown := sorted(set(asked.versions) - known):
        parser.error(f"{', '.join(unknown)}: no such column; there are {', '.join(sorted(known))}")
    outcomes: list[str] = []
    for table in TABLES:
        for version in (each for each in table.versions if not asked.versions or each in asked.versions):
            for feature in table.features:
                if asked.feature and feature.name not in asked.feature:
                    continue
                if (feature.name, version) in read(table, PAGE.read_text()) and not asked.versions:
                    continue
                outcome = run_cell(table, feature, version)
                if outcome == NOT_RUN:
                    continue
                outcomes.append(outcome)
                page = PAGE.read_text()
                cells = read(table, page) | {(feature.name, version): outcome, (RUN_AT, version): now()}
                PAGE.write_text(written(table, page, cells))
                sys.stderr.write(f"{table.title} {version}, {feature.name}: {outcome}\n")
    return int(FAILED in outcomes)


def now() -> str:
    """The date and the commit."""
    git = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return f"{dt.datetime.now(dt.UTC):%Y-%m-%d} {git.stdout.strip()}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
