"""When disks are full by their growth: the growth that looks show, the plans that help, and the text if none does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from keeper_clusters import MIB, carried_out, cluster, look, only, ready
from test_keeper_properties import FEW

from shunter.core.keeper.growth import DiskGrowth, growth_of
from shunter.core.keeper.runway import disk_runway, filling, gist_of
from shunter.core.keeper.sighting import Sighting, in_order
from shunter.core.planning.request import Scope
from shunter.model.keeper import Condition, GuardRails, KeeperPolicy
from shunter.model.service import LookGist

HOUR_MS = 3_600_000
POLICY = only(Condition.DISK_RUNWAY)
"""The condition holds if disks are full within 7 days, and after a plan they must not be full within 14."""


def looks(*sizes: int, every_ms: int = HOUR_MS, others: tuple[int, ...] = ()) -> list[LookGist]:
    """Looks at one topic of these sizes, and at these bytes beside replicas on broker 1."""
    return [
        LookGist(at * every_ms, ((1, size, 1_000),), 1, 0, (), (("t", size),), ((1, others[at] if others else 0),))
        for at, size in enumerate(sizes)
    ]


def growing(rows: dict[str, list[list[int]]], grows: dict[str, float], **parts: object) -> Sighting:
    """A cluster of partitions of 1 MiB; `grows`: MiB a day of each topic, one replica of each partition."""
    seen = cluster(rows, **parts)  # type: ignore[arg-type]
    return replace(seen, growth=DiskGrowth({topic: rate * MIB for topic, rate in grows.items()}, {}))


def days(seen: Sighting) -> dict[int, float]:
    return {broker: each.days for broker, each in filling(in_order(seen)).items()}


class TestGrowth:
    def test_it_is_the_slope_of_what_looks_saw_a_day(self) -> None:
        found = growth_of(looks(*range(100, 3_100, 100), others=tuple(range(30))))
        assert (found.topics, found.others, found.why) == ({"t": pytest.approx(2_400)}, {1: pytest.approx(24)}, "")

    def test_saw_teeth_and_what_shrinks_are_no_growth(self) -> None:
        teeth = [500 + 10 * (at % 6) for at in range(73)]
        assert growth_of(looks(*teeth)).topics == {}
        assert growth_of(looks(*range(900, 600, -10))).topics == {}

    def test_less_than_a_day_tells_nothing(self) -> None:
        for few in ([], looks(*[1, 2, 3]), looks(*range(23)), looks(*range(1, 5), every_ms=24 * HOUR_MS)):
            assert growth_of(few).topics == {}
            assert growth_of(few).why
        assert "observations of 24 hours are needed" in growth_of(looks(*range(23))).why

    def test_a_topic_that_came_lately_is_left_out(self) -> None:
        found = looks(*range(100, 3_100, 100))
        found[-5:] = [each._replace(topics=(*each.topics, ("new", at))) for at, each in enumerate(found[-5:])]
        assert growth_of(found).topics.keys() == {"t"}

    def test_looks_of_an_earlier_version_tell_nothing(self) -> None:
        assert growth_of([LookGist(1, ((1, 5, 10),), 1, 0)]).why == "sizes of earlier observations are not known yet"

    def test_moved_replicas_are_no_growth(self) -> None:
        """A broker that receives replicas fills because of a plan, not because its topics grow."""
        before = cluster({"t": [[1, 2]] * 10}, used={1: 0.3, 2: 0.3, 3: 0.1})
        later = cluster({"t": [[1, 3]] * 10}, used={1: 0.3, 2: 0.2, 3: 0.2})
        seen = [gist_of(before, ()), gist_of(later, ())]
        assert [each.topics for each in seen] == [(("t", 10 * MIB),)] * 2
        assert seen[0].others == seen[1].others == ((1, 20 * MIB), (2, 20 * MIB), (3, 10 * MIB))

    def test_a_topic_of_which_a_size_is_not_known_is_left_out(self) -> None:
        seen = cluster({"t": [[1, 2]], "u": [[1, 2], [9]]}, used={1: 0.3})
        assert gist_of(seen, ()).topics == (("t", MIB),)


class TestTheRunway:
    def test_the_first_broker_to_be_full_and_when(self) -> None:
        seen = growing({"t": [[1], [1], [2]]}, {"t": 3}, used={1: 0.9, 2: 0.9, 3: 0.5})
        assert days(seen) == {1: pytest.approx(5), 2: pytest.approx(10), 3: float("inf")}
        found = disk_runway(in_order(seen))
        assert (found.days, found.broker, found.why) == (pytest.approx(5), 1, "")

    def test_why_there_is_none(self) -> None:
        disks = {1: 0.9}
        assert disk_runway(growing({"t": [[1]]}, {}, used=disks)).why == "no disk grows"
        assert disk_runway(cluster({"t": [[1]]}, used=disks)).why == "sizes of earlier observations are not known yet"
        assert "Kafka 3.3" in disk_runway(cluster({"t": [[1]]})).why


ROWS = {"t": [[1]] * 20, "u": [[2]] * 20}


class TestTheCondition:
    def test_it_begins_at_one_bound_and_holds_to_the_other(self) -> None:
        def at(rate: float) -> Sighting:
            return growing(ROWS, {"t": rate}, used={1: 0.8, 2: 0.5, 3: 0.1})

        assert look(at(20 / 8), POLICY).holding == ()
        first = look(at(20 / 5), POLICY)
        told = "the disks of broker 1 are full in 5.0 days at their growth of 4.2 MB a day (most by t)"
        assert [each.sign.text for each in first.holding] == [told]
        again = look(at(20 / 8), POLICY, first.memory)
        assert [each.sign.subject.about for each in again.holding] == ["broker 1"]
        assert look(at(20 / 15), POLICY, again.memory).holding == ()

    def test_a_single_look_and_too_few_looks_know_of_no_growth(self) -> None:
        seen = growing(ROWS, {"t": 100}, used={1: 0.8, 2: 0.5, 3: 0.1})
        assert look(replace(seen, growth=None), POLICY).holding == ()
        assert look(replace(seen, growth=DiskGrowth({}, {}, "too few")), POLICY).holding == ()

    def test_the_plan_takes_off_what_grows_until_the_disk_lasts(self) -> None:
        seen = growing(ROWS, {"t": 4}, used={1: 0.8, 2: 0.5, 3: 0.1})
        judged = look(seen, POLICY)
        proposal = ready(judged)
        assert proposal is not None
        assert (proposal.scope, proposal.conditions) == (Scope.FILLING_DISKS, (Condition.DISK_RUNWAY,))
        assert {(each.topic, each.original, each.replicas) for each in proposal.changes} <= {
            ("t", (1,), (2,)),
            ("t", (1,), (3,)),
        }
        # 20 MiB are free. If n replicas leave, 20 + n must last 14 days at 0.2 MiB a day for each that stays: n = 9.5.
        assert proposal.moves == 10
        after = carried_out(seen, proposal)
        assert min(days(after).values()) >= 14
        assert look(after, POLICY, judged.memory).holding == ()

    def test_no_disk_is_filled_to_save_another(self) -> None:
        """Broker 3 has room for 5 replicas until its own `disk-full` condition begins, at 85 %."""
        seen = growing(ROWS, {"t": 4}, used={1: 0.8, 2: 0.86, 3: 0.8})
        (proposal,) = look(seen, POLICY).proposals
        assert {each.replicas for each in proposal.changes} == {(3,)}
        after = carried_out(seen, proposal)
        (third,) = (each for each in after.inventory.brokers if each.id == 3)
        assert third.disk_usable_bytes is not None
        assert third.disk_usable_bytes >= 15 * MIB
        assert days(after)[3] >= 14
        assert proposal.undone[0].startswith("the disks of broker 1 stay full in ")
        assert proposal.undone[0].endswith(
            "what helps is larger disks or another broker, or less retention of these topics"
        )

    def test_where_no_plan_helps_it_says_so_and_what_helps(self) -> None:
        full = growing({"t": [[1, 2, 3]] * 10}, {"t": 4}, used=dict.fromkeys((1, 2, 3), 0.9))
        (proposal,) = look(full, POLICY).proposals
        assert proposal.changes == ()
        assert [each.partition(" stay ")[0] for each in proposal.undone[:3]] == [
            f"the disks of broker {broker}" for broker in (1, 2, 3)
        ]
        assert "another broker" in proposal.undone[0]

    def test_growth_beside_replicas_is_told_and_no_retention_is_blamed(self) -> None:
        seen = cluster({"t": [[1]] * 3}, used={1: 0.9, 2: 0.1, 3: 0.1})
        judged = look(replace(seen, growth=DiskGrowth({}, {1: 5.0 * MIB})), POLICY)
        assert [each.sign.text for each in judged.holding] == [
            "the disks of broker 1 are full in 2.0 days at their growth of 5.2 MB a day"
        ]
        (proposal,) = judged.proposals
        assert proposal.undone[0].endswith("what helps is larger disks or another broker")

    def test_frozen_brokers_stay_as_they_are(self) -> None:
        policy = replace(POLICY, rails=GuardRails(frozen_brokers=(1,)))
        assert look(growing(ROWS, {"t": 4}, used={1: 0.8, 2: 0.5, 3: 0.1}), policy).holding == ()

    def test_bounds_count_the_bytes_that_are_there_now(self) -> None:
        policy = replace(POLICY, rails=GuardRails(bytes=6 * MIB))
        (proposal,) = look(growing(ROWS, {"t": 4}, used={1: 0.8, 2: 0.5, 3: 0.1}), policy).proposals
        assert 0 < proposal.bytes <= 6 * MIB


@FEW
@given(
    st.lists(st.permutations((1, 2, 3, 4)), min_size=4, max_size=24),
    st.dictionaries(st.sampled_from(("t0", "t1", "t2")), st.floats(0, 30), max_size=3),
    st.lists(st.floats(0.3, 0.95), min_size=4, max_size=4),
)
def test_no_plan_makes_a_disk_full_earlier_than_the_bound_or_gives_a_growing_disk_more(
    rows: list[list[int]], grows: dict[str, float], used: list[float]
) -> None:
    topics: dict[str, list[list[int]]] = {}
    for at, row in enumerate(rows):
        topics.setdefault(f"t{at % 3}", []).append(row[: 1 + at % 2])
    disks = {broker: max(share, 0.3) for broker, share in zip((1, 2, 3, 4), used, strict=True)}
    seen = growing(topics, grows, brokers=(1, 2, 3, 4), used=disks)
    policy: KeeperPolicy = POLICY
    before, bound = days(seen), policy.watches[Condition.DISK_RUNWAY].end
    for proposal in look(seen, policy).proposals:
        after = days(carried_out(seen, proposal))
        for broker, left in after.items():
            assert left >= min(bound, before[broker]) - 1e-6, (broker, before, after)
