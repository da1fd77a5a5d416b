"""Log dirs within brokers: when they are out of the band, which plan mends that, and when it may not be carried out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from keeper_clusters import MIB, MINUTE_MS, carried_out, cluster, later, look, only, shelved

from shunter.core.keeper.docket import after_look
from shunter.core.keeper.proposals import order_of
from shunter.core.keeper.sighting import PastExecution, Sighting
from shunter.core.keeper.wishes import wished
from shunter.model.check_up import CheckedLogDir
from shunter.model.inventory import BrokerDisks
from shunter.model.keeper import Condition, GuardRails, Intents, KeeperPolicy, Mode
from shunter.model.service import KeptProposal, OrderKind, OrderRefused, PlannedChange, ProposalState, ServiceOrder

EVEN = {"t": [[1, 2], [2, 3], [3, 1]] * 2}
POLICY = only(Condition.LOG_DIR_BAND)
Place = Callable[[str, int, int], str]


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
    assert "fits into the emptiest one with headroom" in proposal.undone[0]


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
