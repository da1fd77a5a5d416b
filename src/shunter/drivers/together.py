"""Several coroutines until the first of them fails.

`asyncio.TaskGroup` is not used for it: before Python 3.11.4 it left its caller counted as cancelled when a child failed
(`Task.cancelling`), and from then on no `asyncio.timeout` of the caller ended in TimeoutError. A channel whose broker
hung up once, and was slow to answer afterwards, was never opened again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine


async def run_together(*coroutines: Coroutine[object, object, None]) -> None:
    """Run coroutines side by side until all have ended or one fails; none is left running.

    Raises:
        Exception: What the first one failed with.
        asyncio.CancelledError: The caller was cancelled, and all of them with it.
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
        # A failure refers to this frame, and the tasks to their failures: a cycle that only the collector could free.
        del tasks, done, task
