"""The page in an emergency: it shows the situation that the service works out, and offers no order that is refused."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

from playwright.async_api import Page, expect

from conftest import Visited

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "core" / "keeper"))
from every_situation import DEAD, THEM, every, proposal

from shunter.core.keeper.cluster_facts import ClusterFacts, OpenExecution, Reach, ServiceRole
from shunter.core.keeper.situation import ClusterSituation, situation
from shunter.model.keeper import Condition
from shunter.model.service import KillSwitch, ProposalState
from shunter.views.service import OURS

NAME = "prod-eu"


async def is_shown(page: Page, stands: ClusterSituation) -> None:
    """Headline, what is being done and all notes are on the page of a cluster."""
    await expect(page.locator(".title .chip")).to_contain_text(shown(stands.headline))
    await expect(page.locator(".standing")).to_contain_text(shown(stands.doing))
    for note in stands.notes:
        await expect(page.locator(".standing")).to_contain_text(note)


def shown(sentence: str) -> str:
    """A sentence as pages show it: commands are set as code, without their marks."""
    return sentence.replace("`", "")


async def on_the_card(page: Page, stands: ClusterSituation) -> None:
    """The same headline is on the cluster's card of the fleet."""
    card = page.locator(".card").filter(has=page.locator("h2", has_text=re.compile(f"^{NAME}$")))
    await expect(card.locator(".chip")).to_contain_text(shown(stands.headline))
    await expect(card).to_contain_text(shown(stands.doing))


async def test_a_dead_broker_that_a_running_execution_heals(visited: Visited) -> None:
    page, yard = visited.page, visited.yard
    before = yard.facts[NAME].observation
    assert before is not None
    seen = replace(before, brokers_down=(3,), under_replicated=151, conditions=(DEAD,))
    running = proposal(ProposalState.RUNNING, Condition.BROKER_DEAD.value)
    yard.stand(NAME, observation=seen, execution=OpenExecution(151), proposals=(running,))
    await visited.visit(f"/clusters/{NAME}")
    await is_shown(page, situation(yard.facts[NAME]))
    await expect(page.locator("main")).not_to_contain_text("othing is done")
    await expect(page.locator(".because").first).to_contain_text("eing mended: this service carries out")
    await visited.visit("/", ".card")
    await on_the_card(page, situation(yard.facts[NAME]))


async def test_a_standby_says_who_drives_and_offers_nothing(visited: Visited) -> None:
    page, yard = visited.page, visited.yard
    before = yard.facts[NAME].observation
    assert before is not None
    seen = replace(before, offline=3, journal_open=106)
    yard.stand(NAME, observation=seen, role=ServiceRole.STANDBY, driver=THEM, execution=None, proposals=())
    await visited.visit(f"/clusters/{NAME}")
    stands = situation(yard.facts[NAME])
    await is_shown(page, stands)
    pause = page.locator(".title >> text=Pause")
    await expect(pause).to_be_disabled()
    await expect(pause).to_have_attribute("title", stands.why_not)
    await visited.visit(f"/clusters/{NAME}/moves")
    await expect(page.locator(".moving")).to_contain_text(shown(stands.doing))
    await expect(page.locator("main")).not_to_contain_text("Nothing moves")
    for label in ("Pause", "Resume", "Stop", "Roll back"):
        await expect(page.locator(".moving .actions button", has_text=label)).to_be_disabled()
    assert await page.locator("text=Change…").count() == 0
    await visited.visit(f"/clusters/{NAME}?broker=3")
    for label in ("Drain", "Replace…", "Demote"):
        await expect(page.locator(".broker .actions button", has_text=label)).to_be_disabled()
    await expect(page.locator(".intents button", has_text="Add a broker…")).to_be_disabled()
    await visited.visit(f"/clusters/{NAME}/proposals", ".proposal")
    await expect(page.locator("button", has_text="Approve").first).to_be_disabled()


