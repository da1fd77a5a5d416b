"""The keys that an identity provider publishes (JWKS): fetched when a token needs them, kept, and fetched anew."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

import jwt

from shunter.errors import DriverError, FormatError

_LOG = logging.getLogger(__name__)

ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Algorithms whose keys can be published: not HS256, whose key is a shared secret, nor `none`, which signs nothing."""
ASKED_AGAIN_S: Final = 10.0
"""The shortest time between two attempts to fetch keys, for instance for tokens that are signed by unknown keys."""
PATIENCE_S: Final = 1.0
"""A token whose key is known waits no longer for newer keys. The answer to a token with an unknown key needs them."""
DEADLINE_S: Final = 20.0
"""Bound for all of it, because a provider may send byte after byte."""


class PublishedKeys:
    """Keys by their ids.

    Args:
        place: Names the keys in messages.
        read: Returns the keys' JSON. It is called in a thread, and may raise DriverError.
        refresh_s: Kept keys are fetched anew after this time. If that fails, they go on to count.
        now: A monotonic clock, in seconds.
    """

    def __init__(
        self, place: str, read: Callable[[], str], refresh_s: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._place = place
        self._read = read
        self._refresh_s = refresh_s
        self._now = now
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None
        self._trouble = ""

    async def key(self, name: object) -> jwt.PyJWK:
        """Return the key of a name; for a token that names no key, the only key.

        Raises:
            DriverError: there is no such key; retriable if keys can't be fetched.
        """
        now = self._now()
        known = self._named(name)
        stale = now > self._fetched_at + self._refresh_s
        if (stale or known is None) and now > self._tried_at + ASKED_AGAIN_S and self._fetching is None:
            self._tried_at = now
            self._fetching = asyncio.create_task(self._fetch(), name="keys")
        if self._fetching is not None and (stale or known is None):
            # One fetch is for all who wait, and goes on if one of them hangs up.
            await asyncio.wait({self._fetching}, timeout=DEADLINE_S if known is None else PATIENCE_S)
            known = self._named(name)
        if known is None:
            why = f": {self._trouble}" if self._trouble else ""
            raise DriverError(f"no key {str(name)[:80]!r} at {self._place}{why}", retriable=bool(why))
        return known

    def _named(self, name: object) -> jwt.PyJWK | None:
        if name is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(name) if isinstance(name, str) else None

    async def _fetch(self) -> None:
        """Replace the keys. If no keys can be fetched, the former keys stay."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                keys = jwt.PyJWKSet.from_json(await asyncio.to_thread(self._read)).keys
        except (DriverError, FormatError) as error:
            self._fail(str(error))
        except TimeoutError:
            self._fail(f"{self._place}: no answer within {DEADLINE_S:.0f} s")
        except (OSError, ValueError, jwt.PyJWTError) as error:
            told = f": {error}" if isinstance(error, OSError) else ""
            self._fail(f"{self._place}: {type(error).__name__}{told}")
        else:
            self._keys = {each.key_id or "": each for each in keys}
            self._fetched_at = self._now()
            self._trouble = ""
            _LOG.info("%d keys of tokens from %s", len(self._keys), self._place)
        finally:
            self._fetching = None

    def _fail(self, why: str) -> None:
        self._trouble = why
        _LOG.warning("no keys of tokens: %s", why)
