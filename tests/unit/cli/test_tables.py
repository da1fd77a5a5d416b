"""Rows in each form: for people, for other commands, for programs; and no colour where nobody wants it."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from shunter.cli.execution.bars import Bars
from shunter.cli.tables import show_rows

ROWS = [
    {"partition": "orders-0", "target": (1, 2), "phase": "moving", "paused": False},
    {"partition": "a-10", "target": (3,), "phase": "", "paused": True},
]


def shown(capsys: pytest.CaptureFixture[str], output: str) -> list[str]:
    show_rows(output, ROWS, lambda row: f"{row['partition']} moves")
    return capsys.readouterr().out.splitlines()


def test_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "text") == ["orders-0 moves", "a-10 moves"]
    assert shown(capsys, "plain") == ["orders-0\t1,2\tmoving\tno", "a-10\t3\t-\tyes"]
    assert shown(capsys, "table") == [
        "partition  target  phase   paused",
        "orders-0   1,2     moving  no",
        "a-10       3       -       yes",
    ]
    assert [json.loads(line) for line in shown(capsys, "json")] == [
        {**row, "target": list(row["target"])} for row in ROWS
    ]


def test_no_rows_are_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows("table", [], str)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("value", "plain"), [("1", True), ("", False)])
def test_a_terminal_without_colour_gets_none(monkeypatch: pytest.MonkeyPatch, value: str, plain: bool) -> None:
    monkeypatch.setenv("NO_COLOR", value)
    monkeypatch.setenv("TERM", "xterm-256color")
    console: Console = Bars()._console
    assert console.no_color is plain
