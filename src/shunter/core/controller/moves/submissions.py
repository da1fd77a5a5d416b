"""Reassignments that come in by RPC 45 (`znode_protocols` has those of znodes, `adoption` those that were found).

A large submission is taken in slices; cancels overtake it, and mark what has not been taken yet as cancelled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from shunter.core.controller.draft import Draft
from shunter.core.controller.events import ReassignmentChange, ReassignmentsSubmitted, ReplyToken
from shunter.core.controller.moves.adoption import Adoption
from shunter.core.controller.moves.reassignments import MoveResult, Moves
from shunter.core.controller.ready import PartitionResultsReply, Reply
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import PartitionResults, Priority, Task, TaskQueue
from shunter.errors import ErrorCode
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Intervention, unfinished
from shunter.model.settings import ControllerSettings


@dataclass(slots=True)
class Submission:
    """A submission that is being taken, and which of its partitions got an intervention before their turn."""

    number: int
    waiting: dict[TopicPartition, None]
    interventions: dict[TopicPartition, Intervention] = field(default_factory=dict[TopicPartition, Intervention])
    """By partition: how it was cancelled, or that it was paused. Only durable interventions are here."""

    def intervention(self, draft: Draft, tp: TopicPartition) -> Intervention | None:
        """The cancel or pause that a partition has once the draft is durable; None: its turn comes as usual."""
        key = (self.number, tp)
        return draft.interventions[key] if key in draft.interventions else self.interventions.get(tp)

    def note(self, draft: Draft) -> None:
        """The draft is durable: take over its interventions in partitions of the submission."""
        for (number, tp), intervention in draft.interventions.items():
            if number != self.number:
                continue
            if intervention is None:
                self.interventions.pop(tp, None)
            else:
                self.interventions[tp] = intervention


@dataclass(frozen=True, slots=True)
class Before:
    """Requests from before a cancel, which it cancels: submissions that wait, and znodes (by name or czxid)."""

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
    adoption: Adoption
    open: list[Submission] = field(default_factory=list[Submission])
    """Submissions with partitions whose turn has not come."""
    next_number: int = 1

    # ---- RPC 45

    def on_submitted(self, event: ReassignmentsSubmitted) -> list[tuple[ReplyToken, Reply]]:
        """Queue a request's changes, and before them its cancels; one reply when all of it is durable.

        Only null replicas cancel; an empty list is a target that is refused. If a request names a partition twice, the
        last entry counts, as with Apache's controller.
        """
        named = {change.tp: change for change in event.changes}
        cancels = {tp: change.intervention for tp, change in named.items() if change.replicas is None}
        for tp in self._whole(event):
            cancels.setdefault(tp, event.intervention)
        changes = [change for change in named.values() if change.replicas is not None]
        tasks = bool(cancels) + bool(changes)
        if not tasks:
            return [(event.reply_to, PartitionResultsReply(ErrorCode.NONE))] if event.reply_to else []
        order = tuple(dict.fromkeys((*named, *cancels)))
        gathered = PartitionResults(event.reply_to, order, tasks)
        if cancels:
            mode = event.intervention
            items = [(tp, cancel or mode) for tp, cancel in cancels.items()]
            # A cancel is about earlier requests. Later requests may be open too when the cancel's turn comes.
            decide = partial(self._intervene, before=self._asked_before())
            finish = partial(self._intervened, gathered, named=set(named))
            refuse = _refuse_move if event.reply_to else None
            self.queue.add(Task(Priority.CANCEL, items, decide, finish, refuse=refuse))
        if changes:
            self._queue_changes(changes, gathered)
        return []

    def _queue_changes(self, changes: list[ReassignmentChange], gathered: PartitionResults) -> None:
        # One topic's partitions come together, so that its znode is written once per slice.
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
    def _intervened(
        gathered: PartitionResults, results: list[MoveResult], *, named: set[TopicPartition]
    ) -> list[tuple[ReplyToken, Reply]]:
        """A cancel is durable. Partitions that the request did not name are in the reply only if they were moving."""
        idle = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        return gathered.task_finished([result for result in results if result[0] in named or result[1] is not idle])

    def _whole(self, event: ReassignmentsSubmitted) -> list[TopicPartition]:
        """Partitions that a cancel of whole topics, or of everything, is about, also those with moves not begun yet."""
        if not event.cancel_all and not event.cancel_topics:
            return []
        known = dict.fromkeys(tp for tp, move in self.state.reassignments.items() if unfinished(move))
        # The start-up's reviews may not have reached these yet: they may be in motion without a record. Or their record
        # can't be read, and the reply says so.
        known.update(dict.fromkeys(self.adoption.unreconciled | self.state.left_out.moves))
        for submission in self.open:
            known.update(submission.waiting)
        for waiting in (*self.state.requests.values(), self.state.legacy, self.state.extra):
            known.update(dict.fromkeys(waiting.targets if waiting is not None else ()))
        return sorted(tp for tp in known if event.cancel_all or tp.topic in event.cancel_topics)

    def _submit(self, draft: Draft, change: ReassignmentChange, *, submission: Submission) -> MoveResult:
        intervention = submission.intervention(draft, change.tp)
        if intervention not in {None, Intervention.PAUSE}:
            return change.tp, ErrorCode.NONE, "cancelled before it was begun"
        self.adoption.reconcile_first(draft, change.tp)
        if (told := _another_factor(draft, change)) is not None:
            return change.tp, ErrorCode.INVALID_REPLICATION_FACTOR, told
        result = self.moves.submit(draft, change, paused=intervention is Intervention.PAUSE)
        if result[1] is ErrorCode.NONE and change.tp in draft.legacy_listed:
            # As Apache does: an acknowledged request must not be lost to an older legacy entry at a failover.
            self.moves.forget_legacy(draft, {change.tp})
        return result

    def _intervene(
        self,
        draft: Draft,
        item: tuple[TopicPartition, Intervention | None],
        *,
        before: Before,
    ) -> MoveResult:
        tp, mode = item
        self.adoption.reconcile_first(draft, tp)
        result = self.moves.intervene(draft, tp, mode)
        if result[1] not in (ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS):
            return result
        waiting = [
            each for each in before.submissions if tp in each.waiting and any(each is other for other in self.open)
        ]
        for submission in waiting:
            if submission.intervention(draft, tp) in {
                None,
                Intervention.PAUSE,
            }:  # A cancelled partition stays cancelled.
                # A pause forgets nothing: the change is accepted when its turn comes, and stands still.
                wanted = mode or self.settings.cancel_mode
                draft.interventions[submission.number, tp] = None if wanted is Intervention.RESUME else wanted
        withdrawn = mode not in {Intervention.PAUSE, Intervention.RESUME} and self._withdraw(draft, tp, before)
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
        """Remove a partition from the znodes in which it waits, durably: no later controller may begin its move."""
        withdrawn = draft.withdraw(tp, before.requests)
        legacy, extra = self.state.legacy, self.state.extra
        moving = draft.unfinished(tp)  # A move that came by the legacy znode removes its entry when it ends.
        waits = legacy is not None and legacy.czxid == before.legacy and tp in draft.legacy_listed
        if waits and (moving is None or not moving.legacy):
            self.moves.forget_legacy(draft, {tp})
            withdrawn = True
        if extra is not None and extra.czxid == before.extra and tp in draft.extra_listed:
            draft.extra_targets().pop(tp)
            withdrawn = True
        return withdrawn

    # ---- after a write

    def on_committed(self, draft: Draft) -> None:
        """A draft is durable: note its interventions in the open submissions."""
        for submission in self.open:
            submission.note(draft)


def _another_factor(draft: Draft, change: ReassignmentChange) -> str | None:
    """Why a change is refused that must keep the number of replicas: those at the end of a move count (KIP-860)."""
    partition, moving = draft.partition(change.tp), draft.unfinished(change.tp)
    if change.changes_factor or partition is None:
        return None
    present = len(partition.assignment.target if moving is None else moving.target)
    wanted = len(change.replicas or ())
    return None if present == wanted else f"The replication factor is changed from {present} to {wanted}"


def _refuse_move(
    item: ReassignmentChange | tuple[TopicPartition, Intervention | None], error: ErrorCode, message: str
) -> MoveResult:
    return item.tp if isinstance(item, ReassignmentChange) else item[0], error, message
