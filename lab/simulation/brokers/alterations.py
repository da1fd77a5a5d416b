"""A simulated broker's AlterPartition requests: one in flight, with all waiting proposals, and how errors are handled.

Source: Apache Kafka, `AlterPartitionManager` and `Partition.handleAlterPartitionError`, whose lists of errors grew with
the request's versions: 0 (2.7), 1 (3.2), 2 (3.3), 3 (3.5).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lab.simulation.brokers.replica import Role
from lab.simulation.scheduler import MS, SECOND
from shunter.errors import ErrorCode
from shunter.model.partition import LeaderAndIsr, TopicPartition

if TYPE_CHECKING:
    from lab.simulation.brokers.broker import SimulatedBroker


RETRY_US = 50 * MS
PATIENCE_US = 30 * SECOND
OPERATION_NOT_ATTEMPTED = 55
PUT_BACK: dict[int, int] = {OPERATION_NOT_ATTEMPTED: 1, ErrorCode.INELIGIBLE_REPLICA: 2}
"""Errors after which a leader goes back to the committed ISR, and the first version that knows each."""
GIVEN_UP: dict[int, int] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 0,
    ErrorCode.FENCED_LEADER_EPOCH: 0,
    ErrorCode.INVALID_UPDATE_VERSION: 0,
    ErrorCode.INVALID_REQUEST: 1,
    ErrorCode.UNKNOWN_TOPIC_ID: 2,
    ErrorCode.NEW_LEADER_ELECTED: 2,
}
"""Errors after which a leader keeps its proposed ISR and waits for new metadata. After any other it retries at once."""


class Alterations:
    """The AlterPartition requests of one broker, during one run of its process."""

    def __init__(self, broker: SimulatedBroker) -> None:
        """Begin with no proposals."""
        self._broker = broker
        self.unsent: dict[TopicPartition, None] = {}
        self._altering = 0
        self._request = 0

    def send(self) -> None:
        """Send all waiting proposals, one request at a time (AlterPartitionManager)."""
        if not self.unsent or self._altering or self._broker.epoch < 0 or self._broker.controller is None:
            return
        proposals = []
        for tp in self.unsent:
            replica = self._broker.replicas.get(tp)
            if replica is not None and replica.role is Role.LEADER and replica.proposed is not None:
                self._broker.world.safety.isr_proposed(tp, replica.leader_epoch, replica.proposed)
                proposals.append(replica.propose(replica.proposed, {}))
        self.unsent.clear()
        if not proposals:
            return
        self._request += 1
        self._altering = self._request
        number, incarnation = self._request, self._broker.incarnation
        self._broker.alter_partition(
            tuple(proposals), lambda answer: self._altered(number, incarnation, proposals, answer)
        )
        self._broker.scheduler.after(PATIENCE_US, self._alter_timed_out, number, incarnation, proposals)

    def _alter_timed_out(self, number: int, incarnation: int, proposals: list[Any]) -> None:
        if self._altering == number and self._broker.incarnation == incarnation:
            self._altered(number, incarnation, proposals, None)

    def _altered(self, number: int, incarnation: int, proposals: list[Any], answer: SimpleNamespace | None) -> None:
        """Take an AlterPartition answer; None: no answer came, ask again."""
        if not self._broker.running or self._broker.incarnation != incarnation or self._altering != number:
            return
        self._altering = 0
        if answer is None or answer.error is not ErrorCode.NONE:
            for proposal in proposals:
                self._again(proposal)
            self._broker.scheduler.after(RETRY_US, self._send_later, incarnation)
            return
        for proposal in proposals:
            self._altered_one(proposal, answer.partitions.get(proposal.tp, ErrorCode.UNKNOWN_SERVER_ERROR))
        self.send()

    def _send_later(self, incarnation: int) -> None:
        if self._broker.running and self._broker.incarnation == incarnation and not self._broker.paused:
            self.send()

    def _again(self, proposal: Any) -> None:
        replica = self._broker.replicas.get(proposal.tp)
        if replica is not None and replica.proposed is not None and replica.leader_epoch == proposal.leader_epoch:
            self.unsent[proposal.tp] = None

    def _altered_one(self, proposal: Any, result: Any) -> None:
        replica = self._broker.replicas.get(proposal.tp)
        if replica is None or replica.role is not Role.LEADER or replica.leader_epoch != proposal.leader_epoch:
            return
        if isinstance(result, LeaderAndIsr):
            if replica.take_answer(result.leader_epoch, result.isr, result.partition_epoch):
                self._broker.after_progress(replica)
            return
        self._broker.world.coverage.count("alter partition", result.name)
        self._broker.scheduler.note(
            f"broker {self._broker.id} is refused ISR {proposal.isr} of {proposal.tp}: {result.name}"
        )
        version = self._broker.world.shape.alter_version
        if PUT_BACK.get(int(result), 99) <= version:
            replica.proposed = None
        elif GIVEN_UP.get(int(result), 99) > version:
            self._again(proposal)
