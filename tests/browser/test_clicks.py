"""The table of clicks in docs/web.md: a browser does each task and counts; a peer never needs fewer."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from web_sights import keep, sighting
from web_yard import Yard

from conftest import Visited

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "core" / "keeper"))
from keeper_clusters import only

from shunter.app.access.access_tokens import AccessRole, add_token
from shunter.model.keeper import Condition, Intents, KeeperPolicy
from shunter.model.service import OrderKind, ProposalState
from shunter.web.server import WebOptions

pytestmark = [pytest.mark.browser, pytest.mark.long]
Task = Callable[[Visited], Awaitable[None]]
TOPICS = {"orders": 12, "payments": 12, "audit": 8}
COUNTING = """
window.presses = 0;
window.fields = new Set();
const counts = { pointerdown: () => true, keydown: ({ key }) => key === "Enter" };
for (const [kind, fits] of Object.entries(counts))
  addEventListener(kind, (event) => { if (event.isTrusted && fits(event)) window.presses += 1; }, true);
addEventListener("input", ({ target }) => { if (!/radio|checkbox/.test(target.type)) window.fields.add(target); }, true);
"""
"""Runs before the page does. It sees what the browser gets, whatever calls a test makes."""


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture
async def clicked(browser: Browser, tmp_path: Path) -> AsyncIterator[Visited]:
    """Clusters of twelve brokers, one with 40 open moves and one, judged by the real keeper, without; one of 200."""
    tokens = tmp_path / "tokens.json"
    secret = add_token(tokens, "anna", AccessRole.ADMINISTER, None)
    yard = Yard({"moving": (12, 1_200), "still": (12, 96), "large": (200, 2_000)}, 40, now_ms)
    keep(yard, "still", sighting(12, TOPICS, now_ms()), watching())
    async with AsyncExitStack() as stack:
        found = Visited(yard, stack, secret, WebOptions(port=0, tokens=tokens, sessions=tmp_path / "sessions.json"))
        await found.serve()
        await found.open(browser)
        await found.page.context.add_init_script(COUNTING)
        yield found
    assert found.troubles == []


def watching(*, drain: tuple[int, ...] = (), demote: tuple[int, ...] = ()) -> KeeperPolicy:
    return only(Condition.DRAIN, Condition.DEMOTE, Condition.BROKER_DEAD, intents=Intents(drain, demote))


async def begin(visited: Visited, cluster: str) -> None:
    """Open a cluster's page Now, from which each task is counted."""
    await visited.visit(f"/clusters/{cluster}", ".standing")


# ---- the tasks


async def see_how_it_stands(visited: Visited) -> None:
    keep(visited.yard, "still", sighting(12, TOPICS, now_ms(), dead=(3,)), watching())
    await begin(visited, "still")
    await expect(visited.page.locator(".title .chip")).to_contain_text("offline")
    await expect(visited.page.locator(".reason", has_text="broker down")).to_contain_text("waits for approval")
    await expect(visited.page.locator(".standing .next", has_text="decide on")).to_be_visible()


async def see_a_broker_of_twelve(visited: Visited) -> None:
    await begin(visited, "moving")
    broker = visited.page.locator("[data-broker='4'] .more")
    await expect(broker).to_contain_text(re.compile(r"\d+ %.*\d+ replicas, leads \d+"))


async def see_a_broker_of_200(visited: Visited) -> None:
    await begin(visited, "large")
    await visited.page.locator("[data-broker='4']").click()
    for label in ("Disk", "Replicas", "Leads"):
        await expect(visited.page.locator(".side .figure", has_text=label)).to_contain_text(re.compile(r"\d"))


async def find_a_partition(visited: Visited) -> None:
    page = visited.page
    await begin(visited, "still")
    await page.click("nav >> text=Topics")
    await page.click("input[type=search]")
    await page.keyboard.type("payments-7")
    await expect(page.locator("text=Open payments-7")).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(page.locator(".side h2")).to_have_text("payments-7")
    await expect(page.locator(".side tbody tr")).to_have_count(3)


