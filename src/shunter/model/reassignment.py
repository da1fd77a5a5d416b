"""A reassignment: the controller's durable record of one partition's whole move (`/admin/reassignments/$t/$p`)."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import NamedTuple
from uuid import UUID

from shunter.model.partition import ReplicaAssignment, Replicas


class Strategy(IntEnum):
    """How a move proceeds; the value is what tagged field 10000 of RPC 45 carries (0: as configured)."""

    INCREMENTAL = 1
    """One new replica at a time (KAFKA-6794)."""
    ALL_AT_ONCE = 2
    """All new replicas together, the old ones to the end (KIP-455)."""


class Intervention(IntEnum):
    """How a caller intervenes in a move: the meaning of null replicas.

    The value is what tagged field 10001 of RPC 45 carries (0: as configured).
    """

    STOP = 1
    """In-sync additions stay (KIP-455's draft)."""
    ROLL_BACK = 2
    """The original replicas, in their order (KIP-236)."""
    PAUSE = 3
    """Nothing is forgotten: the move stands still, and its additions stop fetching, until it is resumed."""
    RESUME = 4
    """A paused move goes on."""


class Phase(Enum):
    """The phase of a move."""

    PENDING = "pending"
    MOVING = "moving"
    PAUSED = "paused"
    ROLLING_BACK = "rolling_back"
    DROPPING = "dropping"
    """The move is over, but not all brokers have acknowledged that they deleted dropped replicas. It is not listed."""


class Reassignment(NamedTuple):
    """One partition's move, from its acceptance to its end.

    `original` keeps the replicas in their ORDER from before the first reassignment, so that a rollback is exact; a new
    target in flight keeps it. `top` is len(original), for KIP-236's drop set. `written` is the assignment that this
    record's owner last wrote to the topic: any other assignment found there was written by another process.
    `version` is the znode's, `czxid` its identity (0 before it exists): while a znode with that czxid exists, the same
    reassignment is going on. Its mzxid moves with every step, so `changes` says whether the target was changed.
    Times are milliseconds since the Unix epoch.
    """

    topic_id: UUID | None
    original: Replicas
    target: Replicas
    strategy: Strategy
    phase: Phase
    written: ReplicaAssignment
    accepted_at_ms: int
    top: int = 0
    legacy: bool = False
    forced: bool = False
    relaxed_since_ms: int | None = None
    version: int = -1
    czxid: int = 0
    requested: bool = False
    """Whether the move came by `/admin/reassignment_requests`, without the legacy flag."""
    changes: int = 0
    """How often the move's target was changed in flight."""


def unfinished(record: Reassignment | None) -> Reassignment | None:
    """The record, if its move is not over; None: there is no record, or only deletions are left to be done."""
    return None if record is None or record.phase is Phase.DROPPING else record
