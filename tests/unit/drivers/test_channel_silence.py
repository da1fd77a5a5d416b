"""Connections to brokers that stop answering: proxies that drop bytes, addresses that do not answer, errors."""

import asyncio
import ctypes
import socket
import struct
from contextlib import asynccontextmanager

import pytest
from fake_broker import RANGES, FakeBroker
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from test_channels import World, topic, world

from shunter.core.controller.events import ConnectionChanged, RequestAnswered
from shunter.drivers.brokers.connection import addresses_of, connect_to_any
from shunter.model.broker import Broker, Endpoint

SO_ATTACH_FILTER = 26
"""Linux: Python has no name for it."""


class Proxy:
    """Forwards bytes in both directions, until `swallow` is set: then it reads them and forwards nothing.

    It acts like a firewall that forgot a flow, or a proxy whose other end is gone: TCP still acknowledges.
    """

    def __init__(self, port):
        self.target = port
        self.swallow = False
        self.connections = 0
        self.pumps = set()
        self.sockets = []

    def deafen(self):
        """Make the kernel drop all incoming bytes of the present connections without an acknowledgement."""
        drop_everything = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
        program = struct.pack("HP", 1, ctypes.addressof(drop_everything))
        for accepted in self.sockets:
            accepted.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)

    async def start(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self):
        self._server.close()
        for pump in self.pumps:
            pump.cancel()
        await asyncio.gather(*self.pumps, return_exceptions=True)

    async def _serve(self, reader, writer):
        self.connections += 1
        self.sockets.append(writer.get_extra_info("socket"))
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        self.pumps |= {
            asyncio.create_task(self._pump(reader, back)),
            asyncio.create_task(self._pump(there, writer)),
        }

    async def _pump(self, reader, writer):
        try:
            while data := await reader.read(65_536):
                if not self.swallow:
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


class Tickets:
    """Replaces a broker's `answering`: one answer for each ticket."""

    def __init__(self):
        self.semaphore = asyncio.Semaphore(0)

    async def wait(self):
        await self.semaphore.acquire()

    def give(self):
        self.semaphore.release()

    def set(self):
        for _ in range(100):
            self.give()


