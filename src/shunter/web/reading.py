"""The routes that read: fleet, cluster, moves, proposals, timeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from shunter.model.service import EventSearch, OrderKind, PlannedChange, ServiceOrder
from shunter.views.contents import PartitionSearch
from shunter.views.move_story import ExecutionGist, MoveStory, PastMove
from shunter.views.reports import ReportPage, ReportsView
from shunter.views.service import (
    OURS,
    ControllersView,
    FleetView,
    KeptClusterView,
    KeptProposalView,
    MovesView,
    MoveView,
    OrderPreview,
    PartitionsPage,
    TimelineView,
    TopicsPage,
    render,
)
from shunter.web.answers import model_of
from shunter.web.forecasts import ForecastHistory
from shunter.web.order_bodies import FleetPreviewBody, PreviewBody
from shunter.web.problems import HttpRefusal
from shunter.web.reception import Reader, TheReception

MOST_ROWS = 1_000
MOST_EVENTS = 5_000
ClusterName = Annotated[str, Path(description="The cluster's name in the policy file.", max_length=200)]
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="How many rows to skip at the beginning.")]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description="The most rows to return.")]
Search = Annotated[str, Query(max_length=200, description="Only rows whose partition has this in its name.")]
InState = Annotated[str, Query(max_length=40, description="Only moves in this state, as `counts` has them.")]
_Row = TypeVar("_Row", MoveView, PastMove)
router = APIRouter(prefix="/api/v1", tags=["look"])


@dataclass(frozen=True, slots=True)
class MovesPage:
    """A summary of a cluster's moves, and a page of them."""

    summary: MovesView
    """`moves` is empty here: rows are below."""
    counts: dict[str, int]
    """The number of moves in each state, regardless of the search; moves of other tools count as `external`."""
    found: int
    """The number of moves that the search found; `rows` begin at `offset` of these."""
    offset: int
    rows: tuple[MoveView, ...]
    next: str | None = None
    """The query of the next page; null: this is the last one."""


@dataclass(frozen=True, slots=True)
class ExecutionList:
    """Executions in the journal of a cluster, the latest first."""

    executions: tuple[ExecutionGist, ...]
    journal: str = ""
    """Where the journal is: `HOST:PATH`, so that it has what that host did, or `kafka:TOPIC`; "": not known."""


@dataclass(frozen=True, slots=True)
class PastMovesPage:
    """A page of the moves of an execution."""

    counts: dict[str, int]
    """The number of moves in each state, regardless of the search."""
    found: int
    offset: int
    rows: tuple[PastMove, ...]
    next: str | None = None
    """The query of the next page; null: this is the last one."""


@dataclass(frozen=True, slots=True)
class ProposalList:
    """Proposals, the latest first. The changes of a proposal have a request of their own."""

    version: int
    proposals: tuple[KeptProposalView, ...]


@dataclass(frozen=True, slots=True)
class ChangesPage:
    """A page of the partitions that a proposal changes."""

    found: int
    offset: int
    rows: tuple[PlannedChange, ...]
    next: str | None = None
    """The query of the next page; null: this is the last one."""


@router.get("/fleet", response_model=model_of(FleetView), summary="All clusters")
async def fleet(request: Request, reception: TheReception, _caller: Reader) -> Response:
    """Each cluster with its situation, balance, disk runway, moves, and proposals that wait for approval."""
    return reception.answers.answer(request, ("fleet",), reception.front.version, reception.front.fleet)


@router.get("/clusters/{name}", response_model=model_of(KeptClusterView), summary="One cluster")
async def cluster(request: Request, reception: TheReception, _caller: Reader, name: ClusterName) -> Response:
    """Brokers, conditions and why no plan mends them, desired state, topics, partitions that are not healthy."""
    view = reception.front.cluster(name)
    return reception.answers.answer(request, ("cluster", name), view.version, lambda: view)


