"""The plan input, read; and Kafka's reassignment JSON, written."""

from __future__ import annotations

import json
import re
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FormatError
from shunter.formats.plan_files import PlanInput, read_plan_input, write_moves, write_reassignment
from shunter.formats.reassignment_json import decode_plan


def document(**changes: Any) -> dict[str, Any]:
    return {
        "brokers": {"1": "a", "2": "b", "10": "a"},
        "partitions": [
            {"topic": "t", "partition": 0, "replicas": [1, 2], "size": 8},
            {"topic": "t", "partition": 1, "replicas": [10], "size": 16.5},
        ],
    } | changes


def row(**changes: Any) -> dict[str, Any]:
    whole = {"topic": "t", "partition": 0, "replicas": [1, 2], "size": 8} | changes
    return {key: value for key, value in whole.items() if value is not ...}


def read(found: Any, **options: bool):
    return read_plan_input(json.dumps(found).encode(), "in.json", **options)


def test_columns_are_read_by_topic_and_partition() -> None:
    found = read(document())
    assert found.brokers == (1, 2, 10)
    assert found.racks == ("a", "b")
    assert found.rack_of.tolist() == [0, 1, 0]
    assert found.replicas.tolist() == [[0, 1], [2, -1]]
    assert found.sizes.tolist() == [8, 16.5]
    assert found.numbers.tolist() == [0, 1]
    assert (found.bytes_in, found.min_isr, found.disk_capacity) == (None, None, None)


def test_the_order_of_the_rows_does_not_matter() -> None:
    """The planner takes equal items in the order in which they come, so rows are sorted: one cluster, one plan."""
    partitions = [
        row(topic=topic, partition=number, size=100 * number + len(topic), bytes_in=number, min_isr=1 + number % 2)
        for topic in ("aa", "b")
        for number in (2, 10, 1)
    ]
    expected, *others = (read(document(partitions=list(order))) for order in permutations(partitions))
    assert expected.numbers.tolist() == [1, 2, 10] * 2
    assert expected.sizes.tolist() == [102, 202, 1002, 101, 201, 1001]
    assert expected.topic_of.tolist() == [0, 0, 0, 1, 1, 1]
    for found in others:
        for name, values in expected._asdict().items():
            assert np.array_equal(getattr(found, name), values) or values is None, name


def test_what_is_optional_is_read_where_it_is() -> None:
    brokers = {"1": {"rack": "a", "disk_capacity": 100}, "2": {"rack": "b"}}
    partitions = [row(bytes_in=1.5, bytes_out=2, min_isr=2), row(partition=1)]
    found = read(document(brokers=brokers, partitions=partitions))
    assert found.disk_capacity is not None
    assert found.disk_capacity.tolist() == [100, np.inf]
    assert (found.bytes_in.tolist(), found.bytes_out.tolist(), found.min_isr.tolist()) == ([1.5, 0], [2, 0], [2, 1])


def test_racks_can_be_ignored_where_there_are_none() -> None:
    found = read(document(brokers={"1": None, "2": None, "10": None}), ignore_racks=True)
    assert found.racks == ("",)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([], "is a JSON list, not an object"),
        ({}, "key 'brokers' is missing"),
        (document(brokers={}), "key 'brokers' is empty"),
        (document(brokers=[1]), "key 'brokers' is missing or no JSON object"),
        (document(partitions=[]), "key 'partitions' is empty"),
        (document(partitions={}), "key 'partitions' is missing or no JSON array"),
        (document(brokers={"x": "a"}), "brokers: key 'x' is not a broker id"),
        (document(brokers={"-1": "a"}), "brokers: key '-1' is not a broker id"),
        (document(brokers={"1": "a", "01": "a"}), "brokers: key '01' is not a broker id of its own"),
        (document(brokers={"1": None}), "brokers.1: rack is None, not a name"),
        (document(brokers={"1": ""}), "brokers.1: rack is '', not a name"),
        (document(brokers={"1": {"rack": "a", "disk": 5}}), "brokers.1: unknown key 'disk'"),
        (
            document(brokers={"1": {"rack": "a", "disk_capacity": 0}}),
            "brokers.1.disk_capacity: 0 is not a number above 0",
        ),
        (document(partitions=[5]), r"partitions\[0\]: 5 is not an object"),
        (document(partitions=[row(sizee=5)]), r"partitions\[0\]: unknown key 'sizee'"),
        (document(partitions=[row(topic="")]), r"partitions\[0\].topic: '' is not a topic's name"),
        (document(partitions=[row(topic=...)]), r"partitions\[0\].topic: None is not a topic's name"),
        (document(partitions=[row(partition=-1)]), r"partitions\[0\].partition: -1 is not a partition number"),
        (document(partitions=[row(partition=True)]), r"partitions\[0\].partition: True is not a partition number"),
        (document(partitions=[row(partition=2**31)]), r"partitions\[0\].partition: 2147483648 is not"),
        (document(partitions=[row(replicas=[])]), r"partitions\[0\].replicas: \[\] is not a list of broker ids"),
        (document(partitions=[row(replicas=["1"])]), r"partitions\[0\].replicas: \['1'\] is not a list of broker ids"),
        (document(partitions=[row(replicas=5)]), r"partitions\[0\].replicas: 5 is not a list"),
        (
            document(partitions=[row(replicas=[1, 3])]),
            r"partitions\[0\]: replicas \[1, 3\] name broker 3, which is not",
        ),
        (document(partitions=[row(replicas=[1, 1])]), r"replicas \[1, 1\] for t-0 repeat broker 1"),
        (document(partitions=[row(), row()]), r"partitions\[1\]: partition t-0 is already row 0"),
        (document(partitions=[row(size=-5)]), r"partitions\[0\].size: -5 is not a number of at least 0"),
        (document(partitions=[row(size="8")]), r"partitions\[0\].size: '8' is not a number"),
        (document(partitions=[row(size=...)]), r"partitions\[0\].size: None is not a number"),
        (document(partitions=[row(), row(partition=1, bytes_in=-1)]), r"partitions\[1\].bytes_in: -1 is not"),
        (document(partitions=[row(min_isr="a")]), r"partitions\[0\].min_isr: 'a' is not a count"),
    ],
)
def test_what_breaks_a_rule_is_named_with_file_and_place(found: Any, said: str) -> None:
    with pytest.raises(FormatError, match=said) as told:
        read(found)
    assert str(told.value).startswith("in.json: ")


