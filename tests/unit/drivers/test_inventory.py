"""A snapshot has only brokers that can hold replicas. It is taken from brokers that answer."""

import pytest
from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.structs import OffsetAndTimestamp

from shunter.core.throttles import FOLLOWER_RATE, LEADER_RATE, UNLIMITED
from shunter.drivers.admin.inventory import (
    _Changing,
    _changing_around,
    _disk,
    _holders,
    _log_dirs,
    _offsets,
    _partition,
    _rates,
    _space,
    take_inventory,
)
from shunter.errors import DriverError
from shunter.model.inventory import Disk

SPACE = (None, None, 1)
BARE = (None, None, 0)


def test_a_controller_without_log_dirs_is_no_place_for_replicas():
    assert _holders([1, 2, 1000], {1: SPACE, 2: SPACE, 1000: BARE}, {1, 2}) == [1, 2]


def test_who_is_assigned_a_replica_stays_whatever_it_shows():
    assert _holders([1, 2], {1: SPACE, 2: BARE}, {1, 2}) == [1, 2]


def test_where_nobody_shows_a_log_dir_everybody_stays():
    assert _holders([1, 2, 3], {1: BARE, 2: BARE, 3: BARE}, set()) == [1, 2, 3]


def test_who_did_not_answer_stays():
    assert _holders([1, 2], {1: SPACE}, {1}) == [1, 2]


class _Reassigned:
    """A client of a cluster whose reassignment ends between two looks; `refuses`: one that does not tell them."""

    def __init__(self, *answers: dict[int, list[int]], refuses: bool = False) -> None:
        self.answers = list(answers)
        self.refuses = refuses

    def list_partition_reassignments(self) -> dict[TopicPartition, dict[str, list[int]]]:
        if self.refuses:
            raise kafka_errors.UnsupportedVersionError
        return {
            TopicPartition("t", at): {"adding_replicas": each, "removing_replicas": [at]}
            for at, each in self.answers.pop(0).items()
        }


def test_replicas_that_are_being_added_are_read_on_both_sides_of_the_metadata():
    client = _Reassigned({0: [3], 1: [4]}, {1: [5]})
    assert _changing_around(client, lambda: "metadata") == (
        "metadata",
        {("t", 0): ((3,), (0,)), ("t", 1): ((4, 5), (1,))},
    )
    assert _changing_around(_Reassigned(refuses=True), lambda: 7) == (7, {})