@router.get("/clusters/{name}/topics", response_model=model_of(TopicsPage), summary="All topics of a cluster")
async def topics(
    reception: TheReception,
    _caller: Reader,
    name: ClusterName,
    search: Annotated[
        str,
        Query(max_length=200, description="Only topics that have this in their name, or the topic of this partition."),
    ] = "",
    order: Annotated[
        Literal["bytes", "name", "partitions", "under_replicated"], Query(description="Names ascend, figures descend.")
    ] = "bytes",
    offset: Offset = 0,
    limit: Limit = 200,
) -> Response:
    """Topics of the last observation, in pages. The cluster's own answer has the largest ones."""
    return _json(await reception.front.topics(name, search, order, offset, limit))


@router.get(
    "/clusters/{name}/partitions", response_model=model_of(PartitionsPage), summary="All partitions of a cluster"
)
async def partitions(
    reception: TheReception,
    _caller: Reader,
    name: ClusterName,
    search: Search = "",
    topic: Annotated[str, Query(max_length=249, description="Only partitions of this topic.")] = "",
    broker: Annotated[int | None, Query(ge=0, lt=2**31, description="Only partitions with a replica on it.")] = None,
    state: Annotated[
        str, Query(max_length=40, description="Only partitions in this state, as `counts` has them.")
    ] = "",
    offset: Offset = 0,
    limit: Limit = 200,
) -> Response:
    """Partitions of the last observation with replicas, ISR and leader, in pages."""
    return _json(await reception.front.partitions(name, PartitionSearch(search, topic, broker, state), offset, limit))


@router.get("/clusters/{name}/moves", response_model=model_of(MovesPage), summary="Moves of a cluster")
async def moves(
    request: Request,
    reception: TheReception,
    _caller: Reader,
    name: ClusterName,
    search: Search = "",
    state: InState = "",
    offset: Offset = 0,
    limit: Limit = 200,
) -> Response:
    """Moves with their steps, bytes and the reason why a move waits; rate and ETA of all moves together."""
    view = reception.front.moves(name)
    question = ("moves", name, search, state, offset, limit)
    return reception.answers.answer(
        request, question, view.version, lambda: _page_of_moves(view, search, state, offset, limit)
    )


def _page_of_moves(view: MovesView, search: str, state: str, offset: int, limit: int) -> MovesPage:
    summary = replace(view, moves=())
    sought = _sought(view.moves, search, state, offset, limit)
    return MovesPage(summary, *sought, _next(offset, limit, sought[1], search=search, state=state))


def _next(offset: int, limit: int, found: int, **given: str) -> str | None:
    """The query of the page after one, relative to its own address; None: it is the last one."""
    if offset + limit >= found:
        return None
    asked = {name: value for name, value in given.items() if value}
    return "?" + urlencode(asked | {"offset": offset + limit, "limit": limit})


def _state_of(row: MoveView | PastMove) -> str:
    """A move's state; whose it is if it is not the service's own, because the service can't stop or roll it back."""
    return row.whose if isinstance(row, MoveView) and row.whose != OURS else row.state


def _sought(
    every: Sequence[_Row], search: str, state: str, offset: int, limit: int
) -> tuple[dict[str, int], int, int, tuple[_Row, ...]]:
    """The number of rows in each state, the number that the search found, the page's offset, and the page."""
    counts = dict(Counter(map(_state_of, every)))
    found = [row for row in every if search in row.partition and state in ("", _state_of(row))]
    return counts, len(found), offset, tuple(found[offset : offset + limit])


@router.get("/clusters/{name}/moves/{partition}", response_model=model_of(MoveStory), summary="The story of one move")
async def story(
    reception: TheReception,
    _caller: Reader,
    name: ClusterName,
    partition: Annotated[str, Path(max_length=300, description="As `orders-3`.")],
    execution: Annotated[
        int | None,
        Query(ge=1, le=10**9, description="As `executions` numbers them; none: the latest that moved the partition."),
    ] = None,
) -> Response:
    """Each step, past and planned, with its replicas, and each event with cause and duration; from the journal."""
    return _json(await reception.front.story(name, partition, execution))


