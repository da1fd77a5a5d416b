"""Reassignments as they come in: by RPC 45, and from former controllers at start-up; znodes are `znode_protocols`.

A large submission is taken in slices; cancels overtake it, and mark what has not been taken yet as cancelled.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial

from shunter.core.controller.draft import Draft, serving_brokers
from shunter.core.controller.events import ReassignmentChange, ReassignmentsSubmitted, ReplyToken
from shunter.core.controller.lifecycle import Trigger
from shunter.core.controller.moves import MoveResult, Moves, dropped_before
from shunter.core.controller.ready import Notice, PartitionResultsReply, Reply
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import PartitionResults, Priority, Task, TaskQueue
from shunter.core.reassignment import WaitReason
from shunter.core.reassignment.reconciliation import Reconciled, Row, Sources, reconcile
from shunter.errors import ErrorCode
from shunter.model.partition import NO_LEADER, BrokerId, Replicas, TopicPartition
from shunter.model.reassignment import CancelMode, Phase, Reassignment, Strategy
from shunter.model.settings import ControllerSettings


@dataclass(slots=True)
class Submission:
    """A submission that is being taken: what of it was cancelled, or paused, before its turn came."""

    number: int
    waiting: dict[TopicPartition, None]
    set_aside: dict[TopicPartition, CancelMode] = field(default_factory=dict[TopicPartition, CancelMode])
    """How a partition was cancelled, or that it was paused. Only durable cancels and pauses are here."""

    def aside(self, draft: Draft, tp: TopicPartition) -> CancelMode | None:
        """How a partition will have been set aside when the draft is durable; None: its turn comes as usual."""
        key = (self.number, tp)
        return draft.set_aside[key] if key in draft.set_aside else self.set_aside.get(tp)

    def note(self, draft: Draft) -> None:
        """The draft is durable, and what it set aside with it."""
        for tp, aside in ((tp, aside) for (number, tp), aside in draft.set_aside.items() if number == self.number):
            if aside is None:
                self.set_aside.pop(tp, None)
            else:
                self.set_aside[tp] = aside


@dataclass(frozen=True, slots=True)
class Before:
    """What a cancel came after, and is for: what waits in the queue, and in which znodes (by name, and by czxid)."""

    submissions: tuple[Submission, ...]
    requests: tuple[str, ...]
    legacy: int | None
    extra: int | None


@dataclass(slots=True)
class Submissions:
    """Turns what people and tools ask for into tasks over single partitions."""

    state: ControllerState
    settings: ControllerSettings
    queue: TaskQueue
    moves: Moves
    open: list[Submission] = field(default_factory=list[Submission])
    """Submissions with partitions whose turn has not come."""
    next_number: int = 1

    # ---- RPC 45

    def on_submitted(self, event: ReassignmentsSubmitted) -> list[tuple[ReplyToken, Reply]]:
        """Queue a request's changes, and before them its cancels; one reply when all of it is durable.

        Only null replicas cancel; an empty list is a target that is refused. Of a partition that is named twice the
        last word counts, as with Apache's controller.
        """
        named = {change.tp: change for change in event.changes}
        cancels = {tp: change.cancel_mode for tp, change in named.items() if change.replicas is None}
        for tp in self._whole(event):
            cancels.setdefault(tp, event.cancel_mode)
        changes = [change for change in named.values() if change.replicas is not None]
        tasks = bool(cancels) + bool(changes)
        if not tasks:
            return [(event.reply_to, PartitionResultsReply(ErrorCode.NONE))] if event.reply_to else []
        order = tuple(dict.fromkeys((*named, *cancels)))
        gathered = PartitionResults(event.reply_to, order, tasks)
        if cancels:
            mode = event.cancel_mode
            items = [(tp, cancel or mode) for tp, cancel in cancels.items()]
            # It concerns what was asked for before it; what comes after it may be open too when its turn comes.
            decide = partial(self._cancel, before=self._asked_before())
            finish = partial(self._cancelled, gathered, named=set(named))
            refuse = _refuse_move if event.reply_to else None
            self.queue.add(Task(Priority.CANCEL, items, decide, finish, refuse=refuse))
        if changes:
            self._queue_changes(changes, gathered)
        return []

    def _queue_changes(self, changes: list[ReassignmentChange], gathered: PartitionResults) -> None:
        # One topic's partitions together: its znode is written once per slice.
        changes = sorted(changes, key=lambda change: change.tp)
        submission = Submission(self.next_number, dict.fromkeys(change.tp for change in changes))
        self.next_number += 1
        self.open.append(submission)

        def finish(results: list[MoveResult]) -> list[tuple[ReplyToken, Reply]]:
            self.open.remove(submission)
            return gathered.task_finished(results)

        decide = partial(self._submit, submission=submission)
        refuse = _refuse_move if gathered.reply_to else None
        self.queue.add(Task(Priority.NORMAL, changes, decide, finish, refuse=refuse))

    @staticmethod
    def _cancelled(
        gathered: PartitionResults, results: list[MoveResult], *, named: set[TopicPartition]
    ) -> list[tuple[ReplyToken, Reply]]:
        """A cancel is durable; of what a cancel of everything looked at, it tells what was moving."""
        idle = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        return gathered.task_finished([result for result in results if result[0] in named or result[1] is not idle])

    def _whole(self, event: ReassignmentsSubmitted) -> list[TopicPartition]:
        """Partitions of a cancel of whole topics, or of everything, begun or not."""
        if not event.cancel_all and not event.cancel_topics:
            return []
        known = dict.fromkeys(tp for tp, move in self.state.reassignments.items() if move.phase is not Phase.DROPPING)
        # And what a start-up has not come to yet: it may be in motion, and have no record of ours; or one that nobody
        # can read, of which it is told that.
        known.update(dict.fromkeys(self.moves.unreconciled | self.state.left_out.moves))
        for submission in self.open:
            known.update(submission.waiting)
        for waiting in (*self.state.requests.values(), self.state.legacy, self.state.extra):
            known.update(dict.fromkeys(waiting.targets if waiting is not None else ()))
        return sorted(tp for tp in known if event.cancel_all or tp.topic in event.cancel_topics)

    def _submit(self, draft: Draft, change: ReassignmentChange, *, submission: Submission) -> MoveResult:
        aside = submission.aside(draft, change.tp)
        if aside not in {None, CancelMode.PAUSE}:
            return change.tp, ErrorCode.NONE, "cancelled before it was begun"
        result = self.moves.submit(draft, change, paused=aside is CancelMode.PAUSE)
        if result[1] is ErrorCode.NONE and change.tp in draft.legacy_listed:
            # As Apache does: an acknowledged request must not be lost to an older legacy entry at a failover.
            self.moves.forget_legacy(draft, {change.tp})
        return result

    def _cancel(
        self,
        draft: Draft,
        item: tuple[TopicPartition, CancelMode | None],
        *,
        before: Before,
    ) -> MoveResult:
        tp, mode = item
        result = self.moves.cancel(draft, tp, mode)
        if result[1] not in (ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS):
            return result
        waiting = [
            each for each in before.submissions if tp in each.waiting and any(each is other for other in self.open)
        ]
        for submission in waiting:
            aside = submission.aside(draft, tp)
            if aside in {None, CancelMode.PAUSE}:  # A cancelled partition stays cancelled.
                # A pause forgets nothing: the change is accepted when its turn comes, and stands still.
                wanted = mode or self.settings.cancel_mode
                draft.set_aside[submission.number, tp] = None if wanted is CancelMode.RESUME else wanted
        withdrawn = mode not in {CancelMode.PAUSE, CancelMode.RESUME} and self._withdraw(draft, tp, before)
        return (tp, ErrorCode.NONE, None) if waiting or withdrawn else result

    def _asked_before(self) -> Before:
        legacy, extra = self.state.legacy, self.state.extra
        return Before(
            tuple(self.open),
            tuple(self.state.requests),
            None if legacy is None else legacy.czxid,
            None if extra is None else extra.czxid,
        )

    def _withdraw(self, draft: Draft, tp: TopicPartition, before: Before) -> bool:
        """Take out of the znodes what waits in them, durably: whoever comes next must not begin it."""
        withdrawn = draft.withdraw(tp, before.requests)
        legacy, extra = self.state.legacy, self.state.extra
        if (
            legacy is not None
            and legacy.czxid == before.legacy
            and tp in draft.legacy_listed
            and draft.reassignment(tp) is None
        ):
            self.moves.forget_legacy(draft, {tp})
            withdrawn = True
        if extra is not None and extra.czxid == before.extra and tp in draft.extra_listed:
            draft.extra_targets().pop(tp)
            withdrawn = True
        return withdrawn

    # ---- what former controllers left

    def reconcile(self, only: Collection[TopicPartition] | None = None) -> None:
        """At start-up: who is right about each partition that any source says is moving.

        And later about those alone that could not be read then.

        Where the legacy znode alone names a partition that a request znode names too, the request comes first
        (KIP-236, "On controller failover"); `reconcile_legacy` looks at it again after the requests.
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
        if seen:
            self.moves.unreconciled |= seen.keys()
            self.moves.reconcile = self._reconcile
            self.queue.add(Task(Priority.NORMAL, sorted(seen), self.moves.advance))

    def reconcile_legacy(self) -> Task | None:
        """A look, after the requests were taken over, at what the legacy znode says about the same partitions."""
        named = {tp for request in self.state.requests.values() for tp in request.targets if self._in_legacy(tp)}
        return Task(Priority.NORMAL, sorted(named), self._reconcile_again) if named else None

    def _reconcile_again(self, draft: Draft, tp: TopicPartition) -> None:
        self._reconcile(draft, tp)
        self.moves.advance(draft, tp)

    def _reconcile(self, draft: Draft, tp: TopicPartition) -> None:
        partition = draft.partition(tp)
        record = draft.reassignment(tp)
        left_out = draft.state.left_out
        if tp.topic in left_out.topics or tp in left_out.moves:
            return  # It is there, and nobody knows what it says: neither closed nor begun anew.
        if partition is None or tp.topic in draft.state.deleting:
            # What moves a topic that is being deleted is over, whoever began it; its record may stay (Deletions).
            if record is not None and not (partition and dropped_before(record, partition.assignment)):
                self.moves.end(draft, tp, record)
            self.moves.forget_legacy(draft, {tp})
            return
        if record is not None and record.phase is Phase.DROPPING:
            for broker in dropped_before(record, partition.assignment):
                if broker not in draft.state.brokers:
                    self.moves.owe_instead(draft, (broker, tp))
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
        """What the legacy znode asks for; an entry that can never be carried out is told and taken out."""
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
            return  # What came before the cancel znode goes with it, what came after waits.
        if partition is None or decided.row is Row.IDLE or decided.target is None or decided.original is None:
            if record is not None:
                self.moves.end(draft, tp, record)
            return
        if decided.row is Row.CONTINUE and record is not None:
            if decided.legacy != record.legacy:
                draft.turn(tp, Trigger.AMENDED, record._replace(legacy=decided.legacy))
        elif decided.row is Row.LEGACY_WINS and record is not None:
            change = ReassignmentChange(tp, decided.target, forced=True)
            self.moves.submit(draft, change, legacy_original=record.original)
            changed = draft.reassignment(tp)
            if changed is not None and not changed.legacy:
                draft.turn(tp, Trigger.AMENDED, changed._replace(legacy=True))
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
            draft.turn(tp, Trigger.ADOPTED if partition.assignment.in_motion else Trigger.INHERITED, adopted)
        if decided.row is Row.LEGACY_IGNORED:
            self.moves.forget_legacy(draft, {tp})

    # ---- staggering

    def on_committed(self, draft: Draft) -> None:
        """Go on with moves whose step waits for nobody; when moves end and others are pending, let those begin."""
        self.moves.unreconciled -= draft.reconciled
        for submission in self.open:
            submission.note(draft)
        unhindered = [tp for tp in draft.reassignments if self._stepped_in_sync(draft, tp)]
        unhindered += [tp for tp in draft.leaderships if self._led_at_last(tp)]
        # Brokers and configuration that changed while this was written were compared with the moves of before.
        waits = [tp for tp in dict.fromkeys((*draft.reassignments, *draft.waits)) if tp in self.state.waiting]
        if waits:
            serving = serving_brokers(self.state)
            moved = draft.live is not None and draft.live != serving
            moved = moved or draft.configs_read != self.state.configs_read
            unhindered += [tp for tp in waits if moved or self._serves_again(tp, serving)]
        if unhindered:
            # A step that only drops is followed by no news of an ISR that could make the move go on.
            self.queue.add(Task(Priority.NORMAL, unhindered, self.moves.advance))
        if not (self.settings.max_concurrent or self.settings.max_concurrent_per_broker):
            return
        out_of_the_way = {Phase.DROPPING, Phase.PAUSED}
        if draft.ended or any(move and move.phase in out_of_the_way for move in draft.reassignments.values()):
            pending = [tp for tp, move in self.state.reassignments.items() if move.phase is Phase.PENDING]
            if pending:
                self.queue.add(Task(Priority.NORMAL, pending, self.moves.advance))

    def _serves_again(self, tp: TopicPartition, serving: frozenset[BrokerId]) -> bool:
        """Whether a move waits for a broker that serves by now: it came back with the log dir that had failed."""
        waiting = self.state.waiting[tp][0]
        now = serving.difference(self.state.offline_replicas.get(tp, ()))
        return waiting.reason is WaitReason.DEAD and not now.isdisjoint(waiting.brokers)

    def _led_at_last(self, tp: TopicPartition) -> bool:
        """Whether a move waits for a leader, and there is one."""
        waiting, partition = self.state.waiting.get(tp), self.state.partition(tp)
        if waiting is None or waiting[0].reason is not WaitReason.NO_LEADER or partition is None:
            return False
        return partition.leadership is not None and partition.leadership.leader != NO_LEADER

    def _stepped_in_sync(self, draft: Draft, tp: TopicPartition) -> bool:
        """Whether a step of a partition was written that is over as it is."""
        partition = self.state.partition(tp)
        if partition is None or partition.leadership is None or tp.partition not in draft.assignments.get(tp.topic, ()):
            return False
        return set(partition.assignment.replicas) == set(partition.leadership.isr)


def _refuse_move(
    item: ReassignmentChange | tuple[TopicPartition, CancelMode | None], error: ErrorCode, message: str
) -> MoveResult:
    return item.tp if isinstance(item, ReassignmentChange) else item[0], error, message
