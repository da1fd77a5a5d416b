"""API, command line, metrics, notifications and /ready say the same about a cluster, for every combination of facts.

The page shows the same fields of the API: `tests/browser` reads them in a real browser.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from web_house import House
from web_yard import Yard

sys.path.insert(0, str(Path(__file__).parents[1] / "core" / "keeper"))
from every_situation import NOW_MS, every

from shunter.app.access.audit_log import AuditLog
from shunter.app.access.page_sessions import PageSessions
from shunter.app.service.front import Front
from shunter.app.service.published import Published
from shunter.cli.service.looks import _status_row, _told_cluster
from shunter.core.keeper.cluster_facts import Age, ClusterFacts, Reach, ServiceRole
from shunter.core.keeper.situation import ClusterSituation, situation
from shunter.core.wording import named
from shunter.drivers.service.notifier import message
from shunter.model.service import HistoryEvent, NotifierKind
from shunter.views.keeper import ConditionView
from shunter.views.keeper_picture import FleetAround, Surrounding, dressed, view_fleet, view_moves
from shunter.views.service import ClusterSeverity, FleetRow, FleetView, KeptClusterView, KeptConditionView, service_json
from shunter.web.hub import Hub
from shunter.web.identity import Identity
from shunter.web.metrics import metrics_text
from shunter.web.reception import Reception

ASSETS = Path(__file__).parents[3] / "src" / "shunter" / "web" / "assets"
FIGURES = ("brokers", "brokers_down", "partitions", "offline_partitions", "under_replicated_partitions", "conditions")


class Stage(Yard):
    """A backstage with a cluster for each combination of facts, made by the views that the service uses."""

    def __init__(self, found: list[ClusterFacts]) -> None:
        self.published = Published([facts.name for facts in found])
        self.front = Front(self)
        for facts in found:
            page = dressed(_page(facts), Surrounding(facts))
            self.published.show(facts.name, page, view_moves(None, {}, (), facts))

    def fleet(self) -> FleetView:
        rows = tuple(self.published.page(name).row for name in self.published.names)
        return view_fleet(1, NOW_MS, rows, FleetAround("here"))


def _page(facts: ClusterFacts) -> KeptClusterView:
    """A page as an observation makes it; before the first one there is nothing on it."""
    empty = KeptClusterView(1, FleetRow(facts.name, "", situation(facts)))
    seen = facts.observation
    if seen is None:
        return empty
    row = replace(
        empty.row,
        brokers=3,
        brokers_down=seen.brokers_down,
        partitions=600,
        under_replicated=seen.under_replicated,
        under_min_isr=seen.under_min_isr,
        offline=seen.offline,
        conditions=len(seen.conditions),
    )
    views = [ConditionView(each.condition.value, "", each.text, None, 0, 0) for each in seen.conditions]
    return replace(
        empty, row=row, conditions=tuple(KeptConditionView(each, "propose", ClusterSeverity.WARNING) for each in views)
    )


@pytest.fixture(scope="module")
def found() -> list[ClusterFacts]:
    return list(every())


@pytest.fixture(scope="module")
def stage(found: list[ClusterFacts]) -> Stage:
    return Stage(found)


@pytest.fixture(scope="module")
def samples(stage: Stage) -> dict[str, dict[str, list[tuple[dict[str, str], float]]]]:
    """Samples of the metrics by cluster, then by name."""
    by_cluster: dict[str, dict[str, list[tuple[dict[str, str], float]]]] = defaultdict(lambda: defaultdict(list))
    reception = Reception(stage.front, Identity(None, PageSessions()), Hub("none"), AuditLog(None))
    for family in text_string_to_metric_families(metrics_text(reception).decode()):
        for sample in family.samples:
            name = sample.name.removeprefix("shunter_service_")
            by_cluster[sample.labels.get("cluster", "")][name].append((sample.labels, sample.value))
    return by_cluster


def test_the_command_line_says_what_the_api_says(found: list[ClusterFacts], stage: Stage) -> None:
    rows: list[dict[str, Any]] = service_json(stage.fleet())["clusters"]
    assert len(rows) == len(found)
    for facts, row in zip(found, rows, strict=True):
        stands = situation(facts)
        assert row["situation"] == service_json(stands)
        for_programs = _status_row(row)
        assert (for_programs["headline"], for_programs["doing"]) == (stands.headline, stands.doing)
        assert bool(for_programs["paused"]) == (facts.paused is not None)
        told = _told_cluster(for_programs, NOW_MS)
        for sentence in (stands.headline, stands.doing, *stands.notes):
            assert sentence in told
        if stands.figures is Age.UNKNOWN:
            assert "0 brokers" not in told
            assert "its figures are not known" in told
            assert for_programs["brokers"] is for_programs["offline"] is None
        else:
            assert ("old, of" in told) == (stands.figures is Age.OLD)


def test_a_clusters_page_says_what_its_row_says(found: list[ClusterFacts], stage: Stage) -> None:
    for facts in found:
        page, moves = stage.published.page(facts.name), stage.published.moves(facts.name)
        assert page.row.situation == moves.situation == situation(facts)
        assert page.row.moves_open is None or page.row.moves_open == facts.open_moves
        assert (page.row.moves_open is None) == (page.row.situation.moves is Age.UNKNOWN)
        assert all(each.doing for each in page.conditions)


def test_metrics_have_only_what_is_known_now(
    found: list[ClusterFacts], samples: dict[str, dict[str, list[tuple[dict[str, str], float]]]]
) -> None:
    for facts in found:
        stands, mine = situation(facts), samples[facts.name]
        for name in FIGURES:
            assert (name in mine) == (stands.figures is Age.CURRENT), (name, facts)
        if stands.figures is Age.CURRENT:
            assert facts.observation is not None
            assert mine["offline_partitions"][0][1] == facts.observation.offline
        assert ("moves_open" in mine) == (stands.moves is Age.CURRENT)
        assert mine["paused"][0][1] == (facts.paused is not None)
        assert _hot(mine, "cluster_severity", "severity") == [stands.severity.value]
        assert _hot(mine, "cluster_state", "state") == [stands.state]
        assert ("looked_at_timestamp_seconds" in mine) == (facts.observation is not None)


def _hot(mine: dict[str, list[tuple[dict[str, str], float]]], name: str, label: str) -> list[str]:
    return [labels[label] for labels, value in mine[name] if value == 1]


def test_a_notification_says_how_the_cluster_stands(found: list[ClusterFacts]) -> None:
    for stands in map(situation, found[::50]):
        facts = {"severity": stands.severity.value, "situation": stands.headline, "doing": stands.doing}
        event = HistoryEvent(1, "lab", NOW_MS, "condition", "it holds", facts=facts)
        document = json.dumps(message(NotifierKind.WEBHOOK, [event], 0))
        assert json.loads(document)["situation"] == stands.headline
        assert stands.doing in message(NotifierKind.SLACK, [event], 0)["text"]


def test_the_fleet_names_who_needs_attention(stage: Stage) -> None:
    fleet = stage.fleet()
    worse = (ClusterSeverity.CRITICAL, ClusterSeverity.WARNING)
    bad = [row.name for severity in worse for row in fleet.clusters if row.situation.severity is severity]
    assert fleet.headline == f"{len(bad):,} clusters need attention: {named(bad)}"
    assert fleet.severity is ClusterSeverity.CRITICAL
    one = view_fleet(1, NOW_MS, (), FleetAround("here"))
    assert (one.severity, one.headline) == (ClusterSeverity.OK, "no cluster of 0 clusters needs attention")
    assert view_fleet(1, NOW_MS, (), FleetAround("here", policy_trouble="x")).severity is ClusterSeverity.WARNING


def test_the_page_works_nothing_out_itself() -> None:
    """Whatever the page shows of a situation comes from fields of `ClusterSituation`."""
    fields = set(ClusterSituation.__dataclass_fields__)
    for path in sorted(ASSETS.glob("**/*.js")):
        if "vendor" in path.parts:
            continue
        text = path.read_text()
        used = set(re.findall(r"\bsituation\.(?!(?:js|py)\b)(\w+)", text))
        assert used <= fields, (path.name, used - fields)
        for private in ("healthOf", 'does not answer"', '"standby"', "all live, 0"):
            assert private not in text, (path.name, private)


async def test_ready_names_the_clusters_that_are_not_served(house: House) -> None:
    yard = Yard({"one": (3, 30), "two": (3, 30)})
    house.reception.front = yard.front

    async def ready() -> tuple[int, str, str]:
        async with house.client() as client:
            answer = await client.get("/ready")
            return answer.status_code, answer.json()["status"], answer.json()["why"]

    assert await ready() == (200, "ready", "")
    yard.stand("one", reach=Reach.SILENT, reach_why="no broker answers")
    assert await ready() == (200, "ready in part", "one: can't be observed: no broker answers")
    yard.stand("two", role=ServiceRole.IDLE, execution=None, idle_why="the journal is damaged")
    status, told, why = await ready()
    assert (status, told) == (503, "not ready")
    assert why.endswith("two: not driven: the journal is damaged")
    yard.stand("two", role=ServiceRole.STANDBY, driver="ben")
    assert (await ready())[0] == 200, "another process does the work"
    yard.trouble = "the disk is full"
    assert await ready() == (503, "not ready", "the disk is full; one: can't be observed: no broker answers")
