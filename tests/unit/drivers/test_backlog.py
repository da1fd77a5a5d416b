"""The unsent requests to one broker: which may be sent ahead of an answer, and which may not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from shunter.core.controller.ready import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata, StopPartition
from shunter.drivers.brokers.backlog import Backlog, QueuedRequest
from shunter.model.partition import TopicPartition

LEAD = SendLeaderAndIsr(1, 1, 5, 9, (), (), frozenset())
UPDATE = SendUpdateMetadata(2, (1,), 5, 9, (), (), {})


def stop(*, delete):
    return SendStopReplica(3, 1, 5, 9, (StopPartition(TopicPartition("t", 0), 4, delete),))


def backlog(*requests):
    made = Backlog(64, lambda bodies: bodies[-1])
    for request in requests:
        made.append(QueuedRequest(SimpleNamespace(request=request), (request.request_id,), 0.0))
    return made


@pytest.mark.parametrize(
    ("ahead", "request_", "may"),
    [
        ((LEAD,), stop(delete=True), False),
        ((LEAD, UPDATE), stop(delete=True), False),
        ((UPDATE,), stop(delete=True), True),
        ((), stop(delete=True), True),
        ((LEAD,), stop(delete=False), True),
        ((stop(delete=True),), LEAD, True),
    ],
)
def test_a_deletion_waits_for_the_answer_to_what_could_make_its_replica_anew(ahead, request_, may):
    """If both are sent again after a lost connection, the deleted replica would be made again (seed 90000561)."""
    queued = backlog(*ahead, request_)
    flying = [queued.take() for _ in ahead]
    assert queued.may_send(flying) is may


def test_nothing_may_be_sent_where_nothing_waits():
    assert not backlog().may_send(())
