"""Decisions of one draft about several partitions at once."""

from shunter.core.controller.draft import Draft
from shunter.core.controller.draft_records import records_of
from shunter.core.controller.state import ControllerState
from shunter.model.partition import EPOCH_DURING_DELETE, TopicPartition
from shunter.model.records import DeleteReassignmentRequest, PutOwedDeletion, PutReassignmentRequest
from shunter.model.snapshot import ReassignmentRequest

FIRST, SECOND, THIRD = (TopicPartition("t", number) for number in range(3))


def waiting_request(*partitions):
    state = ControllerState(100)
    state.requests["request_1"] = ReassignmentRequest("request_1", dict.fromkeys(partitions, (1, 2)), False, 3, 7)
    return state


def test_two_partitions_of_one_request_are_withdrawn_by_one_draft():
    draft = Draft(waiting_request(FIRST, SECOND, THIRD), 1_000)
    assert draft.withdraw(FIRST, ["request_1"])
    assert draft.withdraw(SECOND, ["request_1"])
    assert not draft.withdraw(FIRST, ["request_1"]), "it is withdrawn already"
    [record] = records_of(draft)
    assert isinstance(record, PutReassignmentRequest)
    assert dict(record.targets) == {THIRD: (1, 2)}


def test_a_request_goes_with_the_last_partition_that_it_named():
    draft = Draft(waiting_request(FIRST, SECOND), 1_000)
    assert draft.withdraw(FIRST, ["request_1"])
    assert draft.withdraw(SECOND, ["request_1"])
    assert records_of(draft) == (DeleteReassignmentRequest("request_1"),)


def test_what_a_topic_that_goes_is_owed_stays_so_marked():
    """World 95210827: the broker came back, was not asked to delete it, and refused the next topic of the same name."""
    draft = Draft(ControllerState(100), 1_000)
    draft.owe(1, FIRST, EPOCH_DURING_DELETE)
    draft.owe(1, FIRST, 3)
    [record] = records_of(draft)
    assert isinstance(record, PutOwedDeletion)
    assert record.partitions == ((FIRST, EPOCH_DURING_DELETE),)
