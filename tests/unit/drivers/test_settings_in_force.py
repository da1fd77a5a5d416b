"""Settings count as changed when brokers report them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shunter.drivers.admin import settings as settings_in_force
from shunter.drivers.admin.settings import not_seen_in_force
from shunter.errors import DriverError
from shunter.model.execution import ThrottleKey
from shunter.model.partition import BrokerId

RATE = ThrottleKey("broker", "1", "leader.replication.throttled.rate")
LISTS = [ThrottleKey("topic", name, "leader.replication.throttled.replicas") for name in ("t", "u")]
SETTINGS: dict[ThrottleKey, str | None] = {LISTS[0]: "0:1", LISTS[1]: None, RATE: "5"}


class Brokers:
    """Two brokers; each applies a change only after it was asked so many times."""

    def __init__(self, after: Mapping[BrokerId, int]) -> None:
        self.after = dict(after)
        self.asked: list[tuple[BrokerId, tuple[ThrottleKey, ...]]] = []

    async def tell(self, broker: BrokerId, keys: Sequence[ThrottleKey]) -> Mapping[ThrottleKey, str | None]:
        self.asked.append((broker, tuple(keys)))
        if broker not in self.after:
            raise DriverError("it is dying", retriable=True)
        self.after[broker] -= 1
        return {key: SETTINGS[key] if self.after[broker] < 0 else "old" for key in keys}


async def test_every_broker_is_asked_for_its_own_and_for_one_topic_until_it_tells_them() -> None:
    brokers = Brokers({1: 2, 2: 0})
    assert await not_seen_in_force(SETTINGS, [2, 1], brokers.tell) == {}
    assert sorted(brokers.asked) == [(1, (LISTS[1], RATE))] * 3 + [(2, (LISTS[1],))]


async def test_who_does_not_answer_is_not_waited_for() -> None:
    assert await not_seen_in_force(SETTINGS, [1], Brokers({}).tell) == {}


async def test_what_is_not_applied_in_time_is_told_and_a_topic_stands_for_all() -> None:
    brokers = Brokers({1: 0, 2: 10**9})
    missing = await not_seen_in_force(SETTINGS, [1, 2], brokers.tell, within_s=2 * settings_in_force.EVERY_S)
    assert missing.keys() == set(LISTS)
    assert "broker 2 did not apply it" in missing[LISTS[0]]


async def test_what_a_node_does_not_tell_of_is_not_waited_for() -> None:
    async def silent(broker: BrokerId, keys: Sequence[ThrottleKey]) -> Mapping[ThrottleKey, str | None]:
        return {}

    assert await not_seen_in_force(SETTINGS, [1], silent) == {}