async def open_the_move(visited: Visited) -> list[int]:
    """Open the form that moves a partition; returns the brokers that hold it now."""
    page = visited.page
    await begin(visited, "still")
    await page.click("nav >> text=Topics")
    await page.locator(".long tbody button.link", has_text="payments").click()
    await page.get_by_label("Move payments-7", exact=True).click()
    await expect(page.locator("form.plan .chip")).to_contain_text("payments-7")
    boxes = page.locator(".brokers input")
    return [each for each in range(1, 13) if await boxes.nth(each - 1).is_checked()]


async def plan_the_move(visited: Visited, wanted: list[int]) -> None:
    await visited.page.click("form.plan button.primary")
    await visited.page.click("text=Propose and approve")
    await expect(visited.page.locator("h1")).to_have_text("Proposals")
    (proposed, _who), (approved, _by) = visited.yard.orders[-2:]
    assert proposed.about == ("move", "payments-7", f"to={','.join(map(str, wanted))}")
    assert approved.kind is OrderKind.APPROVE


async def move_one_replica(visited: Visited) -> None:
    held = await open_the_move(visited)
    other = next(each for each in range(1, 13) if each not in held)
    for broker in (held[-1], other):
        await visited.page.locator(".brokers input").nth(broker - 1).click()
    await plan_the_move(visited, sorted([*held[:-1], other]))


async def move_all_replicas(visited: Visited) -> None:
    held = await open_the_move(visited)
    assert len(held) == 3
    others = [each for each in range(1, 13) if each not in held][:3]
    await visited.page.click("form.plan >> text=Choose none")
    for broker in others:
        await visited.page.locator(".brokers input").nth(broker - 1).click()
    await plan_the_move(visited, others)


async def from_now_on(visited: Visited, label: str, policy: KeeperPolicy) -> None:
    """Give an intent for broker 4; the next observation proposes its plan, which is approved."""
    page, yard = visited.page, visited.yard
    await begin(visited, "still")
    await page.click("[data-broker='4']")
    await page.click(f".broker >> text={label}")
    await page.click("dialog button[type=submit]")
    await expect(page.locator("dialog")).to_have_count(0)
    assert yard.orders[-1][0].about == (label.lower(), "4")
    (made,) = keep(yard, "still", sighting(12, TOPICS, now_ms()), policy)
    assert (made.scope, made.state) == (label.lower(), ProposalState.WAITING)
    await page.click(".standing .next >> text=Approve")
    await page.click("dialog button[type=submit]")
    await expect(page.locator("dialog")).to_have_count(0)
    assert yard.kept["still"][0].state is ProposalState.RUNNING


async def drain(visited: Visited) -> None:
    await from_now_on(visited, "Drain", watching(drain=(4,)))


async def demote(visited: Visited) -> None:
    await from_now_on(visited, "Demote", watching(demote=(4,)))


async def rebalance(visited: Visited) -> None:
    await begin(visited, "still")
    await visited.page.click("nav >> text=Plan")
    await visited.page.click("form.plan button.primary")
    await expect(visited.page.locator(".proposal h2")).to_contain_text("dry run")
    assert visited.yard.orders == []
    await visited.page.click("text=Propose and approve")
    await expect(visited.page.locator("h1")).to_have_text("Proposals")
    assert [order.kind for order, _who in visited.yard.orders] == [OrderKind.PROPOSE, OrderKind.APPROVE]
    assert visited.yard.orders[0][0].about == ("rebalance",)


async def see_progress(visited: Visited) -> None:
    visited.yard.tick()
    await begin(visited, "moving")
    await visited.page.click("nav >> text=Moves")
    await expect(visited.page.locator(".moving .figure", has_text="Done").first).to_contain_text("%")
    left = visited.page.locator(".moving .figure", has=visited.page.get_by_text("Left", exact=True))
    await expect(left).to_contain_text("80 % sure")


async def change_the_throttle(visited: Visited) -> None:
    page = visited.page
    await begin(visited, "moving")
    await page.click("nav >> text=Moves")
    await page.get_by_label("Throttle per broker").click()
    await page.keyboard.press("Control+a")
    await page.keyboard.type("50")
    await page.locator(".throttle").first.get_by_text("Set", exact=True).click()
    await expect(page.locator(".throttle").first).to_contain_text("50.0 MB/s")
    assert visited.yard.orders[-1][0].bytes_per_s == 50_000_000


