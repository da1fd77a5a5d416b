"""The service's UNIX socket for commands on the same host. The file's mode says who may ask; the kernel says who asks.

Each connection has one request and one answer; each is a line of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson

from shunter.errors import DriverError

MOST_BYTES = 64 * 1024 * 1024
"""The longest answer: the moves of a large plan."""
ASKED_WITHIN_S = 10.0
MOST_PATH = 107
"""The longest path of a socket on Linux, without its zero byte (`sun_path`, unix(7))."""

Answering = Callable[[Any, str], Awaitable[Any]]
"""(request, name of the user) -> answer."""


@contextlib.asynccontextmanager
async def open_door(path: Path, answering: Answering) -> AsyncIterator[None]:
    """Answer requests by this socket, whose file only its owner may open. Pre: no other process serves this folder.

    Raises:
        DriverError: the socket can't be created there.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, TimeoutError, ValueError, asyncio.LimitOverrunError):
                async with asyncio.timeout(ASKED_WITHIN_S):
                    line = await reader.readline()
                if line:
                    writer.write(orjson.dumps(await answering(orjson.loads(line), _user(writer))) + b"\n")
                    await writer.drain()
        finally:
            writer.close()

    if len(os.fsencode(path)) > MOST_PATH:
        rule = f"a socket's path has at most {MOST_PATH} bytes: name a shorter --state-dir"
        raise DriverError(f"{path}: has {len(os.fsencode(path))} bytes, and {rule}", retriable=False)
    try:
        await asyncio.to_thread(path.unlink, missing_ok=True)
        made = os.umask(0o177)
        try:
            server = await asyncio.start_unix_server(answer, path, limit=1024 * 1024)
        finally:
            os.umask(made)
    except OSError as error:
        raise DriverError(f"{path}: can't be listened on: {error}", retriable=False) from error
    try:
        async with server:
            yield
    finally:
        await asyncio.to_thread(path.unlink, missing_ok=True)


def _user(writer: asyncio.StreamWriter) -> str:
    """Return the user at the other end, from the kernel."""
    link: socket.socket = writer.get_extra_info("socket")
    _process, user, _group = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


async def ask_at_door(path: Path, request: object, within_s: float = 60.0) -> Any:
    """Ask the service at this socket.

    Raises:
        DriverError: no service serves there, it belongs to another user, or there is no answer.
    """
    try:
        asked = orjson.dumps(request) + b"\n"
    except TypeError as error:  # The command line had bytes that are not UTF-8.
        raise DriverError(f"this can't be asked: {error}", retriable=False) from error
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_unix_connection(path, limit=MOST_BYTES)
            try:
                writer.write(asked)
                line = await reader.readline()
            finally:
                writer.close()
    except (FileNotFoundError, ConnectionRefusedError) as error:
        told = f"no service serves at {path}: start `shunter serve FILE`, or name another by --service"
        raise DriverError(told, retriable=True) from error
    except PermissionError as error:
        raise DriverError(f"{path}: the service belongs to another user: {error.strerror}", retriable=False) from error
    except (OSError, TimeoutError) as error:
        raise DriverError(f"{path}: no answer: {error}", retriable=True) from error
    if not line:
        raise DriverError(f"{path}: the service ended before it answered", retriable=True)
    return orjson.loads(line)
