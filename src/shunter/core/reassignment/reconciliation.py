"""Reconciliation after a failover: four sources speak about one partition's move, and a table says which one is right.

The sources of docs/decisions/0107-reconciliation.md:
**r** Shunter's durable record, **t** the topic's assignment, **l** the legacy znode, **s** `targetReplicas`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from shunter.model.partition import ReplicaAssignment, Replicas
from shunter.model.reassignment import Reassignment


class Row(Enum):
    """A row of the table: what is done with the partition."""

    IDLE = "idle"
    """No source wants the partition moved."""
    CONTINUE = "continue"
    """r is right: go on to its target, in its phase."""
    ADOPT = "adopt"
    """The assignment is in motion by another controller's or tool's move: adopt it."""
    START_LEGACY = "start_legacy"
    """l alone names the partition: KIP-236's first case."""
    LEGACY_WINS = "legacy_wins"
    """l names another target than the move under way: l is right, as KIP-455's draft says."""
    LEGACY_IGNORED = "legacy_ignored"
    """l names a partition that a new-protocol request moves: l's entry is removed, with a notice; the move goes on."""
    ADOPT_TARGET_REPLICAS = "adopt_target_replicas"
    """Only `targetReplicas` knows of a move: KIP-455's draft."""


class Closing(Enum):
    """Why r counts as closed before anything else is done."""

    TOPIC_MADE_ANEW = "topic_made_anew"
    """r's topic id is not the topic's: another topic of that name was moved."""
    SUPERSEDED = "superseded"
    """The assignment is not what r wrote last: another tool cancelled or changed the move."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources' words about one partition; None where a source is silent."""

    topic_id: UUID | None
    assignment: ReplicaAssignment
    record: Reassignment | None = None
    legacy_target: Replicas | None = None
    legacy_original: Replicas | None = None
    """`original_replicas`, where the tool that wrote l gave them."""
    target_replicas: Replicas | None = None
    requested: bool = False
    """Whether the move came by `/admin/reassignment_requests` without the legacy flag."""


class Reconciled(NamedTuple):
    """What to do. `original` and `target` are the move's, None for `IDLE`. `legacy`: the move came through l."""

    row: Row
    closing: Closing | None
    original: Replicas | None
    target: Replicas | None
    legacy: bool = False


def reconcile(sources: Sources) -> Reconciled:
    """Decide one partition's move at start-up.

    A closed record counts as absent, with one exception: its `original` is kept if the assignment's original replicas
    are the same set, because Apache's encoding loses the ORDER, and a rollback must be exact.

    Source: docs/decisions/0107-reconciliation.md, row by row.
    """
    closing = _closing(sources)
    record = None if closing else sources.record
    moving = _moving(sources, record, closing)
    if sources.legacy_target is not None:
        return _legacy(sources, record, closing, moving)
    if moving is not None:
        return moving
    return _silent(sources, closing)


def original_replicas(standing: ReplicaAssignment, given: Replicas | None) -> Replicas:
    """The originals of a move that a znode asks for: the partition's own, in the ORDER that the znode gives.

    `given` is the znode's `original_replicas`, from any tool. It is used only if the partition is in motion and `given`
    names the same replicas: Apache's encoding has lost their order then. Any other list could lead a rollback to
    replicas that the partition never had.

    Source: docs/decisions/0110-znode-protocols.md.
    """
    original = standing.original
    ordered = given is not None and standing.in_motion and sorted(given) == sorted(original)
    return given if ordered and given is not None else original


def same_route(current_legacy: bool | None, *, legacy: bool) -> bool:
    """Whether a request may change a partition whose move has the flag `current_legacy` (None: it does not move).

    Source: KIP-236, "only if the context being added has the same legacy flag as any current context".
    """
    return current_legacy is None or current_legacy == legacy


def _closing(sources: Sources) -> Closing | None:
    record = sources.record
    if record is None:
        return None
    # A record from before its topic had an id (Kafka < 2.8) names no topic: it is taken for the present topic's.
    if record.topic_id is not None and record.topic_id != sources.topic_id:
        return Closing.TOPIC_MADE_ANEW
    # An Apache controller that was in charge meanwhile finishes exactly the step that the topic showed.
    finished = ReplicaAssignment(record.written.target)
    return None if sources.assignment in (record.written, finished) else Closing.SUPERSEDED


def _moving(sources: Sources, record: Reassignment | None, closing: Closing | None) -> Reconciled | None:
    """The decision by r and t alone; None when both are silent."""
    if record is not None:
        return Reconciled(Row.CONTINUE, closing, record.original, record.target, record.legacy)
    if not sources.assignment.in_motion:
        return None
    original = original_replicas(sources.assignment, sources.legacy_original)
    known = sources.record
    if closing is Closing.SUPERSEDED and known is not None and set(known.original) == set(original):
        original = known.original
    return Reconciled(Row.ADOPT, closing, original, sources.assignment.target)


def _legacy(
    sources: Sources, record: Reassignment | None, closing: Closing | None, moving: Reconciled | None
) -> Reconciled:
    """Decide about a partition that the legacy znode (l) names."""
    target = sources.legacy_target
    if moving is None:
        return Reconciled(Row.START_LEGACY, closing, sources.assignment.replicas, target, legacy=True)
    if sources.requested:
        return moving._replace(row=Row.LEGACY_IGNORED)
    if record is not None and record.target == target:
        return moving._replace(legacy=True)  # r and l ask for the same: l's entry goes when the move ends.
    return Reconciled(Row.LEGACY_WINS, closing, moving.original, target, legacy=True)


def _silent(sources: Sources, closing: Closing | None) -> Reconciled:
    """Decide about a partition that r, t and l say nothing about.

    `targetReplicas` (s, the field of KIP-455's draft) counts then, if it differs from the replicas. It does not count
    if r was superseded: then it is left over from r's move, and must not start that move again.
    """
    target = sources.target_replicas
    if closing is Closing.SUPERSEDED or not target or target == sources.assignment.replicas:
        return Reconciled(Row.IDLE, closing, None, None)
    return Reconciled(Row.ADOPT_TARGET_REPLICAS, closing, sources.assignment.replicas, target)
