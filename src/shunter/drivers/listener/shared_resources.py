"""The resources that all connections share: room, turns, memory, and threads that decode."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from shunter.drivers.brokers.addresses import BrokerAddresses
from shunter.drivers.listener.admission import Admission, Peer, PeerKind
from shunter.drivers.listener.answer import Answer
from shunter.drivers.listener.fair_selector import FairSelector
from shunter.drivers.listener.handlers.context import Node
from shunter.drivers.listener.memory_pool import READ_BYTES, MemoryPool
from shunter.drivers.listener.request_queue import RequestQueue
from shunter.drivers.listener.shares import AnswerRoom, Share, Shares
from shunter.model.settings import WireLimits
from shunter.wire.requests import ParsedRequest, decode_request

DECODED_HERE_BYTES = 16_384
"""A larger request is decoded in a thread: kio takes some milliseconds for each thousand elements."""


class SharedResources:
    """The resources that the connections of one server share."""

    def __init__(self, node: Node, limits: WireLimits, selector: FairSelector | None) -> None:
        self.node = node
        self.limits = limits
        self.stats = node.stats
        self.addresses = BrokerAddresses()
        self.admission = Admission(limits, self.addresses.__contains__)
        self.shares = Shares(limits)
        self.answers = AnswerRoom(limits.queued_max_answer_bytes)
        self.queue = RequestQueue(limits.queued_max_requests, lambda: not self.answers.full, selector)
        self.scratch = memoryview(bytearray(READ_BYTES))
        self._pools = MemoryPool(limits.queued_max_request_bytes), MemoryPool(limits.queued_max_request_bytes)
        self._selector = selector
        self._decoders: dict[bool, ThreadPoolExecutor] = {}

    @property
    def pressed(self) -> bool:
        """Whether a request waits because answers that their peers don't read take all the room for answers."""
        return self.answers.full and self.queue.waiting > 0

    def pool_of(self, kind: PeerKind) -> MemoryPool:
        """Return the memory pool for requests of a kind: brokers have a separate pool."""
        return self._pools[1 if kind is PeerKind.BROKER else 0]

    def lend(self, answer: Answer, share: Share) -> None:
        """Count the memory of an answer that is about to be sent: in total, and for its receiver."""
        self.answers.lend(answer)
        share.answers.lend(answer)

    def give_back(self, answer: Answer, share: Share) -> None:
        """Stop counting an answer that was sent, or never will be."""
        self.answers.give_back(answer)
        share.answers.give_back(answer)
        self.queue.wake()

    def pressed_for(self, share: Share) -> bool:
        """Whether this client's requests wait because answers, its own or those of all clients, are not read."""
        return self.pressed or (share.answers.full and self.queue.waits(share))

    async def decode(self, frame: bytes, peer: str, *, broker: bool) -> ParsedRequest:
        """Decode a request; a large one in a thread, which shares no state with the event loop.

        Args:
            frame: the request without its size.
            peer: named in errors.
            broker: whether a broker sent it: brokers' requests don't wait for those of clients.

        Raises:
            FormatError: malformed.
            UnsupportedVersionError: as `decode_request`.
        """
        if len(frame) <= DECODED_HERE_BYTES:
            return decode_request(frame, self.limits, peer)
        if broker not in self._decoders:
            # One thread for brokers and one for clients: with more, the event loop would wait for all of them.
            self._decoders[broker] = ThreadPoolExecutor(1, "decoder")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._decoders[broker], decode_request, frame, self.limits, peer)

    def turn_away(self, peer: str, bound: str) -> None:
        """Count and log a connection that was turned away."""
        allowed = {
            "max.connections": self.limits.max_connections,
            "max.connections.per.ip": self.limits.max_connections_per_ip,
            "max.connections.per.principal": self.limits.share(self.limits.max_connections),
        }
        told = f"{bound}={allowed[bound]}" if bound in allowed else f"no more {bound}"
        self.stats.refuse(bound, f"{peer} turned away: {told}, and none of those that are open is idle")

    def set_back(self, fd: int) -> None:
        """Let a socket wait for its turn to be read."""
        if self._selector is not None:
            self._selector.set_back(fd)

    def set_forward(self, fd: int) -> None:
        """Let a socket be read before those that wait for their turn."""
        if self._selector is not None:
            self._selector.set_forward(fd)

    def set_aside(self, fd: int) -> None:
        """Accept no connections from a listening socket while clients are held back."""
        if self._selector is not None:
            self._selector.set_aside(fd)

    def forget_door(self, fd: int) -> None:
        """Forget a listening socket that is closed."""
        if self._selector is not None:
            self._selector.forget(fd)

    def forget(self, fd: int, peer: Peer) -> None:
        """Forget the socket of a connection that is closed."""
        if self._selector is not None and peer.kind is not PeerKind.BROKER:
            self._selector.forget(fd)

    def close(self) -> None:
        """End the threads that decode."""
        for decoder in self._decoders.values():
            decoder.shutdown(wait=False, cancel_futures=True)
