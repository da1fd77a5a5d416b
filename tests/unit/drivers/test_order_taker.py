"""Orders that come through the journal: carried out while a shell waits for the answer, refused afterwards."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import orjson
import pytest
from test_execution_driver import World

from shunter.drivers.journal import order_taker
from shunter.drivers.journal.journals import ANSWER_WITHIN_S
from shunter.drivers.journal.order_taker import OrderGate, take_orders
from shunter.drivers.journal.sqlite import SqliteJournal
from shunter.errors import DriverError
from shunter.formats.journal import options_to_json
from shunter.model.execution import Command, CommandKind, ExecutionOptions
from shunter.model.limits import Window

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
async def driven(world: World, shell: Watched, gate: OrderGate | None = None) -> AsyncIterator[None]:
    """An executor drives the journal and takes orders."""
    work = [
        asyncio.create_task(take_orders(world.driver, shell, gate)),
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
    assert "nothing of this journal is under way" in str(fresh["text"]), "it reached the core"
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
    assert "nothing of this journal is under way" in str(answer["text"]), "it reached the core"


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
    assert "nothing of this journal is under way" in str(answer["text"])


class Gate:
    """Refuses resumptions, and keeps what was taken."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, str]] = []

    def refusal(self, command: Command | None) -> str:
        return "paused" if command is not None and command.kind is CommandKind.RESUME else ""

    def options(self, wanted: ExecutionOptions) -> ExecutionOptions:
        return replace(wanted, throttle=wanted.throttle or 2_000_000)

    def taken(self, what: str, given_by: str, answer: str) -> None:
        self.heard.append((what, given_by, answer))


async def test_a_gate_judges_orders_and_hears_who_gave_those_that_were_taken(world: World, tmp_path: Path) -> None:
    gate, now_ms = Gate(), world.driver.clock.now_ms()
    with closing(Watched(tmp_path / "a.journal")) as shell:
        shell.order("command", {"kind": "resume"}, now_ms)
        shell.order("command", {"kind": "limit", "bytes_per_s": 5, "given_by": "ben (shunter limit)"}, now_ms)
        shell.order("command", {"kind": "forget", "brokers": [9], "given_by": "ben (shunter throttles)"}, now_ms)
        async with driven(world, shell, gate):
            refused, *_others = await shell.answers(3)
    assert refused == {"accepted": False, "text": "paused"}
    assert gate.heard == [], "nothing was under way, so the executor took none of them"


async def test_a_plan_and_a_command_carry_who_gave_them(world: World, tmp_path: Path) -> None:
    gate, now_ms = Gate(), world.driver.clock.now_ms()
    plan = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2]}]}
    now = datetime.now()  # noqa: DTZ005 - a window is in local time
    later = tuple((now.hour * 60 + now.minute + minutes) % 1440 for minutes in (60, 120))
    # No step begins before the second order: the move would end before it.
    options = options_to_json(ExecutionOptions(window=Window(later[0], later[1])))
    handed_in = {"plan": plan, "options": options, "given_by": "ben (shunter execute)"}
    with closing(Watched(tmp_path / "a.journal")) as shell:
        shell.order("plan", handed_in, now_ms)
        async with driven(world, shell, gate):
            (taken,) = await shell.answers(1)
            shell.order("command", {"kind": "roll_back", "given_by": "eve (shunter rollback)"}, now_ms)
            (turned,) = await shell.answers(1)
    assert (taken["accepted"], turned["accepted"]) == (True, True), (taken, turned)
    assert "plan_id" not in taken, "a shell does not wait for a service"
    assert gate.heard == [
        (
            "execute a plan",
            "ben (shunter execute)",
            "1 move taken on, under the policy's throttle of 2.0 MB/s, as the plan has none",
        ),
        ("rollback all moves", "eve (shunter rollback)", turned["text"]),
    ]
