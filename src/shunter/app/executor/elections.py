"""Elections after moves that Shunter's controller carried out; the executor makes elections a part of its executions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from shunter.app.executor.session import Target, connect
from shunter.core.executor.elections import ElectionStanding, elected_alone, judge_election, take_answer
from shunter.drivers.admin.protocol import AdminClient
from shunter.drivers.host.clock import SystemClock
from shunter.errors import DriverError, ErrorCode
from shunter.model.partition import Replicas, TopicPartition

AGAIN_S = 0.5


async def elect_first(target: Target, wanted: Mapping[TopicPartition, Replicas]) -> dict[TopicPartition, str]:
    """Let the first of each partition's replicas lead, by the executor's rules and within its bound.

    Args:
        target: The cluster.
        wanted: The replicas that each partition shall have by now. A partition that has others is left alone.

    Returns:
        The partitions of which the cluster does not show that leader, and why.

    Raises:
        DriverError: the cluster does not answer, or refuses access.
    """
    admin = await connect(target)
    try:
        return await _elect(admin, wanted)
    finally:
        await admin.close()


async def _elect(admin: AdminClient, wanted: Mapping[TopicPartition, Replicas]) -> dict[TopicPartition, str]:
    clock = SystemClock()
    moves = {tp: elected_alone(tp, replicas) for tp, replicas in wanted.items()}
    refused: dict[TopicPartition, str] = {}
    while moves:
        asked_at_ms = clock.now_ms()
        seen = await admin.observe_topics(sorted({tp.topic for tp in moves}))
        for tp, move in list(moves.items()):
            topic = seen.topics.get(tp.topic)
            partition = None if topic is None else topic.partitions.get(tp.partition)
            if partition is None or partition.replicas != move.target:
                refused[tp] = "it does not exist" if partition is None else f"its replicas are {[*partition.replicas]}"
            else:
                verdict = judge_election(move, partition, seen.brokers, asked_at_ms, clock.now_ms())
                if verdict.standing is ElectionStanding.WAIT:
                    continue
                if verdict.standing is ElectionStanding.GIVEN_UP:
                    refused[tp] = verdict.told
            del moves[tp]
        due = [tp for tp, move in moves.items() if move.election.due]
        if due:
            answers = await _asked(admin, due)
            for tp in due:
                code, told = answers.get(tp, (None, ""))
                status = moves[tp].election._replace(asks=moves[tp].election.asks + 1)
                moves[tp].election = take_answer(status, code, told, clock.now_ms())
        if moves:
            await asyncio.sleep(AGAIN_S)
    return refused


async def _asked(
    admin: AdminClient, partitions: list[TopicPartition]
) -> Mapping[TopicPartition, tuple[ErrorCode | None, str]]:
    try:
        return await admin.elect_preferred(partitions)
    except DriverError as error:
        if not error.retriable:
            raise
        return {}
