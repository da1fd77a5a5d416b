"""The review of a partition: events only mark partitions, and the review decides what happens to them.

`LOOKS` says for every reason to look at a partition again how urgent the review is, and which of its parts are done.
`Reviews.review` does the parts in one order. Each part decides by the state at the partition's turn. It changes nothing
if there is nothing to do, so a partition may be marked too often.

Source: docs/decisions/0002-decide-and-apply.md; level-triggered reconciliation as Kubernetes' controllers have it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from shunter.core.controller.brokers import elections
from shunter.core.controller.changes import Changes
from shunter.core.controller.draft import Draft, serving_brokers
from shunter.core.controller.events import ReplyToken
from shunter.core.controller.moves import owed_replicas
from shunter.core.controller.moves.adoption import Adoption
from shunter.core.controller.moves.reassignments import Moves
from shunter.core.controller.ready import Reply
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import Priority, Task, TaskQueue
from shunter.core.controller.topics.replies import TopicReplies
from shunter.core.reassignment import WaitReason
from shunter.model.partition import NO_LEADER, BrokerId, TopicPartition
from shunter.model.reassignment import Phase
from shunter.model.settings import ControllerSettings

Marked: TypeAlias = TopicPartition | tuple[TopicPartition, BrokerId]
"""A partition, or one replica of it if the reason is about one replica."""


class Reason(Enum):
    """What happened to a partition, or to one of its replicas."""

    BROKER_GONE = "its leader is on a broker that is not live"
    FOLLOWER_GONE = "a follower in sync is on a broker that is not live"
    BROKER_BACK = "a broker that led it, or was in sync, was restarted (marks the replica)"
    LEADERLESS = "it has no live leader, and a broker came, a log dir is back, or configuration or settings changed"
    LOG_DIR_FAILED = "a live broker can't serve its replica any more"
    READABLE_AGAIN = "its state could not be read, and can be now"
    TOPIC_GOES = "it moves, and its topic is being deleted"
    ISR_ALTERED = "its leader asked for another ISR and got it; it is reviewed in the same write"
    ISR_READ = "it moves, and a broker before 2.7 wrote its ISR"
    FOUND_MOVING = "a start-up, or a znode that was mended, shows that it may be moving"
    NAMED_TWICE = "a request and the legacy znode name it, and the request has been taken"
    BROKERS_CHANGED = "it moves, and a broker came, went, was restarted, or can't serve it any more, or can again"
    CONFIG_CHANGED = "its move waits, and configuration changed"
    SETTINGS_CHANGED = "its move is pending or waits, and the controller's settings changed"
    STEPPED = "a step or a leader was written, and its move may go on at once"
    TURN_CAME_FREE = "its move is pending, and another move ended or was paused"
    NEVER_LED = "it exists, and has never had a leader"
    ON_CONTROLLER = "it has a leader, and a replica on a controller's id"
    REPLICA_OWED = "it is owed a replica, and a broker may be free"
    DELETED = "everything that its move dropped is deleted"
    NOT_DELETED = "a broker died, or refused, before it acknowledged a deletion (marks the replica)"
    OLDER_GONE = "a broker has deleted its replica of an older topic of that name"
    STILL_WAITS = "its move waits, and a second has passed"


class Part(Enum):
    """A part of the review, in the order in which `Reviews.review` does them."""

    RECONCILE = "decide which source is right about its move, if that was not decided since the start-up"
    RECONCILE_AGAIN = "decide again which source is right about its move"
    DEMOTE = "let another broker lead what a restarted broker led, and take the restarted one out of the ISR"
    LEAD_ON = "let its leader go on in a new epoch, or elect one"
    ELECT_FIRST = "elect its first leader, or give notice that it can have none yet"
    ELECT = "elect a leader if it has none that is live"
    SHRINK = "take followers out of the ISR that can't serve it"
    ADVANCE = "take the next step of its move, or remember what it waits for"
    RELAX = "relax the floor of a move that waits too long, or roll it back"
    CLOSE = "end its move, because its topic is being deleted"
    OWE = "ask again for a deletion that was not acknowledged; or owe it, and end its move if nothing is left"
    FINISH = "end its move, if only deletions were left and all of them are acknowledged or owed"
    REPLACE = "give a controller's place among the replicas to a broker, or owe it, unless it moves"
    PLACE = "give it the replicas that it is owed"


class Look(NamedTuple):
    """How a marked partition is reviewed."""

    priority: Priority
    parts: tuple[Part, ...]


_OF_STATES = frozenset({Part.DEMOTE, Part.ELECT_FIRST, Part.ELECT, Part.SHRINK, Part.ADVANCE, Part.RELAX})
"""Parts that decide by a partition's state: they are skipped if its znode can't be read, or is set aside."""

_MOVE = (Part.RECONCILE, Part.ADVANCE, Part.REPLACE)

LOOKS: Mapping[Reason, Look] = MappingProxyType(
    {
        Reason.BROKER_GONE: Look(Priority.LIVENESS, (Part.ELECT, Part.SHRINK)),
        Reason.FOLLOWER_GONE: Look(Priority.FOLLOWERS, (Part.ELECT, Part.SHRINK)),
        Reason.BROKER_BACK: Look(Priority.LIVENESS, (Part.DEMOTE,)),
        Reason.LEADERLESS: Look(Priority.LIVENESS, (Part.ELECT,)),
        Reason.LOG_DIR_FAILED: Look(Priority.LIVENESS, (Part.ELECT, Part.SHRINK)),
        Reason.READABLE_AGAIN: Look(Priority.LIVENESS, (Part.LEAD_ON,)),
        Reason.TOPIC_GOES: Look(Priority.CANCEL, (Part.CLOSE,)),
        Reason.ISR_ALTERED: Look(Priority.ISR, _MOVE),
        Reason.ISR_READ: Look(Priority.ISR, _MOVE),
        Reason.FOUND_MOVING: Look(Priority.NORMAL, _MOVE),
        Reason.NAMED_TWICE: Look(Priority.NORMAL, (Part.RECONCILE_AGAIN, Part.ADVANCE, Part.REPLACE)),
        Reason.BROKERS_CHANGED: Look(Priority.NORMAL, _MOVE),
        Reason.CONFIG_CHANGED: Look(Priority.NORMAL, _MOVE),
        Reason.SETTINGS_CHANGED: Look(Priority.NORMAL, _MOVE),
        Reason.STEPPED: Look(Priority.NORMAL, _MOVE),
        Reason.TURN_CAME_FREE: Look(Priority.NORMAL, _MOVE),
        Reason.NEVER_LED: Look(Priority.NORMAL, (Part.ELECT_FIRST,)),
        Reason.ON_CONTROLLER: Look(Priority.NORMAL, (Part.REPLACE,)),
        Reason.REPLICA_OWED: Look(Priority.NORMAL, (Part.PLACE,)),
        Reason.DELETED: Look(Priority.CLEANUP, (Part.FINISH, Part.REPLACE)),
        Reason.NOT_DELETED: Look(Priority.CLEANUP, (Part.OWE, Part.REPLACE)),
        Reason.OLDER_GONE: Look(Priority.CLEANUP, (Part.ELECT,)),
        Reason.STILL_WAITS: Look(Priority.CLEANUP, (Part.RECONCILE, Part.RELAX, Part.REPLACE)),
    }
)
"""Reason → the urgency of the review, and the parts of it that are done."""


@dataclass(slots=True)
class Reviews:
    """Marks partitions, and reviews them when their turn comes. One instance per term."""

    state: ControllerState
    settings: ControllerSettings
    queue: TaskQueue
    moves: Moves
    adoption: Adoption
    topic_replies: TopicReplies

    # ---- the review

    def review(self, draft: Draft, marked: Marked, *, parts: tuple[Part, ...]) -> None:
        """Decide what happens to a partition. If nothing happened since its last review, nothing changes."""
        tp, broker = (marked, None) if isinstance(marked, TopicPartition) else marked
        left_alone = tp in self.state.unreadable
        for part in parts:
            if left_alone and part in _OF_STATES:
                continue
            draft.part = part.name
            self._do(draft, part, tp, broker)
        draft.part = ""

    def _do(self, draft: Draft, part: Part, tp: TopicPartition, broker: BrokerId | None) -> None:
        """Do one part of a review."""
        match part:
            case Part.RECONCILE:
                self.adoption.reconcile_first(draft, tp)
            case Part.RECONCILE_AGAIN:
                self.adoption.reconcile(draft, tp)
            case Part.DEMOTE if broker is not None:
                elections.demote(draft, tp, broker)
            case Part.LEAD_ON:
                elections.lead_on(draft, self.settings, tp)
            case Part.ELECT_FIRST:
                elections.elect_first(draft, tp)
            case Part.ELECT:
                elections.elect_offline(draft, self.settings, tp)
            case Part.SHRINK:
                elections.shrink_to_eligible(draft, tp)
            case Part.ADVANCE:
                self.moves.advance(draft, tp)
            case Part.RELAX:
                self.moves.relax_overdue(draft, tp)
            case Part.CLOSE:
                self.moves.close_for_deletion(draft, tp)
            case Part.OWE if broker is not None:
                self.moves.owe_instead(draft, tp, broker)
            case Part.FINISH:
                self.moves.finish_dropping(draft, tp)
            case Part.REPLACE:
                owed_replicas.replace_controllers(draft, tp)
            case Part.PLACE:
                owed_replicas.place_owed(draft, tp)
            case _:
                pass

    # ---- marks

    def mark(
        self,
        reason: Reason,
        marked: Collection[Marked],
        finish: Callable[[list[None]], list[tuple[ReplyToken, Reply]]] | None = None,
    ) -> None:
        """Queue reviews of partitions, in the given order, by the reason's priority; `finish` is called at the end."""
        if marked:
            look = LOOKS[reason]
            review = partial(self.review, parts=look.parts)
            self.queue.add(Task(look.priority, tuple(marked), review, finish, reason=reason.name))

    def start_up(self) -> None:
        """The cluster was read: mark partitions that changed while there was no controller.

        `ZnodeProtocols` handles the znodes.
        """
        led, followed = self._unserved()
        self.mark(Reason.BROKER_GONE, led)
        self.mark(Reason.FOLLOWER_GONE, followed)
        # Nobody would be told of these: the other partitions without a leader wait for a broker.
        self.mark(Reason.NEVER_LED, [tp for tp in led if self._has_no_replicas(tp)])
        self._mark_placement()
        self.mark(Reason.FOUND_MOVING, self.adoption.find())

    def on_changed(self, changes: Changes) -> None:
        """Partitions were written, by this controller or another process, or are gone.

        The writer may not have known of brokers that died or came meanwhile.
        """
        led, followed = self._unserved_among((*changes.led, *changes.isr))
        self.mark(Reason.BROKER_GONE, led)
        self.mark(Reason.FOLLOWER_GONE, followed)
        self.mark(Reason.ON_CONTROLLER, owed_replicas.placed_on_controllers(self.state, changes.led))
        if self.state.owed_replicas:
            # A broker may have come during the write, and another tool may have assigned other replicas.
            topics = {tp.topic for tp in (*changes.led, *changes.deleted)}
            self.mark(Reason.REPLICA_OWED, owed_replicas.owed_by(self.state, topics))
        if changes.mended:
            self.mark(Reason.READABLE_AGAIN, changes.mended)
            self.mark(Reason.FOUND_MOVING, self.adoption.find(frozenset(changes.mended)))
            self.mark(Reason.NAMED_TWICE, self.adoption.named_twice())
        never_led = [tp for tp in changes.led if self.never_led(tp)]
        self.mark(Reason.NEVER_LED, never_led, partial(self._led, never_led))

    def on_written(self, draft: Draft) -> None:
        """A draft is durable: mark partitions whose moves may go on, and those that missed a change during the write.

        A change of brokers or configuration during the write was compared with the state before the write.
        """
        self.adoption.on_committed(draft)
        self.mark(Reason.DELETED, self.moves.wait_for_deletions(draft))
        stepped = [tp for tp in draft.reassignments if self._stepped_in_sync(draft, tp)]
        stepped += [tp for tp in draft.leaderships if self._led_at_last(tp)]
        stepped += self._passed_by(draft)
        # No ISR change follows a step that only drops replicas, so nothing else would make the move go on.
        self.mark(Reason.STEPPED, stepped)
        if not (self.settings.max_concurrent or self.settings.max_concurrent_per_broker):
            return
        out_of_the_way = {Phase.DROPPING, Phase.PAUSED}
        if draft.ended or any(move and move.phase in out_of_the_way for move in draft.reassignments.values()):
            self.mark(Reason.TURN_CAME_FREE, self._pending())

    # ---- leaders and ISRs

    def on_brokers_changed(self, came: frozenset[BrokerId]) -> None:
        """Brokers came, went or were restarted (`came`: started or restarted).

        `Liveness` marks partitions that the brokers that went have led, because it goes through all partitions anyway.
        """
        if came:
            self.mark(Reason.BROKER_BACK, self._in_sync_before(came))
            self.mark(Reason.LEADERLESS, self.leaderless(self.state.topics))
            self._mark_placement()
        self.mark(Reason.BROKERS_CHANGED, self.state.reassignments)

    def _in_sync_before(self, came: frozenset[BrokerId]) -> list[Marked]:
        """Replicas that brokers led, or had in sync, before they were restarted.

        Such a broker is not told what it led before its restart. It has forgotten which replicas it had promised to
        wait for (KIP-497's maximal ISR), and an ISR change that it had asked for may be durable already, or is being
        written. So it leads in a new epoch even if no other replica can lead. Source: decision record 0019.
        """
        return [
            (TopicPartition(name, number), broker)
            for name, topic in self.state.topics.items()
            for number, (_, leadership) in topic.partitions.items()
            if leadership is not None and not came.isdisjoint(leadership.isr)
            for broker in leadership.isr
            if broker in came
        ]

    def leaderless(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Partitions of some topics that have no live leader."""
        brokers = self.state.storing
        return [
            TopicPartition(name, number)
            for name in topics
            if name in self.state.topics
            for number, (_, leadership) in self.state.topics[name].partitions.items()
            if leadership is None or leadership.leader not in brokers
        ]

    def _unserved(self) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """All partitions whose leader is not live, and all others with a follower in sync that is not live."""
        led: list[TopicPartition] = []
        followed: list[TopicPartition] = []
        live = self.state.storing
        for name, topic in self.state.topics.items():
            for number, (_, leadership) in topic.partitions.items():
                if leadership is None or leadership.leader not in live:
                    led.append(TopicPartition(name, number))
                elif len(leadership.isr) > 1 and not live.issuperset(leadership.isr):
                    followed.append(TopicPartition(name, number))
        return led, followed

    def _has_no_replicas(self, tp: TopicPartition) -> bool:
        partition = self.state.partition(tp)
        return partition is not None and not partition.assignment.replicas

    def _unserved_among(self, written: Iterable[TopicPartition]) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """As `_unserved`, for partitions that were just written, without those that no broker can lead now."""
        brokers = self.state.storing
        led: list[TopicPartition] = []
        followed: list[TopicPartition] = []
        for tp in written:
            partition = self.state.partition(tp)
            leadership = partition.leadership if partition is not None else None
            if leadership is None:
                continue
            if leadership.leader not in brokers:
                if leadership.leader != NO_LEADER or not brokers.isdisjoint(leadership.isr):
                    led.append(tp)
            elif len(leadership.isr) > 1 and not brokers >= set(leadership.isr):
                followed.append(tp)
        return led, followed

    def never_led(self, tp: TopicPartition) -> bool:
        """Whether a partition waits for its first leader, and can have one."""
        partition = self.state.partition(tp)
        if partition is None or tp in self.state.unreadable:
            return False
        return partition.leadership is None and tp.topic not in self.state.deleting

    def _led(self, partitions: list[TopicPartition], _: list[None]) -> list[tuple[ReplyToken, Reply]]:
        self.topic_replies.led({tp.topic for tp in partitions})
        return []

    # ---- placement

    def _mark_placement(self) -> None:
        """Mark partitions with replicas on controllers, or with owed replicas: a broker may be free for these now."""
        everything = owed_replicas.everything(self.state)
        self.mark(Reason.ON_CONTROLLER, owed_replicas.placed_on_controllers(self.state, everything))
        self.mark(Reason.REPLICA_OWED, owed_replicas.owed_by(self.state, self.state.owed_replicas))

    # ---- moves

    def on_settings_changed(self, settings: ControllerSettings) -> None:
        """Decide by other settings from now on: mark partitions whose election or move they may have made possible."""
        self.settings = settings
        self.mark(Reason.LEADERLESS, self.leaderless(self.state.topics))
        self.mark(Reason.SETTINGS_CHANGED, tuple(dict.fromkeys((*self._pending(), *sorted(self.state.waiting)))))

    def _pending(self) -> list[TopicPartition]:
        """Partitions whose move has not begun."""
        return [tp for tp, move in self.state.reassignments.items() if move.phase is Phase.PENDING]

    def _passed_by(self, draft: Draft) -> list[TopicPartition]:
        """Moves of a draft that wait, if brokers or configuration changed since the draft was decided."""
        waits = [tp for tp in dict.fromkeys((*draft.reassignments, *draft.waits)) if tp in self.state.waiting]
        if not waits:
            return []
        serving = serving_brokers(self.state)
        others = draft.live is not None and draft.live != serving
        others = others or draft.configs_read != self.state.configs_read
        return [tp for tp in waits if others or self._serves_again(tp, serving)]

    def _serves_again(self, tp: TopicPartition, serving: frozenset[BrokerId]) -> bool:
        """Whether a move waits for a broker that serves the partition again: the broker, or its log dir, is back."""
        waiting = self.state.waiting[tp][0]
        now = serving.difference(self.state.offline_replicas.get(tp, ()))
        return waiting.reason is WaitReason.DEAD and not now.isdisjoint(waiting.brokers)

    def _led_at_last(self, tp: TopicPartition) -> bool:
        """Whether a move waits for a leader, and the partition has one now."""
        waiting, partition = self.state.waiting.get(tp), self.state.partition(tp)
        if waiting is None or waiting[0].reason is not WaitReason.NO_LEADER or partition is None:
            return False
        return partition.leadership is not None and partition.leadership.leader != NO_LEADER

    def _stepped_in_sync(self, draft: Draft, tp: TopicPartition) -> bool:
        """Whether the draft wrote a step of the partition after which all its replicas are in sync already."""
        partition = self.state.partition(tp)
        if partition is None or partition.leadership is None or tp.partition not in draft.assignments.get(tp.topic, ()):
            return False
        return set(partition.assignment.replicas) == set(partition.leadership.isr)
