"""A session of the executor that its caller gives up: nothing of it is at work on the journal that is closed next."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, cast

from shunter.app.executor.session import Session, SessionStart, drive
from shunter.core.executor.machine import Executor
from shunter.drivers.admin.protocol import AdminClient
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.execution import ExecutionDriver
from shunter.drivers.journal.sqlite import SqliteJournal
from shunter.model.execution import Command, CommandKind
from shunter.views.execution import ExecutionView


class Nobody:
    """A cluster that is never asked: no plan was handed in."""


async def test_who_is_cancelled_leaves_nothing_at_work(tmp_path: Path) -> None:
    """Found by hand: `shunter serve` ended with a traceback, for orders were looked for in a journal that was closed."""
    core, clock, journal = Executor(), SystemClock(), SqliteJournal(tmp_path / "moves.journal", "a")
    journal.acquire(clock.now_ms())
    admin = cast("AdminClient", Nobody())
    driver = ExecutionDriver(core, journal, admin, clock, lambda _notice: None)
    session = Session(admin, journal, core, driver, tmp_path / "view")
    viewed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def seen(_view: ExecutionView) -> None:
        if not viewed.done():
            viewed.set_result(None)

    unanswered = SessionStart(command=Command(CommandKind.PAUSE))  # The journal was never loaded, so nobody answers.
    driving: asyncio.Task[Any] = asyncio.create_task(drive(session, unanswered, on_view=seen, forever=True))
    await viewed
    driving.cancel()
    async with asyncio.timeout(30):
        with contextlib.suppress(asyncio.CancelledError):
            await driving
    assert asyncio.all_tasks() == {asyncio.current_task()}
    journal.release()
    journal.close()
