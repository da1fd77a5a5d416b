"""Calls in a thread that always end before their caller goes on, even if the caller is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


async def to_its_end(work: Callable[Asked, Answer], *asked: Asked.args, **named: Asked.kwargs) -> Answer:
    """Do something in a thread, as `asyncio.to_thread` does; but a cancelled caller waits until it is done.

    `to_thread` lets a cancelled caller go on while its thread still works. Then the next call could use the same object
    in another thread. Python itself crashes if that call closes a SQLite file during a statement.

    Raises:
        CancelledError: the caller was cancelled; the work was completed, or failed.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work, *asked, **named))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({running})
        if not running.cancelled():
            running.exception()  # Marks the error as retrieved, so that asyncio does not log it.
        raise
