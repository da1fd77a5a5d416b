"""KIP-455's Admin client: whoever waits for a future is told, whatever went wrong."""

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import errors as kafka_errors

from shunter.admin import (
    AlterPartitionReassignmentsOptions,
    ListPartitionReassignmentsOptions,
    NewPartitionReassignment,
    ReassignmentAdmin,
)
from shunter.errors import DriverError
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Intervention

TOO_LARGE = TopicPartition("t", 2**31)


class Client:
    """A connected client of a cluster whose controller is not Shunter's, and has just died."""

    def __init__(self) -> None:
        self._manager = self
        self._controller_id: int | None = 1

    def describe_features(self, send_request_to_controller: bool) -> dict[str, Any]:
        if not send_request_to_controller:
            raise AssertionError("any broker would answer")
        return {}

    def run(self, *_: Any) -> Any:
        raise kafka_errors.NodeNotReadyError("it is dead")

    _send_request_to_controller = None


@pytest.fixture
def admin() -> Iterator[ReassignmentAdmin]:
    made = ReassignmentAdmin(Client())  # type: ignore[arg-type]
    yield made
    made.close()


def test_what_can_not_be_written_into_a_request_is_told(admin: ReassignmentAdmin) -> None:
    result = admin.alter_partition_reassignments({TOO_LARGE: NewPartitionReassignment((1,))})
    assert isinstance(result.futures[TOO_LARGE].exception(timeout=20), DriverError)
    assert isinstance(result.all().exception(timeout=20), DriverError)
    listed = admin.list_partition_reassignments([TOO_LARGE], options=ListPartitionReassignmentsOptions(5))
    assert isinstance(listed.reassignments.exception(timeout=20), DriverError)


def test_a_controller_that_died_is_told_and_forgotten() -> None:
    client = Client()
    admin = ReassignmentAdmin(client)  # type: ignore[arg-type]
    result = admin.alter_partition_reassignments({TopicPartition("t", 0): None})
    assert "there is no connection to that broker now" in str(result.all().exception(timeout=20))
    assert client._controller_id is None
    admin.close()


def test_what_only_shunters_controller_understands_is_refused(admin: ReassignmentAdmin) -> None:
    stopping = AlterPartitionReassignmentsOptions(intervention=Intervention.STOP)
    result = admin.alter_partition_reassignments({TopicPartition("t", 0): None}, stopping)
    assert "not Shunter's" in str(result.all().exception(timeout=20))
    with pytest.raises(DriverError, match="not Shunter's"):
        admin.cancel_whole(None)


def test_nothing_asked_for_is_done_at_once(admin: ReassignmentAdmin) -> None:
    assert admin.alter_partition_reassignments({}).all().result(timeout=20) is None
    assert admin.list_partition_reassignments([]).reassignments.result(timeout=20) == {}
