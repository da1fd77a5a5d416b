"""A compacted topic of one partition whose records one process at a time writes, in transactions.

Every batch is a transaction under one transactional id: a process that takes the topic fences the producer of the
process that had it, whose transaction then fails as a whole. Readers see only committed transactions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import NewTopic

from shunter.core.own_topics import TRANSACTIONS_TOPIC, Shortage, partition_of, shortage
from shunter.drivers.admin.answers import in_words, topic_seen
from shunter.drivers.admin.bootstrap_probe import answering, look_at, protocol_of, servers_of, told_each
from shunter.drivers.admin.client import connected
from shunter.drivers.admin.metadata import live_brokers
from shunter.drivers.admin.settings import min_insync
from shunter.errors import DriverError

Answer = TypeVar("Answer")

REPLICAS = 3
ANSWERED_WITHIN_S = 20.0
FIRST_WITHIN_S = 1.0
"""For so long the end of a partition is waited for at first, before it is asked who leads it; then twice as long."""
POLL_MS = 500
ATTEMPTS = 60
"""Polls in a row without a record after which reading fails."""

_FENCED = (
    kafka_errors.ProducerFencedError,
    kafka_errors.InvalidProducerEpochError,
    kafka_errors.OutOfOrderSequenceNumberError,
    kafka_errors.InvalidTxnStateError,
)


class Clients(NamedTuple):
    """Makers of the clients, so that tests can replace them; consumer and producer are the library's classes."""

    admin: Any = connected
    consumer: Any = KafkaConsumer
    producer: Any = KafkaProducer


class TopicFenced(DriverError):
    """Another process has taken the topic from this one."""


class TopicDenied(DriverError):
    """A right is missing."""


