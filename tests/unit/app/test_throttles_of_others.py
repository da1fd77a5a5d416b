"""Throttles that our journal does not know: another executor's, and those that single brokers have kept."""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from shunter.app.executor import throttles
from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.session import Target
from shunter.app.executor.throttles import (
    FoundThrottle,
    StillNeeded,
    clear_loose_throttles,
    clear_throttles,
    rates_of_others,
    throttles_set,
)
from shunter.cli.execution import throttles as cli_throttles
from shunter.core.executor.state import ExecutorState, GivenBack, Throttle
from shunter.core.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from shunter.drivers.admin.answers import NotSet, SettingsSeen
from shunter.drivers.admin.settings import ToldByBrokers
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.claimants import ClusterClaimed
from shunter.errors import DriverError
from shunter.model.execution import ThrottleKey
from shunter.model.partition import BrokerId

FOUND = (FoundThrottle(ThrottleKey("broker", "1", LEADER_RATE), "2000000", journaled=False),)
TARGET = Target("kafka1:9092")
KEPT = ThrottleKey("topic", "t", LEADER_REPLICAS)
EVERYWHERE = ThrottleKey("topic", "t", FOLLOWER_REPLICAS)
RATE = ThrottleKey("broker", "1", FOLLOWER_RATE)


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


class KeptByBrokers:
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


async def found_in(cluster: KeptByBrokers) -> tuple[FoundThrottle, ...]:
    return await throttles_set(cast("Any", cluster), ExecutorState())


async def test_a_throttle_is_told_with_the_brokers_on_which_it_is_in_force() -> None:
    rate, kept, everywhere = await found_in(KeptByBrokers())
    assert (rate.key, rate.brokers, rate.lacking) == (RATE, (1,), ())
    assert (kept.key, kept.brokers, kept.lacking) == (KEPT, (3,), (1, 2))
    assert str(kept) == f"topic t {LEADER_REPLICAS} = 0:1  (in force on broker 3, not on broker 1, 2)"
    assert (everywhere.key, everywhere.brokers, everywhere.lacking) == (EVERYWHERE, (1, 2, 3), ())
    assert str(everywhere) == f"topic t {FOLLOWER_REPLICAS} = 0:2"


async def test_a_value_that_somebody_else_set_since_is_theirs() -> None:
    """An outsider's find: "it is restored as it was before", while the executor leaves it as it is."""
    values = [each.value for each in await found_in(KeptByBrokers()) if each.key == RATE]
    for ours, journaled in ((set(values), True), ({"8"}, False)):
        found = await throttles_set(
            cast("Any", KeptByBrokers()), ExecutorState(throttles={RATE: Throttle("3", "8", ours=ours)})
        )
        assert [each.journaled for each in found if each.key == RATE] == [journaled]


async def test_what_is_owed_to_a_dead_broker_is_listed_and_left(
    cluster: KeptByBrokers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found by hand: "no throttle is set", while the journal owed a dead broker two."""
    dead = [ThrottleKey("broker", "5", setting) for setting in (FOLLOWER_RATE, LEADER_RATE)]
    state = ExecutorState(
        throttles={dead[0]: Throttle(None, "1024"), dead[1]: Throttle("7", "1024"), RATE: Throttle("3", "5")}
    )
    found = await throttles_set(cast("Any", cluster), state)
    assert [str(each) for each in found[-2:]] == [
        f"broker 5 {FOLLOWER_RATE} = 1024  (owed to broker 5, which does not answer: it is to be deleted there)",
        f"broker 5 {LEADER_RATE} = 1024  (owed to broker 5, which does not answer: it is to become 7 there)",
    ]
    assert [(each.owed, each.former) for each in found if each.key == RATE] == [(False, "3")]
    way = (
        "owed to broker 5 until it answers: an executor gives them back when it can: `shunter resume`, or with the next "
        "plan; `shunter throttles forget --broker 5` strikes them off if that never comes back"
    )
    cleared = await clear_throttles(TARGET, found[-2:])
    assert cleared.told() == [f"2 left, {way}: broker 5 {FOLLOWER_RATE}, broker 5 {LEADER_RATE}"]
    assert not any(cluster.changes)

    async def listed(_target: Target) -> tuple[FoundThrottle, ...]:
        return found[-2:]

    monkeypatch.setattr(cli_throttles, "list_throttles", listed)
    monkeypatch.setattr(cli_throttles, "holder_of", throttles.holder_of)
    assert await cli_throttles._list(TARGET, "text") == 0
    said = capsys.readouterr()
    assert "no throttle is set" not in said.out
    assert said.err == f"2 throttles {way}\n"


async def test_a_broker_that_does_not_answer_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        _rate, kept, everywhere = await found_in(KeptByBrokers(silent=[2]))
    assert (kept.brokers, kept.lacking, everywhere.brokers) == ((3,), (1,), (1, 3))
    assert "broker 2 does not report the throttles of topics: it is dying" in caplog.text
    with pytest.raises(DriverError, match="no broker reports the throttles of topics: it is dying"):
        await found_in(KeptByBrokers(silent=[1, 2, 3]))


async def test_in_a_large_cluster_one_broker_is_asked(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttles, "MOST_ASKED", 2)
    with caplog.at_level(logging.WARNING):
        _rate, everywhere = await found_in(KeptByBrokers())
    assert everywhere.brokers == (1,)
    assert "only broker 1 is asked for throttles of topics: 1 topic at 3 brokers are more than 2" in caplog.text


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> KeptByBrokers:
    """The cluster, as `clear_throttles` connects to it, under a journal that nobody drives."""
    made = KeptByBrokers()

    async def connect(_target: Target) -> KeptByBrokers:
        return made

    async def holder_of(_target: Target) -> tuple[JournalPlace, None]:
        return JournalPlace(path=tmp_path / "none.journal"), None

    monkeypatch.setattr(throttles, "connect", connect)
    monkeypatch.setattr(throttles, "holder_of", holder_of)
    return made


async def test_what_a_single_broker_has_kept_is_set_and_taken_away_again(cluster: KeptByBrokers) -> None:
    await clear_throttles(Target("k:9092"), await found_in(cluster))
    assert cluster.changes == [[(KEPT, "0:1")], [(RATE, None), (KEPT, None), (EVERYWHERE, None)]]
    assert cluster.kept is None


async def test_what_the_broker_keeps_nonetheless_is_an_error(
    cluster: KeptByBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await found_in(cluster)

    async def take(_settings: object) -> dict[ThrottleKey, NotSet]:
        return {}

    monkeypatch.setattr(cluster, "alter_settings", take)
    with pytest.raises(
        DriverError, match=r"1 of 3 throttles could not be cleared: topic t .*: taken, but broker 3 did not apply it"
    ):
        await clear_throttles(Target("k:9092"), found)


def test_of_a_long_list_only_the_first_replicas_are_shown() -> None:
    """An outsider's find: `throttles list` printed hundreds of replicas."""
    listed = FoundThrottle(KEPT, ",".join(f"{number}:1" for number in range(20)), journaled=False)
    value = "0:1,1:1,2:1,3:1,4:1,5:1,6:1,7:1 and 12 more replicas"
    assert str(listed) == f"topic t leader.replication.throttled.replicas = {value}"
