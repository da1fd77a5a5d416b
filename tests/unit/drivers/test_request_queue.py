"""The request queue while brokers send requests: clients are held back for a while, and keep their part of the time."""

from __future__ import annotations

import asyncio
import socket

from shunter.drivers.listener import request_queue as desk_module
from shunter.drivers.listener.fair_selector import FairSelector
from shunter.drivers.listener.request_queue import RequestQueue
from shunter.drivers.listener.shares import Share, Shares
from shunter.model.settings import WireLimits


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
