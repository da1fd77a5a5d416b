"""How the demo's own clients connect to the brokers and to the controller: in plain text, or by a login over TLS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from lab.testbed.controller import ShunterController
from shunter.drivers.admin.blocking import BlockingAdmin
from shunter.drivers.admin.reassignments import AlterOptions
from shunter.drivers.reassignment_rpc import alter_reassignments, list_reassignments
from shunter.errors import DriverError, ErrorCode
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import Intervention
from shunter.wire.reassignments import AlteredPartition, AlteredTopic, AlterReassignmentsRequest


@dataclass(frozen=True, slots=True)
class WayIn:
    """Addresses of the brokers, and client settings for the user that makes topics and for the clients' user."""

    bootstrap: str
    admin: Mapping[str, Any] = field(default_factory=dict[str, Any])
    traffic: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Lever(Protocol):
    """The demo's requests to Shunter's controller."""

    def ongoing(self) -> dict[TopicPartition, Replicas]:
        """Moves under way, and the replicas that each has now.

        Raises:
            DriverError: the controller does not answer.
        """
        ...

    def cancel(self, tp: TopicPartition, mode: Intervention) -> bool:
        """Stop a move, or roll it back; False: the move is over.

        Raises:
            DriverError: the request was refused.
        """
        ...


class PlainLever:
    """Asks over plaintext connections."""

    def __init__(self, controller: ShunterController) -> None:
        self._controller = controller

    def ongoing(self) -> dict[TopicPartition, Replicas]:
        """See `Lever`."""
        listed = list_reassignments("127.0.0.1", self._controller.port, timeout_s=5)
        return {
            TopicPartition(topic.name, partition.partition): partition.detail.assigned
            for topic in listed.topics
            for partition in topic.partitions
            if partition.detail is not None
        }

    def cancel(self, tp: TopicPartition, mode: Intervention) -> bool:
        """See `Lever`."""
        partition = AlteredPartition(tp.partition, None, intervention=mode)
        request = AlterReassignmentsRequest((AlteredTopic(tp.topic, (partition,)),))
        answer = alter_reassignments("127.0.0.1", self._controller.port, request)
        result = answer.topics[0].partitions[0] if answer.topics else None
        if result is None or result.error not in {ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}:
            raise DriverError(f"{mode.name} of {tp} was refused: {result or answer}", retriable=False)
        return result.error is ErrorCode.NONE


class SecuredLever:
    """Asks through a client with a login.

    Args:
        configuration: the client's configuration, addresses included.
    """

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        self._configuration = configuration

    def ongoing(self) -> dict[TopicPartition, Replicas]:
        """See `Lever`."""
        with BlockingAdmin(self._configuration) as admin:
            listed = admin.list_moves()
        return {tp: found.detail.assigned for tp, found in listed.items() if found.detail is not None}

    def cancel(self, tp: TopicPartition, mode: Intervention) -> bool:
        """See `Lever`."""
        with BlockingAdmin(self._configuration) as admin:
            refusal = admin.alter_moves({tp: None}, AlterOptions(intervention=mode))[tp]
        if refusal is not None and "NoReassignmentInProgress" not in type(refusal).__name__:
            raise DriverError(f"{mode.name} of {tp} was refused: {refusal}", retriable=False)
        return refusal is None
