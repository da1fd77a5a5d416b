"""What a plan is said to take before it begins."""

from __future__ import annotations

import pytest

from shunter.app.executor.dry_run import DryRun
from shunter.cli.execution.plan import show_sum
from shunter.core.executor.estimates.eta import Forecast


@pytest.mark.parametrize(("seconds", "told"), [(0.5, "at least 1 s"), (59.2, "at least 1 min")])
def test_what_takes_half_a_second_takes_no_zero_seconds(
    capsys: pytest.CaptureFixture[str], seconds: float, told: str
) -> None:
    show_sum(DryRun((), Forecast(24_600_000, seconds, 50_000_000, guessed=True), 0))
    assert told in capsys.readouterr().out


def test_room_that_nobody_knows_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    show_sum(DryRun((), Forecast(1, 1.0, 1, guessed=False), 0, (4,)))
    assert "! broker 4 does not say how much room its log dirs have" in capsys.readouterr().out
