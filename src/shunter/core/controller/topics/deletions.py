"""Deletions of replicas and topics: asked for, acknowledged, owed by dead brokers, and closed.

They are asked for at once, not in a review: in a broker's queue a deletion has to come before the LeaderAndIsr that
places the replica anew, or not at all. Source: docs/decisions/0012-owed-deletions.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from shunter.core.controller.changes import Changes
from shunter.core.controller.draft import Draft
from shunter.core.controller.events import RequestAnswered
from shunter.core.controller.moves.owed_replicas import owed_by
from shunter.core.controller.moves.reassignments import Moves, dropped_before
from shunter.core.controller.outbox import Outbox
from shunter.core.controller.ready import Request
from shunter.core.controller.review import Reason, Reviews
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import Priority, Task, TaskQueue
from shunter.errors import ErrorCode
from shunter.model.notice import Notice
from shunter.model.partition import EPOCH_DURING_DELETE, BrokerId, PartitionState, Replicas, TopicPartition
from shunter.model.records import DeleteQueueEntry, DeleteTopic, PutOwedDeletion, Record

BEGUN_AT_ONCE = 2_000
"""How many partitions of topics being deleted brokers are told of in one turn: some 15 ms of work."""


@dataclass(slots=True)
class _Asked:
    """Replicas that brokers are asked to delete, by partition."""

    present: dict[TopicPartition, set[BrokerId]] = field(default_factory=dict[TopicPartition, set[BrokerId]])
    left_over: dict[TopicPartition, set[BrokerId]] = field(default_factory=dict[TopicPartition, set[BrokerId]])
    """Replicas of older topics: their leader epochs are not those of the present topics of these names."""

    def add(self, tp: TopicPartition, broker: BrokerId, *, left_over: bool = False) -> None:
        """Ask a broker too."""
        (self.left_over if left_over else self.present).setdefault(tp, set()).add(broker)


@dataclass(slots=True)
class Deletions:
    """Deletions of moves' dropped replicas, of topics' replicas, and of owed replicas; one answer acknowledges all."""

    state: ControllerState
    outbox: Outbox
    queue: TaskQueue
    moves: Moves
    reviews: Reviews
    remaining: dict[str, set[tuple[TopicPartition, BrokerId]]] = field(
        default_factory=dict[str, set[tuple[TopicPartition, BrokerId]]]
    )
    """By topic that is being deleted: replicas whose deletion is not acknowledged, including those on dead brokers."""
    untold: list[tuple[TopicPartition, PartitionState]] = field(
        default_factory=list[tuple[TopicPartition, PartitionState]]
    )
    """Partitions of topics that are being deleted, whose brokers were not told yet."""
    untold_topics: list[str] = field(default_factory=list[str])
    """The topics of these partitions; some may have no replica at all."""

    # ---- topics

    def begin(self, names: Iterable[str], now_ms: int) -> list[Request]:
        """Delete topics: their moves end, clients are told, replicas are deleted, dead brokers are waited for.

        Brokers are told of the first `BEGUN_AT_ONCE` partitions at once. `go_on` tells them of the others, before
        anything else is taken in.
        """
        fresh = [name for name in sorted(set(names) - set(self.remaining)) if name in self.state.topics]
        for name in fresh:
            self.state.deleting.add(name)
            self.close_moves(name)
            self.remaining[name] = set()
            topic = self.state.topics[name]
            self.untold += [(TopicPartition(name, number), partition) for number, partition in topic.partitions.items()]
        self.untold_topics += fresh
        return self.go_on(now_ms) if fresh else []

    @property
    def under_way(self) -> bool:
        """Whether brokers still have to be told of partitions of topics that are being deleted."""
        return bool(self.untold)

    def go_on(self, now_ms: int) -> list[Request]:
        """Tell brokers of some more partitions that are being deleted."""
        some, self.untold = self.untold[:BEGUN_AT_ONCE], self.untold[BEGUN_AT_ONCE:]
        stop = {tp: self._holders(tp, partition) for tp, partition in some}
        for tp, holders in stop.items():
            self.remaining[tp.topic].update((tp, broker) for broker in holders)
        requests = self.outbox.note_metadata(Changes(isr=set(stop), urgent=True), now_ms)
        requests += self.outbox.stop_replicas(stop, now_ms, delete=True)
        if not self.untold:
            for name in self.untold_topics:
                if not self.remaining[name]:
                    self._queue_deletion(name)
            self.untold_topics.clear()
        return requests

    def extend(self, placed: Mapping[TopicPartition, Replicas], now_ms: int) -> list[Request]:
        """Replicas were placed after a topic's deletion had begun: by a write that was under way, or by another tool.

        Their brokers may never have been told of the topic. They are asked to delete all the same: a broker that owed
        the deletion of an older replica of that partition still holds the older replica, even if the same write struck
        the debt off.
        """
        stop: dict[TopicPartition, set[BrokerId]] = {}
        for tp, before in placed.items():
            left, partition = self.remaining.get(tp.topic), self.state.partition(tp)
            if left is None or partition is None:
                continue
            come = set(partition.assignment.replicas) - self.state.controllers.union(before)
            left.update((tp, broker) for broker in come)
            if come:
                stop[tp] = come
        return self.outbox.stop_replicas(stop, now_ms, delete=True)

    def on_marked(self, names: Iterable[str], now_ms: int) -> list[Request]:
        """The deletion queue names topics: delete those that exist, and remove the others from the queue."""
        marked = set(names)
        left_out = self.state.left_out
        self.state.left_out = left_out._replace(deleting=left_out.deleting | marked & left_out.topics)
        self.strike_off(marked)
        return self.begin(marked & self.state.topics.keys(), now_ms)

    def strike_off(self, names: Iterable[str]) -> None:
        """Remove entries of the deletion queue that name no topic, as Apache does.

        An entry that stayed would, at the next failover, delete a topic that was created with that name since.
        """
        stray = sorted(set(names) - self.state.topics.keys() - self.state.left_out.topics)
        if stray:
            self.queue.add(Task(Priority.CLEANUP, stray, _strike_off))

    def _holders(self, tp: TopicPartition, partition: PartitionState) -> set[BrokerId]:
        """Brokers that hold a replica: assigned ones, and live ones that a move dropped and that may not know that yet.

        If the record of the move can't be read, any live broker may hold one. A controller holds none, even if a broker
        placed one there.
        """
        if tp in self.state.left_out.moves:
            return {*partition.assignment.replicas, *self.state.brokers} - self.state.controllers
        move = self.state.reassignments.get(tp)
        dropped = dropped_before(move, partition.assignment) if move is not None else ()
        live = (broker for broker in dropped if broker in self.state.brokers)
        return {*partition.assignment.replicas, *live} - self.state.controllers

    def close_moves(self, name: str) -> None:
        """A topic is being deleted: mark its moves, which end with it."""
        self.reviews.mark(Reason.TOPIC_GOES, [tp for tp in self.state.reassignments if tp.topic == name])

    def _queue_deletion(self, name: str) -> None:
        self.queue.add(Task(Priority.NORMAL, (name,), self._delete_topic))

    def _delete_topic(self, draft: Draft, name: str) -> None:
        topic = self.state.topics.get(name)
        if topic is not None and name in self.state.deleting and not self.remaining.get(name):
            record = DeleteTopic(name, tuple(sorted(topic.partitions)))
            if record in draft.other_records:
                return  # The task was queued twice: another replica was placed and deleted after the last one had gone.
            draft.other_records.append(record)
            draft.owed_replicas_of(name).clear()
            self._owe_for_good(draft, name)
            self._owe_dropped(draft, name)
            # A move that was being written when the deletion began was not closed with the topic's other moves.
            draft.ended = True
            self.moves.forget_legacy(draft, {TopicPartition(name, number) for number in topic.partitions})

    def _owe_for_good(self, draft: Draft, name: str) -> None:
        """Mark deletions owed for a topic by `EPOCH_DURING_DELETE`: they stay owed when a new topic gets its name."""
        for broker, owed in self.state.owed_deletions.items():
            for tp, epoch in owed.partitions:
                if tp.topic == name and epoch != EPOCH_DURING_DELETE:
                    draft.owe(broker, tp, EPOCH_DURING_DELETE)

    def _owe_dropped(self, draft: Draft, name: str) -> None:
        """Note as owed the replicas that only the records of a topic's moves name: these records go with the topic."""
        for tp in sorted(each for each in self.state.left_out.moves if each.topic == name):
            told = "the record of its move can't be read: a broker that is dead now may keep a replica of it"
            draft.notices.append(Notice("not-owed", str(tp), told))
        for tp, move in self.state.reassignments.items():
            partition = self.state.partition(tp) if tp.topic == name else None
            for broker in dropped_before(move, partition.assignment) if partition is not None else ():
                if broker not in self.state.brokers or (broker, tp) in self.moves.refused:
                    draft.owe(broker, tp, EPOCH_DURING_DELETE)

    def clear_the_way(
        self, came: Iterable[BrokerId], now_ms: int, topics: frozenset[str] | None = None
    ) -> list[Request]:
        """Have brokers delete replicas of deleted topics before they are told of new topics of the same names.

        A broker that still has the older replica refuses the new one, because the topic id differs. A replica that is
        in sync has deleted every older log of this topic.

        Args:
            came: Brokers that are about to be told of new topics for the first time. Later these requests would delete
                replicas of the new topics, too.
            now_ms: The time.
            topics: Delete replicas of these topics alone; None: of all.
        """
        stop: dict[TopicPartition, set[BrokerId]] = {}
        for broker in came:
            owed = self.state.owed_deletions.get(broker)
            for tp, epoch in owed.partitions if owed is not None else ():
                due = epoch == EPOCH_DURING_DELETE and (topics is None or tp.topic in topics)
                if due and self._placed_anew(tp, broker):
                    stop.setdefault(tp, set()).add(broker)
        return self.outbox.stop_replicas(stop, now_ms, delete=True, older=stop)

    def _placed_anew(self, tp: TopicPartition, broker: BrokerId) -> bool:
        partition = self.state.partition(tp)
        if partition is None or broker not in partition.assignment.replicas:
            return False
        return partition.leadership is None or broker not in partition.leadership.isr

    def forget(self, deleted: list[TopicPartition]) -> None:
        """Forget the notes about partitions that do not exist any more."""
        for name in sorted({tp.topic for tp in deleted}):
            if name not in self.state.deleting:  # The topic is gone, or was created again, as another topic.
                self.remaining.pop(name, None)
        for tp in deleted:
            if tp.topic not in self.state.topics:
                self.state.waiting.pop(tp, None)
                self.moves.undeleted.pop(tp, None)

    # ---- acknowledgements

    def on_acknowledged(self, event: RequestAnswered, asked: tuple[TopicPartition, ...]) -> None:
        """A broker answered a request to delete replicas."""
        if not asked:
            return
        if event.error is not ErrorCode.NONE:
            self._refused(event.broker, list(asked))
            return
        gone = tuple(tp for tp in asked if tp not in event.partition_errors)
        self.moves.refused.difference_update((event.broker, tp) for tp in gone)
        failed = [tp for tp in asked if tp in event.partition_errors]
        self._note_deleted(event.broker, gone)
        self.reviews.mark(Reason.DELETED, self.moves.note_deleted(event.broker, gone))
        settled = tuple(tp for tp in gone if self.state.owes(event.broker, tp))
        if settled:
            self.queue.add(Task(Priority.CLEANUP, ((event.broker, settled),), _settle))
            self.reviews.mark(Reason.OLDER_GONE, settled)
            self.reviews.mark(Reason.REPLICA_OWED, owed_by(self.state, {tp.topic for tp in settled}))
        if failed:
            self._refused(event.broker, failed)

    def _refused(self, broker: BrokerId, partitions: list[TopicPartition]) -> None:
        # If a replica was assigned and dropped again meanwhile, the answer to the second request counts.
        pending = {tp for (_, asked), later in self.outbox.deletions.items() if asked == broker for tp in later}
        refused = [tp for tp in partitions if tp not in pending]
        self.moves.refused.update((broker, tp) for tp in refused)
        self.on_brokers_lost({broker: refused})

    def _note_deleted(self, broker: BrokerId, gone: tuple[TopicPartition, ...]) -> None:
        for tp in gone:
            left = self.remaining.get(tp.topic)
            if left is not None and (tp, broker) in left:
                left.discard((tp, broker))
                if not left:
                    self._queue_deletion(tp.topic)

    def on_brokers_lost(self, lost: dict[BrokerId, list[TopicPartition]]) -> None:
        """Brokers died (or failed) before they acknowledged deletions.

        A move's deletion becomes a durable debt; a topic's deletion waits for the broker.
        """
        for broker in sorted(lost):
            over = [(tp, broker) for tp in lost[broker] if not self._waited_for(broker, tp)]
            for tp, _ in over:
                self._note_deleted(broker, (tp,))
            self.reviews.mark(Reason.NOT_DELETED, over)

    def _waited_for(self, broker: BrokerId, tp: TopicPartition) -> bool:
        """Whether a topic's deletion waits for a broker's return. As in Apache, it waits for assigned brokers."""
        partition = self.state.partition(tp)
        return tp.topic in self.remaining and partition is not None and broker in partition.assignment.replicas

    # ---- brokers that came (back), and the start-up

    def resume(self, came: tuple[BrokerId, ...], now_ms: int) -> list[Request]:
        """Ask brokers for deletions that they owe: of topics being deleted, of former steps, of moves meanwhile."""
        requests = self.begin(self.state.deleting, now_ms)
        self.moves.refused = {each for each in self.moves.refused if each[0] not in came}
        asked = _Asked()
        for tp, broker in self._remaining_on(came):
            asked.add(tp, broker)
        for broker in came:
            owed = self.state.owed_deletions.get(broker)
            for tp, epoch in owed.partitions if owed is not None else ():
                self._ask_owed(asked, tp, epoch, broker)
        dead: list[tuple[TopicPartition, BrokerId]] = []
        for tp, broker in self._dropped_by_moves():
            if broker in came:
                asked.add(tp, broker)
                self._wait_for_dropped(tp, broker)
            elif broker not in self.state.brokers and not self.state.owes(broker, tp):
                dead.append((tp, broker))
        # These brokers may have died before they were told, and the former controller before it noted the debt.
        self.reviews.mark(Reason.NOT_DELETED, dead)
        return requests + self._ask(asked, now_ms, self._moved_before())

    def _remaining_on(self, brokers: Collection[BrokerId]) -> list[tuple[TopicPartition, BrokerId]]:
        """Replicas on some brokers of topics that are being deleted."""
        names = sorted(name for name in self.remaining if name in self.state.topics)
        return [each for name in names for each in sorted(self.remaining[name]) if each[1] in brokers]

    def _dropped_by_moves(self) -> Iterator[tuple[TopicPartition, BrokerId]]:
        """Replicas that the records of moves name, and that are not assigned any more."""
        for tp, move in self.state.reassignments.items():
            partition = self.state.partition(tp)
            for broker in dropped_before(move, partition.assignment) if partition is not None else ():
                yield tp, broker

    def _wait_for_dropped(self, tp: TopicPartition, broker: BrokerId) -> None:
        """A broker is asked to delete what a move dropped: the move's record waits for that, and so does its topic."""
        self.moves.undeleted.setdefault(tp, set()).add(broker)
        if tp.topic in self.remaining:
            self.remaining[tp.topic].add((tp, broker))

    def _moved_before(self) -> set[TopicPartition]:
        """Partitions whose move is of an older topic of that name."""
        topics = self.state.topics
        return {
            tp
            for tp, move in self.state.reassignments.items()
            if move.topic_id is not None
            and self.state.partition(tp) is not None
            and move.topic_id != topics[tp.topic].topic_id
        }

    def _ask(self, asked: _Asked, now_ms: int, moved_before: Collection[TopicPartition] = ()) -> list[Request]:
        requests = self.outbox.stop_replicas(asked.left_over, now_ms, delete=True, older=asked.left_over)
        return requests + self.outbox.stop_replicas(asked.present, now_ms, delete=True, older=moved_before)

    def ask_who_is_back(self, records: Iterable[Record], now_ms: int) -> list[Request]:
        """Ask brokers that came back while their debt was being written: `resume` looked before there was a debt."""
        asked = _Asked()
        before = {(broker, tp) for (_, broker), partitions in self.outbox.deletions.items() for tp in partitions}
        for record in records:
            if isinstance(record, PutOwedDeletion) and record.broker in self.state.brokers:
                for tp, epoch in record.partitions:
                    if (record.broker, tp) not in before | self.moves.refused:
                        self._ask_owed(asked, tp, epoch, record.broker)
        return self._ask(asked, now_ms)

    def forgive_controllers(self) -> None:
        """Strike off deletions that are owed by a controller's id: no broker could ever carry them out."""
        for broker in sorted(self.state.controllers & self.state.owed_deletions.keys()):
            owed = tuple(tp for tp, _ in self.state.owed_deletions[broker].partitions)
            self.queue.add(Task(Priority.CLEANUP, ((broker, owed),), _settle))

    def _ask_owed(self, asked: _Asked, tp: TopicPartition, epoch: int, broker: BrokerId) -> None:
        """Ask for an owed deletion, unless the replica is assigned again.

        If the broker still has a replica of an older topic, and is to host the present topic too, `clear_the_way` asks
        instead.
        """
        partition = self.state.partition(tp)
        if tp.topic in self.state.left_out.topics:
            return  # The replica may be assigned again. The broker is asked when the topic's znode can be read again.
        if epoch == EPOCH_DURING_DELETE and self._placed_anew(tp, broker):
            return
        if partition is not None and broker in partition.assignment.replicas:
            self.queue.add(Task(Priority.CLEANUP, ((broker, (tp,)),), _settle))
        else:
            asked.add(tp, broker, left_over=epoch == EPOCH_DURING_DELETE)


def _strike_off(draft: Draft, name: str) -> None:
    if name not in draft.state.deleting:
        draft.other_records.append(DeleteQueueEntry("delete_topics", name))


def _settle(draft: Draft, item: tuple[BrokerId, tuple[TopicPartition, ...]]) -> None:
    broker, partitions = item
    if broker in draft.state.owed_deletions or broker in draft.owed:
        draft.settle(broker, partitions)
