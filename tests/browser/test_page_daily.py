"""The page in daily work: what stands first, conditions in groups, search, plans by hand, limits, a phone, large clusters."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect
from web_sights import LONG, keep, sighting
from web_yard import Yard

from conftest import Visited
from shunter.app.access.access_tokens import AccessRole, add_token
from shunter.model.service import IntentKind, OrderKind, ProposalState, ServiceOrder, Signature
from shunter.views.service import FlowView
from shunter.web.server import WebOptions

pytestmark = [pytest.mark.browser, pytest.mark.long]
PHONE = {"width": 390, "height": 844}
TOPICS = {"orders": 12, "payments": 12, "audit": 8, LONG: 8}


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture
async def lab(browser: Browser, tmp_path: Path) -> AsyncIterator[Visited]:
    """Four brokers, one of them dead, as the real keeper judges them; 40 moves of another cluster."""
    tokens = tmp_path / "tokens.json"
    secret = add_token(tokens, "anna", AccessRole.ADMINISTER, None)
    yard = Yard({"prod-eu": (12, 1_200), "lab": (4, 40)}, 40, now_ms)
    keep(yard, "lab", sighting(4, TOPICS, now_ms(), dead=(3,)))
    async with AsyncExitStack() as stack:
        found = Visited(yard, stack, secret, WebOptions(port=0, tokens=tokens, sessions=tmp_path / "sessions.json"))
        await found.serve()
        await found.open(browser)
        yield found
    assert found.troubles == []


async def top_of(page: Page, selector: str) -> float:
    box = await page.locator(selector).first.bounding_box()
    assert box is not None, selector
    return box["y"]


async def test_what_to_do_stands_first_then_the_picture_then_conditions_in_groups(lab: Visited) -> None:
    page = lab.page
    await lab.visit("/clusters/lab", ".standing .next")
    places = [await top_of(page, each) for each in (".standing", ".yard", ".reason")]
    assert places == sorted(places)
    assert places[1] < 650, "the picture is in sight"
    reasons = await page.locator(".because").all_inner_texts()
    assert len(reasons) == len(set(reasons)), "each reason once"
    skew = page.locator(".reason li", has_text="preferred leader skew")
    await expect(skew).to_have_count(1)
    await expect(skew).to_contain_text("1, 4 below")
    await expect(skew).not_to_contain_text("of the mean")
    await skew.locator("summary").click()
    await expect(skew.locator("details li")).to_have_count(2)
    await expect(page.locator("main")).not_to_contain_text("`")
    await page.click(".standing .next >> text=Approve")
    await page.click("dialog button[type=submit]")
    await expect(page.locator("dialog")).to_have_count(0)
    assert lab.yard.kept["lab"][0].state is ProposalState.RUNNING


async def test_a_panel_opens_beside_the_page_by_click_and_by_link(lab: Visited) -> None:
    page = lab.page
    await lab.visit("/clusters/lab?broker=1", ".side.broker")
    await expect(page.locator(".side h2")).to_contain_text("Broker 1")
    await page.keyboard.press("Escape")
    await expect(page.locator(".side")).to_have_count(0)
    await page.click("[data-broker='3']")
    await expect(page.locator(".side .chip")).to_contain_text("down")
    await page.click(".side >> text=Its partitions")
    await expect(page.locator(".filters")).to_contain_text("on broker 3")
    opened = page.locator(".long tbody button.link").first
    name = await opened.inner_text()
    await opened.click()
    await expect(page.locator(".side .plain tbody tr").first).to_contain_text("preferred")
    assert f"partition={name}" in page.url
    await page.reload()
    await expect(page.locator(".side h2")).to_contain_text(name)


async def test_a_brokers_panel_covers_nothing_of_what_is_to_be_done(lab: Visited) -> None:
    page = lab.page
    await page.set_viewport_size({"width": 1440, "height": 900})
    await lab.visit("/clusters/lab?broker=3", ".broker")
    panel = await page.locator(".side.broker").bounding_box()
    standing = await page.locator(".standing").bounding_box()
    assert panel is not None
    assert standing is not None
    assert standing["x"] + standing["width"] <= panel["x"]


async def test_every_partition_is_found_and_its_number_is_in_sight(lab: Visited) -> None:
    page = lab.page
    await lab.visit("/clusters/lab/topics", ".long tbody tr td.name")
    await page.fill(".filters input", "merchant")
    await expect(page.locator(".long tbody tr")).to_have_count(1)
    await page.click(".long tbody button.link")
    await expect(page.locator(".long tbody tr")).to_have_count(8)
    tail, cell = page.locator(".long .tail").nth(7), page.locator(".long td.name").nth(7)
    assert (await tail.inner_text()).endswith("-7")
    inner, outer = await tail.bounding_box(), await cell.bounding_box()
    assert inner is not None
    assert outer is not None
    assert inner["x"] + inner["width"] <= outer["x"] + outer["width"], "the partition's number is not cut off"
    await page.click(".filters >> text=under-replicated")
    await expect(page.locator(".long tbody tr .chip").first).to_contain_text("under-replicated")


async def test_topics_and_partitions_are_picked_by_hand_planned_and_proposed(lab: Visited) -> None:
    page = lab.page
    await lab.visit("/clusters/lab/topics?view=partitions&topic=orders", ".long tbody tr td.name")
    for name in ("orders-0", "orders-2"):
        await page.get_by_label(f"Choose {name}", exact=True).check()
    await page.click("text=Plan a move…")
    await page.fill("input[placeholder^='Topic, or']", "audi")
    await page.click(".finds >> text=audit >> nth=0")
    await page.get_by_label("Remove orders-2", exact=True).click()
    await expect(page.locator("form.plan button.primary")).to_be_disabled()
    for broker in (1, 2, 4):
        await page.locator(".brokers input").nth(broker - 1).check()
    await page.click("form.plan button.primary")
    await expect(page.locator(".proposal h2")).to_contain_text("dry run")
    await page.click("text=Propose it")
    await expect(page.locator("h1")).to_have_text("Proposals")
    order = lab.yard.orders[-1][0]
    assert (order.kind, order.about) == (OrderKind.PROPOSE, ("move", "orders-0", "audit", "to=1,2,4"))


async def test_a_partition_is_found_and_opened_where_topics_are_listed(lab: Visited) -> None:
    page = lab.page
    await lab.visit("/clusters/lab/topics", ".long tbody tr td.name")
    await page.fill("input[type=search]", "orders/1")
    await expect(page.locator(".long tbody button.link")).to_have_text("orders")
    await expect(page.locator("text=Open orders-1")).to_be_visible()
    await page.press("input[type=search]", "Enter")
    await expect(page.locator(".side h2")).to_have_text("orders-1")


async def test_a_partition_is_moved_from_its_row_in_six_clicks(lab: Visited) -> None:
    page = lab.page
    await lab.visit("/clusters/lab/topics", ".long tbody tr td.name")
    await page.locator(".long tbody button.link", has_text="orders").click()
    row = page.locator(".long tbody tr", has=page.get_by_label("Choose orders-0", exact=True))
    await expect(row.locator(".replica").first).to_be_visible()
    held = [int(each) for each in re.findall(r"\d+", " ".join(await row.locator(".replica").all_inner_texts()))]
    await page.get_by_label("Move orders-0", exact=True).click()
    await expect(page.locator("form.plan .chip")).to_contain_text("orders-0")
    await expect(page.locator(".choices")).to_be_hidden()
    boxes = page.locator(".brokers input")
    chosen = [broker for broker in (1, 2, 3, 4) if await boxes.nth(broker - 1).is_checked()]
    assert chosen == sorted(held), "the brokers that hold it now"
    other = next(broker for broker in (1, 2, 4) if broker not in held)
    await boxes.nth(held[-1] - 1).click()
    await boxes.nth(other - 1).click()
    await page.click("form.plan button.primary")
    await page.click("text=Propose and approve")
    await expect(page.locator("h1")).to_have_text("Proposals")
    (proposed, _who), (approved, _by) = lab.yard.orders[-2:]
    wanted = ",".join(map(str, sorted({*held[:-1], other})))
    assert (proposed.kind, proposed.about) == (OrderKind.PROPOSE, ("move", "orders-0", f"to={wanted}"))
    assert approved.kind is OrderKind.APPROVE


async def test_throttle_and_bounds_take_any_value_and_act_on_their_button(lab: Visited) -> None:
    page = lab.page
    await lab.visit("/clusters/prod-eu/moves", ".throttle")
    await expect(page.locator(".throttle").first).to_contain_text("Throttle per broker: 100 MB/s")
    await page.get_by_label("Throttle per broker").fill("37.5")
    assert lab.yard.orders == [], "typing changes nothing"
    await page.locator(".throttle").first.get_by_text("Set", exact=True).click()
    await expect(page.locator(".throttle").first).to_contain_text("37.5 MB/s")
    assert lab.yard.orders[-1][0].bytes_per_s == 37_500_000
    await page.click("text=Lift")
    await expect(page.locator(".throttle").first).to_contain_text("none")
    assert lab.yard.orders[-1][0].bytes_per_s == 0
    bounds = page.locator(".throttle").nth(1)
    await page.get_by_label("Into one broker").fill("5")
    await page.get_by_label("Concurrent copies").fill("40")
    await bounds.get_by_text("Set", exact=True).click()
    await expect(bounds).to_contain_text("concurrent copies 40, into one broker 5")
    order = lab.yard.orders[-1][0]
    assert (order.kind, order.about) == (OrderKind.LIMIT, ("max-concurrent=40", "max-in=5"))


async def test_what_flows_between_brokers_is_drawn(lab: Visited) -> None:
    page, yard = lab.page, lab.yard
    flows = (FlowView(1, 3, 4, 1, 5_000_000_000), FlowView(2, 7, 1, 0, 10**9))
    yard.published.show("prod-eu", replace(yard.published.page("prod-eu"), flows=flows))
    await lab.visit("/clusters/prod-eu", ".flows > path")
    await expect(page.locator(".flows > path")).to_have_count(2)
    await expect(page.locator(".flows > path.moving")).to_have_count(1)
    await expect(page.locator(".flow-words")).to_contain_text("1 → 3: 4 replicas, 5.0 GB left")


WALK = (
    "/", "/?as=table", "/timeline", "/nosuch", "/clusters/lab", "/clusters/lab?broker=3", "/clusters/lab/topics",
    "/clusters/lab/topics?view=partitions&partition=orders-1", "/clusters/lab/proposals", "/clusters/lab/moves",
    "/clusters/lab/plan?goal=move&pick=" + LONG, "/clusters/lab/reports", "/clusters/lab/timeline", "/clusters/prod-eu",
    "/clusters/prod-eu/moves?move=topic-001-0", "/clusters/prod-eu/moves?execution=1", "/clusters/prod-eu/plan",
)  # fmt: skip


async def test_a_phone_has_a_header_of_one_row_and_nothing_beside_the_screen(lab: Visited) -> None:
    page = lab.page
    await page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    for path in WALK:
        await lab.visit(path, "main .panel, main .state")
        wide = await page.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"], path
        bar = await page.locator("header .bar").bounding_box()
        assert bar is not None
        assert bar["height"] < 70, path


async def test_pause_stop_and_roll_back_are_within_reach_of_a_thumb(lab: Visited) -> None:
    page = lab.page
    await page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    for path in ("/clusters/prod-eu", "/clusters/prod-eu/moves"):
        await lab.visit(path, ".turns")
        for label in ("Pause", "Stop", "Roll back"):
            box = await page.locator(".turns button", has_text=label).bounding_box()
            assert box is not None
            assert 500 < box["y"] < PHONE["height"] - 90, "in the lower half, above the pages"
            assert box["height"] >= 44
    await page.click(".turns >> text=Stop")
    await page.click("dialog button[type=submit]")
    await expect(page.locator("dialog")).to_have_count(0)
    assert lab.yard.orders[-1][0].kind is OrderKind.STOP


async def test_a_hold_is_lifted_where_it_stands_first(lab: Visited) -> None:
    held = ServiceOrder(OrderKind.INTEND, "lab", IntentKind.HOLD, scope="offline")
    await lab.yard.carry_out(held, Signature("anna", "incident 12"))
    await lab.visit("/clusters/lab", ".standing .next")
    first = lab.page.locator(".standing .next").first
    await expect(first).to_contain_text("plans of scope offline are held: incident 12, by anna")
    dead = lab.page.locator(".reason", has_text="broker down").first
    await expect(dead).not_to_contain_text("carried out automatically")
    await first.locator("button").click()
    await lab.page.click("dialog button[type=submit]")
    await expect(lab.page.locator(".standing .next", has_text="are held")).to_have_count(0)
    assert lab.yard.orders[-1][0] == ServiceOrder(OrderKind.WITHDRAW, "lab", IntentKind.HOLD, scope="offline")


async def test_a_phone_shows_what_is_copied_and_what_a_move_waits_for(lab: Visited) -> None:
    page = lab.page
    await lab.visit("/clusters/prod-eu/moves", ".long.of-moves tbody tr")
    line = page.locator(".long.of-moves tbody small.thin").first
    await expect(line).to_be_hidden()
    await page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    await expect(line).to_be_visible()
    await expect(line).to_contain_text("%")
    row, box = await page.locator(".long.of-moves tbody tr").first.bounding_box(), await line.bounding_box()
    assert row is not None
    assert box is not None
    assert box["y"] + box["height"] <= row["y"] + row["height"], "two lines fit in a row"
    lines = "() => [...document.querySelectorAll('.tabs button')].map((each) => each.getClientRects().length)"
    assert set(await page.evaluate(lines)) == {1}


async def test_a_dialog_has_the_colours_of_the_page_not_of_the_header(lab: Visited) -> None:
    page = lab.page
    await page.click("header >> text=Pause all")
    light = "() => getComputedStyle(document.querySelector('dialog')).backgroundColor"
    assert await page.evaluate(light) == await page.evaluate(
        "() => getComputedStyle(document.querySelector('main .panel')).backgroundColor"
    )


async def test_a_fleet_of_40_has_a_table_and_a_search(browser: Browser, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    secret = add_token(tokens, "anna", AccessRole.READ, None)
    yard = Yard({f"cluster-{number:02d}": (3, 9) for number in range(40)}, 0, now_ms)
    async with AsyncExitStack() as stack:
        lab = Visited(yard, stack, secret, WebOptions(port=0, tokens=tokens, sessions=tmp_path / "sessions.json"))
        await lab.serve()
        lab.page = await browser.new_page(locale="en-US")
        await lab.page.goto(f"{lab.address}#token={secret}")
        rows = lab.page.locator(".fleet-table tbody tr")
        await expect(rows).to_have_count(40)
        await lab.page.fill(".fleet-table input", "-17")
        await expect(rows).to_have_count(1)
        await lab.page.click("text=Cards")
        await expect(lab.page.locator(".card")).to_have_count(40)


async def test_200_brokers_and_20000_partitions_stay_few_elements(lab: Visited) -> None:
    page = lab.page
    keep(lab.yard, "lab", sighting(200, {f"{LONG}-{each}": 50 for each in range(400)}, now_ms(), dead=(17,), skew=4))
    await lab.visit("/clusters/lab", ".wagon")
    assert await page.evaluate("document.querySelectorAll('*').length") < 2_500
    assert await page.evaluate("document.documentElement.scrollHeight") < 4_000
    sizes = await page.evaluate(
        "performance.getEntriesByType('resource').map((each) => [each.name, each.decodedBodySize])"
    )
    assert max(size for name, size in sizes if "/api/" in name) < 300_000
    await lab.visit("/clusters/lab/topics?view=partitions", ".long tbody tr td.name")
    await page.evaluate("document.querySelector('.long').scrollTo(0, 1e9)")
    await expect(page.locator(".long tbody tr").last).to_have_attribute("aria-rowindex", "20001")
