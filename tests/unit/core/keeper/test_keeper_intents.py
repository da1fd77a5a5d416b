"""Intents that stay, their cordons and previews, the rules of a person's plan, and a person's word against it."""

from dataclasses import replace
from typing import Any

import pytest
from keeper_clusters import AT_ONCE, MIB, MINUTE_MS, NOON_MS, carried_out, cluster, later, look, only, ready

from shunter.app.evaluation.observation import sighting_of
from shunter.core.keeper.cordons import outlived, why_not_cordoned, with_cordons
from shunter.core.keeper.docket import after_look, next_to_begin
from shunter.core.keeper.intents import contradiction, with_intents
from shunter.core.keeper.judgement import Judgement, judge
from shunter.core.keeper.sighting import Sighting
from shunter.core.keeper.wishes import intended, narrowed, wished
from shunter.core.keeper.words import Said, again, consequence, held, hold_of
from shunter.core.planning.request import Scope
from shunter.model.check_up import CheckedJournal
from shunter.model.execution import ExecutionOptions
from shunter.model.inventory import Disk
from shunter.model.keeper import Condition, GuardRails, Hold, Intents, KeeperPolicy, Mode, Watch
from shunter.model.service import (
    IntentKind,
    KeptIntent,
    KeptProposal,
    OrderKind,
    OrderRefused,
    PlannedChange,
    ProposalState,
    Refusal,
    ServiceOrder,
)

ROWS = {"t": [[1, 2], [2, 3], [3, 1], [1, 2], [2, 3], [3, 1]]}
REPLACED = replace(AT_ONCE, intents=Intents(replace={3: 4}))
DRAINS = KeeperPolicy(intents=Intents(drain=(2, 9), cordon=True))
WAY_OUT = "take `cordon` out of the policy's intents to drain without it"
BROKERS = (1, 2, 3, 4)
SEEN = cluster({"t": [[1, 2], [2, 4], [4, 1], [1, 2], [2, 3], [4, 1]]}, brokers=BROKERS)
POLICY = only(Condition.DISK_BAND)
TWO_TOPICS = {"t": [[1, 2]] * 6, "u": [[1, 2]] * 6}
ANNA = Said("rolled back", "anna", NOON_MS, "too slow")
BALANCE = only(Condition.DISK_BAND)
LOPSIDED = {"t": [[1, 2]] * 6}


def settled(seen: Sighting, policy: KeeperPolicy) -> tuple[Sighting, list[str]]:
    """The cluster once no proposal is ready, and the scopes that were carried out."""
    scopes: list[str] = []
    judged = look(seen, policy)
    while (proposal := ready(judged)) is not None:
        scopes.append(proposal.scope.value)
        seen = carried_out(seen, proposal)
        judged = look(seen, policy, judged.memory)
    return seen, scopes


def rows(seen: Sighting) -> list[tuple[int, ...]]:
    return [each.replicas for each in seen.inventory.partitions]


def told(judged: Judgement) -> dict[str, str]:
    return {f"{each.sign.subject.condition.value} {each.sign.subject.about}": each.sign.text for each in judged.holding}


@pytest.mark.parametrize("intents", [Intents(drain=(1,)), Intents(replace={1: 4})])
def test_a_broker_that_holds_frozen_topics_alone_is_not_done_and_it_is_told_why(intents: Intents) -> None:
    rows = {"t": [[2, 3]], "kept": [[1, 2]]}
    policy = only(Condition.DRAIN, Condition.REPLACE, rails=GuardRails(frozen_topics=("k*",)), intents=intents)
    judged = look(cluster(rows, brokers=(1, 2, 3, 4)), policy)
    (holding,) = judged.holding
    told = "holds 1 replica; of frozen topics, which stay there until these are unfrozen: 1"
    assert told in holding.sign.text
    (proposal,) = judged.proposals
    assert (proposal.changes, proposal.undone) == ((), (holding.sign.text,))


