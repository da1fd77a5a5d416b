"""Limits how much of the clients' common room one client may take.

A client that logs in is counted by its principal, whatever its addresses; any other client by its address. Connections
that have proved to be brokers' are not counted (`admission`).
"""

from __future__ import annotations

from collections import OrderedDict

from shunter.drivers.listener.answer import Answer
from shunter.drivers.listener.memory_pool import Holder, MemoryPool
from shunter.model.settings import WireLimits


class AnswerRoom:
    """Counts bytes of answers that peers have not read yet. Pieces that several answers share are counted once."""

    def __init__(self, limit: int) -> None:
        self._pool = MemoryPool(limit)
        self._lent: dict[int, int] = {}

    @property
    def held(self) -> int:
        """The number of bytes held."""
        return self._pool.held

    @property
    def full(self) -> bool:
        """Whether the room is full, so that no further request should be begun."""
        return self._pool.full

    def lend(self, answer: Answer) -> None:
        """Count an answer that is about to be sent."""
        if answer.pieces:
            users = self._lent.get(id(answer.pieces), 0)
            self._lent[id(answer.pieces)] = users + 1
            if users == 0:
                self._pool.take(answer.shared)
        self._pool.take(answer.own)

    def give_back(self, answer: Answer) -> None:
        """Stop counting an answer that was sent, or never will be."""
        if answer.pieces:
            users = self._lent.pop(id(answer.pieces)) - 1
            if users:
                self._lent[id(answer.pieces)] = users
            else:
                self._pool.take(-answer.shared)
        self._pool.take(-answer.own)


class Share:
    """The share of one client.

    Args:
        key: the client's principal, or its address.
        limits: of all clients together.
    """

    def __init__(self, key: str, limits: WireLimits) -> None:
        self.key = key
        self.users = 0
        """Number of connections."""
        self.begun = 0
        """Number of requests that are begun and not answered."""
        self.most = limits.share(limits.queued_max_requests)
        """Bound of `begun`."""
        self.answers = AnswerRoom(limits.share(limits.queued_max_answer_bytes))
        self._most_bytes = limits.share(limits.queued_max_request_bytes)
        self._reserved = 0
        self._waiting: OrderedDict[Holder, None] = OrderedDict()

    def may_begin(self) -> bool:
        """Whether another request may be begun."""
        return self.begun < self.most and not self.answers.full

    def reserve(self, holder: Holder, size: int) -> bool:
        """Reserve room for a large request before it is read. If there is none, `room_again` is called later.

        A client that has nothing reserved may always reserve, whatever the size of its request.
        """
        if self._reserved and self._reserved + size > self._most_bytes:
            self._waiting[holder] = None
            return False
        self._waiting.pop(holder, None)
        self._reserved += size
        return True

    def release(self, size: int) -> None:
        """Release the room of a large request that was answered, or never will be."""
        self._reserved -= size
        if size:
            for holder in tuple(self._waiting):
                holder.room_again()

    def forget(self, holder: Holder) -> None:
        """Forget a holder that waits no longer."""
        self._waiting.pop(holder, None)


class Shares:
    """The shares of all connected clients."""

    def __init__(self, limits: WireLimits) -> None:
        self._limits = limits
        self._by_key: dict[str, Share] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def enter(self, key: str) -> Share:
        """Count a connection to a client, and return the client's share."""
        share = self._by_key.setdefault(key, Share(key, self._limits))
        share.users += 1
        return share

    def leave(self, share: Share) -> None:
        """Stop counting a connection to its client."""
        share.users -= 1
        if share.users == 0:
            del self._by_key[share.key]
