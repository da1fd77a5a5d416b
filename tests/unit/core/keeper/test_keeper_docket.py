"""Proposals that are kept: which are still valid, which are new, who has approved them, and which is begun next."""

from dataclasses import replace

import pytest
from keeper_clusters import AT_ONCE, MIB, MINUTE_MS, NOON_MS, cluster, later, look, only, ready

from shunter.core.keeper.docket import after_look, next_to_begin, voted
from shunter.core.keeper.intents import contradiction, with_intents
from shunter.core.keeper.people import approvals, unsure
from shunter.core.keeper.sighting import PastExecution, Sighting, after, in_order
from shunter.model.keeper import Condition, GuardRails, Intents, KeeperPolicy, Mode
from shunter.model.limits import Window
from shunter.model.partition import TopicPartition
from shunter.model.service import (
    USER,
    IntentKind,
    KeptIntent,
    KeptProposal,
    OrderRefused,
    ProposalState,
    Refusal,
    Vote,
)

LOPSIDED = {"t": [[1, 2]] * 6}
BALANCE = only(Condition.DISK_BAND)
TWO = GuardRails(approvals=2)


def kept(sighting: Sighting, policy: KeeperPolicy = BALANCE, *before: KeptProposal) -> tuple[KeptProposal, ...]:
    return after_look(before, sighting, look(sighting, policy), policy, "prod")


def acting(policy: KeeperPolicy = BALANCE) -> KeeperPolicy:
    watches = {
        each: replace(watch, mode=Mode.ACT) if watch.mode is Mode.PROPOSE else watch
        for each, watch in policy.watches.items()
    }
    return replace(policy, watches=watches)


def test_a_proposal_says_what_it_changes_and_what_a_rollback_costs() -> None:
    (made,) = kept(cluster(LOPSIDED))
    assert made.state is ProposalState.WAITING
    assert made.id.startswith("rebalance-")
    assert made.bytes == made.moves * MIB == made.rollback_bytes
    three = next(each for each in made.brokers if each.broker == 3)
    assert (three.before, three.after[1]) == ((0, 0, 0), made.moves)
    assert kept(cluster(LOPSIDED))[0] == made, "one look gives one id, whoever takes it"


def test_what_still_stands_is_left_alone() -> None:
    seen = cluster(LOPSIDED)
    (made,) = kept(seen)
    grown = later(cluster(LOPSIDED, size=2 * MIB), 1)
    assert kept(grown, BALANCE, made) == (), "sizes grow at every look: that is no other plan"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"rows": {"t": [[2, 1]] + [[1, 2]] * 5, "u": []}}, "is at [2, 1], and was planned from [1, 2]"),
        ({"rows": {"u": [[1, 2]] * 6}}, "t-0 does not exist any more"),
        ({"brokers": (1, 2)}, "broker 3, which is to get t-"),
        ({"rows": {"t": [[1, 2]] * 6, "u": [[3]] * 12}}, "nothing asks for it any more"),
        ({"failed": (("u", 0, 3),), "rows": {"t": [[1, 2]] * 6, "u": [[3]]}}, "may no longer get replicas"),
    ],
)
def test_a_plan_whose_ground_is_gone_is_stale(change: dict[str, object], why: str) -> None:
    (made,) = kept(cluster(LOPSIDED))
    changed = {"rows": LOPSIDED, **change}
    found = kept(cluster(**changed), BALANCE, made)  # type: ignore[arg-type]
    if why.startswith("is at"):
        # Whichever partitions the plan is about, all were planned from (1, 2).
        made = replace(made, changes=tuple(each._replace(partition=0) for each in made.changes[:1]))
        found = kept(cluster(**changed), BALANCE, made)  # type: ignore[arg-type]
    if why.startswith("nothing"):
        found = kept(cluster(**changed), only(Condition.RACKS), made)  # type: ignore[arg-type]
    stale = next(each for each in found if each.id == made.id)
    assert stale.state is ProposalState.STALE
    assert why in stale.outcome


def carried_out(sighting: Sighting, policy: KeeperPolicy = BALANCE) -> KeptProposal:
    (made,) = kept(sighting, policy)
    return replace(made, state=ProposalState.CARRIED_OUT, changed_at_ms=sighting.at_ms, outcome="4 done")


def test_a_plan_that_ran_is_done_once_the_cluster_shows_that_its_condition_is_over() -> None:
    seen = cluster(LOPSIDED)
    ran = carried_out(seen)
    assert kept(seen, BALANCE, ran) == (), "this look began before the plan had ended"
    (done,) = kept(later(after(in_order(seen), ran.changes), 1), BALANCE, ran)
    assert (done.state, done.outcome) == (ProposalState.DONE, "4 done; over: disk-band")


