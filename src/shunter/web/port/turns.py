"""Turns of connections: however many ask, HTTP takes a few at a time, and at most about half of the event loop.

The executor, the kill switch and the commands of this host share the event loop with HTTP. A flood of requests costs
processor time before anybody knows who sent them. So bytes wait for a turn: a few turns in one pass of the loop, from
one address after the other, and after each pass a rest as long as the pass took.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

AT_ONCE = 4
"""Turns in one pass of the event loop. A turn reads up to one request, which costs about a millisecond."""
PASS_S = 0.005
"""After this time a pass has no more turns."""
LONGEST_REST_S = 0.05

Action = Callable[[], None]


class AddressTurns:
    """Actions that wait, by the address that asked for them."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[Action]] = OrderedDict()
        self._due = False

    def ask(self, address: str, action: Action) -> None:
        """Carry an action out when it is this address's turn. A caller has at most one action waiting."""
        self._waiting.setdefault(address, deque()).append(action)
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._take)

    def _take(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            for _ in range(AT_ONCE):
                if not self._waiting or loop.time() - began > PASS_S:
                    break
                address, actions = self._waiting.popitem(last=False)
                action = actions.popleft()
                if actions:
                    self._waiting[address] = actions  # The last in the row now.
                action()
        finally:
            # The tasks that the actions began run before this, in the same pass.
            loop.call_soon(self._rest, began)

    def _rest(self, began: float) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(min(loop.time() - began, LONGEST_REST_S), self._go_on)

    def _go_on(self) -> None:
        if self._waiting:
            self._take()
        else:
            self._due = False
