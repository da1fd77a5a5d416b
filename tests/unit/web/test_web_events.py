"""Server-sent events: rendered once, resumed after a lost connection, ended with the token or the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import httpx
import orjson
import pytest
from web_house import House
from web_yard import Yard

from shunter.app.access.access_tokens import AccessRole, Tokens, add_token, read_tokens, remove_token
from shunter.app.access.audit_log import AuditLog
from shunter.errors import FormatError, SettingsError
from shunter.web import entrance
from shunter.web.feed import feed
from shunter.web.forecasts import Forecasts
from shunter.web.hub import Hub
from shunter.web.port.token_watch import watch_tokens
from shunter.web.server import WebOptions, serving

DAY_MS = 24 * 60 * 60 * 1000


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
            for cluster in ("prod", "other"):
                hub.publish("cluster", cluster, b"%d" % number)
        stream = hub.follow("run1-2", "")
        hello, *last = await take(stream, 3)
        assert kind(hello) == "hello"
        assert [identity(each) for each in last] == ["run1-5", "run1-6"], "the last one of each cluster"

    @pytest.mark.parametrize("last", ["run0-1", "run1-99", "run1-x", "nonsense", "run1--1"])
    async def test_a_page_from_elsewhere_reads_everything_again(self, last: str) -> None:
        hub = Hub("run1")
        hub.publish("cluster", "prod", b"{}")
        assert kind((await take(hub.follow(last, ""), 1))[0]) == "reset"

    async def test_a_page_that_is_slow_gets_what_is_last(self) -> None:
        hub = Hub("run1")
        stream = hub.follow("", "")
        await take(stream, 1)
        for number in range(5):
            hub.publish("cluster", "prod", b"%d" % number)
        assert identity((await take(stream, 1))[0]) == "run1-5"
        hub.publish("cluster", "prod", b"{}")
        assert identity((await take(stream, 1))[0]) == "run1-6"

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
            remove_token(house.tokens, "readr")  # Nothing else happens: no event would come.
            async with asyncio.timeout(20):
                rest = [line async for line in lines]
    assert "event: signed-out" in rest


async def test_a_stream_ends_with_its_session(house: House) -> None:
    async with serving(house.yard.front, WebOptions(port=0, tokens=house.tokens)) as address:
        origin = address.rstrip("/")
        async with httpx.AsyncClient(base_url=address, headers={"origin": origin}) as client:
            csrf = (await client.post("/api/v1/session", json={"token": house.secrets[AccessRole.READ]})).json()["csrf"]
            async with client.stream("GET", "/api/v1/events") as answer:
                lines = answer.aiter_lines()
                assert await anext(lines) != ""
                assert (await client.delete("/api/v1/session", headers={"x-shunter-csrf": csrf})).status_code == 204
                async with asyncio.timeout(20):
                    rest = [line async for line in lines]
    assert "event: signed-out" in rest


async def test_a_stream_without_a_place_is_refused(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrance, "MOST_STREAMS", 0)
    async with house.client(AccessRole.READ) as client:
        answer = await client.get("/api/v1/events")
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:shunter:too-many-streams")


async def test_a_token_that_expires_soon_is_announced_once(tmp_path: Path) -> None:
    path, now = tmp_path / "tokens.json", [0]
    add_token(path, "anna", AccessRole.READ, 90)
    add_token(path, "ben", AccessRole.READ, None)
    made = read_tokens(path)[0].made_ms
    tokens = Tokens(path, lambda: made + now[0] * DAY_MS)
    yard = Yard()
    task = asyncio.create_task(watch_tokens(tokens, yard.front, Hub("run1"), 0.001))
    async with asyncio.timeout(20):
        for day, expected in ((75, 0), (77, 1), (78, 1), (88, 2)):
            now[0] = day
            await passes(yard, expected)
    task.cancel()
    assert [kind for kind, _ in yard.notes] == ["token-expires"] * 2
    assert "the token of anna expires within 14 days" in yard.notes[0][1]
    assert "within 3 days" in yard.notes[1][1]


async def passes(yard: Yard, expected: int) -> None:
    """Wait until so many notes were made, and for a few more checks."""
    done = asyncio.Event()
    while len(yard.notes) < expected:  # noqa: ASYNC110 - notes have no event
        await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.02, done.set)
    await done.wait()
    assert len(yard.notes) == expected


class TestServing:
    async def test_page_and_api(self) -> None:
        async with serving(Yard().front, WebOptions(port=0)) as address, httpx.AsyncClient(base_url=address) as client:
            assert "Shunter" in (await client.get("/")).text
            below = (await client.get("/clusters/prod-eu/moves")).text
            assert below.replace('"../../', '"') == (await client.get("/")).text
            assert (await client.post("/api/v1/fleet/pause", json={})).status_code == 403

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

    async def test_tokens_cross_the_network_unencrypted_only_if_that_is_wanted(self, tmp_path: Path) -> None:
        add_token(tmp_path / "tokens.json", "anna", AccessRole.READ, None)
        options = WebOptions(host="0.0.0.0", port=0, tokens=tmp_path / "tokens.json")
        with pytest.raises(SettingsError, match="give --certificate and --key, or --plain-http if a proxy"):
            async with serving(Yard().front, options):
                pass
        async with serving(Yard().front, replace(options, plain_http=True)) as address:
            assert address.startswith("http://0.0.0.0:")

    async def test_bad_files_are_told(self, tmp_path: Path) -> None:
        with pytest.raises(FormatError, match="can't be read"):
            async with serving(Yard().front, WebOptions(port=0, tokens=tmp_path / "none.json")):
                pass
        with pytest.raises(FormatError, match="can't be opened for appending"):
            AuditLog(tmp_path)
        with pytest.raises(SettingsError, match="belong together"):
            async with serving(Yard().front, WebOptions(port=0, certificate=tmp_path / "bad.pem")):
                pass
