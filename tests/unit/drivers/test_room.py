"""Room for brokers: however many clients connect, and whatever they do, a broker is let in, read and answered."""

import asyncio
import logging
import resource
import socket
import struct
import time
from uuid import UUID

import pytest
from rpc_world import partition, rpc_world, topic

from shunter.core.controller.events import AlterPartitionReceived, ProducerIdsRequested
from shunter.core.controller.ready import AlterPartitionReply, ProducerIdsReply
from shunter.drivers.listener.admission import ANTEROOM, CONNECTIONS_PER_BROKER, PeerKind
from shunter.drivers.listener.connection import PRESSED_SECONDS
from shunter.drivers.listener.request_queue import MOST_QUICK
from shunter.drivers.listener.server_stats import LINES_AT_ONCE, QUIET_SECONDS, ServerStats
from shunter.errors import ErrorCode
from shunter.model.settings import WireLimits

LOCAL, OTHER = "127.0.0.1", "127.0.0.2"


def with_a_broker(w, number=1, epoch=77):
    w.add_broker(number)
    w.state.brokers[number] = w.state.brokers[number]._replace(epoch=epoch)
    w.core.answers[AlterPartitionReceived] = lambda event: AlterPartitionReply(ErrorCode.NONE, {})
    w.core.answers[ProducerIdsRequested] = lambda event: ProducerIdsReply(ErrorCode.NONE, 7, 1)


async def ask_as_broker(client, number=1, epoch=77):
    return await client.ask(67, 0, broker_id=number, broker_epoch=epoch)


def large_cluster(w, topics=200, partitions=100):
    w.add_broker(1)
    for number in range(topics):
        w.add_topic(topic(f"topic-{number}", number + 1, *[partition([1, 2, 3], 1)] * partitions))


async def until(condition):
    async with asyncio.timeout(40):
        while not condition():  # noqa: ASYNC110 - many things make the conditions true
            await asyncio.sleep(0)


# Admission.


async def test_where_clients_have_no_room_a_broker_has():
    async with rpc_world(WireLimits(max_connections=3)) as w:
        with_a_broker(w)
        clients = [await w.client() for _ in range(3)]
        for client in clients:
            await client.ask(3, 12, topics=())
        late = await w.client()
        late.send(3, 12, topics=())
        assert await late.closed()
        assert w.server.stats.refused == {"max.connections": 1}
        broker = await w.client()
        assert int((await ask_as_broker(broker)).error_code) == 0
        assert [w.server.count(kind) for kind in (PeerKind.CLIENT, PeerKind.NEWCOMER, PeerKind.BROKER)] == [3, 0, 1]
        for client in clients:
            await client.ask(3, 12, topics=())


async def test_a_broker_says_who_it_is_by_its_client_id_until_it_has_proved_it():
    async with rpc_world(WireLimits(max_connections=1)) as w:
        with_a_broker(w)
        first = await w.client()
        await first.ask(3, 12, topics=())
        broker = await w.client()
        broker.client_id = "1"
        await broker.ask(18, 3, client_software_name="apache-kafka-java", client_software_version="3.9.1")
        assert w.server.count(PeerKind.NEWCOMER) == 1
        await ask_as_broker(broker)
        assert (w.server.count(PeerKind.NEWCOMER), w.server.count(PeerKind.BROKER)) == (0, 1)


@pytest.mark.parametrize(("number", "epoch"), [(1, 76), (1, 78), (1, -1), (2, 77), (9, -1), (9, 90)])
async def test_who_does_not_know_the_epoch_is_no_broker(number, epoch):
    async with rpc_world() as w:
        with_a_broker(w)
        pretender = await w.client()
        pretender.client_id = "1"
        await ask_as_broker(pretender, number, epoch)
        assert (w.server.count(PeerKind.CLIENT), w.server.count(PeerKind.BROKER)) == (1, 0)


