"""The service as a process: waits for its seat, opens its door, serves until it is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from shunter.app.executor import state_folder
from shunter.app.keeper_policy import ServiceFile
from shunter.app.service.front import Front
from shunter.app.service.local import SOCKET, answering
from shunter.app.service.service import open_service, take_seat
from shunter.drivers.local_door import open_door

Doors = Callable[[Front], AbstractAsyncContextManager[None]]
"""Opens another way to the front, as HTTP."""


def default_folder() -> Path:
    """Where the service keeps what it knows, unless told otherwise."""
    return state_folder() / "service"


async def serve_until_told(file: ServiceFile, folder: Path, say: Callable[[str], None], *doors: Doors) -> None:
    """Serve until SIGINT or SIGTERM. What is under way then goes on in the clusters, and the next service takes it up.

    Raises:
        StoreFailed, DriverError: the folder can't be used.
    """
    leave = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, leave.set)
    leaving = asyncio.create_task(leave.wait())
    seat = None
    try:
        taking = asyncio.create_task(take_seat(folder, say))
        await asyncio.wait({taking, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not taking.done():
            taking.cancel()
            return
        seat = taking.result()
        async with contextlib.AsyncExitStack() as opened:
            service, front = await opened.enter_async_context(open_service(file, folder))
            await opened.enter_async_context(open_door(folder / SOCKET, answering(front)))
            for door in doors:
                await opened.enter_async_context(door(front))
            if service.records.trouble:
                say(service.records.trouble)
            say(f"serves {', '.join(service.keepers)} from {folder}")
            running = asyncio.create_task(service.run())
            await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
            failed = running.done()
            running.cancel()
            results = await asyncio.gather(running, return_exceptions=True)
            if failed and isinstance(results[0], BaseException):
                raise results[0]
    finally:
        leaving.cancel()
        if seat is not None:
            seat.leave()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(name)
