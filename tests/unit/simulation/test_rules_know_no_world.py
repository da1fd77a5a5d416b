"""Rules see a world only through the protocols of `observed`, which show at a glance what a rule reads of it."""

import ast
from pathlib import Path

import pytest

from lab import simulation

FOLDER = Path(simulation.__file__).parent
EXECUTORS = ("executor.rules", "executor.journal_rules", "executor.ledger", "executor.observed")
RULES = (
    *sorted(
        f"rules.{path.stem}"
        for path in (FOLDER / "rules").glob("*.py")
        if path.stem not in {"__init__", "convergence", "truth"}
    ),
    *EXECUTORS,
)


def imported(module):
    """Modules of this room that a module imports, also those only for types."""
    path = FOLDER / f"{module.replace('.', '/')}.py"
    path = path if path.exists() else path.with_suffix("") / "__init__.py"
    nodes = ast.walk(ast.parse(path.read_text()))
    names = (node.module or "" for node in nodes if isinstance(node, ast.ImportFrom))
    return {name.removeprefix("lab.simulation.") for name in names if name.startswith("lab.simulation.")}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_knows_no_world(rule):
    found, left = set(), [rule]
    while left:
        for name in imported(left.pop()) - found:
            found.add(name)
            left.append(name)
    assert found.isdisjoint(("world", "executor.world"))


def test_there_are_rules():
    assert len(RULES) >= 11