def test_a_replacement_takes_over_place_by_place_and_nothing_else() -> None:
    seen, scopes = settled(cluster(ROWS, brokers=(1, 2, 3, 4)), REPLACED)
    assert rows(seen) == [(1, 2), (2, 4), (4, 1), (1, 2), (2, 4), (4, 1)]
    assert scopes == ["replace"], "it has its share by then, so no balance follows"


def test_until_it_has_taken_over_no_other_plan_touches_either_of_both() -> None:
    policy = with_intents(REPLACED, [held("replace", Said("declined", "anna", 1))])
    seen = cluster({"t": [[1, 3]] * 6}, brokers=(1, 2, 3, 4))
    after, scopes = settled(seen, policy)
    assert scopes, "broker 2 is empty, and is filled"
    assert not any(4 in each for each in rows(after))
    assert [3 in each for each in rows(after)] == [3 in each for each in rows(seen)]


def test_a_dead_broker_is_replaced_even_under_min_isr() -> None:
    seen = cluster(ROWS, brokers=(1, 2, 4), min_isr=2)
    judged = look(seen, REPLACED)
    assert "which go to broker 4" in told(judged)["broker-dead broker 3"]
    proposal = ready(judged)
    assert proposal is not None
    assert proposal.scope.value == "replace"
    assert rows(carried_out(seen, proposal)) == [(1, 2), (2, 4), (4, 1), (1, 2), (2, 4), (4, 1)]


def test_a_dead_broker_whose_replacement_is_not_up_is_healed_elsewhere() -> None:
    judged = look(cluster(ROWS, brokers=(1, 2)), replace(REPLACED, intents=Intents(replace={3: 4})))
    assert "broker 4 is not up" in told(judged)["replace broker 3"]
    proposals = {each.scope.value: each for each in judged.proposals}
    assert proposals["replace"].changes == ()
    assert "broker 4 is not up, or not well" in proposals["replace"].undone[0]
    assert "which go to" not in told(judged)["broker-dead broker 3"]


def test_a_dead_broker_that_replacing_may_not_mend_is_healed_elsewhere() -> None:
    off = only(Condition.BROKER_DEAD, intents=Intents(replace={3: 4}))
    proposal = ready(look(cluster(ROWS, brokers=(1, 2, 4)), off))
    assert proposal is not None
    assert proposal.scope.value == "offline"
    assert len(proposal.changes) == 4


def test_a_kept_replacement_still_stands_at_the_next_look() -> None:
    seen = cluster(ROWS, brokers=(1, 2, 3, 4))
    (made,) = after_look((), seen, look(seen, REPLACED), REPLACED, "prod")
    assert after_look((made,), seen, look(seen, REPLACED), REPLACED, "prod") == ()
    drained = with_intents(REPLACED, [KeptIntent(IntentKind.DRAIN, "4", 0, "anna", 1)])
    (stale, *_) = after_look((made,), seen, look(seen, drained), drained, "prod")
    assert (stale.state, "may no longer get replicas" in stale.outcome) == (ProposalState.STALE, True)


def test_a_balance_that_brings_something_to_a_replacement_becomes_stale() -> None:
    seen = cluster({"t": [[1, 2]] * 6, "u": [[3, 1]]}, brokers=(1, 2, 3, 4))
    balance = only(Condition.DISK_BAND)
    (made,) = after_look((), seen, look(seen, balance), balance, "prod")
    assert any(4 in each.replicas for each in made.changes)
    policy = replace(balance, intents=Intents(replace={3: 4}))
    (stale, *_) = after_look((made,), seen, look(seen, policy), policy, "prod")
    assert stale.state is ProposalState.STALE


def test_an_added_broker_gets_its_share_though_bounds_cut_that_into_several_plans() -> None:
    policy = only(Condition.ADD, intents=Intents(add=(4,)), rails=GuardRails(moves=1))
    seen, scopes = settled(cluster(ROWS, brokers=(1, 2, 3, 4)), policy)
    assert scopes == ["fill"] * len(scopes)
    assert len(scopes) >= 2, "the first plan leaves it no longer empty, and short of its share"
    assert sum(4 in each for each in rows(seen)) == 3, "12 replicas, 4 brokers"
    assert look(seen, policy).holding == ()