async def test_a_cluster_that_is_away_is_grey_and_says_of_when_it_is(visited: Visited) -> None:
    page, yard = visited.page, visited.yard
    yard.stand(NAME, reach=Reach.SILENT, reach_why="no broker answers", execution=OpenExecution(40, silent_since_ms=1))
    await visited.visit(f"/clusters/{NAME}")
    await is_shown(page, situation(yard.facts[NAME]))
    await expect(page.locator("dl.figures.old")).to_be_visible()
    await expect(page.locator(".banner", has_text="These figures are old")).to_be_visible()
    await expect(page.locator("dl.figures").first).not_to_contain_text("all live")
    yard.stand(NAME, observation=None, reach=Reach.UNSEEN, role=ServiceRole.IDLE, execution=None)
    await expect(page.locator(".banner", has_text="These figures are not known")).to_be_visible()
    await expect(page.locator("dl.figures").first).not_to_contain_text(re.compile(r"\b0\b"))


async def test_a_move_shows_its_end_and_says_in_sync_only_where_that_is_known(visited: Visited) -> None:
    page, yard = visited.page, visited.yard
    view = yard.published.moves(NAME)
    common = {"original": (3, 1, 5), "target": (3, 1, 2), "isr": None}
    first = next(each for each in view.moves if each.whose == OURS)
    rows = (
        replace(first, partition="a-0", state="moving", direction="forward", replicas=(3, 1, 5, 2), **common),
        replace(first, partition="a-1", state="moving", direction="back", replicas=(3, 1, 5, 2), **common),
        replace(first, partition="a-2", state="done", direction="forward", replicas=(3, 1, 2), **common),
        replace(first, partition="a-3", state="rolled-back", direction="back", replicas=(3, 1, 5), **common),
    )
    yard.published.show(NAME, moves=replace(view, moves=rows))
    await visited.visit(f"/clusters/{NAME}/moves", "text=a-3")
    told = [await row.locator(".replica").all_inner_texts() for row in await page.locator("tr:has(.replica)").all()]
    assert [" ".join(" ".join(each).split()) for each in told] == [
        "broker 3 assigned broker 1 assigned broker 2 assigned broker 5 will go",
        "broker 3 assigned broker 1 assigned broker 5 assigned broker 2 will go",
        "broker 3 assigned broker 1 assigned broker 2 assigned broker 5 was dropped",
        "broker 3 assigned broker 1 assigned broker 5 assigned",
    ]


async def test_a_decline_says_for_how_long_it_holds(visited: Visited) -> None:
    await visited.visit(f"/clusters/{NAME}/proposals", ".proposal")
    await visited.page.locator(".proposal button", has_text="Decline").first.click()
    await expect(visited.page.locator("dialog .prose")).to_contain_text("begins by itself for 24 h, or until somebody")


async def test_a_lifted_pause_is_no_pause(visited: Visited) -> None:
    page, yard = visited.page, visited.yard
    switch = KillSwitch(NAME, "ben", 1_795_400_000_000, "incident 12")
    yard.stand(NAME, switch=switch, execution=OpenExecution(40, paused=40))
    await visited.visit(f"/clusters/{NAME}")
    await expect(page.locator(".title .chip")).to_contain_text("paused by ben")
    await expect(page.locator(".title >> text=Resume")).to_be_enabled()
    yard.stand(NAME, switch=switch._replace(lifted=True), reach=Reach.SILENT, reach_why="no broker answers")
    await expect(page.locator(".title .chip")).to_contain_text("does not answer: no broker answers")
    await expect(page.locator("main .banner", has_text="is paused")).to_have_count(0)
    await expect(page.locator(".standing")).to_contain_text("ben lifted the pause")


async def test_every_card_says_what_its_cluster_stands_for(visited: Visited) -> None:
    page, yard = visited.page, visited.yard
    await visited.visit("/", ".card")
    for facts in list(every())[::61]:
        facts_now: ClusterFacts = replace(facts, name=NAME, now_ms=yard.now_ms())
        yard.facts[NAME] = facts_now
        yard.stand(NAME)
        await on_the_card(page, situation(facts_now))
