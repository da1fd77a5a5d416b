"""The journal's topic: the real topic journal over a log of records in memory instead of a cluster's.

Source: KIP-98. A producer that initializes a transactional id aborts the transaction under way and fences the former
producer. A consumer of committed records reads up to the first open transaction, and skips aborted ones. A
transaction that its producer does not end is aborted after a minute, and the producer fenced. Compaction keeps each
key's last record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

import orjson
from kafka import TopicPartition as KafkaTopicPartition
from kafka import errors as kafka_errors

from lab.simulation.scheduler import SECOND, Scheduler
from shunter.drivers.journal.compacted_topic import Clients
from shunter.drivers.journal.journals import Presence
from shunter.drivers.journal.topic import LEASE_KEY, TopicJournal
from shunter.formats.journal import JournalRow, decode_line
from shunter.model.execution import JournalEntry

PLACE = "simulated"
TRANSACTION_US = 60 * SECOND
"""The library's `transaction_timeout_ms`."""


class ProcessEnded(Exception):
    """The process has ended; raised in place of the request that it was about to send."""


@dataclass(slots=True)
class TopicRecord:
    """One record, or a transaction's end marker (`key` empty). `transaction`: 0 if the record is in none."""

    offset: int
    key: bytes
    value: bytes | None
    timestamp: int
    transaction: int = 0


class JournalTopic:
    """One partition with its records; the world uses it like `JournalDisk`."""

    def __init__(self, scheduler: Scheduler, on_durable: Callable[[JournalEntry], None]) -> None:
        """Begin empty; `on_durable` is called with each entry once it is committed."""
        self.scheduler = scheduler
        self._on_durable = on_durable
        self.records: list[TopicRecord] = []
        self.epoch = 0
        """The newest epoch of the transactional id. A producer with an older one is fenced."""
        self.transactions = 0
        self.open: int | None = None
        self._aborted: set[int] = set()
        self.known = 0
        self.damaged: tuple[TopicRecord, bytes | None] | None = None
        self.busy_until_us = 0
        self.end = 0
        """The next record's offset."""
        self._dying: tuple[str, int, Callable[[], None]] | None = None

    def journal(self, owner: str, presence: Presence) -> TopicJournal:
        """Open the topic."""
        return TopicJournal({}, PLACE, owner, presence=presence, clients=self.clients(owner))

    def clients(self, owner: str) -> Clients:
        """The clients of a process."""
        consumer, producer = _bound(_Consumer, self, owner), _bound(_Producer, self, owner)
        return Clients(lambda _configuration: _Admin(), consumer, producer)

    # ---- for clients

    def reach(self, owner: str) -> None:
        """A process's producer is about to send a request; the process may end at that."""
        if self._dying is None or self._dying[0] != owner:
            return
        _owner, left, kill = self._dying
        self._dying = (owner, left - 1, kill) if left > 1 else None
        if left == 1:
            kill()
            raise ProcessEnded

    def guard(self) -> None:
        """While the journal is busy, raise now and then that too few replicas are in sync."""
        if self.scheduler.now_us < self.busy_until_us and self.scheduler.chance(0.5):
            raise kafka_errors.NotEnoughReplicasError

    def append(self, key: bytes, value: bytes | None, transaction: int = 0) -> TopicRecord:
        """Append a record."""
        record = TopicRecord(self.end, key, value, self.scheduler.now_ms, transaction)
        self.records.append(record)
        self.end += 1
        return record

    def begin(self, transaction: int) -> None:
        """A record of a transaction arrives: the transaction is open, and expires if it is not ended in time."""
        if self.open != transaction:
            self.open = transaction
            self.scheduler.after(TRANSACTION_US, self._expire, transaction)

    def _expire(self, transaction: int) -> None:
        if self.open == transaction:
            self.epoch += 1
            self.end_transaction(transaction, committed=False)

    def end_transaction(self, transaction: int, *, committed: bool) -> None:
        """Commit a transaction, or abort it."""
        if not committed:
            self._aborted.add(transaction)
        self.append(b"", None)
        self.open = None
        for record in self.records if committed else ():
            if record.transaction == transaction and record.key.startswith(b"entry-"):
                self._durable(record)

    def _durable(self, record: TopicRecord) -> None:
        self.known = int(record.key.decode().partition("-")[2])
        assert record.value is not None
        body, _newline, checksum = record.value.decode().rpartition("\n")
        self._on_durable(decode_line(JournalRow(self.known, body, int(checksum)), PLACE))

    def stable(self) -> int:
        """The last stable offset: the first one that consumers of committed records don't see."""
        if self.open is None:
            return self.end
        return next((each.offset for each in self.records if each.transaction == self.open), self.end)

    def committed(self, since: int = 0) -> list[TopicRecord]:
        """The committed records from an offset on."""
        first, last = (bisect_left(self.records, offset, key=_offset) for offset in (since, self.stable()))
        seen = self.records[first:last]
        return [record for record in seen if record.key and record.transaction not in self._aborted]

    # ---- for the world

    def lose_power(self) -> None:
        """Do nothing: the topic is on other machines than the executor."""

    def die_within(self, owner: str, requests: int, kill: Callable[[], None]) -> bool:
        """Let a process end at the `requests`-th request of its producers."""
        self._dying = owner, requests, kill
        return True

    def compact(self, random: Random) -> bool:
        """Compact up to a random offset: each key's last committed record stays, tombstones too (for a day)."""
        upto = random.randint(0, self.stable())
        old = [record for record in self.committed() if record.offset < upto]
        last = {record.key: record.offset for record in old}
        self.records = [each for each in self.records if each.offset >= upto or last.get(each.key) == each.offset]
        return len(last) < len(old)

    def damage(self, random: Random) -> bool:
        """Change a digit of an entry."""
        entries = [record for record in self.committed() if record.key.startswith(b"entry-")]
        if self.damaged is not None or not entries:
            return False
        record = random.choice((entries[-1], random.choice(entries)))
        assert record.value is not None
        digits = [place for place, letter in enumerate(record.value) if chr(letter).isdigit()]
        place = random.choice(digits)
        changed = str((int(chr(record.value[place])) + 1) % 10).encode()
        self.damaged = record, record.value
        record.value = record.value[:place] + changed + record.value[place + 1 :]
        return True

    def mend(self) -> None:
        """The operator restores the entry."""
        if self.damaged is not None:
            self.damaged[0].value = self.damaged[1]
            self.damaged = None

    def _answers(self) -> dict[int, str]:
        found = [(each.key.decode(), each.value) for each in self.committed() if each.key.startswith(b"answer-")]
        return {int(key.partition("-")[2]): value.decode() for key, value in found if value is not None}

    def unanswered(self) -> int:
        """The number of orders without an answer."""
        asked = {each.offset for each in self.committed() if each.key.startswith(b"order-") and each.value is not None}
        return len(asked - self._answers().keys())

    def answer_to(self, number: int) -> str | None:
        """The answer to an order; None: there is none yet."""
        return self._answers().get(number)

    def _lease(self) -> dict[str, Any]:
        for record in reversed(self.committed()):
            if record.key == LEASE_KEY.encode():
                return {} if record.value is None else orjson.loads(record.value)
        return {}

    def owner(self) -> str:
        """The owner of the lease; empty: there is none."""
        return str(self._lease().get("owner", ""))

    def host(self) -> str:
        """The host of the lease's owner; empty: there is none."""
        return str(self._lease().get("host", ""))


