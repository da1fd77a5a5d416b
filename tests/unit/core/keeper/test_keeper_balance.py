"""What plans aim at by the policy, by sizes or by rates; every cluster comes to rest within its guard rails."""

import random
from collections import Counter
from dataclasses import replace
from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keeper_clusters import AT_ONCE, MIB, NOON_MS, carried_out, cluster, look, only, policies, ready, sightings

from shunter.app.evaluation.observation import sighting_of
from shunter.core.keeper.judgement import Judgement
from shunter.core.keeper.load_model import with_model
from shunter.core.keeper.proposals import Proposal
from shunter.core.keeper.requests import balance_request
from shunter.core.keeper.sighting import Sighting, with_capacities
from shunter.core.keeper.wishes import wished
from shunter.core.planning.cluster import ClusterLoad, Resource
from shunter.core.planning.request import Scope
from shunter.model.check_up import CheckedJournal
from shunter.model.keeper import BalanceRules, Condition, Intents, KeeperPolicy
from shunter.model.load_model import LoadModel, PartitionRates, ProcessorModel
from shunter.model.service import OrderKind, ServiceOrder

BROKERS = (1, 2, 3, 4, 5)
BANDS = (Condition.DISK_BAND, Condition.REPLICAS_BAND, Condition.LEADERS_BAND)
HOUR_MS = 3_600_000
ROWS = {"t": [[1], [1], [2], [2], [3], [3]]}
UNEVEN = {("name:t", at): PartitionRates(rate, 0.0) for at, rate in enumerate((90.0, 80.0, 5.0, 5.0, 10.0, 10.0))}
"""Rates of a cluster whose bytes and replicas are even, but whose producers' bytes are not."""
PROCESSORS = ProcessorModel(0.1, 1e-3, 2e-3, 1e-3, {1: 1.0, 2: 1.0, 3: 1.0})
FRESH = LoadModel(UNEVEN, NOON_MS - 3 * HOUR_MS)
ALL = settings().max_examples
DEEP = ALL > 1_000
SOME = settings(max_examples=ALL, derandomize=not DEEP)
FEW = settings(max_examples=max(1, ALL // 3), derandomize=not DEEP)
"""The number of examples if each one judges and plans several times. The default run draws the same clusters each time,
because a failure of a new one would not be due to the change at hand; `--hypothesis-profile=deep` draws others."""
MOST_PLANS = 40


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


@pytest.mark.parametrize("seed", range(6))
def test_after_a_drain_its_end_and_a_demotion_leaders_are_within_their_band(seed: int) -> None:
    rows, begin = random.Random(seed), AT_ONCE.watches[Condition.LEADERS_BAND].begin
    seen = cluster(
        {t: [rows.sample(BROKERS, 2) for _ in range(3 + at)] for at, t in enumerate("abcd")}, brokers=BROKERS
    )
    for intents in (Intents(drain=(2,)), Intents(), Intents(demote=(4,)), Intents()):
        seen, judged = at_rest(seen, replace(AT_ONCE, intents=intents))
        able = [broker for broker in BROKERS if broker not in (*intents.drain, *intents.demote)]
        led = Counter(each.replicas[0] for each in seen.inventory.partitions)
        mean = led.total() / len(able)
        far = [broker for broker in able if abs(led[broker] - mean) >= max(1, begin * mean)]
        told = {each.conditions: each.undone or each.held_back for each in judged.proposals}
        assert not far or told[Condition.LEADERS_BAND,], "whoever is outside is named, with the reason"
        assert set(led) <= {*able}


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


def held(judged: Judgement) -> dict[str, str]:
    return {f"{each.sign.subject.condition.value} {each.sign.subject.about}": each.sign.text for each in judged.holding}


def seen(model: LoadModel = FRESH, hours: int = 24) -> Sighting:
    return with_model(cluster(ROWS), model, hours)


@pytest.mark.parametrize(
    ("condition", "model"),
    [
        (Condition.BYTES_IN_BAND, FRESH),
        (
            Condition.BYTES_OUT_BAND,
            replace(FRESH, rates={key: PartitionRates(0.0, told.bytes_in) for key, told in UNEVEN.items()}),
        ),
        (Condition.PROCESSORS_BAND, replace(FRESH, processors=PROCESSORS)),
    ],
)
def test_an_uneven_rate_is_seen_and_evened_out(condition: Condition, model: LoadModel) -> None:
    policy = only(condition)
    judged = look(seen(model), policy)
    assert {f"{condition.value} broker {broker}" for broker in (1, 2, 3)} == set(held(judged))
    assert all("by rates up to 3.0 hours ago" in told for told in held(judged).values())
    proposal = ready(judged)
    assert proposal is not None
    assert (proposal.scope.value, proposal.conditions) == ("rebalance", (condition,))
    later = carried_out(seen(model), proposal)
    rates = {1: 0.0, 2: 0.0, 3: 0.0}
    for each in later.inventory.partitions:
        rates[each.replicas[0]] += UNEVEN[("name:t", each.partition)].bytes_in or 0.0
    assert max(rates.values()) < 170, "broker 1 had 170 of 200"
    assert "1.0 hours" not in str(held(look(later, policy)))


@pytest.mark.parametrize("known", [range(0), range(1), range(1, 6)])
def test_bytes_out_that_nobody_told_are_not_taken_for_none(known: range) -> None:
    """Snapshots have no consumers' bytes, and bytes that a source did not count are not a reason to move anything."""
    rates = {
        (topic, at): told._replace(bytes_out=50.0 if at in known else None) for (topic, at), told in UNEVEN.items()
    }
    load = seen(replace(FRESH, rates=rates, processors=PROCESSORS)).load
    assert load.bytes_in is not None
    assert load.bytes_out is None
    policy = only(Condition.BYTES_OUT_BAND, Condition.PROCESSORS_BAND)
    assert look(seen(replace(FRESH, rates=rates, processors=PROCESSORS)), policy).holding == ()


def test_a_few_partitions_that_nobody_told_of_count_as_none() -> None:
    rates = {
        (topic, at): told._replace(bytes_out=None if at in (2, 3) else 50.0) for (topic, at), told in UNEVEN.items()
    }
    found = seen(replace(FRESH, rates=rates)).load.bytes_out
    assert found is not None
    assert found.tolist() == [50.0, 50.0, 0.0, 0.0, 50.0, 50.0]


def test_without_a_model_no_rate_is_judged() -> None:
    policy = only(Condition.BYTES_IN_BAND, Condition.BYTES_OUT_BAND, Condition.PROCESSORS_BAND, Condition.MODEL_UNUSED)
    assert look(cluster(ROWS), policy).holding == ()
    assert list(held(look(seen(), policy))), "and by one they are"


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (replace(FRESH, until_ms=NOON_MS - 25 * HOUR_MS), "its newest rates are 25 hours old, and model-hours = 24"),
        (LoadModel(), "it has no rates of this cluster"),
        (replace(FRESH, rates=dict(list(UNEVEN.items())[:5])), "the rates of 5 of 6 partitions, and 90% are wanted"),
    ],
)
def test_a_model_that_is_old_or_thin_is_told_and_nothing_is_judged_by_it(model: LoadModel, why: str) -> None:
    policy = only(Condition.BYTES_IN_BAND, Condition.PROCESSORS_BAND, Condition.MODEL_UNUSED)
    judged = look(seen(replace(model, processors=PROCESSORS)), policy)
    assert list(held(judged)) == ["model-unused "]
    assert why in held(judged)["model-unused "]
    assert judged.proposals == ()
    assert seen(model).load.bytes_in is None