async def turn_one(visited: Visited, label: str, kind: OrderKind) -> None:
    page = visited.page
    await begin(visited, "moving")
    await page.click("nav >> text=Moves")
    await page.get_by_label("Change topic-001-0", exact=True).click()
    await page.locator("dialog").get_by_role("button", name=label, exact=True).click()
    await expect(page.locator("dialog")).to_have_count(0)
    assert (visited.yard.orders[-1][0].kind, visited.yard.orders[-1][0].about) == (kind, ("topic-001-0",))


async def stop_one(visited: Visited) -> None:
    await turn_one(visited, "Stop", OrderKind.STOP)


async def roll_one_back(visited: Visited) -> None:
    await turn_one(visited, "Roll back", OrderKind.ROLL_BACK)


async def turn_all(visited: Visited, place: str, label: str, kind: OrderKind) -> None:
    page = visited.page
    await begin(visited, "moving")
    await page.locator(place).get_by_role("button", name=label, exact=True).click()
    await page.click("dialog button[type=submit]")
    await expect(page.locator("dialog")).to_have_count(0)
    assert (visited.yard.orders[-1][0].kind, visited.yard.orders[-1][0].partitions) == (kind, ())


async def stop_all(visited: Visited) -> None:
    await turn_all(visited, ".standing", "Stop", OrderKind.STOP)


async def roll_all_back(visited: Visited) -> None:
    await turn_all(visited, ".standing", "Roll back", OrderKind.ROLL_BACK)


async def pause_all(visited: Visited) -> None:
    await turn_all(visited, ".title", "Pause cluster", OrderKind.PAUSE)


TASKS: dict[str, list[tuple[Task, ...]]] = {
    "See how a cluster stands, and what is done about it": [(see_how_it_stands,)],
    "See a broker's disk, replicas and leaders": [(see_a_broker_of_twelve,), (see_a_broker_of_200,)],
    "Find a partition and its replicas": [(find_a_partition,)],
    "Move a partition, by its row": [(move_one_replica,), (move_all_replicas,)],
    "Drain or demote a broker": [(drain, demote)],
    "Rebalance, after a dry run": [(rebalance,)],
    "See progress and ETA": [(see_progress,)],
    "Change the throttle of what moves": [(change_the_throttle,)],
    "Stop or roll back one move": [(stop_one, roll_one_back)],
    "Stop, roll back or pause everything": [(stop_all, roll_all_back, pause_all)],
}
"""By row of the table, for each of its counts: what is done by so many clicks."""
DONE = [(row, at, task) for row, counts in TASKS.items() for at, tasks in enumerate(counts) for task in tasks]


def table() -> dict[str, list[str]]:
    """The rows of the table: the cells here, of Redpanda Console, and of Cruise Control UI."""
    page = (Path(__file__).parents[2] / "docs" / "web.md").read_text()
    body = page.partition("## Ten tasks, by clicks\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in body.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in rows[2:]}


def counts(cell: str) -> list[int]:
    return [int(each) for each in re.findall(r"\*\*(\d+)\*\*", cell)]


@pytest.mark.parametrize(("row", "at", "task"), DONE, ids=[task.__name__ for _row, _at, task in DONE])
async def test_a_task_takes_as_many_clicks_as_the_table_says(clicked: Visited, row: str, at: int, task: Task) -> None:
    here = table()[row][0]
    await task(clicked)
    assert await clicked.page.evaluate("presses") == counts(here)[at]
    assert await clicked.page.evaluate("fields.size") == here.count("(a field)")


def test_the_table_has_ten_tasks_and_no_peer_needs_fewer_clicks() -> None:
    rows = table()
    assert (len(rows), list(rows)) == (10, list(TASKS))
    for row, (here, *peers) in rows.items():
        assert len(counts(here)) == len(TASKS[row])
        for peer in peers:
            assert len(counts(peer)) <= 1
            assert all(mine <= theirs for theirs in counts(peer) for mine in counts(here)), row
