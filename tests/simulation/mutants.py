"""Deliberate bugs: each is a patch of a core or driver function, and each must be found within its number of seeds.

If no world finds a mutant, a checker does not work, or the worlds are too tame. `within` is the measured number of
worlds (docs/reliability.md), rounded up generously, because each seed's world changes with the simulator.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from lab.simulation.kinds import CONTROLLER, WorldKind
from lab.simulation.rules.violation import Violation
from lab.simulation.runs import WorldOutcome, run_seed
from shunter.core import election
from shunter.core.controller import changes
from shunter.core.controller.brokers import broker_requests, elections, liveness
from shunter.core.controller.draft import Draft
from shunter.core.controller.machine import ControllerMachine
from shunter.core.controller.moves import reassignments as moves
from shunter.core.controller.moves.adoption import Adoption
from shunter.core.controller.moves.reassignments import Moves
from shunter.core.controller.moves.submissions import Submissions
from shunter.core.controller.outbox import Outbox
from shunter.core.controller.tasks import Priority, Task, TaskQueue
from shunter.core.controller.topics import deletions
from shunter.core.controller.topics.deletions import Deletions
from shunter.core.reassignment import reconciliation, steps
from shunter.drivers.brokers.backlog import Backlog
from shunter.drivers.zookeeper.requests import Committed, ConnectionLost, ZooKeeperRefused
from shunter.drivers.zookeeper.store import ZooKeeperStore
from shunter.drivers.zookeeper.watches import ClusterWatches
from shunter.formats.znodes import paths as znodes
from shunter.model.reassignment import Intervention
from shunter.model.records import PutPartition, PutReassignment, PutTopic


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug by name, with its patches."""

    name: str
    within: int
    patches: tuple[tuple[Any, str, Any], ...]
    kind: WorldKind = CONTROLLER
    every: int = 1
    """The mutant is hunted in the worlds of seeds first, first + every, ...; `within` counts these."""
    first: int = 1

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Patch the bug into the code during the context."""
        patchers = [patch.object(owner, attribute, new) for owner, attribute, new in self.patches]
        try:
            for patcher in patchers:
                patcher.start()
            yield
        finally:
            for patcher in reversed(patchers):
                patcher.stop()


def hunt(mutant: Mutant) -> WorldOutcome | None:
    """The first world that finds a mutant, within its bound."""
    with mutant.applied():
        for seed in range(mutant.first, mutant.first + mutant.within * mutant.every, mutant.every):
            outcome = run_seed(seed, kind=mutant.kind)
            if outcome.violation is not None:
                assert not _is_its_own_fault(outcome.violation), (
                    f"{mutant.name} itself raises: {outcome.violation.told}"
                )
                return outcome
    return None


def _is_its_own_fault(violation: Violation) -> bool:
    """Whether a mutant was found only because it no longer fits the function that it replaces: any world finds that."""
    return any(f"{name}Error: " in violation.told for name in ("Type", "Attribute", "Name"))


MUTANTS: list[Mutant] = []


def mutant(
    owner: Any,
    attribute: str,
    *,
    within: int,
    kind: WorldKind = CONTROLLER,
    into: list[Mutant] = MUTANTS,
    every: int = 1,
    first: int = 1,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a mutant of a function that gets the original as its first argument."""

    def make(function: Callable[..., Any]) -> Callable[..., Any]:
        original = getattr(owner, attribute)

        def mutated(*arguments: Any, **named: Any) -> Any:
            return function(original, *arguments, **named)

        into.append(Mutant(function.__name__, within, ((owner, attribute, mutated),), kind, every, first))
        return function

    return make


# ---- fences and order


@mutant(ZooKeeperStore, "_commit", within=190)
async def fence_dropped(original, self, operations, fence):
    """Writes don't check the controller epoch."""
    try:
        committed = await self._client.multi(tuple(operations))
    except (ConnectionLost, ZooKeeperRefused):
        return await original(self, operations, fence)
    return Committed(committed.zxid, committed.versions)


@mutant(ControllerMachine, "_hand_out", within=20)
def requests_before_records(original, self, records, draft, tasks, bundle):
    """Control requests are sent when their batch is handed out, not when it is durable."""
    original(self, records, draft, tasks, bundle)
    if not any(type(record) is PutTopic and record.topic.version < 0 for record in records):
        told = changes.apply_records(self.state, records, tuple(_expected(record) + 1 for record in records), ())
        bundle.requests += self.intake.announce(told, draft.now_ms)


def _expected(record):
    if type(record) is PutPartition:
        return record.leadership.partition_epoch
    if type(record) is PutTopic:
        return record.topic.version
    if type(record) is PutReassignment:
        return record.reassignment.version
    return getattr(record, "version", -1)


@mutant(Outbox, "_broker_epoch", within=60)
def broker_epoch_unknown(original, self, broker):
    """Control requests carry -1, which every broker accepts."""
    return -1


