"""The page in a real Chromium: what people do, what they can't see, and what happens when the service dies."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, expect

from conftest import Visited
from shunter.model.service import OrderKind, ProposalState
from shunter.web.server import WebOptions, serving

pytestmark = [pytest.mark.browser, pytest.mark.long]
PAGES = {
    "fleet": "/",
    "cluster": "/clusters/prod-eu?broker=12",
    "moves": "/clusters/prod-eu/moves",
    "proposals": "/clusters/prod-eu/proposals",
    "timeline": "/clusters/prod-eu/timeline",
    "plan": "/clusters/prod-eu/plan",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_serious(browser: Browser, visited: Visited, scheme: str) -> None:
    await visited.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    for name, path in PAGES.items():
        await visited.visit(path)
        if name == "moves":
            await visited.page.wait_for_selector(".long tbody tr td.name")
        found = await Axe().run(visited.page)
        serious = [
            f"{name}: {each['id']}: {node['html'][:150]} {node['failureSummary'][:250]}"
            for each in found.response["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"][:2]
        ]
        assert serious == []


async def test_a_token_leaves_no_trace_in_the_address(visited: Visited) -> None:
    assert "token" not in visited.page.url
    assert visited.secret not in await visited.page.content()
    kept = await visited.page.evaluate("JSON.stringify([Object.entries(localStorage), document.cookie])")
    assert visited.secret not in kept


async def test_progress_is_seen_without_a_reload(visited: Visited) -> None:
    await visited.visit("/clusters/prod-eu/moves", ".moving .figure dd")
    told = visited.page.locator(".moving .figure dd small").first
    before = await told.inner_text()
    visited.yard.tick()
    await expect(told).not_to_have_text(before)


async def test_everything_is_rolled_back_in_two_clicks_and_its_cost_is_told_first(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu/moves")
    await page.click(".moving >> text=Roll back")
    await expect(page.locator("dialog .cost")).to_contain_text("This copies")
    await page.click("dialog button[type=submit]")
    await expect(page.locator("dialog")).to_have_count(0)
    order, signature = visited.yard.orders[-1]
    assert (order.kind, order.about, signature.who) == (OrderKind.ROLL_BACK, (), "anna")


async def test_a_selection_is_stopped(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu/moves", ".long tbody tr td.name")
    for index in (1, 3):
        await page.locator(".long tbody tr input").nth(index).check()
    await expect(page.locator(".chosen strong")).to_have_text("2 moves chosen")
    await page.click(".chosen >> text=Stop")
    await page.click("dialog button[type=submit]")
    await expect(page.locator("dialog")).to_have_count(0)
    assert visited.yard.orders[-1][0].about == ("topic-001-0", "topic-003-0")


async def test_the_throttle_acts(visited: Visited) -> None:
    await visited.visit("/clusters/prod-eu/moves")
    await visited.page.focus(".throttle input")
    await visited.page.keyboard.press("End")
    await expect(visited.page.locator(".notes")).to_contain_text("lifted")
    assert visited.yard.orders[-1][0].value is None


async def test_a_proposal_is_approved_with_a_comment(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu/proposals")
    await page.click("text=Approve")
    await page.fill("dialog textarea", "quiet night")
    await page.click("dialog button[type=submit]")
    await expect(page.locator(".proposal .chip").first).to_contain_text("running")
    kept = visited.yard.kept["prod-eu"][0]
    assert (kept.state, kept.votes[0].comment) == (ProposalState.RUNNING, "quiet night")


async def test_something_is_planned_and_approved_to_its_end(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu/plan")
    await page.check("input[value=fill]")
    await expect(page.locator("form.plan button.primary")).to_be_disabled()
    await page.locator(".brokers input").first.check()
    await page.click("form.plan button.primary")
    await expect(page.locator(".proposal h2")).to_contain_text("dry run")
    assert visited.yard.orders == []
    await page.locator(".brokers input").nth(4).check()
    await expect(page.locator("text=Propose it")).to_be_disabled()
    await page.click("text=See it again")
    await expect(page.locator("text=Propose it")).to_be_enabled()
    await page.click("text=Propose it")
    await page.wait_for_selector(".proposal >> nth=1")
    assert visited.yard.orders[-1][0].about == ("fill", "1", "5")
    await page.locator(".proposal >> nth=0").locator("text=Approve").click()
    await page.click("dialog button[type=submit]")
    await expect(page.locator(".proposal .chip").first).to_contain_text("running")


async def test_the_kill_switch(visited: Visited) -> None:
    page = visited.page
    await page.click("header >> text=Pause all")
    await page.click("dialog button[type=submit]")
    await expect(page.locator("main .banner")).to_contain_text("The whole fleet is paused by anna")


async def test_a_lost_connection_is_told_and_mended(visited: Visited) -> None:
    page = visited.page
    await expect(page.locator(".live")).to_have_text("live")
    await visited.end_service()
    await expect(page.locator(".live")).to_contain_text("disconnected since")
    assert await page.locator(".card").count() == 3, "what was read last stays"
    await visited.serve()
    # Sessions end with the service: whoever comes back signs in again, and is told so.
    await expect(page.locator("h1")).to_have_text("Sign in")
    await page.fill("input[type=password]", visited.secret)
    await page.click("text=Sign in >> nth=-1")
    await expect(page.locator(".live")).to_have_text("live")
    assert await page.locator(".card").count() == 3


async def test_who_may_only_look_sees_so(browser: Browser, visited: Visited, tmp_path: Path) -> None:
    async with serving(visited.yard.front, WebOptions(port=0)) as address:
        page = await browser.new_page(locale="en-US")
        await page.goto(f"{address}clusters/prod-eu/moves")
        await page.wait_for_selector(".moving")
        await expect(page.locator("header .who")).to_contain_text("read-only")
        buttons = page.locator(".moving .actions button, header button.danger")
        assert await buttons.count() == 5
        assert all([await buttons.nth(each).is_disabled() for each in range(5)])
        await page.close()


async def test_a_table_of_any_length_holds_what_is_in_sight(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu/proposals")
    await page.click("text=Partitions that change")
    await page.wait_for_selector(".long tbody tr td.name")
    await page.evaluate("document.querySelector('.long').scrollTo(0, 1e9)")
    await expect(page.locator(".long tbody tr").last).to_have_attribute("aria-rowindex", "33334")
    await expect(page.locator(".long tbody tr").last.locator("td.name")).to_have_text("topic-132-166")
    assert await page.locator(".long tbody tr").count() < 100


async def test_keyboard_alone(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu/moves")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.className") == "skip"
    await page.locator(".moving >> text=Stop").focus()
    await page.keyboard.press("Enter")
    await page.wait_for_selector("dialog[open]")
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog")).to_have_count(0)
    assert visited.yard.orders == []


async def test_the_address_reproduces_the_view(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu/timeline", ".events li")
    await page.click("[aria-label='Zoom in']")
    await page.click(".events button.kind >> nth=0")
    address = page.url
    assert "from=" in address
    assert "kind=" in address
    shown = await page.locator(".events li").count()
    await page.goto("about:blank")
    await page.goto(address)
    await page.wait_for_selector(".events li")
    assert await page.locator(".events li").count() == shown


async def test_an_error_of_the_service_is_told(visited: Visited) -> None:
    async def broken(*_args: object, **_more: object) -> None:
        raise RuntimeError("broken")

    visited.yard.proposals = broken  # type: ignore[assignment,method-assign]
    await visited.visit("/clusters/prod-eu/proposals", ".state.bad")
    await expect(visited.page.locator(".state.bad")).to_contain_text("can't be shown")
    await visited.visit("/clusters/nowhere", ".state.bad")
    await expect(visited.page.locator(".state.bad")).to_contain_text("there is no cluster 'nowhere'")
