"""Intents that stay: a broker takes another one's place, a new broker gets its share; every plan keeps to them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from keeper_clusters import AT_ONCE, carried_out, cluster, look, only, ready

from shunter.app.evaluation.observation import sighting_of
from shunter.core.keeper.docket import after_look
from shunter.core.keeper.intents import contradiction, with_intents
from shunter.core.keeper.judgement import Judgement
from shunter.core.keeper.sighting import Sighting
from shunter.core.keeper.words import Said, held
from shunter.model.keeper import Condition, GuardRails, Intents, KeeperPolicy
from shunter.model.service import IntentKind, KeptIntent, ProposalState

ROWS = {"t": [[1, 2], [2, 3], [3, 1], [1, 2], [2, 3], [3, 1]]}
REPLACED = replace(AT_ONCE, intents=Intents(replace={3: 4}))


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
