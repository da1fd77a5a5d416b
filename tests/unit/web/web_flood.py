"""A process that floods an HTTP port without a token, until its standard input ends.

Usage: python web_flood.py KIND PORT CONNECTIONS. It prints how often a request or connection came to its end.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

PAUSE_SECONDS = 0.5
FROM = "127.0.0.2"
"""The flood's own address, so that people have another one."""
Flood = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def head(method: str, path: str, *more: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *more, "", ""]).encode()


async def connections(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Connect, and leave at once."""


async def idle(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Connect, and say nothing."""
    await reader.read()


async def heads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send a head without end, a little at a time and as much as possible in turn."""
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
    for number in range(1_000):
        writer.write(b"x-%d: %s\r\n" % (number, b"y" * (number % 500)))
        await writer.drain()
        if number % 50 == 0 and (got := await _soon(reader)) is not None:
            return await _answer(reader, got)
    return None


async def many_headers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send a head of as many headers as fit."""
    writer.write(head("GET", "/api/v1/fleet", *["a:"] * 3_900))
    await _answer(reader, b"")


async def pipelined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Ask for the same thing a hundred times before the first answer."""
    writer.write(head("GET", "/api/v1/fleet") * 100)
    await _answer(reader, b"")


async def bodies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send an order with a large body."""
    size = 8_000_000
    writer.write(head("POST", "/api/v1/clusters/prod-eu/pause", f"Content-Length: {size}"))
    for _ in range(0, size, 100_000):
        writer.write(b"{" * 100_000)
        await writer.drain()
    await _answer(reader, b"")


async def sign_ins(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sign in with a wrong token."""
    body = b'{"token": "shunter_guessed"}'
    more = (f"Content-Length: {len(body)}", "Content-Type: application/json", "Origin: http://localhost")
    writer.write(head("POST", "/api/v1/session", *more) + body)
    await _answer(reader, b"")


async def documents(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Ask for the largest thing that needs no token."""
    writer.write(head("GET", "/api/v1/openapi.json"))
    await _answer(reader, b"")


async def streams(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Ask for the events."""
    writer.write(head("GET", "/api/v1/events"))
    await _answer(reader, b"")


async def _soon(reader: asyncio.StreamReader) -> bytes | None:
    with suppress(TimeoutError):
        async with asyncio.timeout(PAUSE_SECONDS):
            return await reader.read(1)
    return None


async def _answer(reader: asyncio.StreamReader, got: bytes) -> None:
    async with asyncio.timeout(PAUSE_SECONDS):
        while got := await reader.read(65_536):
            if b"\r\n\r\n" in got:
                return


FLOODS: dict[str, Flood] = {
    each.__name__.replace("_", "-"): each
    for each in (connections, idle, heads, many_headers, pipelined, bodies, sign_ins, documents, streams)
}


async def client(flood: Flood, port: int, count: list[int]) -> None:
    while True:
        with suppress(OSError, EOFError, TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(FROM, 0))
            try:
                await flood(reader, writer)
            finally:
                writer.transport.abort()
                count[0] += 1


async def main(kind: str, port: int, connections: int) -> None:
    count = [0]
    clients = [asyncio.create_task(client(FLOODS[kind], port, count)) for _ in range(connections)]
    print("floods", flush=True)
    await asyncio.to_thread(sys.stdin.buffer.read)
    for each in clients:
        each.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    print(count[0], flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
