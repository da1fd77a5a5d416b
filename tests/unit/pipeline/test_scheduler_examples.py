"""The examples for Airflow and Dagster. Neither is installed here: the commands are read from the files and parsed."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path
from string import Template
from typing import Any

import click
import pytest

from shunter.cli.pipeline.chain import cut
from shunter.cli.pipeline.group import pipeline

EXAMPLES = Path(__file__).parent.parent.parent.parent / "docs" / "examples"
ENVIRONMENT = {
    "SHUNTER_LANDING": "landing", "SHUNTER_CLUSTER": "yard", "SHUNTER_PLANS": "plans",
    "SHUNTER_BROKERS": "--broker kafka1:7071=1 --broker kafka2:7071=2",
}  # fmt: skip


def stages_of(example: str) -> Any:
    """The constant STAGES of an example."""
    tree = ast.parse((EXAMPLES / example).read_text())
    (value,) = (
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "STAGES"
    )
    return ast.literal_eval(value)


def of_dagster() -> dict[str, str]:
    """The table of stages in the file."""
    found: dict[str, str] = stages_of("dagster_shunter.py")
    return found


def test_both_run_the_same_row() -> None:
    assert list(of_dagster().values()) == stages_of("airflow_shunter.py").strip().splitlines()
    assert len(of_dagster()) == 8


def test_the_row_is_cut_into_these_stages() -> None:
    row = list(of_dagster().values())
    words = shlex.split(Template(" ".join(row)).substitute(ENVIRONMENT))
    with click.Context(pipeline, obj={}) as context:
        known = {
            name: command
            for name in pipeline.list_commands(context)
            if (command := pipeline.get_command(context, name))
        }
    assert [command.name for command, _own in cut(words, known)] == [each.split()[0] for each in row]


@pytest.mark.parametrize("name", sorted(of_dagster()))
def test_each_command_is_one_of_ours(name: str) -> None:
    verb, *arguments = shlex.split(Template(of_dagster()[name]).substitute(ENVIRONMENT))
    with click.Context(pipeline, obj={}) as context:
        command = pipeline.get_command(context, verb)
        assert command is not None, f"there is no `shunter pipeline {verb}`"
        command.make_context(verb, arguments, parent=context)