async def test_pretenders_go_for_a_broker_and_a_broker_for_nobody():
    async with rpc_world(WireLimits(max_connections=1)) as w:
        with_a_broker(w)
        first = await w.client()
        await first.ask(3, 12, topics=())
        known = await w.client()
        await ask_as_broker(known)
        pretenders = []
        for _ in range(ANTEROOM + 40):
            pretender = await w.client()
            pretender.client_id = "1"
            pretender.send(18, 3, client_software_name="x", client_software_version="1")
            pretenders.append(pretender)
            await until(lambda: w.server.count(PeerKind.NEWCOMER) == min(len(pretenders), ANTEROOM))
        broker = await w.client()
        assert int((await ask_as_broker(broker)).error_code) == 0
        assert int((await ask_as_broker(known)).error_code) == 0
        assert w.server.count(PeerKind.BROKER) == 2
        assert w.server.stats.closed["room"] == 41


async def test_a_broker_that_comes_is_heard_while_every_turn_is_taken():
    async with rpc_world(WireLimits(max_connections=MOST_QUICK + 2, queued_max_requests=1)) as w:
        with_a_broker(w)
        del w.core.answers[ProducerIdsRequested]
        clients = [await w.client() for _ in range(MOST_QUICK + 2)]
        for client in clients:
            client.send(67, 0, broker_id=5, broker_epoch=5)
        await until(lambda: w.server.resources.queue.waiting == 1 and len(w.core.events) == MOST_QUICK + 1)
        w.core.answers[ProducerIdsRequested] = lambda event: ProducerIdsReply(ErrorCode.NONE, 7, 1)
        broker = await w.client()
        assert int((await ask_as_broker(broker)).error_code) == 0
        assert w.server.count(PeerKind.BROKER) == 1


async def test_where_brokers_have_registered_addresses_strangers_go_first():
    async with rpc_world(WireLimits(max_connections=1)) as w:
        with_a_broker(w)
        w.state.brokers[1] = w.state.brokers[1]._replace(
            endpoints=tuple(each._replace(host=OTHER) for each in w.state.brokers[1].endpoints)
        )
        del w.state.brokers[9]
        w.server.resources.addresses.refresh(w.state.brokers.values())
        await until(lambda: OTHER in w.server.resources.addresses)
        first = await w.client()
        await first.ask(3, 12, topics=())
        from_broker = await w.client(source=OTHER)
        await until(lambda: w.server.count(PeerKind.NEWCOMER) == 1)
        strangers = [await w.client() for _ in range(ANTEROOM)]
        await until(lambda: w.server.stats.closed.get("room") == 1)
        assert await strangers[0].closed()
        assert int((await ask_as_broker(from_broker)).error_code) == 0


async def test_of_one_broker_the_latest_connections_are_kept():
    async with rpc_world() as w:
        with_a_broker(w)
        mine = [await w.client() for _ in range(CONNECTIONS_PER_BROKER + 1)]
        for one in mine:
            await ask_as_broker(one)
        assert await mine[0].closed()
        assert w.server.count(PeerKind.BROKER) == CONNECTIONS_PER_BROKER
        await ask_as_broker(mine[1])


async def test_an_idle_client_goes_for_one_that_asks():
    async with rpc_world(WireLimits(max_connections=2)) as w:
        idle, other = [await w.client() for _ in range(2)]
        for client in (idle, other):
            await client.ask(3, 12, topics=())
        for peer in w.server.resources.admission.everybody():
            peer.last_active -= 60
        await other.ask(3, 12, topics=())
        late = await w.client()
        await late.ask(3, 12, topics=())
        assert await idle.closed()
        await other.ask(3, 12, topics=())
        assert (w.server.stats.closed, w.server.stats.refused) == ({"room": 1}, {})


async def test_one_address_takes_not_all_places():
    async with rpc_world(WireLimits(max_connections_per_ip=2)) as w:
        here = [await w.client() for _ in range(2)]
        for client in here:
            await client.ask(3, 12, topics=())
        third = await w.client()
        third.send(3, 12, topics=())
        assert await third.closed()
        assert w.server.stats.refused == {"max.connections.per.ip": 1}
        elsewhere = await w.client(source=OTHER)
        await elsewhere.ask(3, 12, topics=())


