"""Throttles of topics are read from every broker: one may apply what the others, and the controller, don't know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from shunter.core.throttles import LEADER_REPLICAS
from shunter.drivers.admin import settings
from shunter.drivers.admin.settings import told_by_each
from shunter.errors import DriverError
from shunter.model.execution import ThrottleKey
from shunter.model.partition import BrokerId

T, U = (ThrottleKey("topic", name, LEADER_REPLICAS) for name in ("t", "u"))


class Brokers:
    """Brokers that show t's list for so many questions (None: for ever), and u's never; others do not answer."""

    def __init__(self, shown: Mapping[BrokerId, int | None]) -> None:
        self.left = dict(shown)
        self.asked: list[tuple[BrokerId, tuple[ThrottleKey, ...]]] = []

    async def tell(self, broker: BrokerId, keys: Sequence[ThrottleKey]) -> Mapping[ThrottleKey, str | None]:
        self.asked.append((broker, tuple(keys)))
        if broker not in self.left:
            raise DriverError("it is dying", retriable=True)
        left = self.left[broker]
        self.left[broker] = None if left is None else left - 1
        return {key: "0:1" if key == T and (left is None or left > 0) else None for key in keys}


async def test_what_all_brokers_show_is_read_once() -> None:
    brokers = Brokers({1: None, 2: None})
    told = await told_by_each([T, U], [2, 1], brokers.tell)
    assert told.values == {T: {"0:1": (1, 2)}, U: {None: (1, 2)}}
    assert sorted(brokers.asked) == [(1, (T, U)), (2, (T, U))]


async def test_a_late_broker_is_asked_again_for_what_differs() -> None:
    brokers = Brokers({1: 0, 2: 2})
    told = await told_by_each([T, U], [1, 2], brokers.tell)
    assert told.values == {T: {None: (1, 2)}, U: {None: (1, 2)}}
    assert brokers.asked[2:] == [(1, (T,)), (2, (T,))] * 2


async def test_brokers_that_go_on_to_differ_are_told_apart() -> None:
    told = await told_by_each([T], [1, 2, 3], Brokers({1: 0, 2: None, 3: 0}).tell, within_s=2 * settings.EVERY_S)
    assert told.values == {T: {None: (1, 3), "0:1": (2,)}}


async def test_a_broker_that_does_not_answer_is_named_and_not_asked_again() -> None:
    brokers = Brokers({1: 0, 2: None})
    told = await told_by_each([T], [1, 2, 3], brokers.tell, within_s=settings.EVERY_S)
    assert told.silent == {3: "it is dying"}
    assert [broker for broker, _keys in brokers.asked].count(3) == 1


async def test_many_topics_are_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "PER_REQUEST", 1)
    brokers = Brokers({1: None})
    assert (await told_by_each([T, U], [1], brokers.tell)).values == {T: {"0:1": (1,)}, U: {None: (1,)}}
    assert brokers.asked == [(1, (T,)), (1, (U,))]


async def test_a_missing_right_is_an_error() -> None:
    async def denied(broker: BrokerId, keys: Sequence[ThrottleKey]) -> Mapping[ThrottleKey, str | None]:
        raise DriverError("needs DescribeConfigs on Topic t", retriable=False)

    with pytest.raises(DriverError, match="needs DescribeConfigs"):
        await told_by_each([T], [1], denied)
