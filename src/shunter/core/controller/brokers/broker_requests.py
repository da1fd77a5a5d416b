"""Requests of brokers: ISR changes, controlled shutdowns, blocks of producer ids, each fenced by its broker's epoch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain

from shunter.core.controller.brokers import elections
from shunter.core.controller.brokers.departures import Departures
from shunter.core.controller.brokers.isr import decide_isr
from shunter.core.controller.draft import Draft
from shunter.core.controller.events import (
    AlterPartitionReceived,
    ControlledShutdownRequested,
    ProducerIdsRequested,
    ReplyToken,
)
from shunter.core.controller.ready import AlterPartitionReply, ControlledShutdownReply, ProducerIdsReply, Reply
from shunter.core.controller.review import LOOKS, Reason, Reviews
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import Priority, Task, TaskQueue
from shunter.errors import ErrorCode
from shunter.model.partition import BrokerId, LeaderAndIsr, TopicPartition
from shunter.model.records import PutProducerIdBlock

PRODUCER_IDS_PER_BLOCK = 1_000


@dataclass(slots=True)
class BrokerRequests:
    """Turns brokers' requests into tasks. One instance per term."""

    state: ControllerState
    queue: TaskQueue
    reviews: Reviews
    departures: Departures

    def on_alter_partition_received(self, event: AlterPartitionReceived) -> list[tuple[ReplyToken, Reply]]:
        """A leader asks for ISR changes: fence it, then decide partition by partition."""
        if self._another(event.broker, event.broker_epoch):
            return [(event.reply_to, AlterPartitionReply(ErrorCode.STALE_BROKER_EPOCH))]

        def finish(results: list[LeaderAndIsr | ErrorCode]) -> list[tuple[ReplyToken, Reply]]:
            if ErrorCode.STALE_BROKER_EPOCH in results:
                return [(event.reply_to, AlterPartitionReply(ErrorCode.STALE_BROKER_EPOCH))]
            partitions = [
                (proposal.tp, self._as_it_is(proposal.tp) if isinstance(result, LeaderAndIsr) else result)
                for proposal, result in zip(event.proposals, results, strict=True)
            ]
            return [(event.reply_to, AlterPartitionReply(ErrorCode.NONE, tuple(partitions)))]

        def decide(draft: Draft, index: int) -> LeaderAndIsr | ErrorCode:
            if self._another(event.broker, event.broker_epoch):
                return ErrorCode.STALE_BROKER_EPOCH  # The broker died, or was restarted, while its request waited.
            result = decide_isr(draft, event.broker, event.proposals[index])
            if isinstance(result, LeaderAndIsr):
                self.reviews.review(draft, event.proposals[index].tp, parts=LOOKS[Reason.ISR_ALTERED].parts)
            return result

        items = range(len(event.proposals))
        self.queue.add(Task(Priority.ISR, items, decide, finish, refuse=lambda _, error, __: error))
        return []

    def _as_it_is(self, tp: TopicPartition) -> LeaderAndIsr | ErrorCode:
        partition = self.state.partition(tp)
        if partition is None or partition.leadership is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return partition.leadership

    def _stale(self, broker: BrokerId, epoch: int) -> bool:
        """Whether a controlled shutdown is obsolete. Epoch -1 passes: brokers that send it know no epoch (KIP-380)."""
        known = self.state.brokers.get(broker)
        return known is None or (epoch >= 0 and epoch < known.epoch)

    def _another(self, broker: BrokerId, epoch: int) -> bool:
        """Whether a request is from another broker epoch than the one that the state has.

        A newer epoch is refused too: the state of that broker's replicas is from before its restart. The broker asks
        again.
        """
        known = self.state.brokers.get(broker)
        return known is None or epoch != known.epoch

    def on_controlled_shutdown_requested(self, event: ControlledShutdownRequested) -> list[tuple[ReplyToken, Reply]]:
        """A broker leaves: fence an obsolete request by its epoch (KIP-380), then relieve it of its leaderships."""
        if self._stale(event.broker, event.broker_epoch):
            return [(event.reply_to, ControlledShutdownReply(ErrorCode.STALE_BROKER_EPOCH))]
        self.state.shutting_down.add(event.broker)
        hosted = self._hosted_by(event.broker)
        replicas = (self.state.topics[tp.topic].partitions[tp.partition].assignment.replicas for tp in hosted)
        others = frozenset(chain.from_iterable(replicas)) - {event.broker}

        def finish(results: list[bool]) -> list[tuple[ReplyToken, Reply]]:
            remaining = tuple(tp for tp, leads in zip(hosted, results, strict=True) if leads)
            self.departures.decided(event.reply_to, ControlledShutdownReply(ErrorCode.NONE, remaining), others)
            return []

        if not hosted:
            return [(event.reply_to, ControlledShutdownReply(ErrorCode.NONE))]
        self.queue.add(
            Task(Priority.LIVENESS, hosted, partial(_relieve, broker=event.broker), finish, refuse=_still_leads)
        )
        return []

    def on_producer_ids_requested(self, event: ProducerIdsRequested) -> list[tuple[ReplyToken, Reply]]:
        """A broker needs producer ids: it gets the next block, once the block's claim is durable."""
        if event.broker not in self.state.brokers:
            return [(event.reply_to, ProducerIdsReply(ErrorCode.BROKER_ID_NOT_REGISTERED))]
        if self._another(event.broker, event.broker_epoch):
            return [(event.reply_to, ProducerIdsReply(ErrorCode.STALE_BROKER_EPOCH))]
        if self.state.left_out.producer_ids:
            # Ids that were given out before must never be given out again.
            return [(event.reply_to, ProducerIdsReply(ErrorCode.UNKNOWN_SERVER_ERROR))]

        def finish(results: list[int | ErrorCode]) -> list[tuple[ReplyToken, Reply]]:
            found = results[0]
            if isinstance(found, ErrorCode):
                return [(event.reply_to, ProducerIdsReply(found))]
            return [(event.reply_to, ProducerIdsReply(ErrorCode.NONE, found, PRODUCER_IDS_PER_BLOCK))]

        self.queue.add(Task(Priority.ISR, (event.broker,), _next_producer_ids, finish, refuse=_only_the_error))
        return []

    def _hosted_by(self, broker: BrokerId) -> list[TopicPartition]:
        """Partitions with a replica on a broker, those that it leads first."""
        hosted = [
            (partition.leadership.leader != broker, TopicPartition(name, number))
            for name, topic in self.state.topics.items()
            for number, partition in topic.partitions.items()
            if partition.leadership is not None and broker in partition.assignment.replicas
        ]
        return [tp for _, tp in sorted(hosted)]


def _only_the_error(_: BrokerId, error: ErrorCode, __: str) -> ErrorCode:
    return error


def _still_leads(_: TopicPartition, __: ErrorCode, ___: str) -> bool:
    """The result for a replica that can't be relieved now: its broker still leads, and asks again."""
    return True


def _relieve(draft: Draft, tp: TopicPartition, *, broker: BrokerId) -> bool:
    if broker not in draft.state.shutting_down:
        return False  # The broker has died, or was restarted since: it asks for no shutdown any more.
    return elections.relieve(draft, tp, broker)


def _next_producer_ids(draft: Draft, broker: BrokerId) -> int:
    first, version = draft.state.producer_id_block
    taken = sum(isinstance(record, PutProducerIdBlock) for record in draft.other_records)
    first += taken * PRODUCER_IDS_PER_BLOCK
    expected = version if version < 0 and not taken else version + taken
    draft.other_records.append(PutProducerIdBlock(broker, first, first + PRODUCER_IDS_PER_BLOCK - 1, expected))
    return first
