"""Server-sent events: rendered once, resumed after a lost connection, ended with the token or the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import orjson
import pytest
from web_house import House
from web_yard import Yard

from shunter.app.access_tokens import AccessRole, remove_token
from shunter.app.audit_log import AuditLog
from shunter.errors import FormatError, SettingsError
from shunter.web.feed import feed
from shunter.web.forecasts import Forecasts
from shunter.web.hub import KEPT, Hub
from shunter.web.server import WebOptions, serving


def kind(event: bytes) -> str:
    return event.split(b"event: ")[1].split(b"\n")[0].decode()


def identity(event: bytes) -> str:
    return event.split(b"id: ")[1].split(b"\n")[0].decode()


async def take(stream: AsyncIterator[bytes], count: int) -> list[bytes]:
    async with asyncio.timeout(20):
        return [await anext(stream) for _ in range(count)]


class TestHub:
    async def test_all_pages_get_the_same_bytes(self) -> None:
        hub = Hub("run1")
        one, two = hub.follow("", ""), hub.follow("", "")
        await take(one, 1)
        await take(two, 1)
        assert hub.subscribers == 2
        hub.publish("cluster", "prod", b'{"a":1}')
        first, second = (await take(one, 1))[0], (await take(two, 1))[0]
        assert first is second
        assert first == b'id: run1-1\nevent: cluster\ndata: {"a":1}\n\n'
        await one.aclose()
        assert hub.subscribers == 1

    async def test_a_page_that_comes_back_gets_what_it_missed(self) -> None:
        hub = Hub("run1")
        for number in range(3):
            hub.publish("cluster", "prod", b"%d" % number)
        stream = hub.follow("run1-1", "")
        assert [kind(each) for each in await take(stream, 3)] == ["hello", "cluster", "cluster"]

    @pytest.mark.parametrize("last", ["run0-1", "run1-99", "run1-x", "nonsense", "run1--1"])
    async def test_a_page_from_elsewhere_reads_everything_again(self, last: str) -> None:
        hub = Hub("run1")
        hub.publish("cluster", "prod", b"{}")
        assert kind((await take(hub.follow(last, ""), 1))[0]) == "reset"

    async def test_a_page_that_fell_behind_reads_everything_again(self) -> None:
        hub = Hub("run1")
        stream = hub.follow("", "")
        await take(stream, 1)
        for number in range(KEPT + 5):
            hub.publish("cluster", "prod", b"%d" % number)
        reset = (await take(stream, 1))[0]
        assert (kind(reset), identity(reset)) == ("reset", f"run1-{KEPT + 5}")
        hub.publish("cluster", "prod", b"{}")
        assert identity((await take(stream, 1))[0]) == f"run1-{KEPT + 6}"
        assert kind((await take(hub.follow("run1-2", ""), 1))[0]) == "reset"

    async def test_a_page_of_one_cluster_hears_of_that_one(self) -> None:
        hub = Hub("run1")
        stream = hub.follow("", "prod")
        await take(stream, 1)
        hub.publish("cluster", "other", b"{}")
        hub.publish("cluster", "prod", b"{}")
        assert identity((await take(stream, 1))[0]) == "run1-2"

    async def test_streams_end_with_the_service(self) -> None:
        hub = Hub("run1")
        stream = hub.follow("", "")
        await take(stream, 1)
        hub.close()
        async with asyncio.timeout(20):
            assert [each async for each in stream] == []


async def test_changes_of_the_front_become_events() -> None:
    yard, hub = Yard(), Hub("run1")
    task = asyncio.create_task(feed(yard.front, hub, yard.front.version, Forecasts()))
    stream = hub.follow("", "")
    await take(stream, 1)
    yard.tick()
    event = (await take(stream, 1))[0]
    document = orjson.loads(event.split(b"data: ")[1])
    assert (kind(event), document["row"]["name"]) == ("cluster", "prod-eu")
    assert document["row"]["moves_open"] == 40
    yard.published.tell()
    assert kind((await take(stream, 1))[0]) == "fleet"
    task.cancel()


async def test_a_stream_ends_with_its_token(house: House, tmp_path: Path) -> None:
    options = WebOptions(port=0, tokens=house.tokens)
    async with serving(house.yard.front, options) as address, httpx.AsyncClient(base_url=address) as client:
        headers = {"authorization": f"Bearer {house.secrets[AccessRole.READ]}"}
        async with client.stream("GET", "/api/v1/events", headers=headers) as answer:
            lines = answer.aiter_lines()
            assert await anext(lines) != ""
            remove_token(house.tokens, "readr")
            house.yard.tick()
            async with asyncio.timeout(20):
                rest = [line async for line in lines]
    assert "event: signed-out" in rest


class TestServing:
    async def test_page_and_api(self) -> None:
        async with serving(Yard().front, WebOptions(port=0)) as address, httpx.AsyncClient(base_url=address) as client:
            assert "Shunter" in (await client.get("/")).text
            assert (await client.get("/clusters/prod-eu/moves")).text == (await client.get("/")).text
            assert (await client.post("/api/v1/fleet/pause-all", json={})).status_code == 403

    async def test_it_ends_while_pages_are_open(self) -> None:
        yard = Yard()
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(httpx.AsyncClient())
            async with asyncio.timeout(20), serving(yard.front, WebOptions(port=0)) as address:
                answer = await stack.enter_async_context(client.stream("GET", f"{address}api/v1/events"))
                assert answer.status_code == 200

    async def test_others_are_not_let_in_without_tokens(self) -> None:
        with pytest.raises(SettingsError, match="other machines could read everything without a token; give --tokens"):
            async with serving(Yard().front, WebOptions(host="0.0.0.0", port=0)):
                pass

    async def test_bad_files_are_told(self, tmp_path: Path) -> None:
        with pytest.raises(FormatError, match="can't be read"):
            async with serving(Yard().front, WebOptions(port=0, tokens=tmp_path / "none.json")):
                pass
        with pytest.raises(FormatError, match="can't be opened for appending"):
            AuditLog(tmp_path)
        with pytest.raises(SettingsError, match="belong together"):
            async with serving(Yard().front, WebOptions(port=0, certificate=tmp_path / "bad.pem")):
                pass
