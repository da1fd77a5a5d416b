"""What the executor advises can be typed at the service's host: by `serve`, or with the journal's place."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shunter.app.executor import session as sessions
from shunter.app.executor.session import Session, Target
from shunter.app.executor.ways_out import ways_out
from shunter.app.service import driving
from shunter.core.executor.machine import Executor
from shunter.core.executor.ready import CommandReply, PlanReply
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.claimants import ClusterClaimed
from shunter.model.execution import Command, CommandKind, ExecutionOptions
from shunter.model.notice import Notice
from shunter.views.execution import ExecutionView, MoveRow, view_from_json

TOPIC = ways_out(Target("k1:9092", journal_topic="_shunter"))
STUCK = "it can't end; `shunter rollback` or `shunter stop` ends it; `shunter stop --leave` ends it as it is"
TYPED = (
    "it can't end; `shunter rollback --service SERVICE` or `shunter stop --service SERVICE` ends it; "
    "`shunter stop --leave --bootstrap-server k1:9092 --journal-topic _shunter` ends it as it is"
)
ROW = MoveRow("t-0", "moving", "forward", (1,), (1,), (2,), None, 1, "", STUCK, 100, 60, 0)
VIEW = ExecutionView(
    0, "c", "p", True, None, {}, 0, 0, None, None, None, None, "paused until `shunter resume`", 0, (), 0, 0, "", (ROW,)
)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (STUCK, TYPED),
        ("`shunter resume --service SERVICE` lifts the pause", "`shunter resume --service SERVICE` lifts the pause"),
        ("it stays (`shunter throttles clear`)", "it stays (`shunter throttles clear --service SERVICE`)"),
        ("`kafka-reassign-partitions --cancel` ends it", "`kafka-reassign-partitions --cancel` ends it"),
        (
            str(ClusterClaimed("ben", lost=True)),
            "the claim was lost: this cluster is driven by ben: ask there; if it is dead, this service takes over by itself",
        ),
        (
            "group g does not answer: its coordinator has to answer, or say --take-over-cluster to go on without a claim",
            "group g does not answer: its coordinator has to answer; this service tries again by itself",
        ),
    ],
)
def test_a_way_out_is_one_that_the_service_has(theirs: str, ours: str) -> None:
    assert TOPIC.told(theirs) == ours


def test_the_journal_is_named_as_the_service_has_it() -> None:
    leaves = "`shunter stop --leave` ends it"
    assert ways_out(Target("k:1", journal=Path("/j"))).told(leaves) == "`shunter stop --leave --journal /j` ends it"
    assert ways_out(Target("k:1")).told(leaves) == "`shunter stop --leave --bootstrap-server k:1` ends it"


async def test_all_that_an_executor_says_goes_this_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Found by hand: under the kill switch `shunter status` advised a `shunter resume` that the service refuses."""

    async def submitted(*_: object) -> PlanReply:
        return PlanReply(STUCK)

    async def commanded(_command: Command) -> CommandReply:
        return CommandReply(accepted=True, text=STUCK)

    driver: Any = SimpleNamespace(submit=submitted, command=commanded, clock=SystemClock())
    nobody: Any = None
    session = Session(nobody, nobody, Executor(loaded=True), driver, tmp_path / "view")

    @contextlib.asynccontextmanager
    async def opened(*_: object, **_rest: object) -> AsyncIterator[Session]:
        yield session

    async def driven(_session: object, _start: object, *, on_view: Any, **_rest: object) -> Any:
        async with asyncio.timeout(30):
            with contextlib.suppress(Seen):
                await session.publish(on_view)
        return SimpleNamespace(finish=SimpleNamespace(fatal=str(ClusterClaimed("ben", lost=True))))

    class Seen(Exception):
        pass

    def replaced(path: Path, text: bytes) -> None:
        path.write_bytes(text)
        raise Seen

    monkeypatch.setattr(driving, "open_session", opened)
    monkeypatch.setattr(driving, "drive", driven)
    monkeypatch.setattr(sessions, "view_execution", lambda *_: VIEW)
    monkeypatch.setattr(sessions, "_replace", replaced)
    views: list[ExecutionView] = []
    async with driving.seat_of(Target("k1:9092", journal_topic="_shunter"))(lambda _notice: None) as executor:
        why = await executor.run(views.append, None)  # type: ignore[arg-type]
        views.append(executor.view())
        assert (await executor.command(Command(CommandKind.STOP))).text == TYPED
        assert (await executor.submit("p", (), ExecutionOptions())).error == TYPED
    assert "--take-over-cluster" not in why
    of_other_shells = view_from_json(json.loads((tmp_path / "view").read_bytes()))
    assert of_other_shells is not None
    for view in (*views, of_other_shells):
        assert (view.held, view.moves[0].stuck) == ("paused until `shunter resume --service SERVICE`", TYPED)
    heard: list[Notice] = []
    TOPIC.notices(heard.append)(Notice("stuck", "t-0", STUCK))
    assert heard == [Notice("stuck", "t-0", TYPED)]
