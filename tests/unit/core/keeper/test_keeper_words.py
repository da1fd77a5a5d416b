"""A person's word against a plan: which intents it withdraws, which scope it holds back, and who lifts that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from keeper_clusters import MINUTE_MS, NOON_MS, cluster, later, look, only

from shunter.core.keeper.docket import after_look, next_to_begin
from shunter.core.keeper.intents import contradiction, with_intents
from shunter.core.keeper.words import Said, consequence, held, hold_of
from shunter.model.keeper import Condition, Intents, KeeperPolicy, Mode
from shunter.model.service import IntentKind, KeptIntent, KeptProposal, PlannedChange, ProposalState

ANNA = Said("rolled back", "anna", NOON_MS, "too slow")
BALANCE = only(Condition.DISK_BAND)
LOPSIDED = {"t": [[1, 2]] * 6}


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
