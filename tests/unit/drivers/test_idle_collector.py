"""Python's collector examines all objects only in quiet moments."""

import asyncio
import gc
import itertools
import weakref

import pytest

from shunter.drivers.host import idle_collector
from shunter.drivers.host.idle_collector import IdleCollector


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
