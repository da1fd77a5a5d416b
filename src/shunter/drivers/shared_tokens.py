"""The token by which all connections of ours log in: one asks for it at a time, and nobody waits while there is one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from shunter.drivers.bearer_tokens import BearerTokens
from shunter.errors import DriverError
from shunter.model.security import BearerLogin

_LOG = logging.getLogger(__name__)

REFUSED_FOR_S = 1.0
"""How long an issuer that gave no token is not asked again: hundreds of connections are tried at once."""


class SharedTokens:
    """Tokens of one login.

    Args:
        login: where they come from.
        now: the wall clock, in seconds, which tokens' lives are told in.
    """

    def __init__(self, login: BearerLogin, now: Callable[[], float] = time.time) -> None:
        self._tokens = BearerTokens(login, now)
        self._asking: asyncio.Task[str | DriverError] | None = None
        self._ask_again_at = 0.0
        self._told = ""

    async def token(self) -> str:
        """Give a token that is good now. One that ends soon is given while another is asked for.

        Raises:
            DriverError: there is none to be had, now or a moment ago.
        """
        held = self._tokens.held
        if held and not self._tokens.is_due:
            return held
        asking = self._another()
        if held:
            return held
        found = await asyncio.shield(asking)  # Whoever stops waiting leaves the issuer's answer to the others.
        if isinstance(found, DriverError):
            raise found
        return found

    def _another(self) -> asyncio.Task[str | DriverError]:
        if self._asking is None or (self._asking.done() and time.monotonic() >= self._ask_again_at):
            self._asking = asyncio.create_task(self._ask(), name="token")
        return self._asking

    async def _ask(self) -> str | DriverError:
        """Ask in a thread. A refusal is given, not raised: perhaps nobody waits for it any more."""
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
