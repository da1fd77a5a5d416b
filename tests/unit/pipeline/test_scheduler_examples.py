"""The examples for Airflow and Dagster. Neither is installed here: the commands are read from the files and parsed."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path
from string import Template
from typing import Any

import click
import pytest

from shunter.cli.pipeline.group import pipeline

EXAMPLES = Path(__file__).parent.parent.parent.parent / "docs" / "examples"
ENVIRONMENT = {
    "SHUNTER_LANDING": "landing", "SHUNTER_CLUSTER": "yard", "SHUNTER_PLANS": "plans",
    "SHUNTER_BROKERS": "--broker kafka1:7071=1 --broker kafka2:7071=2",
}  # fmt: skip


def constant_of_dagster(name: str) -> Any:
    """A constant of the file."""
    tree = ast.parse((EXAMPLES / "dagster_shunter.py").read_text())
    (value,) = (
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
    )
    return ast.literal_eval(value)


def of_dagster() -> dict[str, str]:
    """The table of stages in the file."""
    found: dict[str, str] = constant_of_dagster("STAGES")
    return found


def not_retried_by_dagster() -> tuple[str, ...]:
    """The stages without a retry policy."""
    found: tuple[str, ...] = constant_of_dagster("NOT_RETRIED")
    return found


def of_airflow() -> dict[str, str]:
    """The arguments with which the file calls `stage`."""
    tree = ast.parse((EXAMPLES / "airflow_shunter.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "stage"]
    return {ast.literal_eval(call.args[0]): ast.literal_eval(call.args[1]) for call in calls}


def test_both_run_the_same_commands() -> None:
    assert of_dagster() == of_airflow()
    assert len(of_dagster()) == 8


def test_both_try_the_same_commands_once_alone() -> None:
    tree = ast.parse((EXAMPLES / "airflow_shunter.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "stage"]
    retries = {
        ast.literal_eval(call.args[0]): ast.literal_eval(given.value)
        for call in calls
        for given in call.keywords
        if given.arg == "retries"
    }
    assert retries == dict.fromkeys(not_retried_by_dagster(), 0)


@pytest.mark.parametrize("name", sorted(of_dagster()))
def test_each_command_is_one_of_ours(name: str) -> None:
    verb, *arguments = shlex.split(Template(of_dagster()[name]).substitute(ENVIRONMENT))
    with click.Context(pipeline, obj={}) as context:
        command = pipeline.get_command(context, verb)
        assert command is not None, f"there is no `shunter pipeline {verb}`"
        command.make_context(verb, arguments, parent=context)
