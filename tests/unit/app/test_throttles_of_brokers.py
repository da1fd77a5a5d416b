"""Throttles that single brokers have kept: found with these brokers, and removed by being set everywhere first."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from shunter.app.executor import throttles
from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.session import Target
from shunter.app.executor.throttles import FoundThrottle, clear_throttles, throttles_set
from shunter.core.executor.state import ExecutorState
from shunter.core.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_REPLICAS
from shunter.drivers.admin.answers import NotSet, SettingsSeen
from shunter.drivers.admin.settings import ToldByBrokers
from shunter.errors import DriverError
from shunter.model.execution import ThrottleKey
from shunter.model.partition import BrokerId

KEPT = ThrottleKey("topic", "t", LEADER_REPLICAS)
EVERYWHERE = ThrottleKey("topic", "t", FOLLOWER_REPLICAS)
RATE = ThrottleKey("broker", "1", FOLLOWER_RATE)


class Cluster:
    """Three brokers. Broker 3 has kept a throttle that the controller does not know; another one is on all of them."""

    def __init__(self, silent: Collection[BrokerId] = ()) -> None:
        self.silent = dict.fromkeys(silent, "it is dying")
        self.kept: str | None = "0:1"
        self.changes: list[list[tuple[ThrottleKey, str | None]]] = []
        self.known = {EVERYWHERE: "0:2"}

    async def brokers(self) -> dict[BrokerId, str | None]:
        return {1: None, 2: None, 3: None}

    async def topic_names(self) -> list[str]:
        return ["t"]

    async def read_settings(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        own = {key: "5" if key == RATE else None for key in keys}
        return SettingsSeen(own, own)

    async def topic_throttles(self, keys: Sequence[ThrottleKey], brokers: Collection[BrokerId]) -> ToldByBrokers:
        values: dict[ThrottleKey, dict[str | None, tuple[BrokerId, ...]]] = {key: {} for key in keys}
        for key in keys:
            for broker in brokers:
                value = self.known.get(key, self.kept if (key, broker) == (KEPT, 3) else None)
                if broker not in self.silent:
                    values[key][value] = (*values[key].get(value, ()), broker)
        return ToldByBrokers(values, {broker: why for broker, why in self.silent.items() if broker in brokers})

    async def alter_settings(self, settings: Sequence[tuple[ThrottleKey, str | None]]) -> dict[ThrottleKey, NotSet]:
        self.changes.append(list(settings))
        for key, value in settings:
            if value is not None:
                self.known[key] = value
            elif key in self.known:  # The controller writes nothing about a setting that it does not know.
                del self.known[key]
                self.kept = None if key == KEPT else self.kept
        return {}

    async def not_in_force(self, settings: Mapping[ThrottleKey, str | None]) -> dict[ThrottleKey, str]:
        return {KEPT: "taken, but broker 3 did not apply it"} if KEPT in settings and self.kept else {}

    async def close(self) -> None: ...


async def found_in(cluster: Cluster) -> tuple[FoundThrottle, ...]:
    return await throttles_set(cast("Any", cluster), ExecutorState())


async def test_a_throttle_is_told_with_the_brokers_on_which_it_is_in_force() -> None:
    rate, kept, everywhere = await found_in(Cluster())
    assert (rate.key, rate.brokers, rate.lacking) == (RATE, (1,), ())
    assert (kept.key, kept.brokers, kept.lacking) == (KEPT, (3,), (1, 2))
    assert str(kept) == f"topic t {LEADER_REPLICAS} = 0:1  (in force on broker 3, not on broker 1, 2)"
    assert (everywhere.key, everywhere.brokers, everywhere.lacking) == (EVERYWHERE, (1, 2, 3), ())
    assert str(everywhere) == f"topic t {FOLLOWER_REPLICAS} = 0:2"


async def test_a_broker_that_does_not_answer_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        _rate, kept, everywhere = await found_in(Cluster(silent=[2]))
    assert (kept.brokers, kept.lacking, everywhere.brokers) == ((3,), (1,), (1, 3))
    assert "broker 2 does not report the throttles of topics: it is dying" in caplog.text
    with pytest.raises(DriverError, match="no broker reports the throttles of topics: it is dying"):
        await found_in(Cluster(silent=[1, 2, 3]))


async def test_in_a_large_cluster_one_broker_is_asked(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttles, "MOST_ASKED", 2)
    with caplog.at_level(logging.WARNING):
        _rate, everywhere = await found_in(Cluster())
    assert everywhere.brokers == (1,)
    assert "only broker 1 is asked for throttles of topics: 1 topic at 3 brokers are more than 2" in caplog.text


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    """The cluster, as `clear_throttles` connects to it, under a journal that nobody drives."""
    made = Cluster()

    async def connect(_target: Target) -> Cluster:
        return made

    async def holder_of(_target: Target) -> tuple[JournalPlace, None]:
        return JournalPlace(path=tmp_path / "none.journal"), None

    monkeypatch.setattr(throttles, "connect", connect)
    monkeypatch.setattr(throttles, "holder_of", holder_of)
    return made


async def test_what_a_single_broker_has_kept_is_set_and_taken_away_again(cluster: Cluster) -> None:
    await clear_throttles(Target("k:9092"), await found_in(cluster))
    assert cluster.changes == [[(KEPT, "0:1")], [(RATE, None), (KEPT, None), (EVERYWHERE, None)]]
    assert cluster.kept is None


async def test_what_the_broker_keeps_nonetheless_is_an_error(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    found = await found_in(cluster)

    async def take(_settings: object) -> dict[ThrottleKey, NotSet]:
        return {}

    monkeypatch.setattr(cluster, "alter_settings", take)
    with pytest.raises(
        DriverError, match=r"1 of 3 throttles could not be cleared: topic t .*: taken, but broker 3 did not apply it"
    ):
        await clear_throttles(Target("k:9092"), found)
