"""The executor: events in, `Ready` out. What the journal says of moves and throttles changes by `apply`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from shunter.core.executor import events as ev
from shunter.core.executor.apply import apply
from shunter.core.executor.capacity import note_landed
from shunter.core.executor.decisions import Pass, decide_moves
from shunter.core.executor.elections import send_elections, take_answer
from shunter.core.executor.estimates.eta import observe_sizes
from shunter.core.executor.estimates.rates import Meter, observe_rates
from shunter.core.executor.judgement import told_refusal
from shunter.core.executor.log_dirs import decide_log_dirs, due_log_dirs, give_up_copies, note_asked
from shunter.core.executor.orders import decide_command
from shunter.core.executor.own_moves import OwnMoves
from shunter.core.executor.polling import Polls, poll
from shunter.core.executor.ready import (
    AlterLogDirs,
    AlterReassignments,
    Collected,
    CommandReply,
    Finish,
    JournalBatch,
    Ready,
    Reply,
)
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.step_status import Standing, StepTrigger
from shunter.core.executor.submission import SubmittedPlan, close_ended, judge_submission, outcomes
from shunter.core.executor.throttling.debts import told_debts, told_way_out, waited_until_ms
from shunter.core.executor.throttling.pressure import Pressure, decide_limit
from shunter.core.executor.throttling.throttles import (
    ThrottleBook,
    decide_throttles,
    desired_settings,
    gate,
    look,
    send_settings,
)
from shunter.core.executor.waits import Wait, WaitKind
from shunter.core.throttles import LOG_DIR_RATE
from shunter.core.wording import counted
from shunter.errors import ErrorCode, InvariantViolation, told_code
from shunter.model.execution import (
    ExecutionClosed,
    JournalEntry,
    JournalRecord,
    MoveAccepted,
    StepBegun,
    StepFinished,
    ThrottleKey,
    ThrottleRestored,
)
from shunter.model.limits import is_open
from shunter.model.notice import Notice
from shunter.model.partition import BrokerId, Replicas, TopicPartition

REQUEST_PARTITIONS = 1_000
"""Partitions in one AlterPartitionReassignments: Apache's KRaft controller refuses more than 10,000 records at once."""
RETRY_MS = 500
RETRY_MAX_MS = 30_000

_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_RETRIABLE = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.BROKER_NOT_AVAILABLE,
)


@dataclass(slots=True)
class _Outstanding:
    batch: JournalBatch
    replies: list[tuple[ev.ReplyToken, Reply]]


