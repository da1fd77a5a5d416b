"""Properties for every cluster and every policy: the keeper comes to rest, and it keeps to its guard rails."""

from __future__ import annotations

import random
from dataclasses import replace
from fnmatch import fnmatchcase

from hypothesis import given, settings
from hypothesis import strategies as st
from keeper_clusters import carried_out, look, policies, ready, sightings

from shunter.core.keeper.proposals import Proposal
from shunter.core.keeper.sighting import Sighting
from shunter.core.planning.cluster import ClusterLoad
from shunter.model.keeper import KeeperPolicy

ALL = settings().max_examples
DEEP = ALL > 1_000
SOME = settings(max_examples=ALL, derandomize=not DEEP)
FEW = settings(max_examples=max(1, ALL // 3), derandomize=not DEEP)
"""The number of examples if each one judges and plans several times. The default run draws the same clusters each time,
because a failure of a new one would not be due to the change at hand; `--hypothesis-profile=deep` draws others."""
MOST_PLANS = 40


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
