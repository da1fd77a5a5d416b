"""The controller's state machine: one owner of the state, one event at a time, one batch of writes outstanding.

`handle` takes an event in, decides as much as one slice allows, and returns what is to be done. Source: the controller
redesign ("Have a single execution thread to serially process events one at a time"), and etcd's raft for `Ready`.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field

from shunter.core.controller import changes as applied
from shunter.core.controller.changes import Changes
from shunter.core.controller.decisions import Decision
from shunter.core.controller.draft import Draft
from shunter.core.controller.draft_records import records_of
from shunter.core.controller.events import (
    AlterPartitionReceived,
    BatchRefused,
    BatchWritten,
    BrokersRead,
    ClusterLoaded,
    Elected,
    ElectionRequested,
    Envelope,
    Event,
    PartitionsSubmitted,
    ProducerIdsRequested,
    ReassignmentsSubmitted,
    ReplyToken,
    SessionExpired,
    SettingsChanged,
    TimePassed,
    TopicDeletionsSubmitted,
    TopicIdsAgreed,
    TopicsSubmitted,
)
from shunter.core.controller.intake import Effects, Intake
from shunter.core.controller.moves.interrupted import moves_left
from shunter.core.controller.moves.lifecycle import Transition
from shunter.core.controller.outbox import Outbox
from shunter.core.controller.ready import LoadCluster, Read, Ready, RefusedReply, Reply, Request, WriteBatch
from shunter.core.controller.state import ClusterView, ControllerState
from shunter.core.controller.suspects import Suspect, of_draft, of_task
from shunter.core.controller.tasks import CANCELLED_TIMES, EXAMINED_AT_MOST, Priority, Task
from shunter.core.wording import counted
from shunter.errors import ErrorCode, InvariantViolation
from shunter.model.notice import Notice
from shunter.model.records import PutTopic, Record
from shunter.model.settings import ControllerSettings

RETRY_AFTER_MS = 200
PARTITIONS_PER_TURN = 2_000
"""Partitions that a start-up or a broker's return handles before other work gets a turn: some 10 ms of work."""
WEIGHT_PER_ITEM = 150
"""This many bytes of weight count as one more item that was looked at."""
FORBIDDEN_AT_MOST = 100
"""The most decisions that wait because ZooKeeper forbids to write them. Beyond that a whole batch counts as refused."""
FORBIDDEN_AGAIN_MS = 10_000
"""How long a forbidden decision waits for its next attempt: ZooKeeper does not report changes of an ACL."""
FORBIDDEN_TOLD_MS = 1_000
"""How long a reply to a broker about a forbidden write is held back: the broker asks again as soon as it has it."""
REFUSALS_BEFORE_RELOAD = 5
"""Refused writes in a row after which the state is thrown away and the cluster is read again."""


_REQUESTS = (
    AlterPartitionReceived,
    ElectionRequested,
    PartitionsSubmitted,
    ProducerIdsRequested,
    ReassignmentsSubmitted,
    TopicDeletionsSubmitted,
    TopicsSubmitted,
)
"""Events that only queue tasks, for a caller that waits."""


@dataclass(slots=True)
class Outstanding:
    """The batch that is being written, with its draft, its tasks, and the settings that it was decided by."""

    batch_id: int
    records: tuple[Record, ...]
    draft: Draft
    tasks: list[Task]
    settings: ControllerSettings


@dataclass(slots=True)
class Bundle:
    """The contents of a `Ready`, while they are gathered."""

    requests: list[Request] = field(default_factory=list[Request])
    replies: list[tuple[ReplyToken, Reply]] = field(default_factory=list[tuple[ReplyToken, Reply]])
    reads: list[Read] = field(default_factory=list[Read])
    writes: WriteBatch | None = None
    notices: list[Notice] = field(default_factory=list[Notice])
    transitions: list[Transition] = field(default_factory=list[Transition])
    decisions: list[Decision] = field(default_factory=list[Decision])
    written: tuple[Record, ...] = ()
    more: bool = False
    resigned: str = ""
    reloads: bool = False


