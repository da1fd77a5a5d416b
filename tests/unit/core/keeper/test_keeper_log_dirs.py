"""Log dirs: out of the band, and full in some days by their growth; which plan mends that."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from keeper_clusters import MIB, MINUTE_MS, carried_out, cluster, later, look, only, ready, shelved
from test_keeper_balance import FEW

from shunter.core.keeper.docket import after_look
from shunter.core.keeper.growth import DiskGrowth, growth_of
from shunter.core.keeper.proposals import order_of
from shunter.core.keeper.runway import disk_runway, filling, gist_of
from shunter.core.keeper.sighting import PastExecution, Sighting, in_order
from shunter.core.keeper.wishes import wished
from shunter.core.planning.request import Scope
from shunter.model.check_up import CheckedLogDir
from shunter.model.inventory import BrokerDisks
from shunter.model.keeper import Condition, GuardRails, Intents, KeeperPolicy, Mode
from shunter.model.service import (
    KeptProposal,
    LookGist,
    OrderKind,
    OrderRefused,
    PlannedChange,
    ProposalState,
    ServiceOrder,
)

EVEN = {"t": [[1, 2], [2, 3], [3, 1]] * 2}
POLICY = only(Condition.LOG_DIR_BAND)
Place = Callable[[str, int, int], str]
HOUR_MS = 3_600_000
RUNWAY_POLICY = only(Condition.DISK_RUNWAY)
"""The condition holds if disks are full within 7 days, and after a plan they must not be full within 14."""


def in_one(_topic: str, _number: int, broker: int) -> str:
    """The log dir of a replica: all of broker 1's in /a, every second one of the other brokers'."""
    return "/a" if broker == 1 or _number < 3 else "/b"


def heaped(place: Place = in_one, **parts: object) -> Sighting:
    return shelved(cluster(EVEN, **parts), place, "/a", "/b")  # type: ignore[arg-type]


def kept(sighting: Sighting, policy: KeeperPolicy = POLICY, *before: KeptProposal) -> tuple[KeptProposal, ...]:
    return after_look(before, sighting, look(sighting, policy), policy, "prod")


def held(sighting: Sighting, policy: KeeperPolicy = POLICY) -> dict[str, str]:
    return {each.sign.subject.about: each.sign.text for each in look(sighting, policy).holding}


def test_a_broker_with_all_in_one_log_dir_is_mended_by_moves_within_it() -> None:
    seen = heaped()
    told = "log dirs of broker 1 are filled 0.00 to 2.00 times as much as their mean (threshold 0.70 to 1.30, ends within 0.85 to 1.15)"
    assert held(seen) == {"broker 1": told}
    (proposal,) = look(seen, POLICY).proposals
    assert (proposal.scope.value, proposal.ready, proposal.moves, proposal.bytes) == ("disks", True, 2, 2 * MIB)
    assert proposal.leader_changes == 0
    for change in proposal.changes:
        assert change.replicas == change.original
        assert [each[:3] for each in change.log_dirs] == [(1, "/a", "/b")]
    assert held(carried_out(seen, proposal)) == {}


def test_the_executor_is_asked_for_log_dirs_and_no_other_replicas() -> None:
    (proposal,) = look(heaped(), POLICY).proposals
    order = order_of(proposal.changes[0])
    assert order.target == order.planned_from == proposal.changes[0].original
    assert order.log_dirs == ((1, "/b"),)


def test_it_begins_at_one_bound_and_holds_to_the_other() -> None:
    def place(topic: str, number: int, broker: int) -> str:
        return "/b" if broker == 1 and number == 0 else in_one(topic, number, broker)

    # Three of four: 0.50 to 1.50 of the mean.
    wide = replace(POLICY, watches={**POLICY.watches})
    wide.watches[Condition.LOG_DIR_BAND] = replace(wide.watches[Condition.LOG_DIR_BAND], begin=0.6, end=0.3)  # type: ignore[index]
    assert look(heaped(place), wide).holding == ()
    memory = look(heaped(), wide).memory
    assert [each.sign.subject.about for each in look(later(heaped(place), 1), wide, memory).holding] == ["broker 1"]


def test_what_no_move_would_mend_is_no_condition() -> None:
    alone = shelved(cluster({"t": [[1], [2], [3]]}), lambda *_: "/a", "/a", "/b")
    assert held(alone) == {}, "one replica is in one log dir, wherever it is"
    assert held(heaped(), replace(POLICY, rails=GuardRails(frozen_topics=("t",)))) == {}
    assert held(heaped(), replace(POLICY, rails=GuardRails(frozen_brokers=(1,)))) == {}
    assert held(heaped(), replace(POLICY, intents=Intents(drain=(1,)))) == {}
    assert held(heaped(failed=(("t", 0, 1),))) == {}, "the next log dir might fail, too"


def test_it_waits_until_it_lasted_and_until_nobody_copies_between_log_dirs() -> None:
    slow = replace(POLICY, watches={**POLICY.watches})
    slow.watches[Condition.LOG_DIR_BAND] = replace(slow.watches[Condition.LOG_DIR_BAND], minutes=30)  # type: ignore[index]
    (proposal,) = look(heaped(), slow).proposals
    assert "log dir skew has to hold for 30 minutes" in proposal.held_back[0]
    (proposal,) = look(shelved(cluster(EVEN), in_one, "/a", "/b", coming=1), POLICY).proposals
    assert "1 replica of broker 1 being copied from one log dir to another" in proposal.held_back[0]


def test_guard_rails_hold_for_copies_within_a_broker_too() -> None:
    (one,) = look(heaped(), replace(POLICY, rails=GuardRails(moves=1))).proposals
    assert (one.moves, one.ready) == (1, True)
    assert one.undone == (
        "/a of broker 1 is filled 1.50 times as much as the mean of its log dirs: the cap on bytes or moves is spent",
    )
    (none,) = look(heaped(), replace(POLICY, rails=GuardRails(bytes=MIB - 1))).proposals
    assert (none.changes, none.ready) == ((), False)
    spent = (PastExecution(0, 12 * 60 * MINUTE_MS - 1, 5, 5 * MIB),)
    (waits,) = look(heaped(past=spent), replace(POLICY, rails=GuardRails(moves_per_day=5))).proposals
    assert waits.held_back == ("5 of 5 moves of moves-per-day were made in the last 24 hours",)


def test_no_plan_fills_a_log_dir_to_what_begins_the_next_one() -> None:
    full = shelved(cluster(EVEN), in_one, "/a", "/b", total=4 * MIB)
    (proposal,) = look(full, POLICY).proposals
    assert proposal.moves == 2
    scarce = full.inventory.disks[0]
    disks = (
        scarce._replace(disks=(scarce.disks[0], scarce.disks[1]._replace(usable_bytes=2 * MIB))),
        *full.inventory.disks[1:],
    )
    (proposal,) = look(replace(full, inventory=full.inventory._replace(disks=disks)), POLICY).proposals
    assert (proposal.moves, len(proposal.undone)) == (1, 1)
    assert "fits into the emptiest one less the headroom (headroom-percent)" in proposal.undone[0]


def test_a_full_log_dir_is_mended_where_another_one_has_room() -> None:
    policy = only(Condition.LOG_DIR_FULL)
    total = 4 * MIB
    log_dirs = {1: (CheckedLogDir("/a", total, 0), CheckedLogDir("/b", total, total))}
    made = shelved(cluster(EVEN, log_dirs=log_dirs), in_one, "/a", "/b", total=total)
    (proposal,) = look(made, policy).proposals
    assert (proposal.moves, proposal.conditions) == (2, (Condition.LOG_DIR_FULL,))
    assert held(carried_out(made, proposal), policy) == {}
    frozen = look(made, replace(policy, rails=GuardRails(frozen_brokers=(1,))))
    assert (frozen.holding, frozen.proposals) == ((), ()), "no plan touches a frozen broker"
    (nothing,) = look(cluster(EVEN, log_dirs=log_dirs), policy).proposals
    assert (nothing.changes, nothing.undone) == ((), ("broker 1 has no other log dir that works",))


class TestKept:
    """The plan of an earlier look."""

    def stale(self, now: Sighting, policy: KeeperPolicy = POLICY) -> str:
        (made,) = kept(heaped())
        # Two brokers are out of the band, so the scope is still needed, whatever became of this plan.
        (found,) = (each for each in kept(now, policy, made) if each.id == made.id)
        assert found.state is ProposalState.STALE
        return found.outcome

    def both(self, topic: str, number: int, broker: int) -> str:
        return "/a" if broker in (1, 2) else in_one(topic, number, broker)

    def test_it_stands_while_everything_is_where_it_was(self) -> None:
        (made,) = kept(heaped())
        assert made.state is ProposalState.WAITING
        assert made.rollback_bytes == made.bytes == 2 * MIB, "they are copied back to where they were"
        assert kept(later(heaped(), 1), POLICY, made) == ()

    def test_it_is_stale_once_a_replica_is_in_another_log_dir(self) -> None:
        (made,) = kept(heaped())
        moved = made.changes[0].partition

        def place(topic: str, number: int, broker: int) -> str:
            return "/b" if (number, broker) == (moved, 1) else self.both(topic, number, broker)

        assert self.stale(heaped(place)) == f"t-{moved} of broker 1 is in log dir /b, and was planned from /a"

    def test_it_is_stale_once_the_log_dir_is_gone(self) -> None:
        def place(_topic: str, number: int, broker: int) -> str:
            return "/a" if broker in (1, 2) or number < 3 else "/c"

        assert "can't go to log dir /b: the broker does not have it any more" in self.stale(
            shelved(cluster(EVEN), place, "/a", "/c")
        )

    def test_it_is_stale_once_its_broker_or_topic_takes_part_no_more(self) -> None:
        now = heaped(self.both)
        assert "no longer takes part in balancing" in self.stale(now, replace(POLICY, intents=Intents(drain=(1,))))
        assert "is frozen since" in self.stale(now, replace(POLICY, rails=GuardRails(frozen_topics=("t",))))
        gone = shelved(cluster(EVEN, brokers=(2, 3)), self.both, "/a", "/b")
        assert "can't be moved: the broker is not up" in self.stale(gone)

    def test_it_acts_where_the_policy_lets_it(self) -> None:
        acting = replace(POLICY, watches={**POLICY.watches})
        acting.watches[Condition.LOG_DIR_BAND] = replace(acting.watches[Condition.LOG_DIR_BAND], mode=Mode.ACT)  # type: ignore[index]
        (made,) = kept(heaped(), acting)
        assert (made.state, made.acts) == (ProposalState.APPROVED, True)


def disks(*brokers: int) -> ServiceOrder:
    return ServiceOrder(OrderKind.PROPOSE, "prod", scope="disks", brokers=brokers)


def test_a_person_may_ask_for_it_whatever_the_band_is() -> None:
    made = wished(disks()._replace(band_percent=1), heaped(), only(), "prod", "anna")
    assert (made.scope, made.moves) == ("disks", 2)
    assert wished(disks(1), heaped(), only(), "prod", "anna").changes == made.changes
    with pytest.raises(OrderRefused, match="there is nothing to move"):
        wished(disks(2), heaped(), only(), "prod", "anna")
    with pytest.raises(OrderRefused, match="broker 1 has no other log dir"):
        wished(disks(1), cluster(EVEN), only(), "prod", "anna")


def test_other_plans_leave_log_dirs_as_kafka_would() -> None:
    seen = heaped()
    change = PlannedChange("t", 0, (3, 2), (1, 2))
    proposal = replace(look(seen, POLICY).proposals[0], changes=(change,))
    disks = {each.broker: each for each in carried_out(seen, proposal).inventory.disks}
    assert in_all(disks[1]) == {"/a": 3, "/b": 0}
    assert in_all(disks[3]) == {"/a": 3, "/b": 2}, "it goes where the fewest are, and where that is alike to the first"


def in_all(found: BrokerDisks) -> dict[str, int]:
    return {disk.path: sum(each.log_dir == disk.path for each in found.replicas) for disk in found.disks}


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

        assert look(at(20 / 8), RUNWAY_POLICY).holding == ()
        first = look(at(20 / 5), RUNWAY_POLICY)
        told = "the disks of broker 1 are full in 5.0 days at their growth of 4.2 MB a day (most by t)"
        assert [each.sign.text for each in first.holding] == [told]
        again = look(at(20 / 8), RUNWAY_POLICY, first.memory)
        assert [each.sign.subject.about for each in again.holding] == ["broker 1"]
        assert look(at(20 / 15), RUNWAY_POLICY, again.memory).holding == ()

    def test_a_single_look_and_too_few_looks_know_of_no_growth(self) -> None:
        seen = growing(ROWS, {"t": 100}, used={1: 0.8, 2: 0.5, 3: 0.1})
        assert look(replace(seen, growth=None), RUNWAY_POLICY).holding == ()
        assert look(replace(seen, growth=DiskGrowth({}, {}, "too few")), RUNWAY_POLICY).holding == ()

    def test_the_plan_takes_off_what_grows_until_the_disk_lasts(self) -> None:
        seen = growing(ROWS, {"t": 4}, used={1: 0.8, 2: 0.5, 3: 0.1})
        judged = look(seen, RUNWAY_POLICY)
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
        assert look(after, RUNWAY_POLICY, judged.memory).holding == ()

    def test_no_disk_is_filled_to_save_another(self) -> None:
        """Broker 3 has room for 5 replicas until its own `disk-full` condition begins, at 85 %."""
        seen = growing(ROWS, {"t": 4}, used={1: 0.8, 2: 0.86, 3: 0.8})
        (proposal,) = look(seen, RUNWAY_POLICY).proposals
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
        (proposal,) = look(full, RUNWAY_POLICY).proposals
        assert proposal.changes == ()
        assert [each.partition(" stay ")[0] for each in proposal.undone[:3]] == [
            f"the disks of broker {broker}" for broker in (1, 2, 3)
        ]
        assert "another broker" in proposal.undone[0]

    def test_growth_beside_replicas_is_told_and_no_retention_is_blamed(self) -> None:
        seen = cluster({"t": [[1]] * 3}, used={1: 0.9, 2: 0.1, 3: 0.1})
        judged = look(replace(seen, growth=DiskGrowth({}, {1: 5.0 * MIB})), RUNWAY_POLICY)
        assert [each.sign.text for each in judged.holding] == [
            "the disks of broker 1 are full in 2.0 days at their growth of 5.2 MB a day"
        ]
        (proposal,) = judged.proposals
        assert proposal.undone[0].endswith("what helps is larger disks or another broker")

    def test_frozen_brokers_stay_as_they_are(self) -> None:
        policy = replace(RUNWAY_POLICY, rails=GuardRails(frozen_brokers=(1,)))
        assert look(growing(ROWS, {"t": 4}, used={1: 0.8, 2: 0.5, 3: 0.1}), policy).holding == ()

    def test_bounds_count_the_bytes_that_are_there_now(self) -> None:
        policy = replace(RUNWAY_POLICY, rails=GuardRails(bytes=6 * MIB))
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
    policy: KeeperPolicy = RUNWAY_POLICY
    before, bound = days(seen), policy.watches[Condition.DISK_RUNWAY].end
    for proposal in look(seen, policy).proposals:
        after = days(carried_out(seen, proposal))
        for broker, left in after.items():
            assert left >= min(bound, before[broker]) - 1e-6, (broker, before, after)
