"""docs/kip-sentences.md names tests and decision records that exist, and no test of a quoted sentence is forgotten."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "kip-sentences.md"
HERE = Path(__file__).parent


def docstrings_of(path):
    found = ast.walk(ast.parse(path.read_text()))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name: ast.get_docstring(node) or "" for node in found if isinstance(node, functions)}


def test_every_test_and_record_that_is_named_exists():
    text = PAGE.read_text()
    known = {
        name
        for path in (
            *HERE.glob("test_*.py"),
            *(ROOT / "tests").glob("real/*.py"),
            *(ROOT / "tests").glob("unit/**/*.py"),
        )
        for name in docstrings_of(path)
    }
    assert set(re.findall(r"`(test_\w+)`", text)) - known == set()
    for record in re.findall(r"\((decisions/[\w.-]+)\)", text):
        assert (ROOT / "docs" / record).exists(), record


def test_every_test_that_quotes_a_sentence_is_named():
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text()))
    quoting = {
        name
        for pattern in ("test_kip236_*.py", "test_controller_redesign.py", "test_max_broker_epochs.py")
        for path in HERE.glob(pattern)
        for name, doc in docstrings_of(path).items()
        if name.startswith("test_") and doc.startswith(("'", '"'))
    }
    missing = quoting - named
    assert missing <= {
        "test_an_extra_that_is_refused_is_told_and_does_not_stay",
        "test_a_legacy_request_may_change_a_legacy_move",
    }
