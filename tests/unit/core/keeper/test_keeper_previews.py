"""Before an intent is given: what the next observation would propose for it, by the same function."""

from __future__ import annotations

from dataclasses import replace

import pytest
from keeper_clusters import AT_ONCE, cluster

from shunter.core.keeper.docket import after_look
from shunter.core.keeper.intents import with_intents
from shunter.core.keeper.judgement import judge
from shunter.core.keeper.wishes import intended, wished
from shunter.model.keeper import Condition, GuardRails, Hold, KeeperPolicy, Mode, Watch
from shunter.model.service import (
    IntentKind,
    KeptIntent,
    KeptProposal,
    OrderKind,
    OrderRefused,
    Refusal,
    ServiceOrder,
)

BROKERS = (1, 2, 3, 4)
SEEN = cluster({"t": [[1, 2], [2, 4], [4, 1], [1, 2], [2, 3], [4, 1]]}, brokers=BROKERS)


def quiet(*conditions: Condition) -> KeeperPolicy:
    """A policy that proposes for intents and these conditions alone."""
    wanted = {*conditions, Condition.DRAIN, Condition.DEMOTE, Condition.ADD, Condition.REPLACE, Condition.REPLICATION}
    watches = AT_ONCE.watches.items()
    return KeeperPolicy(
        {each: watch if each in wanted else replace(watch, mode=Mode.NOTIFY) for each, watch in watches}
    )


def given(kind: IntentKind, *names: str, value: int | None = None) -> ServiceOrder:
    """The order that gives an intent; `value`: the replacement, or how many replicas."""
    if kind is IntentKind.REPLICATION:
        return ServiceOrder(OrderKind.INTEND, "prod", kind, topics=names, replicas=value)
    brokers = tuple(map(int, names))
    if kind is IntentKind.REPLACE:
        return ServiceOrder(OrderKind.INTEND, "prod", kind, replacements=tuple((old, value or 0) for old in brokers))
    return ServiceOrder(OrderKind.INTEND, "prod", kind, brokers=brokers)


def preview(order: ServiceOrder, policy: KeeperPolicy | None = None) -> KeptProposal:
    return intended(order, SEEN, policy or quiet(), "prod", None)


def test_what_would_undo_the_plan_without_the_intent_does_not_count() -> None:
    policy = quiet(Condition.BROKER_EMPTY)
    with pytest.raises(OrderRefused, match="the next observation would undo it by scope fill"):
        wished(ServiceOrder(OrderKind.PROPOSE, "prod", scope="drain", brokers=(3,)), SEEN, policy, "prod", "anna")
    assert preview(given(IntentKind.DRAIN, "3"), policy).moves == 1


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (IntentKind.DRAIN, "2", None),
        (IntentKind.DEMOTE, "2", None),
        (IntentKind.REPLACE, "1", 3),
        (IntentKind.ADD, "3", None),
        (IntentKind.REPLICATION, "t", 3),
    ],
)
def test_it_is_what_the_next_observation_proposes(kind: IntentKind, name: str, value: int | None) -> None:
    policy = with_intents(quiet(), (KeptIntent(kind, name, value or 0, "anna", SEEN.at_ms),))
    (next_one,) = after_look((), SEEN, judge(SEEN, policy), policy, "prod")
    made = preview(given(kind, name, value=value))
    assert made.changes == next_one.changes != ()
    assert (made.id, made.moves, made.bytes, made.reasons) == (
        next_one.id, next_one.moves, next_one.bytes, next_one.reasons,
    )  # fmt: skip


def test_what_holds_it_back_is_told() -> None:
    held = Hold("drain", "held by anna at noon; `shunter withdraw hold drain` lifts that")
    policy = replace(quiet(), rails=GuardRails(holds=(held,)))
    assert preview(given(IntentKind.DRAIN, "2"), policy).held_back == (held.told,)
    slow = replace(policy, watches={**policy.watches, Condition.DRAIN: Watch(Mode.PROPOSE, 5)})
    assert "5 minutes" in preview(given(IntentKind.DRAIN, "2"), slow).held_back[1]


@pytest.mark.parametrize(
    ("order", "told"),
    [
        (given(IntentKind.REPLACE, "1", value=1), "can't take its own place"),
        (given(IntentKind.FREEZE_BROKER, "3"), "is no intent with a plan: one of drain, replace"),
        (given(IntentKind.DRAIN), "intend drain: brokers are wanted"),
        (given(IntentKind.ADD, "9"), "add 9: broker 9 is to get its share and is not up"),
        (given(IntentKind.REPLICATION, "t"), "topics are wanted, and how many replicas"),
        (given(IntentKind.REPLICATION, "t", value=0), "at least 1 is wanted"),
    ],
)
def test_what_can_not_be_planned_says_why(order: ServiceOrder, told: str) -> None:
    with pytest.raises(OrderRefused, match=told):
        intended(order, SEEN, quiet(), "prod", None)


def test_an_order_about_several_brokers_is_planned_as_a_whole() -> None:
    both = preview(given(IntentKind.DEMOTE, "1", "2"))
    assert {change.replicas[0] for change in both.changes} == {3, 4}


def test_without_a_plan_it_says_so() -> None:
    even = replace(quiet(), watches={**quiet().watches, Condition.DRAIN: Watch(Mode.NOTIFY)})
    with pytest.raises(OrderRefused, match="drain 2: there is nothing to move: the policy only lets it be reported"):
        intended(given(IntentKind.DRAIN, "2"), SEEN, even, "prod", None)
    with pytest.raises(OrderRefused, match="everything is as it is asked for") as refused:
        intended(given(IntentKind.REPLICATION, "t", value=2), SEEN, quiet(), "prod", None)
    assert refused.value.refusal is Refusal.NOT_ALLOWED