def test_a_plan_that_ran_in_vain_says_what_still_holds_and_what_is_next() -> None:
    ran = carried_out(cluster(LOPSIDED))
    ended, another = kept(later(cluster(LOPSIDED), 1), BALANCE, ran)
    assert ended.state is ProposalState.PARTLY
    assert ended.outcome.startswith("4 done, but disk skew still holds: broker 1 carries 1.50 of the mean in disk")
    assert ended.outcome.endswith("; another plan is proposed")
    assert another.state is ProposalState.WAITING
    told = replace(BALANCE.watches[Condition.DISK_BAND], mode=Mode.NOTIFY)
    quiet = replace(BALANCE, watches={**BALANCE.watches, Condition.DISK_BAND: told})
    (ended,) = kept(later(cluster(LOPSIDED), 1), quiet, ran)
    assert ended.outcome.endswith("; nothing more is planned for it now")


def test_a_full_disk_is_given_the_time_in_which_kafka_deletes_files() -> None:
    policy = only(Condition.DISK_FULL)
    full = cluster({"t": [[1]] * 6 + [[2]]}, used={1: 0.95, 2: 0.1, 3: 0.1})
    ran = replace(carried_out(cluster(LOPSIDED)), conditions=("disk-full",))
    assert kept(later(full, 1), policy, ran) == (), "no verdict, and no second plan of this scope"
    ended = kept(later(full, 4), policy, ran)[0]
    assert ended.state is ProposalState.PARTLY
    assert "disk full still holds: the disks of broker 1 are 95.0% full" in ended.outcome


def test_who_is_to_lead_nothing_leads_until_the_cluster_shows_another_leader() -> None:
    """Found on 48647b9: [1, 3] led by broker 3 was no condition, because broker 3 is not the first of them."""
    policy = only(Condition.DEMOTE, intents=Intents(demote=(3,)))
    seen = cluster({"t": [[1, 3], [2, 3]]})
    partitions = tuple(each._replace(leader=3) for each in seen.inventory.partitions)
    led = replace(seen, inventory=seen.inventory._replace(partitions=partitions))
    assert look(seen, policy).holding == ()
    (holding,) = look(led, policy).holding
    assert holding.sign.text == "broker 3 is to lead nothing and leads 2 partitions"
    ran = replace(carried_out(cluster(LOPSIDED)), conditions=("demote",), outcome="2 done")
    (ended, *_) = after_look((ran,), later(led, 1), look(later(led, 1), policy), policy, "prod")
    assert ended.state is ProposalState.PARTLY
    assert ended.outcome.startswith("2 done, but demote still holds: broker 3 is to lead nothing and leads 2")


def test_the_leaders_band_is_judged_by_who_leads_now_too() -> None:
    policy = only(Condition.LEADERS_BAND)
    seen = cluster({"t": [[1, 2], [2, 3], [3, 1]] * 4})
    assert look(seen, policy).holding == ()
    partitions = tuple(
        each._replace(leader=2 if 2 in each.replicas else each.leader) for each in seen.inventory.partitions
    )
    led = replace(seen, inventory=seen.inventory._replace(partitions=partitions))
    texts = [each.sign.text for each in look(led, policy).holding]
    assert (
        texts[1]
        == "broker 2 leads 2.00 of the mean now, and not as preferred (threshold 0.80 to 1.20, ends within 0.90 to 1.10)"
    )
    unable = tuple(each._replace(isr=(each.leader,)) for each in partitions)
    seen = replace(seen, inventory=seen.inventory._replace(partitions=unable))
    assert look(seen, policy).holding == (), "no election can change who leads a partition whose first is out of sync"


def test_what_was_frozen_or_demoted_since_makes_it_stale() -> None:
    (made,) = kept(cluster(LOPSIDED))
    for rails in (GuardRails(frozen_topics=("t",)), GuardRails(frozen_brokers=(3,))):
        found = kept(cluster(LOPSIDED), replace(BALANCE, rails=rails), made)
        assert found[0].state is ProposalState.STALE, rails
    drained = replace(BALANCE, intents=Intents(drain=(3,)))
    assert kept(cluster(LOPSIDED), drained, made)[0].state is ProposalState.STALE


def test_the_reasons_of_a_proposal_that_waits_are_of_the_last_look() -> None:
    (made,) = kept(cluster(LOPSIDED))
    assert kept(cluster(LOPSIDED), BALANCE, made) == (), "nothing changed"
    older = replace(made, reasons=("broker 1 carries 9.99 of the mean in disk",))
    (renewed,) = kept(cluster(LOPSIDED), BALANCE, older)
    assert renewed == made
    by_hand = replace(older, conditions=())
    assert kept(cluster(LOPSIDED), BALANCE, by_hand) == (), "what a person asked for keeps its reason"


