"""A transactional producer that writes until it is stopped, and a consumer that reads what it committed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from lab.testbed.waiting import wait_until

ABORTED_EVERY = 5


class LiveTransactions:
    """Each transaction writes its number into every partition of a topic. Every fifth is aborted on purpose."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        """Describe it; nothing is written yet."""
        self.bootstrap = bootstrap
        self.topic = topic
        self.committed: list[int] = []
        self.unknown: set[int] = set()
        """Transactions that ended by a fatal error: they may be committed or aborted, but not half of each."""
        self.longest_gap_s = 0.0
        """The longest time between two commits, seconds."""
        self.read: dict[int, list[int]] = {partition: [] for partition in range(partitions)}
        self._wrote_to_the_end = False
        self._ended, self._read_all = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._write, self._read)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End after the last transaction. Without an error: the consumer has read it too, and all are whole."""
        writer, reader = self._threads
        self._ended.set()
        writer.join(90)
        try:
            if error is None:
                assert self._wrote_to_the_end, "the transactional producer ended before its time"
                self._check()
        finally:
            self._read_all.set()
            reader.join(30)

    def _check(self) -> None:
        last = self.committed[-1]
        wait_until(
            lambda: all(last in numbers[-9:] for numbers in self.read.values()),
            what=f"transaction {last} is read",
            timeout_s=60,
        )
        for partition, numbers in self.read.items():
            known = [number for number in numbers if number not in self.unknown]
            assert known == self.committed, f"partition {partition}: each committed one once, in order, no other"
        uncertain = {frozenset(self.unknown.intersection(numbers)) for numbers in self.read.values()}
        assert len(uncertain) == 1, uncertain

    def _write(self) -> None:
        number, producer, before = 0, self._producer(), time.monotonic()
        while not self._ended.wait(0.02):
            producer.begin_transaction()
            try:
                for partition in self.read:
                    producer.produce(self.topic, str(number).encode(), partition=partition)
                producer.flush(30)  # An abort would take back what is not sent.
                if number % ABORTED_EVERY == 0:
                    _settled(producer.abort_transaction)
                else:
                    _settled(producer.commit_transaction)
                    self.committed.append(number)
                    now = time.monotonic()
                    self.longest_gap_s, before = max(self.longest_gap_s, now - before), now
            except KafkaException as failed:
                if not failed.args[0].txn_requires_abort() or not _aborted(producer):
                    self.unknown.add(number)
                    producer = self._producer()
            number += 1
        self._wrote_to_the_end = True

    def _producer(self) -> Producer:
        made = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": self.topic, "log_level": 0})
        _settled(made.init_transactions)
        return made

    def _read(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.topic,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(self.topic, partition, 0) for partition in self.read])
        while not self._read_all.is_set():
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                partition, value = message.partition(), message.value()
                assert partition is not None
                assert value is not None
                self.read[partition].append(int(value))
        consumer.close()


def _aborted(producer: Producer) -> bool:
    """Whether a transaction was aborted; if its end is not known, the producer is of no more use."""
    try:
        _settled(producer.abort_transaction)
    except KafkaException:
        return False
    return True


def _settled(step: Callable[[float], object]) -> None:
    """Ask for the end of a transaction again, until the coordinator has answered."""
    while True:
        try:
            step(30)
        except KafkaException as failed:
            if not failed.args[0].retriable():
                raise
        else:
            return
