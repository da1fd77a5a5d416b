"""`shunter undo` says once how much it copies: by the sizes of today if a dry run is shown, else by those of that time."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from shunter.cli import main
from shunter.cli.execution import history
from shunter.core.executor.history import Execution, Undoing
from shunter.core.executor.state import Move
from shunter.model.execution import ExecutionOptions, MoveOrder
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("option", ["--yes", "--dry-run"])
def test_one_amount_is_named(monkeypatch: pytest.MonkeyPatch, option: str, *, as_json: bool) -> None:
    """An outsider's find: "10.0 MB are copied again", and three lines on "12.0 MB to copy"."""
    moved = Move(T0, None, (1, 2), (3, 2), Strategy.INCREMENTAL, 10_000_000, (), False, 0, current=(3, 2))
    moved.copied_bytes = 10_000_000

    async def undoing(*_: object) -> tuple[Execution, Undoing]:
        past = Execution(1, 0, ["p"], ExecutionOptions(), {T0: moved})
        return past, Undoing((MoveOrder(T0, (1, 2)),), (), 10_000_000)

    monkeypatch.setattr(history, "undoing", undoing)
    monkeypatch.setattr(history, "carry_out", lambda *_: 0)
    done = CliRunner().invoke(main, ["undo", "--bootstrap-server", "k:9092", option, *(["--json"] if as_json else [])])
    assert done.exit_code == 0, done.output
    if as_json:
        assert json.loads(done.stdout).get("copied_bytes") == (10_000_000 if option == "--yes" else None)
        return
    assert done.stderr.count("MB") == (option == "--yes")
    assert ("10.0 MB are copied again, by the sizes of that time" in done.stderr) == (option == "--yes")