def test_moves_under_way_hold_back_and_make_nothing_stale() -> None:
    (made,) = kept(cluster(LOPSIDED))
    moving = cluster(LOPSIDED, open_moves=frozenset({TopicPartition("t", 5)}))
    (held,) = kept(moving, BALANCE, made)
    assert (held.id, held.state) == (made.id, ProposalState.WAITING)
    assert "1 open move (t-5)" in held.held_back[0]


def test_a_window_holds_back_what_can_be_approved_meanwhile() -> None:
    policy = replace(BALANCE, rails=GuardRails(windows=(Window(22 * 60, 6 * 60),)))
    (made,) = kept(cluster(LOPSIDED), policy)
    assert "windows = 22:00-06:00" in made.held_back[0]
    approved = voted(made, Vote("anna", NOON_MS, approves=True), GuardRails())
    assert next_to_begin([approved]) is None
    (due,) = kept(cluster(LOPSIDED, at_ms=NOON_MS + 11 * 3_600_000), policy, approved)
    assert next_to_begin([due]) == due


def test_what_has_not_lasted_is_no_proposal_yet() -> None:
    watches = {**BALANCE.watches, Condition.DISK_BAND: replace(BALANCE.watches[Condition.DISK_BAND], minutes=30)}
    assert kept(cluster(LOPSIDED), replace(BALANCE, watches=watches)) == ()


def test_a_condition_that_may_act_needs_nobody_and_loses_that_again() -> None:
    (made,) = kept(cluster(LOPSIDED), acting())
    assert (made.state, made.acts) == (ProposalState.APPROVED, True)
    (waits,) = kept(cluster(LOPSIDED), BALANCE, made)
    assert (waits.state, waits.acts) == (ProposalState.WAITING, False)
    (again,) = kept(cluster(LOPSIDED), acting(), waits)
    assert again.state is ProposalState.APPROVED
    by_hand = voted(waits, Vote("anna", NOON_MS, approves=True), GuardRails())
    assert kept(cluster(LOPSIDED), BALANCE, by_hand) == (), "what a person approved stays approved"


def test_nothing_is_proposed_beside_what_is_begun() -> None:
    (made,) = kept(cluster(LOPSIDED))
    for state in (ProposalState.STARTING, ProposalState.RUNNING):
        begun = replace(made, state=state, scope="drain")
        assert kept(cluster(LOPSIDED), BALANCE, begun) == ()
        assert next_to_begin([begun, replace(made, state=ProposalState.APPROVED)]) is None


def test_the_most_urgent_one_begins_first() -> None:
    (made,) = kept(cluster(LOPSIDED))
    balance = replace(made, state=ProposalState.APPROVED)
    offline = replace(balance, id="offline-1", scope="offline", made_at_ms=made.made_at_ms + 1)
    assert next_to_begin([balance, offline]) == offline


def test_votes() -> None:
    (made,) = kept(cluster(LOPSIDED))
    anna = Vote("anna", NOON_MS, approves=True)
    first = voted(made, anna, TWO)
    assert first.state is ProposalState.WAITING
    assert voted(first, anna._replace(who="ben"), TWO).state is ProposalState.APPROVED
    for proposal, vote, refusal in (
        (first, anna, Refusal.ALREADY_DECIDED),
        (replace(made, state=ProposalState.RUNNING), anna._replace(approves=False), Refusal.ALREADY_DECIDED),
        (replace(made, state=ProposalState.STALE, outcome="t is gone"), anna, Refusal.STALE),
    ):
        with pytest.raises(OrderRefused) as refused:
            voted(proposal, vote, TWO)
        assert refused.value.refusal is refusal
    taken_back = voted(voted(made, anna, GuardRails()), anna._replace(approves=False, comment="no"), GuardRails())
    assert (taken_back.state, taken_back.outcome) == (ProposalState.DECLINED, "declined by anna: no")


PEOPLE = {"token anna-ci": "anna", "user anna": "anna", "user root": "ben", "token bot": "carl", "user x": "carl"}


@pytest.mark.parametrize(
    ("accounts", "many", "told"),
    [
        (["token anna", "token ben"], 2, ""),
        (["token anna", "token anna-ci"], 1, ""),
        (["token anna", "user anna"], 1, ""),
        (["token anna", "user root"], 2, ""),
        (["user anna", "user root"], 2, ""),
        (["token bot", "user x"], 1, ""),
        (["user kafka"], 1, ""),
        (["token anna", "user kafka"], 1, "it is not known whether user kafka is another person than token anna"),
        (["user kafka", "user y"], 1, "it is not known whether user kafka is another person than user y"),
        (["user kafka", "token anna", "token ben"], 2, "another person than token anna, token ben: say whose it is"),
        (["token Anna", "token ANNA-CI", "token anna"], 1, ""),
        ([], 0, ""),
    ],
)
def test_one_person_counts_once_and_an_account_of_nobody_known_counts_for_nobody_else(
    accounts: list[str], many: int, told: str
) -> None:
    pairs = [each.partition(" ") for each in accounts]
    votes = [Vote(who, NOON_MS, approves=True, by=by) for by, _, who in pairs]
    votes.append(Vote("dora", NOON_MS, approves=False))
    assert approvals(votes, PEOPLE) == many
    assert told in unsure(votes, PEOPLE)
    assert bool(told) == bool(unsure(votes, PEOPLE))


