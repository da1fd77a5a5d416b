"""AlterPartition: decisions about the ISRs that leaders ask for."""

from __future__ import annotations

from shunter.core.controller.draft import Draft
from shunter.core.controller.events import IsrProposal
from shunter.errors import ErrorCode
from shunter.model.partition import BrokerId, LeaderAndIsr, PartitionState, Replicas


def decide_isr(draft: Draft, sender: BrokerId, proposal: IsrProposal) -> LeaderAndIsr | ErrorCode:
    """Accept an ISR change into the draft, or refuse it with Kafka's code.

    A proposal that is already true succeeds even if its partition epoch is old: the leader lost the former answer.
    ZooKeeper-mode Apache checks neither that the sender leads nor that the ISR is within the replicas. Like KRaft, this
    controller checks both, because a stale leader must not change an ISR that the new leader relies on.
    """
    tp = proposal.tp
    partition = draft.partition(tp)
    if tp in draft.state.unreadable or (partition is None and tp.topic in draft.state.left_out.topics):
        return ErrorCode.LEADER_NOT_AVAILABLE  # After this error the leader asks again; most others it takes as final.
    if partition is None or partition.leadership is None or tp.topic in draft.state.deleting:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    leadership = partition.leadership
    refusal = _refusal(draft, sender, proposal, partition, leadership)
    if refusal is not None:
        return refusal
    isr = tuple(broker for broker, _ in proposal.isr)
    if isr == leadership.isr and proposal.recovering == leadership.recovering:
        return leadership
    if tp not in draft.leaderships and proposal.partition_epoch < leadership.partition_epoch:
        # Another write changed the state. The leader keeps its proposal and asks for nothing more until it is told of a
        # new leader epoch (Partition.handleAlterPartitionError). Without a new epoch its ISR would never change again.
        draft.lead(tp, leadership.in_new_epoch())
        return ErrorCode.INVALID_UPDATE_VERSION
    accepted = leadership._replace(isr=isr, recovering=proposal.recovering)
    draft.lead(tp, accepted)
    return draft.leaderships[tp]


def _refusal(
    draft: Draft, sender: BrokerId, proposal: IsrProposal, partition: PartitionState, leadership: LeaderAndIsr
) -> ErrorCode | None:
    if proposal.leader_epoch < leadership.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if proposal.leader_epoch > leadership.leader_epoch or proposal.partition_epoch > leadership.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # A newer controller has written: the leader looks for the controller again.
    if sender != leadership.leader:
        return ErrorCode.INVALID_REQUEST
    isr: Replicas = tuple(broker for broker, _ in proposal.isr)
    if not isr or len(set(isr)) != len(isr) or sender not in isr:
        return ErrorCode.INVALID_REQUEST
    if any(broker not in partition.assignment.replicas for broker in isr):
        return ErrorCode.INVALID_REQUEST
    if proposal.recovering and (len(isr) > 1 or not leadership.recovering):
        return ErrorCode.INVALID_REQUEST
    for broker, epoch in proposal.isr:
        if broker in leadership.isr:
            continue
        known = draft.state.brokers.get(broker)
        if known is None or broker in draft.state.shutting_down or (epoch >= 0 and epoch != known.epoch):
            return ErrorCode.INELIGIBLE_REPLICA
        if draft.owes_an_older(broker, proposal.tp):
            # The broker may be told a second time to delete the older replica, after a connection broke. StopReplica
            # names no topic id, and this request would have no leader epoch to check: the broker would delete its
            # replica of this topic.
            return ErrorCode.INELIGIBLE_REPLICA
    return None