@mutant(Outbox, "_broker_epoch", within=60)
def broker_epoch_of_the_future(original, self, broker):
    """Control requests are stamped with an epoch that no bounce outdates (stamped late)."""
    return 1 << 40


@mutant(Draft, "lead", within=20)
def epoch_bump_forgotten(original, self, tp, leadership):
    """A new leader is elected within the old leader epoch."""
    known = self.state.partition(tp)
    if known is not None and known.leadership is not None:
        leadership = leadership._replace(leader_epoch=known.leadership.leader_epoch)
    original(self, tp, leadership)


@mutant(Draft, "lead", within=20)
def epoch_goes_back(original, self, tp, leadership):
    """Now and then a leader epoch is lowered."""
    if leadership.leader_epoch > 3:
        leadership = leadership._replace(leader_epoch=leadership.leader_epoch - 2)
    original(self, tp, leadership)


# ---- elections


@mutant(election, "elect_for_offline", within=20)
def unclean_election(original, replicas, isr, live, *, unclean_allowed):
    """A replica out of sync is elected leader, although no unclean election was allowed."""
    return original(replicas, isr, live, unclean_allowed=True)


@mutant(elections, "shrink_isr", within=20)
def isr_without_its_leader(original, draft, tp, brokers):
    """Every dead broker leaves the ISR, even the leader."""
    partition = draft.partition(tp)
    if partition is not None and partition.leadership is not None:
        isr = tuple(member for member in partition.leadership.isr if member not in brokers)
        draft.lead(tp, partition.leadership._replace(isr=isr, leader_epoch=partition.leadership.leader_epoch + 1))


@mutant(election, "elect_preferred", within=90)
def preferred_though_out_of_sync(original, replicas, isr, live):
    """The preferred replica leads, in sync or not."""
    if replicas[0] in live:
        return election.NewLeadership(replicas[0], tuple(dict.fromkeys((*isr, replicas[0]))))
    return None


@mutant(broker_requests, "decide_isr", within=220)
def stale_isr_changes_accepted(original, draft, sender, proposal):
    """AlterPartition is accepted from any sender, in any epoch."""
    partition = draft.partition(proposal.tp)
    if partition is None or partition.leadership is None:
        return original(draft, sender, proposal)
    draft.lead(proposal.tp, partition.leadership._replace(isr=tuple(member for member, _ in proposal.isr)))
    return draft.leaderships[proposal.tp]


# ---- steps


@mutant(steps, "affordable", within=20)
def floor_forgotten(original, situation, candidates, floor):
    """A step drops replicas without regard to the floor."""
    return candidates


@mutant(steps, "excess_replicas", within=20)
def excess_in_the_wrong_order(original, situation, target):
    """The leader is dropped first."""
    return tuple(reversed(original(situation, target)))


@mutant(steps, "one_at_a_time", within=20)
def off_by_one_in_n(original, situation, first, target, *, limit, floor, blocked):
    """A step drops one replica more, and the floor is one lower."""
    return original(situation, first, target, limit=limit + 1, floor=max(0, floor - 1), blocked=blocked)


@mutant(Moves, "_write_step", within=20)
def isr_shrinks_after_the_assignment(original, self, draft, tp, partition, move, step):
    """The assignment is written with the old ISR, which is shrunk later."""
    original(self, draft, tp, partition, move, step._replace(isr=partition.leadership.isr))


@mutant(Moves, "_situation", within=20)
def everybody_is_in_sync(original, self, draft, tp):
    """A move does not wait for its new replicas."""
    from dataclasses import replace

    situation = original(self, draft, tp)
    if situation is None:
        return None
    return replace(situation, isr=tuple(dict.fromkeys((*situation.isr, *situation.assignment.replicas))))


@mutant(moves, "roll_back", within=30)
def rollback_in_another_order(real, situation, *, original):
    """A rollback restores the set, not the ORDER."""
    return real(situation, original=tuple(sorted(original)))


@mutant(Moves, "_change_target", within=20)
def original_is_overwritten(original, self, draft, tp, known, changed):
    """A second reassignment takes the current replicas for the original."""
    partition = draft.partition(tp)
    if partition is not None:
        changed = changed._replace(original=partition.assignment.replicas)
    return original(self, draft, tp, known, changed)


# ---- records, deletions, failover


@mutant(reconciliation, "_closing", within=440)
def stale_record_resumed(original, sources):
    """A record is resumed although another controller has changed the assignment."""
    return


@mutant(Moves, "end", within=20)
def record_left_open(original, self, draft, tp, move, *, keep=False, step=None):
    """A finished move leaves its record in ZooKeeper."""
    draft.wait_no_more(tp)


@mutant(Draft, "owe", within=120)
def owed_deletion_forgotten(original, self, broker, tp, leader_epoch):
    """A dropped replica that a dead broker still holds is not remembered."""


