"""Two services through kills, cuts, orders and outages: what every front end says is what the cluster shows.

The front ends are the API (which the page shows), `serve status`, the metrics, and the notifications.
"""

import asyncio
import os
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from service_orders import order
from test_two_services_fuzz import ABOUT, ACTS, OFF, Fuzz
from words_world import SESSION_MS, Service, SharedYard

from shunter.app.access.audit_log import AuditLog
from shunter.app.access.page_sessions import PageSessions
from shunter.app.service.front import Front
from shunter.app.service.service import ClusterService
from shunter.cli.service.looks import _status_row, _told_cluster
from shunter.core.keeper.situation import STATES
from shunter.drivers.service.notifier import message
from shunter.model.execution import OngoingReassignment
from shunter.model.keeper import DEFAULTS, Condition, KeeperPolicy, Mode
from shunter.model.service import HistoryEvent, NotifierKind, OrderKind, OrderRefused, Refusal, ServiceOrder, Signature
from shunter.views.service import service_json
from shunter.web.hub import Hub
from shunter.web.identity import Identity
from shunter.web.metrics import metrics_text
from shunter.web.reception import Reception

STEPS = 80
LONG_S = float(os.environ.get("SHUNTER_FUZZ_SECONDS", "600"))
FIGURES = ("brokers", "brokers_down", "partitions", "offline_partitions", "under_replicated_partitions")
TOLD = {
    each: replace(DEFAULTS[each], mode=Mode.NOTIFY, minutes=minutes)
    for each, minutes in ((Condition.BROKER_DEAD, 1), (Condition.UNDER_REPLICATED, 5), (Condition.MOVES_STUCK, 2))
}
POLICY = KeeperPolicy({**OFF, **ACTS, **TOLD})
TURNS = 60
"""Turns of the loop after which everything that a step led to is published."""
TRANSIENT = (Refusal.STORE, Refusal.UNREACHABLE, Refusal.STALE)
"""Refusals of an order that was offered: the network or the cluster changed since, and nobody could know."""


@dataclass(frozen=True)
class Told:
    """What the front ends of one service say about the cluster."""

    row: dict[str, Any]
    page: dict[str, Any]
    moves: dict[str, Any]
    status: str
    metrics: dict[str, list[tuple[dict[str, str], float]]]


