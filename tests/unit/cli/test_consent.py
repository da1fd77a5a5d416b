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


def test_agreeing_needs_a_terminal_or_a_word() -> None:
    assert agreed("7 GB are copied", "Begin?", yes=True, as_json=True)
    with pytest.raises(SettingsError, match=r"7 GB are copied\. No question can be asked here"):
        agreed("7 GB are copied", "Begin?", yes=False, as_json=True)
