"""Rules about moves, checked on each transaction that touches one: the floor, the originals, exact rollbacks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lab.simulation.actions import EDGE_WEIGHTS
from lab.simulation.rules.truth import Touched
from lab.simulation.scheduler import SECOND
from shunter.core.controller.moves.lifecycle import Transition
from shunter.core.reassignment import Step
from shunter.formats.znodes import paths as znodes
from shunter.model.partition import BrokerId, ReplicaAssignment, Replicas, TopicPartition
from shunter.model.reassignment import Phase, Reassignment

if TYPE_CHECKING:
    from lab.simulation.rules.safety import Safety


WAITS_US = 20 * SECOND
"""How long a request may wait, longer than for a slow broker. After that it was refused, or lost with a controller."""
FOR_GOOD_US = 1_000_000 * SECOND


class MoveRules:
    """Looks at moves' records and the assignments beside them."""

    def __init__(self, safety: Safety) -> None:
        """Begin."""
        self._safety = safety
        self._writer = ""
        self._asked: set[TopicPartition] = set()
        self._requested: dict[TopicPartition, set[Replicas]] = {}
        self._waiting: dict[TopicPartition, list[tuple[int, Replicas]]] = {}
        """Targets that were asked for and not written yet, with the moment until which each may wait."""
        self._targets: dict[TopicPartition, set[Replicas]] = {}
        self._overtaken: dict[TopicPartition, int] = {}
        """How many targets were accepted and replaced within one write, so that ZooKeeper never had them."""
        self._decided_us: dict[TopicPartition, int] = {}
        """When the last state of a partition was decided."""

    def requested(self, tp: TopicPartition, target: Replicas, *, lasting: bool = False) -> None:
        """A target was asked for; a `lasting` request waits in a znode until a controller takes it."""
        until_us = FOR_GOOD_US if lasting else self._safety.world.scheduler.now_us + WAITS_US
        self._safety.world.forget_asked_factor(tp)
        self._requested.setdefault(tp, set()).add(target)
        self._waiting.setdefault(tp, []).append((until_us, target))

    def waiting(self, tp: TopicPartition) -> list[Replicas]:
        """Targets that the present write may take, in the order of the requests. Older requests were refused."""
        now_us = self._safety.world.scheduler.now_us
        return [target for until_us, target in self._waiting.get(tp, ()) if now_us <= until_us]

    def _taken(self, tp: TopicPartition, target: Replicas) -> None:
        """A target was written: neither it nor any target that was asked for before it waits any longer.

        If a znode and a request asked for the same target, the write may be for the request: the znode's target still
        waits.
        """
        waiting = self._waiting.get(tp, [])
        last = max((index for index, each in enumerate(waiting) if each[1] == target), default=-1)
        before = waiting[: last + 1]
        by_request = any(each[1] == target and each[0] != FOR_GOOD_US for each in before)
        kept = [each for each in before if by_request and each[0] == FOR_GOOD_US]
        waiting[: last + 1] = kept

    def asked(self, tp: TopicPartition) -> None:
        """Another target was asked for: a move that was being rolled back need not end at its original."""
        self._asked.add(tp)

    def committed(self, touched: Touched, writer: str) -> None:
        """Check a controller's transaction."""
        if not writer.startswith("shunter"):
            return
        self._writer = writer
        for tp, (before, after) in touched.records.items():
            if after is not None:
                self._targets.setdefault(tp, set()).add(after.target)
                self._overtaken[tp] = self._overtaken.get(tp, 0) + _overtaken(before, after)
            self._transition(before, after)
            self._originals(tp, before, after, touched)
            self._stale(tp, before, after, touched)
            if before is not None and before.phase is Phase.ROLLING_BACK and tp not in self._asked:
                self._rolled_back(tp, before, after, touched)
            elif before is not None:
                self._ordered(tp, before, after, touched)
            if before is None or after is None:
                self._asked.discard(tp)
        self._steps(touched, writer)
        for tp, (_, after) in touched.records.items():
            if after is not None:
                self._taken(tp, after.target)
        self._decided_us.update(dict.fromkeys(touched.states, self._safety.world.decided_us(writer)))

    def _transition(self, before: Reassignment | None, after: Reassignment | None) -> None:
        coverage = self._safety.world.coverage
        if before is None and after is not None:
            adopted = after.written.in_motion and after.forced
            coverage.count("transition", "adopted" if adopted else f"accepted {after.phase.value}")
        elif before is not None:
            coverage.count("transition", f"{before.phase.value} -> {after.phase.value if after else 'closed'}")
        if after is not None:
            coverage.count("phase", after.phase.value)

    def answered(self, tp: TopicPartition, target: Replicas, message: str | None) -> None:
        """Durable before answered: an accepted move stands, or has stood, in ZooKeeper.

        Source: design, "Durable before sent, sent before answered"; KIP-455, "the znode is written before the response".
        """
        if message is not None or target in self._targets.get(tp, set()):
            return
        if tp.topic in self._safety.truth.topics and not self._safety.was_assigned(tp, target):
            if self._overtaken.get(tp):
                self._overtaken[tp] -= 1
                return
            told = f"a move of {tp} to {list(target)} was accepted, and was never in ZooKeeper"
            self._safety.violate("durable before answered", told)

    def _originals(
        self, tp: TopicPartition, before: Reassignment | None, after: Reassignment | None, touched: Touched
    ) -> None:
        """The original replicas are recorded once, in their ORDER, and kept.

        Source: design, "What makes a rollback exact": recorded when a partition's first reassignment is accepted; a
        second one in flight keeps the first original.
        """
        if after is None or after.phase is Phase.DROPPING:
            return
        if before is not None and before.phase is not Phase.DROPPING:
            # In one batch a move may end and the partition's next one begin at its target. The first move may have
            # got that target by a request of the same batch.
            led = [before.target, *self.waiting(tp)]
            was = self._assignment_before(tp, touched)
            if was is not None and after.accepted_at_ms != before.accepted_at_ms:
                led.append(was.original)  # Or the next move begins where a stop left the partition.
            kept = after.original in (before.original, *led) or self._restores(before.original, after.original)
            if not kept and before.topic_id == after.topic_id and not self._foreign(tp, before, touched):
                told = f"{tp}: original {list(before.original)} became {list(after.original)}"
                self._safety.violate("a rollback is exact", told)
            return
        was = self._assignment_before(tp, touched)
        # In one batch, a request for another order may be done at once, and a second request begin from that order.
        known = () if was is None else (was.replicas, *sorted(self._requested.get(tp, ())))
        # Or a replica that a broker had placed on a controller got a broker, and a request begins from there.
        world = self._safety.world
        stay = () if was is None else set(was.replicas) & world.brokers.keys()
        owed = was is not None and world.is_auto_created(tp) and set(after.original) >= set(stay)
        believed = after.legacy and "lying_originals" not in EDGE_WEIGHTS
        if was is not None and not was.in_motion and not believed and not owed and after.original not in known:
            told = f"{tp}: original {list(after.original)} recorded where replicas were {list(was.replicas)}"
            self._safety.violate("a rollback is exact", told)

    def _stale(
        self, tp: TopicPartition, before: Reassignment | None, after: Reassignment | None, touched: Touched
    ) -> None:
        """A record that another controller has overruled is closed, not resumed.

        Source: design, the reconciliation table: "t is anything else: somebody cancelled or superseded: t is the truth".
        """
        world, truth = self._safety.world, self._safety.truth
        if before is None or after is None or before.phase is Phase.DROPPING or after.phase is Phase.DROPPING:
            return
        if after.accepted_at_ms != before.accepted_at_ms:
            return  # Another move: a znode's request that is still there is taken again.
        writer = world.owner_of(touched.writers.get(tp.topic, truth.topic_writers.get(tp.topic, 0)))
        listed = truth.legacy is not None and tp in truth.legacy.targets
        if not writer.startswith("broker") or listed or after.legacy or after.target in self.waiting(tp):
            return
        was = self._assignment_before(tp, touched)
        if was is None or before.topic_id != after.topic_id or after.target in (was.target, was.replicas):
            return
        if self._foreign(tp, before, touched) and after.target == before.target:
            told = (
                f"{tp}: {writer} had made it {was}, and the record of {before.written} goes on to {list(after.target)}"
            )
            self._safety.violate("a stale record is not resumed", told)

    def _rolled_back(
        self, tp: TopicPartition, before: Reassignment, after: Reassignment | None, touched: Touched
    ) -> None:
        """Rollback restores the order exactly. Source: KIP-236, "it's like the opposite of doing reassignments"."""
        if after is not None and after.phase is not Phase.DROPPING:
            return
        truth = self._safety.truth
        assignment = truth.assignment(tp)
        topic = truth.topics.get(tp.topic)
        if assignment is None or tp.topic in truth.deleting or topic is None or self._foreign(tp, before, touched):
            return
        if before.topic_id is not None and topic.topic_id != before.topic_id:
            return
        # In one write the rollback may end, and another target be reached at once.
        ends = (before.original, *self.waiting(tp))
        restored = not assignment.in_motion and self._restores(before.original, assignment.replicas)
        if not restored and assignment not in map(ReplicaAssignment, ends):
            told = f"{tp}: rolled back to {assignment}, the original was {list(before.original)}"
            self._safety.violate("a rollback is exact", told)

    def _restores(self, original: Replicas, found: Replicas) -> bool:
        """Whether `found` is the original in its ORDER, perhaps with brokers in place of controllers, or without those.

        Source: docs/decisions/0026-owed-replicas.md.
        """
        able = self._safety.world.brokers.keys()
        stay = tuple(broker for broker in original if broker in able)
        kept = tuple(broker for broker in found if broker in stay)
        return found == original or (kept == stay and len(stay) < len(original) and len(found) <= len(original))

    def _ordered(self, tp: TopicPartition, before: Reassignment, after: Reassignment | None, touched: Touched) -> None:
        """A move that ends with the original's replicas ends in their ORDER, unless another order was asked for.

        A rollback is often a single write, so that no record shows that there was one. A stop keeps the present order.
        """
        if before.phase is Phase.DROPPING or (after is not None and after.phase is not Phase.DROPPING):
            return
        was, now = self._assignment_before(tp, touched), self._safety.truth.assignment(tp)
        topic = self._safety.truth.topics.get(tp.topic)
        if was is None or now is None or topic is None or topic.topic_id != before.topic_id:
            return
        asked_for = {before.original, before.target, *self._requested.get(tp, ())}
        if sorted(now.replicas) != sorted(before.original) or now.replicas in asked_for:
            return
        # With the strategy all at once, a target's order is written first. One write may accept and stop such a move.
        orders = [was.replicas, *self.waiting(tp)]
        if after is not None:
            orders.append(after.written.replicas)
        if any(tuple(broker for broker in order if broker in now.replicas) == now.replicas for order in orders):
            return
        told = f"{tp}: {was} ended as {list(now.replicas)}, the original was {list(before.original)}"
        self._safety.violate("a rollback is exact", told)

    def _foreign(self, tp: TopicPartition, record: Reassignment, touched: Touched) -> bool:
        """Whether the assignment before was neither the record's, nor that as finished by Apache's controller."""
        was = self._assignment_before(tp, touched)
        return was is None or was not in (record.written, ReplicaAssignment(record.written.target))

    def _assignment_before(self, tp: TopicPartition, touched: Touched) -> ReplicaAssignment | None:
        if tp.topic in touched.topics:
            known = touched.topics[tp.topic][0]
            return None if known is None else known.assignments.get(tp.partition)
        return self._safety.truth.assignment(tp)

    def _steps(self, touched: Touched, writer: str) -> None:
        """Check each step of the written draft, one after the other. One write may have several."""
        truth = self._safety.truth
        stood: dict[TopicPartition, tuple[ReplicaAssignment, Replicas, BrokerId]] = {}
        transitions = tuple(self._safety.world.transitions_of(writer))
        steps = Counter(told.tp for told in transitions if told.step is not None)
        for told in transitions:
            tp = told.tp
            if told.step is None or (tp not in touched.records and tp.topic not in touched.topics):
                continue  # This write of the process is not its batch.
            was, (before, after) = (
                self._assignment_before(tp, touched),
                touched.states.get(tp, (truth.states.get(tp), None)),
            )
            if tp not in stood and was is not None and before is not None:
                # Each step raises the leader epoch by one. A larger raise means an election before the first step.
                elected = after is not None and after.leader_epoch - before.leader_epoch > steps[tp]
                stood[tp] = (was, before.isr, told.step.leader if elected else before.leader)
            if tp in stood and before is not None:
                sick = self._safety.given_up(tp, before.leader_epoch)
                # The same write may take a bounced broker out of the ISR.
                sick = sick | self._safety.world.born_anew(writer, self._decided_us.get(tp, 0))
                self._floor(told, told.step, *stood[tp], sick)
                stood[tp] = (told.step.assignment, told.step.isr, told.step.leader)

    def _floor(
        self,
        told: Transition,
        step: Step,
        was: ReplicaAssignment,
        isr: Replicas,
        leader: BrokerId,
        sick: set[BrokerId] | frozenset[BrokerId],
    ) -> None:
        """A step drops a live in-sync replica only if as many stay as the target has; of the excess the leader goes last.

        Live brokers are those that the writer knows; `sick` are those that a leader or a bounce took out of the ISR.

        Source: the controller redesign, 2.B, "we are better off to keep broker 2 ... so we do not expose to under
        replicated partition"; design, "the floor", relaxed and in a rollback; KAFKA-6794, "Sort the ER set ... the
        leader is the last".
        """
        move, tp = told.move, told.tp
        live = self._safety.world.live_in_the_eyes_of(self._writer, tp)
        dropped = [broker for broker in was.replicas if broker not in step.replicas and broker in live]
        if leader in dropped and leader not in sick and not step.final and told.after is Phase.MOVING:
            left = [broker for broker in step.replicas if broker in was.replicas and broker not in move.target]
            if left:
                self._safety.violate(
                    "the leader goes last",
                    f"{tp}: leader {leader} is dropped from {list(was.replicas)} before {left}, on the way to {move.target}",
                )
        lost = [broker for broker in dropped if broker in isr and broker not in sick]
        stay = [broker for broker in step.replicas if broker in live and broker in step.isr]
        need = min(len(move.target), len(move.original))
        if told.before is Phase.ROLLING_BACK:
            # A controller that can't read a topic's configuration uses the default of min.insync.replicas.
            unread = znodes.config("topics", tp.topic) in self._safety.truth.garbled
            need = 1 if unread else max(1, min(self._safety.world.min_isr(tp.topic), len(move.original)))
        elif move.relaxed_since_ms is not None:
            need = 1
        if lost and leader >= 0 and len(stay) < need:
            about = f"from {list(move.original)} to {list(move.target)}, {told.trigger.value}, {step.assignment}"
            what = f"{tp}: {lost} dropped from {list(was.replicas)} (ISR {list(isr)}, live {sorted(live)})"
            self._safety.violate("the floor", f"{what}; {stay} stay, {need} are needed; {about}")


def _overtaken(before: Reassignment | None, after: Reassignment) -> int:
    """How many targets one write accepted and replaced, between the record before it and its own."""
    same = before is not None and before.accepted_at_ms == after.accepted_at_ms
    return max(0, after.changes - before.changes - 1) if before is not None and same else after.changes
