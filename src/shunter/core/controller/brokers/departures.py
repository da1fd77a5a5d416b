"""Controlled shutdowns: a broker is told that it may stop once the other brokers know their new leaders.

Source: the controller redesign, third problem ("state change propagation and controlled shutdown approval out of
order"). Apache approves as soon as the requests to the others are queued.

A reply waits for every broker that shares a partition with the stopping one, but for none that is dead, unreachable or
slow, and for `slow_broker_ms` at most.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shunter.core.controller.events import ReplyToken
from shunter.core.controller.outbox import Outbox
from shunter.core.controller.ready import ControlledShutdownReply, Reply
from shunter.model.partition import BrokerId


@dataclass(slots=True)
class Departure:
    """A shutdown whose new leaders are durable. Its reply waits until `others` have answered up to `last_request`.

    `last_request` 0: not known yet.
    """

    reply_to: ReplyToken
    reply: ControlledShutdownReply
    others: frozenset[BrokerId]
    last_request: int = 0
    deadline_ms: int = 0


@dataclass(slots=True)
class Departures:
    """Replies that wait for acknowledgements. One instance per term."""

    outbox: Outbox
    waiting: list[Departure] = field(default_factory=list[Departure])

    def decided(self, reply_to: ReplyToken, reply: ControlledShutdownReply, others: frozenset[BrokerId]) -> None:
        """The new leaders are durable. The next requests that are handed out announce them."""
        self.waiting.append(Departure(reply_to, reply, others))

    def handed_out(self, now_ms: int) -> None:
        """The requests of the last batch were handed out: remember the last one, up to which brokers have to answer."""
        for each in self.waiting:
            if not each.last_request:
                each.last_request = self.outbox.next_request_id - 1
                each.deadline_ms = now_ms + self.outbox.settings.slow_broker_ms

    def settled(self, now_ms: int) -> list[tuple[ReplyToken, Reply]]:
        """Replies that are due: all other brokers acknowledged, or are gone, unreachable or slow."""
        if not self.waiting:
            return []
        done = [each for each in self.waiting if self._is_over(each, now_ms)]
        self.waiting = [each for each in self.waiting if each not in done]
        return [(each.reply_to, each.reply) for each in done]

    @property
    def due_ms(self) -> int | None:
        """When the next reply is given even if brokers stay silent, ms; None: no reply waits."""
        return min((each.deadline_ms for each in self.waiting if each.last_request), default=None)

    def _is_over(self, departure: Departure, now_ms: int) -> bool:
        if not departure.last_request:
            return False
        if now_ms >= departure.deadline_ms:
            return True
        return not any(self.outbox.owes_up_to(broker, departure.last_request) for broker in departure.others)
