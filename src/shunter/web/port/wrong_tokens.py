"""Wrong tokens are answered late. A right one never waits, so nobody can keep a person out by guessing."""

from __future__ import annotations

import asyncio
from collections import Counter
from http import HTTPStatus

from shunter.web.problems import HttpRefusal

DELAY_SECONDS = 1.0
MOST_WAITING = 10
"""Wrong tokens of one address whose answer waits; the next ones are answered 429 at once."""


class WrongTokens:
    """Slows down who shows wrong tokens."""

    def __init__(self, delay_seconds: float = DELAY_SECONDS) -> None:
        self._delay_seconds = delay_seconds
        self._waiting: Counter[str] = Counter()
        self.count = 0
        """Wrong tokens since the service began."""

    async def slow_down(self, address: str) -> None:
        """Wait before a wrong token is answered.

        Raises:
            HttpRefusal: too many answers to this address wait already.
        """
        self.count += 1
        self.check(address)
        self._waiting[address] += 1
        try:
            await asyncio.sleep(self._delay_seconds)
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]

    def check(self, address: str) -> None:
        """Refuse an address that has too many wrong tokens waiting.

        Raises:
            HttpRefusal: it has.
        """
        if self._waiting[address] >= MOST_WAITING:
            told = f"{MOST_WAITING} wrong tokens from this address wait for their answer: try again in a few seconds"
            raise HttpRefusal(HTTPStatus.TOO_MANY_REQUESTS, "too-many-wrong-tokens", told, {"retry-after": "5"})
