"""The listener's loop: tiers of sockets, watches, the request queue, and each client's share of the room."""

import asyncio
import socket
import struct
import subprocess
import sys
from contextlib import asynccontextmanager, suppress

import pytest
from rpc_world import RawClient, RpcWorld, partition, rpc_world, topic

from shunter.core.controller.events import ProducerIdsRequested
from shunter.core.controller.ready import ProducerIdsReply
from shunter.drivers.listener import request_queue as desk_module
from shunter.drivers.listener.admission import PeerKind
from shunter.drivers.listener.fair_selector import FairSelector
from shunter.drivers.listener.gate import ListenerGate
from shunter.drivers.listener.handshakes import Handshakes
from shunter.drivers.listener.request_queue import RequestQueue
from shunter.drivers.listener.server import RpcServer, parse_listener
from shunter.drivers.listener.shares import Share, Shares
from shunter.drivers.listener.watched_socket import WatchedSocket
from shunter.errors import ErrorCode
from shunter.model.security.listeners import ListenerSecurity, SaslSettings, Secret, SecurityProtocol
from shunter.model.settings import WireLimits

LOCAL, OTHER = "127.0.0.1", "127.0.0.2"
USERS = {"ann": Secret("a"), "bob": Secret("b")}
PLAIN = ListenerSecurity(SecurityProtocol.SASL_PLAINTEXT, sasl=SaslSettings(("PLAIN",), USERS))


@pytest.fixture
def pairs():
    made = [socket.socketpair() for _ in range(101)]
    yield made
    for pair in made:
        for one in pair:
            one.close()


def test_of_many_in_the_second_tier_some_are_told_in_turns_and_the_first_always(pairs):
    selector = FairSelector()
    selector.at_most = 8
    for ours, theirs in pairs[1:]:
        selector.set_back(ours.fileno())
        selector.register(ours, 1, "client")
        theirs.send(b"x")
    ours, theirs = pairs[0]
    selector.register(ours, 1, "broker")
    theirs.send(b"x")
    seen = set()
    for _ in range(13):
        ready = selector.select(0)
        assert [key.data for key, _ in ready].count("broker") == 1
        assert len(ready) <= 9
        seen |= {key.fd for key, _ in ready}
    assert seen == {ours.fileno() for ours, _ in pairs}
    assert set(selector.get_map()) >= seen
    selector.close()


def test_a_socket_moves_forward_with_its_registration(pairs):
    selector = FairSelector()
    ours, theirs = pairs[0]
    selector.register(ours, 1, "before")
    selector.set_back(ours.fileno())
    assert selector.get_key(ours.fileno()).data == "before"
    selector.modify(ours, 3, "after")
    selector.set_forward(ours.fileno())
    selector.at_most = 1
    theirs.send(b"x")
    assert [(key.data, events) for key, events in selector.select(0)] == [("after", 3)]
    with pytest.raises(KeyError):
        selector.register(ours, 1)
    selector.unregister(ours)
    assert selector.select(0) == []
    with pytest.raises(KeyError):
        selector.unregister(ours)
    selector.close()


def test_an_event_loop_runs_on_it():
    selector = FairSelector()

    async def main():
        async def echo(reader, writer):
            selector.set_back(writer.get_extra_info("socket").fileno())
            writer.write(await reader.readexactly(100_000))
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def ask():
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(bytes(100_000))
            answer = await reader.read(-1)
            writer.close()
            return len(answer)

        assert await asyncio.gather(*(ask() for _ in range(40))) == [100_000] * 40
        server.close()

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(main())


