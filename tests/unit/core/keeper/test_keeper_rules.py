"""Rules for a plan that a person asks for: they narrow the policy's guard rails, and never widen them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from keeper_clusters import MIB, cluster, only

from shunter.core.keeper.wishes import narrowed, wished
from shunter.model.keeper import Condition, GuardRails, KeeperPolicy
from shunter.model.service import KeptProposal, OrderKind, OrderRefused, ServiceOrder

POLICY = only(Condition.DISK_BAND)
TWO_TOPICS = {"t": [[1, 2]] * 6, "u": [[1, 2]] * 6}


def order(scope: str, **body: Any) -> ServiceOrder:
    return ServiceOrder(OrderKind.PROPOSE, "prod", scope=scope, **body)


def asked(scope: str, policy: KeeperPolicy = POLICY, **body: Any) -> KeptProposal:
    return wished(order(scope, **body), cluster(TWO_TOPICS), policy, "prod", "anna")


def test_a_plan_keeps_to_its_rules() -> None:
    free = asked("rebalance")
    assert free.moves > 2
    assert 0 < asked("rebalance", most_moves=2).moves <= 2
    one_topic = asked("rebalance", without_topics=("u*",))
    assert {each.topic for each in one_topic.changes} == {"t"}
    with pytest.raises(OrderRefused, match="nothing to move"):
        asked("rebalance", without_topics=("t", "u"))
    touched = {broker for each in asked("rebalance", without_brokers=(3,)).changes for broker in each.replicas}
    assert 3 not in touched
    assert asked("rebalance", most_moves=2).reasons[0] == "anna asked for: rebalance most-moves=2"


def test_a_band_of_an_order_counts_before_the_policys() -> None:
    assert asked("rebalance", band_percent=1).moves == 8
    with pytest.raises(OrderRefused, match="rebalance band-percent=30: the next observation would undo it"):
        asked("rebalance", band_percent=30)


def test_what_was_picked_by_hand_moves_and_nothing_else() -> None:
    made = asked("move", partitions=("t-3", "u-0", "u-5"), to=(2, 3))
    assert [(each.topic, each.partition, sorted(each.replicas)) for each in made.changes] == [
        ("t", 3, [2, 3]),
        ("u", 0, [2, 3]),
        ("u", 5, [2, 3]),
    ]
    assert made.scope == "topics"
    whole = asked("move", only(Condition.DISK_FULL), partitions=("u", "u-1"), to=(2, 3))
    assert [each.topic for each in whole.changes] == ["u"] * 6
    for body, why in (
        ({"partitions": ("t-3",)}, "move: partitions and to are wanted"),
        ({"to": (2,)}, "move: partitions and to are wanted"),
        ({"partitions": ("t-6",), "to": (2, 3)}, "no partition 't-6'"),
        ({"partitions": ("t-3",), "to": (9,)}, "there is no broker 9"),
        ({"partitions": ("t-3",), "to": (1, 2)}, "nothing to move"),
        ({"partitions": ("t-3",), "to": (2, 3), "topics": ("t",)}, "move takes no topics"),
    ):
        with pytest.raises(OrderRefused, match=why):
            asked("move", **body)


def test_a_cap_in_gigabytes_is_kept_to() -> None:
    free = asked("rebalance")
    half = asked("rebalance", most_gigabytes=free.bytes / 2e9)
    assert 0 < half.bytes <= free.bytes / 2


def test_the_policy_is_narrowed_and_never_widened() -> None:
    rails = GuardRails(moves=3, bytes=10 * MIB, frozen_brokers=(9,), frozen_topics=("x",))
    policy = replace(POLICY, rails=rails)
    wide = order("fill", most_moves=100, most_gigabytes=100, without_brokers=(1,), without_topics=("t",))
    assert narrowed(policy, wide).rails == replace(rails, frozen_brokers=(9, 1), frozen_topics=("x", "t"))
    tight = narrowed(policy, order("fill", most_moves=1, most_gigabytes=0.001)).rails
    assert (tight.moves, tight.bytes) == (1, 1_000_000)
    alone = narrowed(POLICY, order("fill", most_moves=7)).rails
    assert (alone.moves, alone.bytes) == (7, None)


def test_a_broker_that_is_not_there_cannot_be_left_out() -> None:
    with pytest.raises(OrderRefused, match="there is no broker 77"):
        asked("rebalance", without_brokers=(77,))
