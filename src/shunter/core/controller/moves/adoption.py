"""Moves that were found, not asked for: which source is right about a partition after a failover, and its move.

Source: docs/decisions/0107-reconciliation.md; KIP-236, "On controller failover".
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from shunter.core.controller.draft import Draft
from shunter.core.controller.events import ReassignmentChange
from shunter.core.controller.moves.lifecycle import Trigger
from shunter.core.controller.moves.reassignments import Moves, dropped_before
from shunter.core.controller.state import ControllerState
from shunter.core.reassignment.reconciliation import Reconciled, Row, Sources, reconcile
from shunter.model.notice import Notice
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import Phase, Reassignment, Strategy
from shunter.model.settings import ControllerSettings


@dataclass(slots=True)
class Adoption:
    """Compares what records, assignments and znodes say about partitions that move. One instance per term."""

    state: ControllerState
    settings: ControllerSettings
    moves: Moves
    unreconciled: set[TopicPartition] = field(default_factory=set[TopicPartition])
    """Partitions that were not reconciled since the start-up: another tool may have overruled their records."""

    def find(self, only: Collection[TopicPartition] | None = None) -> list[TopicPartition]:
        """Partitions, among some or all, that any source says are moving. From now on they count as unreconciled.

        If only the legacy znode and a request znode name a partition, the request comes first (KIP-236, "On controller
        failover"), and the partition is left out here: `named_twice` gives it after the requests.
        """
        seen: dict[TopicPartition, None] = dict.fromkeys(self.state.reassignments)
        for name, topic in self.state.topics.items():
            for number, known in topic.partitions.items():
                asked = known.leadership.target_replicas if known.leadership is not None else None
                if known.assignment.in_motion or (asked and asked != known.assignment.replicas):
                    seen[TopicPartition(name, number)] = None
        if self.state.legacy is not None:
            requested = {tp for request in self.state.requests.values() for tp in request.targets}
            seen.update(dict.fromkeys(tp for tp in self.state.legacy.targets if tp not in requested))
        if only is not None:
            seen = {tp: None for tp in seen if tp in only}
        self.unreconciled |= seen.keys()
        return sorted(seen)

    def named_twice(self) -> list[TopicPartition]:
        """Partitions that a request and the legacy znode name. The znode is looked at after the requests were taken."""
        return sorted({tp for request in self.state.requests.values() for tp in request.targets if self._in_legacy(tp)})

    def reconcile_first(self, draft: Draft, tp: TopicPartition) -> None:
        """Decide which source is right about a partition before its record is trusted.

        Deaths, cancels and ISR changes overtake the reviews of the start-up, which may wait for the barrier as well.
        """
        if tp in self.unreconciled and tp not in draft.reconciled:
            draft.reconciled.add(tp)
            self.reconcile(draft, tp)

    def on_committed(self, draft: Draft) -> None:
        """A draft is durable: the partitions that it reconciled need not be reconciled again."""
        self.unreconciled -= draft.reconciled

    def reconcile(self, draft: Draft, tp: TopicPartition) -> None:
        """Decide which source is right about one partition, and write its record accordingly."""
        partition = draft.partition(tp)
        record = draft.reassignment(tp)
        left_out = draft.state.left_out
        if tp.topic in left_out.topics or tp in left_out.moves:
            return  # The topic or the record exists and can't be read: its move is neither closed nor begun anew.
        if partition is None or tp.topic in draft.state.deleting:
            # A move of a topic that is being deleted is over, whoever began it. Its record may stay (Deletions).
            if record is not None and not (partition and dropped_before(record, partition.assignment)):
                self.moves.end(draft, tp, record)
            self.moves.forget_legacy(draft, {tp})
            return
        if record is not None and record.phase is Phase.DROPPING:
            for broker in dropped_before(record, partition.assignment):
                if broker not in draft.state.brokers:
                    self.moves.owe_instead(draft, tp, broker)
            self.moves.finish_dropping(draft, tp)
            record = None
            if partition.assignment.in_motion is False and not self._in_legacy(tp):
                return
        legacy = self.state.legacy
        legacy_target = self._legacy_target(draft, tp)
        decided = reconcile(
            Sources(
                topic_id=draft.state.topics[tp.topic].topic_id,
                assignment=partition.assignment,
                record=record,
                legacy_target=legacy_target,
                legacy_original=legacy.originals.get(tp) if legacy is not None else None,
                target_replicas=partition.leadership.target_replicas if partition.leadership else None,
                requested=record is not None and record.requested,
            )
        )
        if legacy is not None and decided.original is not None:
            self.moves.tell_originals(draft, tp, legacy.originals.get(tp), decided.original)
        self._follow(draft, tp, record, decided)

    def _legacy_target(self, draft: Draft, tp: TopicPartition) -> Replicas | None:
        """The legacy znode's target. An entry that can never be carried out is removed, with a notice."""
        legacy = self.state.legacy
        target = legacy.targets.get(tp) if legacy is not None else None
        refused = self.moves.refusal_by_znode(draft, tp, target) if target is not None else None
        if refused is None:
            return target
        draft.notices.append(Notice("legacy-refused", str(tp), refused[1]))
        self.moves.forget_legacy(draft, {tp})
        return None

    def _in_legacy(self, tp: TopicPartition) -> bool:
        return self.state.legacy is not None and tp in self.state.legacy.targets

    def _follow(self, draft: Draft, tp: TopicPartition, record: Reassignment | None, decided: Reconciled) -> None:
        draft.notices.append(Notice("reconciled", str(tp), decided.row.value))
        if decided.closing is not None:
            told = f"record closed: {decided.closing.value.replace('_', ' ')}"
            draft.notices.append(Notice("record-closed", str(tp), told))
        partition = draft.partition(tp)
        if decided.row is Row.START_LEGACY and draft.state.cancel is not None:
            return  # An entry from before the cancel znode is dropped with it; one from after it waits.
        if partition is None or decided.row is Row.IDLE or decided.target is None or decided.original is None:
            if record is not None:
                self.moves.end(draft, tp, record)
            return
        if decided.row is Row.CONTINUE and record is not None:
            if decided.legacy != record.legacy:
                draft.transition(tp, Trigger.AMENDED, record._replace(legacy=decided.legacy))
        elif decided.row is Row.LEGACY_WINS and record is not None:
            change = ReassignmentChange(tp, decided.target, forced=True)
            self.moves.submit(draft, change, legacy_original=record.original)
            changed = draft.reassignment(tp)
            if changed is not None and not changed.legacy:
                draft.transition(tp, Trigger.AMENDED, changed._replace(legacy=True))
        else:
            self.moves.make_room(draft, tp, partition)
            adopted = Reassignment(
                topic_id=draft.state.topics[tp.topic].topic_id,
                original=decided.original,
                target=decided.target,
                strategy=Strategy.ALL_AT_ONCE if partition.assignment.in_motion else self.settings.strategy,
                phase=Phase.MOVING if partition.assignment.in_motion else Phase.PENDING,
                written=partition.assignment,
                accepted_at_ms=draft.now_ms,
                top=len(decided.original),
                legacy=decided.legacy,
                forced=True,
            )
            draft.transition(tp, Trigger.ADOPTED if partition.assignment.in_motion else Trigger.INHERITED, adopted)
            known = None if tp in draft.state.unreadable else partition.leadership
            if partition.assignment.in_motion and known is not None:
                # Apache's controller writes an assignment before the leader epoch. If it died in between, the leader
                # does not know the additions, and would ignore them in the epoch that it has.
                draft.lead(tp, known.in_new_epoch())
        if decided.row is Row.LEGACY_IGNORED:
            self.moves.forget_legacy(draft, {tp})