@dataclass(slots=True)
class Executor:
    """Moves partitions through the cluster's own controller, under a journal.

    Pass events to `handle`, carry out the `Ready` that it returns in order, and pass the outcomes back as events.
    Invariant: at most one journal batch is outstanding, and nothing is asked for before its entry is durable.
    """

    state: ExecutorState = field(default_factory=ExecutorState)
    book: ThrottleBook = field(default_factory=ThrottleBook)
    polls: Polls = field(default_factory=Polls)
    meter: Meter = field(default_factory=Meter)
    own: OwnMoves = field(default_factory=OwnMoves)
    pressure: Pressure = field(default_factory=Pressure)
    _requests: dict[int, tuple[TopicPartition, ...]] = field(default_factory=dict[int, tuple[TopicPartition, ...]])
    """Requests under way, and the partitions whose steps or elections each carries."""
    _log_dirs: dict[int, tuple[tuple[BrokerId, TopicPartition, str], ...]] = field(
        default_factory=dict[int, tuple[tuple[BrokerId, TopicPartition, str], ...]]
    )
    """Requests for log dirs under way."""
    _submissions: deque[SubmittedPlan] = field(default_factory=deque[SubmittedPlan])
    _commands: deque[ev.CommandReceived] = field(default_factory=deque[ev.CommandReceived])
    _outstanding: _Outstanding | None = None
    _replies: list[tuple[ev.ReplyToken, Reply]] = field(default_factory=list[tuple[ev.ReplyToken, Reply]])
    """Replies that go out once the batch that is being made is durable."""
    _last_id: int = 0
    _now_ms: int = 0
    _cause: str = ""
    _utc_offset_minutes: int = 0
    _fatal: Finish | None = None
    _idle_since_ms: int | None = None
    _told_debts: str = ""
    """The owed throttles that the last notice named, in its words."""
    worked: bool = False
    """Whether an execution was open at some time of this process."""
    _wanted: tuple[tuple[int, tuple[BrokerId, ...]], dict[ThrottleKey, str]] | None = None
    """The last result of `desired_settings`, preceded by the values that it depends on (see `_desired`)."""
    loaded: bool = False

    def handle(self, envelope: ev.Envelope) -> Ready:
        """Take in one event and say what is to be done now.

        Raises:
            InvariantViolation: a bug of the executor; the caller must stop.
        """
        self._now_ms, self._cause = envelope.now_ms, envelope.cause
        self._utc_offset_minutes = envelope.utc_offset_minutes
        out = Collected()
        self._take_in(envelope.event, out)
        return out.seal(self._advance(out))

    # Events.

    def _take_in(self, event: ev.Event, out: Collected) -> None:
        match event:
            case ev.JournalLoaded():
                self._on_loaded(event)
            case ev.JournalWritten():
                self._on_written(event, out)
            case ev.JournalRefused():
                self._on_refused(event)
            case ev.PlanSubmitted():
                self._on_plan(event)
            case ev.CommandReceived():
                self._on_command(event)
            case ev.ReassignmentsListed():
                self._on_listed(event, out)
            case ev.TopicsObserved():
                self._on_topics(event, out)
            case ev.LogDirsObserved():
                self._on_log_dirs(event)
            case ev.SettingsRead():
                self._on_settings(event)
            case ev.ReassignmentsAnswered():
                self._on_answered(event, out)
            case ev.SettingsAltered():
                self._on_altered(event, out)
            case ev.LogDirsAltered():
                self._on_log_dirs_altered(event, out)
            case ev.LeadersElected():
                self._on_elected(event)
            case ev.AdminFailed():
                self._on_failed(event, out)
            case ev.TimePassed():
                pass  # Only time has passed; `_advance` finds what is due.

    def _on_loaded(self, event: ev.JournalLoaded) -> None:
        if self.loaded:
            raise InvariantViolation("a journal is loaded once")
        self.loaded = True
        for entry in event.entries:
            apply(self.state, entry)
        if not self.own.plan_id and self.state.at_work:
            self.own.moves = {move.tp: move for move in self.state.open_moves()}
        for move in self.state.open_moves():
            move.begun_before(self._now_ms)
        # Another process's clock may have been hours behind or ahead of this one's.
        for given in self.state.given_back.values():
            given.at_ms = self._now_ms
        for move in (*self.state.former_moves.values(), *self.state.moves.values()):
            move.heard_of_end_at_ms = self._now_ms
        if self.state.cluster_id and event.cluster_id != self.state.cluster_id:
            told = f"the journal belongs to cluster {self.state.cluster_id}, and this is {event.cluster_id}"
            self._fatal = Finish(fatal=f"{told}: nothing was touched", kind=ev.Fatal.JOURNAL)
        self.state.cluster_id = self.state.cluster_id or event.cluster_id

    def _on_written(self, event: ev.JournalWritten, out: Collected) -> None:
        done = self._outstanding
        if done is None or done.batch.batch_id != event.batch_id:
            raise InvariantViolation("a journal batch is answered once", event=event, outstanding=done)
        self._outstanding = None
        for entry in done.batch.entries:
            if isinstance(entry.record, StepFinished):
                note_landed(self.state, self.state.moves[entry.record.tp], self._now_ms)
            apply(self.state, entry)
            self.own.take(self.state, entry)
        for entry in done.batch.entries:
            self._note(entry)
            if isinstance(entry.record, MoveAccepted) and entry.record.adopted:
                original = list(entry.record.original)
                told = f"taken over; its original replicas {original} may have had another order"
                told = f"{told}; throttles that were set for it are not ours to take away (`shunter throttles`)"
                out.notices.append(Notice("taken-over", str(entry.record.tp), told))
        out.replies.extend(done.replies)

    def _note(self, entry: JournalEntry) -> None:
        """Update the soft state after a new entry of this process."""
        record = entry.record
        if isinstance(record, ThrottleRestored):
            self.book.forget(record.key)
        elif isinstance(record, MoveAccepted):
            self.book.others.ask_anew()
        elif isinstance(record, ExecutionClosed):
            self.book.keep(self.state.throttles.keys())
            self.state.others = {key: each for key, each in self.state.others.items() if key in self.state.throttles}
        if isinstance(record, StepBegun):
            move = self.state.moves[record.tp]
            if move.step is not None and move.step.number == record.number and not move.step.accepted:
                move.note(StepTrigger.OURS)
        self.polls.hurry(self._now_ms)

    def _on_refused(self, event: ev.JournalRefused) -> None:
        self._fatal = Finish(fatal=event.reason, kind=event.fatal)

    def _on_plan(self, event: ev.PlanSubmitted) -> None:
        self._submissions.append(SubmittedPlan(event, self._now_ms))

    def _on_command(self, event: ev.CommandReceived) -> None:
        self._commands.append(event)

    def _on_listed(self, event: ev.ReassignmentsListed, out: Collected) -> None:
        cluster = self.state.cluster
        self._tell_foreign(event, out)
        changed = cluster.ongoing.keys() != event.ongoing.keys()
        cluster.ongoing, cluster.listed_at_ms = dict(event.ongoing), event.asked_at_ms
        cluster.silent_since_ms = None
        self.pressure.on_answer(self._now_ms - event.asked_at_ms)
        self.polls.on_listed(self._now_ms, event.cost_ms, changed=changed)

    def _tell_foreign(self, event: ev.ReassignmentsListed, out: Collected) -> None:
        known = self.state.cluster.ongoing
        # A plan that waits to be judged may take these moves over, and then its reply reports them.
        planned = {order.tp for submission in self._submissions for order in submission.event.moves}
        for tp in sorted(event.ongoing.keys() - known.keys() - planned):
            move = self.state.moves.get(tp)
            if move is None or not move.open:
                target = list(event.ongoing[tp].target)
                out.notices.append(Notice("foreign-move", str(tp), f"somebody else moves it to {target}: left alone"))

    def _on_topics(self, event: ev.TopicsObserved, out: Collected) -> None:
        cluster = self.state.cluster
        for name in sorted(event.topics):
            topic, before = event.topics[name], cluster.topics.get(name)
            if before is not None and topic is not None and topic.topic_id == before.topic_id:
                added = len(topic.partitions) - len(before.partitions)
                if added > 0:
                    told = f"{counted(added, 'partition was', 'partitions were')} added to it, which the plan does not have"
                    out.notices.append(Notice("partitions-added", name, told))
            elif before is not None:
                cluster.forget_sizes(name)  # The topic was deleted, or made anew.
            cluster.topics[name] = topic
            cluster.topics_at_ms[name] = event.asked_at_ms
        self._see_brokers(event, out)
        self.pressure.on_answer(self._now_ms - event.asked_at_ms)
        self.polls.on_topics(self._now_ms, event.cost_ms, event.topics)

    def _see_brokers(self, event: ev.TopicsObserved, out: Collected) -> None:
        cluster = self.state.cluster
        for broker in sorted(cluster.brokers.keys() - event.brokers.keys()):
            cluster.down_since_ms[broker] = self._now_ms
            out.notices.append(Notice("broker-down", f"broker {broker}", f"broker {broker} is gone"))
        for broker in sorted(event.brokers.keys() & cluster.down_since_ms.keys()):
            # It was missing at every look between these two, and may have come back right after the last of them.
            down = (cluster.brokers_at_ms - cluster.down_since_ms.pop(broker)) // 1000
            told = f"broker {broker} is back{f' after at least {down} s' if down else ''}"
            out.notices.append(Notice("broker-up", f"broker {broker}", told))
        if event.controller >= 0:
            if cluster.controller not in (-1, event.controller):
                told = f"the controller moved from {cluster.controller} to {event.controller}"
                out.notices.append(Notice("controller-moved", "the controller", told))
            cluster.controller = event.controller
        cluster.needs_all = event.needs_all
        cluster.up_since_ms.update(dict.fromkeys(event.brokers.keys() - cluster.brokers.keys(), event.asked_at_ms))
        cluster.brokers, cluster.brokers_at_ms = dict(event.brokers), self._now_ms
        cluster.racks.update(event.brokers)

    def _on_log_dirs(self, event: ev.LogDirsObserved) -> None:
        cluster = self.state.cluster
        cluster.sizes.update(event.sizes)
        cluster.sizes_at_ms.update(dict.fromkeys(event.sizes, event.asked_at_ms))
        answered = set(event.brokers)
        asked = {(broker, tp) for broker in event.brokers for tp in event.asked.get(broker, ())}
        cluster.absent_at_ms.update(dict.fromkeys(asked - event.sizes.keys(), event.asked_at_ms))
        for key in (asked | event.sizes.keys()) & cluster.futures.keys():
            del cluster.futures[key]
        cluster.futures.update(event.futures)
        cluster.broken = {broker: paths for broker, paths in cluster.broken.items() if broker not in answered}
        cluster.broken.update(event.broken)
        cluster.see_spaces(answered, event.spaces)
        for broker in event.brokers:
            cluster.spaces_at_ms[broker] = event.asked_at_ms
            cluster.room_wanted_ms.pop(broker, None)
            later = [each for each in cluster.landed.pop(broker, ()) if each[0] >= event.asked_at_ms]
            if later:
                cluster.landed[broker] = later
        self.polls.on_log_dirs(self._now_ms, event.cost_ms)
        if self._submissions and self._submissions[0].sizes_asked:
            self._submissions[0].sizes_known = True
        self.meter.sample(self.state, event.asked_at_ms, set(event.sizes), self.book.lower_in_force)

    def _on_settings(self, event: ev.SettingsRead) -> None:
        if event.of_others:
            self.book.others.on_read(self.state, event.own, event.effective, self._now_ms)
            return
        self.book.on_read(self.state, dict(event.own), dict(event.effective), self._now_ms)

    def _on_altered(self, event: ev.SettingsAltered, out: Collected) -> None:
        for key in sorted(event.errors):
            out.notices.append(Notice("throttle-refused", f"{key.kind} {key.name}", event.errors[key]))
        self.book.on_altered(self.state, event, self._now_ms)

    def _on_answered(self, event: ev.ReassignmentsAnswered, out: Collected) -> None:
        for move in self._carried(self._requests.pop(event.request_id), event.request_id):
            code, told = event.results.get(move.tp, (ErrorCode.UNKNOWN_SERVER_ERROR, "the answer does not name it"))
            self._take_answer(move, code, told, out)
        self.polls.hurry(self._now_ms)

    def _carried(self, partitions: Iterable[TopicPartition], request_id: int) -> list[Move]:
        """Moves whose step a request carries. A move that has ended since is left out: another plan may move it now."""
        moves = [self.state.moves.get(tp) for tp in partitions]
        return [move for move in moves if move is not None and move.status.request_id == request_id]

    def _take_answer(self, move: Move, code: ErrorCode, told: str, out: Collected) -> None:
        step = move.step
        assert step is not None
        if code is ErrorCode.NONE:
            move.note(StepTrigger.TAKEN_ON, self._now_ms)
            return
        if step.cancels and code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
            move.note(StepTrigger.NOTHING_LEFT, self._now_ms)
            return
        why = told_code(code, told)
        if code not in _RETRIABLE:
            move.waits = Wait(WaitKind.OURSELVES, told_refusal(step, why))
        if code in (*_RETRIABLE, *_GONE):
            self._retry_later(move)  # Metadata will show whether the partition is gone.
            return
        if code is ErrorCode.INVALID_REPLICA_ASSIGNMENT:  # A broker of it may have been cordoned.
            self.state.cluster.look_again(step.after, self._now_ms, self._now_ms)
            self.polls.log_dirs_due_ms = self._now_ms
        self._retry_later(move, refused=why)
        out.notices.append(Notice("step-refused", str(move.tp), move.waits.text))

    def _retry_later(self, move: Move, *, refused: str = "") -> None:
        wait_ms = min(RETRY_MAX_MS, RETRY_MS << min(move.status.requests, 10))
        trigger = StepTrigger.REFUSED if refused else StepTrigger.UNANSWERED
        move.note(trigger, self._now_ms + wait_ms, why=refused)

    def _on_log_dirs_altered(self, event: ev.LogDirsAltered, out: Collected) -> None:
        for move, broker, path in self._asked_for_log_dirs(event.request_id):
            code, status = event.results.get((broker, move.tp), ErrorCode.UNKNOWN_SERVER_ERROR), move.log_dir_status
            absent = code is ErrorCode.REPLICA_NOT_AVAILABLE
            if status.request_ids.get(broker) != event.request_id or (broker, path) not in move.places:
                continue
            if code is ErrorCode.NONE or absent or code in _RETRIABLE:
                continue  # The replica may not be there yet: the broker remembers its log dir until it comes.
            out.notices.append(
                Notice("log-dir-refused", str(move.tp), f"broker {broker} refuses its log dir: {code.name}")
            )
            move.log_dir_status = replace(status, refused={**status.refused, broker: code.name})

    def _asked_for_log_dirs(self, request_id: int) -> list[tuple[Move, BrokerId, str]]:
        """What a request asked for that is answered now, or given up; without moves that have ended since."""
        found: list[tuple[Move, BrokerId, str]] = []
        for broker, tp, path in self._log_dirs.pop(request_id, ()):
            move = self.state.moves.get(tp)
            if move is not None and move.open:
                move.asking.discard(request_id)
                move.answered_at_ms = self._now_ms
                if move.begun_within.get(broker, ("", 0))[0] == path:
                    move.begun_within[broker] = (path, self._now_ms)
                found.append((move, broker, path))
        return found

    def _on_elected(self, event: ev.LeadersElected) -> None:
        for move in self._electing(self._requests.pop(event.request_id), event.request_id):
            code, told = event.results.get(move.tp, (ErrorCode.UNKNOWN_SERVER_ERROR, "the answer does not name it"))
            move.election = take_answer(move.election, code, told, self._now_ms)

    def _electing(self, partitions: Iterable[TopicPartition], request_id: int) -> list[Move]:
        """Moves whose election a request carries, without those that have ended or were turned since."""
        moves = [self.state.moves.get(tp) for tp in partitions]
        return [move for move in moves if move is not None and move.open and move.election.request_id == request_id]

    def _on_failed(self, event: ev.AdminFailed, out: Collected) -> None:
        denied = event.request_id and self.book.on_denied(self.state, event.request_id, event.settings, self._now_ms)
        if denied:
            return
        if not event.retriable and event.what not in ("log-dirs", "others"):
            self._fatal = Finish(fatal=event.message)
            return
        asked = self._requests.pop(event.request_id, None)
        if asked is not None:
            for move in self._carried(asked, event.request_id):
                self._retry_later(move)
            for move in self._electing(asked, event.request_id):
                move.election = take_answer(move.election, None, "", self._now_ms)
        elif event.request_id in self._log_dirs:
            self._asked_for_log_dirs(event.request_id)
        elif event.request_id:
            self.book.on_alter_failed(self.state, event.request_id, self._now_ms)
        self.polls.on_failed(self._now_ms, event.what)
        if event.what == "list" and self.state.cluster.silent_since_ms is None:
            self.state.cluster.silent_since_ms = self._now_ms
        if event.what == "settings":
            self.book.on_read_failed(event.settings, self._now_ms)
        if event.what == "others":
            self.book.others.denied, self.book.others.known = not event.retriable, True
            unknown = "whether somebody else's throttle holds these copies is not known"
            event = replace(event, message=f"{unknown}: {event.message}")
        if event.what == "log-dirs" and self._submissions and self._submissions[0].sizes_asked:
            self._submissions[0].sizes_known = True  # A plan can be judged without sizes.
        out.notices.append(Notice("admin-failed", event.what, event.message))

    # Decisions.

    def _advance(self, out: Collected) -> JournalBatch | None:
        if self._fatal is not None:
            out.finish = self._fatal
            return None
        if not self.loaded:
            return None
        if self.state.at_work:
            self.worked, self._idle_since_ms = True, None
        wanted = self._desired()
        stale: set[str] = set()
        writes = None
        if self._outstanding is None:
            writes = self._decide(wanted, stale, out)
        # An entry that is being written may turn its move: until it is durable, no step of that move is asked for.
        entries = () if self._outstanding is None else self._outstanding.batch.entries
        held: set[TopicPartition | None] = {getattr(entry.record, "tp", None) for entry in entries}
        self._send_steps(held, out)
        send_settings(self.state, self.book, wanted, self._now_ms, self._new_id, out)
        self._send_log_dirs(held, wanted, out)
        self._requests.update(send_elections(self.state, held, self._new_id, out))
        poll(self.state, self.polls, self._submissions, stale, self._now_ms, out)
        if writes is None and self._outstanding is None:
            self._maybe_finish(out)
        return writes

    def _desired(self) -> dict[ThrottleKey, str]:
        """The settings that the executor wants. They change only with journal entries, and when brokers come or go."""
        if not self.state.running:
            return {}
        basis = (self.state.next_sequence, tuple(self.state.cluster.brokers))
        if self._wanted is None or self._wanted[0] != basis:
            self._wanted = basis, desired_settings(self.state)
        return self._wanted[1]

    def _decide(self, wanted: dict[ThrottleKey, str], stale: set[str], out: Collected) -> JournalBatch | None:
        records = self._decide_orders(out)
        if not records and not self.state.running:
            records = decide_throttles(self.state, self.book, wanted, self._now_ms, out)  # Owed ones are given back.
        elif not records:
            records = decide_limit(self.state, self.pressure, self._now_ms, out)
            records += decide_throttles(self.state, self.book, wanted, self._now_ms, out)
            records += observe_rates(self.state, self.meter, self._now_ms)
            if self.polls.sizes_new:
                records, self.polls.sizes_new = records + observe_sizes(self.state), False
            throttled = gate(self.state, self.book, wanted, self._now_ms)
            work = Pass(self.state, self._now_ms, out, self._window_open(), throttled, records)
            for move, seen in decide_log_dirs(self.state, out):
                work.write(move, seen)
            decide_moves(work)
            look(self.book, throttled, self._now_ms, out)
            stale.update(work.stale_topics)
            records = work.records or self._maybe_close(out)
        if not records and not self._replies:
            return None
        return self._batch(records, out)

    def _decide_orders(self, out: Collected) -> list[JournalRecord]:
        """Decide orders and plans first, and alone. Moves are looked at again once these entries are durable."""
        records: list[JournalRecord] = []
        while not records and self._commands:
            event = self._commands.popleft()
            decided = decide_command(self.state, event.command)
            records += decided.records
            self._replies.append((event.reply_to, CommandReply(decided.accepted, decided.text, decided.partly)))
        if not records and self._submissions and self._seen_for(self._submissions[0]):
            submission = self._submissions.popleft()
            judged = judge_submission(self.state, submission.event)
            records += judged.records
            if records and self.own.plan_id not in ("", submission.event.plan_id):
                told = (
                    "another shell gave a plan: this process drives its moves too, and ends with the result of its own"
                )
                out.notices.append(Notice("plan-joined", "", told))
            out.notices += [Notice("retargeted", str(each.tp), each.instead) for each in judged.results if each.instead]
            self._replies.append((submission.event.reply_to, judged.reply()))
        return records

    def _seen_for(self, submission: SubmittedPlan) -> bool:
        cluster = self.state.cluster
        if cluster.listed_at_ms < submission.since_ms:
            return False
        names = {order.tp.topic for order in submission.event.moves}
        if any(cluster.topics_at_ms.get(name, -1) < submission.since_ms for name in names):
            return False
        return submission.sizes_known and not submission.doubtful(self.state, self._now_ms)

    def _batch(self, records: Sequence[JournalRecord], out: Collected) -> JournalBatch | None:
        if not records:
            out.replies.extend(self._replies)
            self._replies = []
            return None
        first = self.state.next_sequence
        entries = tuple(
            JournalEntry(first + index, self._now_ms, self._cause, record) for index, record in enumerate(records)
        )
        batch = JournalBatch(self._new_id(), entries)
        self._outstanding = _Outstanding(batch, self._replies)
        self._replies = []
        return batch

    def _send_log_dirs(self, held: set[TopicPartition | None], wanted: dict[ThrottleKey, str], out: Collected) -> None:
        limited = self.state.options.log_dir_throttle is not None
        rates = {key: value for key, value in wanted.items() if key.setting == LOG_DIR_RATE} if limited else {}
        throttled = gate(self.state, self.book, rates, self._now_ms)
        due = give_up_copies(self.state, held)
        if self._window_open():
            # Steps that are being written count towards the same bounds, and the state does not have them yet.
            entries = () if self._outstanding is None else self._outstanding.batch.entries
            begins = any(isinstance(entry.record, StepBegun) for entry in entries)
            due += due_log_dirs(self.state, held, throttled, self._now_ms, out, begins=not begins)
        if due:
            request = AlterLogDirs(self._new_id(), tuple(due))
            self._log_dirs[request.request_id] = request.replicas
            note_asked(self.state, request, self._now_ms)
            out.requests.append(request)
        look(self.book, throttled, self._now_ms, out)

    def _window_open(self) -> bool:
        return is_open(self.state.options.window, self._now_ms, self._utc_offset_minutes)

    def _send_steps(self, held: set[TopicPartition | None], out: Collected) -> None:
        stepping = self.state.stepping()
        due = [move for move in stepping if move.status.standing is Standing.UNASKED and move.tp not in held]
        for keeps in (True, False):
            alike = [move for move in due if move.step is not None and move.step.keeps_factor is keeps]
            for first in range(0, len(alike), REQUEST_PARTITIONS):
                self._ask(alike[first : first + REQUEST_PARTITIONS], out, keeps_factor=keeps)

    def _ask(self, moves: Sequence[Move], out: Collected, *, keeps_factor: bool) -> None:
        request_id = self._new_id()
        targets: list[tuple[TopicPartition, Replicas | None]] = []
        for move in moves:
            assert move.step is not None
            move.note(StepTrigger.SENT, request_id=request_id)
            targets.append((move.tp, None if move.step.cancels else move.step.after))
        self._requests[request_id] = tuple(tp for tp, _replicas in targets)
        out.requests.append(AlterReassignments(request_id, tuple(targets), keeps_factor))

    def _maybe_close(self, out: Collected) -> list[JournalRecord]:
        if self.state.at_work or self._awaits_throttles(out):
            return []
        return close_ended(self.state)

    def _awaits_throttles(self, out: Collected) -> bool:
        """Whether throttles are still to be given back at brokers that may be up soon."""
        if not self.state.throttles:
            return False
        if self._idle_since_ms is None:
            self._idle_since_ms = self._now_ms
        due = waited_until_ms(self.state, self._idle_since_ms, self._now_ms)
        if due is not None:
            out.wake(due)
        return due is not None

    def _maybe_finish(self, out: Collected) -> None:
        if self.state.at_work or self._submissions or self._commands or self._requests:
            return
        if self.state.running or self._awaits_throttles(out):
            return
        self._tell_debts(out)
        out.finish = Finish(outcomes(self.state))

    def _tell_debts(self, out: Collected) -> None:
        keys = self.state.throttles.keys()
        names = told_debts(keys)
        if names and names != self._told_debts:
            out.notices.append(Notice("throttles-owed", names, f"throttles are owed to {names}: {told_way_out(keys)}"))
        self._told_debts = names

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id