def test_a_topic_is_known_by_its_id_before_its_name() -> None:
    made = cluster(ROWS)
    partitions = tuple(each._replace(topic_id="uuid") for each in made.inventory.partitions)
    made = replace(made, inventory=made.inventory._replace(partitions=partitions))
    rates = {("uuid", at): PartitionRates(float(at), None) for at in range(6)}
    found = with_model(made, LoadModel({**UNEVEN, **rates}, NOON_MS), 1)
    assert found.load.bytes_in is not None
    assert found.load.bytes_in.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_broker_that_nobody_measured_is_an_average_one() -> None:
    found = seen(replace(FRESH, processors=PROCESSORS._replace(powers={1: 2.0, 2: 0.05})))
    assert found.load.processor_capacity is not None
    assert found.load.processor_capacity.tolist() == pytest.approx([1.9, 0.01, 0.9])


def test_every_other_plan_keeps_to_the_rates_too() -> None:
    policy = KeeperPolicy(only(Condition.BROKER_EMPTY).watches)
    made = with_model(cluster(ROWS, brokers=(1, 2, 3, 4)), FRESH, 24)
    proposal = ready(look(made, policy))
    assert proposal is not None
    assert proposal.scope.value == "fill"
    assert {each.original[0] for each in proposal.changes} == {1}, "it takes from the broker that carries most"


def plans_until_rest(sighting: Sighting, policy: KeeperPolicy) -> list[Proposal]:
    """Look, carry out what is ready, look again, with the memory of each look, until nothing is ready."""
    done: list[Proposal] = []
    memory = None
    while len(done) < MOST_PLANS:
        judged = look(sighting, policy, memory)
        proposal = ready(judged)
        if proposal is None:
            return done
        done.append(proposal)
        sighting, memory = carried_out(sighting, proposal), judged.memory
    raise AssertionError(f"{MOST_PLANS} plans, and no rest: {[each.scope for each in done]}")


