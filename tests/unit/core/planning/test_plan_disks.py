"""Log dirs within brokers: filled alike, or emptied."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.core.planning.disks import DisksPlan, plan_disks
from shunter.core.planning.request import PlanRefused
from shunter.model.inventory import BrokerDisks, Disk, DiskReplica

BAND = 0.1


def broker(number: int, *held: list[int], total: int | None = None, usable: int | None = None) -> BrokerDisks:
    """A broker with log dirs /d0, /d1, … that hold replicas of these sizes."""
    disks = tuple(Disk(f"/d{at}", total, usable) for at in range(len(held)))
    replicas = tuple(
        DiskReplica(f"t{at}", place, f"/d{at}", size)
        for at, sizes in enumerate(held)
        for place, size in enumerate(sizes)
    )
    return BrokerDisks(number, disks, replicas)


def after(found: BrokerDisks, plan: DisksPlan) -> BrokerDisks:
    gone = {
        (move.replica.topic, move.replica.partition): move.target for move in plan.moves if move.broker == found.broker
    }
    moved = [each._replace(log_dir=gone.get((each.topic, each.partition), each.log_dir)) for each in found.replicas]
    return found._replace(replicas=tuple(moved))


def loads(found: BrokerDisks) -> list[int]:
    return [sum(each.size_bytes for each in found.replicas if each.log_dir == disk.path) for disk in found.disks]


def test_the_fullest_gives_to_the_emptiest() -> None:
    yard = broker(1, [40, 30, 20, 10], [], [20])
    plan = plan_disks([yard], band=BAND)
    assert loads(after(yard, plan)) == [40, 40, 40]
    assert plan.undone == ()


@pytest.mark.parametrize("emptied", [(), ((1, "/d0"),)])
def test_nothing_goes_to_a_cordoned_log_dir(emptied: tuple[tuple[int, str], ...]) -> None:
    yard = broker(1, [40, 30, 20, 10], [], [20])
    yard = yard._replace(disks=(yard.disks[0], yard.disks[1]._replace(cordoned=True), yard.disks[2]))
    plan = plan_disks([yard], band=BAND, emptied=emptied)
    assert plan.moves
    assert {move.target for move in plan.moves} == {"/d2"}
    assert plan.notes == ("/d1 of broker 1 is cordoned: nothing comes to it",)


def failing(yard: BrokerDisks, path: str) -> BrokerDisks:
    """The broker after one of its log dirs has failed: its size and replicas are not known any more."""
    return yard._replace(
        disks=tuple(Disk(path, None, None, failed=True) if each.path == path else each for each in yard.disks),
        replicas=tuple(each for each in yard.replicas if each.log_dir != path),
    )


def test_a_log_dir_that_failed_is_left_out_and_named() -> None:
    yard = failing(broker(1, [40, 30, 20, 10], [], [20]), "/d1")
    plan = plan_disks([yard], band=BAND)
    assert {(move.replica.log_dir, move.target) for move in plan.moves} == {("/d0", "/d2")}
    assert plan.undone == ()
    (told,) = plan.notes
    assert told.startswith("/d1 of broker 1 is left out: it failed")
    assert "--scope offline" in told


def test_a_log_dir_that_failed_can_not_be_emptied() -> None:
    yard = failing(broker(1, [40, 30], [7], [20]), "/d1")
    plan = plan_disks([yard], emptied=[(1, "/d1")])
    assert plan.moves == ()
    ((what, why),) = plan.undone
    assert what == "/d1 of broker 1 stays as it is"
    assert "it failed" in why
    both = plan_disks([yard], emptied=[(1, "/d1"), (1, "/d0")])
    assert {(move.replica.log_dir, move.target) for move in both.moves} == {("/d0", "/d2")}
    assert both.undone == plan.undone


def test_one_log_dir_that_works_is_no_choice() -> None:
    plan = plan_disks([failing(broker(1, [40, 30], []), "/d1")])
    assert plan.undone == (("broker 1 stays as it is", "it has no other log dir that works"),)


@pytest.mark.parametrize(
    ("emptied", "why"),
    [
        ((), "its log dirs are cordoned, so nothing comes to them"),
        (((1, "/d0"),), "its other log dirs are cordoned, so nothing comes to them"),
    ],
)
def test_where_every_log_dir_is_cordoned_that_is_the_reason(emptied: tuple[tuple[int, str], ...], why: str) -> None:
    yard = broker(1, [40, 30], [])
    yard = yard._replace(disks=tuple(each._replace(cordoned=True) for each in yard.disks))
    assert plan_disks([yard], emptied=emptied).undone == (("broker 1 stays as it is", why),)


def test_log_dirs_of_other_sizes_are_filled_alike() -> None:
    yard = BrokerDisks(
        1,
        (Disk("/small", 100, 100), Disk("/great", 300, 300)),
        tuple(DiskReplica("t", number, "/small", 10) for number in range(8)),
    )
    assert loads(after(yard, plan_disks([yard], band=BAND))) == [20, 60]


def test_a_replica_greater_than_the_rest_stays() -> None:
    yard = broker(1, [100], [1])
    plan = plan_disks([yard], band=BAND)
    assert plan.moves == ()
    assert "no replica in it lowers that" in plan.undone[0][1]


@given(st.lists(st.lists(st.integers(0, 1_000), max_size=12), min_size=1, max_size=5))
def test_a_plan_never_fills_the_fullest_more_and_is_done_when_it_is_done(held: list[list[int]]) -> None:
    yard = broker(1, *held)
    plan = plan_disks([yard], band=BAND)
    done = after(yard, plan)
    assert max(loads(done)) <= max(loads(yard))
    assert sum(loads(done)) == sum(loads(yard))
    assert len({(move.replica.topic, move.replica.partition) for move in plan.moves}) == len(plan.moves)
    if not plan.undone:
        assert plan_disks([done], band=BAND).moves == ()


def test_a_log_dir_is_emptied_into_the_others() -> None:
    yard = broker(1, [30, 20, 10], [10], [])
    plan = plan_disks([yard, broker(2, [9], [])], emptied=[(1, "/d0")])
    assert loads(after(yard, plan)) == [0, 40, 30]
    assert {move.broker for move in plan.moves} == {1}, "other brokers are not touched"


def test_what_fits_nowhere_stays_and_is_told() -> None:
    yard = broker(1, [30, 20], [], total=100, usable=45)
    plan = plan_disks([yard], emptied=[(1, "/d0")], headroom=0.2)
    assert [move.replica.size_bytes for move in plan.moves] == [20]
    assert plan.undone == (("t0-0 stays in /d0 of broker 1", "no other log dir has room for it with headroom"),)


def test_a_single_log_dir_can_neither_be_balanced_nor_emptied() -> None:
    assert plan_disks([broker(1, [5])]).undone == (("broker 1 stays as it is", "it has no other log dir that works"),)
    assert plan_disks([broker(1, [5], [])], emptied=[(1, "/d0"), (1, "/d1")]).moves == ()


@pytest.mark.parametrize(
    ("chosen", "emptied", "told"),
    [((7,), (), "broker 7 reported no log dirs"), ((), ((1, "/x"),), "broker 1 has no log dir /x; it has /d0, /d1")],
)
def test_what_there_is_not_is_refused(chosen: tuple[int, ...], emptied: tuple[tuple[int, str], ...], told: str) -> None:
    with pytest.raises(PlanRefused, match=told):
        plan_disks([broker(1, [5], [])], chosen=chosen, emptied=emptied)
