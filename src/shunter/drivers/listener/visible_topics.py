"""The topics that a client may see: the authorizer is asked once for each name, until permissions change."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable

from shunter.core.authorizer import AclAuthorizer, Authorizer, Requester
from shunter.model.security.acl import Operation, topic

TURN_SECONDS = 0.002
"""How long names are checked before other tasks have a turn."""
REQUESTERS = 64
"""Number of requesters whose answers are remembered: those that asked last."""


class VisibleTopics:
    """Remembers the authorizer's answers.

    Args:
        authorizer: decides.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._version = -1
        self._known: OrderedDict[Requester, dict[str, bool]] = OrderedDict()

    async def among(self, names: Iterable[str], requester: Requester) -> list[str]:
        """Return those of the names that a requester may describe, in their order."""
        visible: list[str] = []
        turn_ends = time.perf_counter() + TURN_SECONDS
        for name in tuple(names):
            if self._may_see(name, requester):
                visible.append(name)
            if time.perf_counter() >= turn_ends:
                await asyncio.sleep(0)
                turn_ends = time.perf_counter() + TURN_SECONDS
        return visible

    def _may_see(self, name: str, requester: Requester) -> bool:
        known = self._answers(requester)
        answer = known.get(name)
        if answer is None:
            answer = known[name] = self._authorizer.allows(requester, Operation.DESCRIBE, topic(name))
        return answer

    def _answers(self, requester: Requester) -> dict[str, bool]:
        version = self._authorizer.version if isinstance(self._authorizer, AclAuthorizer) else 0
        if version != self._version:
            self._version = version
            self._known.clear()
        known = self._known.get(requester)
        if known is None:
            known = self._known[requester] = {}
            if len(self._known) > REQUESTERS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(requester)
        return known
