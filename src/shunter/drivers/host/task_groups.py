"""Runs several coroutines until the first of them fails.

`asyncio.TaskGroup` is not used for this. Before Python 3.11.4 it left its caller counted as cancelled after a child
failed (`Task.cancelling`), and from then on no `asyncio.timeout` of the caller ended in TimeoutError. So a channel
whose broker closed the connection once, and was slow to answer afterwards, was never opened again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine


async def run_together(*coroutines: Coroutine[object, object, None]) -> None:
    """Run coroutines side by side until all have ended or one fails; then no coroutine is left running.

    Raises:
        Exception: The error of the first coroutine that failed.
        asyncio.CancelledError: The caller was cancelled, and with it all coroutines.
    """
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    try:
        for task in sorted(done, key=tasks.index):
            task.result()
    finally:
        # An error refers to this frame, and the tasks refer to their errors: a cycle that only the collector frees.
        del tasks, done, task
