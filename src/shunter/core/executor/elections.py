"""Elections at the end of moves whose plan says who shall lead: the first replica of the target.

The answer to an election does not count: what metadata show afterwards does. An election is refused while the first
replica is down or out of sync, so it is asked for only while metadata show that replica live and in sync.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import NamedTuple

from shunter.core.executor.ready import Collected, ElectLeaders
from shunter.core.executor.state import ElectionStatus, ExecutorState, Move
from shunter.core.executor.waits import Wait, WaitKind
from shunter.errors import ErrorCode
from shunter.model.execution import Direction, ObservedPartition
from shunter.model.partition import NO_LEADER, BrokerId, TopicPartition

ELECTION_MS = 60_000
"""A move whose election has not come about for this long ends without it."""
RETRY_MS = 500
RETRY_MAX_MS = 10_000
MOST_AT_ONCE = 1_000
"""Partitions in one ElectLeaders: as many as in one AlterPartitionReassignments."""


class ElectionStanding(Enum):
    """How a partition stands, compared with its move's wish about the leader."""

    LED = "led"
    """The wanted replica leads, or the move wants no particular one."""
    BEGIN = "begin"
    """An election is needed, and the journal does not have that yet."""
    WAIT = "wait"
    """It is asked for, or is to be asked for now or later."""
    GIVEN_UP = "given up"
    """It has not come about in time."""


class ElectionVerdict(NamedTuple):
    """The decision about a move's election. `told`: who leads, and for `GIVEN_UP` why; "" if no leader is wanted."""

    standing: ElectionStanding
    told: str = ""


def judge_election(
    move: Move, seen: ObservedPartition, live: Collection[BrokerId], seen_at_ms: int, now_ms: int
) -> ElectionVerdict:
    """Decide about the election of a move whose replicas are as wanted, and note it in its status and its wait.

    Args:
        move: A move without a step under way; the partition has its replicas in the wanted order.
        seen: The partition as last seen.
        live: Brokers that are up.
        seen_at_ms: When `seen` was asked for. The bound is timed by it: a process that saw nothing gives nothing up.
        now_ms: The time.
    """
    wanted, status = move.wanted_leader, move.election
    if wanted is None:
        return ElectionVerdict(ElectionStanding.LED)
    if seen.leader == wanted:
        return ElectionVerdict(ElectionStanding.LED, f"broker {wanted} leads")
    able = wanted in live and wanted in seen.isr and wanted not in seen.offline
    why_not = _unable(wanted, live) if not able else status.refused
    if move.direction is Direction.BACK and not able:
        return ElectionVerdict(ElectionStanding.GIVEN_UP, f"{_leading(seen)}, for {why_not}")
    since_ms = seen_at_ms if status.since_ms is None else status.since_ms
    answered = not status.request_id and seen_at_ms > status.answered_at_ms
    if seen_at_ms - since_ms >= ELECTION_MS and answered:
        late = f"{_leading(seen)}: broker {wanted} was not elected within {ELECTION_MS // 1000} s"
        return ElectionVerdict(ElectionStanding.GIVEN_UP, f"{late}{f', for {why_not}' if why_not else ''}")
    due = able and answered and now_ms >= status.again_at_ms
    move.election = status._replace(since_ms=since_ms, due=due and status.begun)
    if not able:
        move.waits = Wait(WaitKind.BROKERS, f"waits for broker {wanted} to lead: {why_not}")
    else:
        refused = f": {why_not}" if why_not else ""
        move.waits = Wait(WaitKind.OURSELVES, f"waits for the election of broker {wanted}{refused}")
    return ElectionVerdict(ElectionStanding.BEGIN if due and not status.begun else ElectionStanding.WAIT)


def _unable(wanted: BrokerId, live: Collection[BrokerId]) -> str:
    return f"broker {wanted} is {'out of sync' if wanted in live else 'down'}"


def _leading(seen: ObservedPartition) -> str:
    return "nobody leads" if seen.leader == NO_LEADER else f"broker {seen.leader} leads"


def send_elections(
    state: ExecutorState,
    held: Collection[TopicPartition | None],
    new_id: Callable[[], int],
    out: Collected,
) -> dict[int, tuple[TopicPartition, ...]]:
    """Ask for the elections that are due; return the requests with their partitions.

    Args:
        state: The executor's state.
        held: Partitions about which an entry is being written: it may turn their moves.
        new_id: Makes the id of a request.
        out: Takes the requests.
    """
    due = [move for move in state.open_moves() if move.election.due and move.tp not in held]
    asked: dict[int, tuple[TopicPartition, ...]] = {}
    for first in range(0, len(due), MOST_AT_ONCE):
        request_id, some = new_id(), due[first : first + MOST_AT_ONCE]
        for move in some:
            move.election = move.election._replace(due=False, request_id=request_id, asks=move.election.asks + 1)
        asked[request_id] = tuple(move.tp for move in some)
        out.requests.append(ElectLeaders(request_id, asked[request_id]))
    return asked


def take_answer(status: ElectionStatus, code: ErrorCode | None, told: str, now_ms: int) -> ElectionStatus:
    """The status after an answer about the election; `code` None: no answer came."""
    refused = ""
    if code is not None and code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
        refused = f"the cluster refuses it: {code.name}{f' ({told})' if told else ''}"
    wait_ms = min(RETRY_MAX_MS, RETRY_MS << min(status.asks, 10))
    return status._replace(request_id=0, answered_at_ms=now_ms, again_at_ms=now_ms + wait_ms, refused=refused)
