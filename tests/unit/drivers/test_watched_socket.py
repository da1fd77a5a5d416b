"""A socket's watch stays from read to read, ends when nobody reads, and never outlives the socket."""

from __future__ import annotations

import asyncio
import socket

import pytest

from shunter.drivers.listener.watched_socket import WatchedSocket


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
