"""Requests of clients about leaders and topics: elections, and topics to create, to extend or to delete.

Reassignments are in `submissions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from shunter.core.controller.brokers import elections
from shunter.core.controller.draft import Draft
from shunter.core.controller.events import (
    ElectionRequested,
    NewTopic,
    PartitionsSubmitted,
    ReplyToken,
    TopicDeletionsSubmitted,
    TopicsSubmitted,
)
from shunter.core.controller.ready import PartitionResultsReply, Reply, TopicResult, TopicResultsReply
from shunter.core.controller.review import Reviews
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import Priority, Task, TaskQueue
from shunter.core.controller.topics import changes as topics
from shunter.core.controller.topics.replies import Answer, TopicReplies
from shunter.errors import ErrorCode
from shunter.model.partition import TopicPartition
from shunter.model.records import DeleteQueueEntry, PutTopic, Record
from shunter.model.settings import ControllerSettings

JUDGED_AT_ONCE = 1_000
"""The most topics, and the most partitions of them, that are judged outside the queue."""


@dataclass(slots=True)
class ClientRequests:
    """Turns clients' requests into tasks. One instance per term."""

    state: ControllerState
    settings: ControllerSettings
    queue: TaskQueue
    reviews: Reviews
    topic_replies: TopicReplies

    def on_election_requested(self, event: ElectionRequested) -> None:
        """Preferred or unclean elections, asked for by RPC or znode."""
        everything = event.partitions is None
        partitions = event.partitions if event.partitions is not None else tuple(self._not_preferred())

        def decide(draft: Draft, tp: TopicPartition) -> tuple[TopicPartition, ErrorCode, str | None]:
            if event.unclean:
                return elections.elect_unclean(draft, self.settings, tp)
            return elections.elect_preferred(draft, tp)

        def finish(
            results: list[tuple[TopicPartition, ErrorCode, str | None]],
        ) -> list[tuple[ReplyToken, Reply]]:
            told = tuple(
                result for result in results if not (everything and result[1] is ErrorCode.ELECTION_NOT_NEEDED)
            )
            return [(event.reply_to, PartitionResultsReply(ErrorCode.NONE, None, told))] if event.reply_to else []

        refuse = _refuse_partition if event.reply_to else None
        self.queue.add(Task(Priority.NORMAL, partitions, decide, finish, refuse=refuse))
        if event.queue_entry:
            done = Task(Priority.NORMAL, ("preferred_replica_election",), _delete_queue_entry, in_order=True)
            self.queue.add(done)

    def _not_preferred(self) -> list[TopicPartition]:
        return [
            TopicPartition(name, number)
            for name, topic in sorted(self.state.topics.items())
            for number, partition in sorted(topic.partitions.items())
            if partition.leadership is None or partition.leadership.leader != partition.assignment.preferred
        ]

    def on_topics_submitted(self, event: TopicsSubmitted) -> list[Answer]:
        """CreateTopics: answered when the partitions have leaders and brokers know them: then the client can go on."""

        def decide(draft: Draft, new: NewTopic) -> TopicResult:
            return topics.create_topic(draft, self.settings, new, event.releases, validate_only=event.validate_only)

        def refuse(new: NewTopic, error: ErrorCode, message: str) -> TopicResult:
            return TopicResult(new.name, error, message)

        finish = partial(self._topics_made, event.reply_to, validate_only=event.validate_only)
        placed = sum(max(new.partition_count, len(new.assignments)) for new in event.topics)
        task = Task(Priority.NORMAL, event.topics, decide, finish, refuse=refuse)
        return self._refused_at_once(task, event.reply_to, placed)

    def on_partitions_submitted(self, event: PartitionsSubmitted) -> list[Answer]:
        """CreatePartitions: answered as CreateTopics is."""

        def decide(draft: Draft, name: str) -> TopicResult:
            total, asked = event.topics[name]
            return topics.grow_topic(draft, self.settings, (name, total, asked), validate_only=event.validate_only)

        finish = partial(self._topics_made, event.reply_to, validate_only=event.validate_only)
        placed = sum(total for total, _ in event.topics.values())
        task = Task(Priority.NORMAL, tuple(event.topics), decide, finish, refuse=TopicResult)
        return self._refused_at_once(task, event.reply_to, placed)

    def _refused_at_once(self, task: Task, reply_to: ReplyToken, size: int) -> list[Answer]:
        """Queue a task about topics; or reply at once, if other tasks wait and all of this one would be refused.

        A caller whose request has to be refused need not wait while a topic of 20,000 partitions is made; Apache judges
        requests outside its queue, too. A request that is costly to judge waits all the same.
        """
        if self.queue.queues[Priority.NORMAL] and 0 < len(task.items) <= JUDGED_AT_ONCE and size <= JUDGED_AT_ONCE:
            scratch = Draft(self.state, 0)
            results: list[TopicResult] = [task.decide(scratch, item) for item in task.items]
            if all(result.error is not ErrorCode.NONE for result in results):
                return [(reply_to, TopicResultsReply(ErrorCode.NONE, tuple(results)))]
        self.queue.add(task)
        return []

    def _topics_made(
        self, reply_to: ReplyToken, results: list[TopicResult], *, validate_only: bool
    ) -> list[tuple[ReplyToken, Reply]]:
        reply = TopicResultsReply(ErrorCode.NONE, tuple(results))
        return [(reply_to, reply)] if validate_only else self.topic_replies.when_led((reply_to, reply))

    def on_topic_deletions_submitted(self, event: TopicDeletionsSubmitted) -> list[Answer]:
        """DeleteTopics: answered when the deletion is durable and brokers have forgotten the topic."""

        def decide(draft: Draft, name: str) -> TopicResult:
            return topics.mark_for_deletion(draft, self.settings, name)

        def finish(results: list[TopicResult]) -> list[tuple[ReplyToken, Reply]]:
            return self.topic_replies.when_known((event.reply_to, TopicResultsReply(ErrorCode.NONE, tuple(results))))

        task = Task(Priority.NORMAL, event.names, decide, finish, refuse=TopicResult)
        return self._refused_at_once(task, event.reply_to, len(event.names))

    # ---- after a write

    def on_written(self, records: Iterable[Record]) -> None:
        """A draft is durable: go on with replies about topics whose partitions all have leaders."""
        written = {record.topic.name for record in records if isinstance(record, PutTopic)}
        self.topic_replies.led(name for name in written & self.topic_replies.unled.keys() if not self._unled(name))

    def _unled(self, name: str) -> bool:
        return any(self.reviews.never_led(TopicPartition(name, n)) for n in self.state.topics[name].partitions)


def _refuse_partition(
    tp: TopicPartition, error: ErrorCode, message: str
) -> tuple[TopicPartition, ErrorCode, str | None]:
    return tp, error, message


def _delete_queue_entry(draft: Draft, kind: str) -> None:
    draft.other_records.append(DeleteQueueEntry(kind, ""))
