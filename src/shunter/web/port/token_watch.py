"""Watches the file of tokens: streams of a removed token end at once, and tokens that expire soon are announced."""

from __future__ import annotations

import asyncio

from shunter.app.access.access_tokens import Tokens
from shunter.app.service.front import Front
from shunter.web.hub import Hub

EVERY_SECONDS = 1.0
ANNOUNCED_DAYS = (14, 3)
"""How many days ahead an event says that a token expires."""
SESSIONS_EVERY = 60
"""After so many checks streams are checked in any case, because sessions end without a change of the file."""


async def watch_tokens(tokens: Tokens, front: Front, hub: Hub, every_s: float = EVERY_SECONDS) -> None:
    """Watch until cancelled."""
    seen = tokens.current()
    announced: set[tuple[str, int | None, int]] = set()
    checks = 0
    while True:
        for days in ANNOUNCED_DAYS:
            for token in tokens.expiring(days):
                mark = (token.name, token.expires_ms, days)
                if mark not in announced:
                    announced.add(mark)
                    way_out = "make a new one by `shunter token add`, and remove this one"
                    text = f"the token of {token.name} expires within {days} days: {way_out}"
                    await front.note("token-expires", text)
        await asyncio.sleep(every_s)
        checks += 1
        now = tokens.current()
        if now != seen or checks % SESSIONS_EVERY == 0:
            seen = now
            hub.nudge()