class _Offsets:
    """A client; some partitions' leaders do not know their offsets, which fails each request that names one."""

    def __init__(self, unknown: set[int]) -> None:
        self.unknown = unknown

    def list_partition_offsets(self, asked: dict[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        if any(tp.partition in self.unknown for tp in asked):
            raise kafka_errors.OffsetNotAvailableError
        return {tp: OffsetAndTimestamp(tp.partition * 10, -1, None) for tp in asked}


@pytest.mark.parametrize("unknown", [set(), {0}, {3, 4}, set(range(9))])
def test_an_offset_that_its_leader_does_not_know_costs_no_other(unknown):
    """A leader that was elected below min.insync.replicas answers 78 for as long as the incident lasts."""
    partitions = [TopicPartition("t", number) for number in range(9)]
    expected = {("t", number): number * 10 for number in range(9) if number not in unknown}
    assert _offsets(_Offsets(unknown), partitions, -1) == expected


@pytest.mark.parametrize("form", [",".join, ", ".join, list])
def test_bootstrap_servers_are_a_list_or_a_text_with_commas(form, free_port):
    servers = [f"127.0.0.1:{free_port}", f"localhost:{free_port}"]
    with pytest.raises(DriverError) as refused:
        take_inventory({"bootstrap_servers": form(servers)})
    told = f"each of {', '.join(servers)} refuses connections: nothing listens there"
    assert str(refused.value) == f"no broker answers: {told}"


def log_dir(path, *, error=0, **more):
    rows = [{"partition_index": at, "partition_size": 1, "is_future_key": False} for at in (0, 1)]
    topic = {"name": "t", "partitions": rows}
    return {"log_dir": path, "error_code": error, "topics": [topic], **more}


def test_each_log_dir_has_its_own_room_and_state():
    fine = _disk(log_dir("/a", total_bytes=100, usable_bytes=40, is_cordoned=True))
    assert fine == Disk("/a", 100, 40, cordoned=True, replicas=2)
    old = _disk(log_dir("/b"))
    assert old == Disk("/b", None, None, replicas=2), "what it does not say is unknown"
    failed = _disk(log_dir("/c", error=56, total_bytes=-1, usable_bytes=-1))
    assert failed.failed
    assert _space((fine, fine._replace(path="/d"))) == (200, 80)
    assert _space((fine, old)) == _space((fine, failed)) == _space(()) == (None, None)


class _Damaged:
    """A client of a broker of which one log dir failed."""

    def describe_log_dirs(self, _topics, brokers):
        assert brokers == [3]
        return [{"log_dirs": [log_dir("/a"), log_dir("/b", error=56) | {"topics": []}, log_dir("/c")]}]


def test_of_a_broker_with_a_failed_log_dir_the_others_are_told():
    assigned = {("t", 0): (3,), ("t", 1): (3,)}
    _sizes, _spaces, (found,), unanswered, _all = _log_dirs(_Damaged(), [3], assigned)
    assert [(each.path, each.failed) for each in found.disks] == [("/a", False), ("/b", True), ("/c", False)]
    assert unanswered == ((3, "log dir /b failed"),)


def read_partition(*, isr, changing=None, listed=(1,), told=()):
    """A partition of brokers 1 and 3, of which 3 has a failed log dir; `listed`: who lists it in a working one."""
    found = {"partition_index": 0, "replica_nodes": [1, 3], "isr_nodes": isr, "leader_id": 1, "offline_replicas": told}
    settings = {"t": {"min.insync.replicas": "1", "cleanup.policy": "delete"}}
    sizes = {("t", 0): [(broker, 5) for broker in listed]}
    return _partition({"name": "t"}, found, sizes, {}, {}, settings, {("t", 0): changing or _Changing()}, {3})


@pytest.mark.parametrize(
    ("offline", "given"),
    [
        ((3,), {"isr": [1]}),
        ((3,), {"isr": [1], "told": [3]}),
        ((), {"isr": [1], "listed": (1, 3)}),
        ((), {"isr": [1, 3]}),
        ((), {"isr": [1], "changing": _Changing(adding=(3,))}),
        ((), {"isr": [1], "changing": _Changing(removing=(3,))}),
    ],
    ids=["listed nowhere", "told by metadata too", "behind", "in sync", "being added", "being removed"],
)
def test_a_replica_that_no_working_log_dir_lists_is_offline(offline, given):
    """A log dir that fails before KRaft's controller knows which replicas are in it: metadata call none of them offline."""
    assert read_partition(**given).offline == offline


class _Rates:
    """A client of brokers that tell their rates, or not."""

    def described_by_each(self, brokers, settings, within_s):
        assert (brokers, settings, within_s > 0) == ([1, 2, 3, 4], (LEADER_RATE, FOLLOWER_RATE), True)
        return {
            4: kafka_errors.KafkaTimeoutError("after 3 s"),
            1: {LEADER_RATE: None, FOLLOWER_RATE: str(UNLIMITED)},
            2: {FOLLOWER_RATE: "20000"},
            3: DriverError("needs DescribeConfigs on Cluster", retriable=False),
        }


def test_rates_of_brokers_are_read_in_one_round_and_who_tells_none_is_unknown():
    untold = ((3, "needs DescribeConfigs on Cluster"), (4, "no answer came in time: after 3 s"))
    assert _rates(_Rates(), [1, 2, 3, 4]) == ({2: {FOLLOWER_RATE: "20000"}}, untold)
