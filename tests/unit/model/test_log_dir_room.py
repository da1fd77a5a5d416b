"""The room on log dirs: free bytes less a headroom, and the log dir that a broker would choose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.model.inventory import BrokerFacts, Disk
from shunter.model.room import Room, free_bytes, next_log_dirs, room_of

GB = 10**9


def next_room(log_dirs: tuple[Disk, ...], headroom: float) -> float | None:
    """The least room of the log dirs of which the broker chooses one."""
    rooms = [free_bytes(each, headroom) for each in next_log_dirs(log_dirs)]
    return None if not rooms or None in rooms else min(room for room in rooms if room is not None)


def test_what_others_use_counts_and_the_headroom_stays_free() -> None:
    assert next_room((Disk("/a", 100 * GB, 5 * GB),), 0.0) == 5 * GB
    assert room_of((Disk("/a", 100 * GB, 30 * GB),), 0.2, GB) == Room(10 * GB, 10 * GB)
    assert room_of((Disk("/a", 100 * GB, 5 * GB),), 0.2, GB) == Room(-15 * GB, -15 * GB)


def test_unknown_room_is_unknown() -> None:
    assert next_room((Disk("/a", None, None),), 0.2) is None
    assert next_room((), 0.2) is None
    assert room_of((Disk("/a", 100, 50), Disk("/b", None, None)), 0.2, 1) is None


def test_the_log_dir_with_the_fewest_replicas_gets_the_next_one() -> None:
    small, large = Disk("/a", 100, 10, replicas=1), Disk("/b", 1_000, 900, replicas=50)
    assert next_room((small, large), 0.0) == 10
    assert room_of((small, large), 0.0, 5) == Room(10, 10), "two replicas of 5 fill it"
    assert next_room((small._replace(replicas=None), large), 0.0) == 10, "it may be any"
    assert next_room((small._replace(replicas=60), large), 0.0) == 900


@pytest.mark.parametrize("shut", [{"failed": True}, {"cordoned": True}])
def test_a_log_dir_that_gets_none_gives_no_room(shut: dict[str, bool]) -> None:
    there = Disk("/b", 100, 40, replicas=9)
    assert room_of((Disk("/a", 100, 90, replicas=0, **shut), there), 0.0, 1) == Room(40, 40)
    assert room_of((Disk("/a", 100, 90, replicas=0, **shut),), 0.0, 1) is None


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 100)), min_size=2, max_size=4),
    st.integers(1, 20),
    st.integers(0, 100),
)
def test_replicas_of_the_mean_size_never_overfill_a_log_dir(
    found: list[tuple[int, int]], size: int, coming: int
) -> None:
    log_dirs = tuple(Disk(f"/{at}", 100, free, replicas=count) for at, (count, free) in enumerate(found))
    room = room_of(log_dirs, 0.0, size)
    assert room is not None
    counts, free = [count for count, _ in found], [left for _, left in found]
    for _ in range(min(coming, int(room.whole // size)) if room.largest >= size else 0):
        least = min(counts)
        assert all(left >= size for count, left in zip(counts, free, strict=True) if count == least)
        at = counts.index(least)
        counts[at], free[at] = counts[at] + 1, free[at] - size


def test_what_bars_a_broker() -> None:
    shut, fine = Disk("/a", 1, 1, cordoned=True), Disk("/b", 1, 1, cordoned=False)
    assert BrokerFacts().barred == BrokerFacts().down == ""
    assert BrokerFacts(live=False).barred == BrokerFacts(live=False).down == "is dead"
    assert BrokerFacts(fenced=True).barred == "is fenced"
    assert BrokerFacts(log_dirs=(shut, fine)).barred == ""
    assert BrokerFacts(log_dirs=(shut,)).barred == "is cordoned"
    assert BrokerFacts(log_dirs=(fine._replace(failed=True), fine)).barred == "has a failed log dir (/b)"
    assert BrokerFacts(log_dirs=(fine._replace(failed=True),)).down == ""