def _offset(record: TopicRecord) -> int:
    return record.offset


def _bound(client: Any, topic: JournalTopic, owner: str) -> Any:
    """A class in place of the library's client class, bound to this topic and to the client's owner."""
    return type(client.__name__, (client,), {"topic": topic, "owner": owner})


class _Admin:
    """An admin client that finds the topic."""

    def list_topics(self) -> list[str]:
        return [PLACE]

    def describe_topics(self, _names: Sequence[str]) -> list[dict[str, Any]]:
        return []  # Nothing is known of their replicas.

    def close(self) -> None:
        """Nothing is open."""


class _Consumer:
    """Reads committed records."""

    DEFAULT_CONFIG: ClassVar[Mapping[str, Any]] = {}
    topic: JournalTopic

    def __init__(self, **_configuration: Any) -> None:
        self._position = 0

    def assign(self, partitions: Sequence[KafkaTopicPartition]) -> None:
        """Do nothing: there is one partition."""

    def seek_to_beginning(self, partition: KafkaTopicPartition) -> None:
        del partition
        self._position = 0

    def end_offsets(self, partitions: Sequence[KafkaTopicPartition], timeout_ms: int) -> dict[KafkaTopicPartition, int]:
        del timeout_ms
        return dict.fromkeys(partitions, self.topic.stable())

    def position(self, partition: KafkaTopicPartition) -> int:
        del partition
        return self._position

    def poll(self, timeout_ms: int) -> dict[KafkaTopicPartition, list[TopicRecord]]:
        del timeout_ms
        since, self._position = self._position, self.topic.stable()
        return {KafkaTopicPartition(PLACE, 0): self.topic.committed(since)}

    def close(self) -> None:
        """Nothing is open."""


class _Sent:
    def __init__(self, record: TopicRecord) -> None:
        self._record = record

    def get(self, within_s: float) -> TopicRecord:
        del within_s
        return self._record


class _Producer:
    """Writes records, in transactions if it has an id for them."""

    DEFAULT_CONFIG: ClassVar[Mapping[str, Any]] = {}
    topic: JournalTopic
    owner: str

    def __init__(self, **configuration: Any) -> None:
        self._epoch = 0 if configuration.get("transactional_id") else None
        self._transaction = 0

    def init_transactions(self) -> None:
        topic = self.topic
        topic.reach(self.owner)
        topic.guard()
        topic.epoch += 1
        self._epoch = topic.epoch
        if topic.open is not None:
            topic.end_transaction(topic.open, committed=False)

    def _may(self) -> None:
        self.topic.reach(self.owner)
        self.topic.guard()
        if self._epoch is not None and self._epoch != self.topic.epoch:
            raise kafka_errors.ProducerFencedError

    def begin_transaction(self) -> None:
        if self._epoch == self.topic.epoch and self.topic.open is not None:
            raise kafka_errors.IllegalStateError  # The previous transaction is still open.
        self.topic.transactions += 1
        self._transaction = self.topic.transactions

    def send(self, topic: str, key: bytes, value: bytes | None) -> _Sent:
        del topic
        self._may()
        if self._epoch is not None:
            self.topic.begin(self._transaction)
        return _Sent(self.topic.append(key, value, self._transaction if self._epoch is not None else 0))

    def flush(self, within_s: float) -> None:
        """Do nothing: `send` has appended everything."""

    def commit_transaction(self) -> None:
        self._may()
        self.topic.end_transaction(self._transaction, committed=True)
        self.topic.guard()  # It is committed, but the caller may get an error.

    def abort_transaction(self) -> None:
        self._may()
        if self.topic.open == self._transaction:
            self.topic.end_transaction(self._transaction, committed=False)

    def close(self, timeout: float) -> None:
        """Nothing is open."""
