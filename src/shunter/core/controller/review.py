"""One review of a partition: whatever happens only marks partitions, and this decides what becomes of them.

`LOOKS` is the whole answer to "who looks at a partition again after X?": by what happened, how urgent it is, and which
parts of the review are done. The parts of a review have one order, decide by what holds when their turn comes, and
change nothing where there is nothing to do. So a partition may be marked too often, and never too early.

Source: docs/decisions/0037-one-review.md; level-triggered reconciliation as Kubernetes' controllers have it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from shunter.core.controller.adoption import Adoption
from shunter.core.controller.draft import Draft, serving_brokers
from shunter.core.controller.moves import Moves
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import Priority, Task, TaskQueue
from shunter.core.reassignment import WaitReason
from shunter.model.partition import NO_LEADER, BrokerId, TopicPartition
from shunter.model.reassignment import Phase
from shunter.model.settings import ControllerSettings


class Reason(Enum):
    """What happened to a partition."""

    FOUND_MOVING = "a start-up, or somebody who mended a znode, shows that it may be moving"
    NAMED_TWICE = "a request and the legacy znode name it, and the request has been taken"
    ISR_ALTERED = "its leader has another ISR accepted; reviewed in the same write"
    ISR_READ = "a broker before 2.7 wrote its ISR"
    BROKERS_CHANGED = "it moves, and a broker came, went or was restarted"
    CONFIG_CHANGED = "its move waits, and configuration is another"
    SETTINGS_CHANGED = "its move is pending, and our settings are others"
    STEPPED = "a step or a leader was written, and its move may go on at once"
    TURN_CAME_FREE = "its move is pending, and another move is out of the way"
    OVERDUE = "its move waits, and a second has passed"


class Part(Enum):
    """A part of the review, in the order in which `Reviews.review` does them."""

    RECONCILE = "decide who is right about its move, if nobody has since the start-up"
    RECONCILE_AGAIN = "decide that anew"
    ADVANCE = "take the next step of its move, or remember what it waits for"
    RELAX = "relax the floor of a move that waits too long, or roll it back"


class Look(NamedTuple):
    """How a marked partition is looked at."""

    priority: Priority
    parts: tuple[Part, ...]


LOOKS: Mapping[Reason, Look] = MappingProxyType(
    {
        Reason.ISR_ALTERED: Look(Priority.ISR, (Part.RECONCILE, Part.ADVANCE)),
        Reason.ISR_READ: Look(Priority.ISR, (Part.RECONCILE, Part.ADVANCE)),
        Reason.FOUND_MOVING: Look(Priority.NORMAL, (Part.RECONCILE, Part.ADVANCE)),
        Reason.NAMED_TWICE: Look(Priority.NORMAL, (Part.RECONCILE_AGAIN, Part.ADVANCE)),
        Reason.BROKERS_CHANGED: Look(Priority.NORMAL, (Part.RECONCILE, Part.ADVANCE)),
        Reason.CONFIG_CHANGED: Look(Priority.NORMAL, (Part.RECONCILE, Part.ADVANCE)),
        Reason.SETTINGS_CHANGED: Look(Priority.NORMAL, (Part.RECONCILE, Part.ADVANCE)),
        Reason.STEPPED: Look(Priority.NORMAL, (Part.RECONCILE, Part.ADVANCE)),
        Reason.TURN_CAME_FREE: Look(Priority.NORMAL, (Part.RECONCILE, Part.ADVANCE)),
        Reason.OVERDUE: Look(Priority.CLEANUP, (Part.RECONCILE, Part.RELAX)),
    }
)
"""What happened → when it is looked at, and which parts are done."""


@dataclass(slots=True)
class Reviews:
    """Marks partitions, and reviews them when their turn comes. One per election of ours."""

    state: ControllerState
    settings: ControllerSettings
    queue: TaskQueue
    moves: Moves
    adoption: Adoption

    # ---- the review

    def review(self, draft: Draft, tp: TopicPartition, *, parts: tuple[Part, ...]) -> None:
        """Decide what becomes of a partition; a second time in a row it changes nothing."""
        if Part.RECONCILE in parts:
            self.adoption.reconcile_first(draft, tp)
        if Part.RECONCILE_AGAIN in parts:
            self.adoption.reconcile(draft, tp)
        if Part.ADVANCE in parts:
            self.moves.advance(draft, tp)
        if Part.RELAX in parts:
            self.moves.relax_overdue(draft, tp)

    # ---- marks

    def mark(self, reason: Reason, partitions: Collection[TopicPartition]) -> None:
        """Have partitions reviewed, in the order given, as urgently as the reason is."""
        if partitions:
            look = LOOKS[reason]
            self.queue.add(Task(look.priority, tuple(partitions), partial(self.review, parts=look.parts)))

    # ---- after a write

    def on_committed(self, draft: Draft) -> None:
        """A draft is durable: mark moves that may go on by it, and those that changes passed by while it was written."""
        self.adoption.on_committed(draft)
        stepped = [tp for tp in draft.reassignments if self._stepped_in_sync(draft, tp)]
        stepped += [tp for tp in draft.leaderships if self._led_at_last(tp)]
        # Brokers and configuration that changed while this was written were compared with the moves of before.
        waits = [tp for tp in dict.fromkeys((*draft.reassignments, *draft.waits)) if tp in self.state.waiting]
        if waits:
            serving = serving_brokers(self.state)
            moved = draft.live is not None and draft.live != serving
            moved = moved or draft.configs_read != self.state.configs_read
            stepped += [tp for tp in waits if moved or self._serves_again(tp, serving)]
        # A step that only drops is followed by no news of an ISR that could make the move go on.
        self.mark(Reason.STEPPED, stepped)
        if not (self.settings.max_concurrent or self.settings.max_concurrent_per_broker):
            return
        out_of_the_way = {Phase.DROPPING, Phase.PAUSED}
        if draft.ended or any(move and move.phase in out_of_the_way for move in draft.reassignments.values()):
            self.mark(Reason.TURN_CAME_FREE, self.pending())

    def pending(self) -> list[TopicPartition]:
        """Partitions whose move has not begun."""
        return [tp for tp, move in self.state.reassignments.items() if move.phase is Phase.PENDING]

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
