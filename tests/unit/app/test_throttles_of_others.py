"""Throttles that our journal does not know, while another executor drives the cluster: they may be its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from shunter.app.executor import throttles
from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.session import Target
from shunter.app.executor.throttles import FoundThrottle, StillNeeded, clear_loose_throttles, rates_of_others
from shunter.core.executor.state import ExecutorState, GivenBack, Throttle
from shunter.core.throttles import FOLLOWER_RATE, LEADER_RATE
from shunter.drivers.admin.answers import SettingsSeen
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.claimants import ClusterClaimed
from shunter.errors import DriverError
from shunter.model.execution import ThrottleKey

FOUND = (FoundThrottle(ThrottleKey("broker", "1", LEADER_RATE), "2000000", journaled=False),)
TARGET = Target("kafka1:9092")


class Cluster:
    """A cluster with one throttle, and who drives it under another journal."""

    def __init__(self, claimant: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.claimant = claimant
        self.cleared: list[FoundThrottle] = []
        self.held: list[str] = []
        for name in ("list_throttles", "holder_of", "claimed_by", "clear_throttles", "held_now"):
            monkeypatch.setattr(throttles, name, getattr(self, name))

    async def list_throttles(self, _target: Target) -> tuple[FoundThrottle, ...]:
        return FOUND

    async def holder_of(self, _target: Target) -> tuple[JournalPlace | None, None]:
        return None, None

    async def claimed_by(self, _target: Target, _place: JournalPlace | None) -> str:
        return self.claimant

    async def held_now(self, _target: Target, keys: Sequence[ThrottleKey]) -> list[str]:
        assert keys == [FOUND[0].key]
        return self.held

    async def clear_throttles(self, _target: Target, found: Sequence[FoundThrottle]) -> None:
        self.cleared += found


def test_another_executors_throttles_are_not_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its copies would go on without a limit, and its own status would still tell one."""
    cluster = Cluster("ann on h, process 7", monkeypatch)
    with pytest.raises(ClusterClaimed, match="driven by ann on h, process 7"):
        asyncio.run(clear_loose_throttles(TARGET))
    assert cluster.cleared == []


def test_what_is_left_over_is_cleared_where_nobody_else_drives(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster("", monkeypatch)
    assert asyncio.run(clear_loose_throttles(TARGET)) == "1 throttle setting is removed"
    assert cluster.cleared == list(FOUND)


def test_a_throttle_that_may_hold_what_is_under_way_is_not_cleared_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster("", monkeypatch)
    cluster.held = ["t-0 on broker 1 from /a to /b, 2 B of 9 B"]
    with pytest.raises(StillNeeded, match=r"may need them: t-0 on broker 1 .* `shunter throttles clear`, which asks"):
        asyncio.run(clear_loose_throttles(TARGET))
    assert cluster.cleared == []


class ThrottledBrokers:
    """Brokers with rates of their own."""

    def __init__(self, *rates: tuple[int, str, str]) -> None:
        self.values = {ThrottleKey("broker", str(broker), setting): value for broker, setting, value in rates}
        self.denied = ""

    async def brokers(self) -> dict[int, None]:
        return dict.fromkeys((1, 2, 3))

    async def read_settings(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        if self.denied:
            raise DriverError(self.denied, retriable=False)
        own = {key: self.values.get(key) for key in keys}
        return SettingsSeen(own, own)


def told_of_others(cluster: ThrottledBrokers, state: ExecutorState) -> tuple[str, ...]:
    return asyncio.run(rates_of_others(cluster, state))  # type: ignore[arg-type]


def test_the_status_names_rates_that_are_not_this_journals() -> None:
    """An outsider's find: another tool's throttle slowed an execution down, and no second shell said so."""
    cluster = ThrottledBrokers((1, LEADER_RATE, "100"), (2, LEADER_RATE, "100"), (3, FOLLOWER_RATE, "7"))
    assert told_of_others(cluster, ExecutorState()) == (
        f"somebody else's throttle holds at broker 1, 2: {LEADER_RATE} = 100",
        f"somebody else's throttle holds at broker 3: {FOLLOWER_RATE} = 7",
    )
    first, second, third = cluster.values
    state = ExecutorState(throttles={first: Throttle("9", "100", ours={"100"}), second: Throttle("100", "50", {"50"})})
    state.given_back[third] = GivenBack({"7"}, SystemClock().now_ms())
    told = told_of_others(cluster, state)
    assert told == (f"somebody else's throttle holds at broker 2: {LEADER_RATE} = 100",), (
        "the others are this journal's"
    )


def test_a_throttle_may_be_that_of_who_drives_under_another_journal() -> None:
    """An outsider's find: beside one's own service, `status` called the service's throttle somebody else's."""
    cluster = ThrottledBrokers((1, LEADER_RATE, "100"))
    (told,) = asyncio.run(rates_of_others(cluster, ExecutorState(), "process 7 on h"))  # type: ignore[arg-type]
    by = "set by whoever drives the cluster (process 7 on h), as its journal is not read here"
    assert told == f"a throttle holds at broker 1: {LEADER_RATE} = 100: {by}"


def test_throttles_that_may_not_be_read_are_unknown_and_not_none() -> None:
    cluster = ThrottledBrokers()
    assert told_of_others(cluster, ExecutorState()) == ()
    cluster.denied = "needs DescribeConfigs on Cluster"
    (told,) = told_of_others(cluster, ExecutorState())
    assert told == "whether others have set throttles at brokers is not known: needs DescribeConfigs on Cluster"
