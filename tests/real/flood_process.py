"""A process with connections that send a controller every kind of request, without end.

Usage: python flood_process.py PORT CONNECTIONS; it ends when its standard input does. Closed connections are reopened.
Every fifth connection never reads, every seventh says that it is broker 1, every eleventh sends half a request.
"""

import asyncio
import os
import struct
import sys
from contextlib import suppress

from kio.index import load_request_schema

from shunter.drivers.listener.handlers.messages import filled
from shunter.wire.framing import request_frame_head
from shunter.wire.requests import encode_message

PAUSE_SECONDS = 0.2


def encoded(api_key: int, version: int, client_id: str, **values: object) -> bytes:
    body = encode_message(filled(load_request_schema(api_key, version), values))
    return request_frame_head(api_key, version, 1, client_id, len(body)) + body


async def pause() -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(PAUSE_SECONDS):
            await asyncio.Event().wait()


async def client(port: int, number: int) -> None:
    name = "1" if number % 7 == 0 else "flood"
    software = {"client_software_name": "x", "client_software_version": "1"}
    asked = [
        encoded(18, 3, name, **software),
        encoded(3, 12, name, topics=None),
        encoded(60, 0, name),
        encoded(67, 0, name, broker_id=1, broker_epoch=12),
    ]
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                for turn in range(1_000_000):
                    request = asked[turn % len(asked)]
                    if number % 11 == 0:
                        request = request[:10]
                    writer.write(request)
                    if number % 5 == 0:
                        await pause()
                        continue
                    (size,) = struct.unpack(">i", await reader.readexactly(4))
                    await reader.readexactly(size)
            finally:
                writer.transport.abort()
        except (OSError, EOFError):
            await pause()


async def main(port: int, connections: int) -> None:
    tasks = [asyncio.create_task(client(port, number)) for number in range(connections)]
    print("flooding", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    os.nice(10)
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
