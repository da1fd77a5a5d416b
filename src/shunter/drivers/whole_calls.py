"""Calls in a thread that are over when their caller goes on, cancelled or not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


async def to_its_end(work: Callable[Asked, Answer], *asked: Asked.args, **named: Asked.kwargs) -> Answer:
    """Do something in a thread, as `asyncio.to_thread` does; a caller that is cancelled waits until it is over.

    `to_thread` lets a cancelled caller go on while its thread is still at work. Then the next call works on the same thing
    in another thread: Python itself crashes if that call closes a SQLite file under a statement.

    Raises:
        CancelledError: the caller was cancelled; the work was done all the same, or failed.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work, *asked, **named))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({running})
        if not running.cancelled():
            running.exception()  # Seen, so that nothing is told of an error that nobody waited for.
        raise