async def test_who_says_nothing_while_clients_have_no_room_goes(caplog):
    caplog.set_level(logging.INFO)
    async with rpc_world(WireLimits(max_connections=1)) as w:
        first = await w.client()
        await first.ask(3, 12, topics=())
        silent = await w.client()
        await until(lambda: w.server.count(PeerKind.NEWCOMER) == 1)
        for peer in w.server.resources.admission.everybody():
            peer.opened -= 60
        assert await silent.closed()
        assert w.server.stats.closed == {"room": 1}
        assert "no request within 5 s" in caplog.text


async def test_without_files_newcomers_wait_and_the_rest_goes_on(caplog):
    async with rpc_world() as w:
        with_a_broker(w)
        kept = await w.client()
        await kept.ask(3, 12, topics=())
        # They wait in the kernel's queue until the loop's next pass.
        plain = [socket.create_connection((LOCAL, w.port)) for _ in range(8)]
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(one.fileno() for one in plain)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 3, hard))
        try:
            await until(lambda: w.server.stats.refused.get("open files"))
            await kept.ask(3, 12, topics=())
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await until(lambda: w.server.count(PeerKind.CLIENT) == 9)
        assert "ulimit -n" in caplog.text
        for one in plain:
            one.close()
        await until(lambda: w.server.count(PeerKind.CLIENT) == 1)


# Connections that are closed.


async def test_an_idle_connection_is_closed_and_one_that_waits_for_us_is_not():
    async with rpc_world(WireLimits(connections_max_idle_ms=200)) as w:
        idle, waiting = [await w.client() for _ in range(2)]
        await idle.ask(3, 12, topics=())
        waiting.send(67, 0, broker_id=1, broker_epoch=1)
        assert await idle.closed()
        assert w.server.stats.closed == {"idle": 1}
        (event,) = w.core.events
        w.core.callers.resolve(event.reply_to, ProducerIdsReply(ErrorCode.NONE, 7, 1))
        await waiting.receive(67, 0)


@pytest.mark.parametrize("sent", [b"\x00", struct.pack(">ih", 100, 3), struct.pack(">i", 100) + bytes(50)])
async def test_a_request_that_does_not_come_to_its_end(sent, caplog):
    async with rpc_world(WireLimits(peer_timeout_ms=200)) as w:
        slow = await w.client()
        slow.writer.write(sent)
        assert await slow.closed()
        assert w.server.stats.closed == {"slow request": 1}
        assert "connection closed: " in caplog.text


async def test_a_client_that_never_reads_is_closed_and_its_memory_is_free_again():
    async with rpc_world(WireLimits(peer_timeout_ms=200)) as w:
        large_cluster(w)
        deaf = await w.client(receive=4_096)
        for _ in range(20):
            deaf.send(3, 12, topics=None)
        await until(lambda: w.server.resources.answers.held > 0)
        await until(lambda: w.server.stats.closed == {"slow answer": 1})
        assert w.server.resources.answers.held == 0
        assert w.server.resources.queue.begun == 0


async def test_answers_that_nobody_reads_hold_up_clients_and_no_broker():
    async with rpc_world(WireLimits(queued_max_answer_bytes=65_536, peer_timeout_ms=60_000)) as w:
        large_cluster(w)
        with_a_broker(w)
        client, broker, deaf = await w.client(), await w.client(), await w.client(receive=4_096)
        await ask_as_broker(broker)
        deaf.send(3, 12, topics=None)
        await until(lambda: w.server.resources.answers.full)
        client.send(3, 12, topics=())
        await until(lambda: w.server.resources.queue.waiting == 1)
        assert int((await ask_as_broker(broker)).error_code) == 0
        anew = await w.client()
        await anew.ask(18, 3, client_software_name="apache-kafka-java", client_software_version="3.9.1")
        assert int((await ask_as_broker(anew)).error_code) == 0
        deaf.writer.transport.abort()
        await client.receive(3, 12)


async def test_who_reads_nothing_goes_sooner_where_others_wait_for_the_room():
    async with rpc_world(WireLimits(queued_max_answer_bytes=65_536, peer_timeout_ms=60_000)) as w:
        large_cluster(w)
        deaf = await w.client(receive=4_096)
        deaf.send(3, 12, topics=None)
        await until(lambda: w.server.resources.answers.full)
        (peer,) = w.server.resources.admission.everybody()
        peer._taken_at -= PRESSED_SECONDS + 1
        w.server._close_overdue(w.server._everybody(), time.monotonic())
        assert w.server.stats.closed == {}
        client = await w.client()
        client.send(3, 12, topics=())
        await client.receive(3, 12)
        assert w.server.stats.closed == {"slow answer": 1}


