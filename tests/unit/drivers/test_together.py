"""Coroutines side by side: their caller still works normally after one of them failed."""

import asyncio
import contextlib
import gc
import weakref

import pytest

from shunter.drivers.host.task_groups import run_together


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
