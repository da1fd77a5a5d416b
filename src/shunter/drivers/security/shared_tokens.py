"""The token for the logins of all connections: one request for it at a time, and no wait while a valid one is kept."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from shunter.drivers.security.bearer_tokens import BearerTokens
from shunter.errors import DriverError
from shunter.model.security.listeners import BearerLogin

_LOG = logging.getLogger(__name__)

REFUSED_FOR_S = 1.0
"""How long an issuer is not asked again after a failure: hundreds of connections may try at the same time."""


class SharedTokens:
    """Tokens of one login.

    Args:
        login: says where the tokens come from.
        now: the wall clock, in seconds; tokens' times are in it.
    """

    def __init__(self, login: BearerLogin, now: Callable[[], float] = time.time) -> None:
        self._tokens = BearerTokens(login, now)
        self._asking: asyncio.Task[str | DriverError] | None = None
        self._ask_again_at = 0.0
        self._told = ""

    async def token(self) -> str:
        """Return a valid token. If it ends soon, a new one is requested in the background.

        Raises:
            DriverError: no token could be fetched, now or a moment ago.
        """
        held = self._tokens.held
        if held and not self._tokens.is_due:
            return held
        asking = self._another()
        if held:
            return held
        found = await asyncio.shield(asking)  # A caller that is cancelled leaves the request to the other callers.
        if isinstance(found, DriverError):
            raise found
        return found

    def _another(self) -> asyncio.Task[str | DriverError]:
        if self._asking is None or (self._asking.done() and time.monotonic() >= self._ask_again_at):
            self._asking = asyncio.create_task(self._ask(), name="token")
        return self._asking

    async def _ask(self) -> str | DriverError:
        """Request a token in a thread. A refusal is returned, not raised: perhaps no caller waits for it any longer."""
        try:
            token = await asyncio.to_thread(self._tokens.token)
        except DriverError as refusal:
            if str(refusal) != self._told:
                self._told = str(refusal)
                _LOG.warning("no login at brokers: %s", refusal)
            self._ask_again_at = time.monotonic() + REFUSED_FOR_S
            return refusal
        self._told = ""
        return token