async def test_few_clients_that_speak_as_a_broker_are_read_before_others_for_a_moment():
    async with rpc_world() as w:
        with_a_broker(w)
        set_back = []
        w.server.resources.set_back = set_back.append
        first, *others = [await w.client() for _ in range(ANTEROOM + 2)]
        stranger = others.pop()
        for number, pretender in enumerate((first, *others)):
            pretender.client_id = "1"
            await pretender.ask(3, 12, topics=())
            assert len(set_back) == max(0, number - ANTEROOM + 1)
        await stranger.ask(3, 12, topics=())
        assert len(set_back) == 2
        for peer in w.server.resources.admission.everybody():
            peer.opened -= 60
        await first.ask(3, 12, topics=())
        assert len(set_back) == 3
        await ask_as_broker(first)
        assert w.server.count(PeerKind.BROKER) == 1


async def test_all_who_ask_for_everything_share_its_memory():
    async with rpc_world() as w:
        large_cluster(w)
        moment = [1]
        w.node.metadata._moment = lambda: moment[0]
        deaf = [await w.client(receive=4_096) for _ in range(50)]
        for one in deaf:
            one.send(3, 12, topics=None)
        await until(lambda: len(w.server.resources.answers._lent) == 1 and w.server.resources.queue.begun == 0)
        assert list(w.server.resources.answers._lent.values()) == [50]
        assert w.server.resources.answers.held < 2_000_000


async def test_large_requests_share_a_bound_and_come_to_an_end_one_after_another():
    async with rpc_world(WireLimits(queued_max_request_bytes=100_000)) as w:
        w.add_broker(1)
        asked = [{"name": f"{number:0200d}"} for number in range(2_000)]
        clients = [await w.client() for _ in range(4)]
        for client in clients:
            client.send(3, 9, topics=asked, allow_auto_topic_creation=False)
        small = await w.client()
        async with asyncio.timeout(30):
            await small.ask(3, 12, topics=())
            for client in clients:
                _, message = await client.receive(3, 9)
                assert len(message.topics) == 2_000
        assert w.server.resources.pool_of(PeerKind.CLIENT).held == 0


@pytest.mark.parametrize("broker", [False, True])
async def test_nothing_overtakes_a_large_request_of_its_connection(broker):
    """It is decoded in a thread; still, later requests of the same connection are begun after it."""
    async with rpc_world() as w:
        with_a_broker(w)
        client, other = [await w.client() for _ in range(2)]
        if broker:
            await ask_as_broker(client)
        asked = len(w.core.events)
        w.core.answers.clear()
        partitions = [
            {
                "partition_index": number,
                "leader_epoch": 1,
                "new_isr_with_epochs": [{"broker_id": 1, "broker_epoch": 77}],
                "leader_recovery_state": 0,
                "partition_epoch": 1,
            }
            for number in range(5_000)
        ]
        topics = [{"topic_id": UUID(int=1), "partitions": partitions}]
        w.add_topic(topic("t", 1, partition([1], 1)))
        client.send(56, 3, broker_id=1, broker_epoch=77, topics=topics)
        client.send(67, 0, broker_id=1, broker_epoch=77)
        await other.ask(3, 12, topics=())
        await w.core.until_asked(asked + 2)
        large, small = w.core.events[asked:]
        assert (type(large), type(small)) == (AlterPartitionReceived, ProducerIdsRequested)
        assert len(large.proposals) == 5_000
        w.core.callers.resolve(small.reply_to, ProducerIdsReply(ErrorCode.NONE, 7, 1))
        w.core.callers.resolve(large.reply_to, AlterPartitionReply(ErrorCode.NONE, {}))
        await client.receive(56, 3)
        await client.receive(67, 0)


# Turns.


