"""People's words about a cluster, kept in the cluster itself: one compacted topic beside the claim (decision 0506).

The service that has the claim takes the topic: it fences the former service's producer, reads to the end, and writes
who drives. Only then are the words known, and only this service may write. Others read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shunter.core.own_topics import WORDS_TOPIC
from shunter.drivers.journal.compacted_topic import Clients, CompactedTopic, TopicFenced
from shunter.errors import DriverError
from shunter.formats.word_records import (
    Record,
    WordsDriver,
    applied,
    decode_driver,
    decode_words,
    encode_batch,
    encode_driver,
    encode_words,
    outdated,
)
from shunter.model.service import StoreBatch, Words


class WordsUnmade(DriverError):
    """There is no topic, and none can be made or written: nobody's words are in the cluster."""


class WordsTopic:
    """The words of one cluster. Use it in one thread at a time; every call blocks."""

    def __init__(self, configuration: Mapping[str, Any], cluster: str, clients: Clients | None = None) -> None:
        """Prepare; nothing is connected yet.

        Args:
            configuration: kafka-python's names, as for the Admin client.
            cluster: The cluster's name in the policy file.
            clients: Replace kafka-python's.
        """
        self._cluster = cluster
        self._topic = CompactedTopic(configuration, WORDS_TOPIC, WORDS_TOPIC.strip("_"), clients)
        self._records: dict[str, bytes] = {}
        self._decoded: Words | None = None
        self._seen = False

    def read(self) -> Words | None:
        """The words as the topic has them now; None: it does not exist, or no service ever took it.

        Raises:
            DriverError: the cluster does not answer, or a right is missing.
            FormatError: a record can't be read.
        """
        if not self._seen:
            if not self._topic.exists():
                return None
            self._open()
        self._topic.guarded("reading", self._catch_up)
        return self._words() if self.driver is not None else None

    def _open(self) -> None:
        self._topic.open()
        self._seen = True

    @property
    def driver(self) -> WordsDriver | None:
        """The service that took the topic last, as far as it was read; None: none ever did."""
        return decode_driver(self._records, self._topic.place)

    def _words(self) -> Words:
        if self._decoded is None:
            self._decoded = decode_words(self._records, self._cluster, self._topic.place)
        return self._decoded

    def _take_in(self, records: list[Record]) -> None:
        self._records = applied(self._records, records)
        self._decoded = None

    def _catch_up(self) -> None:
        news = [(record.key.decode(), record.value) for record in self._topic.news()]
        if news:
            self._take_in(news)

    def make(self) -> None:
        """Create the topic if it does not exist.

        Raises:
            WordsUnmade: that is not possible now.
        """
        try:
            self._topic.make()
        except DriverError as error:
            raise WordsUnmade(str(error), retriable=error.retriable) from error

    def take(self, mine: WordsDriver, local: Words) -> Words:
        """Become the only writer, and read to the end. Pre: this service has the claim.

        Args:
            mine: This service.
            local: The words that this host has. A topic that no service ever took gets them.

        Raises:
            WordsUnmade: the topic can't be made or written, and no service ever took it.
            DriverError: it can't be read or written, though some service's words may be in it.
        """
        try:
            if self.read() is None:
                self.make()
            # A broker may not know yet that the topic exists: what it has is read whatever brokers say of that.
            self._open()
            self._topic.guarded("taking", self._topic.fence)
            before = self.read()
            self._write([encode_driver(mine), *(encode_words(local) if before is None else [])])
        except WordsUnmade:
            raise
        except DriverError as error:
            if self._seen and self.driver is not None:
                raise
            if not isinstance(error, TopicFenced) and self._nobody_wrote():
                raise WordsUnmade(str(error), retriable=error.retriable) from error
            raise
        return self._words()

    def take_again(self, mine: WordsDriver) -> None:
        """Become the only writer again, if no other service took the topic since this one did.

        A transaction that runs out of time in an outage fences its producer, as another service would.

        Raises:
            TopicFenced: another service has taken the topic.
            DriverError: it can't be read.
        """
        self.read()
        if self.driver == mine:
            self._topic.guarded("taking", self._topic.fence)
            self.read()
        if self.driver != mine:
            raise TopicFenced(f"{self._topic.place}: another service took it over", retriable=False)

    def _nobody_wrote(self) -> bool:
        """Whether it is certain that no service ever took the topic."""
        try:
            return self.read() is None
        except DriverError:
            return False

    def write(self, batch: StoreBatch, now_ms: int) -> None:
        """Make a batch's words durable, all or none.

        Raises:
            TopicFenced: another service has taken the topic.
            DriverError: the cluster does not accept them.
        """
        values = encode_batch(batch, self._records)
        if values:
            self._write([*outdated(self._records, now_ms), *values])

    def _write(self, values: list[Record]) -> None:
        self._topic.guarded("writing to", lambda: self._topic.write(values))
        self._take_in(values)

    def shortage(self) -> str:
        """Why no record can be written now: too few replicas in sync; "": not known."""
        return str(self._topic.shortage() or "")

    def close(self) -> None:
        """Close all connections; what was read is forgotten."""
        self._topic.close()
        self._records, self._decoded, self._seen = {}, None, False
