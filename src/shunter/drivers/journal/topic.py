"""The journal in the cluster itself, for executions that must outlive the executor's host: one compacted topic.

Keys: `entry-N` (an entry, with its checksum), `lease` (the executor that drives it), `order-ID` (orders of other
shells) and `answer-N`. The executor deletes an order when it answers it, and an answer when no shell waits for it any
more. The topic has one partition, so its records have one order. An executor that takes the lease fences the former
executor's producer (`compacted_topic`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from kafka import errors as kafka_errors

from shunter.core.own_topics import Shortage
from shunter.drivers.journal.compacted_topic import ANSWERED_WITHIN_S, Clients, CompactedTopic, TopicFenced
from shunter.drivers.journal.journals import (
    ANSWER_WITHIN_S,
    JournalDamaged,
    JournalFenced,
    JournalForsaken,
    JournalHeld,
    OrderRow,
    Presence,
    this_process,
)
from shunter.errors import DriverError, FormatError
from shunter.formats.journal import JournalRow, decode_line, encode_line
from shunter.formats.own_records import read_record
from shunter.model.execution import JournalEntry, LeaseHolder

Answer = TypeVar("Answer")

LEASE_KEY = "lease"
ANSWERS_KEPT_MS = 4 * int(ANSWER_WITHIN_S * 1000)
"""An answer is deleted after so long: four times as long as a shell waits, because the shell's clock may be slower."""


@dataclass(slots=True)
class _Seen:
    """The topic's contents, as far as they were read."""

    rows: dict[int, JournalRow] = field(default_factory=dict[int, JournalRow])
    lease: LeaseHolder | None = None
    orders: dict[int, OrderRow] = field(default_factory=dict[int, OrderRow])
    order_keys: dict[int, str] = field(default_factory=dict[int, str])
    """Orders that are not deleted yet, answered ones included."""
    answers: dict[int, str] = field(default_factory=dict[int, str])


def topic_exists(configuration: Mapping[str, Any], topic: str) -> bool:
    """Whether a topic exists."""
    return CompactedTopic(configuration, topic, "").exists()


def topic_shortage(configuration: Mapping[str, Any], topic: str) -> Shortage | None:
    """Why a journal's topic takes no write now; None: it does, as far as is known."""
    return CompactedTopic(configuration, topic, _transactional_id(topic)).shortage()


def _transactional_id(topic: str) -> str:
    return f"shunter-executor-{topic}"


