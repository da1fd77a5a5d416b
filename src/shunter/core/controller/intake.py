"""Takes events in: a fact changes the state at once; work that needs a decision becomes a mark or a task.

Every `on_…` returns effects: requests and replies that need no write, and notices. Marks and tasks go into the queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from shunter.core.controller import changes as applied
from shunter.core.controller.brokers.answers import Answers
from shunter.core.controller.brokers.broker_requests import BrokerRequests
from shunter.core.controller.brokers.departures import Departures
from shunter.core.controller.brokers.isolation import Isolation
from shunter.core.controller.brokers.liveness import Liveness
from shunter.core.controller.brokers.ourselves import disown, maybe_register
from shunter.core.controller.brokers.rebalance import Rebalance
from shunter.core.controller.changes import Changes
from shunter.core.controller.draft import Draft
from shunter.core.controller.events import (
    AlterPartitionReceived,
    BrokerIdentified,
    CancelZnodeFound,
    ConfigsRead,
    ConnectionChanged,
    ControlledShutdownRequested,
    ElectionRequested,
    Event,
    ExtraReassignmentsFound,
    LegacyReassignmentsFound,
    LogDirsFailed,
    PartitionsRead,
    PartitionsSubmitted,
    ProducerIdsRequested,
    ReassignmentRequestsFound,
    ReassignmentsSubmitted,
    ReplicasFailed,
    ReplyToken,
    RequestAnswered,
    TimePassed,
    TopicDeletionsFound,
    TopicDeletionsSubmitted,
    TopicsRead,
    TopicsSubmitted,
)
from shunter.core.controller.full_state import FullState
from shunter.core.controller.moves import owed_replicas, pauses
from shunter.core.controller.moves.adoption import Adoption
from shunter.core.controller.moves.reassignments import Moves
from shunter.core.controller.moves.submissions import Submissions
from shunter.core.controller.moves.znode_protocols import ZnodeProtocols
from shunter.core.controller.outbox import Outbox
from shunter.core.controller.ready import Read, ReadPartitions, Reply, Request
from shunter.core.controller.review import Reason, Reviews
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import Priority, TaskQueue
from shunter.core.controller.topics import ids as topic_ids
from shunter.core.controller.topics.client_requests import ClientRequests
from shunter.core.controller.topics.deletions import BEGUN_AT_ONCE, Deletions
from shunter.core.controller.topics.replies import TopicReplies
from shunter.core.wording import counted
from shunter.errors import ErrorCode
from shunter.model.broker import Broker
from shunter.model.notice import Notice
from shunter.model.partition import BrokerId, TopicPartition
from shunter.model.reassignment import Phase
from shunter.model.records import (
    PutDeletionMark,
    PutPartition,
    Record,
)
from shunter.model.settings import ControllerSettings
from shunter.model.snapshot import ClusterSnapshot

Effects = tuple[list[Request], list[tuple[ReplyToken, Reply]], list[Notice]]

CHECK_EVERY_MS = 1_000
READ_AGAIN_EVERY_MS = 10_000
MOVES_READ_EVERY_MS = 1_000
MOVES_READ_AT_ONCE = 500


@dataclass(slots=True)
class Intake:
    """Turns events into facts and tasks. One instance per term."""

    state: ControllerState
    settings: ControllerSettings
    outbox: Outbox
    queue: TaskQueue = field(default_factory=TaskQueue)
    now_ms: int = 0
    """The time, for work that is done in turns; the machine sets it before each turn."""
    next_check_ms: int | None = None
    read_again_ms: int | None = None
    moves_due_ms: int | None = None
    moves_unread: list[TopicPartition] = field(default_factory=list[TopicPartition])
    """Partitions that moved when `look_at_moves` began its round, and that it has not read since."""
    moves: Moves = field(init=False)
    adoption: Adoption = field(init=False)
    reviews: Reviews = field(init=False)
    liveness: Liveness = field(init=False)
    deletions: Deletions = field(init=False)
    submissions: Submissions = field(init=False)
    rebalance: Rebalance = field(init=False)
    znodes: ZnodeProtocols = field(init=False)
    answers: Answers = field(init=False)
    isolation: Isolation = field(init=False)
    departures: Departures = field(init=False)
    broker_requests: BrokerRequests = field(init=False)
    client_requests: ClientRequests = field(init=False)
    topic_replies: TopicReplies = field(init=False)

    def __post_init__(self) -> None:
        """Join the parts that share the state and the queue."""
        self.moves = Moves(self.state, self.settings)
        self.adoption = Adoption(self.state, self.settings, self.moves)
        self.topic_replies = TopicReplies(self.outbox)
        self.reviews = Reviews(self.state, self.settings, self.queue, self.moves, self.adoption, self.topic_replies)
        self.deletions = Deletions(self.state, self.outbox, self.queue, self.moves, self.reviews)
        self.liveness = Liveness(self.state, self.outbox, self.queue, self.reviews, self.deletions)
        self.submissions = Submissions(self.state, self.settings, self.queue, self.moves, self.adoption)
        self.rebalance = Rebalance(self.state, self.settings, self.queue)
        self.znodes = ZnodeProtocols(self.state, self.settings, self.queue, self.moves, self.adoption, self.reviews)
        self.answers = Answers(self.state, self.outbox)
        self.isolation = Isolation(self.state, self.settings, self.outbox)
        self.departures = Departures(self.outbox)
        self.broker_requests = BrokerRequests(self.state, self.queue, self.reviews, self.departures)
        self.client_requests = ClientRequests(self.state, self.settings, self.queue, self.reviews, self.topic_replies)

    def use(self, settings: ControllerSettings, now_ms: int) -> None:
        """Decide by other settings from now on, and begin the moves that they allow to begin."""
        self.settings = settings
        for part in (
            self.moves,
            self.adoption,
            self.submissions,
            self.znodes,
            self.client_requests,
            self.isolation,
        ):
            part.settings = settings
        self.rebalance.use(settings, now_ms)
        self.reviews.on_settings_changed(settings)

    def start_up(self, snapshot: ClusterSnapshot) -> Iterator[tuple[int, Effects]]:
        """The cluster was read: tell the brokers, then mend what has changed while there was no controller.

        The work is done in pieces, so that the rest of the process gets turns in between. No other event may be taken
        in before the last piece.

        Yields:
            How many partitions the piece looked at, and its effects. `now_ms` may be set anew after each piece.
        """
        notices = [Notice("unreadable", path, f"{why}; it is left out") for path, why in snapshot.unreadable]
        applied.apply_snapshot(self.state, snapshot)
        everyone = self.outbox.others()
        full = FullState(self.state, everyone)
        for topic in snapshot.topics:
            full.add(applied.take_in(self.state, topic))
            yield len(topic.topic.assignments), ([], [], [])
        applied.tell_older_debts_apart(self.state)
        requests: list[Request] = [self.outbox.connect()]
        requests += self.outbox.full_metadata(everyone, self.now_ms, full)
        requests += self.deletions.clear_the_way(everyone, self.now_ms)
        yield len(full.metadata), (requests, [], notices)
        for broker in everyone:
            request = self.outbox.hosted_by(broker, full, self.now_ms)
            yield len(full.hosted.pop(broker)), ([request], [], [])
        paused = pauses.woken(self.state, self.state.reassignments)
        yield len(paused), (self.outbox.stop_replicas(paused, self.now_ms, delete=False), [], [])
        disown(self.state, self.queue)
        self.deletions.forgive_controllers()
        self.reviews.start_up()
        yield len(full.metadata), ([], [], owed_replicas.kept(self.state))
        self.rebalance.schedule(self.now_ms)
        told = self.znodes.start_up()
        self.deletions.strike_off(snapshot.deleting_topics)
        yield len(full.metadata), (self.deletions.resume(everyone, self.now_ms), [], told)

    def in_charge(self) -> Notice:
        """The notice that says what kind of cluster this controller controls now."""
        state = self.state
        partitions = [partition for topic in state.topics.values() for partition in topic.partitions.values()]
        leaderless = sum(leadership is None or leadership.leader not in state.brokers for _, leadership in partitions)
        told = (
            f"epoch {state.controller_epoch}: {counted(len(self.outbox.others()), 'broker')}, {counted(len(state.topics), 'topic')}, "
            f"{counted(len(partitions), 'partition')} ({leaderless} without a leader), {counted(len(state.reassignments), 'move')} under way"
        )
        if not self.outbox.others() and not partitions:
            told += "; if that is wrong, check that the chroot of --zookeeper is the brokers'"
        return Notice("in-charge", "controller", told)

    def take(self, event: Event, now_ms: int, cause: str) -> Effects:
        """Dispatch one event; tasks that it asks for carry its cause."""
        self.queue.cause = cause
        match event:
            case BrokerIdentified(broker, epoch, looks_us_up):
                self.state.look_us_up[broker] = (epoch, looks_us_up)
                self.isolation.reached()
                maybe_register(self.state, self.queue)
            case TopicsRead():
                return self.on_topics_read(event, now_ms)
            case PartitionsRead():
                return self.on_partitions_read(event, now_ms)
            case ReplicasFailed(broker, partitions):
                return [], [], self._replicas_failed(broker, list(partitions))
            case RequestAnswered():
                return self.on_request_answered(event, now_ms)
            case ConnectionChanged():
                return [], [], self.on_connection_changed(event)
            case AlterPartitionReceived():
                return [], self.broker_requests.on_alter_partition_received(event), []
            case ControlledShutdownRequested():
                return [], self.broker_requests.on_controlled_shutdown_requested(event), []
            case ProducerIdsRequested():
                return [], self.broker_requests.on_producer_ids_requested(event), []
            case ReassignmentsSubmitted():
                return [], self.submissions.on_submitted(event), []
            case LegacyReassignmentsFound(legacy):
                return [], [], self.znodes.on_legacy_found(legacy)
            case ExtraReassignmentsFound(extra):
                return [], [], self.znodes.on_extra_found(extra)
            case CancelZnodeFound(czxid):
                return [], [], self.znodes.on_cancel_found(czxid)
            case ReassignmentRequestsFound(requests):
                return [], [], self.znodes.on_requests_found(requests)
            case ElectionRequested():
                self.client_requests.on_election_requested(event)
            case TopicsSubmitted():
                return [], self.client_requests.on_topics_submitted(event), []
            case PartitionsSubmitted():
                return [], self.client_requests.on_partitions_submitted(event), []
            case TopicDeletionsSubmitted():
                return [], self.client_requests.on_topic_deletions_submitted(event), []
            case TopicDeletionsFound(names):
                return self.deletions.on_marked(names, now_ms), [], []
            case ConfigsRead():
                self.on_configs_read(event)
            case LogDirsFailed(brokers):
                live = [broker for broker in brokers if broker in self.state.brokers]
                return self.end_round(now_ms) + self.outbox.full_leader_and_isr(live, now_ms), [], []
            case TimePassed():
                self.on_time_passed(now_ms)
            case _:
                pass
        return [], [], []

    # ---- facts

    def on_brokers_read(self, brokers: tuple[Broker, ...], now_ms: int) -> Iterator[tuple[int, Effects]]:
        """Take in the live brokers, in pieces as `start_up` does. Brokers that came are told everything."""
        came, went = applied.brokers_changed(self.state, {broker.id: broker.epoch for broker in brokers})
        self.answers.forget({*came, *went})
        if came:
            yield 0, (self.end_round(now_ms), [], [])
        for count, requests in self.liveness.on_brokers_read(brokers, now_ms):
            yield count, (requests, [], [])

    def go_on_deleting(self) -> Iterator[tuple[int, Effects]]:
        """Begin the deletion of topics with many partitions, in pieces as `start_up` does."""
        while self.deletions.under_way:
            yield BEGUN_AT_ONCE, (self.deletions.go_on(self.now_ms), [], [])
        self.topic_replies.announce(self.now_ms, self.settings.slow_broker_ms)

    def on_topic_ids_agreed(self, used: bool, now_ms: int) -> Iterator[tuple[int, Effects]]:
        """Take in whether topics have ids, in pieces as `start_up` does. If that changed, all brokers are told again.

        A broker that has the leader epoch already takes the id from the new request, or fetches by name from then on
        (Apache: `ReplicaManager.becomeLeaderOrFollower`).
        """
        changed = self.state.topic_ids is not None
        yield 0, (self.end_round(now_ms), [], topic_ids.agree(self.state, self.queue, now_ms, used=used))
        if changed:
            for count, requests in self.liveness.tell_again(self.outbox.others(), now_ms):
                yield count, (requests, [], [])

    def announce(self, changes: Changes, now_ms: int) -> list[Request]:
        """Tell the brokers what changed, with the round that is held, and queue the work that follows."""
        held = self.outbox.end_round()
        held.add(changes)
        requests = self.outbox.leader_and_isr(held, now_ms)
        requests += self.outbox.stop_replicas(pauses.woken(self.state, held.led), now_ms, delete=False)
        requests += self.outbox.note_metadata(held, now_ms)
        self.deletions.forget(changes.deleted)
        requests += self.deletions.extend(changes.led, now_ms)
        self.reviews.on_changed(changes)
        return requests

    def end_round(self, now_ms: int) -> list[Request]:
        """Tell the brokers what is held for them, if anything is."""
        return self.announce(Changes(), now_ms) if self.outbox.round is not None else []

    def on_topics_read(self, event: TopicsRead, now_ms: int) -> Effects:
        """Topics were created, grew, were written by another process, or were removed."""
        changes, left_out = Changes(), self.state.left_out
        for topic in event.topics:
            changes.add(applied.apply_topic_read(self.state, topic))
        for name in event.gone:
            changes.add(applied.apply_topic_gone(self.state, name))
            self.deletions.close_moves(name)
        applied.apply_topics_unreadable(self.state, event.unreadable)
        applied.tell_older_debts_apart(self.state)
        topic_ids.give_ids(self.state, self.queue, (read.topic.name for read in event.topics), now_ms)
        notices = topic_ids.put_back(self.state, self.queue, (read.topic for read in event.topics))
        # While a topic could not be read, no broker was asked to delete its replicas, or those of older topics of that
        # name.
        readable = left_out.topics - self.state.left_out.topics
        everyone = self.outbox.others() if readable else ()
        requests = self.deletions.clear_the_way(everyone, now_ms, readable)
        requests += self.announce(changes, now_ms)
        requests += self.deletions.resume(everyone, now_ms) if readable else []
        return requests, [], notices + owed_replicas.kept(self.state, changes.led)

    def on_partitions_read(self, event: PartitionsRead, now_ms: int) -> Effects:
        """A broker before 2.7 wrote an ISR itself and announced it, or an unreadable state znode was mended."""
        changes = Changes()
        for tp in sorted(event.states):
            changes.add(applied.apply_leadership_read(self.state, tp, event.states[tp]))
        told = changes.isr.union(changes.led, changes.mended)
        self.reviews.mark(Reason.ISR_READ, [tp for tp in sorted(told) if tp in self.state.reassignments])
        return self.announce(changes, now_ms), [], []

    def on_request_answered(self, event: RequestAnswered, now_ms: int) -> Effects:
        """A broker answered: the barrier may open, deletions may be done, a log dir may turn out to have failed.

        A late answer, from before the broker's restart, has no consequence: the broker was told everything again, and
        its log dirs may have been mended.
        """
        if not self.outbox.awaits(event.request_id, event.broker):
            return [], [], []
        self.isolation.reached()
        stop = (event.request_id, event.broker) in self.outbox.stops
        notices = self.answers.on_answered(event, stop=stop, now_ms=now_ms)
        self.outbox.note_created(event.request_id, event.broker, event.error, self.answers.refused_replicas(event))
        self.liveness.on_replicas_served(event.broker, self.answers.served_again(event))
        asked = self.outbox.answered(event.request_id, event.broker)
        self.deletions.on_acknowledged(event, asked)
        failed = [tp for tp, error in event.partition_errors.items() if error is ErrorCode.KAFKA_STORAGE_ERROR]
        if failed:
            notices += self._replicas_failed(event.broker, failed)
        return self.outbox.maybe_metadata(now_ms), [], notices

    def _replicas_failed(self, broker: BrokerId, failed: list[TopicPartition]) -> list[Notice]:
        self.liveness.on_replicas_failed(broker, failed)
        told = f"{counted(len(failed), 'replica is', 'replicas are')} on a failed log dir, {failed[0]} for one"
        return [Notice("log-dir-failed", f"broker {broker}", told)]

    def on_connection_changed(self, event: ConnectionChanged) -> list[Notice]:
        """A broker can't be reached, or can be reached again. Nothing waits for an unreachable broker's answers."""
        known = self.state.brokers.get(event.broker)
        if known is None or known.epoch != event.broker_epoch:
            return []
        self.outbox.connection_changed(event.broker, reachable=event.reachable)
        if event.reachable:
            self.isolation.reached()
            return [Notice("broker-reachable", f"broker {event.broker}", "there is a connection to it again")]
        told = "it is registered, but there is no connection to it: nobody waits for it, and its requests are kept in order"
        return [Notice("broker-unreachable", f"broker {event.broker}", told)]

    def tell_again(self, now_ms: int) -> Iterator[tuple[int, Effects]]:
        """Tell brokers again what they refused, in pieces as `start_up` does."""
        held = self.end_round(now_ms)
        everything, requests = self.answers.take_due(now_ms)
        yield 0, (held + requests, [], [])
        for count, found in self.liveness.tell_again(everything, now_ms) if everything else ():
            yield count, (found, [], [])
        self.answers.handed_out()

    def on_configs_read(self, event: ConfigsRead) -> None:
        """Dynamic configuration changed; elections that became possible are tried."""
        self.state.configs_read += 1
        for name, configs in event.topics.items():
            topic = self.state.topics.get(name)
            if topic is not None:
                topic.configs = dict(configs)
        for broker, configs in event.brokers.items():
            self.state.broker_configs[broker] = dict(configs)
        changed = self.state.topics if event.brokers else sorted(event.topics)
        self.reviews.mark(Reason.LEADERLESS, self.reviews.leaderless(changed))
        # A rollback waits for as many originals as min.insync.replicas asks for.
        waiting = [tp for tp in sorted(self.state.waiting) if event.brokers or tp.topic in event.topics]
        self.reviews.mark(Reason.CONFIG_CHANGED, waiting)

    def on_time_passed(self, now_ms: int) -> None:
        """Look at moves that wait, at most once a second, and at the balance of leaders when that is due."""
        self.rebalance.on_time_passed(now_ms)
        if self.next_check_ms is None or now_ms < self.next_check_ms:
            return
        self.next_check_ms = None
        waiting = sorted(self.state.waiting)
        if waiting:
            self.next_check_ms = now_ms + CHECK_EVERY_MS
            self.reviews.mark(Reason.STILL_WAITS, waiting)

    def read_again(self, now_ms: int) -> list[Read]:
        """Read state znodes that can't be read again every ten seconds, because nothing watches them."""
        if not self.state.unreadable:
            self.read_again_ms = None
            return []
        if self.read_again_ms is None or now_ms >= self.read_again_ms:
            due = self.read_again_ms is not None
            self.read_again_ms = now_ms + READ_AGAIN_EVERY_MS
            return [ReadPartitions(tuple(sorted(self.state.unreadable)))] if due else []
        return []

    def look_at_moves(self, now_ms: int) -> list[Read]:
        """Read the states of moving partitions every second, if brokers write ISRs themselves (before 2.7).

        A broker whose protocol is older than 2.7-IV2 announces what it wrote after five to sixty seconds. Apache's
        controller watches the states of moving partitions. If more move than are read at once, each is read in its turn.
        """
        if self.state.topic_ids is not False or not self.state.reassignments:
            self.moves_due_ms = None
            return []
        if self.moves_due_ms is None or now_ms < self.moves_due_ms:
            self.moves_due_ms = self.moves_due_ms or now_ms + MOVES_READ_EVERY_MS
            return []
        self.moves_due_ms = now_ms + MOVES_READ_EVERY_MS
        self.moves_unread = self.moves_unread or [tp for tp in self.state.reassignments if self._moves(tp)]
        turn, self.moves_unread = self.moves_unread[:MOVES_READ_AT_ONCE], self.moves_unread[MOVES_READ_AT_ONCE:]
        moving = tuple(tp for tp in turn if self._moves(tp))
        return [ReadPartitions(moving)] if moving else []

    def _moves(self, tp: TopicPartition) -> bool:
        """Whether steps of a partition's move are being taken."""
        move = self.state.reassignments.get(tp)
        return move is not None and move.phase in {Phase.MOVING, Phase.ROLLING_BACK}

    # ---- after a write

    def committed(
        self, draft: Draft, records: tuple[Record, ...], changes: Changes, now_ms: int, left: Priority | None
    ) -> Effects:
        """A draft is durable: tell the brokers, and queue the work that follows.

        `left`: the priority of the draft, if more of it is left. Then leaders and ISRs wait for the end of the round.
        """
        stops = draft.dropped or draft.stopped or draft.relieved
        if left is not None and not stops and all(isinstance(record, PutPartition) for record in records):
            requests: list[Request] = []
            self.outbox.hold(left, changes, now_ms)
            self.reviews.on_changed(changes)
        else:
            requests = self.announce(changes, now_ms)
        self.reviews.on_written(draft)
        requests += self.outbox.stop_replicas(pauses.still(self.state, draft.stopped), now_ms, delete=False)
        leaving = {tp: brokers & self.state.shutting_down for tp, brokers in draft.relieved.items()}
        requests += self.outbox.stop_replicas(leaving, now_ms, delete=False)
        requests += self.outbox.stop_replicas(draft.dropped, now_ms, delete=True)
        self.deletions.on_brokers_lost(draft.dropped_of_the_dead())
        requests += self.deletions.ask_who_is_back(records, now_ms)
        marked = [record.name for record in records if isinstance(record, PutDeletionMark)]
        if marked:
            requests += self.deletions.begin(marked, now_ms)
        if self.outbox.round is None:
            self.departures.handed_out(now_ms)
        self.submissions.on_committed(draft)
        self.znodes.on_committed(draft)
        if self.state.waiting and self.next_check_ms is None:
            self.next_check_ms = now_ms + CHECK_EVERY_MS
        self.client_requests.on_written(records)
        if self.outbox.round is None and not self.deletions.under_way:
            self.topic_replies.announce(now_ms, self.settings.slow_broker_ms)
        return requests, [], []
