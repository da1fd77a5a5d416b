"""What a plan is said to take before it begins."""

from __future__ import annotations

import pytest

from shunter.app.executor.dry_run import DryRun, PlannedMove, PlannedStep
from shunter.app.executor.session import Target
from shunter.cli.execution import execute
from shunter.cli.execution.plan import show_sum
from shunter.core.executor.estimates.eta import Forecast
from shunter.model.execution import ExecutionOptions


@pytest.mark.parametrize(("seconds", "told"), [(0.5, "at least 1 s"), (59.2, "at least 1 min")])
def test_what_takes_half_a_second_takes_no_zero_seconds(
    capsys: pytest.CaptureFixture[str], seconds: float, told: str
) -> None:
    show_sum(DryRun((), Forecast(24_600_000, seconds, 50_000_000, guessed=True), 0))
    assert told in capsys.readouterr().out


def test_room_that_nobody_knows_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    show_sum(DryRun((), Forecast(1, 1.0, 1, guessed=False), 0, (4,)))
    assert "! broker 4 does not say how much room its log dirs have" in capsys.readouterr().out


def test_what_a_dead_broker_holds_up_is_said_at_the_end_too(capsys: pytest.CaptureFixture[str]) -> None:
    why = "it can't end without broker 1, which is down and part of its target"
    moves = tuple(PlannedMove(f"t-{n}", (1, 2), (1,), 1, (), None, held_up=why if n else "") for n in range(3))
    show_sum(DryRun(moves, Forecast(1, 1.0, 1, guessed=False), 0))
    told = capsys.readouterr().out
    assert f"! dead brokers or log dirs hold up 2 moves, t-1, t-2: {why}\n" in told


def test_a_rollback_onto_a_dead_broker_and_what_is_not_taken_on_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    gone = PlannedMove("t-0", (1, 2), (2, 3), 5, (PlannedStep((2, 3), 5, 5, (1,)),), None)
    refused = PlannedMove("t-1", (), (2, 3), 0, (), "no such topic", taken=False)
    show_sum(DryRun((gone, refused), Forecast(5, 1.0, 1, guessed=False), 5))
    told = capsys.readouterr().out
    assert told.startswith("1 partition (1 more not taken on), 5 B to copy")
    assert told.endswith("a rollback copies 5 B at the most, and needs broker 1, which is down\n")
    unsure = PlannedMove("t-0", (1, 2), (2, 3), 5, (PlannedStep((2, 3), 5, 5, doubts=(1,)),), None)
    show_sum(DryRun((unsure,), Forecast(5, 1.0, 1, guessed=False), 5))
    why = "and broker 1 may take no replica before a restart, because a log dir there failed"
    assert capsys.readouterr().out.endswith(f"a rollback copies 5 B at the most, {why}\n")


def test_a_topic_that_the_first_execution_makes_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    show_sum(DryRun((), Forecast(1, 1.0, 1, guessed=False), 0, makes="__consumer_offsets"))
    assert "! the cluster makes topic __consumer_offsets" in capsys.readouterr().out
    show_sum(DryRun((), Forecast(1, 1.0, 1, guessed=False), 0))
    assert "topic" not in capsys.readouterr().out


def test_what_a_cut_leaves_without_a_spare_replica_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    thin = "one replica: what it has is gone with its broker"
    moves = tuple(PlannedMove(f"t-{n}", (1, 2), (1,), 1, (), None, thin=thin if n else "") for n in range(3))
    show_sum(DryRun(moves, Forecast(1, 1.0, 1, guessed=False), 0))
    assert f"! 2 partitions are left with {thin} (t-1, t-2)\n" in capsys.readouterr().out


def test_a_cordon_is_said_by_the_dry_run_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outsider's find: `drain --cordon --dry-run` said not a word about the cordon."""

    async def shown(*_: object, **__: object) -> bool:
        return True

    monkeypatch.setattr(execute, "show_dry_run", shown)
    options = ExecutionOptions(cordons=((3, "*"), (4, "/a"), (5, "")))
    assert execute.carry_out((), Target("k:9092"), options, execute.Carrying(dry_run=True)) == 0
    assert capsys.readouterr().err.splitlines() == [
        (
            "broker 3 is cordoned first: it gets no new replicas until `shunter undrain 3` or `undo`; `stop` and `rollback`"
            " end it"
        ),
        "broker 4 gets its former cordoned.log.dirs back first: /a",
        "broker 5 gets its former cordoned.log.dirs back first: none",
    ]
