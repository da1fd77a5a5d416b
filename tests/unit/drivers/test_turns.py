"""Tasks side by side, calls in threads and Python's collector: the others still get their turn."""

import asyncio
import contextlib
import gc
import itertools
import sqlite3
import threading
import time
import weakref
from itertools import pairwise
from pathlib import Path

import pytest

from shunter.drivers.host import idle_collector
from shunter.drivers.host.idle_collector import IdleCollector
from shunter.drivers.host.task_groups import run_together
from shunter.drivers.host.whole_calls import to_its_end
from shunter.drivers.listener.turns import TURN_SECONDS, Turns

BATCHES = 200


def busy(seconds):
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        pass


async def test_others_get_their_turn_between_many_ready_tasks():
    turns, done, seen = Turns(), [], []

    async def one(number):
        await turns.mine()
        busy(TURN_SECONDS / 4)
        done.append(number)

    async def other():
        while len(done) < 40:
            seen.append(len(done))
            await asyncio.sleep(0)

    watching = asyncio.create_task(other())
    await asyncio.gather(*(one(number) for number in range(40)))
    await watching
    assert sorted(done) == list(range(40))
    steps = [later - earlier for earlier, later in pairwise(seen)]
    assert max(steps) <= 6, steps


async def test_whoever_is_alone_does_not_wait():
    turns = Turns()
    await asyncio.wait_for(turns.mine(), 1)
    await asyncio.wait_for(turns.mine(), 1)


async def fail():
    await asyncio.sleep(0)
    raise ConnectionResetError("the broker hung up")


async def wait_for_ever(ended):
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("waiting")


async def test_the_first_failure_ends_all():
    ended = []
    with pytest.raises(ConnectionResetError, match="hung up"):
        await run_together(wait_for_ever(ended), fail())
    assert ended == ["waiting"]


async def test_a_timeout_of_the_caller_is_one_afterwards():
    """With `asyncio.TaskGroup` of Python 3.11.2 (Debian 12) it was a cancellation that no code had asked for."""
    with pytest.raises(ConnectionResetError):
        await run_together(wait_for_ever([]), fail())
    assert asyncio.current_task().cancelling() == 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()


async def test_who_is_cancelled_leaves_nothing_running():
    ended = []
    caller = asyncio.create_task(run_together(wait_for_ever(ended), wait_for_ever(ended)))
    for _ in range(5):
        await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended == ["waiting", "waiting"]


class Held:
    """An object that a coroutine uses."""


async def fail_with(held):
    await asyncio.sleep(0)
    raise ConnectionResetError("the broker hung up")


async def test_a_failure_leaves_no_cycle():
    gc.disable()
    try:
        held = Held()
        there = weakref.ref(held)
        with contextlib.suppress(ConnectionResetError):
            await run_together(fail_with(held), wait_for_ever([]))
        del held
        await asyncio.sleep(0)  # Until then the event loop itself refers to the object.
        assert there() is None
    finally:
        gc.enable()


async def test_it_answers_as_the_work_does() -> None:
    assert await to_its_end(int, "11", base=2) == 3
    with pytest.raises(ValueError, match="invalid literal"):
        await to_its_end(int, "x")


@pytest.mark.parametrize("fails", [False, True])
async def test_a_cancelled_caller_waits_until_the_work_is_over(*, fails: bool) -> None:
    begun, may_end, over = asyncio.Event(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        loop.call_soon_threadsafe(begun.set)
        assert may_end.wait(60)
        over.set()
        if fails:
            raise ValueError("nobody hears of it")

    caller = asyncio.create_task(to_its_end(work))
    await begun.wait()
    for _ in range(3):  # A caller may be cancelled more than once.
        caller.cancel()
        await asyncio.sleep(0)
        assert not caller.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert over.is_set()


async def test_a_file_can_be_closed_after_a_cancelled_write(tmp_path: Path) -> None:
    """Seen in runs of all tests: about once in a hundred, a service that was stopped died of a segmentation fault."""
    for _ in range(BATCHES):
        database = sqlite3.connect(tmp_path / "x", isolation_level=None, check_same_thread=False)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE IF NOT EXISTS t (a TEXT)")
        begun = asyncio.Event()

        def write(database: sqlite3.Connection, begun: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
            loop.call_soon_threadsafe(begun.set)
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT INTO t VALUES (?)", [("x" * 1000,)] * 50)
            database.execute("COMMIT")

        writing = asyncio.create_task(to_its_end(write, database, begun, asyncio.get_running_loop()))
        await begun.wait()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        await to_its_end(database.close)


class Ring:
    """Refers to itself, so that only the collector can free it."""

    def __init__(self):
        self.self = self


@pytest.fixture(autouse=True)
def often(monkeypatch):
    thresholds = gc.get_threshold()
    monkeypatch.setattr(idle_collector, "QUIET_SECONDS", 0.001)
    monkeypatch.setattr(idle_collector, "INTERVAL_SECONDS", 0.0)
    yield
    gc.set_threshold(*thresholds)


async def test_a_cycle_is_freed_in_a_quiet_moment():
    freed = asyncio.Event()
    gc.collect()
    weakref.finalize(Ring(), freed.set)
    collector = IdleCollector(lambda: 1)
    collector.start()
    try:
        async with asyncio.timeout(40):
            await freed.wait()
    finally:
        await collector.close()
    assert collector.looks > 0
    assert collector.longest_s > 0


async def test_nothing_is_looked_at_while_something_happens():
    happened = itertools.count()
    asked = asyncio.Event()

    def activity():
        count = next(happened)
        if count == 20:
            asked.set()
        return count

    collector = IdleCollector(activity)
    collector.start()
    try:
        async with asyncio.timeout(40):
            await asked.wait()
        assert collector.looks == 0
    finally:
        await collector.close()


async def test_patience_ends(monkeypatch):
    monkeypatch.setattr(idle_collector, "PATIENCE_SECONDS", 0.01)
    freed = asyncio.Event()
    weakref.finalize(Ring(), freed.set)
    collector = IdleCollector(itertools.count().__next__)
    collector.start()
    try:
        async with asyncio.timeout(40):
            await freed.wait()
    finally:
        await collector.close()


async def test_what_was_frozen_in_a_former_term_is_freed_in_a_quiet_moment_of_another():
    freed = asyncio.Event()
    gc.collect()
    weakref.finalize(Ring(), freed.set)
    gc.freeze()
    asked, looked, terms = itertools.count(), asyncio.Event(), [1]

    def term():
        if next(asked) == 3:
            looked.set()
        return terms[-1]

    collector = IdleCollector(lambda: 1, term)
    collector.start()
    try:
        async with asyncio.timeout(40):
            await looked.wait()
            assert not freed.is_set(), "the same term"
            terms.append(2)
            await freed.wait()
    finally:
        await collector.close()
        gc.unfreeze()
