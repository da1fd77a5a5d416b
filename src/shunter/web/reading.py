"""The routes that read: fleet, cluster, moves, proposals, timeline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from shunter.model.service import OrderRefused, PlannedChange
from shunter.views.service import (
    FleetView,
    KeptClusterView,
    KeptProposalView,
    MovesView,
    MoveView,
    TimelineView,
)
from shunter.web.answers import model_of, render
from shunter.web.desk import Reader, TheDesk, refusal_of
from shunter.web.problems import HttpRefusal

MOST_ROWS = 1_000
MOST_EVENTS = 5_000
ClusterName = Annotated[str, Path(description="The cluster's name in the policy file.", max_length=200)]
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="How many rows to leave out at the beginning.")]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description="How many rows to give at the most.")]
Search = Annotated[str, Query(max_length=200, description="Only rows whose partition has this in its name.")]
router = APIRouter(prefix="/api/v1", tags=["look"])


@dataclass(frozen=True, slots=True)
class MovesPage:
    """What moves, as the service tells it, and a page of the moves themselves."""

    summary: MovesView
    """`moves` is empty here: rows are below."""
    counts: dict[str, int]
    """How many moves there are by state, whatever was searched for."""
    found: int
    """How many moves were searched for; `rows` begin at `offset` of these."""
    offset: int
    rows: tuple[MoveView, ...]


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
async def fleet(request: Request, desk: TheDesk, _caller: Reader) -> Response:
    """Each cluster with its health, balance, disk runway, what moves, and what waits for approval."""
    return desk.answers.answer(request, ("fleet",), desk.front.version, desk.front.fleet)


@router.get("/clusters/{name}", response_model=model_of(KeptClusterView), summary="One cluster")
async def cluster(request: Request, desk: TheDesk, _caller: Reader, name: ClusterName) -> Response:
    """Brokers, conditions and why nothing is done about them, intents, topics, partitions that are not well."""
    try:
        view = desk.front.cluster(name)
    except OrderRefused as refused:
        raise refusal_of(refused) from refused
    return desk.answers.answer(request, ("cluster", name), view.version, lambda: view)


@router.get("/clusters/{name}/moves", response_model=model_of(MovesPage), summary="What moves in a cluster")
async def moves(
    request: Request,
    desk: TheDesk,
    _caller: Reader,
    name: ClusterName,
    search: Search = "",
    state: Annotated[str, Query(max_length=40, description="Only moves in this state, as `counts` has them.")] = "",
    offset: Offset = 0,
    limit: Limit = 200,
) -> Response:
    """Moves with their steps, bytes and what they wait for; rate and ETA of all of them together."""
    view = _moves(desk, name)
    question = ("moves", name, search, state, offset, limit)
    return desk.answers.answer(
        request, question, view.version, lambda: _page_of_moves(view, search, state, offset, limit)
    )


def _moves(desk: TheDesk, name: str) -> MovesView:
    try:
        return desk.front.moves(name)
    except OrderRefused as refused:
        raise refusal_of(refused) from refused


def _page_of_moves(view: MovesView, search: str, state: str, offset: int, limit: int) -> MovesPage:
    counts: dict[str, int] = {}
    for move in view.moves:
        counts[move.state] = counts.get(move.state, 0) + 1
    found = [move for move in view.moves if search in move.partition and state in ("", move.state)]
    summary = replace(view, moves=())
    return MovesPage(summary, counts, len(found), offset, tuple(found[offset : offset + limit]))


@router.get(
    "/clusters/{name}/rollback-cost", response_model=model_of(RollbackCost), summary="What a rollback would copy"
)
async def rollback_cost(
    desk: TheDesk,
    _caller: Reader,
    name: ClusterName,
    partition: Annotated[
        list[str] | None, Query(max_length=MOST_ROWS, description="As `orders-3`; none: all moves of ours.")
    ] = None,
) -> Response:
    """Ask this before a rollback: it changes nothing."""
    wanted = tuple(partition or ())
    try:
        copied = desk.front.rollback_bytes(name, wanted)
        open_moves = [move for move in desk.front.moves(name).moves if move.whose == "ours" and is_open(move)]
    except OrderRefused as refused:
        raise refusal_of(refused) from refused
    return _json(RollbackCost(copied, len(set(wanted)) or len(open_moves)))


def is_open(move: MoveView) -> bool:
    """Whether a move is not over."""
    return move.state in ("pending", "moving", "paused")


@router.get("/clusters/{name}/proposals", response_model=model_of(ProposalList), summary="Proposals of a cluster")
async def proposals(
    request: Request,
    desk: TheDesk,
    _caller: Reader,
    name: ClusterName,
    *,
    ended: Annotated[bool, Query(description="Those that are over, too.")] = False,
) -> Response:
    """What waits for approval, what is carried out, and (with `ended`) what became of the others."""
    found = await _proposals(desk, name, ended=ended)
    version = desk.front.cluster(name).version

    def make() -> ProposalList:
        return ProposalList(version, tuple(map(without_changes, found)))

    return desk.answers.answer(request, ("proposals", name, ended), version, make)


def without_changes(view: KeptProposalView) -> KeptProposalView:
    """A proposal without its partitions: there may be 100,000."""
    return replace(view, proposal=replace(view.proposal, changes=()))


async def _proposals(desk: TheDesk, name: str, *, ended: bool) -> tuple[KeptProposalView, ...]:
    try:
        return await desk.front.proposals(name, ended=ended)
    except OrderRefused as refused:
        raise refusal_of(refused) from refused


ProposalId = Annotated[str, Path(max_length=200, description="The proposal's id.")]


@router.get(
    "/clusters/{name}/proposals/{proposal}/changes",
    response_model=model_of(ChangesPage),
    summary="The partitions that a proposal changes",
)
async def changes(
    desk: TheDesk,
    _caller: Reader,
    name: ClusterName,
    proposal: ProposalId,
    search: Search = "",
    offset: Offset = 0,
    limit: Limit = 200,
) -> Response:
    """Replicas as they shall be and as they were."""
    every = await _proposals(desk, name, ended=True)
    found = next((each.proposal for each in every if each.proposal.id == proposal), None)
    if found is None:
        raise HttpRefusal(HTTPStatus.NOT_FOUND, "not-found", f"there is no proposal {proposal!r} of {name}")
    rows = [each for each in found.changes if search in f"{each.topic}-{each.partition}"]
    return _json(ChangesPage(len(rows), offset, tuple(rows[offset : offset + limit])))


Since = Annotated[int, Query(ge=0, le=10**15, description="From this moment on; milliseconds since 1970 UTC.")]
Until = Annotated[int | None, Query(ge=0, le=10**15, description="Before this moment.")]
Most = Annotated[int, Query(ge=1, le=MOST_EVENTS, description="The latest so many events.")]


@router.get("/timeline", response_model=model_of(TimelineView), summary="What happened in the fleet")
async def fleet_timeline(
    desk: TheDesk, _caller: Reader, since_ms: Since = 0, until_ms: Until = None, most: Most = 500
) -> Response:
    """Events of all clusters, the oldest first."""
    return await _timeline(desk, "", since_ms, until_ms, most)


@router.get("/clusters/{name}/timeline", response_model=model_of(TimelineView), summary="What happened in a cluster")
async def timeline(
    desk: TheDesk,
    _caller: Reader,
    name: ClusterName,
    since_ms: Since = 0,
    until_ms: Until = None,
    most: Most = 500,
) -> Response:
    """Events with cause and duration, the oldest first."""
    return await _timeline(desk, name, since_ms, until_ms, most)


async def _timeline(desk: TheDesk, name: str, since_ms: int, until_ms: int | None, most: int) -> Response:
    try:
        return _json(await desk.front.timeline(name, since_ms, until_ms, most))
    except OrderRefused as refused:
        raise refusal_of(refused) from refused


def _json(view: object) -> Response:
    return Response(render(view), media_type="application/json")