class Proxied:
    """A broker that is registered with its proxy's address."""

    def __init__(self, broker, proxy):
        self.id = broker.id
        self.broker = Broker(broker.id, broker.epoch, (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", proxy.port),))


@asynccontextmanager
async def proxied(**options):
    broker = await FakeBroker(1).start()
    proxy = await Proxy(broker.port).start()
    made = World([Proxied(broker, proxy)], **options)
    try:
        yield made, broker, proxy
    finally:
        await made.channels.close()
        await proxy.stop()
        await broker.stop()


def connections(made):
    return [event.reachable for event in made.events if isinstance(event, ConnectionChanged)]


async def until(made, condition, seconds=40):
    async with asyncio.timeout(seconds), made.changed:
        await made.changed.wait_for(condition)


async def test_a_connection_that_swallows_bytes_is_given_up_and_the_request_sent_again():
    async with proxied(request_seconds=2.0) as (made, broker, proxy):
        made.connect()
        await made.until_answered(1, made.update(topic()))
        proxy.swallow = True
        asked = made.update(topic(epoch=1)), made.lead(1, topic(epoch=1))
        await until(made, lambda: connections(made) == [False])
        assert made.channels.stats.timeouts == 1
        assert made.channels.stats.lost == 1
        proxy.swallow = False
        await made.until_answered(1, *asked)
        assert [heard.api_key for heard in broker.heard[-2:]] == [6, 4], "in their order, on another connection"
        assert connections(made) == [False, True]


async def test_a_broker_that_works_its_way_through_a_queue_is_in_time():
    """The time limit is per request, from the answer before it: five slow requests in a row do not exceed it."""
    async with world(request_seconds=4.0) as w:
        (broker,) = w.brokers
        broker.answering = Tickets()
        w.connect()
        ids = [w.lead(1, topic(epoch=n)) for n in range(5)]
        for number in range(1, 6):
            asyncio.get_running_loop().call_later(1.0 * number, broker.answering.give)
        await w.until_answered(1, *ids)
        assert w.channels.stats.timeouts == 0
        assert w.channels.stats.lost == 0


async def test_a_broker_that_does_not_listen_is_told_as_unreachable_and_as_reachable_again():
    async with world() as w:
        (broker,) = w.brokers
        await broker.stop()
        w.connect()
        asked = w.update(topic())
        await until(w, lambda: connections(w) == [False])
        assert w.events[0] == ConnectionChanged(1, 1, reachable=False)
        await broker.start()
        await w.until_answered(1, asked)
        assert connections(w) == [False, True]
        assert isinstance(w.events[-1], RequestAnswered)


async def test_a_connection_that_is_made_anew_at_once_is_no_news():
    async with world() as w:
        (broker,) = w.brokers
        w.connect()
        await w.until_answered(1, w.update(topic()))
        broker.cut()
        await w.until_answered(1, w.update(topic()))
        assert w.channels.stats.lost == 1
        assert connections(w) == []


async def test_a_broker_that_speaks_none_of_our_versions_is_out_of_reach_and_not_asked_all_the_time():
    async with world() as w:
        (broker,) = w.brokers
        broker.ranges = {18: (0, 4)}
        w.connect()
        w.update(topic())
        await until(w, lambda: connections(w) == [False])
        assert broker.connections < 30
        assert w.channels.stats.connections == 0
        broker.ranges = dict(RANGES)
        await w.until_answered(1, w.update(topic()))
        assert connections(w) == [False, True]


async def test_a_broker_whose_answers_can_not_be_read_is_asked_again_with_pauses():
    async with world() as w:
        (broker,) = w.brokers
        broken = asyncio.Event()

        def answer(_, version):
            broken.set()
            return load_response_schema(5, 4)(error_code=ErrorCode.none, partition_errors=())

        broker.relayed[6] = answer
        w.connect()
        asked = w.update(topic())
        await asyncio.wait_for(broken.wait(), 40)
        with pytest.raises(TimeoutError):
            await w.until_answered(2, 0, seconds=1)
        assert 1 <= broker.connections < 30
        del broker.relayed[6]
        await w.until_answered(1, asked)


async def test_errors_in_answers_are_counted_by_api_and_kind():
    async with world() as w:
        (broker,) = w.brokers
        answers = broker.relayed
        answers[6] = lambda _, version: load_response_schema(6, version)(
            error_code=ErrorCode.cluster_authorization_failed
        )
        w.connect()
        await w.until_answered(1, w.update(topic()), w.update(topic()), w.lead(1, topic()))
        assert w.channels.stats.errors == {(6, "CLUSTER_AUTHORIZATION_FAILED", "request"): 2}


async def test_every_address_of_a_name_is_tried(free_port):
    async with world() as w:
        (broker,) = w.brokers
        nobody = (socket.AF_INET, ("127.0.0.1", free_port))
        somebody = (socket.AF_INET, ("127.0.0.1", broker.port))
        with await connect_to_any((nobody, somebody)) as connected:
            assert connected.getpeername() == ("127.0.0.1", broker.port)
        with pytest.raises(ConnectionError) as refused:
            await connect_to_any((nobody, nobody))
        assert str(refused.value).count("127.0.0.1") >= 2, "what each of them said"


async def test_an_address_that_is_silent_leaves_time_for_the_next():
    """A full backlog: the kernel drops new connections, as a firewall does."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = listening.getsockname()
        filling = []
        try:
            for _ in range(8):
                each = socket.socket()
                each.setblocking(False)
                each.connect_ex(address)
                filling.append(each)
            async with world() as w, asyncio.timeout(40):
                somebody = (socket.AF_INET, ("127.0.0.1", w.brokers[0].port))
                with await connect_to_any(((socket.AF_INET, address), somebody)) as connected:
                    assert connected.getpeername()[1] in {w.brokers[0].port, address[1]}
        finally:
            for each in filling:
                each.close()


async def test_a_name_has_all_the_addresses_that_the_system_knows():
    found = await addresses_of(Endpoint("PLAINTEXT", "PLAINTEXT", "localhost", 9092))
    known = {(each[0], each[4][:2]) for each in socket.getaddrinfo("localhost", 9092, type=socket.SOCK_STREAM)}
    assert {(family, address[:2]) for family, address in found} == known
    six = await addresses_of(Endpoint("PLAINTEXT", "PLAINTEXT", "::1", 9092))
    assert six == ((socket.AF_INET6, ("::1", 9092)),)


async def test_a_peer_that_acknowledges_nothing_is_given_up():
    """A firewall that forgot the flow drops segments. The request is sent again on another connection."""
    async with proxied(request_seconds=1.0) as (made, _, proxy):
        made.connect()
        await made.until_answered(1, made.update(topic()))
        proxy.deafen()
        await made.until_answered(1, made.update(topic(epoch=1)), seconds=60)
        assert proxy.connections >= 2
        assert made.channels.stats.timeouts >= 1


@pytest.mark.long
async def test_a_busy_broker_that_reads_nothing_for_long_keeps_its_connection():
    """The broker's window is full. TCP_USER_TIMEOUT would end the connection, and the next one, and so on."""
    async with world() as w:
        (broker,) = w.brokers
        broker.keep_bodies = False
        w.connect()
        await w.until_answered(1, w.update(topic()))
        broker.reading.clear()
        asked = [w.lead(1, *(topic(f"t{n}", 500, identity=n + 1) for n in range(200))) for _ in range(3)]
        with pytest.raises(TimeoutError):
            await w.until_answered(1, asked[-1], seconds=15)
        assert w.channels.stats.lost == 0
        broker.reading.set()
        await w.until_answered(1, *asked, seconds=60)
        assert w.channels.stats.connections == 1
