"""Two tiers of sockets: those in the first tier are reported however many in the second tier are ready."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys

import pytest

from shunter.drivers.listener.fair_selector import FairSelector


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
