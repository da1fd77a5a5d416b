"""Throttles for the controller's moves: what a late broker shows of ours is not taken for somebody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from shunter.app.executor import throttle_loan
from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.throttle_loan import JournalInHand, give_back, set_throttles
from shunter.core.throttles import LEADER_RATE
from shunter.drivers.admin.answers import SettingsSeen
from shunter.model.execution import ThrottleKey

RATE = ThrottleKey("broker", "1", LEADER_RATE)
OTHERS = "7654321"


class LateCluster:
    """A broker that takes settings, and after they were given back still tells the former ones `late` times."""

    def __init__(self) -> None:
        self.set: dict[ThrottleKey, str | None] = {}
        self.shown: dict[ThrottleKey, str | None] = {}
        self.late = 0

    async def brokers(self) -> dict[int, str | None]:
        return {1: None}

    async def read_settings(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        shown = self.shown if self.late else self.set
        self.late = max(0, self.late - 1)
        own = {key: shown.get(key) for key in keys}
        return SettingsSeen(own, own)

    async def write_patiently(self, settings: Mapping[ThrottleKey, str | None]) -> dict[ThrottleKey, Any]:
        self.shown = dict(self.set)
        self.set |= settings
        return {}

    async def alter_settings(self, changes: Sequence[tuple[ThrottleKey, str | None]]) -> dict[ThrottleKey, Any]:
        await self.write_patiently(dict(changes))
        return {}

    async def not_in_force(self, settings: Mapping[ThrottleKey, str | None]) -> dict[ThrottleKey, str]:
        return {}


def test_what_was_given_back_a_moment_ago_is_not_taken_for_somebody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle_loan, "LATE_EVERY_S", 0.0)
    cluster = LateCluster()
    admin = cast("Any", cluster)

    async def scenario() -> None:
        with closing(JournalInHand(JournalPlace(tmp_path / "a.journal"), "test")) as journal:
            await set_throttles(journal, admin, {RATE: "20000"})
            assert cluster.set == {RATE: "20000"}
            assert await give_back(journal, admin, [RATE]) == {}
            assert cluster.set == {RATE: None}
            cluster.late = 3
            await set_throttles(journal, admin, {RATE: "30000"})
            assert cluster.late == 0, "it was read until nobody was late"
            assert journal.state.throttles[RATE].before is None
            await give_back(journal, admin, [RATE])
            assert cluster.set == {RATE: None}, "and nothing of ours stays"
            cluster.set = {RATE: OTHERS}
            await set_throttles(journal, admin, {RATE: "20000"})
            assert journal.state.throttles[RATE].before == OTHERS, "what we never set is somebody else's at once"

    asyncio.run(scenario())
