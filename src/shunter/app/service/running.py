"""The service as a process: it waits for its seat, opens its door, and serves until a signal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

from shunter import __version__
from shunter.app.access.audit_log import AuditLog
from shunter.app.service.front import Front
from shunter.app.service.reloading import PolicyFile
from shunter.app.service.service import open_service, take_seat
from shunter.drivers.host.file_limits import make_room
from shunter.drivers.host.task_groups import run_together
from shunter.model.security.access import SignOnRules

STOP_WITHIN_S = 20.0
"""A service that was told to end gives its leases back, which takes a cluster that answers. After this it just ends:
leases lapse by themselves, and whatever counts is durable already. Kubernetes kills after 30 s."""
FILES = 2_000
"""Files that HTTP may need; the limit on open files is raised for them."""
Door = Callable[[Front, AuditLog, SignOnRules | None], AbstractAsyncContextManager[None]]
"""Opens the way to the front: HTTP."""


async def serve_until_told(
    path: Path, folder: Path, say: Callable[[str], None], door: Door, *, audit: Path | None = None
) -> None:
    """Serve until SIGINT or SIGTERM. Moves under way then go on in the clusters, and the next service takes them up.

    Args:
        path: The policy file. It is read again when it changes, and on SIGHUP.
        folder: The folder of the service's state.
        say: Takes sentences for people at the terminal.
        door: The way to the front.
        audit: The audit log; None: `audit.log` in the folder.

    Raises:
        StoreFailed, DriverError: the folder can't be used.
        FormatError, SettingsError: the policy file or the audit log can't be used.
    """
    make_room(FILES)
    policy = PolicyFile(path, say)
    leave = asyncio.Event()
    end = partial(_end, leave, say)
    with _signals({signal.SIGINT: end, signal.SIGTERM: end, signal.SIGHUP: policy.ask}):
        leaving = asyncio.create_task(leave.wait())
        try:
            taking = asyncio.create_task(take_seat(folder, say))
            await asyncio.wait({taking, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not taking.done():
                taking.cancel()
                return
            seat = taking.result()
            try:
                policy.refresh()
                with contextlib.closing(AuditLog(audit or folder / "audit.log")) as log:
                    await _serve(policy, folder, say, door, leaving, log)
            finally:
                seat.leave()
        finally:
            leaving.cancel()


def _end(leave: asyncio.Event, say: Callable[[str], None]) -> None:
    leave.set()
    asyncio.get_running_loop().call_later(STOP_WITHIN_S, _end_now, say)


def _end_now(say: Callable[[str], None]) -> None:
    """End without waiting for what does not answer; threads that wait for a cluster would keep the process for minutes."""
    say(
        f"a cluster has not answered for {STOP_WITHIN_S:.0f} s: this ends without giving its leases back, which lapse soon"
    )
    os._exit(0)


async def _serve(
    policy: PolicyFile,
    folder: Path,
    say: Callable[[str], None],
    door: Door,
    leaving: asyncio.Task[Any],
    audit: AuditLog,
) -> None:
    """Serve until `leaving` is done."""
    async with contextlib.AsyncExitStack() as opened:
        service, front = await opened.enter_async_context(open_service(policy.file, folder))
        await opened.enter_async_context(door(front, audit, policy.file.sign_on))
        if service.records.trouble:
            say(service.records.trouble)
        say(f"serves {', '.join(service.keepers)} from {folder}")
        await service.note("service-began", f"{service.me} begins to serve, version {__version__}")
        running = asyncio.create_task(run_together(service.run(), policy.watch(service)))
        await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
        failed = running.done()
        running.cancel()
        results = await asyncio.gather(running, return_exceptions=True)
        why = f"for a failure: {results[0]!r}" if failed else "because it was told to"
        await service.note("service-ended", f"{service.me} ends, {why}")
        if failed and isinstance(results[0], BaseException):
            raise results[0]


@contextlib.contextmanager
def _signals(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for name, handler in handlers.items():
        loop.add_signal_handler(name, handler)
    try:
        yield
    finally:
        for name in handlers:
            loop.remove_signal_handler(name)