async def test_ten_thousand_requests_at_once_keep_nobody_waiting_and_are_answered_in_order():
    async with rpc_world() as w:
        greedy, modest = [await w.client() for _ in range(2)]
        for _ in range(10_000):
            greedy.send(3, 12, topics=())
        answered = []

        async def read():
            while len(answered) < 10_000:
                answered.append((await greedy.receive_frame())[:4])

        async with asyncio.timeout(60):
            reading = asyncio.create_task(read())
            await until(lambda: answered)
            for _ in range(20):
                before = len(answered)
                await modest.ask(3, 12, topics=())
                assert len(answered) - before < 500
            await reading
        assert answered == [struct.pack(">i", number + 1) for number in range(10_000)]


async def test_an_address_with_many_connections_gets_no_more_turns_than_one_with_one():
    async with rpc_world(WireLimits(queued_max_requests=1)) as w:
        many = [await w.client() for _ in range(200)]
        alone = await w.client(source=OTHER)
        for client in many:
            for _ in range(5):
                client.send(3, 12, topics=())
        await until(lambda: w.server.resources.queue.waiting > 150)
        await alone.ask(3, 12, topics=())
        assert w.server.resources.queue.waiting > 100


async def test_requests_of_clients_are_begun_up_to_a_bound_and_brokers_beyond_it():
    async with rpc_world(WireLimits(queued_max_requests=3, client_share_percent=100)) as w:
        w.server.resources.queue.most_quick = 0
        with_a_broker(w)
        broker = await w.client()
        await ask_as_broker(broker)
        del w.core.answers[ProducerIdsRequested]
        clients = [await w.client() for _ in range(5)]
        for client in clients:
            client.send(67, 0, broker_id=5, broker_epoch=5)
        await until(lambda: w.server.resources.queue.waiting == 2 and len(w.core.events) == 4)
        assert w.server.resources.queue.begun == 3
        w.core.answers[ProducerIdsRequested] = lambda event: ProducerIdsReply(ErrorCode.NONE, 7, 1)
        assert int((await ask_as_broker(broker)).error_code) == 0
        assert len(w.core.events) == 5
        for event in w.core.events[1:4]:
            w.core.callers.resolve(event.reply_to, ProducerIdsReply(ErrorCode.NONE, 7, 1))
        for client in clients:
            await client.receive(67, 0)


async def test_a_client_that_goes_while_it_waits_leaves_nothing_behind():
    async with rpc_world(WireLimits(queued_max_requests=2)) as w:
        w.server.resources.queue.most_quick = 0
        clients = [await w.client() for _ in range(6)]
        for client in clients:
            for _ in range(3):
                client.send(67, 0, broker_id=5, broker_epoch=5)
        await until(lambda: w.server.resources.queue.waiting >= 4)
        for client in clients:
            client.writer.transport.abort()
        await until(lambda: w.server.count(PeerKind.CLIENT) == 0)
        await until(lambda: w.server.resources.queue.begun == 0)
        assert len(w.core.callers) == 0


def test_of_one_reason_one_line_is_logged_in_ten_seconds(caplog):
    stats = ServerStats()
    for number in range(100):
        stats.refuse("max.connections", f"peer {number} turned away")
    stats.close("idle", "peer closed")
    assert [record.message for record in caplog.records] == ["peer 0 turned away", "peer closed"]
    assert stats.refused == {"max.connections": 100}


def test_however_many_names_clients_choose_the_lines_of_one_reason_are_few(caplog, monkeypatch):
    stats, now = ServerStats(), [0.0]
    monkeypatch.setattr("shunter.drivers.listener.server_stats.time.monotonic", lambda: now[0])
    for number in range(5_000):
        stats.close("login", f"peer: login of user {number} failed", of=f"user {number}")
        stats.close("login", f"peer: login of user {number} failed again", of=f"user {number}")
    stats.close("idle", "peer closed")
    assert len(caplog.records) == LINES_AT_ONCE + 1
    now[0] = QUIET_SECONDS
    stats.close("login", "peer: login of user 0 failed", of="user 0")
    stats.close("login", "peer: login of user 7000 failed", of="user 7000")
    told = "peer: login of user 0 failed (1 more of the kind and 9960 of other kinds were not logged)"
    assert [record.message for record in caplog.records[-2:]] == [told, "peer: login of user 7000 failed"]
    assert stats.closed["login"] == 10_002