@pytest.mark.parametrize("raw", [b"", b"{", b'{"brokers": NaN}', b"\xff\xfe"])
def test_what_is_no_json_is_refused(raw: bytes) -> None:
    with pytest.raises(FormatError, match=r"in.json: is not JSON"):
        read_plan_input(raw, "in.json")


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def read_or_refused(found: Any) -> PlanInput | FormatError:
    try:
        return read(found)
    except FormatError as error:
        return error


@given(st.sampled_from(["topic", "partition", "replicas", "size", "bytes_in", "min_isr"]), anything)
def test_any_value_is_read_or_refused(key: str, value: Any) -> None:
    found = read_or_refused(document(partitions=[row(**{key: value})]))
    if isinstance(found, FormatError):
        assert "partitions[0]" in str(found)
    else:
        assert len(found.sizes) == 1
        assert (found.sizes >= 0).all()


@given(st.sampled_from(["brokers", "partitions"]), anything)
def test_any_part_is_read_or_refused(key: str, value: Any) -> None:
    found = read_or_refused(document(**{key: value}))
    if isinstance(found, FormatError):
        assert found.place == "in.json"
    else:
        assert found.brokers


@pytest.mark.parametrize(
    ("broker", "told"),
    [
        ({"live": "yes"}, "brokers.1: live: 'yes' is neither true nor false"),
        ({"log_dirs": {}}, "brokers.1: log_dirs: {} is not a list"),
        ({"log_dirs": [{}]}, "brokers.1.log_dirs[0]: {} is not an object with a path"),
        ({"log_dirs": [{"path": "/a", "used": 1}]}, "brokers.1.log_dirs[0]: unknown key 'used'"),
        ({"log_dirs": [{"path": "/a", "usable": -1}]}, "brokers.1.log_dirs[0]: usable: -1 is not a number"),
    ],
)
def test_a_broken_fact_about_a_broker_is_named(broker: dict[str, Any], told: str) -> None:
    with pytest.raises(FormatError, match=re.escape(told)):
        read(document(brokers={"1": {"rack": "a", **broker}}, partitions=[row(replicas=[1])]))


@pytest.mark.parametrize(
    ("fact", "told"),
    [
        ({"isr": [9]}, "partitions[0].isr: [9] is not a list of ids of brokers of this file"),
        ({"offline": 1}, "partitions[0].offline: 1 is not a list"),
        ({"leader": -2}, "partitions[0].leader: -2 is not the id of a broker of this file, nor -1"),
    ],
)
def test_a_broken_fact_about_a_partition_is_named(fact: dict[str, Any], told: str) -> None:
    with pytest.raises(FormatError, match=re.escape(told)):
        read(document(partitions=[row(**fact)]))


def test_what_is_not_said_is_unknown() -> None:
    plain = read(document())
    assert (plain.facts, plain.isr, plain.offline, plain.leader) == ((), None, None, None)
    some = read(document(partitions=[row(partition=0, leader=-1), row(partition=1, isr=[])]))
    assert some.leader is not None
    assert some.leader.tolist() == [-1, -2]
    assert some.isr is not None
    assert some.isr.tolist() == [[-2], [-1]]


def test_a_plan_names_its_elections() -> None:
    written = write_reassignment([("t", 0, [3, 1], [3, 1]), ("t", 1, [3, 1], [1, 3])], {("t", 0)})
    assert [order.elect for order in decode_plan(written, "plan.json")] == [True, False]


def test_the_reassignment_is_what_kafka_takes() -> None:
    written = write_reassignment([("t", 0, [3, 1], [2, 1]), ("t", 1, [3, 1], None)])
    first = {"topic": "t", "partition": 0, "replicas": [3, 1], "original_replicas": [2, 1]}
    second = {"topic": "t", "partition": 1, "replicas": [3, 1]}
    assert json.loads(written) == {"version": 1, "partitions": [first, second]}
    assert [order.planned_from for order in decode_plan(written, "plan.json")] == [(2, 1), ()]


def test_explained_moves_are_one_json_object_a_line() -> None:
    lines = write_moves([{"row": "move"}, {"row": "broker"}]).splitlines()
    assert [json.loads(line) for line in lines] == [{"row": "move"}, {"row": "broker"}]


def test_a_saved_cluster_without_racks_is_one_rack() -> None:
    """`plan --save` writes null for the rack of every broker; `plan --from` refused that."""
    brokers = {"1": {"rack": None}, "2": {"rack": None}}
    partition = {"topic": "t", "partition": 0, "replicas": [1], "size": 1}
    raw = json.dumps({"brokers": brokers, "partitions": [partition]}).encode()
    assert len(read_plan_input(raw, "here").racks) == 1
