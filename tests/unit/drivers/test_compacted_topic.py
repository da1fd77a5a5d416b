"""A topic that can't be written: the error names what it, or the topic that its transactions need, lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import pytest
from kafka import errors as kafka_errors

from shunter.core.own_topics import partition_of
from shunter.drivers.journal import compacted_topic
from shunter.drivers.journal.compacted_topic import Clients, CompactedTopic
from shunter.errors import DriverError

TRANSACTIONS = 50


class Admin:
    """A cluster in which brokers 2 and 5 are down."""

    def __init__(self, short: str, number: int) -> None:
        self.short, self.number = short, number

    def describe_topics(self, names: Sequence[str]) -> list[dict[str, Any]]:
        return [self._topic(name, 1 if name == "j" else TRANSACTIONS) for name in names]

    def _topic(self, name: str, partitions: int) -> dict[str, Any]:
        parts = [
            {
                "partition_index": number,
                "replica_nodes": [2, 3, 5],
                "isr_nodes": [3] if (name, number) == (self.short, self.number) else [3, 5],
                "leader_id": 3,
            }
            for number in range(partitions)
        ]
        return {"name": name, "error_code": 0, "partitions": parts}

    def describe_cluster(self) -> dict[str, Any]:
        return {"brokers": [{"broker_id": broker} for broker in (1, 3)]}

    def close(self) -> None:
        """Nothing is open."""


def why_not(monkeypatch: pytest.MonkeyPatch, short: str, number: int) -> str:
    def least(_client: object, names: Sequence[str]) -> dict[str, int]:
        return dict.fromkeys(names, 2)

    def times_out() -> NoReturn:
        raise kafka_errors.KafkaTimeoutError("Timeout expired while initializing transactional state in 60000 ms")

    monkeypatch.setattr(compacted_topic, "min_insync", least)
    topic = CompactedTopic({}, "j", "shunter-executor-j", Clients(lambda _configuration: Admin(short, number)))
    with pytest.raises(DriverError) as refused:
        topic.guarded("taking", times_out)
    return str(refused.value)


@pytest.mark.parametrize(
    ("short", "number", "place"),
    [
        ("j", 0, "topic j"),
        (
            "__transaction_state",
            partition_of("shunter-executor-j", TRANSACTIONS),
            f"__transaction_state-{partition_of('shunter-executor-j', TRANSACTIONS)}",
        ),
    ],
)
def test_an_error_names_the_partition_that_takes_no_write(
    monkeypatch: pytest.MonkeyPatch, short: str, number: int, place: str
) -> None:
    """An outsider's find: a time-out was told, and not that brokers of an internal topic were down."""
    told = why_not(monkeypatch, short, number)
    assert told == f"taking topic j: {place} has 1 of 2 needed replicas in sync (3 of 2,3,5); start broker 2 or 5"


def test_the_error_stays_where_nothing_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    other = (partition_of("shunter-executor-j", TRANSACTIONS) + 1) % TRANSACTIONS
    assert "initializing transactional state" in why_not(monkeypatch, "__transaction_state", other)
