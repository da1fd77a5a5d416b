"""Which settings a throttle needs, and what is given back."""

from shunter.core.throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
    UNLIMITED,
    CopyEnds,
    Loan,
    cleared,
    held_to,
    limited,
    log_dirs_limited,
    repay,
    told_bursts,
    told_unknown_throttles,
    traffic_of,
)
from shunter.model.execution import ThrottleKey
from shunter.model.partition import TopicPartition

TP = TopicPartition("t", 0)
RATE = ThrottleKey("broker", "1", LEADER_RATE)
LIST = ThrottleKey("topic", "t", LEADER_REPLICAS)


def test_a_move_under_way_keeps_its_sources_when_it_is_proposed_elsewhere() -> None:
    moving = {TP: CopyEnds(frozenset({1, 2}), frozenset({3}))}
    assert traffic_of(moving, {TP: (2, 4)}, {TP: (1, 2, 3)}) == {TP: CopyEnds(frozenset({1, 2}), frozenset({4}))}
    assert traffic_of({}, {TP: (2, 4)}, {TP: (1, 2)}) == {TP: CopyEnds(frozenset({1, 2}), frozenset({4}))}


def test_sources_are_throttled_as_leaders_and_destinations_as_followers_topics_first() -> None:
    wanted = limited({TP: CopyEnds(frozenset({1, 2}), frozenset({3}))}, 500)
    assert list(wanted.items())[:2] == [(LIST, "0:1,0:2"), (LIST._replace(setting=FOLLOWER_REPLICAS), "0:3")]
    assert {(key.name, key.setting): value for key, value in list(wanted.items())[2:]} == {
        (broker, setting): "500" for broker in "123" for setting in (LEADER_RATE, FOLLOWER_RATE)
    }


def test_all_that_can_be_set_is_cleared() -> None:
    set_somewhere = {*limited({TP: CopyEnds(frozenset({1}), frozenset({2}))}, 1), *log_dirs_limited([2], 1)}
    assert set_somewhere <= cleared([1, 2], ["t"]).keys()
    assert set(cleared([1, 2], ["t"]).values()) == {None}
    assert ThrottleKey("broker", "2", LOG_DIR_RATE) in cleared([2], [])


def test_a_setting_goes_back_to_what_it_was_unless_somebody_else_changed_it() -> None:
    loans = {RATE: Loan("900", {"500", "700"}), LIST: Loan(None, {"0:1"})}
    assert repay(loans, {RATE: "500", LIST: "0:1"}) == ({RATE: "900", LIST: None}, [])
    assert repay(loans, {RATE: "900", LIST: "7:7"}) == ({RATE: "900"}, [LIST])


def test_a_throttle_that_a_fetch_does_not_fit_into_says_that_copies_begin_faster() -> None:
    """An outsider's find: 29.5 MB were copied in 3 s at 400 kB/s, without a word."""
    assert told_bursts(400_000).startswith("a throttle of 400.0 kB/s holds on average over 11 s")
    assert told_bursts(None) == ""
    assert "up to 550.0 MB at once" in told_bursts(50_000_000)


def test_a_broker_is_held_by_a_rate_whose_replicas_a_list_names() -> None:
    follower, leader, both = {FOLLOWER_RATE: "20000"}, {LEADER_RATE: "7"}, {FOLLOWER_RATE: "20000", LEADER_RATE: "500"}
    for rates, lists, held in [
        (follower, [{FOLLOWER_REPLICAS: "*"}], 20_000),
        (follower, [{FOLLOWER_REPLICAS: None}, {FOLLOWER_REPLICAS: "0:2, 1:1"}], 20_000),
        (follower, [{FOLLOWER_REPLICAS: "1:2,0:11"}], None),
        (follower, [{LEADER_REPLICAS: "*"}], None),
        (follower, [], None),
        (leader, [{LEADER_REPLICAS: "0:1"}], 7),
        (both, [{LEADER_REPLICAS: "*", FOLLOWER_REPLICAS: "0:1"}], 500),
        (both, [{LEADER_REPLICAS: "", FOLLOWER_REPLICAS: "0:1"}], 20_000),
        ({FOLLOWER_RATE: str(UNLIMITED)}, [{FOLLOWER_REPLICAS: "*"}], None),
        ({FOLLOWER_RATE: None}, [{FOLLOWER_REPLICAS: "*"}], None),
    ]:
        assert held_to({1: rates, 3: {}}, lists) == ({} if held is None else {1: held}), (rates, lists)


def test_throttles_that_were_not_told_are_told_as_unknown_once_for_each_reason() -> None:
    assert told_unknown_throttles([(1, "no right"), (2, "it is dying"), (3, "no right")]) == [
        "whether a throttle holds brokers 1, 3 is not known, so the plan takes it for none: no right",
        "whether a throttle holds broker 2 is not known, so the plan takes it for none: it is dying",
    ]
