"""The order in which clients' requests are begun. Requests of proven brokers never wait here.

Requests are begun in turns: one of each principal (or of each address, if clients do not log in), and among a
principal's connections one of each. So neither ten thousand requests on one connection nor a thousand connections of
one client keep others waiting. No client may have more than its share of the begun requests (`shares`). One pass of the
event loop begins only as many requests as take about `PASS_SECONDS`, which is found by measuring.

When a broker's request comes, clients are held back: no client's request is read, begun or written until the broker's
is answered, or for `ALONE_SECONDS`. After that, clients have the loop for a third of that time, so that they keep a
quarter of all time however much brokers ask. If a broker's request waits in that time, each pass reads only a few
clients' sockets, and begins one request.

Clients that don't read their answers can fill the room for answers, and clients that send much can reach the bound of
begun requests. Neither delays a quick request: its answer is small, and a broker's first request is a quick one.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol

from shunter.drivers.listener.fair_selector import AT_MOST, FairSelector
from shunter.drivers.listener.shares import Share

PASS_SECONDS = 0.001
"""An ISR change takes some six passes: read, decide, write to ZooKeeper, hear the outcome, answer."""
MOST_IN_A_PASS = 16
HURRIED_SOCKETS = 2
ALONE_SECONDS = 0.02
"""Some six times the duration of an ISR change without other requests."""
CLIENTS_PART = 1 / 3
"""The clients' time after a time of brokers only, as a part of the latter: so clients have a quarter of all time."""
MOST_QUICK = 100
"""Quick requests that may be begun beyond the bound of all requests."""


class Asker(Protocol):
    """A connection as the request queue sees it."""

    share: Share

    def take_turn(self) -> None:
        """Begin one request."""
        ...

    def write_on(self) -> None:
        """Write the next part of an answer."""
        ...


class _Lane:
    """Connections with a request that is ready, by share. Shares have turns, and so have the connections of a share.

    Args:
        may: whether a request of a share may be begun. Few shares can be full at a time: each holds a great part of all
            room.
    """

    def __init__(self, may: Callable[[Share], bool]) -> None:
        self._rings: OrderedDict[Share, deque[Asker]] = OrderedDict()
        self._may = may
        self.length = 0

    def __contains__(self, share: Share) -> bool:
        return share in self._rings

    def append(self, asker: Asker) -> None:
        self._rings.setdefault(asker.share, deque()).append(asker)
        self.length += 1

    def next(self) -> Share | None:
        """Return the share whose turn it is; None if no waiting share may begin a request."""
        return next((share for share in self._rings if self._may(share)), None)

    def pop(self, share: Share) -> Asker:
        ring = self._rings.pop(share)
        asker = ring.popleft()
        if ring:
            self._rings[share] = ring
        self.length -= 1
        return asker