def test_a_broker_may_be_added_before_it_joins() -> None:
    policy = only(Condition.ADD, intents=Intents(add=(4,)))
    judged = look(cluster(ROWS), policy)
    assert told(judged) == {"add broker 4": "broker 4 is to get its share and is not up"}
    assert ready(judged) is None
    assert ready(look(cluster(ROWS, brokers=(1, 2, 3, 4)), policy)) is not None


def test_a_broker_that_was_added_is_not_told_to_be_empty_too() -> None:
    policy = replace(AT_ONCE, intents=Intents(add=(4,)))
    names = told(look(cluster(ROWS, brokers=(1, 2, 3, 4)), policy))
    assert "add broker 4" in names
    assert "broker-empty broker 4" not in names


HELD = KeeperPolicy(
    rails=GuardRails(frozen_brokers=(7,)), intents=Intents(drain=(1,), demote=(2,), replace={3: 4}, add=(5,))
)


@pytest.mark.parametrize(
    ("kind", "broker", "new", "against"),
    [
        (IntentKind.DRAIN, "4", 0, "to take another one's place"),
        (IntentKind.DRAIN, "5", 0, "to get its share"),
        (IntentKind.DEMOTE, "4", 0, "to take another one's place"),
        (IntentKind.REPLACE, "1", 6, "to be drained"),
        (IntentKind.REPLACE, "4", 6, "to take another one's place"),
        (IntentKind.REPLACE, "6", 4, "to take another one's place"),
        (IntentKind.REPLACE, "6", 3, "to be replaced"),
        (IntentKind.REPLACE, "6", 7, "is frozen"),
        (IntentKind.REPLACE, "6", 6, "its own place"),
        (IntentKind.ADD, "3", 0, "to be replaced"),
        (IntentKind.ADD, "7", 0, "is frozen"),
        (IntentKind.FREEZE_BROKER, "3", 0, "to be replaced"),
        (IntentKind.FREEZE_BROKER, "5", 0, "to get its share"),
        (IntentKind.DRAIN, "1", 0, ""),
        (IntentKind.REPLACE, "3", 6, ""),
        (IntentKind.REPLACE, "2", 5, ""),
        (IntentKind.ADD, "4", 0, ""),
    ],
)
def test_what_contradicts_is_refused(kind: IntentKind, broker: str, new: int, against: str) -> None:
    found = contradiction(HELD, KeptIntent(kind, broker, new, "anna", 1))
    assert (against in found) if against else found == ""


def test_intents_of_the_file_and_those_given_since_stand_together() -> None:
    given = [KeptIntent(IntentKind.REPLACE, "6", 8, "anna", 1), KeptIntent(IntentKind.ADD, "9", 0, "anna", 1)]
    both = with_intents(HELD, given)
    assert both.intents.replace == {3: 4, 6: 8}
    assert both.intents.add == (5, 9)


def test_demote_beside_a_dead_broker_puts_first_who_can_lead() -> None:
    seen = cluster({"t": [[3, 1, 2]] * 4}, brokers=(2, 3, 4))
    proposal = ready(look(seen, only(Condition.DEMOTE, intents=Intents(demote=(3,)))))
    assert proposal is not None
    assert [(each.replicas, each.elect) for each in proposal.changes] == [((2, 1, 3), True)] * 4
    assert proposal.leader_changes == 4
    assert any("broker 1 is dead" in each for each in proposal.undone)
    assert rows(carried_out(seen, proposal)) == [(2, 1, 3)] * 4