@FEW
@given(sightings(), policies(capped=False))
def test_a_plan_that_was_carried_out_is_not_proposed_again(sighting: Sighting, policy: KeeperPolicy) -> None:
    """A whole plan leaves nothing to its scope. A plan without the partitions that would swing may leave some.

    Then the next plan may find another place for these, and move others on, but never back. In a cluster with frozen
    topics and an intent to replace, a second rebalance moved a replica on that the first had brought. To leave it out
    of the first plan too would have spared its copy, and the balance would have come to rest farther from its bands.
    """
    judged = look(sighting, policy)
    proposal = ready(judged)
    if proposal is None:
        return
    again = ready(look(carried_out(sighting, proposal), policy, judged.memory))
    if again is None or again.scope != proposal.scope:
        return
    assert any("the next observation would undo it" in str(each) for each in proposal.undone), (proposal, again)
    later = {(each.topic, each.partition): each for each in again.changes}
    for each in proposal.changes:
        following = later.get((each.topic, each.partition), each)
        assert not set(following.replicas) & (set(each.original) - set(each.replicas)), (each, following)


@FEW
@given(sightings(), policies())
def test_the_keeper_comes_to_rest_and_no_look_undoes_the_plan_before(sighting: Sighting, policy: KeeperPolicy) -> None:
    left: set[tuple[str, int, int]] = set()
    for proposal in plans_until_rest(sighting, policy):
        rows = [(each.topic, each.partition, set(each.original), set(each.replicas)) for each in proposal.changes]
        came = {(topic, number, broker) for topic, number, old, new in rows for broker in new - old}
        assert not came & left, f"{sorted(came & left)} came back by scope {proposal.scope.value}"
        left = {(topic, number, broker) for topic, number, old, new in rows for broker in old - new}


@SOME
@given(sightings(), policies())
def test_every_proposal_keeps_to_the_guard_rails(sighting: Sighting, policy: KeeperPolicy) -> None:
    rails, proposals = policy.rails, look(sighting, policy).proposals
    frozen, shut = set(rails.frozen_brokers), {*policy.intents.drain, *policy.intents.replace, *sighting.dead}
    assert sum(each.ready for each in proposals) <= 1
    cordoned = {each.id for each in sighting.inventory.brokers if each.cordoned}
    changes = [each for proposal in proposals for each in proposal.changes if each.replicas != each.original]
    assert not [each for each in changes if cordoned & set(each.replicas)], "Kafka takes no such assignment"
    for proposal in proposals:
        assert rails.moves is None or proposal.moves <= rails.moves
        assert rails.bytes is None or proposal.bytes <= rails.bytes
        copies = [len(set(each.replicas) - set(each.original)) + len(each.log_dirs) for each in proposal.changes]
        assert proposal.moves == sum(copies)
        # A plan that leaves something undone may copy less than the bound, which is for reaching everything.
        assert (
            proposal.least_bytes is None
            or proposal.undone
            or not proposal.changes
            or proposal.least_bytes <= proposal.bytes + 1
        )
        for change in proposal.changes:
            assert not any(fnmatchcase(change.topic, each) for each in rails.frozen_topics)
            assert not {each.broker for each in change.log_dirs} & (frozen | shut)
            assert set(change.replicas) & frozen == set(change.original) & frozen
            assert not frozen & {change.replicas[0], change.original[0]} or change.replicas[0] == change.original[0]
            assert not (set(change.replicas) - set(change.original)) & shut, (
                "drained, replaced and dead brokers get nothing"
            )


@FEW
@given(sightings(), policies(), st.randoms(use_true_random=False))
def test_the_order_of_what_was_observed_does_not_matter(
    sighting: Sighting, policy: KeeperPolicy, shuffled: random.Random
) -> None:
    taken, seen = sighting.inventory, sighting.check_up
    mixed = replace(
        sighting,
        inventory=taken._replace(
            brokers=tuple(shuffled.sample(taken.brokers, len(taken.brokers))),
            partitions=tuple(shuffled.sample(taken.partitions, len(taken.partitions))),
            disks=tuple(shuffled.sample(taken.disks, len(taken.disks))),
        ),
        check_up=replace(seen, brokers=tuple(shuffled.sample(seen.brokers, len(seen.brokers)))),
        load=_with_rows_mixed(sighting.load, shuffled),
    )
    assert look(mixed, policy) == look(sighting, policy)


def _with_rows_mixed(load: ClusterLoad, shuffled: random.Random) -> ClusterLoad:
    rows = shuffled.sample(range(len(load.sizes)), len(load.sizes))
    return replace(
        load,
        topic_of=load.topic_of[rows],
        numbers=load.numbers[rows],
        replicas=load.replicas[rows],
        sizes=load.sizes[rows],
        bytes_in=None if load.bytes_in is None else load.bytes_in[rows],
        bytes_out=None if load.bytes_out is None else load.bytes_out[rows],
        min_isr=None if load.min_isr is None else load.min_isr[rows],
        isr=None if load.isr is None else load.isr[rows],
        offline=None if load.offline is None else load.offline[rows],
        leader=None if load.leader is None else load.leader[rows],
    )
