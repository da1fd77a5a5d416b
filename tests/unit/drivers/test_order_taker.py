"""Orders that come through the journal: carried out while a shell waits for the answer, refused afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import orjson
import pytest
from test_execution_driver import World

from shunter.drivers import order_taker
from shunter.drivers.journal_sqlite import SqliteJournal
from shunter.drivers.journals import ANSWER_WITHIN_S
from shunter.drivers.order_taker import take_orders
from shunter.errors import DriverError
from shunter.formats.journal import options_to_json
from shunter.model.execution import ExecutionOptions

HOUR_MS = 3_600_000
ROLL_BACK = {"kind": "roll_back"}


@pytest.fixture
def world() -> World:
    return World()


class Watched(SqliteJournal):
    """A journal that shows when an order was answered."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "shell")
        self.loop = asyncio.get_running_loop()
        self.answered: asyncio.Queue[int] = asyncio.Queue()

    def answer(self, number: int, text: str) -> None:
        super().answer(number, text)
        self.loop.call_soon_threadsafe(self.answered.put_nowait, number)

    async def answers(self, count: int) -> list[dict[str, object]]:
        async with asyncio.timeout(60):
            numbers = [await self.answered.get() for _ in range(count)]
        return [orjson.loads(self.answer_to(number) or "null") for number in sorted(numbers)]


@asynccontextmanager
async def driven(world: World, shell: Watched) -> AsyncIterator[None]:
    """An executor drives the journal and takes orders."""
    work = [
        asyncio.create_task(take_orders(world.driver, shell)),
        asyncio.create_task(world.driver.run(forever=True)),
    ]
    try:
        yield
    finally:
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)


@pytest.fixture(autouse=True)
def orders_are_looked_for_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_taker, "ORDERS_EVERY_S", 0.001)


async def test_an_order_that_nobody_waits_for_any_more_is_not_carried_out(world: World, tmp_path: Path) -> None:
    now_ms = world.driver.clock.now_ms()
    with closing(Watched(tmp_path / "a.journal")) as shell:
        shell.order("command", ROLL_BACK, now_ms - int(ANSWER_WITHIN_S * 1000) - 2_000)
        shell.order("command", ROLL_BACK, now_ms)
        shell.order("command", ROLL_BACK, now_ms + HOUR_MS)
        async with driven(world, shell):
            late, fresh, strange = await shell.answers(3)
    assert late["accepted"] is False
    assert "ask again" in str(late["text"])
    assert "nothing is under way" in str(fresh["text"]), "it reached the core"
    assert "by another clock" in str(strange["text"])


@pytest.mark.parametrize("wrong_ms", [-HOUR_MS, HOUR_MS])
async def test_who_asks_a_driver_may_have_another_clock(world: World, tmp_path: Path, wrong_ms: int) -> None:
    """Found by simulation: after the system's clock was set, a daemon refused every order, for ever."""
    now_ms = world.driver.clock.now_ms()
    with closing(Watched(tmp_path / "a.journal")) as shell:
        shell.order("command", ROLL_BACK, now_ms)
        async with driven(world, shell):
            await shell.answers(1)  # After this look, it is known which orders are new.
            shell.order("command", ROLL_BACK, now_ms + wrong_ms)
            (answer,) = await shell.answers(1)
    assert "nothing is under way" in str(answer["text"]), "it reached the core"


async def test_an_order_does_not_wait_for_a_plan_before_it(world: World, tmp_path: Path) -> None:
    """Found by simulation: a plan waits for a cluster that does not answer, and a stop waited for the plan."""
    world.cluster.failure = DriverError("nobody is reached", retriable=True)
    plan = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2]}]}
    with closing(Watched(tmp_path / "a.journal")) as shell:
        now_ms = world.driver.clock.now_ms()
        shell.order("plan", {"plan": plan, "options": options_to_json(ExecutionOptions())}, now_ms)
        stop = shell.order("command", {"kind": "stop"}, now_ms)
        async with driven(world, shell):
            (answer,) = await shell.answers(1)
        assert shell.answer_to(stop) is not None
    assert "nothing is under way" in str(answer["text"])
