"""What one client may take of the room that all clients share.

A client that logs in is counted by its principal, from however many addresses it comes; any other by its address.
Brokers that have proved to be brokers are not counted (`door`).
"""

from __future__ import annotations

from collections import OrderedDict

from shunter.drivers.answer import Answer
from shunter.drivers.memory_pool import Holder, MemoryPool
from shunter.model.settings import WireLimits


class AnswerRoom:
    """Bytes of answers that peers have not read yet; pieces that several answers share are counted once."""

    def __init__(self, limit: int) -> None:
        self._pool = MemoryPool(limit)
        self._lent: dict[int, int] = {}

    @property
    def held(self) -> int:
        """Bytes that are held."""
        return self._pool.held

    @property
    def full(self) -> bool:
        """Whether no further request should be begun."""
        return self._pool.full

    @property
    def sharers(self) -> tuple[int, ...]:
        """How many answers share each group of pieces."""
        return tuple(self._lent.values())

    def lend(self, answer: Answer) -> None:
        """An answer is about to be sent."""
        if answer.pieces:
            users = self._lent.get(id(answer.pieces), 0)
            self._lent[id(answer.pieces)] = users + 1
            if users == 0:
                self._pool.take(answer.shared)
        self._pool.take(answer.own)

    def give_back(self, answer: Answer) -> None:
        """An answer is sent, or will never be."""
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
        key: the principal, or the address.
        limits: of all clients together.
    """

    def __init__(self, key: str, limits: WireLimits) -> None:
        self.key = key
        self.users = 0
        """Connections."""
        self.begun = 0
        """Requests that are begun and not answered."""
        self.most = _part(limits.queued_max_requests, limits)
        """How many requests may be begun and not answered."""
        self.answers = AnswerRoom(_part(limits.queued_max_answer_bytes, limits))
        self._most_bytes = _part(limits.queued_max_request_bytes, limits)
        self._reserved = 0
        self._waiting: OrderedDict[Holder, None] = OrderedDict()

    def may_begin(self) -> bool:
        """Tell whether another request may be begun."""
        return self.begun < self.most and not self.answers.full

    def reserve(self, holder: Holder, size: int) -> bool:
        """Reserve room for a large request before it is read; where there is none, `room_again` calls the holder later.

        A request is never greater than the room: a client that has nothing reserved may read one of any size.
        """
        if self._reserved and self._reserved + size > self._most_bytes:
            self._waiting[holder] = None
            return False
        self._waiting.pop(holder, None)
        self._reserved += size
        return True

    def release(self, size: int) -> None:
        """A large request is answered, or will never be."""
        self._reserved -= size
        if size:
            for holder in tuple(self._waiting):
                holder.room_again()

    def forget(self, holder: Holder) -> None:
        """A holder waits no longer."""
        self._waiting.pop(holder, None)


class Shares:
    """The shares of all who are connected."""

    def __init__(self, limits: WireLimits) -> None:
        self._limits = limits
        self._by_key: dict[str, Share] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def enter(self, key: str) -> Share:
        """A connection counts to somebody from now on."""
        share = self._by_key.setdefault(key, Share(key, self._limits))
        share.users += 1
        return share

    def leave(self, share: Share) -> None:
        """A connection does not any more."""
        share.users -= 1
        if share.users == 0:
            del self._by_key[share.key]


def _part(bound: int, limits: WireLimits) -> int:
    return max(1, -(-bound * limits.client_share_percent // 100))