class TopicJournal:
    """One journal topic. Use it in one thread at a time."""

    def __init__(
        self,
        configuration: Mapping[str, Any],
        topic: str,
        owner: str,
        *,
        presence: Presence | None = None,
        clients: Clients | None = None,
    ) -> None:
        """Connect; the topic is created if it does not exist.

        Args:
            configuration: kafka-python's names, as for the Admin client.
            topic: The journal's topic, for this cluster only.
            owner: Names this process in the lease; it has to be unique.
            presence: Host and process for the lease; None: this process.
            clients: Replace kafka-python's.

        Raises:
            DriverError: the cluster does not answer, or a right is missing.
        """
        self.topic = topic
        self.owner = owner
        self._presence = this_process() if presence is None else presence
        self._topic = CompactedTopic(configuration, topic, _transactional_id(topic), clients)
        self._orders_producer: Any = None
        self._seen = _Seen()
        self._answered_ms: dict[int, int] = {}
        """When this executor first saw each answer: the clocks of other hosts may differ."""
        self._place = self._topic.place
        self._topic.make()
        self._topic.open()

    def _guarded(self, what: str, work: Callable[[], Answer]) -> Answer:
        try:
            return self._topic.guarded(what, work)
        except TopicFenced as error:
            raise self._taken_over(error) from error

    def _taken_over(self, error: TopicFenced) -> JournalFenced:
        """Make the error that another producer fenced this one; the topic says whether it still drives, if it can."""
        with suppress(DriverError, kafka_errors.KafkaError):
            self._catch_up()
            fenced = self._fenced()
            if isinstance(fenced, JournalForsaken):
                return fenced
        told = f"{self._place}: another executor took it over ({type(error.__cause__).__name__})"
        return JournalFenced(told, retriable=False)

    def _catch_up(self) -> None:
        """Read the records that were committed since the last call."""
        for record in self._topic.news():
            self._take(record.key.decode(), record.value, int(record.offset), int(record.timestamp))

    def _take(self, key: str, value: bytes | None, offset: int, at_ms: int) -> None:
        seen = self._seen
        kind, _dash, rest = key.partition("-")
        if key == LEASE_KEY:
            seen.lease = None if value is None else read_record(LeaseHolder, value, f"{self._place}: {LEASE_KEY}")
        elif kind == "entry" and value is not None:
            body, _newline, checksum = value.decode().rpartition("\n")
            seen.rows[int(rest)] = JournalRow(int(rest), body, int(checksum) if checksum.isdigit() else None)
        elif kind == "order" and value is None:
            for number in [number for number, named in seen.order_keys.items() if named == key]:
                seen.orders.pop(number, None)
                seen.order_keys.pop(number, None)
        elif kind == "order" and value is not None:
            document = orjson.loads(value)
            seen.orders[offset] = OrderRow(offset, at_ms, document["kind"], document["body"], None)
            seen.order_keys[offset] = key
        elif kind == "answer" and value is not None:
            seen.answers[int(rest)] = value.decode()
            seen.orders.pop(int(rest), None)
        elif kind == "answer":
            seen.answers.pop(int(rest), None)

    def load(self, after: int = 0) -> tuple[JournalEntry, ...]:
        """Read all entries after the one of this sequence.

        Raises:
            JournalDamaged: an entry is damaged or missing; carries those before it.
        """
        self._guarded("reading", self._catch_up)
        readable: list[JournalEntry] = []
        for sequence in sorted(each for each in self._seen.rows if each > after):
            due = after + len(readable) + 1
            if sequence != due:
                raise JournalDamaged(self._place, f"entry {due} is missing", tuple(readable))
            try:
                readable.append(decode_line(self._seen.rows[sequence], self._place))
            except FormatError as error:
                raise JournalDamaged(error.place, error.rule, tuple(readable)) from error
        return tuple(readable)

    def append(self, entries: Sequence[JournalEntry], now_ms: int) -> None:
        """Make entries durable in one transaction, which also renews the lease.

        Raises:
            JournalFenced: another executor took the journal over.
            DriverError: the cluster does not accept the transaction.
        """
        values: list[tuple[str, bytes | None]] = []
        for entry in entries:
            row = encode_line(entry)
            values.append((f"entry-{row.sequence}", f"{row.body}\n{row.checksum}".encode()))
        self._write_with_lease(values, now_ms)

    def _lease(self, now_ms: int) -> tuple[str, bytes | None]:
        return LEASE_KEY, orjson.dumps(self._presence.lease(self.owner, now_ms)._asdict())

    def _write(self, values: Sequence[tuple[str, bytes | None]]) -> None:
        if not self._topic.taken:
            raise JournalFenced(f"{self._place}: the lease is not ours", retriable=False)
        self._topic.write(values)

    def acquire(self, now_ms: int) -> None:
        """Take the lease, and fence the executor that had it.

        Raises:
            JournalHeld: another executor has the lease, which is neither expired nor of a dead process on this host.
        """
        holder = self.holder(now_ms)
        if holder is not None and holder.owner != self.owner:
            raise JournalHeld(self._place, holder)
        self._guarded("taking", self._topic.fence)
        self._guarded("taking", lambda: self._write([self._lease(now_ms)]))

    def renew(self, now_ms: int) -> None:
        """Renew the lease.

        Raises:
            JournalFenced: another executor took the journal over.
        """
        self._write_with_lease([], now_ms)

    def _write_with_lease(self, values: Sequence[tuple[str, bytes | None]], now_ms: int) -> None:
        outdated = self._outdated(now_ms)
        keys = [f"answer-{number}" for number in outdated]
        keys += [key for number in outdated if (key := self._seen.order_keys.get(number)) is not None]
        deleted: list[tuple[str, bytes | None]] = [(key, None) for key in keys]
        self._guarded("writing to", lambda: self._write([*values, *deleted, self._lease(now_ms)]))
        for number in outdated:
            self._seen.answers.pop(number, None)
            del self._answered_ms[number]

    def _outdated(self, now_ms: int) -> list[int]:
        """Return the orders whose answers no shell waits for any more."""
        known = self._answered_ms
        self._answered_ms = {number: min(known.get(number, now_ms), now_ms) for number in self._seen.answers}
        return [number for number, seen_ms in self._answered_ms.items() if now_ms - seen_ms >= ANSWERS_KEPT_MS]

    def check(self) -> None:
        """Check that this executor still has the lease, without a transaction.

        Raises:
            JournalFenced: another executor took the journal over.
        """
        self._guarded("reading", self._catch_up)
        lease = self._seen.lease
        if lease is None or lease.owner != self.owner:
            raise self._fenced()

    def _fenced(self) -> JournalFenced:
        """Make the error that the lease that was read last is not this executor's."""
        lease = self._seen.lease
        if lease is None or self._presence.has_ended(lease):
            return JournalForsaken(self._place)
        return JournalFenced(f"{self._place} is driven by {lease} now, not by us", retriable=False)

    def release(self) -> None:
        """Give the lease back, if this executor has it."""
        if self._topic.taken:
            with suppress(JournalFenced):
                self._guarded("releasing", lambda: self._write([(LEASE_KEY, None)]))

    def holder(self, now_ms: int) -> LeaseHolder | None:
        """Return the executor that drives the journal now; None if no executor does."""
        lease = self.lease()
        return None if lease is None or self._presence.lapsed(lease, now_ms) else lease

    def lease(self) -> LeaseHolder | None:
        """Return the lease as the topic has it, even if it does not count any more; None if there is none."""
        self._guarded("reading", self._catch_up)
        return self._seen.lease

    def order(self, kind: str, document: object, now_ms: int) -> int:
        """Send an order to the executor that drives the journal; return the order's number, which is its offset."""
        value = orjson.dumps({"kind": kind, "body": orjson.dumps(document).decode(), "at_ms": now_ms})

        return self._guarded("ordering through", lambda: self._send_order(f"order-{uuid.uuid4().hex}", value))

    def _send_order(self, key: str, value: bytes | None) -> int:
        if self._orders_producer is None:
            producer = self._topic.clients.producer
            self._orders_producer = producer(**self._topic.known(producer), acks="all")
        sent = self._orders_producer.send(self.topic, key=key.encode(), value=value)
        return int(sent.get(ANSWERED_WITHIN_S).offset)

    def orders(self) -> tuple[OrderRow, ...]:
        """Return the orders without an answer, oldest first."""
        self._guarded("reading", self._catch_up)
        return tuple(self._seen.orders[number] for number in sorted(self._seen.orders))

    def answer(self, number: int, text: str) -> None:
        """Answer an order; compaction then removes the order."""
        values: list[tuple[str, bytes | None]] = [(f"answer-{number}", text.encode())]
        key = self._seen.order_keys.get(number)
        if key is not None:
            values.append((key, None))
        self._guarded("answering through", lambda: self._write(values))
        self._seen.orders.pop(number, None)
        self._seen.order_keys.pop(number, None)

    def answer_to(self, number: int) -> str | None:
        """Return the answer to an order; None if there is none yet."""
        self._guarded("reading", self._catch_up)
        return self._seen.answers.get(number)

    def withdraw(self, number: int, now_ms: int) -> bool:
        """Withdraw an order without an answer, if no executor drives the journal; return whether it was withdrawn.

        Kafka has no compare-and-set: an executor that takes the journal at the same moment may still see the order.
        """
        held = self.holder(now_ms) is not None  # This reads the topic too.
        key = self._seen.order_keys.get(number)
        if held or key is None or number not in self._seen.orders:
            return False
        self._guarded("ordering through", lambda: self._send_order(key, None))
        return True

    def close(self) -> None:
        """Close all connections; the lease stays as it is."""
        if self._orders_producer is not None:
            self._orders_producer.close(timeout=5)
        self._topic.close()
