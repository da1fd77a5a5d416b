"""A controller that no longer reaches any broker, beside a standby that reaches all of them."""

import asyncio
import os
import time
from contextlib import asynccontextmanager

from kazoo.client import KazooClient
from yard import znode

from lab.testbed.controller import ShunterController
from lab.testbed.simulated_brokers.seeding import seeded_yard
from lab.testbed.waiting import wait_until
from lab.testbed.zookeeper import ZooKeeperServer
from shunter.drivers.zookeeper.requests import Put
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.brokers import encode_broker
from shunter.model.settings import ControllerSettings

BROKERS = (1, 2, 3)
ISOLATED_AFTER_MS = ControllerSettings(1000).isolated_after_ms
OLD, NEW = 1000, 1001
ADDRESSES = {OLD: "127.0.0.50", NEW: "127.0.0.51"}
FROM_ADDRESS = """
import os, socket
connect = socket.socket.connect
def from_our_address(self, address):
    if self.family == socket.AF_INET:
        try:
            self.bind((os.environ["OUR_ADDRESS"], 0))
        except OSError:
            pass
    return connect(self, address)
socket.socket.connect = from_our_address
from shunter.cli import main
main()
"""


class FromAddress(ShunterController):
    """A controller whose connections come from an address of its own, so that a path can tell the two apart."""

    def _prepare(self, port):
        command = list(super()._prepare(port))
        at = command.index("-m")
        return [*command[:at], "-c", FROM_ADDRESS, *command[at + 2 :]]

    def _environment(self):
        return {**os.environ, "OUR_ADDRESS": ADDRESSES[self.broker_id]}


class Path:
    """The way to a broker, which drops all bytes to and from the addresses in `cut`, and breaks no connection."""

    cut: frozenset[str] = frozenset()

    def __init__(self, target):
        self._target = target
        self._pumps = set()

    async def open(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader, writer):
        address = writer.get_extra_info("peername")[0]
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        for source, target in ((reader, back), (there, writer)):
            pump = asyncio.create_task(self._pump(source, target, address))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, source, target, address):
        try:
            while data := await source.read(65_536):
                if address not in Path.cut:
                    target.write(data)
        except OSError:
            pass
        finally:
            target.close()

    async def close(self):
        self._server.close()
        for pump in tuple(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)


@asynccontextmanager
async def behind_paths(yard):
    """Register each broker at the beginning of its path."""
    paths = []
    try:
        for broker in yard.brokers.values():
            (endpoint,) = broker.registration.endpoints
            paths.append(Path(endpoint.port))
            at_path = broker.registration._replace(endpoints=(endpoint._replace(port=await paths[-1].open()),))
            data = encode_broker(at_path, timestamp_ms=int(time.time() * 1000))
            await yard.client.multi((Put(f"{znodes.BROKER_IDS}/{broker.id}", data, -1),))
        yield
    finally:
        Path.cut = frozenset()
        for path in paths:
            await path.close()


async def test_a_leader_that_reaches_no_broker_makes_room_for_one_that_does(tmp_path):
    """A broker that dies meanwhile: its partitions' new leaders are told, by whoever can tell them."""
    with ZooKeeperServer(tmp_path / "zookeeper") as server:
        async with seeded_yard(server.connect_string, BROKERS, topics=5, partitions_each=4) as yard, behind_paths(yard):
            options = ("--takeover", "standby", "--set", "control-request-timeout-ms=3000")
            old, new = (
                FromAddress(tmp_path / str(id_), server.connect_string, broker_id=id_, options=options)
                for id_ in (OLD, NEW)
            )
            client = KazooClient(server.connect_string)
            try:
                await asyncio.to_thread(old.start)
                new.launch()
                await asyncio.to_thread(client.start)
                await until(lambda: "standing by" in new.log_tail(200), "a standby", 30)
                await yard.quiet(1.0, 30)
                Path.cut = frozenset({ADDRESSES[OLD]})
                cut_s = time.monotonic()
                await yard.kill(3)

                def holder():
                    return (znode(client, znodes.CONTROLLER) or {}).get("brokerid")

                await until(lambda: holder() == NEW, "the standby leads", 2 * ISOLATED_AFTER_MS / 1000)
                waited_s = time.monotonic() - cut_s
                assert waited_s > ISOLATED_AFTER_MS / 1000, "a broker's restart would depose its controller"
                await yard.quiet(1.0, 30)
                assert await yard.differences() == [], "both live brokers know who leads"
                assert "we have reached none of 2 live brokers for 45 s" in old.log_tail(300)
                await until(lambda: "no broker of 2 can be reached" in old.log_tail(300), "it stands by", 30)
            finally:
                old.stop()
                new.stop()
                client.stop()
                client.close()


async def until(condition, what, seconds):
    await asyncio.to_thread(wait_until, condition, what=what, timeout_s=seconds)
