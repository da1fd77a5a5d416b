"""Values and their rules: limits, log dirs' room, loopback, principals."""

from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.app.evaluation.policy import read_policies
from shunter.app.service.commands import commands_for
from shunter.cli.execution.options import parse_rate
from shunter.errors import SettingsError
from shunter.model.inventory import BrokerFacts, Disk
from shunter.model.limits import LEAST_RATE, MOST_COPIES, MOST_RATE, bound_trouble, floor_trouble, rate_trouble
from shunter.model.room import Room, free_bytes, next_log_dirs, room_of
from shunter.model.security.loopback import is_loopback
from shunter.model.security.principal import ANONYMOUS, Principal, parse_principal
from shunter.model.service import OrderKind, OrderRefused, ServiceOrder, Signature

GB = 10**9


@pytest.mark.parametrize("rate", [-1, 0, 1, 50, LEAST_RATE - 1, MOST_RATE + 1])
def test_a_rate_that_can_t_be_meant(rate: int, tmp_path: Path) -> None:
    why = rate_trouble(rate)
    assert why
    if rate:  # 0 lifts the throttle there.
        with pytest.raises(OrderRefused) as by_api:
            commands_for(ServiceOrder(OrderKind.LIMIT, "prod", bytes_per_s=rate), Signature("anna"))
        assert why in str(by_api.value)
    policy = tmp_path / "keeper.toml"
    for key in ("throttle", "log-dir-throttle"):
        policy.write_text(f'[cluster.prod]\nbootstrap-server = "b:1"\n[cluster.prod.execution]\n{key} = {rate}\n')
        with pytest.raises(SettingsError) as by_file:
            read_policies(policy)
        assert rate < 1 or why in str(by_file.value)
    with pytest.raises(click.BadParameter) as by_command_line:
        parse_rate(str(rate))
    assert rate < 1 or by_command_line.value.message == why


@pytest.mark.parametrize("rate", [LEAST_RATE, 50_000_000, MOST_RATE])
def test_a_rate_that_can(rate: int) -> None:
    assert rate_trouble(rate) == ""
    assert parse_rate(str(rate)) == rate


def test_a_floor_is_below_its_throttle() -> None:
    assert floor_trouble(None, None) == floor_trouble(5_000, 5_000) == ""
    assert floor_trouble(5_000, None) == "there is no throttle"
    assert floor_trouble(5_001, 5_000) == "the floor 5,001 is above the throttle 5,000"


def test_a_bound_is_a_number_of_copies(tmp_path: Path) -> None:
    assert [bool(bound_trouble(each)) for each in (-1, 0, MOST_COPIES, MOST_COPIES + 1)] == [True, False, False, True]
    policy = tmp_path / "keeper.toml"
    for bound, refused in ((0, False), (MOST_COPIES + 1, True)):
        policy.write_text(f'[cluster.p]\nbootstrap-server = "b:1"\n[cluster.p.execution]\nmax-in = {bound}\n')
        if refused:
            with pytest.raises(SettingsError, match=r"0 \(no bound\) to 1,000,000"):
                read_policies(policy)
        else:
            assert read_policies(policy)[0].options.max_in == 0


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


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "127.0.0.1", "127.9.8.7", "127.1", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"]
)
def test_the_loopback_is_local(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["", "0.0.0.0", "::", "10.0.0.5", "128.0.0.1", "::2", "::ffff:10.0.0.5", "kafka1", "localhost.example.com", "1"],
)
def test_any_other_host_is_not_local(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("host", ["127.example.com", "127.0.0.1.example.com", "127.0.0.1.2.3", "127."])
def test_a_name_that_begins_like_the_loopback_is_not_local(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("text", "principal"),
    [
        ("User:alice", Principal("User", "alice")),
        ("User:CN=a,OU=b:c", Principal("User", "CN=a,OU=b:c")),
        ("Group:", Principal("Group", "")),
    ],
)
def test_a_principal_is_what_stands_before_and_behind_the_first_colon(text, principal):
    assert parse_principal(text) == principal
    assert str(principal) == text


def test_who_has_no_type_is_no_principal():
    with pytest.raises(SettingsError, match="'alice' is not of the form TYPE:NAME"):
        parse_principal("alice")


def test_nobody_is_anonymous_as_in_kafka():
    assert str(ANONYMOUS) == "User:ANONYMOUS"
