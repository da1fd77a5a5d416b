"""A dry run says with figures which moves would wait for disks, and of which brokers the room is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from shunter.app.executor.dry_run import dry_run
from shunter.app.executor.throttles import told_anyway
from shunter.core.executor.state import ExecutorState
from shunter.core.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS
from shunter.drivers.admin.answers import SettingsSeen, TopicsSeen
from shunter.drivers.admin.log_dirs import LogDirsSeen
from shunter.model.execution import (
    ExecutionOptions,
    LogDirSpace,
    MoveOrder,
    ObservedPartition,
    ObservedTopic,
    ReplicaSize,
    ThrottleKey,
)
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy

GB = 10**9
TPS = tuple(TopicPartition("t", number) for number in range(2))


class Cluster:
    """Two partitions of 10 GB each on broker 1; broker 3 has a large log dir and a small one, broker 4 doesn't say."""

    async def list_reassignments(self) -> dict[TopicPartition, Any]:
        return {}

    async def observe_topics(self, _names: Sequence[str]) -> TopicsSeen:
        seen = {tp.partition: ObservedPartition((1,), (1,), 1) for tp in TPS}
        return TopicsSeen({"t": ObservedTopic(None, seen, 1)}, dict.fromkeys((1, 3, 4)), 1)

    async def observe_log_dirs(self, asked: Mapping[int, Sequence[TopicPartition]]) -> LogDirsSeen:
        sizes = {(1, tp): ReplicaSize(10 * GB, "/a") for tp in TPS}
        spaces = {(3, "/a"): LogDirSpace(1_000 * GB, 900 * GB), (3, "/b"): LogDirSpace(100 * GB, 16 * GB)}
        spaces |= {(broker, "/a"): LogDirSpace(-1, -1) for broker in (4,) if broker in asked}
        return LogDirsSeen(sizes, {}, {key: room for key, room in spaces.items() if key[0] in asked}, {}, tuple(asked))

    async def read_settings(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        """Somebody left 1,000 B/s at broker 3, and broker 1 has a rate in server.properties."""
        rates = {"3": "1000", "1": "2000"}
        own = {key: rates[key.name] if key.name == "3" and key.setting == FOLLOWER_RATE else None for key in keys}
        return SettingsSeen(own, {key: own[key] or rates["1"] if key.name == "1" else own[key] for key in keys})


@pytest.mark.parametrize(
    ("throttle", "told"),
    [
        (
            1_000_000,
            "broker 1 to 2.0 kB/s, broker 3 to 1.0 kB/s, less than ours: it stays, and `shunter throttles clear`",
        ),
        (1_500, "holds broker 3 to 1.0 kB/s, less than ours: it stays, and `shunter throttles clear` removes it"),
        (1_000, ""),
        (None, ""),
    ],
)
async def test_a_lower_throttle_of_others_is_named_before_anything_begins(throttle: int | None, told: str) -> None:
    """An outsider's find: somebody's 1,000 B/s held the plan, whose `--throttle` had listed its replicas."""
    options, orders = ExecutionOptions(throttle=throttle), [MoveOrder(TPS[0], (3,))]
    lower = (await dry_run(cast("Any", Cluster()), ExecutorState(), orders, options)).lower
    assert (told in lower) if told else not lower
    assert ("`server.properties`" in lower) == (throttle == 1_000_000)


class Listed(Cluster):
    """Somebody's lists of topic t, beside his rates."""

    def __init__(self, listed: str) -> None:
        self.listed = listed

    async def read_settings(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        seen = await super().read_settings(keys)
        lists = {key: self.listed for key in keys if key.setting == FOLLOWER_REPLICAS}
        return SettingsSeen({**seen.own, **lists}, {**seen.effective, **lists})


@pytest.mark.parametrize(("listed", "holds"), [("*", True), ("7:9, 0:3", True), ("1:3", False), ("", False)])
async def test_without_a_throttle_others_rates_hold_what_their_lists_name(listed: str, *, holds: bool) -> None:
    options, orders = ExecutionOptions(bandwidth=GB), [MoveOrder(TPS[0], (3,))]
    found = await dry_run(cast("Any", Listed(listed)), ExecutorState(), orders, options)
    told = "somebody else's throttle holds broker 3 to 1.0 kB/s: it stays, and `shunter throttles clear` removes it"
    assert found.lower == (told if holds else "")
    assert found.forecast.seconds == (10 * GB / 1_000 if holds else 10.0)


@pytest.mark.parametrize(("listed", "holds"), [("*", True), ("0:3", True), ("1:3", False), ("", False)])
async def test_so_does_an_execution_without_a_question(listed: str, *, holds: bool) -> None:
    told = await told_anyway(cast("Any", Listed(listed)), [MoveOrder(TPS[0], (1, 3))])
    assert told.startswith("somebody else's throttle holds broker 3 to 1.0 kB/s: it stays") == holds
    assert bool(told) == holds, "broker 1 is in sync, and its rate in server.properties is in no list"


async def test_a_list_of_everything_puts_ordinary_replication_under_our_throttle() -> None:
    options, orders = ExecutionOptions(throttle=1_000), [MoveOrder(TPS[0], (3,))]
    found = await dry_run(cast("Any", Listed("*")), ExecutorState(), orders, options)
    assert found.lower == (
        "topic t lists all replicas as throttled (somebody's `*`): ordinary replication shares the limit; "
        "`shunter throttles clear` takes it away, or give a higher limit"
    )


async def problems(*orders: MoveOrder, share: float | None = None) -> tuple[list[str | None], tuple[int, ...]]:
    options = ExecutionOptions() if share is None else ExecutionOptions(disk_share=share)
    found = await dry_run(cast("Any", Cluster()), ExecutorState(), orders, options)
    return [move.problem for move in found.moves], found.unknown_room


@pytest.mark.parametrize("strategy", Strategy)
async def test_each_move_that_would_wait_for_disk_says_so(strategy: Strategy) -> None:
    told, unknown = await problems(*(MoveOrder(tp, (3,), strategy) for tp in TPS))
    assert told[0] is None
    assert told[1] is not None
    assert (
        "log dir /b of broker 3 has 16.0 GB usable: 10.0 GB needed, 10.0 GB on their way, 5.0 GB stay free" in told[1]
    )
    assert "a plan that names log dirs decides" in told[1]
    assert unknown == ()


async def test_a_plan_that_names_the_large_log_dir_or_looks_at_no_room_has_no_problem() -> None:
    named = [MoveOrder(tp, (3,), None, ((3, "/a"),)) for tp in TPS]
    assert await problems(*named) == ([None, None], ())
    assert await problems(*(MoveOrder(tp, (3,)) for tp in TPS), share=1.0) == ([None, None], ())


async def test_unknown_room_is_unknown() -> None:
    assert await problems(MoveOrder(TPS[0], (4,))) == ([None], (4,))
