"""What has to occur in executors' worlds, for the coverage."""

from __future__ import annotations

from typing import get_args

from lab.simulation.executor.actions import FAULT_WEIGHTS, OPERATION_WEIGHTS
from shunter.core.executor.events import Event
from shunter.errors import ErrorCode
from shunter.model.execution import BoundsChanged, CommandKind, JournalRecord, Outcome

NEVER_WRITTEN = {Outcome.FOREIGN, Outcome.LEFT}
"""FOREIGN: a partition that another tool moves is not accepted at all. LEFT: no operator orders it in these worlds."""
NEVER_ORDERED = {CommandKind.BOUND, CommandKind.LEAVE, CommandKind.FORGET}
"""LEAVE and FORGET are for brokers that never return (in these worlds all return). Bounds come with plans here."""
ANSWERS = (
    ErrorCode.NONE,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_CONTROLLER,
)
LOG_DIR_ANSWERS = (
    ErrorCode.NONE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.LOG_DIR_NOT_FOUND,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
ELECTION_ANSWERS = (
    ErrorCode.NONE,
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
)

EXECUTOR_EXPECTED: dict[str, tuple[str, ...]] = {
    "fault": tuple(FAULT_WEIGHTS),
    "operation": tuple(OPERATION_WEIGHTS),
    "event": tuple(event.__name__ for event in get_args(Event)),
    "entry": tuple(record.__name__ for record in get_args(JournalRecord) if record is not BoundsChanged),
    "outcome": tuple(outcome.value for outcome in Outcome if outcome not in NEVER_WRITTEN),
    "order": tuple(f"{kind.value} accepted" for kind in CommandKind if kind not in NEVER_ORDERED),
    "answer": tuple(code.name for code in ANSWERS),
    "journal": ("file", "topic"),
    "log dir": tuple(code.name for code in LOG_DIR_ANSWERS),
    "request": ("reassign", "cancel", "set a throttle", "ask for a log dir", "elect"),
    "election": tuple(code.name for code in ELECTION_ANSWERS),
    "end": ("finished", "JournalHeld", "JournalDamaged"),
}