@router.get("/clusters/{name}/forecasts", response_model=model_of(ForecastHistory), summary="Past rates and ETAs")
async def forecasts(reception: TheReception, _caller: Reader, name: ClusterName) -> Response:
    """Past values of the rate, the expected end and its interval, since the execution began or the service started."""
    reception.front.moves(name)  # Raises OrderRefused if there is no such cluster.
    # Not kept by version: the point of a version is added a moment after that version.
    return _json(reception.forecasts.history(name))


@router.get(
    "/clusters/{name}/controllers",
    response_model=model_of(ControllersView),
    summary="Shunter's controllers of a cluster",
)
async def controllers(reception: TheReception, _caller: Reader, name: ClusterName) -> Response:
    """The leader, its epoch, queue and event-loop delay; empty if the policy file names no controllers."""
    return _json(await reception.front.controllers(name))


@router.get("/clusters/{name}/executions", response_model=model_of(ExecutionList), summary="Executions of a cluster")
async def executions(reception: TheReception, _caller: Reader, name: ClusterName) -> Response:
    """Executions and their outcomes, from the journal; `shunter history` shows the same."""
    found = tuple(reversed(await reception.front.executions(name)))
    return _json(ExecutionList(found, reception.front.journal(name)))


@router.get(
    "/clusters/{name}/executions/{execution}/moves",
    response_model=model_of(PastMovesPage),
    summary="The moves of an execution",
)
async def past_moves(
    reception: TheReception,
    _caller: Reader,
    name: ClusterName,
    execution: Annotated[int, Path(ge=1, le=10**9, description="As `executions` numbers them.")],
    search: Search = "",
    state: InState = "",
    offset: Offset = 0,
    limit: Limit = 200,
) -> Response:
    """Moves in the order in which they were accepted; each has a story of its own."""
    every = await reception.front.past_moves(name, execution)
    sought = _sought(every, search, state, offset, limit)
    return _json(PastMovesPage(*sought, _next(offset, limit, sought[1], search=search, state=state)))


@router.post(
    "/clusters/{name}/preview",
    response_model=model_of(OrderPreview),
    summary="What an order to moves would do now",
)
async def preview(reception: TheReception, caller: Reader, name: ClusterName, body: PreviewBody) -> Response:
    """In words, with the most bytes that would be copied again. The request changes nothing."""
    order = ServiceOrder(OrderKind(body.verb), name, partitions=tuple(body.partitions))
    return _json(reception.front.preview(order, caller.person.name))


@router.post(
    "/fleet/preview", response_model=model_of(OrderPreview), summary="What the kill switch of the fleet would do now"
)
async def fleet_preview(reception: TheReception, caller: Reader, body: FleetPreviewBody) -> Response:
    """In words. The request changes nothing."""
    return _json(reception.front.preview(ServiceOrder(OrderKind(body.verb)), caller.person.name))


@router.get("/clusters/{name}/proposals", response_model=model_of(ProposalList), summary="Proposals of a cluster")
async def proposals(
    request: Request,
    reception: TheReception,
    _caller: Reader,
    name: ClusterName,
    *,
    ended: Annotated[bool, Query(description="Include proposals that have ended.")] = False,
) -> Response:
    """Proposals that wait for approval or are carried out, and with `ended` the others and their outcome."""
    found = await reception.front.proposals(name, ended=ended)
    version = reception.front.cluster(name).version

    def make() -> ProposalList:
        return ProposalList(version, tuple(map(without_changes, found)))

    return reception.answers.answer(request, ("proposals", name, ended), version, make)


def without_changes(view: KeptProposalView) -> KeptProposalView:
    """A proposal without its partitions: there may be 100,000."""
    return replace(view, proposal=replace(view.proposal, changes=()))


ProposalId = Annotated[str, Path(max_length=200, description="The proposal's id.")]


@router.get("/clusters/{name}/proposals/{proposal}", response_model=model_of(KeptProposalView), summary="One proposal")
async def proposal(reception: TheReception, _caller: Reader, name: ClusterName, proposal: ProposalId) -> Response:
    """A proposal, also one that ended, with its reasons, votes and outcome; `changes` has a request of its own."""
    return _json(without_changes(await reception.front.proposal(name, proposal)))


