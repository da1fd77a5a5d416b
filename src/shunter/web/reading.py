"""The routes that read: fleet, cluster, moves, proposals, timeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from shunter.model.service import PlannedChange
from shunter.views.move_story import ExecutionGist, MoveStory, PastMove
from shunter.views.reports import ReportPage, ReportsView
from shunter.views.service import (
    ControllersView,
    FleetView,
    KeptClusterView,
    KeptProposalView,
    MovesView,
    MoveView,
    TimelineView,
    render,
)
from shunter.web.answers import model_of
from shunter.web.forecasts import ForecastHistory
from shunter.web.problems import HttpRefusal
from shunter.web.reception import Reader, TheReception

MOST_ROWS = 1_000
ANOTHERS = "another's"
MOST_EVENTS = 5_000
ClusterName = Annotated[str, Path(description="The cluster's name in the policy file.", max_length=200)]
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="How many rows to leave out at the beginning.")]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description="How many rows to give at the most.")]
Search = Annotated[str, Query(max_length=200, description="Only rows whose partition has this in its name.")]
InState = Annotated[str, Query(max_length=40, description="Only moves in this state, as `counts` has them.")]
_Row = TypeVar("_Row", MoveView, PastMove)
router = APIRouter(prefix="/api/v1", tags=["look"])


@dataclass(frozen=True, slots=True)
class MovesPage:
    """What moves, as the service tells it, and a page of the moves themselves."""

    summary: MovesView
    """`moves` is empty here: rows are below."""
    counts: dict[str, int]
    """How many moves there are by state, whatever was searched for; those of others are `another's`."""
    found: int
    """How many moves were searched for; `rows` begin at `offset` of these."""
    offset: int
    rows: tuple[MoveView, ...]


@dataclass(frozen=True, slots=True)
class ExecutionList:
    """Executions in the journal of a cluster, the latest first."""

    executions: tuple[ExecutionGist, ...]


@dataclass(frozen=True, slots=True)
class PastMovesPage:
    """A page of the moves of an execution."""

    counts: dict[str, int]
    """How many moves there are by state, whatever was searched for."""
    found: int
    offset: int
    rows: tuple[PastMove, ...]


@dataclass(frozen=True, slots=True)
class RollbackCost:
    """What a rollback would copy at the most, in bytes: originals that were dropped are gone from disk."""

    bytes: int
    partitions: int
    """How many moves would be rolled back."""


@dataclass(frozen=True, slots=True)
class ProposalList:
    """Proposals, the latest first, without their changes: those of one proposal are asked for by its id."""

    version: int
    proposals: tuple[KeptProposalView, ...]


@dataclass(frozen=True, slots=True)
class ChangesPage:
    """A page of the partitions that a proposal changes."""

    found: int
    offset: int
    rows: tuple[PlannedChange, ...]


@router.get("/fleet", response_model=model_of(FleetView), summary="All clusters")
async def fleet(request: Request, reception: TheReception, _caller: Reader) -> Response:
    """Each cluster with its health, balance, disk runway, what moves, and what waits for approval."""
    return reception.answers.answer(request, ("fleet",), reception.front.version, reception.front.fleet)


@router.get("/clusters/{name}", response_model=model_of(KeptClusterView), summary="One cluster")
async def cluster(request: Request, reception: TheReception, _caller: Reader, name: ClusterName) -> Response:
    """Brokers, conditions and why nothing is done about them, intents, topics, partitions that are not well."""
    view = reception.front.cluster(name)
    return reception.answers.answer(request, ("cluster", name), view.version, lambda: view)


@router.get("/clusters/{name}/moves", response_model=model_of(MovesPage), summary="What moves in a cluster")
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
    """Moves with their steps, bytes and what they wait for; rate and ETA of all of them together."""
    view = reception.front.moves(name)
    question = ("moves", name, search, state, offset, limit)
    return reception.answers.answer(
        request, question, view.version, lambda: _page_of_moves(view, search, state, offset, limit)
    )


def _page_of_moves(view: MovesView, search: str, state: str, offset: int, limit: int) -> MovesPage:
    summary = replace(view, moves=())
    return MovesPage(summary, *_sought(view.moves, search, state, offset, limit))


def _state_of(row: MoveView | PastMove) -> str:
    """How a move stands; those of others by whose they are, for nobody here can turn them."""
    return ANOTHERS if isinstance(row, MoveView) and row.whose != "ours" else row.state


def _sought(
    every: Sequence[_Row], search: str, state: str, offset: int, limit: int
) -> tuple[dict[str, int], int, int, tuple[_Row, ...]]:
    """How many rows there are by state, how many were searched for, and a page of these, with its offset."""
    counts = dict(Counter(map(_state_of, every)))
    found = [row for row in every if search in row.partition and state in ("", _state_of(row))]
    return counts, len(found), offset, tuple(found[offset : offset + limit])


@router.get("/clusters/{name}/moves/{partition}", response_model=model_of(MoveStory), summary="What became of one move")
async def story(
    reception: TheReception,
    _caller: Reader,
    name: ClusterName,
    partition: Annotated[str, Path(max_length=300, description="As `orders-3`.")],
    execution: Annotated[
        int | None, Query(ge=1, le=10**9, description="As `executions` numbers them; none: the latest that moved it.")
    ] = None,
) -> Response:
    """Each step with its replicas, those to come too, and what else happened, with cause and duration; by the journal."""
    return _json(await reception.front.story(name, partition, execution))


@router.get("/clusters/{name}/forecasts", response_model=model_of(ForecastHistory), summary="How rate and ETA went")
async def forecasts(reception: TheReception, _caller: Reader, name: ClusterName) -> Response:
    """Rate, expected end and its interval, as they were told since the execution began or the service started."""
    reception.front.moves(name)  # It refuses a cluster that is not there.
    # Not kept by version: a point is noted a moment after the version that it is of.
    return _json(reception.forecasts.history(name))


@router.get(
    "/clusters/{name}/controllers",
    response_model=model_of(ControllersView),
    summary="Shunter's controllers of a cluster",
)
async def controllers(reception: TheReception, _caller: Reader, name: ClusterName) -> Response:
    """Who leads, epoch, what waits in its queue, and how late its event loop is; none where the policy file names none."""
    return _json(await reception.front.controllers(name))


@router.get("/clusters/{name}/executions", response_model=model_of(ExecutionList), summary="Executions of a cluster")
async def executions(reception: TheReception, _caller: Reader, name: ClusterName) -> Response:
    """What was carried out, and what came of it, by the journal; `shunter history` tells the same."""
    return _json(ExecutionList(tuple(reversed(await reception.front.executions(name)))))


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
    """In the order in which they were taken on; each has a story of its own."""
    every = await reception.front.past_moves(name, execution)
    return _json(PastMovesPage(*_sought(every, search, state, offset, limit)))


@router.get(
    "/clusters/{name}/rollback-cost", response_model=model_of(RollbackCost), summary="What a rollback would copy"
)
async def rollback_cost(
    reception: TheReception,
    _caller: Reader,
    name: ClusterName,
    partition: Annotated[
        list[str] | None, Query(max_length=MOST_ROWS, description="As `orders-3`; none: all moves of ours.")
    ] = None,
) -> Response:
    """Ask this before a rollback: it changes nothing."""
    found = reception.front.turnable(name, tuple(partition or ()))
    return _json(RollbackCost(sum(row.rollback_bytes or 0 for row in found), len(found)))


@router.get("/clusters/{name}/proposals", response_model=model_of(ProposalList), summary="Proposals of a cluster")
async def proposals(
    request: Request,
    reception: TheReception,
    _caller: Reader,
    name: ClusterName,
    *,
    ended: Annotated[bool, Query(description="Those that are over, too.")] = False,
) -> Response:
    """What waits for approval, what is carried out, and (with `ended`) what became of the others."""
    found = await reception.front.proposals(name, ended=ended)
    version = reception.front.cluster(name).version

    def make() -> ProposalList:
        return ProposalList(version, tuple(map(without_changes, found)))

    return reception.answers.answer(request, ("proposals", name, ended), version, make)


def without_changes(view: KeptProposalView) -> KeptProposalView:
    """A proposal without its partitions: there may be 100,000."""
    return replace(view, proposal=replace(view.proposal, changes=()))


ProposalId = Annotated[str, Path(max_length=200, description="The proposal's id.")]


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
    """Replicas as they shall be and as they were."""
    found = (await reception.front.proposal(name, proposal)).proposal
    if found.partitions and not found.changes:
        told = f"{proposal} ended long ago: the {found.partitions} partitions that it changed are not kept any more"
        raise HttpRefusal(HTTPStatus.NOT_FOUND, "not-found", told)
    rows = [each for each in found.changes if search in f"{each.topic}-{each.partition}"]
    return _json(ChangesPage(len(rows), offset, tuple(rows[offset : offset + limit])))


@router.get(
    "/clusters/{name}/reports", response_model=model_of(ReportsView), summary="What the pipeline says of a cluster"
)
async def reports(reception: TheReception, _caller: Reader, name: ClusterName) -> Response:
    """The newest load model in a few figures, and which tables of the lake can be looked at."""
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
    return _json(await reception.front.report(name, report, search, offset, limit))


Since = Annotated[int, Query(ge=0, le=10**15, description="From this moment on; milliseconds since 1970 UTC.")]
Until = Annotated[int | None, Query(ge=0, le=10**15, description="Before this moment.")]
Most = Annotated[int, Query(ge=1, le=MOST_EVENTS, description="The latest so many events.")]


@router.get("/timeline", response_model=model_of(TimelineView), summary="What happened in the fleet")
async def fleet_timeline(
    reception: TheReception, _caller: Reader, since_ms: Since = 0, until_ms: Until = None, most: Most = 500
) -> Response:
    """Events of all clusters, the oldest first."""
    return _json(await reception.front.timeline("", since_ms, until_ms, most))


@router.get("/clusters/{name}/timeline", response_model=model_of(TimelineView), summary="What happened in a cluster")
async def timeline(
    reception: TheReception,
    _caller: Reader,
    name: ClusterName,
    since_ms: Since = 0,
    until_ms: Until = None,
    most: Most = 500,
) -> Response:
    """Events with cause and duration, the oldest first."""
    return _json(await reception.front.timeline(name, since_ms, until_ms, most))


def _json(view: object) -> Response:
    return Response(render(view), media_type="application/json")
