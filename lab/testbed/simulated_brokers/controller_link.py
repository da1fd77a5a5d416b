"""A connection to the present controller, as a broker or a tool has it."""

from __future__ import annotations

import asyncio
import struct

from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.errors import DriverError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.brokers import decode_broker, decode_controller
from shunter.model.broker import Endpoint
from shunter.wire.framing import read_response_head, request_frame_head, response_header_version


async def find_controller(client: ZooKeeperClient) -> Endpoint:
    """The controller's endpoint.

    Raises:
        DriverError: there is no controller now; try again.
    """
    registered = await client.get(znodes.CONTROLLER)
    if registered is None:
        raise DriverError("there is no controller", retriable=True)
    broker_id = decode_controller(registered.data).broker
    broker = await client.get(f"{znodes.BROKER_IDS}/{broker_id}")
    if broker is None:
        raise DriverError(f"controller {broker_id} is not registered as a broker", retriable=True)
    return decode_broker(str(broker_id), broker.data, broker.czxid).endpoints[0]


class ControllerLink:
    """Sends one request at a time. It connects at the first one, and again after an error."""

    def __init__(self, client: ZooKeeperClient, client_id: str) -> None:
        self._client = client
        self._client_id = client_id
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._correlation_id = 0

    async def ask(self, api_key: int, version: int, body: bytes) -> memoryview:
        """Send a request and return its response's body.

        Raises:
            OSError, EOFError, DriverError: the controller is gone or absent; the next call connects again.
        """
        try:
            return await self._ask(api_key, version, body)
        except BaseException:
            self.close()
            raise

    async def _ask(self, api_key: int, version: int, body: bytes) -> memoryview:
        if self._streams is None:
            endpoint = await find_controller(self._client)
            self._streams = await asyncio.open_connection(endpoint.host, endpoint.port)
        reader, writer = self._streams
        self._correlation_id += 1
        writer.write(request_frame_head(api_key, version, self._correlation_id, self._client_id, len(body)) + body)
        await writer.drain()
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        payload = memoryview(await reader.readexactly(size))
        header_version = response_header_version(api_key, version)
        assert header_version is not None, f"API {api_key} v{version} is known"
        correlation_id, offset = read_response_head(payload, header_version)
        if correlation_id != self._correlation_id:
            raise EOFError(f"an answer to request {correlation_id} where {self._correlation_id} is due")
        return payload[offset:]

    def close(self) -> None:
        """Drop the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