class CompactedTopic:
    """One topic. Use it in one thread at a time."""

    def __init__(
        self, configuration: Mapping[str, Any], topic: str, transactional_id: str, clients: Clients | None = None
    ) -> None:
        """Prepare; nothing is connected yet.

        Args:
            configuration: kafka-python's names, as for the Admin client.
            topic: The topic's name.
            transactional_id: The same for all processes that may write.
            clients: Replace kafka-python's.
        """
        self.name = topic
        self.place = f"topic {topic}"
        self.clients = clients or Clients()
        self._configuration = dict(configuration)
        self._transactional_id = transactional_id
        self._partition = TopicPartition(topic, 0)
        self._consumer: Any = None
        self._producer: Any = None

    def exists(self) -> bool:
        """Whether the topic exists, as far as this user may see it."""
        return self.guarded("looking for", self._exists)

    def _exists(self) -> bool:
        admin = self.clients.admin(self._configuration)
        try:
            return self.name in admin.list_topics()
        finally:
            admin.close()

    def make(self) -> None:
        """Create the topic if it does not exist.

        Raises:
            TopicDenied, DriverError: it can't be created.
        """
        if not self.exists():
            self.guarded("making", self._make)

    def _make(self) -> None:
        admin = self.clients.admin(self._configuration)
        try:
            replicas = min(REPLICAS, len(live_brokers(admin.describe_cluster())))
            configs = {"cleanup.policy": "compact", "min.insync.replicas": str(max(1, replicas - 1))}
            with suppress(kafka_errors.TopicAlreadyExistsError):
                admin.create_topics([NewTopic(self.name, 1, replicas, topic_configs=configs)])
            admin.wait_for_topics([self.name], timeout_ms=30_000)
        finally:
            admin.close()

    def guarded(self, what: str, work: Callable[[], Answer]) -> Answer:
        """Do some work; convert the library's errors.

        Raises:
            TopicFenced, TopicDenied, DriverError: as their names say.
        """
        try:
            return work()
        except DriverError:
            raise
        except _FENCED as error:
            told = f"{self.place}: another process took it over ({type(error).__name__})"
            raise TopicFenced(told, retriable=False) from error
        except kafka_errors.AuthorizationError as error:
            told = f"{what} {self.place} is not allowed: needs Read and Write on Topic {self.name} and on its"
            raise TopicDenied(f"{told} TransactionalId ({type(error).__name__})", retriable=False) from error
        except kafka_errors.KafkaError as error:
            told = str(self.shortage() or "") or f"{in_words(error)}{self._silent()}"
            raise DriverError(f"{what} {self.place}: {told}", retriable=True) from error

    def _silent(self) -> str:
        """The bootstrap servers that don't answer now, and why, to be put behind an error; "": all do."""
        servers = servers_of(self._configuration) if self._configuration else []
        found = look_at(servers, protocol_of(self._configuration)) if servers else {}
        silent = {server: why for server, why in found.items() if why is not None}
        return f"; {told_each(silent)}" if silent else ""

    def shortage(self) -> Shortage | None:
        """Why no record can be written now, of this topic and the one that its transactions need; None: not known."""
        with suppress(DriverError, kafka_errors.KafkaError):
            admin = self.clients.admin(self._configuration)
            try:
                return self._shortage(admin)
            finally:
                admin.close()
        return None

    def _shortage(self, admin: Any) -> Shortage | None:
        found = [each for each in admin.describe_topics([self.name, TRANSACTIONS_TOPIC]) if each["error_code"] == 0]
        if not found:
            return None
        least = min_insync(admin, [str(each["name"]) for each in found])
        live = live_brokers(admin.describe_cluster())
        for each in found:
            topic = topic_seen(each, least)
            if topic is None or not topic.partitions:
                continue
            number, place = 0, self.place
            if each["name"] != self.name:
                number = partition_of(self._transactional_id, len(topic.partitions))
                place = f"{each['name']}-{number}"
            if short := shortage(place, topic.partitions[number], topic.min_isr, live):
                return short
        return None

    def open(self) -> None:
        """Connect the reader; it begins at the first record."""
        if self._consumer is None:
            self._consumer = self.guarded("opening", self._open)

    def _open(self) -> Any:
        consumer = self.clients.consumer(
            **self.known(self.clients.consumer),
            enable_auto_commit=False,
            isolation_level="read_committed",
            group_id=None,
        )
        consumer.assign([self._partition])
        consumer.seek_to_beginning(self._partition)
        return consumer

    def news(self) -> Iterator[Any]:
        """The records that were committed since the last call, in order. The library's errors are not converted."""
        end = self._end()
        idle = 0
        while int(self._consumer.position(self._partition)) < end:
            polled = self._consumer.poll(timeout_ms=POLL_MS)
            idle = 0 if polled else idle + 1
            if idle > ATTEMPTS:
                raise DriverError(f"{self.place}: can't be read to its end", retriable=True)
            for records in polled.values():
                yield from records

    def _end(self) -> int:
        """The end of the partition, from whoever leads it now.

        kafka-python 3.0 asks a former leader again and again, until the time is over, and never who leads now.
        """
        within_s, until_s = FIRST_WITHIN_S, time.monotonic() + ANSWERED_WITHIN_S
        while True:
            try:
                found = self._consumer.end_offsets([self._partition], timeout_ms=int(within_s * 1000))
                return int(found[self._partition])
            except kafka_errors.KafkaTimeoutError:
                if time.monotonic() >= until_s:
                    raise
                self._consumer._cluster.request_update()  # noqa: SLF001  all public calls wait for it without end
                within_s = min(2 * within_s, max(FIRST_WITHIN_S, until_s - time.monotonic()))

    def fence(self) -> None:
        """Become the only process that may write. The library's errors are not converted."""
        self._producer = self.clients.producer(
            **self.known(self.clients.producer),
            acks="all",
            enable_idempotence=True,
            transactional_id=self._transactional_id,
        )
        self._producer.init_transactions()

    @property
    def taken(self) -> bool:
        """Whether this process has taken the topic at some time; another one may have it now."""
        return self._producer is not None

    def write(self, values: Sequence[tuple[str, bytes | None]]) -> None:
        """Write records in one transaction. The library's errors are not converted. Pre: `taken`."""
        self._producer.begin_transaction()
        try:
            sent = [self._producer.send(self.name, key=key.encode(), value=value) for key, value in values]
            self._producer.flush(ANSWERED_WITHIN_S)
            for answer in sent:
                answer.get(ANSWERED_WITHIN_S)
            self._producer.commit_transaction()
        except kafka_errors.KafkaError:
            with suppress(kafka_errors.KafkaError):
                self._producer.abort_transaction()
            raise

    def known(self, client: Any) -> dict[str, Any]:
        """The part of the Admin client's configuration that another client knows."""
        configuration = answering(self._configuration) if self._configuration else {}
        return {name: value for name, value in configuration.items() if name in client.DEFAULT_CONFIG}

    def close(self) -> None:
        """Close all connections."""
        producer, consumer = self._producer, self._consumer
        self._producer = self._consumer = None
        if producer is not None:
            producer.close(timeout=5)
        if consumer is not None:
            consumer.close()
