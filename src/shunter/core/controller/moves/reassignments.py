"""Reassignments, decided into a draft: accepted, begun, advanced, stopped, rolled back, superseded, adopted.

`core.reassignment` decides how one partition moves. This module decides when, and which records become durable with it.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from shunter.core.controller.brokers.elections import elect_first, min_isr, unreadable_state
from shunter.core.controller.draft import Draft
from shunter.core.controller.events import ReassignmentChange
from shunter.core.controller.moves import pauses
from shunter.core.controller.moves.lifecycle import BEGUN, Trigger
from shunter.core.controller.moves.load import Load
from shunter.core.controller.moves.owed_replicas import to_return_to
from shunter.core.controller.state import ControllerState
from shunter.core.reassignment import (
    Situation,
    Step,
    Waiting,
    WaitReason,
    describe_waiting,
    next_step,
    roll_back,
    stop,
    supersede,
    validate_target,
)
from shunter.errors import ErrorCode
from shunter.model.notice import Notice
from shunter.model.partition import (
    EPOCH_DURING_DELETE,
    BrokerId,
    PartitionState,
    ReplicaAssignment,
    Replicas,
    TopicPartition,
)
from shunter.model.reassignment import Intervention, Phase, Reassignment, Strategy
from shunter.model.settings import ControllerSettings

MoveResult = tuple[TopicPartition, ErrorCode, str | None]

CANCEL_IN_PLACE = (
    "/admin/reassign_cancel exists: everything is being rolled back, and nothing new starts until it is removed"
    " (--remove-cancel)"
)
ANYBODY = range(1 << 31)
"""All broker ids. No caller reads an answer to a request by znode, so the request is not refused for a dead broker: the
move waits for that broker."""


@dataclass(slots=True)
class Moves:
    """Decides about moves. Decisions write into the draft alone; the two fields below hold facts about deletions."""

    state: ControllerState
    settings: ControllerSettings
    undeleted: dict[TopicPartition, set[BrokerId]] = field(default_factory=dict[TopicPartition, set[BrokerId]])
    """Live brokers that were told to delete a dropped replica and have not answered."""
    refused: set[tuple[BrokerId, TopicPartition]] = field(default_factory=set[tuple[BrokerId, TopicPartition]])
    """Deletions that a live broker could not do. They are owed, and asked for again only when the broker comes back."""

    # ---- accepting

    def submit(
        self,
        draft: Draft,
        change: ReassignmentChange,
        *,
        legacy_original: Replicas | None = None,
        requested: bool = False,
        paused: bool = False,
    ) -> MoveResult:
        """Accept one partition's new target, or say why not.

        `legacy_original`: the original replicas of an entry of the legacy znode; None: the target came another way.
        `requested`: the target came by a request znode without the legacy flag. `paused`: an operator paused it before
        its turn came.
        """
        tp = change.tp
        if draft.state.cancel is not None:
            return tp, ErrorCode.REASSIGNMENT_IN_PROGRESS, CANCEL_IN_PLACE
        partition = draft.partition(tp)
        if partition is None or tp.topic in draft.state.deleting:
            return tp, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, draft.state.why_missing(tp)
        target = change.replicas or ()
        known, moving = draft.reassignment(tp), draft.unfinished(tp)
        again = moving is not None and target == moving.target
        # A target that was accepted once is not refused the second time because a broker has died since.
        refused = _unreadable(draft, tp)
        if refused is None and not again:
            by_znode = requested or legacy_original is not None
            had = ANYBODY if by_znode else _had(moving, partition)
            refused = self._refusal(draft, tp, target, forced=change.forced, had=had)
            if refused is None and by_znode:
                self._tell_dead(draft, tp, target, partition)
        if refused is not None:
            return tp, *refused
        # A request that repeats the target and names no strategy is not meant to change the move's strategy.
        strategy = change.strategy or (moving.strategy if moving is not None and again else self.settings.strategy)
        if moving is not None:
            accepted = moving._replace(
                target=target,
                strategy=strategy,
                forced=change.forced,
                relaxed_since_ms=None,
                legacy=legacy_original is not None,
                requested=requested or (moving.requested and legacy_original is None),
                changes=moving.changes + (target != moving.target),
            )
        elif target == partition.assignment.replicas and not partition.assignment.in_motion:
            return tp, ErrorCode.NONE, None
        else:
            if known is not None:
                self._owe_undeleted(draft, tp, known, partition)
            original = legacy_original or partition.assignment.original
            accepted = _new_move(draft, tp, partition, target, original, strategy)._replace(
                legacy=legacy_original is not None, forced=change.forced, requested=requested
            )
        if paused:
            return tp, *pauses.stand_still(draft, tp, accepted, Trigger.ACCEPTED_PAUSED)
        if moving is not None:
            self._change_target(draft, tp, moving, accepted)
        else:
            draft.transition(tp, Trigger.ACCEPTED, accepted)
            self.advance(draft, tp)
        return tp, ErrorCode.NONE, None

    def make_room(self, draft: Draft, tp: TopicPartition, partition: PartitionState) -> None:
        """Another move takes the place of a record that a former controller left, and does not continue its move."""
        known = draft.reassignment(tp)
        if known is None:
            return
        if known.phase is Phase.DROPPING:
            self._owe_undeleted(draft, tp, known, partition)
        pauses.wake(draft, tp, known)
        self._uncount(draft, known)
        draft.ended = True

    def _owe_undeleted(self, draft: Draft, tp: TopicPartition, known: Reassignment, partition: PartitionState) -> None:
        """Another move takes the place of a record whose deletions are not acknowledged: note these as owed."""
        dead = (broker for broker in dropped_before(known, partition.assignment) if broker not in draft.state.brokers)
        for broker in sorted({*dead, *self.undeleted.get(tp, ()), *draft.dropped.get(tp, ())}):
            draft.owe(broker, tp, _leader_epoch(partition))

    @staticmethod
    def tell_originals(draft: Draft, tp: TopicPartition, given: Replicas | None, used: Replicas) -> None:
        """Add a notice if a znode's `original_replicas` are not the replicas that a rollback of its move restores."""
        if given is not None and given != used:
            told = (
                f"the znode gives original_replicas {list(given)}, but a rollback restores {list(used)}, which it had"
            )
            draft.notices.append(Notice("original-replicas-ignored", str(tp), told))

    @staticmethod
    def _tell_dead(draft: Draft, tp: TopicPartition, target: Replicas, partition: PartitionState) -> None:
        had = partition.assignment.replicas
        dead = [broker for broker in target if broker not in draft.state.brokers and broker not in had]
        if dead:
            told = (
                f"replicas {list(target)} were asked for by znode; brokers {dead} are not live: the move waits for them"
            )
            draft.notices.append(Notice("waits-for-brokers", str(tp), told))

    def refusal_by_znode(
        self, draft: Draft, tp: TopicPartition, target: Replicas, *, forced: bool = True
    ) -> tuple[ErrorCode, str] | None:
        """Why a target can't be asked for by znode, or None. A dead broker is no reason: the move waits for it."""
        return self._refusal(draft, tp, target, forced=forced, had=ANYBODY)

    def _refusal(
        self, draft: Draft, tp: TopicPartition, target: Replicas, *, forced: bool, had: Container[BrokerId]
    ) -> tuple[ErrorCode, str] | None:
        return validate_target(
            target,
            draft.state.brokers,
            place=tp,
            controllers=draft.state.controllers,
            min_isr=min_isr(draft.state, self.settings, tp.topic),
            forced=forced,
            had=had,
        )

    def _change_target(self, draft: Draft, tp: TopicPartition, known: Reassignment, changed: Reassignment) -> None:
        """Give a move under way another target, or the same target once more. `changed`: its record with the target."""
        target = changed.target
        if changed.forced and not changed.legacy and target == known.target and known.phase is Phase.MOVING:
            # Forced again, same target: the operator relaxes the floor for a move that waits for it (KAFKA-19975).
            draft.transition(tp, Trigger.RELAXED, changed._replace(relaxed_since_ms=draft.now_ms))
            self.advance(draft, tp)
            return
        if known.phase is Phase.PENDING:
            partition = draft.partition(tp)
            if partition is not None and partition.assignment.in_motion:
                # Another tool has begun the move meanwhile: it has to be finished, or taken back.
                draft.transition(tp, Trigger.BEGUN, changed._replace(written=partition.assignment))
            elif partition is not None and target == partition.assignment.replicas:
                self.end(draft, tp, changed)
            else:
                draft.transition(tp, Trigger.AMENDED, changed)
            return
        if target == known.target and known.phase is Phase.MOVING:
            draft.transition(tp, Trigger.AMENDED, changed)
            return
        pauses.wake(draft, tp, known)
        situation = self._situation(draft, tp)
        if situation is None:
            draft.transition(tp, Trigger.RETARGETED, changed)
            return
        step = supersede(
            situation,
            original=changed.original,
            new_target=target,
            top=changed.top,
            strategy=changed.strategy,
        )
        self._follow(draft, tp, draft.transition(tp, Trigger.RETARGETED, changed), step)

    # ---- ending early

    def intervene(self, draft: Draft, tp: TopicPartition, mode: Intervention | None) -> MoveResult:
        """Stop a move, roll it back, pause or resume it. A stop or rollback may come in any phase, and repeatedly."""
        known, partition = draft.unfinished(tp), draft.partition(tp)
        if partition is None or tp.topic in draft.state.deleting:
            return tp, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, draft.state.why_missing(tp)
        if known is None and tp in draft.state.left_out.moves:
            return tp, *_unreadable_record(tp)
        if known is None:
            return tp, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"nothing moves {tp}"
        if known.phase is not Phase.PENDING and tp in draft.state.unreadable:
            return tp, ErrorCode.LEADER_NOT_AVAILABLE, unreadable_state(tp)
        if mode is Intervention.PAUSE:
            return tp, *pauses.pause(draft, tp, known)
        if mode is Intervention.RESUME:
            return self._resume(draft, tp, known)
        if known.phase is Phase.PENDING and not partition.assignment.in_motion:
            self.end(draft, tp, known)
            return tp, ErrorCode.NONE, None
        # A move that waits for a replica which a pause has stopped would wait for ever.
        pauses.wake(draft, tp, known)
        # A pending move that is in motion was begun by another tool meanwhile: its changes have to be taken back.
        if (mode or self.settings.cancel_mode) is Intervention.STOP:
            situation = self._situation(draft, tp)
            if situation is not None:
                self._follow(draft, tp, known, stop(situation, original=known.original))
                return tp, ErrorCode.NONE, None
        draft.transition(tp, Trigger.ROLLED_BACK, known._replace(relaxed_since_ms=None))
        self.advance(draft, tp)
        return tp, ErrorCode.NONE, None

    def _resume(self, draft: Draft, tp: TopicPartition, known: Reassignment) -> MoveResult:
        if draft.state.cancel is not None:
            return tp, ErrorCode.REASSIGNMENT_IN_PROGRESS, CANCEL_IN_PLACE
        if pauses.resume(draft, tp, known):
            self.advance(draft, tp)
        return tp, ErrorCode.NONE, None

    # ---- going on

    def advance(self, draft: Draft, tp: TopicPartition) -> None:
        """Take the next step of a move if it can be taken now; else remember what it waits for."""
        move = draft.unfinished(tp)
        if move is None or move.phase is Phase.PAUSED or tp.topic in draft.state.deleting:
            return
        if move.phase is Phase.PENDING and (draft.state.cancel is not None or not self._may_begin(draft, move)):
            draft.wait_no_more(tp)  # The move now waits only for its turn.
            return
        situation = self._situation(draft, tp)
        if situation is None:
            self._await_first_leader(draft, tp, move)
            return
        if move.phase is Phase.ROLLING_BACK:
            move = self._with_replicas_to_return_to(draft, tp, move)
            outcome = roll_back(situation, original=move.original)
        else:
            outcome = next_step(
                situation,
                original=move.original,
                target=move.target,
                strategy=move.strategy,
                relaxed=move.relaxed_since_ms is not None,
            )
        if move.phase is Phase.PENDING and not isinstance(outcome, Waiting):
            self._count(draft).add(_added(move))
            move = draft.transition(tp, Trigger.BEGUN, move)
        self._follow(draft, tp, move, outcome)

    @staticmethod
    def _with_replicas_to_return_to(draft: Draft, tp: TopicPartition, move: Reassignment) -> Reassignment:
        """Replace original replicas that a broker placed on a controller: a controller never holds one."""
        restored = to_return_to(draft, tp, move.original)
        if restored == move.original:
            return move
        told = f"a controller can hold no replica: it is rolled back to {list(restored)}, not to {list(move.original)}"
        draft.notices.append(Notice("assignment-mended", str(tp), told))
        return draft.transition(tp, Trigger.AMENDED, move._replace(original=restored))

    def _await_first_leader(self, draft: Draft, tp: TopicPartition, move: Reassignment) -> None:
        """Wait for the first leader: the topic was made a moment ago, or none of the partition's brokers is live."""
        partition = draft.partition(tp)
        if partition is None or tp in draft.state.unreadable:
            return
        if not partition.assignment.replicas and partition.leadership is None:
            self._give_replicas(draft, tp, move)
        else:
            self._follow(draft, tp, move, Waiting(WaitReason.NO_LEADER, partition.assignment.replicas))

    def _give_replicas(self, draft: Draft, tp: TopicPartition, move: Reassignment) -> None:
        """Assign the target at once: the partition has no replicas and no state, so nobody has a record of it."""
        if move.phase is not Phase.ROLLING_BACK:
            draft.place(tp, ReplicaAssignment(move.target))
            elect_first(draft, tp)
        self.end(draft, tp, move)

    def _follow(self, draft: Draft, tp: TopicPartition, move: Reassignment, outcome: Step | Waiting | None) -> None:
        if isinstance(outcome, Waiting):
            failed = draft.state.offline_replicas.get(tp, ())
            draft.wait(tp, outcome._replace(failed=tuple(broker for broker in outcome.brokers if broker in failed)))
            return
        draft.wait_no_more(tp)
        if outcome is None:
            self.end(draft, tp, move)
            return
        partition = draft.partition(tp)
        if partition is None or partition.leadership is None:
            return
        self._write_step(draft, tp, partition, move, outcome)
        if not outcome.final:
            # The record names the originals. Any other replica that is dropped on the way has to be noted as owed.
            for broker in outcome.dropped:
                if broker not in move.original:
                    draft.owe(broker, tp, partition.leadership.leader_epoch + 1)
            draft.transition(tp, Trigger.STEPPED, move._replace(written=outcome.assignment), step=outcome)
        elif draft.dropped.get(tp) or self.undeleted.get(tp):
            self._uncount(draft, move)
            self._drop_legacy(draft, tp, move)
            draft.transition(tp, Trigger.DELETIONS_LEFT, move._replace(written=partition.assignment), step=outcome)
        else:
            self.end(draft, tp, move, step=outcome)

    def _write_step(
        self, draft: Draft, tp: TopicPartition, partition: PartitionState, move: Reassignment, step: Step
    ) -> None:
        leadership = partition.leadership
        if leadership is None:
            return
        epoch = leadership.leader_epoch + 1
        draft.place(tp, step.assignment)
        wanted: Replicas | None = None
        if not step.final:
            # The field keeps all replicas until the move ends (KIP-455's draft).
            wanted = move.original if move.phase is Phase.ROLLING_BACK else move.target
        changed = leadership._replace(leader=step.leader, leader_epoch=epoch, isr=step.isr, target_replicas=wanted)
        draft.lead(tp, changed)
        for broker in step.assignment.replicas:
            draft.keep(tp, broker)
        draft.drop(tp, step.dropped, epoch)

    def end(
        self, draft: Draft, tp: TopicPartition, move: Reassignment, *, keep: bool = False, step: Step | None = None
    ) -> None:
        """Close a move's record, and take the partition out of the legacy znode if the move came by that znode.

        `keep` leaves the record in place, because it names replicas that are still to be deleted.
        """
        draft.wait_no_more(tp)
        self._uncount(draft, move)
        self._drop_legacy(draft, tp, move)
        self._drop_target_replicas(draft, tp)
        if keep:
            draft.transition(tp, Trigger.DELETIONS_LEFT, move, step=step)
        else:
            draft.close(tp, step=step)

    def _drop_target_replicas(self, draft: Draft, tp: TopicPartition) -> None:
        """Remove `targetReplicas` of a move that is over: at the next failover it would start the move again."""
        partition = draft.partition(tp)
        leadership = partition.leadership if partition is not None else None
        if leadership is None or leadership.target_replicas is None or tp.topic in draft.state.deleting:
            return
        # In a new leader epoch, because the leader has to learn the new version before its next AlterPartition.
        draft.lead(tp, leadership.in_new_epoch()._replace(target_replicas=None))

    def _drop_legacy(self, draft: Draft, tp: TopicPartition, move: Reassignment) -> None:
        if move.legacy:
            self.forget_legacy(draft, {tp})

    def forget_legacy(self, draft: Draft, partitions: set[TopicPartition]) -> None:
        """Take partitions out of `/admin/reassign_partitions`; the znode is deleted with its last entry."""
        known = draft.state.legacy
        if known is None and draft.legacy is None:
            return
        before = draft.legacy_listed
        if before and not any(tp in before for tp in partitions):
            return
        left = draft.legacy_targets()
        for tp in sorted(partitions):
            left.pop(tp, None)

    def _situation(self, draft: Draft, tp: TopicPartition) -> Situation | None:
        partition = draft.partition(tp)
        if partition is None or partition.leadership is None:
            return None
        return Situation(
            assignment=partition.assignment,
            isr=partition.leadership.isr,
            leader=partition.leadership.leader,
            live=draft.serving(tp),
            min_isr=min_isr(draft.state, self.settings, tp.topic),
        )

    # ---- staggering

    def _may_begin(self, draft: Draft, move: Reassignment) -> bool:
        if not self.settings.max_concurrent and not self.settings.max_concurrent_per_broker:
            return True
        load = self._count(draft)
        if self.settings.max_concurrent and load.total >= self.settings.max_concurrent:
            return False
        bound = self.settings.max_concurrent_per_broker
        return not bound or all(load.by_broker.get(broker, 0) < bound for broker in _added(move))

    def _uncount(self, draft: Draft, move: Reassignment) -> None:
        """Stop counting a move that had begun and ends: another move of the same draft may begin in its place."""
        if move.phase in BEGUN and (self.settings.max_concurrent or self.settings.max_concurrent_per_broker):
            self._count(draft).add(_added(move), -1)

    def _count(self, draft: Draft) -> Load:
        if draft.load is None:
            draft.load = Load()
            for move in (draft.reassignment(tp) for tp in {**draft.state.reassignments, **draft.reassignments}):
                if move is not None and move.phase in BEGUN:
                    draft.load.add(_added(move))
        return draft.load

    # ---- after the write

    def wait_for_deletions(self, draft: Draft) -> list[TopicPartition]:
        """A draft is durable: wait for the deletions of its dropped replicas, and not for those that it wrote off.

        Returns:
            Partitions with nothing left to delete whose record is still open: another broker answered meanwhile.
        """
        over = [tp for broker, tp in sorted(draft.written_off) if self._stop_waiting(broker, tp)]
        for tp, brokers in draft.dropped.items():
            if brokers:
                self.undeleted.setdefault(tp, set()).update(brokers)
        return [tp for tp in over if tp in self.state.reassignments and tp not in self.undeleted]

    def note_deleted(self, broker: BrokerId, partitions: tuple[TopicPartition, ...]) -> list[TopicPartition]:
        """A broker acknowledged deletions; returns the partitions with nothing left to delete."""
        return [tp for tp in partitions if self._stop_waiting(broker, tp)]

    def _stop_waiting(self, broker: BrokerId, tp: TopicPartition) -> bool:
        """Stop waiting for a broker's deletion; returns whether it was the partition's last."""
        left = self.undeleted.get(tp)
        if left is None:
            return False
        left.discard(broker)
        if not left:
            del self.undeleted[tp]
        return not left

    def finish_dropping(self, draft: Draft, tp: TopicPartition) -> None:
        """Close a move whose dropped replicas are gone, or owed."""
        move = draft.reassignment(tp)
        if tp.topic in draft.state.deleting:
            return
        # The deletions of replicas that this draft drops are not acknowledged either.
        left = {broker for broker in self.undeleted.get(tp, ()) if (broker, tp) not in draft.written_off}
        if move is not None and move.phase is Phase.DROPPING and not left and not draft.dropped.get(tp):
            draft.close(tp)

    def close_for_deletion(self, draft: Draft, tp: TopicPartition) -> None:
        """End a move whose topic is being deleted."""
        known = draft.reassignment(tp)
        if known is None:
            return
        draft.written_off.update((broker, tp) for broker in self.undeleted.get(tp, ()))
        partition = draft.partition(tp)
        # The next controller finds dropped replicas by this record alone. If there are any, the record stays as long as
        # the topic.
        keep = partition is not None and bool(dropped_before(known, partition.assignment))
        self.end(draft, tp, known, keep=keep)

    def owe_instead(self, draft: Draft, tp: TopicPartition, broker: BrokerId) -> None:
        """A broker died, or failed, before it acknowledged a deletion: note the deletion as owed, and let the move end.

        A broker that is back already (a bounce) is told to delete again instead.
        """
        partition = draft.partition(tp)
        if partition is None or broker not in partition.assignment.replicas:
            epoch = EPOCH_DURING_DELETE if partition is None else _leader_epoch(partition)
            unknown = tp.topic in draft.state.left_out.topics
            if broker in draft.state.brokers and (broker, tp) not in self.refused and not unknown:
                draft.drop(tp, (broker,), epoch)
                return
            draft.owe(broker, tp, epoch)
        draft.written_off.add((broker, tp))
        self.finish_dropping(draft, tp)

    def relax_overdue(self, draft: Draft, tp: TopicPartition) -> None:
        """A move has waited too long: relax its floor, durably (KAFKA-19975), or roll it back.

        Source: the controller redesign, 2.A.
        """
        move = draft.reassignment(tp)
        waiting = draft.waiting(tp)
        if move is None or waiting is None or move.phase not in BEGUN | {Phase.PENDING}:
            return
        if waiting[0].reason is WaitReason.DEAD and move.phase is not Phase.ROLLING_BACK:
            self._roll_back_overdue(draft, tp, *waiting)
            return
        if waiting[0].reason is not WaitReason.FLOOR or move.relaxed_since_ms is not None:
            return
        if draft.now_ms - waiting[1] >= self.settings.relax_after_ms:
            draft.notices.append(Notice("floor-relaxed", str(tp), describe_waiting(waiting[0])))
            draft.transition(tp, Trigger.RELAXED, move._replace(relaxed_since_ms=draft.now_ms))
            self.advance(draft, tp)

    def _roll_back_overdue(self, draft: Draft, tp: TopicPartition, waiting: Waiting, since_ms: int) -> None:
        """Roll a move back if a broker of its target has been dead for `roll_back_after_ms`; 0: never."""
        bound = self.settings.roll_back_after_ms
        if bound and draft.now_ms - since_ms >= bound:
            told = f"{describe_waiting(waiting)}, for {draft.now_ms - since_ms} ms: it is rolled back"
            draft.notices.append(Notice("rolled-back-overdue", str(tp), told))
            self.intervene(draft, tp, Intervention.ROLL_BACK)