def test_a_person_who_approved_by_one_account_is_refused_by_another_one() -> None:
    (made,) = kept(cluster(LOPSIDED))
    rails = GuardRails(approvals=2, people=PEOPLE)
    once = voted(made, Vote("anna-ci", NOON_MS, approves=True), rails)
    with pytest.raises(OrderRefused, match=r"anna has approved .* already as token anna-ci, and 2 different people"):
        voted(once, Vote("anna", NOON_MS, approves=True, by=USER), rails)
    unknown = voted(once, Vote("kafka", NOON_MS, approves=True, by=USER), rails)
    assert unknown.state is ProposalState.WAITING
    assert voted(unknown, Vote("root", NOON_MS, approves=True, by=USER), rails).state is ProposalState.APPROVED


def test_intents_beside_those_of_the_file() -> None:
    policy = replace(AT_ONCE, intents=Intents(drain=(1,), replication={"a": 2}), rails=GuardRails(frozen_brokers=(7,)))
    given = [
        KeptIntent(IntentKind.DRAIN, "3", 0, "anna", 1),
        KeptIntent(IntentKind.DEMOTE, "4", 0, "anna", 1),
        KeptIntent(IntentKind.FREEZE_TOPIC, "pay*", 0, "anna", 1),
        KeptIntent(IntentKind.REPLICATION, "a", 3, "anna", 1),
    ]
    both = with_intents(policy, given)
    assert (both.intents.drain, both.intents.demote, both.rails.frozen_topics) == ((1, 3), (4,), ("pay*",))
    assert both.intents.replication == {"a": 3}
    assert "is frozen" in contradiction(both, KeptIntent(IntentKind.DRAIN, "7", 0, "b", 1))
    assert "to be demoted" in contradiction(both, KeptIntent(IntentKind.FREEZE_BROKER, "4", 0, "b", 1))
    assert contradiction(both, KeptIntent(IntentKind.FREEZE_BROKER, "5", 0, "b", 1)) == ""


def test_a_balance_does_not_bring_back_what_an_earlier_one_took_away() -> None:
    free = ready(look(cluster(LOPSIDED), BALANCE))
    assert free is not None
    took = tuple((TopicPartition("t", at), 3) for at in range(5))
    past = PastExecution(NOON_MS - MINUTE_MS, NOON_MS - MINUTE_MS, 5, MIB, took)
    judgement = look(cluster(LOPSIDED, past=(past,)), BALANCE)
    (proposal,) = judgement.proposals
    assert not any((TopicPartition("t", each.partition), 3) in took for each in proposal.changes if 3 in each.replicas)
    assert any("an earlier balance took it from broker 3" in each for each in proposal.undone)
    long_ago = past._replace(began_at_ms=0, ended_at_ms=NOON_MS - 25 * 60 * MINUTE_MS)
    again = ready(look(cluster(LOPSIDED, past=(long_ago,)), BALANCE))
    assert again is not None
    assert again.changes == free.changes


def test_a_plan_that_was_made_under_a_freeze_gives_way_to_one_that_leaves_less_undone() -> None:
    """An outsider's find: it stayed after the freeze, and was approved, and a second approval was needed."""
    policy = replace(only(Condition.DRAIN), intents=Intents(drain=(2,)))
    frozen = replace(policy, rails=replace(policy.rails, frozen_topics=("pay",)))
    seen = cluster({"t": [[1, 2]], "pay": [[1, 2], [2, 1]]})
    (made,) = kept(seen, frozen)
    assert (made.moves, bool(made.undone)) == (1, True)
    assert kept(later(seen, 1), frozen, made) == ()
    stale, new = kept(later(seen, 1), policy, made)
    assert (stale.state, stale.outcome) == (
        ProposalState.STALE,
        "a plan that leaves less undone is possible now: 3 replicas to copy",
    )
    assert (new.state, new.moves) == (ProposalState.WAITING, 3)
    assert not any("excluded" in each for each in new.undone)
    approved = replace(made, state=ProposalState.APPROVED)
    assert all(each.state is not ProposalState.STALE for each in kept(later(seen, 1), policy, approved))
