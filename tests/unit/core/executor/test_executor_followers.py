"""Followers in sync that somebody's throttle holds: no step leaves fewer than min.insync.replicas sure to stay in sync."""

import pytest
from apache_yard import Rig, Yard

from shunter.core.executor.waits import WaitKind
from shunter.core.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS
from shunter.model.execution import CommandKind, ExecutionOptions, Outcome, ThrottleKey
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy

T0 = TopicPartition("t", 0)
LIST = ThrottleKey("topic", "t", FOLLOWER_REPLICAS)
RATE = ThrottleKey("broker", "5", FOLLOWER_RATE)
OPTIONS = [ExecutionOptions(), ExecutionOptions(throttle=30_000)]


def beside_a_slow_one(settings: dict[ThrottleKey, str], min_isr: int = 2, *, others: tuple[int, ...] = ()) -> Rig:
    """Broker 1 leads and is to be replaced by 2; the follower on 5 stays, and those on `others`."""
    yard = Yard({"t": [(1, 5, *others)]})
    yard.min_isr["t"] = min_isr
    yard.settings = dict(settings)
    return Rig(yard)


@pytest.mark.parametrize("options", OPTIONS, ids=["no limit", "limit"])
@pytest.mark.parametrize("listed", ["0:5", "*"])
@pytest.mark.parametrize("lifted", [True, False], ids=["lifted", "relaxed"])
def test_a_step_waits_for_a_throttle_that_would_take_a_needed_follower_out_of_the_isr(
    options: ExecutionOptions, listed: str, *, lifted: bool
) -> None:
    """An outsider's find: a rebalance and an `execute` left partitions below min.insync.replicas for a minute."""
    rig = beside_a_slow_one({LIST: listed, RATE: "20000"})
    rig.submit(("t", 0, (2, 5)), options=options)
    rig.settle(rounds=100)
    waits = rig.core.state.moves[T0].waits
    assert waits.kind is WaitKind.THROTTLE
    assert "only 1 of min.insync.replicas 2" in waits.text
    assert "throttle of broker 5 (20.0 kB/s)" in waits.text
    assert 1 in rig.yard.replicas()[T0], "it still leads"
    if lifted:
        rig.yard.settings.pop(RATE)
    else:
        rig.command(CommandKind.RELAX)
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}
    assert rig.yard.replicas()[T0] == (2, 5)


@pytest.mark.parametrize("options", OPTIONS, ids=["no limit", "limit"])
@pytest.mark.parametrize(
    ("settings", "min_isr", "target"),
    [
        ({LIST: "0:4", RATE: "20000"}, 2, (2, 5)),
        ({RATE: "20000"}, 2, (2, 5)),
        ({LIST: "0:5"}, 2, (2, 5)),
        ({LIST: "0:5", RATE: "1000000"}, 2, (2, 5)),
        ({LIST: "0:5", RATE: "20000"}, 1, (2, 5)),
        ({LIST: "0:5", RATE: "20000"}, 2, (2, 5, 6)),
        ({LIST: "0:5", RATE: "20000"}, 2, (5, 1)),
        ({LIST: "0:5", RATE: "20000"}, 2, (5, 2)),
    ],
    ids=["not listed", "no list", "no rate", "a rate of use", "not needed", "enough stay", "order alone", "it leads"],
)
def test_a_throttle_that_takes_nothing_away_holds_nothing_up(
    options: ExecutionOptions, settings: dict[ThrottleKey, str], min_isr: int, target: tuple[int, ...]
) -> None:
    rig = beside_a_slow_one(settings, min_isr, others=target[2:])
    rig.submit(("t", 0, target), options=options)
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}


def test_the_first_step_of_a_plan_that_joins_waits_until_its_own_topics_lists_are_read() -> None:
    yard = Yard({"t": [(1, 5)], "u": [(1, 6)]})
    yard.min_isr |= {"t": 2, "u": 2}
    yard.settings = {LIST: "0:5", RATE: "20000"}
    rig = Rig(yard)
    rig.submit(("u", 0, (2, 6)))
    rig.settle(catching_up=False, rounds=20)
    assert rig.core.book.others.known
    rig.submit(("t", 0, (2, 5)), options=ExecutionOptions(strategy=Strategy.ALL_AT_ONCE))
    rig.settle(rounds=60)
    assert rig.core.state.moves[T0].waits.kind is WaitKind.THROTTLE
    assert [tp.topic for tp, _replicas in rig.asked if tp == T0] == []
