"""The executor's ways out in the service's words: as they are, they are for a shell that has the journal beside it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from shunter.app.executor.session import Target
from shunter.core.executor.ready import CommandReply, PlanReply
from shunter.model.notice import Notice
from shunter.views.execution import ExecutionView

_VERB = re.compile(r"`(shunter (?!withdraw )(?![^`]*--service)[^`]+)`")
"""Verbs that speak to the driver, not to a service."""
_TURNS = re.compile(r"`shunter (rollback|stop|pause|resume)`")
"""Orders that a service takes as they are. It refuses a `resume` for its driver under its kill switch."""
_PHRASES = (
    ("`shunter throttles clear`", "`shunter throttles clear --service SERVICE`"),
    (", or if it is dead say --take-over-cluster", "; if it is dead, this service takes over by itself"),
    (", or say --take-over-cluster to go on without a claim", "; this service tries again by itself"),
    ("; or `--take-over-cluster` takes the journal from it", ""),
)
"""A service has no flag `--take-over-cluster`: it tries again, and a claim ends with its process."""


@dataclass(frozen=True, slots=True)
class WaysOut:
    """Translates for the cluster and the journal of one service. `place`: the flags that name both."""

    place: str

    def told(self, text: str) -> str:
        """A sentence of the executor whose ways out can be typed as they are."""
        for theirs, ours in _PHRASES:
            text = text.replace(theirs, ours)
        text = _TURNS.sub(r"`shunter \1 --service SERVICE`", text)
        return _VERB.sub(rf"`\1 {self.place}`", text)

    def view(self, view: ExecutionView) -> ExecutionView:
        """A view of the execution, likewise."""
        rows = tuple(replace(row, stuck=self.told(row.stuck)) if row.stuck else row for row in view.moves)
        return replace(view, held=self.told(view.held), moves=rows)

    def reply(self, reply: CommandReply) -> CommandReply:
        """An answer to an order, likewise."""
        return replace(reply, text=self.told(reply.text))

    def plan_reply(self, reply: PlanReply) -> PlanReply:
        """An answer to a plan, likewise."""
        return replace(reply, error=None if reply.error is None else self.told(reply.error))

    def notices(self, listener: Callable[[Notice], None]) -> Callable[[Notice], None]:
        """A listener that hears notices likewise."""
        return lambda notice: listener(replace(notice, text=self.told(notice.text)))


def ways_out(target: Target) -> WaysOut:
    """The ways out of the service that drives this target."""
    if target.journal is not None:
        return WaysOut(f"--journal {target.journal}")
    topic = "" if target.journal_topic is None else f" --journal-topic {target.journal_topic}"
    return WaysOut(f"--bootstrap-server {target.bootstrap}{topic}")
