"""Replies about topics, held back until every broker that a client may ask next has heard of the change.

CreateTopics and CreatePartitions are answered when the new partitions have leaders and the live brokers have heard of
them, DeleteTopics when the brokers have forgotten the topic. A reply waits at most `slow_broker_ms` for a broker that
hosts the topic, and at most `STRANGERS_MS` for any other broker, which may be frozen. The driver sees to the request's
own timeout. Source: docs/decisions/0022-topic-answers.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from shunter.core.controller.events import ReplyToken
from shunter.core.controller.outbox import Outbox
from shunter.core.controller.ready import Reply, TopicResultsReply
from shunter.errors import ErrorCode
from shunter.model.partition import BrokerId

Answer = tuple[ReplyToken, Reply]


STRANGERS_MS = 1_000
"""How long a reply about topics waits for brokers that host none of their partitions."""


class Announced(NamedTuple):
    """A reply, and what it waits for: brokers' answers to all requests up to `request_id`, or a moment in ms."""

    request_id: int
    all_until_ms: int
    """Until this moment the reply waits for every broker, after it for the `hosts` alone."""
    until_ms: int
    hosts: frozenset[BrokerId]
    answer: Answer


@dataclass(slots=True)
class TopicReplies:
    """Replies that wait, in the order of their steps: for leaders, for the announcement, for the brokers' answers."""

    outbox: Outbox
    unled: dict[str, list[Answer]] = field(default_factory=dict[str, list[Answer]])
    """Replies that wait for leaders, by the topic of their request whose partitions get them last."""
    unannounced: list[Answer] = field(default_factory=list[Answer])
    announced: list[Announced] = field(default_factory=list[Announced])
    passed_ms: int = 0
    """When `take_known` last looked whether brokers have answered."""

    def when_led(self, answer: tuple[ReplyToken, TopicResultsReply]) -> list[Answer]:
        """Hold a reply about new partitions back; returns it if none was created."""
        made = [result.name for result in answer[1].topics if result.error is ErrorCode.NONE]
        if not made:
            return [answer]
        self.unled.setdefault(made[-1], []).append(answer)
        return []

    def when_known(self, answer: tuple[ReplyToken, TopicResultsReply]) -> list[Answer]:
        """Hold a reply about deletions back; returns it if nothing is deleted."""
        if all(result.error is not ErrorCode.NONE for result in answer[1].topics):
            return [answer]
        self.unannounced.append(answer)
        return []

    def led(self, topics: Iterable[str]) -> None:
        """First elections of these topics are durable: go on with replies about them.

        A partition whose brokers are all gone gets a leader when they come back: no reply waits for that.
        """
        for name in sorted(self.unled.keys() & set(topics)):
            self.unannounced += self.unled.pop(name)

    def announce(self, now_ms: int, patience_ms: int) -> None:
        """The requests that announce the decisions were handed out: from now on the replies wait for their answers.

        A deletion's StopReplicas come after the announcement, and no reply waits for them. As from Apache, the reply
        comes while the topic is still being deleted.
        """
        last = self.outbox.last_metadata_id
        for answer in self.unannounced:
            all_until_ms, until_ms = now_ms + min(STRANGERS_MS, patience_ms), now_ms + patience_ms
            self.announced.append(Announced(last, all_until_ms, until_ms, self._hosts(answer), answer))
        self.unannounced.clear()

    def _hosts(self, answer: Answer) -> frozenset[BrokerId]:
        """The brokers that host the topics of a reply, which waits longest for them."""
        reply, topics = answer[1], self.outbox.state.topics
        names = [result.name for result in reply.topics] if isinstance(reply, TopicResultsReply) else []
        found: set[BrokerId] = set()
        for name in names:
            if name in topics:
                found.update(*(partition.assignment.replicas for partition in topics[name].partitions.values()))
        return frozenset(found)

    def take_known(self, now_ms: int) -> list[Answer]:
        """Replies that need not wait any longer."""
        if not self.announced:
            return []
        self.passed_ms = now_ms
        done = [each for each in self.announced if self._is_known(each, now_ms)]
        if done:
            self.announced = [each for each in self.announced if each not in done]
        return [each.answer for each in done]

    def _is_known(self, each: Announced, now_ms: int) -> bool:
        if now_ms >= each.until_ms:
            return True
        return self.outbox.heard(each.request_id, None if now_ms < each.all_until_ms else each.hosts)

    @property
    def due_ms(self) -> int | None:
        """When the next reply waits for fewer brokers than now, or is given whether brokers answered or not."""
        moments = (
            each.all_until_ms if self.passed_ms < each.all_until_ms else each.until_ms for each in self.announced
        )
        return min(moments, default=None)