def _keep_alone(self, tp, broker):
    self.dropped.get(tp, set()).discard(broker)


def _ask_in_any_case(self, asked, tp, epoch, broker):
    asked.add(tp, broker)


MUTANTS.append(
    Mutant(
        "wanted_again_and_owed_still",
        120,
        # There are two guards, and each of them is enough: the bug shows only without both.
        ((Draft, "keep", _keep_alone), (Deletions, "_ask_owed", _ask_in_any_case)),
    )
)


@mutant(Outbox, "stop_replicas", within=20)
def everybody_deletes(original, self, stopped, now_ms, *, delete, older=()):
    """Every replica of a partition that loses one is told to delete."""
    if delete:
        for tp in stopped:
            partition = self.state.partition(tp)
            if partition is not None:
                stopped[tp] |= set(partition.assignment.replicas)
    return original(self, stopped, now_ms, delete=delete, older=older)


@mutant(Deletions, "resume", within=20)
def returning_brokers_are_not_asked(original, self, came, now_ms):
    """A broker that came back is not asked for its owed deletions."""
    return self.begin(self.state.deleting, now_ms)


@mutant(Adoption, "find", within=80)
def nothing_is_adopted_at_start(original, self, only=None):
    """A new controller does not adopt moves that it finds."""
    return []


@mutant(deletions, "dropped_before", within=40)
def former_steps_forgotten(original, move, assignment):
    """After a failover the replicas that former steps dropped are forgotten."""
    return ()


# ---- queues


@mutant(Submissions, "_intervene", within=20)
def cancel_forgets_unsliced_work(original, self, draft, item, *, before):
    """A cancel does not remove waiting submissions for its partition from the queue."""
    return original(self, draft, item, before=replace(before, submissions=()))


@mutant(Submissions, "_whole", within=100)
def cancel_leaves_what_is_not_adopted(original, self, event):
    """The bug that was found: a cancel of everything skips moves that a start-up has not reconciled yet."""
    unreconciled, self.adoption.unreconciled = self.adoption.unreconciled, set()
    try:
        return original(self, event)
    finally:
        self.adoption.unreconciled = unreconciled


@mutant(Submissions, "_submit", within=60)
def pause_forgets_unsliced_work(original, self, draft, change, *, submission):
    """A move that was paused while it waited begins when its turn comes."""
    if submission.intervention(draft, change.tp) is Intervention.PAUSE:
        submission.interventions.pop(change.tp, None)
        draft.interventions.pop((submission.number, change.tp), None)
    return original(self, draft, change, submission=submission)


@mutant(Deletions, "strike_off", within=350)
def stray_deletions_wait_for_a_topic(original, self, names):
    """The bug that was found: an entry of the deletion queue that names no topic stays."""


@mutant(TaskQueue, "first", within=40)
def submissions_first(original, self, *, barrier_holds, barrier):
    """Submissions go before deaths and cancels."""
    queue = self.queues[Priority.NORMAL]
    if queue and not barrier_holds and queue[0].ready(barrier):
        return queue[0]
    return original(self, barrier_holds=barrier_holds, barrier=barrier)


@mutant(Task, "draft_slice", within=200)
def no_slices(original, self, draft, size_limit, *rest):
    """A large submission is decided in one slice."""
    return original(self, draft, 1 << 30, *rest)


@mutant(Task, "roll_back", within=60)
def refused_work_counts_as_done(original, self):
    """The work of a refused batch is not decided again."""
    self.drafting.clear()


@mutant(ControllerMachine, "_wake_at_ms", within=190)
def barrier_wakes_while_writing(original, self):
    """The bug that was found: a barrier whose patience has ended asks for a wake-up in the past, again and again."""
    due = [original(self)]
    if self.intake.queue.waits_for_barrier():
        due.append(self.outbox.barrier_deadline_ms)
    return min((moment for moment in due if moment is not None), default=None)


@mutant(ClusterWatches, "_on_watch", within=40)
def what_is_put_right_is_not_seen(original, self, event):
    """The bug that was found: a request znode that could not be read is not read again when it is repaired."""
    if not event.path.startswith(znodes.REASSIGNMENT_REQUEST_PREFIX):
        original(self, event)


@mutant(Outbox, "leader_and_isr", within=20)
def brokers_are_not_told(original, self, led, now_ms):
    """One broker of each change gets no LeaderAndIsr."""
    return original(self, led, now_ms)[1:]


@mutant(Backlog, "restore", within=50)
def lost_requests_are_not_sent_again(original, self, entries):
    """Requests that were in flight when a connection broke are forgotten."""


@mutant(liveness, "brokers_changed", within=20)
def bounces_are_not_seen(original, state, live):
    """A broker that comes back with another epoch is taken for one that has not restarted."""
    came = tuple(broker for broker in sorted(live) if broker not in state.brokers)
    went = tuple(broker for broker in sorted(state.brokers) if broker not in live)
    return came, went
