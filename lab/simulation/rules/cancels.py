"""Rules about cancels and pauses that arrive while the move that they name still waits in the controller's queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.simulation.rules.truth import Touched
from shunter.core.controller.events import ReassignmentsSubmitted
from shunter.core.controller.ready import PartitionResultsReply, Reply
from shunter.errors import ErrorCode
from shunter.model.partition import ReplicaAssignment, Replicas, TopicPartition
from shunter.model.reassignment import Intervention, Phase

if TYPE_CHECKING:
    from lab.simulation.rules.safety import Safety


Asked = Callable[[Reply | ErrorCode], None]
Seen = Mapping[TopicPartition, tuple[ReplicaAssignment, int]]
"""Assignments and leader epochs."""


@dataclass(slots=True, eq=False)
class ObservedRequest:
    """One request to one run of a controller process; `cancelled` has the partitions that were cancelled after it."""

    who: tuple[str, int]
    targets: Mapping[TopicPartition, Replicas]
    cancelled: set[TopicPartition]
    answered: bool = False


class CancelRules:
    """Follows requests from their arrival to the answer, in the order in which one process got them."""

    def __init__(self, safety: Safety) -> None:
        """Begin without requests."""
        self._safety = safety
        self._open: list[ObservedRequest] = []
        self._void: dict[TopicPartition, ObservedRequest] = {}
        self._held: dict[TopicPartition, ObservedRequest] = {}
        """Requests by partition whose move was paused while it waited, and not resumed since."""
        self._resumes = 0
        """How many requests to resume there were. A resume that arrives during a pause request revokes the pause."""
        self._named: Counter[tuple[TopicPartition, Replicas]] = Counter()

    def named(self, tp: TopicPartition, target: Replicas) -> None:
        """A target is asked for, by any way: from now on a move to it is wanted again."""
        self._named[tp, target] += 1
        self._void.pop(tp, None)
        self._held.pop(tp, None)

    def submitted(self, who: tuple[str, int], event: ReassignmentsSubmitted) -> Asked:
        """Register a request that was sent; returns the callback for its answer."""
        covered = self._covered(who, event, pauses=False)
        paused = self._covered(who, event, pauses=True)
        for request, tp in covered:
            request.cancelled.add(tp)
        if event.intervention is Intervention.RESUME or any(
            change.intervention is Intervention.RESUME for change in event.changes
        ):
            self._held.clear()
            self._resumes += 1
        resumes = self._resumes
        moving = self._moving(who[0], event)
        targets = {change.tp: change.replicas for change in event.changes if change.replicas}
        asked = ObservedRequest(who, targets, set())
        self._open.append(asked)

        def told(reply: Reply | ErrorCode) -> None:
            asked.answered = True
            self._open.remove(asked)
            for kept in (self._void, self._held):
                for tp in [tp for tp, request in kept.items() if request is asked]:
                    del kept[tp]
            if isinstance(reply, PartitionResultsReply):
                self._answered(asked, covered, reply)
                self._left_out(who[0], moving, reply)
                if resumes == self._resumes:
                    self._paused(paused, reply)

        return told

    def _covered(
        self, who: tuple[str, int], event: ReassignmentsSubmitted, *, pauses: bool
    ) -> list[tuple[ObservedRequest, TopicPartition]]:
        """Earlier unanswered requests to the same process, with the partitions that are cancelled or paused now."""
        modes = {
            change.tp: change.intervention or event.intervention for change in event.changes if not change.replicas
        }
        covered: list[tuple[ObservedRequest, TopicPartition]] = []
        for request in self._open:
            for tp in request.targets if request.who == who else ():
                whole = event.cancel_all or tp.topic in event.cancel_topics
                mode = modes.get(tp, event.intervention)
                wanted = mode is Intervention.PAUSE if pauses else mode not in (Intervention.PAUSE, Intervention.RESUME)
                if (tp in modes or whole) and wanted:
                    covered.append((request, tp))
        return covered

    def _answered(
        self,
        asked: ObservedRequest,
        covered: list[tuple[ObservedRequest, TopicPartition]],
        reply: PartitionResultsReply,
    ) -> None:
        """A cancel concerns what was asked for before it, and nothing else.

        Source: issue, "cancel that forgets unsliced work"; design, "cancels overtake waiting work".
        """
        errors = {tp: error for tp, error, _ in reply.partitions}
        idle = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        for request, tp in covered:
            # The reply to a cancel of everything leaves out partitions that did not move.
            done = errors.get(tp, idle) in (ErrorCode.NONE, idle)
            if done and not request.answered and self._named[tp, request.targets[tp]] == 1:
                self._void[tp] = request
        for tp, error, message in reply.partitions:
            cancelled = error is ErrorCode.NONE and message is not None and message.startswith("cancelled")
            if cancelled and tp in asked.targets and tp not in asked.cancelled:
                told = f"{asked.who[0]} cancelled a move of {tp} that nobody has cancelled since it was asked for"
                self._safety.violate("a cancel is for what came before it", told)

    def _moving(self, name: str, event: ReassignmentsSubmitted) -> Seen:
        """Partitions that a process knows to be in motion and that a cancel of everything or of whole topics covers."""
        if event.intervention in (Intervention.PAUSE, Intervention.RESUME):
            return {}
        return {
            TopicPartition(topic, number): (known.assignment, known.leadership.leader_epoch)
            for process in self._safety.world.processes.values()
            for topic, state in process.machine.state.topics.items()
            if process.name == name and (event.cancel_all or topic in event.cancel_topics)
            for number, known in state.partitions.items()
            if known.assignment.in_motion and known.leadership is not None
        }

    def _left_out(self, name: str, moving: Seen, reply: PartitionResultsReply) -> None:
        """A cancel of everything also covers moves that a start-up has not looked at yet, whichever process began them.

        Source: issue, "cancel"; design, "what came before a cancel goes with it".
        """
        truth = self._safety.truth
        told_of = {tp for tp, _, _ in reply.partitions}
        if self._safety.world.owner_of(truth.controller_session) != name:
            return
        for tp, (assignment, epoch) in moving.items():
            state = truth.states.get(tp)
            untouched = truth.assignment(tp) == assignment and state is not None and state.leader_epoch == epoch
            if untouched and tp not in told_of and tp.topic not in truth.deleting:
                told = f"{name} has cancelled everything, and left {tp} in motion: {assignment}"
                self._safety.violate("a cancel of everything leaves nothing out", told)

    def _paused(self, covered: list[tuple[ObservedRequest, TopicPartition]], reply: PartitionResultsReply) -> None:
        """A pause covers everything that was asked for before it: a move that waits does not begin.

        Source: docs/decisions/0111-pause.md.
        """
        errors = {tp: error for tp, error, _ in reply.partitions}
        for request, tp in covered:
            waits = not request.answered and self._named[tp, request.targets[tp]] == 1
            if waits and errors.get(tp) is ErrorCode.NONE:
                self._held[tp] = request

    def committed(self, touched: Touched, writer: str) -> None:
        """Check a controller's transaction: no move begins that a confirmed cancel or pause has overtaken."""
        for tp, (_, after) in touched.records.items():
            held = self._held.get(tp)
            if held is None or held.who[0] != writer or after is None or after.target != held.targets[tp]:
                continue
            if after.phase is Phase.MOVING:
                told = f"{tp}: the move to {list(after.target)} begins, though a pause was confirmed before"
                self._safety.violate("a pause holds what waits", told)
        for tp, (before, after) in touched.records.items():
            request = self._void.get(tp)
            if request is None or request.who[0] != writer or after is None or after.phase is Phase.DROPPING:
                continue
            begun = before is not None and before.phase is not Phase.DROPPING and before.target == after.target
            if after.target == request.targets[tp] and not begun:
                told = f"{tp}: the move to {list(after.target)} begins, though its cancel was confirmed before"
                self._safety.violate("a cancel overtakes what waits", told)
