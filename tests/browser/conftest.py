"""A real Chromium, and the yard's service behind the real server.

The tests do not fetch Chromium, because its download server is not one of the registries that Shunter's tests use.
They use an installed one (`apt install chromium-headless-shell`), or the one that SHUNTER_CHROMIUM names, or are
skipped.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "web"))
from web_yard import Yard

from shunter.app.access.access_tokens import AccessRole, add_token
from shunter.web.server import WebOptions, serving

# On a busy machine an expectation may take longer than the default of five seconds.
expect.set_options(timeout=30_000)
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLEET = {"prod-eu": (200, 100_000), "staging": (6, 900), "metrics": (9, 2_000)}


def chromium() -> str:
    """The path of Chromium; skips the test if there is none."""
    found = os.environ.get("SHUNTER_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no Chromium: none of {', '.join(NAMES)} is installed, and SHUNTER_CHROMIUM is not set")
    return found


class Visited:
    """An open page, the service behind it, and the errors in the browser."""

    def __init__(self, yard: Yard, stack: AsyncExitStack, secret: str, options: WebOptions) -> None:
        self.yard = yard
        self.troubles: list[str] = []
        self.secret = secret
        self._stack = stack
        self._options = options
        assert options.tokens is not None
        self.tokens = options.tokens
        self.address = ""
        self.page: Page

    async def serve(self) -> None:
        self.address = await self._stack.enter_async_context(serving(self.yard.front, self._options))
        port = int(self.address.rsplit(":", 1)[1].strip("/"))
        self._options = replace(self._options, port=port)

    async def end_service(self) -> None:
        """End the service while the page is open."""
        await self._stack.aclose()

    async def open(self, browser: Browser, scheme: str = "light") -> None:
        context = await browser.new_context(
            viewport={"width": 1360, "height": 900}, color_scheme=scheme, locale="en-US", reduced_motion="reduce"
        )
        self.page = await context.new_page()
        self.page.set_default_timeout(30_000)
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        await self.page.goto(f"{self.address}#token={self.secret}")
        await self.page.wait_for_selector(".card")

    async def visit(self, path: str, wait: str = "main .panel") -> None:
        await self.page.goto(self.address.rstrip("/") + path)
        await self.page.wait_for_selector(wait)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    path = chromium()
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        await launched.close()


@pytest.fixture
async def visited(browser: Browser, tmp_path: Path) -> AsyncIterator[Visited]:
    """A page that is open for an administrator."""
    tokens = tmp_path / "tokens.json"
    secret = add_token(tokens, "anna", AccessRole.ADMINISTER, None)
    yard = await asyncio.to_thread(Yard, FLEET, 5_000, lambda: int(time.time() * 1000))
    async with AsyncExitStack() as stack:
        found = Visited(yard, stack, secret, WebOptions(port=0, tokens=tokens, sessions=tmp_path / "sessions.json"))
        await found.serve()
        await found.open(browser)
        yield found
    assert found.troubles == []
