"""Clients that never stop: acks=all producers that remember every acknowledgement, and a consumer."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as ClientPartition
from kafka.errors import KafkaError

from shunter.errors import DriverError
from shunter.model.partition import TopicPartition

PRELOAD_RECORD_BYTES = 60_000
LIVE_RECORD_BYTES = 200
PAUSE_S = 0.02
DELIVERY_S = 120
"""How long the producer may retry one record before it reports a failure."""
DECIDED_S = DELIVERY_S + 30
"""After this time each record is either acknowledged or failed."""


@dataclass(slots=True)
class Acks:
    """Acknowledged sequence numbers of one partition, in order, and the longest time between two of them, seconds."""

    sequence: list[int] = field(default_factory=list)
    last_s: float = 0.0
    longest_gap_s: float = 0.0


class Traffic:
    """Writes to every partition and reads everything back, until stopped.

    Each record carries a sequence number of its partition. The producer is idempotent, so each acknowledged record
    must be there once, after the record with the lower number.
    """

    def __init__(
        self,
        bootstrap: str,
        partitions: Sequence[TopicPartition],
        *,
        first: Mapping[TopicPartition, int] | None = None,
        client: Mapping[str, Any] | None = None,
        pause_s: float = PAUSE_S,
    ) -> None:
        """Describe the traffic; nothing is written yet.

        Args:
            first: The first sequence number of each partition; 0 for partitions that it does not name.
            client: Settings of the client library for security.
            pause_s: The time between two records of a partition, in seconds.
        """
        self.partitions = tuple(partitions)
        self.acks = {tp: Acks() for tp in self.partitions}
        self.failures: list[str] = []
        self.consumed = 0
        self._client = {"bootstrap_servers": bootstrap, **(client or {})}
        self._next = dict.fromkeys(self.partitions, 0) | dict(first or {})
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._producer = KafkaProducer(
            **self._client, acks="all", enable_idempotence=True, linger_ms=5, delivery_timeout_ms=DELIVERY_S * 1_000
        )
        self._threads: list[threading.Thread] = []

    @property
    def acked(self) -> int:
        """How many records were acknowledged."""
        return sum(len(acks.sequence) for acks in self.acks.values())

    @property
    def longest_gap_s(self) -> float:
        """The longest time between two acknowledgements of one partition."""
        return max(acks.longest_gap_s for acks in self.acks.values())

    def preload(self, records: int) -> None:
        """Give every partition `records` large records to be moved.

        Raises:
            DriverError: a record was not acknowledged.
        """
        for _ in range(records):
            for tp in self.partitions:
                self._send(tp, PRELOAD_RECORD_BYTES)
        self._producer.flush(DECIDED_S)
        if self.failures:
            raise DriverError(f"the first records were not taken: {self.failures[0]}", retriable=False)
        for acks in self.acks.values():
            acks.last_s = acks.longest_gap_s = 0.0

    def start(self) -> None:
        """Begin to write and to read."""
        for work in (self._write, self._read):
            thread = threading.Thread(target=work, name=work.__name__, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Wait for the last acknowledgements and end."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
        self._producer.flush(DECIDED_S)
        self._producer.close(10)

    def _send(self, tp: TopicPartition, size: int) -> None:
        number = self._next[tp]
        self._next[tp] = number + 1
        value = f"{number}:".encode().ljust(size, b".")
        future: Any = self._producer.send(tp.topic, value, partition=tp.partition)
        future.add_callback(lambda _: self._acknowledged(tp, number))
        future.add_errback(lambda error: self.failures.append(f"{tp} #{number}: {error}"))

    def _acknowledged(self, tp: TopicPartition, number: int) -> None:
        acks, now = self.acks[tp], time.monotonic()
        acks.sequence.append(number)
        if acks.last_s:
            acks.longest_gap_s = max(acks.longest_gap_s, now - acks.last_s)
        acks.last_s = now

    def _write(self) -> None:
        while not self._stopping.wait(self._pause_s):
            for tp in self.partitions:
                try:
                    self._send(tp, LIVE_RECORD_BYTES)
                except KafkaError as error:
                    self.failures.append(f"{tp}: {error}")

    def _read(self) -> None:
        consumer = KafkaConsumer(**self._client, enable_auto_commit=False)
        consumer.assign([ClientPartition(*tp) for tp in self.partitions])
        consumer.seek_to_end()
        while not self._stopping.is_set():
            self.consumed += sum(map(len, consumer.poll(timeout_ms=200).values()))
        consumer.close()


def read_everything(
    bootstrap: str,
    partitions: Sequence[TopicPartition],
    timeout_s: float,
    client: Mapping[str, Any] | None = None,
) -> dict[TopicPartition, list[int]]:
    """Read every partition from its beginning to its current end; returns the sequence numbers in the log's order.

    Raises:
        DriverError: the end was not reached in time.
    """
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest", **(client or {})
    )
    assigned = [ClientPartition(*tp) for tp in partitions]
    consumer.assign(assigned)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(assigned)
    found: dict[TopicPartition, list[int]] = {tp: [] for tp in partitions}
    deadline = time.monotonic() + timeout_s
    while any(consumer.position(tp) < ends[tp] for tp in assigned):
        if time.monotonic() > deadline:
            raise DriverError(f"the end of all partitions was not reached within {timeout_s:.0f} s", retriable=True)
        for tp, records in consumer.poll(timeout_ms=500).items():
            found[TopicPartition(tp.topic, tp.partition)] += [int(record.value.split(b":", 1)[0]) for record in records]
    consumer.close()
    return found