class RequestQueue:
    """Begins clients' requests in turns.

    Args:
        most: how many requests of clients may be begun and not yet answered.
        room: whether there is room for answers.
        selector: is set to report no clients' sockets, or fewer of them, while brokers wait.
    """

    def __init__(self, most: int, room: Callable[[], bool], selector: FairSelector | None = None) -> None:
        self.begun = 0
        """Requests of clients that are begun and not answered."""
        self.brokers = 0
        """Requests of brokers that are not answered."""
        self._most = most
        self.most_quick = MOST_QUICK
        self._room = room
        self._selector = selector
        self._quick = _Lane(lambda share: share.begun < share.most + self.most_quick)
        self._ordinary = _Lane(Share.may_begin)
        self._writers: deque[Asker] = deque()
        self._share = MOST_IN_A_PASS
        self._scheduled_at: float | None = None
        self._alone_since: float | None = None
        """Since when clients are held back; None: they are not."""
        self._shared_until = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._patient: list[asyncio.Future[None]] = []
        """Begun requests of clients that go on when clients are no longer held back."""

    @property
    def waiting(self) -> int:
        """The number of connections whose request waits for its turn."""
        return self._quick.length + self._ordinary.length

    @property
    def brokers_alone(self) -> bool:
        """Whether clients are held back now."""
        return self._alone_since is not None

    def waits(self, share: Share) -> bool:
        """Whether an ordinary request of a share waits for its turn."""
        return share in self._ordinary

    def queue(self, asker: Asker, *, quick: bool) -> None:
        """Queue a connection that has a request. A `quick` one (ApiVersions, brokers' APIs) doesn't wait for others."""
        (self._quick if quick else self._ordinary).append(asker)
        self.wake()

    def write_later(self, asker: Asker) -> None:
        """Queue a connection that has written its part of a long answer, to write on in its turn."""
        self._writers.append(asker)
        self.wake()

    def began(self, share: Share, *, broker: bool) -> None:
        """Note that a request is begun."""
        if broker:
            self.brokers += 1
            self._hurry()
            self._leave_alone()
        else:
            self.begun += 1
            share.begun += 1

    def ended(self, share: Share, *, broker: bool) -> None:
        """Note that a request is answered, or its connection is closed."""
        if broker:
            self.brokers -= 1
            self._hurry()
            if not self.brokers:
                self._share_again()
        else:
            self.begun -= 1
            share.begun -= 1
            self.wake()

    def wake(self) -> None:
        """Schedule a pass, if there is something to begin or to write."""
        if self._alone_since is not None or self._scheduled_at is not None:
            return
        if self._writers or self._next_quick() or self._next_ordinary():
            self._scheduled_at = time.perf_counter()
            asyncio.get_running_loop().call_soon(self._pass)

    def _next_ordinary(self) -> Share | None:
        return self._ordinary.next() if self.begun < self._most and self._room() else None

    def _next_quick(self) -> Share | None:
        return self._quick.next() if self.begun < self._most + self.most_quick else None

    def _hurry(self) -> None:
        if self._selector is not None:
            self._selector.at_most = HURRIED_SOCKETS if self.brokers else AT_MOST

    async def give_way(self) -> None:
        """Let other tasks run in the middle of a client's request, and wait as long as clients are held back."""
        await asyncio.sleep(0)
        while self._alone_since is not None:
            waiting = asyncio.get_running_loop().create_future()
            self._patient.append(waiting)
            await waiting

    def _leave_alone(self) -> None:
        now = time.perf_counter()
        if self._alone_since is None and now >= self._shared_until:
            self._alone_since = now
            self._alarm = asyncio.get_running_loop().call_later(ALONE_SECONDS, self._share_again)
            if self._selector is not None:
                self._selector.hold(held=True)

    def _share_again(self) -> None:
        if self._alone_since is None:
            return
        now = time.perf_counter()
        self._shared_until = now + (now - self._alone_since) * CLIENTS_PART
        self._alone_since = None
        if self._alarm is not None:
            self._alarm.cancel()
        if self._selector is not None:
            self._selector.hold(held=False)
        for waiting in self._patient:
            if not waiting.done():
                waiting.set_result(None)
        self._patient.clear()
        self.wake()

    def _pass(self) -> None:
        if self._alone_since is not None:
            self._scheduled_at = None
            return
        began = time.perf_counter()
        if self._scheduled_at is not None:
            # Requests that the last pass began have run before this callback.
            slow = began - self._scheduled_at > PASS_SECONDS
            self._share = max(1, self._share // 2) if slow else min(MOST_IN_A_PASS, self._share + 1)
        self._scheduled_at = None
        try:
            for _ in range(1 if self.brokers else self._share):
                self._one_of_each()
                if time.perf_counter() - began > PASS_SECONDS:
                    break
        finally:
            self.wake()

    def _one_of_each(self) -> None:
        if self._writers:
            self._writers.popleft().write_on()
        quick = self._next_quick()
        if quick is not None:
            self._quick.pop(quick).take_turn()
        ordinary = self._next_ordinary()
        if ordinary is not None:
            self._ordinary.pop(ordinary).take_turn()
