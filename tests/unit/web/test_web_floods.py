"""Nobody at the port can hold the service: floods without a token leave orders, steps, memory and disk alone."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from web_flood import FLOODS, head
from web_yard import Yard

from shunter.app.access.access_tokens import AccessRole, add_token
from shunter.app.access.audit_log import FILE_BYTES, FILES, AuditLog
from shunter.app.service.client import SOCKET, ServiceClient, ServiceServer
from shunter.model.service import OrderKind, ServiceOrder
from shunter.web.server import WebOptions, serving

CONNECTIONS = 400
"""More than one address may have."""
ORDER_WITHIN_S = 1.0
ASKED_WITHIN_S = 5.0
"""A person at another address connects anew, and asks."""
STEP_LATE_S = 0.5
"""98 of 100 steps of the executor wait for the event loop at most this long. Others may wait for a busy machine."""
LEAST_SHARE = 0.1
"""On a busy machine this process gets a part of a core alone: times count by that part, or by this one."""
MORE_MEMORY = 150_000_000
PAUSE = ServiceOrder(OrderKind.PAUSE, "prod-eu")


@asynccontextmanager
async def flood(kind: str, port: int) -> AsyncIterator[None]:
    """Flood a port while the block runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("web_flood.py")),
        kind,
        str(port),
        str(CONNECTIONS),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"floods\n"
        yield
    finally:
        process.stdin.close()
        async with asyncio.timeout(30):
            count = await process.stdout.read()
            await process.wait()
    assert int(count) > 0, "no connection came to its end"


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Watched:
    """What a caller at the socket, and a task of the event loop, notice."""

    def __init__(self, folder: Path) -> None:
        self.service = ServiceClient(ServiceServer(folder / SOCKET))
        self.orders: list[float] = []
        self.asked: list[float] = []
        self.late: list[float] = []

    async def order(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        number = 0
        while loop.time() < until:
            number += 1
            began = loop.time()
            await asyncio.to_thread(self.service.order, PAUSE, "", f"k{number}")
            self.orders.append(loop.time() - began)
            await self.after(0.05)

    async def ask(self, until: float, port: int, secret: str) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            began = loop.time()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head("GET", "/api/v1/fleet", f"Authorization: Bearer {secret}"))
            assert (await reader.readline()).split()[1] == b"200"
            writer.close()
            self.asked.append(loop.time() - began)
            await self.after(0.2)

    async def step(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            due = loop.time() + 0.01
            await self.after(0.01)
            self.late.append(loop.time() - due)

    async def after(self, seconds: float) -> None:
        done = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, done.set)
        await done.wait()


async def flooded(kind: str, seconds: float, folder: Path) -> None:
    secret = add_token(folder / "tokens.json", "anna", AccessRole.READ, None)
    audit = AuditLog(folder / "audit.log")
    yard = Yard()
    watched = Watched(folder)
    loop = asyncio.get_running_loop()
    options = WebOptions(port=0, tokens=folder / "tokens.json")
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(serving(yard.front, options, audit, door=folder / SOCKET))
        port = int(address.rstrip("/").rpartition(":")[2])
        await stack.enter_async_context(flood(kind, port))
        await watched.after(0.5)
        before = resident()
        began, worked = loop.time(), time.process_time()
        until = began + seconds
        await asyncio.gather(watched.order(until), watched.step(until), watched.ask(until, port, secret))
        grown = resident() - before
        share = max(LEAST_SHARE, min(1.0, (time.process_time() - worked) / (loop.time() - began)))
    audit.close()
    late = sorted(watched.late)
    figures = (
        f"{kind}: {len(watched.orders)} orders in {max(watched.orders):.3f} s at most; {len(watched.asked)} questions in"
        f" {max(watched.asked):.3f} s; steps late by {late[len(late) // 2]:.4f} s in the middle, {late[-1]:.3f} s at"
        f" most; memory {grown / 1e6:+.1f} MB; {share:.2f} of a core"
    )
    print(figures)
    assert max(watched.orders) * share < ORDER_WITHIN_S, figures
    assert max(watched.asked) * share < ASKED_WITHIN_S, figures
    assert late[len(late) * 98 // 100] * share < STEP_LATE_S, figures
    assert grown < MORE_MEMORY, figures
    assert kept(folder) < FILE_BYTES * FILES


def kept(folder: Path) -> int:
    """Bytes of the audit log."""
    return sum(each.stat().st_size for each in folder.glob("audit.log*"))


@pytest.mark.parametrize("kind", FLOODS)
async def test_a_flood_holds_nobody_up(kind: str, tmp_path: Path) -> None:
    await flooded(kind, 2.0, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("kind", FLOODS)
async def test_a_flood_of_a_minute_holds_nobody_up(kind: str, tmp_path: Path) -> None:
    await flooded(kind, 60.0, tmp_path)
