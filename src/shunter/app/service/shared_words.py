"""Where people's words about a cluster live: with the cluster, or on this host alone if no topic can be made there."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from shunter.core.keeper.cluster_facts import WordsPlace
from shunter.core.keeper.situation import AGAIN
from shunter.drivers.journal.compacted_topic import TopicFenced
from shunter.drivers.service.store import StoreFailed
from shunter.drivers.service.words_topic import WordsTopic, WordsUnmade
from shunter.errors import DriverError, ShunterError
from shunter.formats.word_records import WordsDriver
from shunter.model.service import StoreBatch, Words

Found = TypeVar("Found")
WITHIN_S = 12.0
"""How long reading or taking the topic may last; the journal's lease, which nobody renews meanwhile, lasts longer."""
MADE_WITHIN_S = 60.0
WRITTEN_WITHIN_S = 4.0, 8.0, 18.0
"""How long each try to write may last. kafka-python asks a coordinator that died until the time is over; a new client
finds the one that took over."""
EXPLAINED_WITHIN_S = 5.0
CLOSED_WITHIN_S = 5.0
ALONE_FOR_S, AGAIN_S = 600.0, 60.0
"""How long words that are on this host alone wait until the topic is tried again: a right is missing, or anything else."""


class _Unanswered(DriverError):
    """The time was over; why is not known."""


class SharedWords:
    """The topic of one cluster's words, used in a thread of its own."""

    def __init__(self, topic: Callable[[], WordsTopic], mine: WordsDriver) -> None:
        """Prepare. `topic` opens the topic; it is opened again after a failure."""
        self._open = topic
        self._mine = mine
        self._topic = topic()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="words")
        self.place = WordsPlace.UNREAD
        self.why = ""
        """Why the words are not read, or on this host alone."""
        self.again_s = AGAIN_S
        self._again_at_s = 0.0
        self.fenced = False
        """Whether the last write showed that another service has taken the words."""
        self.former: WordsDriver | None = None
        """The service that drove before this one took the words."""

    @property
    def mine(self) -> WordsDriver:
        """This service."""
        return self._mine

    @property
    def driver(self) -> WordsDriver | None:
        """The service that took the words last, as far as they were read."""
        return self._topic.driver

    @property
    def to_be_taken(self) -> bool:
        """Whether the service that drives has to take the words: again, or now that a topic may be possible."""
        if self.place is WordsPlace.ALONE:
            return time.monotonic() > self._again_at_s
        return not self.known

    def _stay_alone(self, error: WordsUnmade) -> None:
        self.place, self.why = WordsPlace.ALONE, str(error)
        self._again_at_s = time.monotonic() + (self.again_s if error.retriable else ALONE_FOR_S)

    @property
    def known(self) -> bool:
        """Whether this service knows all words, and may write."""
        return self.place.known

    async def follow(self) -> Words | None:
        """Make the topic if it is missing, and read what another service wrote; None: nothing is there to be read."""
        topic = self._topic

        def work() -> Words | None:
            found = topic.read()
            if found is None:
                topic.make()
            return found

        try:
            found = await self._called(work, MADE_WITHIN_S)
        except WordsUnmade as error:
            # Without the claim only a missing right is certain: whatever else fails may be over in a moment.
            if error.retriable:
                self.place, self.why = WordsPlace.UNREAD, str(error)
            else:
                self._stay_alone(error)
            return None
        except ShunterError as error:
            self.place, self.why = WordsPlace.UNREAD, str(error)
            return None
        # Whoever makes a topic that nobody took yet waits for the claim: another service may be about to take it.
        self.place, self.why = (WordsPlace.UNREAD if found is None else WordsPlace.READ), ""
        return found

    async def take(self, local: Words) -> Words | None:
        """Become the only writer; returns the words, or None if they are on this host alone. Pre: the claim is granted.

        Raises:
            DriverError, FormatError: the words may be in the cluster, and can't be read or written.
        """
        topic = self._topic
        self.former = topic.driver
        try:
            found = await self._called(lambda: topic.take(self._mine, local), WITHIN_S)
        except WordsUnmade as error:
            self._stay_alone(error)
            return None
        except ShunterError as error:
            self.place, self.why = WordsPlace.UNREAD, str(error)
            raise
        self.place, self.why, self.fenced = WordsPlace.TAKEN, "", False
        return found

    async def write(self, batch: StoreBatch, now_ms: int) -> None:
        """Make a batch's words durable in the cluster, if they live there.

        Raises:
            StoreFailed: they are not durable there, or it is not known whether they are. Then the topic has to be taken
                again before anything else is written: that shows what it has.
        """
        if self.place is WordsPlace.ALONE:
            return
        if self.place is not WordsPlace.TAKEN:
            told = "this service does not drive the cluster now, and only the one that does takes people's words"
            if self.place is WordsPlace.UNREAD:
                told = f"people's words about this cluster are not read yet: {self.why or AGAIN}"
            raise StoreFailed(told, retriable=True)
        try:
            await self._written(batch, now_ms)
        except ShunterError as error:
            self.place, self.fenced = WordsPlace.UNREAD, isinstance(error, TopicFenced)
            self.why = await self._shortage() or str(error) if isinstance(error, _Unanswered) else str(error)
            raise StoreFailed(self.why, retriable=True) from error

    async def _written(self, batch: StoreBatch, now_ms: int) -> None:
        """Write a batch, with a new client after each failure unless another service has taken the words.

        A failed transaction may be there nevertheless: the same records are written again then.
        """
        for tried, within_s in enumerate(WRITTEN_WITHIN_S, 1):
            topic, taken = self._topic, tried == 1

            def work(topic: WordsTopic = topic, *, taken: bool = taken) -> None:
                if not taken:
                    topic.take_again(self._mine)
                topic.write(batch, now_ms)

            try:
                await self._called(work, within_s)
            except DriverError as error:
                if tried == len(WRITTEN_WITHIN_S) or not (
                    error.retriable or (taken and isinstance(error, TopicFenced))
                ):
                    raise
            else:
                return

    async def _shortage(self) -> str:
        """Why nothing can be written now; "": not known."""
        topic = self._topic
        with contextlib.suppress(ShunterError):
            return await self._called(topic.shortage, EXPLAINED_WITHIN_S)
        return ""

    def let_go(self) -> None:
        """The claim is gone: another service may write from now on."""
        if self.place is WordsPlace.TAKEN:
            self.place = WordsPlace.READ

    async def _called(self, work: Callable[[], Found], within_s: float) -> Found:
        """Do some work in the thread. After a failure the topic is opened anew: its clients may be at their end."""
        try:
            async with asyncio.timeout(within_s):
                return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except TimeoutError as error:
            self._again()
            told = f"the topic of people's words did not answer within {within_s:.0f} s"
            raise _Unanswered(told, retriable=True) from error
        except DriverError:
            self._again()
            raise

    def _again(self) -> None:
        """Open the topic anew, in another thread: the old one may still wait for an answer."""
        self._thread.submit(self._topic.close)
        self._thread.shutdown(wait=False)
        self._topic, self._thread = self._open(), ThreadPoolExecutor(1, thread_name_prefix="words")

    async def close(self) -> None:
        """Close the connections."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSED_WITHIN_S):
                await asyncio.get_running_loop().run_in_executor(self._thread, self._topic.close)
        self._thread.shutdown(wait=False)
