"""The share that one principal or one address may take of the clients' room; and the order of handshakes."""

from __future__ import annotations

import asyncio
import struct
from contextlib import asynccontextmanager, suppress

import pytest
from rpc_world import RawClient, RpcWorld, partition, rpc_world, topic

from shunter.core.controller.events import ProducerIdsRequested
from shunter.core.controller.ready import ProducerIdsReply
from shunter.drivers.listener.admission import PeerKind
from shunter.drivers.listener.gate import ListenerGate
from shunter.drivers.listener.handshakes import Handshakes
from shunter.drivers.listener.server import RpcServer, parse_listener
from shunter.errors import ErrorCode
from shunter.model.security.listeners import ListenerSecurity, SaslSettings, Secret, SecurityProtocol
from shunter.model.settings import WireLimits

LOCAL, OTHER = "127.0.0.1", "127.0.0.2"
USERS = {"ann": Secret("a"), "bob": Secret("b")}
PLAIN = ListenerSecurity(SecurityProtocol.SASL_PLAINTEXT, sasl=SaslSettings(("PLAIN",), USERS))


async def until(condition):
    async with asyncio.timeout(40):
        while not condition():  # noqa: ASYNC110 - many things make the conditions true
            await asyncio.sleep(0)


@asynccontextmanager
async def login_world(limits):
    """A server with a login."""
    world = RpcWorld()
    server = RpcServer(world.node, limits, gate_of=lambda name: ListenerGate(name, PLAIN))
    world.server = server
    world.listeners = await server.listen([parse_listener("PEOPLE://127.0.0.1:0")])
    try:
        yield world
    finally:
        await world.close()


async def as_user(w, user, source=LOCAL):
    client = await w.client(source=source)
    await client.ask(17, 1, mechanism="PLAIN")
    await client.ask(36, 2, auth_bytes=f"\0{user}\0{user[0]}".encode())
    return client


def wait_for_ever(client: RawClient):
    """Send a request that the core does not answer."""
    client.send(67, 0, broker_id=5, broker_epoch=5)


async def test_a_principal_has_so_many_connections_from_wherever_they_come():
    async with login_world(WireLimits(max_connections=4)) as w:
        for source in (LOCAL, OTHER):
            wait_for_ever(await as_user(w, "ann", source))
        await w.core.until_asked(2)
        late = await w.client()
        await late.ask(17, 1, mechanism="PLAIN")
        late.send(36, 2, auth_bytes=b"\0ann\0a")
        assert await late.closed()
        assert w.server.stats.refused == {"max.connections.per.principal": 1}
        assert (await (await as_user(w, "bob")).ask(60, 0)).error_code == 0
        assert w.server.count(PeerKind.CLIENT) == 3


async def test_the_idlest_connection_of_a_principal_goes_for_its_next():
    async with login_world(WireLimits(max_connections=2)) as w:
        first, of_bob = await as_user(w, "ann"), await as_user(w, "bob")
        for peer in w.server.resources.admission.everybody():
            peer.last_active -= 5.0
        second = await as_user(w, "ann")
        assert await first.closed()
        for client in (second, of_bob):
            assert (await client.ask(60, 0)).error_code == 0


async def test_a_principal_has_its_share_of_what_is_begun_and_no_more():
    async with login_world(WireLimits(queued_max_requests=4)) as w:
        w.server.resources.queue.most_quick = 0
        for source in (LOCAL, OTHER, LOCAL, OTHER):
            wait_for_ever(await as_user(w, "ann", source))
        await until(lambda: w.server.resources.queue.waiting == 2)
        assert len(w.core.events) == 2
        of_bob = await as_user(w, "bob")
        assert (await of_bob.ask(60, 0)).error_code == 0
        for event in tuple(w.core.events):
            w.core.callers.resolve(event.reply_to, ProducerIdsReply(ErrorCode.NONE, 7, 1))
        await w.core.until_asked(4)


