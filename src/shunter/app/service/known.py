"""What is known about one cluster: how it answers, what the last observation saw, who drives it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from shunter.app.service.driving import Driving
from shunter.app.service.records import Records
from shunter.core.keeper.situation import Facts, Observation, Reach, Role
from shunter.model.service import OPEN, KeptProposal, KillSwitch
from shunter.views.execution import ExecutionView
from shunter.views.keeper_picture import facts_of_execution
from shunter.views.service import MoveView

STALE_LOOKS = 4
"""An observation is old after this many times the time between two."""


@dataclass(slots=True)
class Known:
    """Mutable; it belongs to one keeper."""

    name: str
    stale_ms: int
    reach: Reach = Reach.UNSEEN
    reach_why: str = ""
    silent_since_ms: int = 0
    """Since when the cluster can't be observed."""
    held_by: str = ""
    """The other process that drives the cluster; "": there is none, or it is unknown."""
    idle_why: str = ""
    """Why this service does not drive the cluster, if no other process does."""
    observation: Observation | None = None
    moves: tuple[MoveView, ...] = ()
    """As the last observation saw them."""
    execution: ExecutionView | None = None
    """The latest view of the execution that this service drives."""
    fleet_paused: Callable[[], bool] = lambda: False
    """Whether the kill switch of the whole fleet is on."""

    def not_observed(self, why: str, now_ms: int) -> bool:
        """Note that an observation failed; returns whether the one before did not."""
        new = self.reach is not Reach.SILENT
        self.reach, self.reach_why = Reach.SILENT, why
        self.silent_since_ms = now_ms if new else self.silent_since_ms
        return new

    def observed(self, observation: Observation, moves: tuple[MoveView, ...]) -> bool:
        """Note an observation; returns whether the one before failed."""
        silent = self.reach is Reach.SILENT
        self.reach, self.reach_why = Reach.ANSWERS, ""
        self.observation, self.moves = observation, moves
        return silent

    def facts(
        self,
        now_ms: int,
        driving: Driving | None,
        switch: KillSwitch | None,
        proposals: Iterable[KeptProposal],
        records: Records,
    ) -> Facts:
        """Everything that a situation is worked out from."""
        view = None if driving is None else self.execution or driving.view()
        role = Role.DRIVES if driving is not None else Role.STANDBY if self.held_by else Role.IDLE
        return Facts(
            name=self.name,
            now_ms=now_ms,
            reach=self.reach,
            reach_why=self.reach_why,
            observation=self.observation,
            stale_ms=self.stale_ms,
            role=role,
            driver=self.held_by,
            idle_why=records.trouble if records.lost else self.idle_why,
            execution=None if view is None else facts_of_execution(view),
            switch=switch,
            fleet_paused=self.fleet_paused(),
            proposals=tuple(each for each in proposals if each.state in OPEN),
            store_trouble=records.trouble,
            store_lost=records.lost,
        )