class ControllerMachine:
    """Decides for the whole cluster. Feed it with `handle`; look at it through `view`."""

    def __init__(self, settings: ControllerSettings) -> None:
        """Start as a standby that knows nothing."""
        self.settings = settings
        self.state = ControllerState(settings.broker_id)
        self.outbox = Outbox(self.state, settings)
        self.intake = Intake(self.state, settings, self.outbox)
        self.outstanding: Outstanding | None = None
        self.held: list[tuple[Event, str]] = []
        """Events, with their causes, that arrived while the cluster was read or while `in_turns` was worked off.

        They are taken in afterwards, in order: none is lost, and none is acted on early."""
        self.loading = False
        self.in_turns: Iterator[tuple[int, Effects]] | None = None
        """The rest of the work for an event about the whole cluster (a start-up, brokers that came). None: no work."""
        self.next_batch_id = 1
        self.retry_at_ms: int | None = None
        self.refusals = 0
        self.examine_at_most = EXAMINED_AT_MOST
        """The most items of the next slice: fewer after a batch that was too great for ZooKeeper, or forbidden."""
        self.forbidden_tasks: list[tuple[int, Task]] = []
        """Tasks whose writes ZooKeeper forbids, each with the time of its next attempt."""
        self.forbidden: set[str] = set()
        """Writes that ZooKeeper forbade in this term, and about which there was a notice."""
        self.late_replies: list[tuple[int, tuple[ReplyToken, Reply]]] = []
        """Replies that are held back because their brokers would ask again at once, and in vain; each with its time."""
        self.requests_refused = 0
        """How many callers' requests met a bug and were refused; see `_give_up`."""
        self.suspects: tuple[Suspect, ...] = ()
        """Inputs that were being decided or applied when a bug ended the controller; empty: only the event is known."""
        self.suspected_causes: tuple[str, ...] = ()
        """Causes of the tasks that were being decided or applied then."""

    @property
    def view(self) -> ClusterView:
        """The state, as queries may read it between two calls of `handle`."""
        return self.state

    def handle(self, envelope: Envelope) -> Ready:
        """Take in one event and return what is to be done now.

        Raises:
            InvariantViolation: a bug; the caller must stop acting as the controller.

        Cost: bounded by one slice of work (`slice_partitions`, or `PARTITIONS_PER_TURN` of a start-up).
        """
        bundle = Bundle()
        now_ms = envelope.now_ms
        self._take(envelope.event, now_ms, envelope.cause, bundle)
        if self.state.active:
            isolated = self.intake.isolation.resigns(now_ms)
            if isolated:
                self._resign(isolated, bundle)
        decides = self.state.active and self.in_turns is None
        if decides:
            self._process(now_ms, bundle)
            if self.outbox.round is not None:
                writing = self.outstanding.tasks if self.outstanding is not None else []
                if self.outbox.round_is_over(self.intake.queue.in_rounds(writing), now_ms):
                    bundle.requests += self.intake.end_round(now_ms)
                    bundle.more = True  # Other work has waited for the end of the round.
            bundle.replies += self.intake.topic_replies.take_known(now_ms)
            bundle.requests += self.outbox.maybe_metadata(now_ms)
            bundle.reads += self.intake.read_again(now_ms)
            bundle.reads += self.intake.look_at_moves(now_ms)
            bundle.replies += self.intake.departures.settled(now_ms)
            bundle.replies += self._late_replies(now_ms)
        return Ready(
            requests=tuple(bundle.requests),
            replies=tuple(bundle.replies),
            reads=tuple(bundle.reads),
            writes=bundle.writes,
            notices=tuple(bundle.notices),
            transitions=tuple(bundle.transitions),
            decisions=tuple(bundle.decisions),
            written=bundle.written,
            wake_at_ms=self._wake_at_ms() if decides else None,
            more=bundle.more,
            resigned=bundle.resigned,
            reloads=bundle.reloads,
        )

    # ---- events

    def _take(self, event: Event, now_ms: int, cause: str, bundle: Bundle) -> None:
        self._dispatch(event, now_ms, cause, bundle)
        self._maybe_delete_on(bundle)

    def _maybe_delete_on(self, bundle: Bundle) -> bool:
        """Go on with a deletion of many partitions before anything else; returns whether there is one."""
        if not self.intake.deletions.under_way or self.in_turns is not None:
            return False
        self.in_turns = self.intake.go_on_deleting()
        bundle.more = True
        return True

    def _dispatch(self, event: Event, now_ms: int, cause: str, bundle: Bundle) -> None:
        self.intake.queue.cause = cause
        match event:
            case Elected(epoch, _, ourselves):
                self._start_over()
                self.state.controller_epoch, self.state.ourselves = epoch, ourselves
                self.loading = True
                bundle.reads.append(LoadCluster())
            case ClusterLoaded(snapshot):
                if not self.loading:
                    return
                self.loading = False
                self.in_turns = self.intake.start_up(snapshot)
                self._go_on(now_ms, cause, bundle)
            case SessionExpired(reason):
                self._resign(reason, bundle)
            case SettingsChanged(settings):
                self._use(settings, now_ms)
            case TimePassed() if self.in_turns is not None:
                self._go_on(now_ms, cause, bundle)
            case TimePassed() if self.state.active and self.intake.answers.due(now_ms):
                self.in_turns = self.intake.tell_again(now_ms)
                self._go_on(now_ms, cause, bundle)
            case _ if self.loading or self.in_turns is not None:
                self.held.append((event, cause))
            case BatchWritten() | BatchRefused():
                self._outcome(event, now_ms, bundle)
            case BrokersRead(brokers) if self.state.active:
                self.in_turns = self.intake.on_brokers_read(brokers, now_ms)
                self._go_on(now_ms, cause, bundle)
            case TopicIdsAgreed(used) if self.state.active:
                self.in_turns = self.intake.on_topic_ids_agreed(used, now_ms)
                self._go_on(now_ms, cause, bundle)
            case _:
                self._take_in(event, now_ms, cause, bundle)
                if self.intake.answers.resigns:
                    self._resign(self.intake.answers.resigns, bundle)

    def _take_in(self, event: Event, now_ms: int, cause: str, bundle: Bundle) -> None:
        """Take one event in. A caller's request that meets a bug is refused: it has changed nothing yet.

        An event that reports a fact may have changed part of the state before it raised. Then the controller must end.
        """
        try:
            effects = self.intake.take(event, now_ms, cause)
        except Exception as bug:
            if not isinstance(event, _REQUESTS) or not event.reply_to:
                raise
            message = self._tell_of(bug, cause, bundle)
            bundle.replies.append((event.reply_to, RefusedReply(ErrorCode.UNKNOWN_SERVER_ERROR, message)))
            return
        self._settle(effects, bundle)

    def _tell_of(self, bug: Exception, cause: str, bundle: Bundle) -> str:
        self.requests_refused += 1
        told = "".join(traceback.format_exception(bug, limit=-3)).replace("\n", " | ")
        bundle.notices.append(
            Notice("request-met-a-bug", cause, f"this request met a bug of ours and is refused: {told}")
        )
        return f"this controller met a bug of its own and refuses the request: {type(bug).__name__}: {bug}"[:1_000]

    def _use(self, settings: ControllerSettings, now_ms: int) -> None:
        """Decide by other settings from now on; requests that were handed out keep the epochs that they have."""
        if settings.broker_id != self.settings.broker_id:
            raise InvariantViolation("a controller keeps its broker id", old=self.settings, new=settings)
        self.settings = settings
        self.outbox.use(settings)
        self.intake.use(settings, now_ms)

    def _go_on(self, now_ms: int, cause: str, bundle: Bundle) -> None:
        """Work off one turn of `in_turns`. After its last turn take in the events that were held meanwhile."""
        if self.in_turns is None:
            return
        self.intake.now_ms = now_ms
        self.intake.queue.cause = cause
        examined = 0
        for count, effects in self.in_turns:
            self._settle(effects, bundle)
            examined += count
            if examined >= PARTITIONS_PER_TURN:
                bundle.more = True
                return
        self.in_turns = None
        if not self.state.active:
            self.state.active = True
            bundle.notices.append(self.intake.in_charge())
        if self._maybe_delete_on(bundle):
            return
        held, self.held = self.held, []
        for earlier, its_cause in held:
            if not bundle.resigned:
                self._take(earlier, now_ms, its_cause, bundle)

    def _settle(
        self, effects: tuple[list[Request], list[tuple[ReplyToken, Reply]], list[Notice]], bundle: Bundle
    ) -> None:
        requests, replies, notices = effects
        bundle.requests += requests
        bundle.replies += replies
        bundle.notices += notices

    def _start_over(self) -> None:
        self.state.reset()
        self.outbox = Outbox(self.state, self.settings, next_request_id=self.outbox.next_request_id)
        self.intake = Intake(self.state, self.settings, self.outbox)
        self.outstanding = None
        self.held = []
        self.in_turns = None
        self.retry_at_ms = None
        self.refusals = 0
        self.forbidden_tasks = []
        self.forbidden = set()
        self.late_replies = []

    def _resign(self, reason: str, bundle: Bundle) -> None:
        """Stop being the controller: nothing more is sent or answered (`SessionExpired`).

        That goes for replies of this turn too, of held events that were taken in before. The driver answers every
        caller that still waits with NOT_CONTROLLER: the caller asks the next controller, which knows what is durable.
        """
        left = moves_left(self.state)
        self._start_over()
        self.loading = False
        bundle.notices += [Notice("resigned", "controller", reason), *left]
        bundle.requests.clear()
        bundle.replies.clear()
        bundle.resigned = reason or "unknown"

    # ---- outcomes of writes

    def _outcome(self, event: BatchWritten | BatchRefused, now_ms: int, bundle: Bundle) -> None:
        outstanding = self.outstanding
        if outstanding is None or outstanding.batch_id != event.batch_id:
            return  # The batch is of a former term, or from before a reload.
        self.outstanding = None
        if isinstance(event, BatchWritten):
            self.refusals = 0
            self.examine_at_most = EXAMINED_AT_MOST
            try:
                changes = applied.apply_records(self.state, outstanding.records, event.versions, event.czxids)
                self._committed(outstanding.draft, outstanding.records, outstanding.tasks, changes, now_ms, bundle)
            except Exception:
                self.suspects = of_draft(outstanding.draft.rulings.keys(), outstanding.draft.new_topics.keys())
                self.suspected_causes = tuple(task.cause for task in outstanding.tasks)
                raise
            if outstanding.settings is not self.settings:
                self.intake.use(self.settings, now_ms)  # The batch's pending moves were decided by the former settings.
        elif event.reason == "fenced":
            self._resign("a write was refused: another controller has a newer epoch", bundle)
        elif event.reason == "too-great":
            self._too_great(outstanding, now_ms, bundle)
        elif event.reason == "forbidden":
            self._forbidden(outstanding, event, now_ms, bundle)
        else:
            self._refused(outstanding, event, now_ms, bundle)

    def _refused(self, outstanding: Outstanding, event: BatchRefused, now_ms: int, bundle: Bundle) -> None:
        self.refusals += 1
        if self.refusals >= REFUSALS_BEFORE_RELOAD:
            self._reload(bundle)
            return
        changes = Changes()
        for topic in event.topics:
            changes.add(applied.apply_topic_read(self.state, topic))
        for name in event.gone:
            changes.add(applied.apply_topic_gone(self.state, name))
        self._undo(outstanding.tasks)
        bundle.notices += self.intake.znodes.on_refused(event, outstanding.records)
        self._settle((self.intake.announce(changes, now_ms), [], []), bundle)
        if event.reason != "version" or self.refusals > 1:
            self.retry_at_ms = now_ms + RETRY_AFTER_MS
            told = f"batch of {counted(len(outstanding.records), 'record')} was refused ({event.reason}), {self.refusals} in a row"
            told += f": {event.told}" if event.told else ""
            bundle.notices.append(Notice("write-refused", "zookeeper", told))

    def _too_great(self, outstanding: Outstanding, now_ms: int, bundle: Bundle) -> None:
        """ZooKeeper takes no request of this size: decide half as much at once, or refuse one item too great alone."""
        decided = sum(len(task.drafting) for task in outstanding.tasks)
        if decided <= 1:
            decider = next((task for task in outstanding.tasks if task.drafting), outstanding.tasks[-1])
            about = {each.topic.name for each in outstanding.records if isinstance(each, PutTopic)}
            told = "what is decided does not fit into one request to ZooKeeper, because the topic's znode is too large"
            named = ", ".join(sorted(about)) or decider.cause
            bundle.notices.append(Notice("too-great", named, f"{told}: it stays as it is"))
            self._pass_over(decider, outstanding, told, now_ms, bundle)
            return
        self._try_half(outstanding, decided)
        told = f"{counted(len(outstanding.records), 'record')} do not fit into one request; half as many are tried"
        bundle.notices.append(Notice("write-too-great", "zookeeper", told))

    def _forbidden(self, outstanding: Outstanding, event: BatchRefused, now_ms: int, bundle: Bundle) -> None:
        """An ACL forbids to write a znode of the batch: put the decision about it off, and go on with the others.

        See docs/decisions/0017-unreadable.md.
        """
        decided = sum(len(task.drafting) for task in outstanding.tasks)
        decider = next((task for task in outstanding.tasks if task.drafting), None)
        alone = decided == 1 and decider is not None
        if decider is None or len(self.forbidden_tasks) >= FORBIDDEN_AT_MOST or (alone and decider.in_order):
            self._refused(outstanding, event, now_ms, bundle)
            return
        if not alone:
            self._try_half(outstanding, decided)
            return
        if event.told not in self.forbidden:
            self.forbidden.add(event.told)
            told = f"{event.told}: what depends on it waits, and is tried again; give us that right"
            bundle.notices.append(Notice("write-forbidden", "zookeeper", told))
        later = decider.split_off()
        if later is not None:
            self.forbidden_tasks.append((now_ms + FORBIDDEN_AGAIN_MS, later))
        # Only requests of brokers have this priority.
        decider.answered_late = decider.priority is Priority.ISR
        self._pass_over(decider, outstanding, f"{event.told}: see that Shunter may write it", now_ms, bundle)

    def _pass_over(self, decider: Task, outstanding: Outstanding, told: str, now_ms: int, bundle: Bundle) -> None:
        """The decision about one item can't be written: the item stays as it is, and its caller is refused.

        Only a topic that another tool created can be too great; see docs/decisions/0021-too-much.md.
        """
        bundle.replies += self._in_time(decider, decider.pass_over(ErrorCode.UNKNOWN_SERVER_ERROR, told), now_ms)
        self._undo([task for task in outstanding.tasks if task is not decider])
        self.intake.queue.drop(decider)
        if not decider.exhausted:
            self.intake.queue.put_back([decider])
        bundle.more = True

    def _in_time(
        self, task: Task, replies: list[tuple[ReplyToken, Reply]], now_ms: int
    ) -> list[tuple[ReplyToken, Reply]]:
        """The replies of a task that are given now; those of a task that is answered late are kept."""
        if not task.answered_late:
            return replies
        self.late_replies += [(now_ms + FORBIDDEN_TOLD_MS, reply) for reply in replies]
        return []

    def _late_replies(self, now_ms: int) -> list[tuple[ReplyToken, Reply]]:
        due = [reply for due_ms, reply in self.late_replies if due_ms <= now_ms]
        if due:
            self.late_replies = [(due_ms, reply) for due_ms, reply in self.late_replies if due_ms > now_ms]
        return due

    def _try_half(self, outstanding: Outstanding, decided: int) -> None:
        """Decide a batch again, half of it at once, to find the item that can't be written, and to write the others."""
        self._undo(outstanding.tasks)
        self.examine_at_most = decided // 2

    def _undo(self, tasks: list[Task]) -> None:
        """A draft left no trace: its tasks are decided again."""
        for task in tasks:
            task.roll_back()
        self.intake.queue.put_back(tasks)

    def _give_up(self, task: Task, others: list[Task], bug: Exception, bundle: Bundle) -> None:
        """One of a draft's tasks can't be decided: refuse it if a caller asked for it, and decide the others again.

        A decision changes nothing but its draft, so the state is whole. A task that no caller asked for has to be done:
        a controller that can't decide it must end.

        Raises:
            Exception: the bug, if no caller asked for the task.
        """
        if task.refuse is None:
            self.suspects, self.suspected_causes = of_task(task), (task.cause,)
            raise bug
        self._undo(others)
        self.intake.queue.drop(task)
        message = self._tell_of(bug, task.cause, bundle)
        bundle.replies += task.abandon(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        bundle.more = True

    def _reload(self, bundle: Bundle) -> None:
        """Read everything again within the same term: another process changed what only the controller should write.

        Waiting callers are refused, as on a resignation: their requests may have been decided already, or not.
        """
        epoch, ourselves = self.state.controller_epoch, self.state.ourselves
        told = f"{self.refusals} writes in a row met something else than expected; reading the cluster again"
        # The requests that called replicas new are dropped, perhaps unsent. A broker with a failed log dir makes a log
        # for a new replica only.
        not_created = self.outbox.not_created
        self._start_over()
        self.outbox.not_created = not_created
        self.state.controller_epoch, self.state.ourselves = epoch, ourselves
        self.loading = True
        bundle.notices.append(Notice("reload", "zookeeper", told))
        bundle.reads.append(LoadCluster())
        bundle.reloads = True

    def _committed(
        self,
        draft: Draft,
        records: tuple[Record, ...],
        tasks: list[Task],
        changes: Changes,
        now_ms: int,
        bundle: Bundle,
    ) -> None:
        bundle.decisions += draft.decisions()
        bundle.written += records
        applied.apply_waits(self.state, draft.waits)
        bundle.transitions += draft.transitions
        bundle.notices += draft.notices
        self.intake.queue.cause = next((task.cause for task in tasks if task.cause), "")
        replies: list[tuple[ReplyToken, Reply]] = []
        for task in tasks:
            replies += self._in_time(task, task.commit(), now_ms)
        left = self.intake.queue.in_rounds()
        left = left if all(task.priority is left for task in tasks) else None
        self._settle(self.intake.committed(draft, records, changes, now_ms, left), bundle)
        bundle.replies += replies

    # ---- slices

    def _process(self, now_ms: int, bundle: Bundle) -> None:
        """Decide one slice: stop at records to be written, or after so many items that others have to get a turn."""
        if self.outstanding is not None:
            return
        if self.retry_at_ms is not None:
            if now_ms < self.retry_at_ms:
                return
            self.retry_at_ms = None
        while self.forbidden_tasks and self.forbidden_tasks[0][0] <= now_ms:
            self.intake.queue.add(self.forbidden_tasks.pop(0)[1])
        examined = 0
        while self.outstanding is None:
            if examined >= self.examine_at_most:
                bundle.more = True
                return
            draft, tasks, looked_at = self._draft_slice(now_ms, self.examine_at_most - examined, bundle)
            examined += looked_at + draft.weight // WEIGHT_PER_ITEM
            if not tasks:
                return
            records = records_of(draft)
            if records:
                self._hand_out(records, draft, tasks, bundle)
            else:
                self._committed(draft, (), tasks, Changes(), now_ms, bundle)

    def _draft_slice(self, now_ms: int, examine_limit: int, bundle: Bundle) -> tuple[Draft, list[Task], int]:
        draft = Draft(self.state, now_ms)
        tasks: list[Task] = []
        queue = self.intake.queue
        examined = 0
        while examined < examine_limit:
            waits = self.outbox.round is not None or self.outbox.barrier_holds(now_ms)
            task = queue.first(barrier_holds=waits, barrier=self.outbox)
            if task is None or draft.is_full(limit := self._slice_limit(task)):
                break
            queue.take(task)
            tasks.append(task)
            try:
                examined += max(1, queue.draft(task, draft, limit, examine_limit - examined, self.outbox))
            except Exception as bug:  # noqa: BLE001 - whatever it is: it is refused, or raised again
                self._give_up(task, tasks[:-1], bug, bundle)
                return Draft(self.state, now_ms), [], examined
            if not task.exhausted:
                # The task stays in the queue: later tasks may not pass items that it has parked, or not looked at.
                queue.put_back([task])
                if task.ready(self.outbox):
                    break
        return draft, tasks, examined

    def _slice_limit(self, task: Task) -> int:
        """How much goes into one batch. A cancel gets more, because it brings relief only with its last slice."""
        return self.settings.slice_partitions * (CANCELLED_TIMES if task.priority is Priority.CANCEL else 1)

    def _hand_out(self, records: tuple[Record, ...], draft: Draft, tasks: list[Task], bundle: Bundle) -> None:
        if bundle.writes is not None:
            raise InvariantViolation("one batch of writes is outstanding at a time", batch=bundle.writes.batch_id)
        batch = WriteBatch(self.next_batch_id, records)
        self.next_batch_id += 1
        self.outstanding = Outstanding(batch.batch_id, records, draft, tasks, self.settings)
        bundle.writes = batch

    def _wake_at_ms(self) -> int | None:
        due = [
            self.retry_at_ms,
            self.late_replies[0][0] if self.late_replies else None,
            self.intake.next_check_ms,
            self.intake.read_again_ms,
            self.intake.moves_due_ms,
            self.intake.topic_replies.due_ms,
            self.intake.rebalance.due_ms,
            self.intake.answers.due_ms,
            self.intake.departures.due_ms,
            self.intake.isolation.due_ms,
            self.outbox.metadata_due_ms,
            self.outbox.round_due_ms,
        ]
        if self.outstanding is None and self.retry_at_ms is None:
            # While a batch is being written, or waits for its next attempt, nothing is decided, so these are not due.
            due.append(self.forbidden_tasks[0][0] if self.forbidden_tasks else None)
            due.append(self.outbox.barrier_deadline_ms if self.intake.queue.waits_for_barrier() else None)
        return min((moment for moment in due if moment is not None), default=None)
