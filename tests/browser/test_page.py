"""The page in a real Chromium: common tasks, accessibility, and the page after its service has ended."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, expect
from web_lake import keep_lake

from conftest import Visited
from shunter.app.access.access_tokens import AccessRole, add_token, remove_token
from shunter.model.service import KillSwitch, OrderKind, ProposalState
from shunter.web.server import WebOptions, serving

pytestmark = [pytest.mark.browser, pytest.mark.long]
PAGES = {
    "fleet": "/",
    "cluster": "/clusters/prod-eu?broker=12",
    "moves": "/clusters/prod-eu/moves?move=topic-001-0",
    "executions": "/clusters/prod-eu/moves?past=1",
    "execution": "/clusters/prod-eu/moves?execution=1&move=topic-002-0",
    "proposals": "/clusters/prod-eu/proposals",
    "timeline": "/clusters/prod-eu/timeline",
    "topics": "/clusters/prod-eu/topics",
    "partition": "/clusters/prod-eu/topics?view=partitions&partition=orders-1",
    "plan": "/clusters/prod-eu/plan",
    "pick": "/clusters/prod-eu/plan?goal=move&pick=orders-1",
    "table": "/?as=table",
    "reports": "/clusters/prod-eu/reports?report=runway",
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
    told = visited.page.locator(".moving .figure", has_text="Rate")
    before = await told.inner_text()
    visited.yard.tick()
    await expect(told).not_to_have_text(before)


async def test_a_move_shows_each_of_its_steps(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu/moves", ".long tbody tr td.name")
    await page.click(".long tbody >> text=topic-001-0")
    rows = page.locator(".story .steps tbody tr")
    await expect(rows).to_have_count(3)
    await expect(rows.nth(1)).to_contain_text("under way")
    await expect(rows.nth(2)).to_contain_text("to come")
    assert "move=topic-001-0" in page.url
    await page.click(".story >> [aria-label='Close topic-001-0']")
    await expect(page.locator(".story")).to_have_count(0)


async def test_the_post_mortem_of_a_past_move(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu/moves")
    await page.click("text=All executions")
    await page.click(".plain tbody tr >> nth=1 >> button.link")
    await page.click(".long tbody >> text=topic-002-0")
    story = page.locator(".story")
    await expect(story.locator(".chip").first).to_contain_text("rolled back")
    await expect(story.locator(".events")).to_contain_text("roll back, asked for by anna")
    await expect(story.locator(".events li", has_text="paused").first).to_contain_text("for 12 min")
    told = await story.locator(".events").inner_text()
    address = page.url
    await page.goto("about:blank")
    await page.goto(address)
    await page.wait_for_selector(".story .events li")
    assert await story.locator(".events").inner_text() == told
    await story.locator("text=The cluster's timeline of this time").click()
    await page.wait_for_selector("h1 >> text=Timeline")


async def test_a_partition_is_found_without_knowing_its_execution(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu/moves?past=1")
    await page.fill(".find input", "topic-003-0")
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".story .events li")
    await page.click(".story >> text=execution 1")
    await expect(page.locator(".story .chip").first).to_contain_text("gone")
    await visited.visit("/clusters/prod-eu/moves?past=1&move=nothing-7", ".state.bad")
    await expect(page.locator(".state.bad")).to_contain_text("nothing-7 was never moved")


async def test_the_timeline_leads_to_the_moves_of_a_plan(visited: Visited) -> None:
    page = visited.page
    visited.yard.happened("prod-eu", "proposal-turned", "p-7 is turned: 1 done, 1 rolled back, 1 gone", subject="p-7")
    await visited.visit("/clusters/prod-eu/timeline", ".events li")
    await page.click("text=Its moves")
    await expect(page.locator("h2").first).to_have_text("Execution 1")
    await expect(page.locator(".long tbody tr")).to_have_count(3)


async def test_who_opens_the_page_late_sees_how_the_estimate_went(visited: Visited) -> None:
    begin = visited.yard.now_ms()
    kept = "async () => (await (await fetch('/api/v1/clusters/prod-eu/forecasts')).json()).at_ms.length"
    for second in range(3):
        visited.yard.now_ms = lambda at=begin + second * 2_000: at  # type: ignore[misc]
        visited.yard.tick()
        async with asyncio.timeout(60):
            while await visited.page.evaluate(kept) <= second:
                pass
    await visited.visit("/clusters/prod-eu/moves", ".pair canvas")
    assert await visited.page.locator(".pair canvas").count() == 2


async def test_everything_is_rolled_back_in_two_clicks_and_its_cost_is_told_first(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu/moves")
    await page.click(".moving >> text=Roll back")
    await expect(page.locator("dialog .cost")).to_contain_text("are copied again")
    await page.click("dialog button[type=submit]")
    await expect(page.locator("dialog")).to_have_count(0)
    order, signature = visited.yard.orders[-1]
    assert (order.kind, order.partitions, signature.who) == (OrderKind.ROLL_BACK, (), "anna")


async def test_one_move_is_rolled_back_in_two_clicks_and_its_cost_is_told_first(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu/moves", ".long tbody tr td.name")
    await page.get_by_label("Change topic-001-0", exact=True).click()
    await expect(page.locator("dialog .cost")).to_contain_text("Roll back: 1 open move")
    await page.click("dialog >> text=Roll back >> nth=-1")
    await expect(page.locator("dialog")).to_have_count(0)
    order, signature = visited.yard.orders[-1]
    assert (order.kind, order.about, signature.who) == (OrderKind.ROLL_BACK, ("topic-001-0",), "anna")


async def test_the_way_back_undoes_what_was_opened(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu/moves", ".long tbody tr td.name")
    await page.click(".long tbody >> text=topic-001-0")
    await page.wait_for_selector(".story")
    await page.fill(".filters input", "topic-00")
    await page.go_back()
    await expect(page.locator(".story")).to_have_count(0)
    assert page.url.endswith("/moves")
    await page.go_forward()
    await page.wait_for_selector(".story")
    await expect(page.locator(".filters input")).to_have_value("topic-00")


async def test_who_is_signed_out_is_told_why_and_hears_events_once_afterwards(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu/moves", ".moving")
    remove_token(visited.tokens, "anna")
    visited.yard.tick()
    await expect(page.locator("h1")).to_have_text("Sign in")
    await expect(page.locator(".banner.watch")).to_contain_text("You were signed out")
    secret = add_token(visited.tokens, "anna", AccessRole.ADMINISTER, None)
    await page.fill("input[type=password]", secret)
    await page.click("text=Sign in >> nth=-1")
    await page.wait_for_selector(".moving")
    await expect(page.locator(".live")).to_have_text("live")
    told = page.locator(".moving .figure", has_text="Rate")
    before = await told.inner_text()
    visited.yard.tick()
    await expect(told).not_to_have_text(before)


async def test_an_order_after_another_tab_signed_in_anew(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu/moves", ".moving")
    again = await page.context.new_page()
    sign_in = "token => fetch('/api/v1/session', {method: 'POST', headers: {'content-type': 'application/json'}, body: JSON.stringify({token})})"
    await again.goto(f"{visited.address}timeline")
    await again.evaluate(sign_in, visited.secret)
    await page.click(".moving >> text=Pause")
    await page.click("dialog button[type=submit]")
    await expect(page.locator("dialog")).to_have_count(0)
    assert visited.yard.orders[-1][1].who == "anna"
    other = add_token(visited.tokens, "ben", AccessRole.ADMINISTER, None)
    await again.evaluate(sign_in, other)
    given = len(visited.yard.orders)
    await page.click(".moving >> text=Stop")
    await page.click("dialog button[type=submit]")
    await expect(page.locator("dialog .banner.bad")).to_contain_text(
        "You are ben now, no longer anna: nothing was done"
    )
    assert len(visited.yard.orders) == given


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
    await expect(page.locator(".proposal .figures")).to_contain_text("no plan that reaches this copies less than")
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


async def test_the_wizard_by_keyboard_alone(visited: Visited) -> None:
    """From the first choice to the approval without a pointer: Tab reaches each step, which keeps the focus."""
    page, press = visited.page, visited.page.keyboard.press

    async def reach(selector: str, most: int = 260) -> None:
        """Press Tab until the element of a selector has the focus."""
        for _ in range(most):
            if await page.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
                return
            await press("Tab")
        raise AssertionError(f"{selector} is not reached by Tab")

    await visited.visit("/clusters/prod-eu/plan")
    await reach("input[name=scope]:checked")
    for _ in range(4):
        await press("ArrowDown")
    await expect(page.locator("input[value=fill]")).to_be_focused()
    await reach(".brokers input")
    await press("Space")
    await reach("form.plan .actions button")
    await press("Enter")
    await expect(page.locator(".proposal h2")).to_contain_text("dry run")
    await reach("textarea")
    await page.keyboard.type("by hand")
    await press("Tab")
    await press("Enter")
    await page.wait_for_selector(".proposal >> nth=1")
    assert visited.yard.orders[-1][0].about == ("fill", "1")
    await reach(".proposal button.primary")
    await press("Enter")
    await reach("dialog button[type=submit]", most=10)
    await press("Enter")
    await expect(page.locator(".proposal .chip").first).to_contain_text("running")


async def test_a_rule_is_changed_and_the_plan_is_seen_again(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu/plan")
    await page.click("form.plan button.primary")
    await expect(page.locator(".proposal h2")).to_contain_text("dry run")
    await page.get_by_label("Most replicas to copy").fill("7")
    await page.get_by_label("Without brokers").fill("3 4")
    await expect(page.locator(".proposal h2")).to_contain_text("made before your last change")
    await expect(page.locator("text=Propose it")).to_be_disabled()
    await page.click("text=See it again")
    await page.click("text=Propose it")
    await page.wait_for_selector(".proposal >> nth=1")
    assert visited.yard.orders[-1][0].about == ("rebalance", "most-moves=7", "without-brokers=3,4")


async def test_a_broker_is_replaced_and_what_that_moves_is_told_first(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu?broker=12", ".broker")
    await page.click(".broker >> text=Replace…")
    await page.get_by_label("By broker").fill("207")
    await expect(page.locator("dialog .cost")).to_contain_text("replicas to copy")
    await page.fill("dialog textarea", "new disks")
    await page.click("dialog button[type=submit]")
    await expect(page.locator("dialog")).to_have_count(0)
    order, signature = visited.yard.orders[-1]
    assert (order.kind, order.about) == (OrderKind.INTEND, ("replace", "12=207"))
    assert (signature.who, signature.comment) == ("anna", "new disks")
    await expect(page.locator(".broker .chip")).to_contain_text("being replaced by 207")
    await page.click(".broker >> text=Withdraw: replace")
    await page.click("dialog button[type=submit]")
    await expect(page.locator(".broker .chip")).to_contain_text("live")
    assert visited.yard.orders[-1][0].about == ("replace", "12")


async def test_a_broker_that_has_not_joined_is_added_and_that_is_taken_back(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu", ".intents")
    await expect(page.locator(".intents li")).to_have_count(2)
    await page.click(".intents >> text=Add a broker…")
    await page.click("dialog button[type=submit]")
    assert visited.yard.orders == [], "which broker was not said"
    await page.get_by_label("Broker", exact=True).fill("301")
    await page.click("dialog button[type=submit]")
    added = page.locator(".intents li", has_text="Broker 301 is to get its share")
    await expect(added).to_contain_text("by anna")
    await added.locator("text=Withdraw").click()
    await page.click("dialog button[type=submit]")
    await expect(added).to_have_count(0)
    kinds = [order.kind for order, _signature in visited.yard.orders]
    assert kinds == [OrderKind.INTEND, OrderKind.WITHDRAW]
    assert visited.yard.orders[0][0].about == ("add", "301")


async def test_what_stays_for_topics(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu", ".intents")
    await page.click(".intents >> text=Freeze topics…")
    await page.get_by_label("A topic, or a pattern").fill("audit-*")
    await page.click("dialog button[type=submit]")
    await expect(page.locator(".intents")).to_contain_text("Nothing of topic audit-* may change")
    await page.click("text=Set a replication factor…")
    await page.get_by_label("Topic", exact=True).fill("topic-003")
    await page.get_by_label("Replicas", exact=True).fill("4")
    await expect(page.locator("dialog .cost")).to_contain_text("to copy")
    await page.click("dialog button[type=submit]")
    await expect(page.locator(".intents")).to_contain_text("Topic topic-003 is to have 4 replicas")
    await page.locator(".intents li", has_text="topic-003").locator("text=Withdraw").click()
    await page.click("dialog button[type=submit]")
    await expect(page.locator(".intents")).not_to_contain_text("topic-003 is to have")
    order = visited.yard.orders[-1][0]
    assert (order.kind, order.about) == (OrderKind.WITHDRAW, ("replication", "topic-003"))


async def test_who_may_operate_does_not_change_intents(browser: Browser, visited: Visited) -> None:
    secret = add_token(visited.tokens, "ole", AccessRole.OPERATE, None)
    page = await browser.new_page(locale="en-US")
    await page.goto(f"{visited.address}clusters/prod-eu?broker=12#token={secret}")
    buttons = page.locator(".broker .actions button, .intents button")
    await expect(buttons).to_have_count(9)
    assert all([await buttons.nth(each).is_disabled() for each in range(9)])
    await page.close()


async def test_who_leads_under_shunters_controllers(visited: Visited) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu", '[aria-label="Shunter\'s controllers"]')
    box = page.locator('[aria-label="Shunter\'s controllers"]')
    await expect(box.locator(".chip").first).to_contain_text("1000 leads")
    await expect(box.locator(".figures")).to_contain_text("Epoch7")
    await expect(box.locator("li").nth(2)).to_contain_text("Connection refused")
    visited.yard.controlling = visited.yard.controlling[1:]
    await expect(box.locator(".chip").first).to_contain_text("who leads is not known")
    await expect(box.locator(".figures")).to_have_count(0)
    visited.yard.controlling = visited.yard.controlling[:1]
    await expect(box.locator(".chip").first).to_contain_text("none of them leads")


async def test_reports_of_the_pipeline(visited: Visited, tmp_path: Path) -> None:
    page = visited.page
    await visited.visit("/clusters/prod-eu/reports")
    await expect(page.locator("main .state")).to_contain_text("names no lake")
    visited.yard.lake = keep_lake(tmp_path / "lake", "id-of-prod-eu")
    await visited.visit("/clusters/prod-eu/reports")
    await expect(page.locator("main .figures")).to_contain_text("2 of 3")
    await page.click("text=Runway")
    rows = page.locator(".long tbody tr")
    await expect(rows).to_have_count(4)
    await expect(rows.first).to_contain_text("700 GB")
    await page.fill(".filters input", "topic-002")
    await expect(rows).to_have_count(1)
    assert "report=runway" in page.url
    await page.click("text=Anomalies")
    await expect(rows.first).to_contain_text("<b>topic-003-1</b>")
    assert await page.locator(".long b").count() == 0, "what a file says is text, and no part of the page"


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
    await expect(page.locator(".live")).to_have_text("live")
    assert await page.locator(".card").count() == 3
    await expect(page.locator("header .who")).to_contain_text("Sign out anna")
    visited.yard.paused = KillSwitch("", "ben", visited.yard.now_ms(), "fire")
    visited.yard.published.tell()
    await expect(page.locator("main .banner")).to_contain_text("paused by ben")


async def test_a_session_that_is_over_leads_to_the_sign_in(visited: Visited) -> None:
    page = visited.page
    remove_token(visited.tokens, "anna")
    await page.goto(f"{visited.address}clusters/prod-eu/moves")
    await expect(page.locator("h1")).to_have_text("Sign in")
    secret = add_token(visited.tokens, "anna", AccessRole.ADMINISTER, None)
    await page.fill("input[type=password]", secret)
    await page.click("text=Sign in >> nth=-1")
    await expect(page.locator(".live")).to_have_text("live")
    await page.wait_for_selector(".moving")


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


async def test_on_a_phone_the_outcome_of_each_execution_is_in_sight(visited: Visited) -> None:
    await visited.page.set_viewport_size({"width": 390, "height": 844})
    await visited.visit("/clusters/prod-eu/moves?past=1", "table.plain .chip")
    boxes = [await each.bounding_box() for each in await visited.page.locator("table.plain .chip").all()]
    assert boxes
    assert all(box is not None and box["x"] + box["width"] <= 390 for box in boxes), boxes


async def test_the_timeline_shows_what_one_person_did(visited: Visited) -> None:
    await visited.visit("/clusters/prod-eu/timeline", ".events li")
    givers = visited.page.locator(".events li .subject", has_text="by ")
    who = (await givers.first.inner_text()).removeprefix("by ")
    before = await visited.page.locator(".events li").count()
    await visited.page.select_option("label:has-text('Person') select", who)
    await expect(visited.page.locator(".events li").first).to_contain_text(f"by {who}")
    await expect(visited.page.locator(".events li", has_not_text=f"by {who}")).to_have_count(0)
    assert await visited.page.locator(".events li").count() < before
    assert f"who={who}" in visited.page.url
