"""A producer that writes until it is stopped, and the account of its acknowledged records."""

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition


class LiveProducer:
    """Produces numbered records with acks=all to every partition of a topic until told to stop."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, every_s: float = 0.005) -> None:
        """Describe it; nothing is produced yet."""
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = partitions
        self.acknowledged: dict[int, set[int]] = {partition: set() for partition in range(partitions)}
        self.failures: list[str] = []
        self._every_s = every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def count(self) -> int:
        """Records acknowledged so far."""
        return sum(len(numbers) for numbers in self.acknowledged.values())

    def stop(self) -> None:
        """End, after the last acknowledgement."""
        self._ended.set()
        self._thread.join(timeout=90)
        assert not self._thread.is_alive()

    def _produce(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "message.timeout.ms": 80_000,
                "log_level": 0,
            }
        )
        number = 0
        while not self._ended.wait(self._every_s):
            partition = number % self.partitions
            producer.produce(self.topic, str(number).encode(), partition=partition, on_delivery=self._delivered)
            producer.poll(0)
            number += 1
        producer.flush(85)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        value, partition = message.value(), message.partition()
        assert value is not None
        assert partition is not None
        self.acknowledged[partition].add(int(value))

    def missing(self) -> dict[int, set[int]]:
        """Acknowledged records that can't be read back, by partition; reads every partition to its end."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "account",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        wanted = {partition: set(numbers) for partition, numbers in self.acknowledged.items()}
        left = set(wanted)
        consumer.assign([TopicPartition(self.topic, partition, 0) for partition in wanted])
        try:
            while left:
                message = consumer.poll(30)
                assert message is not None, f"nothing comes any more from partitions {sorted(left)}"
                partition = message.partition()
                assert partition is not None
                failure = message.error()
                if failure is not None:
                    assert failure.code() == KafkaError._PARTITION_EOF, failure
                    left.discard(partition)
                    continue
                value = message.value()
                if value is not None and value.isdigit():
                    wanted[partition].discard(int(value))
        finally:
            consumer.close()
        return {partition: numbers for partition, numbers in wanted.items() if numbers}


def fill(
    bootstrap: str, topic: str, partitions: int | Sequence[int], bytes_each: int, *, held_back: bool = False
) -> None:
    """Put so many bytes into every partition, or into these. `held_back`: in batches that tiny throttles hold back."""
    filled = range(partitions) if isinstance(partitions, int) else partitions
    # A broker sends a whole batch at once, however small its throttle and `yard.HELD_BACK` are, every eleven seconds.
    size = {"batch.size": 60_000} if held_back else {}
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20, "log_level": 0, **size})
    block = b"x" * 10_000
    for index in range(len(filled) * (bytes_each // len(block))):
        while True:
            try:
                producer.produce(topic, block, partition=filled[index % len(filled)])
                break
            except BufferError:
                producer.poll(0.5)
        producer.poll(0)
    assert producer.flush(120) == 0
