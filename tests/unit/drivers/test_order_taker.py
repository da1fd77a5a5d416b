"""Orders that come through the journal: carried out while somebody waits for them, refused afterwards."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from test_execution_driver import World

from shunter.drivers import order_taker
from shunter.drivers.journal_sqlite import SqliteJournal
from shunter.drivers.order_taker import ANSWER_WITHIN_S, take_orders


@pytest.fixture
def world() -> World:
    return World()


class Watched(SqliteJournal):
    """Says when an order was answered."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "shell")
        self.loop = asyncio.get_running_loop()
        self.answered: asyncio.Queue[int] = asyncio.Queue()

    def answer(self, number: int, text: str) -> None:
        super().answer(number, text)
        self.loop.call_soon_threadsafe(self.answered.put_nowait, number)

    async def answers(self, count: int) -> list[dict[str, object]]:
        async with asyncio.timeout(20):
            numbers = [await self.answered.get() for _ in range(count)]
        return [orjson.loads(self.answer_to(number) or "null") for number in sorted(numbers)]


async def test_an_order_that_nobody_waits_for_any_more_is_not_carried_out(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_taker, "ORDERS_EVERY_S", 0.001)
    now_ms = world.driver.clock.now_ms()
    with closing(Watched(tmp_path / "a.journal")) as shell:
        shell.order("command", {"kind": "roll_back"}, now_ms - int(ANSWER_WITHIN_S * 1000) - 2_000)
        shell.order("command", {"kind": "roll_back"}, now_ms)
        work = [
            asyncio.create_task(take_orders(world.driver, shell)),
            asyncio.create_task(world.driver.run(forever=True)),
        ]
        try:
            late, fresh = await shell.answers(2)
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
    assert late["accepted"] is False
    assert "32 s ago" in str(late["text"])
    assert "ask again" in str(late["text"])
    assert "nothing is under way" in str(fresh["text"]), "it reached the core"
