"""What plans aim at by the policy, what they leave, and that a cluster comes to rest within its bands or says why not."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from keeper_clusters import AT_ONCE, MIB, carried_out, cluster, look, only, ready

from shunter.app.evaluation.observation import sighting_of
from shunter.core.keeper.judgement import Judgement
from shunter.core.keeper.requests import balance_request
from shunter.core.keeper.sighting import Sighting, with_capacities
from shunter.core.keeper.wishes import wished
from shunter.core.planning.cluster import Resource
from shunter.core.planning.request import Scope
from shunter.model.check_up import CheckedJournal
from shunter.model.keeper import BalanceRules, Condition, Intents, KeeperPolicy
from shunter.model.service import OrderKind, ServiceOrder

BROKERS = (1, 2, 3, 4, 5)
BANDS = (Condition.DISK_BAND, Condition.REPLICAS_BAND, Condition.LEADERS_BAND)


def drawn(seed: int) -> Sighting:
    rows = random.Random(seed)
    return cluster({"t": [rows.sample(BROKERS, 2) for _ in range(40)]}, brokers=BROKERS)


def at_rest(seen: Sighting, policy: KeeperPolicy) -> tuple[Sighting, Judgement]:
    """Plans are carried out until none is ready."""
    judged = look(seen, policy)
    for _ in range(20):
        proposal = ready(judged)
        if proposal is None:
            return seen, judged
        seen = carried_out(seen, proposal)
        judged = look(seen, policy, judged.memory)
    raise AssertionError("it never comes to rest")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "intents", [Intents(drain=(2,)), Intents(demote=(2,)), Intents(), Intents(add=(5,)), Intents(replace={1: 5})]
)
def test_after_an_intent_and_after_its_end_the_cluster_is_within_its_bands(seed: int, intents: Intents) -> None:
    seen, judged = at_rest(drawn(seed), replace(AT_ONCE, intents=intents))
    for told in (judged, at_rest(seen, AT_ONCE)[1]):
        outside = {each.sign.subject.condition for each in told.holding if each.sign.subject.condition in BANDS}
        explained = {each for made in told.proposals if made.undone or made.held_back for each in made.conditions}
        assert outside <= explained, "whatever stays outside a band has a reason"
    assert not at_rest(seen, AT_ONCE)[1].holding, "without intents everything can be reached here"


def test_more_replicas_are_additions_alone_and_balance_is_a_plan_of_its_own() -> None:
    rows = random.Random(5)
    seen = cluster({"t": [rows.sample((1, 2, 3), 2) for _ in range(20)]}, brokers=BROKERS)
    judged = look(seen, replace(AT_ONCE, intents=Intents(replication={"t": 3})))
    made = next(each for each in judged.proposals if each.scope is Scope.TOPICS)
    assert made.moves == 20
    assert all(set(each.original) < set(each.replicas) for each in made.changes)
    assert all(each.original[0] == each.replicas[0] for each in made.changes)


def test_goals_have_the_policys_order() -> None:
    policy = replace(AT_ONCE, balance=BalanceRules(goals=(Condition.LEADERS_BAND, Condition.REPLICAS_BAND)))
    aims = balance_request(drawn(1), policy, 0.1, (Resource.DISK, Resource.REPLICAS, Resource.LEADERS)).aims
    assert aims == (Resource.LEADERS, Resource.REPLICAS, Resource.DISK)


def test_no_plan_takes_a_broker_out_of_a_hard_band() -> None:
    """Replicas are even, and share racks: to spread them, broker 3 alone has to take four of them."""
    seen = cluster({"t": [[1, 2]] * 4, "u": [[3]] * 4}, racks={1: "a", 2: "a", 3: "b"})
    policy = only(Condition.RACKS, Condition.REPLICAS_BAND)
    soft = next(each for each in look(seen, policy).proposals if each.scope is Scope.FIX_RACKS)
    assert soft.ready
    hard = replace(policy, balance=BalanceRules(hard=(Condition.REPLICAS_BAND,)))
    held = next(each for each in look(seen, hard).proposals if each.scope is Scope.FIX_RACKS)
    assert not held.ready
    assert "replicas-band is hard, and after this plan broker" in held.held_back[0]
    asked = wished(ServiceOrder(OrderKind.PROPOSE, "yard", scope="fix-racks"), seen, hard, "yard", "anna")
    assert asked.held_back == held.held_back, "a plan that a person asks for keeps to it, too"


def test_no_broker_gets_more_replicas_than_the_policy_allows() -> None:
    seen = cluster({"t": [[1, 2]] * 6}, brokers=(1, 2, 3))
    policy = replace(only(Condition.BROKER_EMPTY), balance=BalanceRules(max_replicas=2))
    (made,) = look(seen, policy).proposals
    assert made.moves == 2


def test_sizes_of_disks_that_brokers_do_not_say_come_from_the_policy() -> None:
    seen = cluster({"t": [[1, 2]] * 9}, brokers=(1, 2, 3), used={3: 0.1})
    told = with_capacities(seen, {1: 10 * MIB, 2: 10 * MIB, 3: 1})
    brokers = {each.id: (each.disk_total_bytes, each.disk_usable_bytes) for each in told.inventory.brokers}
    assert brokers == {1: (10 * MIB, MIB), 2: (10 * MIB, MIB), 3: (100 * MIB, 90 * MIB)}
    held = {each.sign.subject.about for each in look(told, only(Condition.DISK_FULL)).holding}
    assert held == {"broker 1", "broker 2"}
    assert told.load.disk_capacity is not None
    assert told.load.disk_capacity.tolist() == [10 * 1024, 10 * 1024, 100 * 1024]


def test_an_empty_broker_is_not_filled_from_one_that_is_to_get_its_share() -> None:
    """Else a second plan would fill that one again, from yet another broker."""
    rows = {
        "t0": [[5, 3]],
        "t1": [[4, 3], [3, 4], [1, 4]],
        "t2": [[4], [3], [5], [3], [5], [5]],
        "t3": [[1], [3], [1]],
    }
    sizes = iter((1326, 2979, 0, 1287, 0, 47, 2891, 8, 1478, 174, 1899, 562, 331))
    seen = cluster(rows, brokers=BROKERS)
    uneven = [
        each._replace(sizes=tuple((broker, size << 10) for broker in each.replicas))
        for each, size in zip(seen.inventory.partitions, sizes, strict=True)
    ]
    seen = sighting_of(seen.inventory._replace(partitions=tuple(uneven)), seen.check_up, CheckedJournal("j"), ())
    policy = replace(only(Condition.ADD, Condition.BROKER_EMPTY), intents=Intents(add=(5,)))
    judged = look(seen, policy)
    first = ready(judged)
    assert first is not None
    assert any(2 in each.replicas for each in first.changes)
    assert ready(look(carried_out(seen, first), policy, judged.memory)) is None