async def test_an_address_that_does_not_read_its_answers_keeps_nobody_else_waiting():
    async with rpc_world(WireLimits(queued_max_answer_bytes=40_000_000, client_share_percent=1)) as w:
        w.add_broker(1)
        for number in range(200):
            w.add_topic(topic(f"topic-{number}", number + 1, *[partition([1, 2, 3], 1)] * 100))
        deaf = await w.client(receive=4_096)
        deaf.send(3, 12, topics=None)
        share = next(iter(w.server.resources.admission.everybody())).share
        await until(lambda: share.answers.full)
        more = await w.client()
        more.send(3, 12, topics=())
        await until(lambda: w.server.resources.queue.waits(share))
        assert (await (await w.client(source=OTHER)).ask(3, 12, topics=())).brokers
        assert w.server.resources.queue.waits(share)
        assert w.server.resources.pressed_for(share), "whoever does not read goes sooner for those of its own address"


async def test_large_requests_of_one_address_wait_for_one_another_and_for_nobody_else():
    size = 60_000
    frame = struct.pack(">i", size) + bytes(size // 2)
    async with rpc_world(WireLimits(queued_max_request_bytes=100_000)) as w:
        first, second = [await w.client() for _ in range(2)]
        first.writer.write(frame)
        share = next(iter(w.server.resources.admission.everybody())).share
        await until(lambda: share._reserved > 0)
        second.writer.write(frame)
        await until(lambda: share._waiting)
        names = [{"name": f"{number}-{'x' * 100}"} for number in range(300)]
        assert (await (await w.client(source=OTHER)).ask(3, 12, topics=names)).topics
        assert share._waiting
        first.writer.transport.abort()
        await until(lambda: not share._waiting)
        second.writer.transport.abort()
        await until(lambda: w.server.count(PeerKind.CLIENT) <= 1)
        assert share._reserved == 0


async def test_nothing_is_left_of_those_who_have_gone():
    async with login_world(WireLimits()) as w:
        clients = [await as_user(w, user, source) for user in USERS for source in (LOCAL, OTHER)]
        assert len(w.server.resources.shares) == 2
        for client in clients:
            client.writer.transport.abort()
        await until(lambda: w.server.count(PeerKind.CLIENT) == 0)
        assert len(w.server.resources.shares) == 0
        assert not w.server.resources.admission._by_principal


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
async def turns():
    """Ask for turns; return the order in which they come."""
    clock, order, tasks = Clock(), [], []
    handshakes = Handshakes(1, lambda address: address == "broker", clock)

    async def ask(address, gone):
        await handshakes.turn(address, lambda: address in gone)
        if address not in gone:
            order.append(address)

    def begin(*addresses, gone=()):
        tasks.extend(asyncio.create_task(ask(address, gone)) for address in addresses)

    yield begin, order, clock
    handshakes.close()
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_handshakes_begin_one_of_each_address_in_turn_and_brokers_beside_them(turns):
    begin, order, clock = turns
    begin("flood", "flood", "flood", "flood", "ann", "bob", "broker")
    await until(lambda: len(order) == 2)
    assert order == ["flood", "broker"], "nobody else has a turn in this second"
    for expected in ("flood", "ann", "bob", "flood", "flood"):
        before = len(order)
        clock.now += 1.0
        await until(lambda before=before: len(order) > before)
        assert order[-1] == expected
    assert len(order) == 7


async def test_whoever_has_gone_uses_no_turn(turns):
    begin, order, clock = turns
    begin("first", "gone", "gone", "last", gone={"gone"})
    await until(lambda: order == ["first"])
    clock.now += 1.0
    await until(lambda: order == ["first", "last"])


async def test_whoever_waits_in_vain_for_a_handshake_is_told_of_in_the_log():
    async with login_world(WireLimits(handshakes_per_second=1, peer_timeout_ms=100)) as w:
        for _ in range(20):
            await w.client()
        await until(lambda: w.server.stats.refused.get("handshakes", 0) > 0)


async def test_plaintext_listeners_know_no_handshakes():
    async with rpc_world(WireLimits(handshakes_per_second=1)) as w:
        w.core.answers[ProducerIdsRequested] = lambda event: ProducerIdsReply(ErrorCode.NONE, 7, 1)
        for client in [await w.client() for _ in range(20)]:
            await client.ask(3, 12, topics=())
        assert w.server.stats.refused == {}
