"""Moves that a Shunter leaves to another controller: where each one ends then, and where it was to end.

A topic's znode has the step under way, and no later one. An Apache controller or a KRaft controller finishes that
step, and can't read Shunter's record of the whole move (docs/decisions/0107-reconciliation.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from shunter.core.reassignment.reconciliation import Row, Sources, reconcile
from shunter.core.wording import counted, named
from shunter.model.partition import ReplicaAssignment, Replicas, TopicPartition
from shunter.model.reassignment import Phase, Reassignment, unfinished


class LeftMove(NamedTuple):
    """A move that is not over. `ends_at`: where a controller that is no Shunter ends it; `wanted`: where it was to end."""

    tp: TopicPartition
    ends_at: Replicas
    wanted: Replicas

    @property
    def is_short(self) -> bool:
        """Whether a controller that is no Shunter ends it elsewhere than was asked for."""
        return self.ends_at != self.wanted

    def __str__(self) -> str:
        return f"{self.tp} at {list(self.ends_at)}, not at {list(self.wanted)}"


def left_move(
    tp: TopicPartition,
    record: Reassignment,
    topic_id: UUID | None,
    assignment: ReplicaAssignment,
    *,
    by_legacy_znode: bool = False,
) -> LeftMove | None:
    """Compare the record of a partition's move with the partition's assignment; None: the move is over.

    Args:
        tp: The partition.
        record: Shunter's record of its move.
        topic_id: The id of the topic that exists now.
        assignment: The partition's assignment now.
        by_legacy_znode: `/admin/reassign_partitions` names the partition, and the next controller reads that znode, as
            an Apache broker does: then it goes on to the znode's target.
    """
    if unfinished(record) is None or reconcile(Sources(topic_id, assignment, record)).row is not Row.CONTINUE:
        return None
    wanted = record.original if record.phase is Phase.ROLLING_BACK else record.target
    if assignment == ReplicaAssignment(wanted):
        return None
    goes_on = by_legacy_znode and record.legacy and record.phase is not Phase.ROLLING_BACK
    return LeftMove(tp, wanted if goes_on else assignment.target, wanted)


def told_moves(moves: Sequence[LeftMove]) -> str:
    """Say which moves are not over, and where those end that stop short of their targets."""
    short = [move for move in moves if move.is_short]
    be = "is" if len(moves) == 1 else "are"
    told = f"{counted(len(moves), 'move')} of {_topics(moves)} {be} not over"
    if not short:
        return f"{told}; a controller that is no Shunter ends {'it' if len(moves) == 1 else 'all'} at the target"
    return f"{told}; a controller that is no Shunter ends {len(short)} short of the target: {named(short)}"


def _topics(moves: Iterable[LeftMove]) -> str:
    topics = sorted({move.tp.topic for move in moves})
    return f"topic{'' if len(topics) == 1 else 's'} {named(topics)}"
