"""The port: turns, places, deadlines, malformed bytes."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from web_flood import head
from web_yard import Yard

from shunter.web.port import accepting, connection, connection_limits
from shunter.web.port.connection import HttpConnection
from shunter.web.port.connection_limits import ConnectionLimits, Visitor, network_of
from shunter.web.port.turns import AT_ONCE, AddressTurns
from shunter.web.server import WebOptions, serving


class Stranger:
    def __init__(self, address: str = "10.0.0.1", waits_since: float | None = 0.0) -> None:
        self.address = address
        self.waits_since = waits_since
        self.left = ""

    def leave(self, reason: str) -> None:
        self.left = reason


def filled(places: ConnectionLimits, *visitors: Visitor) -> ConnectionLimits:
    for visitor in visitors:
        places.enter(visitor)
    return places


class TestRoom:
    def test_a_newcomer_takes_the_place_of_the_idlest_stranger(self) -> None:
        known, answered, idle, later = Stranger(), Stranger(waits_since=None), Stranger(), Stranger()
        places = filled(ConnectionLimits(4), known, answered, idle, later)
        places.know(known)
        assert not places.has_place("10.0.0.2", now=0.5), "it came only half a second ago"
        assert places.has_place("10.0.0.2", now=2.0)
        assert [each.left for each in (known, answered, idle, later)] == ["", "", "room", ""]
        assert len(places) == 3

    def test_people_keep_their_places(self) -> None:
        visitors = [Stranger() for _ in range(3)]
        places = filled(ConnectionLimits(3), *visitors)
        for each in visitors:
            places.know(each)
        assert not places.has_place("10.0.0.2", now=100.0)

    def test_one_address_takes_its_own_places_alone(self) -> None:
        others, mine = Stranger(), Stranger("10.0.0.2")
        places = filled(ConnectionLimits(10, 1), others, mine)
        assert places.has_place("10.0.0.2", now=2.0)
        assert (others.left, mine.left) == ("", "room")
        assert places.has_place("10.0.0.3", now=0.0)

    def test_a_place_is_free_once(self) -> None:
        visitor = Stranger()
        places = filled(ConnectionLimits(1), visitor)
        places.depart(visitor)
        places.depart(visitor)
        assert len(places) == 0
        assert places.has_place(visitor.address, now=0.0)

    @pytest.mark.parametrize(
        ("host", "network"),
        [
            ("10.1.2.3", "10.1.2.3"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
            ("fe80::1%eth0", "fe80::/64"),
            ("", ""),
        ],
    )
    def test_all_addresses_of_an_ipv6_network_count_as_one(self, host: str, network: str) -> None:
        assert network_of(host) == network


class TestTurns:
    async def test_addresses_take_turns_and_a_pass_has_few(self) -> None:
        turns, done = AddressTurns(), list[str]()
        ended = asyncio.Event()
        for number in range(6):
            turns.ask("flood", lambda number=number: done.append(f"flood {number}"))
        turns.ask("person", lambda: done.append("person"))
        asyncio.get_running_loop().call_soon(lambda: done.append("another's work"))
        turns.ask("last", ended.set)
        async with asyncio.timeout(20):
            await ended.wait()
            while "flood 5" not in done:  # noqa: ASYNC110 - the turns have no event
                await asyncio.sleep(0)
        assert done[:3] == ["flood 0", "person", "flood 1"]
        assert done.index("another's work") <= AT_ONCE
        assert done[3:] == ["another's work", *(f"flood {number}" for number in range(2, 6))]


@asynccontextmanager
async def served() -> AsyncIterator[int]:
    async with serving(Yard().front, WebOptions(port=0)) as address:
        yield int(address.rstrip("/").rpartition(":")[2])


async def said(port: int, *parts: bytes) -> bytes:
    """All that the service says until it closes the connection."""
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for part in parts:
            writer.write(part)
        got = b""
        try:
            while more := await reader.read(65_536):
                got += more
        except ConnectionResetError:
            pass
        writer.close()
    return got


class TestConnections:
    async def test_a_head_that_does_not_come_ends_the_connection(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection, "HEAD_SECONDS", 0.05)
        monkeypatch.setattr(accepting, "SWEEP_SECONDS", 0.01)
        async with served() as port:
            assert await said(port, b"GET / HTTP/1.1\r\nHost: loc") == b""
            assert await said(port) == b""

    async def test_a_head_has_a_bound(self) -> None:
        async with served() as port:
            answer = await said(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"x: y\r\n" * 20_000)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400")

    @pytest.mark.parametrize("before", [b"", head("GET", "/health")])
    async def test_a_head_has_few_headers(self, before: bytes) -> None:
        async with served() as port:
            many = await said(port, before, head("GET", "/health", *["a: b"] * 100))
            few = await said(port, before, head("GET", "/health", *["a: b"] * 97, "Connection: close"))
        assert b"HTTP/1.1 400" in many
        assert few.count(b"HTTP/1.1 200") == (2 if before else 1)

    @pytest.mark.parametrize(
        "raw", [b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/1.1\r\n\r\n\r\n"]
    )
    async def test_bytes_that_are_no_request_are_refused(
        self, raw: bytes, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        async with served() as port:
            answer = await said(port, raw)
        assert answer.startswith(b"HTTP/1.1 400")
        warned = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert (capfd.readouterr().err, warned) == ("", []), "anybody could fill the log"

    async def test_requests_behind_each_other_are_all_answered(self) -> None:
        async with served() as port:
            last = head("GET", "/health", "Connection: close")
            answer = await said(port, head("GET", "/health") * 20 + last)
        assert answer.count(b"HTTP/1.1 200") == 21

    async def test_a_refused_body_is_thrown_away_and_its_answer_arrives(self) -> None:
        body = b"{" * 3_000_000
        async with served() as port:
            refused = head("POST", "/api/v1/session", f"Content-Length: {len(body)}")
            answer = await said(port, refused, body, head("GET", "/health", "Connection: close"))
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"HTTP/1.1 200" in answer

    async def test_a_half_request_behind_a_refusal_ends_the_connection(self) -> None:
        async with served() as port:
            answer = await said(port, head("GET", "/health") + b"\x00\x01\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200")

    async def test_a_connection_without_a_place_is_closed_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection_limits, "MOST_CONNECTIONS", 2)
        async with served() as port, AsyncExitStack() as stack:
            for _ in range(2):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                stack.callback(writer.close)
                writer.write(head("GET", "/health"))
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            assert await said(port, head("GET", "/health")) == b""

    async def test_who_holds_a_body_back_loses_its_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection_limits, "MOST_CONNECTIONS", 1)
        monkeypatch.setattr(connection_limits, "IDLE_S", 0.2)
        async with served() as port, asyncio.timeout(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head("POST", "/api/v1/session", "Content-Length: 10", "Content-Type: application/json"))
            await writer.drain()
            while b"200" not in await said(port, head("GET", "/health", "Connection: close")):
                pass
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()

    @pytest.mark.parametrize(
        "raw",
        [
            head("GET", "/health", "Connection: close"),
            head("POST", "/api/v1/session", "Content-Length: 4000", "Connection: close") + b"{" * 4_000,
            b"nonsense\r\n\r\n",
        ],
    )
    async def test_a_dead_connection_is_gone_at_once(self, raw: bytes) -> None:
        """In a circle of references its buffers would wait for the garbage collector: 300 MB in a minute."""
        async with served() as port, asyncio.timeout(20):
            gc.collect()
            gc.disable()
            try:
                for _ in range(5):
                    await said(port, raw)
                while any(isinstance(each, HttpConnection) for each in gc.get_objects()):  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0)
            finally:
                gc.enable()
