"""A verb that changes a cluster asks first, or wants `--yes` where it can't ask."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from shunter.app.exit_codes import ExitCode
from shunter.cli import main
from shunter.cli.execution.consent import agreed
from shunter.errors import SettingsError

PLAN = '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}'


@pytest.mark.parametrize("more", [(), ("--json",), ("--take-over",)])
def test_a_plan_is_not_begun_unasked_where_nobody_can_be_asked(tmp_path: Path, more: tuple[str, ...]) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(PLAN)
    done = CliRunner().invoke(main, ["execute", str(plan), "--bootstrap-server", "127.0.0.1:1", *more])
    assert done.exit_code == ExitCode.USAGE, done.output
    assert "add --yes" in done.output


def test_a_plan_with_log_dirs_is_never_handed_to_a_controller_that_would_pass_them_over(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(PLAN.replace('"replicas"', '"log_dirs": ["/a", "any"], "replicas"'))
    words = ["execute", str(plan), "--bootstrap-server", "127.0.0.1:1", "--yes"]
    done = CliRunner().invoke(main, [*words, "--by", "controller"])
    assert done.exit_code == ExitCode.REFUSED, done.output
    assert "only the executor has the plan's `log_dirs`" in done.output
    done = CliRunner().invoke(main, words)
    assert "by the executor: only the executor has the plan's `log_dirs`" in done.output


def test_agreeing_needs_a_terminal_or_a_word() -> None:
    assert agreed("7 GB are copied", "Begin?", yes=True, as_json=True)
    with pytest.raises(SettingsError, match=r"7 GB are copied\. No question can be asked here"):
        agreed("7 GB are copied", "Begin?", yes=False, as_json=True)
