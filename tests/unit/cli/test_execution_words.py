"""What an execution says to people: once, with the time, about what it is, and a long name cut where it hurts least."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from shunter.cli import main
from shunter.cli.execution_display import PlainLines, sentence, shortened
from shunter.core.executor.ready import Notice


@pytest.mark.parametrize(
    ("notice", "told"),
    [
        (Notice("broker-down", "broker 5", "broker 5 is gone"), "broker 5 is gone"),
        (Notice("admin-failed", "list", "ListPartitionReassignments failed"), "ListPartitionReassignments failed"),
        (Notice("floor-relaxed", "t-0", "broker 3 is out of sync"), "t-0: broker 3 is out of sync"),
    ],
)
def test_a_notice_says_once_what_it_is_about(notice: Notice, told: str) -> None:
    assert sentence(notice) == told


def test_a_plain_line_has_its_time_and_is_not_said_twice(capsys: pytest.CaptureFixture[str]) -> None:
    lines = PlainLines()
    for text in ("nobody answers", "nobody answers", "broker 5 is gone"):
        lines.notice(Notice("any", "", text))
    said = capsys.readouterr().out.splitlines()
    assert [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in said] == ["nobody answers", "broker 5 is gone"]
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in said)


def test_a_long_name_is_cut_in_the_middle() -> None:
    name = "a" * 120 + "b" * 129
    cut = shortened(f"{name}-17")
    assert len(cut) == 48
    assert cut.startswith("aaaa")
    assert cut.endswith("bb-17")
    assert shortened("orders-3") == "orders-3"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("execute", __file__, "--throttle", "5X"), "'--throttle': '5X' is no rate"),
        (("execute", __file__, "--only-between", "9-10"), "'--only-between': '9-10' is no time window"),
        (("pause", "--partition", "orders"), "'--partition': 'orders' is no partition"),
        (("limit", "5X"), "'RATE': '5X' is no rate"),
    ],
)
def test_a_wrong_value_is_told_with_its_options_name(arguments: tuple[str, ...], told: str) -> None:
    done = CliRunner().invoke(main, [*arguments, "--bootstrap-server", "127.0.0.1:1"])
    assert done.exit_code == 2
    assert told in " ".join(done.output.split())


def test_the_help_cuts_no_command_off() -> None:
    assert "…" not in CliRunner().invoke(main, ["--help"]).output
    assert "..." not in CliRunner().invoke(main, ["--help"]).output.replace("[ARGS]...", "")
