"""Past executions of a journal, and how to undo one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from shunter.app.client_configuration import configuration_of
from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.session import (
    Target,
    connect,
    journal_place,
    journal_without_cluster,
    load_journal,
    no_journal,
)
from shunter.core.executor.history import Execution, Undoing, executions, reverse
from shunter.errors import DriverError, ShunterError
from shunter.model.execution import MoveOrder


class NothingToUndo(ShunterError):
    """An execution can't be undone: there is no such execution, or it is under way."""


async def past_without_cluster(target: Target, error: DriverError) -> tuple[JournalPlace, tuple[Execution, ...]]:
    """All executions under this host's journal of a cluster that does not answer.

    Raises:
        DriverError: `error`, because no journal file is known to be this cluster's.
        FormatError: the journal is damaged.
    """
    place = journal_without_cluster(target, error)
    return place, await executions_in(place)


async def past_executions(target: Target) -> tuple[JournalPlace, tuple[Execution, ...]]:
    """All executions under a journal, the first one first.

    Raises:
        FormatError: there is no journal, or it is damaged.
        DriverError: the cluster does not answer, and had to be asked for its id.
    """
    admin = None if target.journal is not None or target.journal_topic is not None else await connect(target)
    try:
        place = await journal_place(target, admin)
    finally:
        if admin is not None:
            await admin.close()
    if not place.exists():
        raise await no_journal(target, place)
    return place, await executions_in(place)


async def executions_in(place: JournalPlace) -> tuple[Execution, ...]:
    """All executions of a journal that exists, the first one first.

    Raises:
        FormatError: the journal is damaged.
    """
    return executions((await asyncio.to_thread(load_journal, place)).entries)


async def undoing(target: Target, number: int | None) -> tuple[Execution, Undoing]:
    """One execution, and the moves that undo it; None: the last execution.

    Raises:
        NothingToUndo: there is no such execution, or it is under way.
        FormatError: there is no journal, or it is damaged.
        DriverError: the cluster does not answer.
    """
    place, found = await past_executions(target)
    if not found:
        raise NothingToUndo(f"nothing was executed under {place} yet")
    number = found[-1].number if number is None else number
    if not 1 <= number <= len(found):
        known = "only 1" if len(found) == 1 else f"1 to {len(found)}"
        raise NothingToUndo(f"there is no execution {number} under {place}: `shunter history` lists {known}")
    execution = found[number - 1]
    if execution.ended_at_ms is None:
        raise NothingToUndo(f"execution {number} is under way: `shunter rollback` takes it back")
    back = reverse(execution, await _moved_since(target, execution))
    return execution, replace(back, told=(*back.told, *await _told_against(target, back.moves)))


async def _told_against(target: Target, moves: Sequence[MoveOrder]) -> list[str]:
    """Which intents of people, that a service keeps in the cluster, would take moves back again."""
    from shunter.core.keeper.intents import told_against  # noqa: PLC0415  brings the planner with it
    from shunter.drivers.service.words_topic import WordsTopic  # noqa: PLC0415  brings the client library with it

    if not moves:
        return []
    topic = WordsTopic(configuration_of(target.bootstrap, target.properties), "")
    try:
        words = await asyncio.to_thread(topic.read)
    except ShunterError as error:
        return [f"whether a service has an intent against this is not known: {error}"]
    finally:
        await asyncio.to_thread(topic.close)
    return [] if words is None else list(told_against(words.intents, moves))


async def _moved_since(target: Target, execution: Execution) -> Callable[[MoveOrder], str]:
    """Tells why a move back is left out, as its partition is not as the execution left it; "": it is."""
    admin = await connect(target)
    try:
        seen = await admin.observe_topics(sorted({tp.topic for tp in execution.moves}))
        ongoing = await admin.list_reassignments()
    finally:
        await admin.close()

    def why_left_out(order: MoveOrder) -> str:
        topic, known = seen.topics.get(order.tp.topic), execution.moves[order.tp].topic_id
        if topic is None:
            return ""
        now = topic.partitions.get(order.tp.partition)
        if known is not None and topic.topic_id is not None and topic.topic_id != known:
            return "its topic was deleted and created again since"
        # What is being moved now is judged by the submission.
        if now is not None and order.tp not in ongoing and now.replicas not in (order.target, order.planned_from):
            return f"it was moved again since, and is on {list(now.replicas)}"
        return ""

    return why_left_out


def execution_to_json(execution: Execution) -> dict[str, Any]:
    """An execution as a JSON object; times are milliseconds since the epoch."""
    return {
        "number": execution.number,
        "plans": execution.plans,
        "began_at_ms": execution.began_at_ms,
        "ended_at_ms": execution.ended_at_ms,
        "throttle": execution.options.throttle,
        "throttles": execution.throttles,
        "counts": counts_of(execution),
        "refused": execution.refused,
        "copied_bytes": execution.copied_bytes,
        "turned": [{"kind": order.kind.value, "by": order.given_by} for order in execution.turned],
        "moves": [
            {
                "partition": str(move.tp),
                "outcome": None if move.outcome is None else move.outcome.value,
                "original": list(move.original),
                "target": list(move.target),
                "replicas": list(move.current),
                "copied_bytes": move.copied_bytes,
                "reason": move.reason,
            }
            for move in execution.every_move
        ],
    }


def counts_of(execution: Execution) -> dict[str, int]:
    """The number of moves by outcome; "open": under way."""
    counts: dict[str, int] = {}
    for move in execution.every_move:
        told = "open" if move.outcome is None else move.outcome.value
        counts[told] = counts.get(told, 0) + 1
    return counts