FILES = """
import resource
from shunter.drivers.host.file_limits import make_room
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(*make_room(2_000), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "told"),
    [
        (4_096, 4_096, "4096 4096 2000 4096 4096"),
        (256, 4_096, "3024 256 2000 3024 4096"),
        (256, 2_000, "2000 256 1000 2000 2000"),
        (64, 64, "64 64 32 64 64"),
    ],
)
def test_the_limit_on_open_files_is_raised_as_far_as_it_may_be(soft, hard, told):
    script = FILES.format(soft=soft, hard=hard)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == told


@pytest.fixture
async def ends():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    watched = WatchedSocket(ours)
    yield watched, ours, theirs
    watched.close()
    theirs.close()


def _is_watched(fd):
    try:
        asyncio.get_running_loop()._selector.get_key(fd)
    except KeyError:
        return False
    return True


async def _passes(count):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_answers_are_received_one_after_another_by_one_watch(ends, monkeypatch):
    watched, _, theirs = ends
    loop = asyncio.get_running_loop()
    begun = []
    begin = loop.add_reader
    monkeypatch.setattr(loop, "add_reader", lambda *args: (begun.append(args[0]), begin(*args)))
    for number in range(20):
        reading = asyncio.create_task(watched.receive(100))
        await _passes(2)
        theirs.send(b"%d" % number)
        assert await reading == b"%d" % number
    assert len(begun) == 1


async def test_the_watch_ends_while_nobody_reads_and_nothing_is_lost(ends):
    watched, ours, theirs = ends
    reading = asyncio.create_task(watched.receive(100))
    await _passes(2)
    theirs.send(b"first")
    await reading
    theirs.send(b"second")
    await _passes(3)
    assert not _is_watched(ours.fileno())
    assert await watched.receive(100) == b"second"
    reading = asyncio.create_task(watched.receive(100))
    await _passes(2)
    theirs.send(b"third")
    assert await reading == b"third"


async def test_a_read_that_was_cancelled_leaves_the_bytes_to_the_next(ends):
    watched, _, theirs = ends
    reading = asyncio.create_task(watched.receive(100))
    await _passes(2)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    theirs.send(b"late")
    await _passes(3)
    assert await watched.receive(100) == b"late"


async def test_the_end_of_the_stream_is_told(ends):
    watched, _, theirs = ends
    reading = asyncio.create_task(watched.receive(100))
    await _passes(2)
    theirs.close()
    assert await reading == b""


async def test_the_next_socket_of_the_same_number_is_heard():
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    number = ours.fileno()
    watched = WatchedSocket(ours)
    reading = asyncio.create_task(watched.receive(1))
    await _passes(2)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    watched.close()
    watched.close()
    theirs.close()
    successor, other = socket.socketpair()
    with successor, other:
        assert successor.fileno() == number
        successor.setblocking(False)
        other.send(b"x")
        assert await asyncio.wait_for(loop.sock_recv(successor, 1), 5) == b"x"


async def test_more_than_the_kernel_takes_is_sent_whole(ends):
    watched, _, theirs = ends
    data = bytes(range(256)) * 40_000
    sending = asyncio.create_task(watched.send(data))
    loop = asyncio.get_running_loop()
    received = bytearray()
    while len(received) < len(data):
        received += await loop.sock_recv(theirs, 1 << 20)
    await sending
    assert received == data


class Client:
    """One connection with requests that are ready; the request queue calls it when one may begin."""

    def __init__(self, share: Share, queue: RequestQueue) -> None:
        self.share = share
        self.queue = queue
        self.turns = 0

    def take_turn(self) -> None:
        self.turns += 1
        self.queue.began(self.share, broker=False)
        self.queue.ended(self.share, broker=False)

    def write_on(self) -> None:
        raise AssertionError("nothing is written")


def shop() -> tuple[RequestQueue, Client, Share]:
    shares = Shares(WireLimits())
    queue = RequestQueue(10, lambda: True, FairSelector())
    return queue, Client(shares.enter("client"), queue), shares.enter("broker")


async def passes(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_no_client_is_served_while_a_broker_waits_for_its_answer():
    queue, client, broker = shop()
    queue.began(broker, broker=True)
    queue.queue(client, quick=True)
    queue.queue(client, quick=False)
    await passes()
    assert client.turns == 0
    queue.ended(broker, broker=True)
    await passes()
    assert client.turns == 2


async def test_what_was_about_to_begin_waits_as_well():
    queue, client, broker = shop()
    queue.queue(client, quick=False)
    queue.began(broker, broker=True)
    await passes()
    assert client.turns == 0
    queue.ended(broker, broker=True)
    await passes()
    assert client.turns == 1


async def test_a_broker_that_waits_for_long_holds_clients_up_for_a_moment(monkeypatch):
    monkeypatch.setattr(desk_module, "ALONE_SECONDS", 0.01)
    queue, client, broker = shop()
    queue.began(broker, broker=True)
    queue.queue(client, quick=False)
    async with asyncio.timeout(40):
        await queue.give_way()
    await passes()
    assert client.turns == 1
    assert queue.brokers == 1, "the broker has no answer yet"


async def test_after_a_brokers_turn_clients_have_theirs_however_much_brokers_ask(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(desk_module.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(desk_module, "ALONE_SECONDS", 1_000.0)
    queue, client, broker = shop()
    queue.began(broker, broker=True)
    now[0] += 3
    queue.ended(broker, broker=True)
    queue.queue(client, quick=False)
    now[0] += 0.9
    queue.began(broker, broker=True)
    await passes()
    assert client.turns == 1, "a third of the broker's three seconds are the clients'"
    queue.ended(broker, broker=True)
    now[0] += 0.2
    queue.began(broker, broker=True)
    queue.queue(client, quick=False)
    await passes()
    assert client.turns == 1, "and then brokers have their turn again"
    queue.ended(broker, broker=True)


async def test_a_request_in_slices_goes_on_after_the_broker():
    queue, _, broker = shop()
    queue.began(broker, broker=True)
    slice_of_work = asyncio.ensure_future(queue.give_way())
    given_up = asyncio.ensure_future(queue.give_way())
    await passes()
    assert not slice_of_work.done()
    given_up.cancel()
    queue.ended(broker, broker=True)
    async with asyncio.timeout(40):
        await slice_of_work
    async with asyncio.timeout(40):
        await queue.give_way()


def test_while_it_is_held_a_selector_tells_of_no_client_and_of_nobody_who_comes():
    selector = FairSelector()
    broker, client = socket.socketpair(), socket.socketpair()
    admission = socket.create_server(("127.0.0.1", 0))
    selector.set_back(client[0].fileno())
    selector.set_aside(admission.fileno())
    for ours, name in ((broker[0], "broker"), (client[0], "client"), (admission, "door")):
        selector.register(ours, 1, name)
    newcomer = socket.create_connection(admission.getsockname())
    broker[1].send(b"x")
    client[1].send(b"x")
    assert sorted(key.data for key, _ in selector.select(5)) == ["broker", "client", "door"]
    selector.hold(held=True)
    selector.hold(held=True)
    assert [key.data for key, _ in selector.select(5)] == ["broker"]
    assert set(selector.get_map()) >= {client[0].fileno(), admission.fileno()}
    selector.modify(client[0], 1, "known by another name")
    selector.hold(held=False)
    assert sorted(key.data for key, _ in selector.select(5)) == ["broker", "door", "known by another name"]
    for one in (broker[0], client[0], admission):
        selector.unregister(one)
    assert selector.select(0) == []
    selector.close()
    for one in (*broker, *client, admission, newcomer):
        one.close()


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
