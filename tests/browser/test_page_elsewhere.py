"""The page where it is not at the root of a secure address: over plain HTTP, below a path, at addresses of nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright, expect
from web_yard import Yard

from conftest import Visited, chromium
from shunter.app.access.access_tokens import AccessRole, add_token
from shunter.web.server import WebOptions, serving

pytestmark = [pytest.mark.browser, pytest.mark.long]
PREFIX = "/ops/shunter"


async def test_buttons_work_over_plain_http_from_another_host(tmp_path: Path) -> None:
    secret = add_token(tmp_path / "tokens.json", "anna", AccessRole.OPERATE, 5)
    yard = Yard()
    options = WebOptions(port=0, tokens=tmp_path / "tokens.json", hosts=("shunter.test",))
    rules = "--host-resolver-rules=MAP shunter.test 127.0.0.1"
    async with serving(yard.front, options) as address, async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu", rules]
        )
        page = await browser.new_page()
        troubles: list[str] = []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        await page.goto(address.replace("127.0.0.1", "shunter.test"))
        assert not await page.evaluate("isSecureContext"), "this test is about other hosts"
        await expect(page.get_by_role("alert")).to_contain_text("This connection is not encrypted")
        await page.get_by_label("Token").fill(secret)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_text("Your token expires")).to_be_visible()
        await page.get_by_role("button", name=re.compile("^Pause all")).click()
        await page.get_by_role("button", name="Pause now").click()
        await expect(page.get_by_text("The whole fleet is paused")).to_be_visible()
        assert troubles == []
        await browser.close()
    assert [order.kind.value for order, _ in yard.orders] == ["pause"]


@asynccontextmanager
async def proxy(address: str) -> AsyncIterator[str]:
    """A proxy that serves an address below `PREFIX`, one request for each connection; yields its own address."""
    port = int(address.rstrip("/").rpartition(":")[2])
    tasks: set[asyncio.Task[None]] = set()

    def began(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(pass_on(reader, writer)))

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError):
            head = await reader.readuntil(b"\r\n\r\n")
            method, path, rest = head.split(b" ", 2)
            below = path.removeprefix(PREFIX.encode())
            if below == path:
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            else:
                inner, outer = await asyncio.open_connection("127.0.0.1", port)
                rest = re.sub(rb"(?i)connection: keep-alive", b"Connection: close", rest)
                outer.write(b" ".join((method, below, rest)))
                sending = asyncio.create_task(_copy(reader, outer))
                tasks.add(sending)
                await _copy(inner, writer)
                sending.cancel()
                outer.close()
        writer.close()

    server = await asyncio.start_server(began, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{PREFIX}/"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while got := await source.read(65_536):
            target.write(got)
            await target.drain()


async def test_everything_stays_below_the_path_of_a_proxy(browser: Browser, tmp_path: Path) -> None:
    secret = add_token(tmp_path / "tokens.json", "anna", AccessRole.OPERATE, None)
    yard = Yard()
    options = WebOptions(port=0, tokens=tmp_path / "tokens.json")
    async with serving(yard.front, options) as address, proxy(address) as below:
        page = await browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await page.goto(f"{below}#token={secret}")
        await expect(page.get_by_text("live", exact=True)).to_be_visible()
        await page.get_by_role("link", name="prod-eu").first.click()
        await page.get_by_role("link", name=re.compile("^Moves")).first.click()
        await expect(page).to_have_url(f"{below}clusters/prod-eu/moves")
        await page.reload()
        await expect(page.locator(".long tbody tr td.name").first).to_be_visible()
        await page.get_by_role("button", name=re.compile("^Pause all")).click()
        await page.get_by_role("button", name="Pause now").click()
        await expect(page.get_by_text("The whole fleet is paused")).to_be_visible()
        cookies = await page.context.cookies()
        assert [cookie["path"] for cookie in cookies] == [f"{PREFIX}/api/v1"]
        assert [url for url in asked if not url.startswith(below)] == []
        await page.close()


async def test_a_wrong_token_in_the_address_is_told(browser: Browser, visited: Visited) -> None:
    page = await (await browser.new_context()).new_page()
    await page.goto(f"{visited.address}#token=shunter_wrong")
    await expect(page.get_by_role("alert")).to_contain_text(
        "The token in the address was refused: this token is unknown"
    )
    await visited.page.goto("about:blank")
    await visited.page.goto(f"{visited.address}#token=shunter_wrong")
    await expect(visited.page.get_by_text("You are still anna")).to_be_visible()


@pytest.mark.parametrize(
    "path",
    ["nosuch", "clusters/%E0%A4%A", "clusters/prod-eu/nosuch", "clusters/prod-eu/moves/more", "#/clusters/prod-eu"],
)
async def test_an_address_of_nothing_says_so(visited: Visited, path: str) -> None:
    await visited.page.goto(visited.address + path)
    await expect(visited.page.get_by_text("There is no such page")).to_be_visible()
    await visited.page.get_by_role("link", name="the fleet").click()
    await expect(visited.page.locator(".card").first).to_be_visible()


async def test_ages_are_by_the_clock_of_the_service_and_the_zone_is_named(visited: Visited) -> None:
    """An SRE's find: times of the browser and of the service stood side by side, and neither was named."""
    await visited.page.add_init_script("const told = Date.now; Date.now = () => told() + 7_200_000;")
    await visited.page.goto(visited.address)
    await expect(visited.page.locator(".card").first).to_contain_text(re.compile(r"observed \d+ (s|min)( \d+ s)? ago"))
    await expect(visited.page.locator("footer")).to_contain_text("in the zone of this browser")
    await expect(visited.page.locator("footer")).to_contain_text("UTC")