def test_who_leads_now_is_elected_away_though_the_order_is_right() -> None:
    """The condition of the policy asks; a plan that only elects has a change for each partition."""
    seen = cluster({"t": [[3, 2], [2, 3]]})
    led = seen.inventory.partitions[1]._replace(leader=3)
    seen = sighting_of(
        seen.inventory._replace(partitions=(seen.inventory.partitions[0], led)), seen.check_up, seen.journal, ()
    )
    proposal = ready(look(seen, only(Condition.DEMOTE, intents=Intents(demote=(3,)))))
    assert proposal is not None
    assert [(each.partition, each.replicas, each.elect) for each in proposal.changes] == [
        (0, (2, 3), True),
        (1, (2, 3), True),
    ]


def seen(cordoned: bool | None):
    found = cluster({"t": [[1, 2], [2, 3]]})
    brokers = tuple(
        broker._replace(log_dirs=(Disk("/d", 100.0, 50.0, cordoned=cordoned),)) for broker in found.inventory.brokers
    )
    return replace(found, inventory=found.inventory._replace(brokers=brokers))


@pytest.mark.parametrize(
    ("cordoned", "scope", "policy", "told"),
    [
        (False, Scope.DRAIN, DRAINS, []),
        (None, Scope.DRAIN, replace(DRAINS, intents=Intents(drain=(2,))), []),
        (None, Scope.OFFLINE, DRAINS, []),
        (
            None,
            Scope.DRAIN,
            DRAINS,
            [f"broker 2 can't be cordoned: cordoned.log.dirs came with Kafka 4.3; {WAY_OUT}"],
        ),
    ],
)
def test_a_broker_from_before_kafka_4_3_is_named(cordoned, scope, policy, told) -> None:
    assert [*why_not_cordoned(seen(cordoned), scope, policy)] == told


def test_a_drain_cordons_live_brokers_alone_and_other_scopes_none() -> None:
    plain = ExecutionOptions(throttle=5)
    assert with_cordons(plain, "drain", seen(False), DRAINS) == replace(plain, cordons=((2, "*"),))
    assert with_cordons(plain, "rebalance", seen(False), DRAINS) is plain


def test_only_cordons_of_the_service_outlive_an_intent() -> None:
    journal = CheckedJournal("j", cordons={1: "drain-0a1b2c", 2: "drain-0a1b2c", 3: "0a1b2c3d4e5f"})
    assert outlived(journal, DRAINS) == (1,)
    assert outlived(journal, KeeperPolicy()) == (1, 2)


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


def test_offline_replicas_are_restored_by_hand_too() -> None:
    """An outsider's find: where the policy only reports a failed log dir, nobody could ask the service to heal it."""
    for seen in (
        cluster({"t": [[1, 2], [3, 2]]}, failed=(("t", 0, 1),)),
        cluster({"t": [[1, 2], [9, 2]]}, brokers=(1, 2, 3)),
    ):
        made = wished(order("offline"), seen, POLICY, "prod", "anna")
        assert len(made.changes) == made.moves == 1
    with pytest.raises(OrderRefused, match="offline: there is nothing to move"):
        wished(order("offline"), cluster({"t": [[1, 2]]}), POLICY, "prod", "anna")


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


def acting(policy: KeeperPolicy) -> KeeperPolicy:
    watches = {
        each: replace(watch, mode=Mode.ACT) if watch.mode is Mode.PROPOSE else watch
        for each, watch in policy.watches.items()
    }
    return replace(policy, watches=watches)


def proposal(scope: str, conditions: tuple[str, ...], *changes: PlannedChange) -> KeptProposal:
    state = ProposalState.RUNNING
    return KeptProposal("p-1", "prod", "c", scope, conditions, (), changes, 1, 1, 0, 1, (), NOON_MS, state, NOON_MS)


def intent(kind: IntentKind, about: str, value: int = 0) -> KeptIntent:
    return KeptIntent(kind, about, value, "ben", NOON_MS - 1)


DRAIN = proposal("drain", ("drain",), PlannedChange("t", 0, (1, 2), (1, 3)))
LED = PlannedChange("t", 0, (2, 1), (1, 2))
CAME = PlannedChange("t", 0, (1, 4), (1, 3))


