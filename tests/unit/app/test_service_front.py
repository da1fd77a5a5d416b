"""The front of the service: what is published, who hears of it, what is refused before anybody is asked."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import orjson
import pytest

from shunter.app.service.front import Front
from shunter.app.service.published import News, Published
from shunter.app.service.reports import Reports
from shunter.core.keeper.situation import unseen
from shunter.model.service import (
    EventSearch,
    HistoryEvent,
    IntentKind,
    OrderDone,
    OrderKind,
    OrderRefused,
    Refusal,
    ServiceOrder,
    Signature,
)
from shunter.views.keeper_picture import FleetAround, view_fleet
from shunter.views.service import (
    ControllersView,
    FleetView,
    KeptProposalView,
    MovesView,
    MoveView,
    OrderPreview,
    TimelineView,
    service_json,
)


class Rehearsal:
    """A service that keeps what it is told."""

    def __init__(self) -> None:
        self.published = Published(["prod", "test"])
        self.orders: list[tuple[ServiceOrder, Signature]] = []
        self.previews: list[ServiceOrder] = []

    def fleet(self) -> FleetView:
        rows = tuple(self.published.page(name).row for name in self.published.names)
        return view_fleet(self.published.version, 0, rows, FleetAround("here"))

    async def proposal(self, cluster: str, proposal: str) -> KeptProposalView | None:
        return None

    async def proposals(self, cluster: str, *, ended: bool) -> tuple[KeptProposalView, ...]:
        return ()

    async def timeline(self, search: EventSearch) -> TimelineView:
        return TimelineView(self.published.version, (HistoryEvent(1, search.cluster, 5, "look", "seen"),))

    def reports(self, cluster: str) -> Reports:
        raise AssertionError(cluster)

    async def controllers(self, cluster: str) -> ControllersView:
        return ControllersView(0)

    async def sketch(self, order: ServiceOrder, who: str) -> KeptProposalView:
        raise OrderRefused(Refusal.INVALID, f"{order.about} of {order.cluster} by {who}")

    def preview(self, order: ServiceOrder, who: str) -> OrderPreview:
        self.previews.append(order)
        return OrderPreview("told", 1, 7)

    async def carry_out(self, order: ServiceOrder, signature: Signature) -> OrderDone:
        self.orders.append((order, signature))
        return OrderDone("done")


def move(partition: str, whose: str, state: str, cost: int) -> MoveView:
    return MoveView(partition, whose, state, "forward", (1,), (1, 2), (1,), (2,), (1, 2), 1, 10, 5, cost, "", "")


async def test_whoever_waits_hears_of_what_changed_and_of_nothing_else() -> None:
    rehearsal = Rehearsal()
    front = Front(rehearsal)
    before = front.version
    waiting = asyncio.create_task(front.news(before, 60))
    await asyncio.sleep(0)
    rehearsal.published.show("test", moves=MovesView(0, 1, "", unseen("test"), why_no_eta="nothing copied yet"))
    assert await waiting == News(before + 1, ("test",))
    rehearsal.published.show("test", moves=MovesView(0, 2, "", unseen("test"), why_no_eta="nothing copied yet"))
    assert front.version == before + 1, "only the time of the view is another"
    assert front.moves("test").at_ms == 2
    assert await front.news(before + 1, 0.001) == News(before + 1, ())
    assert front.moves("prod").version < front.moves("test").version


async def test_names_that_are_not_there_are_refused_with_those_that_are() -> None:
    rehearsal = Rehearsal()
    front = Front(rehearsal)
    with pytest.raises(OrderRefused, match="no cluster 'prd' in the policy file; it names prod, test") as refused:
        front.cluster("prd")
    assert refused.value.refusal is Refusal.NOT_FOUND
    with pytest.raises(OrderRefused, match="needs the name of its giver"):
        await front.order(ServiceOrder(OrderKind.INTEND, "prod", IntentKind.DRAIN, brokers=(3,)), Signature(""))
    assert rehearsal.orders == []
    with pytest.raises(OrderRefused, match="names have no control characters"):
        await front.order(
            ServiceOrder(OrderKind.INTEND, "prod", IntentKind.FREEZE_TOPIC, topics=("logs\x1b[2J",)),
            Signature("anna"),
        )
    order = ServiceOrder(OrderKind.PAUSE)
    assert (await front.order(order, Signature("anna"))).text == "done"
    assert rehearsal.orders == [(order, Signature("anna"))]
    await front.order(order, Signature("anna", "it's \x1b[31mred\n"))
    assert rehearsal.orders[1:] == [(order, Signature("anna", "it's  [31mred "))], "others see it in their terminals"


async def test_what_an_order_would_do_is_asked_about_moves_of_the_journal_alone() -> None:
    rehearsal = Rehearsal()
    front = Front(rehearsal)
    rows = (move("t-0", "ours", "moving", 7), move("t-1", "ours", "done", 0), move("t-2", "external", "moving", 9))
    rehearsal.published.show("prod", moves=replace(front.moves("prod"), moves=rows))
    back = ServiceOrder(OrderKind.ROLL_BACK, "prod", partitions=("t-0", "t-1"))
    assert (front.preview(back, "anna")).bytes == 7
    assert (front.preview(ServiceOrder(OrderKind.PAUSE), "anna")).text == "told"
    assert rehearsal.previews == [back, ServiceOrder(OrderKind.PAUSE)]
    with pytest.raises(
        OrderRefused, match="this service does not move in prod: t-2, t-3; `shunter rollback` without `--service`"
    ):
        front.preview(ServiceOrder(OrderKind.STOP, "prod", partitions=("t-2", "t-1", "t-3")), "anna")
    with pytest.raises(OrderRefused, match="no cluster 'prd'"):
        front.preview(ServiceOrder(OrderKind.STOP, "prd"), "anna")


async def test_every_view_becomes_json() -> None:
    front = Front(Rehearsal())
    document = orjson.loads(orjson.dumps(service_json(front.fleet())))
    assert document["clusters"][0]["situation"]["state"] == "starting"
    assert orjson.loads(orjson.dumps(service_json(front.cluster("prod"))))["row"]["name"] == "prod"
    events = service_json(await front.timeline(EventSearch("prod")))["events"]
    assert events[0] == {
        **dict.fromkeys(("subject", "who", "cause"), ""),
        "number": 1,
        "cluster": "prod",
        "at_ms": 5,
        "kind": "look",
        "text": "seen",
        "until_ms": None,
        "facts": {},
    }
    with pytest.raises(TypeError):
        service_json(object())