@router.get(
    "/clusters/{name}/proposals/{proposal}/changes",
    response_model=model_of(ChangesPage),
    summary="The partitions that a proposal changes",
)
async def changes(
    reception: TheReception,
    _caller: Reader,
    name: ClusterName,
    proposal: ProposalId,
    search: Search = "",
    offset: Offset = 0,
    limit: Limit = 200,
) -> Response:
    """The changed partitions, with their replicas after and before the change."""
    found = (await reception.front.proposal(name, proposal)).proposal
    if found.partitions and not found.changes:
        told = f"{proposal} ended long ago: the {found.partitions} partitions that it changed are no longer stored"
        raise HttpRefusal(HTTPStatus.NOT_FOUND, "not-found", told)
    rows = [each for each in found.changes if search in f"{each.topic}-{each.partition}"]
    after = _next(offset, limit, len(rows), search=search)
    return _json(ChangesPage(len(rows), offset, tuple(rows[offset : offset + limit]), after))


@router.get(
    "/clusters/{name}/reports", response_model=model_of(ReportsView), summary="The pipeline's reports about a cluster"
)
async def reports(reception: TheReception, _caller: Reader, name: ClusterName) -> Response:
    """The newest load model in a few figures, and the tables of the pipeline that can be read."""
    return _json(await reception.front.reports(name))


@router.get("/clusters/{name}/reports/{report}", response_model=model_of(ReportPage), summary="One report")
async def report(
    reception: TheReception,
    _caller: Reader,
    name: ClusterName,
    report: Annotated[str, Path(max_length=100, description="The name of a table, as `reports` has it.")],
    search: Annotated[str, Query(max_length=200, description="Only rows that have this in one of their texts.")] = "",
    offset: Offset = 0,
    limit: Limit = 200,
) -> Response:
    """Rows of a table that the pipeline wrote, with the unit and the meaning of each column."""
    page = await reception.front.report(name, report, search, offset, limit)
    return _json(replace(page, next=_next(offset, limit, page.found, search=search)))


Since = Annotated[
    int, Query(ge=0, le=10**15, description="They ended at this moment or later; milliseconds since 1970 UTC.")
]
Until = Annotated[int | None, Query(ge=0, le=10**15, description="They began before this moment.")]
Before = Annotated[
    int | None,
    Query(ge=1, le=2**53, description="Only events before the one with this number, as `next` of a page has it."),
]
Most = Annotated[int, Query(ge=1, le=MOST_EVENTS, description="The most events to return; these are the latest.")]
Kind = Annotated[str, Query(max_length=100, description="Only events of this kind, such as `approve`.")]
Who = Annotated[str, Query(max_length=200, description="Only what this person did.")]


async def _sought_events(
    since_ms: Since = 0, until_ms: Until = None, most: Most = 500, before: Before = None, kind: Kind = "", who: Who = ""
) -> EventSearch:
    return EventSearch("", since_ms, until_ms, most, before, kind, who)


TheSearch = Annotated[EventSearch, Depends(_sought_events)]


@router.get("/timeline", response_model=model_of(TimelineView), summary="Events in the fleet")
async def fleet_timeline(reception: TheReception, _caller: Reader, search: TheSearch) -> Response:
    """Events of all clusters, the oldest first."""
    return _json(_with_next(await reception.front.timeline(search), search))


@router.get("/clusters/{name}/timeline", response_model=model_of(TimelineView), summary="Events in a cluster")
async def timeline(reception: TheReception, _caller: Reader, name: ClusterName, search: TheSearch) -> Response:
    """Events with cause and duration, the oldest first."""
    return _json(_with_next(await reception.front.timeline(search._replace(cluster=name)), search))


def _with_next(view: TimelineView, search: EventSearch) -> TimelineView:
    if not view.more or not view.events:
        return view
    asked = search._replace(before=view.events[0].number)._asdict()
    return replace(view, next="?" + urlencode({name: value for name, value in asked.items() if value}))


def _json(view: object) -> Response:
    return Response(render(view), media_type="application/json")