@pytest.mark.parametrize(
    ("turned", "given"),
    [
        (DRAIN, intent(IntentKind.DRAIN, "3")),
        (proposal("replace", ("replace",), CAME), intent(IntentKind.REPLACE, "3", 4)),
        (proposal("demote", ("demote",), LED), intent(IntentKind.DEMOTE, "1")),
        (proposal("fill", ("add",), CAME), intent(IntentKind.ADD, "4")),
        (proposal("topics", ("replication",), CAME), intent(IntentKind.REPLICATION, "t", 2)),
    ],
)
def test_the_intent_that_asked_for_a_plan_is_taken_back_and_no_other(turned: KeptProposal, given: KeptIntent) -> None:
    others = [
        replace_about(given, "9"),
        intent(IntentKind.FREEZE_TOPIC, "t"),
        *([intent(IntentKind.DEMOTE, "3")] if given.kind is not IntentKind.DEMOTE else []),
    ]
    follows = consequence(turned, ANNA, [given, *others], Intents(), whole=True)
    assert (follows.gone, follows.hold) == ((given,), None)
    assert follows.told == f"it withdraws {given.kind.value} of {given.about}, which ben asked for"


def replace_about(given: KeptIntent, about: str) -> KeptIntent:
    return given._replace(about=about)


@pytest.mark.parametrize(
    ("turned", "in_file", "whole"),
    [
        (DRAIN, Intents(drain=(3,)), True),
        (DRAIN, Intents(), False),
        (proposal("rebalance", ("disk-band",), CAME), Intents(), True),
        (proposal("fill", ("add", "broker-empty"), CAME), Intents(), True),
        (proposal("rebalance", (), CAME), Intents(), True),
        (proposal("replace", ("replace",), CAME), Intents(replace={3: 4}), True),
        (proposal("topics", ("replication",), CAME), Intents(least_replication=2), True),
        (proposal("topics", ("replication",), CAME), Intents(replication={"t": 2}), True),
    ],
)
def test_whatever_else_asks_is_held_back(turned: KeptProposal, in_file: Intents, *, whole: bool) -> None:
    given = intent(IntentKind.DRAIN, "3")
    follows = consequence(turned, ANNA, [given], in_file, whole=whole)
    assert follows.gone == ((given,) if whole and turned is DRAIN else ())
    assert follows.hold == KeptIntent(IntentKind.HOLD, turned.scope, 0, "anna", NOON_MS, "rolled back: too slow")
    assert f"`shunter withdraw hold {turned.scope}` lifts that" in follows.told


def test_an_intent_that_was_taken_back_meanwhile_leaves_nothing_to_hold() -> None:
    assert consequence(DRAIN, ANNA, [], Intents(), whole=True) == ((), None)


def test_a_hold_says_who_said_what_when_and_how_it_is_lifted() -> None:
    told = hold_of(held("rebalance", Said("rolled back", "anna", NOON_MS))).told
    assert told == "held: rolled back by anna at 1970-01-01 12:00 UTC; `shunter withdraw hold rebalance` lifts that"
    assert "declined by anna at 1970-01-01 12:00 UTC (no), until 1970-01-01 12:05 UTC" in (
        hold_of(held("rebalance", Said("declined", "anna", NOON_MS, "no"), 5)).told
    )
    by_hand = KeptIntent(IntentKind.HOLD, "fill", 0, "ben", NOON_MS, "incident 12: wait")
    assert hold_of(by_hand).told.startswith("held by ben at 1970-01-01 12:00 UTC (incident 12: wait);")


def test_a_held_scope_is_shown_with_its_plan_and_not_begun_until_it_is_lifted() -> None:
    seen = cluster(LOPSIDED)
    policy = acting(BALANCE)
    held_policy = with_intents(policy, [held("rebalance", ANNA)])
    (shown,) = look(seen, held_policy).proposals
    assert shown.changes
    assert shown.held_back == (hold_of(held("rebalance", ANNA)).told,)
    assert after_look([], seen, look(seen, held_policy), held_policy, "prod") == ()
    for minutes in (10, 10**6):
        later_on = later(seen, minutes)
        assert after_look([], later_on, look(later_on, held_policy), held_policy, "prod") == ()
    (lifted,) = after_look([], seen, look(seen, policy), policy, "prod")
    assert next_to_begin([lifted]) == lifted


