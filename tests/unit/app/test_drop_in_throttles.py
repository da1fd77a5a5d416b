"""Throttles of the drop-in: whatever the cluster refuses ends the command, and a dead broker is a warning."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from shunter.app.drop_in.throttles import ThrottleRefused, change_throttles
from shunter.core.throttles import LEADER_RATE, LEADER_REPLICAS
from shunter.drivers.admin.blocking import LiveNode
from shunter.model.execution import ThrottleKey

LIST = ThrottleKey("topic", "t", LEADER_REPLICAS)
RATES = [ThrottleKey("broker", name, LEADER_RATE) for name in "12"]
WANTED: dict[ThrottleKey, str | None] = {LIST: "0:1", RATES[0]: "5", RATES[1]: "5"}


class Cluster:
    """Brokers that keep what they are told; some settings are refused, some brokers die when they are asked."""

    def __init__(self, live: set[int], refuses: Mapping[ThrottleKey, str], dying: frozenset[int] = frozenset()) -> None:
        self.live, self.refuses, self.dying = live, refuses, dying
        self.written: dict[ThrottleKey, str | None] = {}

    def nodes(self) -> tuple[LiveNode, ...]:
        return tuple(LiveNode(broker, None) for broker in sorted(self.live))

    def write_settings(self, settings: Mapping[ThrottleKey, str | None]) -> dict[ThrottleKey, str]:
        refused = {key: why for key, why in self.refuses.items() if key in settings}
        for key, value in settings.items():
            if key.kind == "broker" and int(key.name) in self.dying:
                self.live.discard(int(key.name))
                refused[key] = "it did not answer"
            elif key not in refused:
                self.written[key] = value
        return refused

    def not_in_force(self, settings: Mapping[ThrottleKey, str | None]) -> dict[ThrottleKey, str]:
        return {key: "not seen" for key in settings if key not in self.written}


def change(cluster: Cluster) -> list[str]:
    told: list[str] = []
    change_throttles(cluster, WANTED, told.append)  # type: ignore[arg-type]
    return told


def test_topics_and_brokers_are_written() -> None:
    cluster = Cluster({1, 2}, {})
    assert change(cluster) == []
    assert cluster.written == WANTED


def test_a_refused_topic_ends_it_before_a_broker_is_written() -> None:
    cluster = Cluster({1, 2}, {LIST: "PolicyViolation: no"})
    with pytest.raises(ThrottleRefused, match="throttles of topic t were not changed: PolicyViolation: no"):
        change(cluster)
    assert cluster.written == {}


def test_a_refused_broker_that_lives_ends_it() -> None:
    with pytest.raises(ThrottleRefused, match="broker 2"):
        change(Cluster({1, 2}, {RATES[1]: "no"}))


def test_a_dead_broker_is_told_and_holds_up_nobody() -> None:
    cluster = Cluster({1}, {})
    assert change(cluster) == ["Warning: throttles of broker 2: it is not live; nothing was changed there"]
    assert RATES[0] in cluster.written


def test_a_broker_that_dies_while_it_is_asked_is_dead() -> None:
    cluster = Cluster({1, 2}, {}, frozenset({2}))
    assert change(cluster) == ["Warning: throttles of broker 2: it is not live; nothing was changed there"]