def _new_move(
    draft: Draft,
    tp: TopicPartition,
    partition: PartitionState,
    target: Replicas,
    original: Replicas,
    strategy: Strategy,
) -> Reassignment:
    """The record of a move that has not begun."""
    return Reassignment(
        topic_id=draft.state.topics[tp.topic].topic_id,
        original=original,
        target=target,
        strategy=strategy,
        phase=Phase.PENDING,
        written=partition.assignment,
        accepted_at_ms=draft.now_ms,
        top=len(original),
    )


def _unreadable(draft: Draft, tp: TopicPartition) -> tuple[ErrorCode, str] | None:
    """Why a new move is refused: the partition's state, or its move's record, can't be read. None: both can."""
    if tp in draft.state.unreadable:
        return ErrorCode.LEADER_NOT_AVAILABLE, unreadable_state(tp)
    if tp in draft.state.left_out.moves:
        return _unreadable_record(tp)
    return None


def _had(move: Reassignment | None, partition: PartitionState) -> frozenset[BrokerId]:
    """Brokers that have a replica, and the originals of a partition that moves: a target may return to them."""
    return frozenset((*partition.assignment.replicas, *(move.original if move is not None else ())))


def _unreadable_record(tp: TopicPartition) -> tuple[ErrorCode, str]:
    told = f"the durable record of a move of {tp} can't be read; mend or remove it, and start the controller again"
    return ErrorCode.REASSIGNMENT_IN_PROGRESS, told


def _added(move: Reassignment) -> Replicas:
    return tuple(broker for broker in move.target if broker not in move.original)


def _leader_epoch(partition: PartitionState) -> int:
    return partition.leadership.leader_epoch if partition.leadership is not None else 0


def dropped_before(move: Reassignment, assignment: ReplicaAssignment) -> Replicas:
    """Brokers that had a replica for a move and are no longer assigned.

    A former controller may have died before it told them to delete the replica.
    """
    had = {*move.original, *move.written.replicas, *(move.target if move.phase is Phase.DROPPING else ())}
    return tuple(sorted(had - set(assignment.replicas)))