def test_a_plan_that_was_approved_before_the_hold_waits_and_one_of_a_person_does_not() -> None:
    seen = cluster(LOPSIDED)
    policy = acting(BALANCE)
    (approved,) = after_look([], seen, look(seen, policy), policy, "prod")
    held_policy = with_intents(policy, [held("rebalance", ANNA)])
    (waits,) = after_look([approved], seen, look(seen, held_policy), held_policy, "prod")
    assert next_to_begin([waits]) is None
    assert waits.held_back == (hold_of(held("rebalance", ANNA)).told,)
    asked_for = replace(approved, conditions=(), acts=False)
    assert after_look([asked_for], seen, look(seen, held_policy), held_policy, "prod") == ()
    assert next_to_begin([asked_for]) == asked_for


def test_another_scope_is_planned_past_a_held_one_and_a_hold_with_an_end_ends() -> None:
    seen = cluster(LOPSIDED)
    both = only(Condition.DISK_BAND, Condition.DRAIN)
    policy = replace(both, intents=Intents(drain=(2,)))
    (first,) = [each for each in look(seen, policy).proposals if each.ready]
    assert first.scope.value == "drain"
    declined = held("drain", Said("declined", "anna", NOON_MS), 10)
    (second,) = [each for each in look(seen, with_intents(policy, [declined])).proposals if each.ready]
    assert second.scope.value == "rebalance"
    again = later(seen, 10)
    assert [each.scope.value for each in look(again, with_intents(policy, [declined])).proposals if each.ready] == [
        "drain"
    ]


def test_a_scope_that_is_none_is_refused_with_those_that_are() -> None:
    assert contradiction(BALANCE, intent(IntentKind.HOLD, "rebalance")) == ""
    assert "'balance' is no scope: offline, drain" in contradiction(BALANCE, intent(IntentKind.HOLD, "balance"))


def test_a_hold_is_the_same_whenever_it_is_read() -> None:
    once = with_intents(BALANCE, [held("rebalance", ANNA, 5)])
    assert once.rails.holds[0].until_ms == NOON_MS + 5 * MINUTE_MS
    assert once == with_intents(BALANCE, [held("rebalance", ANNA, 5)])


def test_what_is_given_again_keeps_since_when_by_whom_and_why_it_was_given_first() -> None:
    """Found by hand: a second `intend` on the same broker dropped the first one's comment."""
    first = KeptIntent(IntentKind.DRAIN, "2", 0, "anna", NOON_MS, "ticket 1")
    second = first._replace(who="ben", at_ms=NOON_MS + 1, comment="ticket 2")
    both = first._replace(comment="ticket 1; ben: ticket 2")
    assert again(first, []) == first
    assert again(second, [first]) == both
    assert again(second, [both]) == again(second._replace(comment=""), [both]) == both
    assert again(first._replace(comment="ticket 3"), [first]).comment == "ticket 1; ticket 3"
    assert again(second._replace(comment="x" * 2_000), [first]) == first, "its length is bounded"
    assert again(second, [first._replace(about="3")]) == second
    factor = KeptIntent(IntentKind.REPLICATION, "t", 3, "anna", NOON_MS)
    assert again(factor._replace(value=2), [factor]).value == 2, "another word"


def test_a_hold_without_an_end_gets_none_by_a_decline_and_one_with_an_end_begins_anew() -> None:
    endless = KeptIntent(IntentKind.HOLD, "rebalance", 0, "anna", NOON_MS, "incident 12")
    declined = held("rebalance", Said("declined", "ben", NOON_MS + 1, "no"), 5)
    assert again(declined, [endless]) == endless._replace(comment="incident 12; ben: declined: no")
    assert again(declined._replace(at_ms=NOON_MS + 9), [declined]).at_ms == NOON_MS + 9
    assert again(endless, [declined]) == endless