class FrontEnds:
    """The front ends of one life of a service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        backstage = ClusterService({"yard": service.keeper}, service.published, service.records, service.yard.clock)
        self.front = Front(backstage)
        self.reception = Reception(self.front, Identity(None, PageSessions()), Hub("none"), AuditLog(None))

    def read(self) -> Told:
        self.service.keeper.show()
        row = service_json(self.front.fleet())["clusters"][0]
        samples: dict[str, list[tuple[dict[str, str], float]]] = defaultdict(list)
        for family in text_string_to_metric_families(metrics_text(self.reception).decode()):
            for sample in family.samples:
                samples[sample.name.removeprefix("shunter_service_")].append((sample.labels, sample.value))
        page = service_json(self.front.cluster("yard"))
        moves = service_json(self.front.moves("yard"))
        return Told(row, page, moves, _told_cluster(_status_row(row), self.service.yard.clock.ms), samples)


def truth(world: SharedYard) -> dict[str, int]:
    """What the cluster would show to somebody who looks now."""
    dead = {broker for row in world.rows for broker in row} - {*world.brokers}
    return {
        "brokers": len(world.brokers),
        "brokers_down": len(dead),
        "partitions": len(world.rows),
        "offline": sum(not set(row) & {*world.brokers} for row in world.rows),
        "under_replicated": sum(not set(row) <= {*world.brokers} for row in world.rows),
    }


class Told2Services(Fuzz):
    """The world of two services, with brokers that die, clusters that do not answer, and moves of other tools."""

    policy = POLICY

    def __init__(self, seed: int, folder: Path, stack: AsyncExitStack) -> None:
        super().__init__(seed, folder, stack)
        self.ends: dict[str, FrontEnds] = {}
        self.checked = 0
        self.offered = 0

    async def begin(self, name: str) -> None:
        service = Service(self.world, name, self.folder / name, self.policy)
        self.services[name] = await self.stack.enter_async_context(service)
        self.ends[name] = FrontEnds(service)

    async def step(self) -> None:
        kind = self.random.choices(("as-ever", "outage", "broker", "others", "offered"), (60, 4, 5, 4, 12))[0]
        name = self.random.choice(("a", "b"))
        if kind == "as-ever":
            await super().step()
        elif kind == "outage":
            self.world.answers = not self.world.answers
        elif kind == "broker":
            self.world.brokers = (1, 2) if len(self.world.brokers) == 3 else (1, 2, 3)
        elif kind == "others":
            self.world.others = {} if self.world.others else {0: OngoingReassignment((), (), self.world.rows[0])}
        else:
            await self.take_an_offer(self.services[name])
        if kind != "as-ever":
            self.trail.append(f"{kind} {name}")
            self.world.tell()
        await self.turn_the_loop()
        for each in self.services.values():
            self.compare(each, looked=False)
        await self.look(self.services[name])

    async def turn_the_loop(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def look(self, service: Service) -> None:
        """One look by a service; then what it says of the cluster is what the cluster shows."""
        shows = truth(self.world)
        reached = self.world.answers and not self.world.away(service.owner)
        await service.keeper.look_once()
        told = self.compare(service, looked=True)
        if reached:
            assert told.row["situation"]["figures"] == "current", self.trail
            assert {name: told.row[name] for name in shows if name != "brokers_down"} == {
                name: value for name, value in shows.items() if name != "brokers_down"
            }, self.trail
            assert len(told.row["brokers_down"]) == shows["brokers_down"]
            if shows["offline"] or shows["brokers_down"]:
                assert told.row["situation"]["severity"] == "critical"
        else:
            assert told.row["situation"]["state"] == "unreachable", self.trail
            assert told.row["situation"]["severity"] == "critical"
            assert "does not answer" in told.status
            assert not any(name in told.metrics for name in FIGURES), "what is not known now has no sample"
        await service.keeper.handed_over()

    def compare(self, service: Service, *, looked: bool) -> Told:
        """Compare the front ends of a service with each other, with the cluster, and with its executor."""
        told, world, keeper = self.ends[service.owner].read(), self.world, service.keeper
        stands, said = told.row["situation"], (service.owner, looked, self.trail)
        assert told.page["row"]["situation"] == told.moves["situation"] == stands, said
        for sentence in (stands["headline"], stands["doing"], *stands["notes"]):
            assert sentence in told.status, said
        for name, value, every in (("state", stands["state"], STATES), ("severity", stands["severity"], None)):
            hot = [labels[name] for labels, on in told.metrics[f"cluster_{name}"] if on == 1]
            assert hot == [value], said
            assert every is None or value in every
        samples = {name: values[0][1] for name, values in told.metrics.items() if len(values) == 1}
        paused = told.row["paused"]
        unknown = paused is not None and paused["unsent"]
        assert samples.get("paused") == (None if unknown else paused is not None), said
        if stands["figures"] == "current":
            assert samples["offline_partitions"] == told.row["offline"], said
            assert len(told.metrics["broker_live"]) == len(told.page["brokers"]), said
        assert ("moves_open" in samples) == (stands["moves"] == "current"), said
        driven = keeper.driving
        assert (stands["role"] == "drives") == (driven is not None), said
        if stands["role"] == "drives" and keeper.reconciled:
            assert told.row["moves_open"] == len(world.open), said
            assert (samples.get("moves_open", len(world.open))) == len(world.open), said
        self.checked += 1
        return told

    async def take_an_offer(self, service: Service) -> None:
        """An order that a front end offers is taken, unless the network or the cluster changed since."""
        offered = [*service.published.page("yard").row.situation.orders]
        kinds = [each for each in offered if each in (OrderKind.INTEND, OrderKind.PAUSE, OrderKind.RESUME)]
        if not kinds:
            return
        kind = self.random.choice(kinds)
        asked = ServiceOrder(kind, "yard")
        if kind is OrderKind.INTEND:
            intent = self.random.choice([*ABOUT])
            about = self.random.choice(ABOUT[intent])
            self.promised[intent.value, about] = None
            asked = order(intent, about)
        else:
            self.paused = None
        self.offered += 1
        try:
            await service.desk.carry_out(asked, Signature("carl"))
        except OrderRefused as refused:
            moved = (
                kind is OrderKind.INTEND or service.keeper.driving is None or not service.keeper.driving.view().running
            )
            cut = self.world.away(service.owner) or self.world.log.unread or self.world.log.doubtful > 0
            claim = self.world.claim
            cut = cut or claim is None or claim.owner != service.owner  # Another service has taken the cluster since.
            if refused.refusal not in TRANSIENT and not (moved and refused.refusal is Refusal.NOT_ALLOWED) and not cut:
                raise AssertionError((asked, self.trail)) from refused

    def states(self) -> list[str]:
        return [each.read().row["situation"]["state"] for each in self.ends.values()]

    def notified(self) -> None:
        """Notifications tell each thing once, and its end once after it; who takes over tells once more what holds."""
        for service in self.services.values():
            holding: set[str] = set()
            silent = False
            for event in service.events:
                self.message_of(event)
                if event.kind == "condition":
                    assert event.subject not in holding, (event, self.trail)
                    holding.add(event.subject)
                elif event.kind == "condition-over":
                    holding.discard(event.subject)
                elif event.kind == "driver":
                    holding.clear()
                elif event.kind == "cluster-unreachable":
                    assert not silent, (event, self.trail)
                    silent = True
                elif event.kind == "cluster-back":
                    assert silent, (event, self.trail)
                    silent = False

    def message_of(self, event: HistoryEvent) -> None:
        told = message(NotifierKind.WEBHOOK, [event], 0)
        assert told["situation"] == event.facts.get("situation", "")
        assert told["events"][0]["text"] == told["text"] == event.text


async def fuzz(seed: int, folder: Path) -> tuple[int, int]:
    async with AsyncExitStack() as stack:
        run = Told2Services(seed, folder, stack)
        for name in ("a", "b"):
            await run.begin(name)
        for _ in range(STEPS):
            await run.step()
        run.world.answers, run.world.brokers, run.world.others = True, (1, 2, 3), {}
        driver = await run.settle()
        run.verify(driver)
        for service in run.services.values():
            run.world.pass_time(SESSION_MS // 2)
            await run.look(service)
        # Who lost the cluster asks for it again in a moment, and learns then who drives it.
        async with asyncio.timeout(30):
            while sorted(run.states()) != ["ok", "standby"]:
                run.world.tell()
                await run.turn_the_loop()
        run.notified()
        run.check()
        return run.checked, run.offered


@pytest.mark.parametrize("seed", range(3))
def test_front_ends_say_what_the_cluster_shows(tmp_path: Path, seed: int) -> None:
    asyncio.run(fuzz(seed, tmp_path))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_front_ends_say_what_the_cluster_shows_for_ten_minutes(tmp_path: Path) -> None:
    ends = time.monotonic() + LONG_S
    seed, checked, offered = 1_000, 0, 0
    while time.monotonic() < ends:
        folder = tmp_path / str(seed)
        folder.mkdir()
        more, taken = asyncio.run(fuzz(seed, folder))
        seed, checked, offered = seed + 1, checked + more, offered + taken
    print(f"{seed - 1_000} worlds, {checked} comparisons of all front ends, {offered} orders that were offered")
    assert checked > 1_000
