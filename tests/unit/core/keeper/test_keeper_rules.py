"""Rules for a plan that a person asks for: they narrow the policy's guard rails, and a wrong rule is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from keeper_clusters import MIB, cluster, only

from shunter.core.keeper.rules import split_rules
from shunter.core.keeper.wishes import wished
from shunter.core.planning.request import PlanRequest
from shunter.core.planning.scopes import check
from shunter.model.keeper import Condition, GuardRails, KeeperPolicy
from shunter.model.service import KeptProposal, OrderRefused, Refusal

POLICY = only(Condition.DISK_BAND)
TWO_TOPICS = {"t": [[1, 2]] * 6, "u": [[1, 2]] * 6}


def asked(*about: str, policy: KeeperPolicy = POLICY) -> KeptProposal:
    return wished(about, None, cluster(TWO_TOPICS), policy, "prod", "anna")


def test_a_plan_keeps_to_its_rules() -> None:
    free = asked("rebalance")
    assert free.moves > 2
    assert 0 < asked("rebalance", "most-moves=2").moves <= 2
    one_topic = asked("rebalance", "without-topics=u*")
    assert {each.topic for each in one_topic.changes} == {"t"}
    with pytest.raises(OrderRefused, match="nothing to move"):
        asked("rebalance", "without-topics=t,u")
    touched = {broker for each in asked("rebalance", "without-brokers=3").changes for broker in each.replicas}
    assert 3 not in touched
    assert "most-moves=2" in asked("rebalance", "most-moves=2").reasons[0]


def test_what_was_picked_by_hand_moves_and_nothing_else() -> None:
    made = asked("move", "t-3", "u-0", "u-5", "to=2,3")
    assert [(each.topic, each.partition, sorted(each.replicas)) for each in made.changes] == [
        ("t", 3, [2, 3]),
        ("u", 0, [2, 3]),
        ("u", 5, [2, 3]),
    ]
    assert made.scope == "topics"
    whole = asked("move", "u", "u-1", "to=2,3", policy=only(Condition.DISK_FULL))
    assert [each.topic for each in whole.changes] == ["u"] * 6
    for about, why in (
        (("move", "t-3"), "brokers: move"),
        (("move", "to=2"), "topics or partitions are wanted"),
        (("move", "t-6", "to=2,3"), "no partition 't-6'"),
        (("move", "t-3", "to=9"), "there is no broker '9'"),
        (("move", "t-3", "to=1,2"), "nothing to move"),
    ):
        with pytest.raises(OrderRefused, match=why):
            asked(*about)


def test_a_cap_in_gigabytes_is_kept_to() -> None:
    free = asked("rebalance")
    half = asked("rebalance", f"most-gigabytes={free.bytes / 2e9}")
    assert 0 < half.bytes <= free.bytes / 2


def test_rules_stand_anywhere_beside_what_a_plan_is_about() -> None:
    assert split_rules(("replace", "3=7")) == (("replace", "3=7"), split_rules(())[1])
    about, rules = split_rules(("fill", "most-moves=5", "3", "without-brokers=1,2", "without-topics=a", "band=2.5%"))
    assert about == ("fill", "3")
    assert (rules.moves, rules.brokers, rules.topics, rules.band) == (5, (1, 2), ("a",), 0.025)
    assert rules.applied(PlanRequest()).band == 0.025
    assert split_rules(())[1].applied(PlanRequest()) == PlanRequest()


def test_the_policy_is_narrowed_and_never_widened() -> None:
    rails = GuardRails(moves=3, bytes=10 * MIB, frozen_brokers=(9,), frozen_topics=("x",))
    policy = replace(POLICY, rails=rails)
    wide = split_rules(("most-moves=100", "most-gigabytes=100", "without-brokers=1", "without-topics=t"))[1]
    assert wide.narrowed(policy).rails == replace(rails, frozen_brokers=(9, 1), frozen_topics=("x", "t"))
    tight = split_rules(("most-moves=1", "most-gigabytes=0.001"))[1].narrowed(policy).rails
    assert (tight.moves, tight.bytes) == (1, 1_000_000)
    alone = split_rules(("most-moves=7",))[1].narrowed(POLICY).rails
    assert (alone.moves, alone.bytes) == (7, None)


@pytest.mark.parametrize(
    "rule",
    [
        "bands=3",
        "band=0",
        "band=100",
        "band=101",
        "band=5e-324",
        "band=nan",
        "band=wide",
        "most-moves=0",
        "most-moves=-1",
        "most-moves=1.5",
        "most-moves=99999999999",
        "most-gigabytes=0",
        "most-gigabytes=inf",
        "most-gigabytes=much",
        "without-brokers=",
        "without-brokers=1,x",
        "without-topics=",
        "without-topics=a,,b",
    ],
)
def test_a_rule_that_is_none_is_told(rule: str) -> None:
    with pytest.raises(OrderRefused) as refused:
        asked("rebalance", rule)
    assert refused.value.refusal is Refusal.INVALID
    assert repr(rule) in str(refused.value)


@pytest.mark.parametrize("band", ["0.001", "2.5%", "99.99999999999999"])
def test_every_band_that_a_rule_may_name_can_be_planned(band: str) -> None:
    check(split_rules((f"band={band}",))[1].applied(PlanRequest()))
    with pytest.raises(OrderRefused, match="'band=100': a percentage above 0 and below 100 is wanted"):
        asked("rebalance", "band=100")


def test_a_broker_that_is_not_there_cannot_be_left_out() -> None:
    with pytest.raises(OrderRefused, match="there is no broker '77'"):
        asked("rebalance", "without-brokers=77")
