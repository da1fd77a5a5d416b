"""The JSON of kafka-reassign-partitions and of request znodes, and how both are refused."""

import json

import pytest

from shunter.errors import FormatError
from shunter.formats.tool_json import (
    ToolInputRefused,
    check_executable,
    format_reassignment,
    parse_reassignment,
    parse_topics,
)
from shunter.formats.znodes.requests import decode_request
from shunter.model.partition import TopicPartition

TP = TopicPartition("t", 0)


def plan(*entries, version=1):
    return json.dumps({"version": version, "partitions": list(entries)})


def entry(replicas, partition=0, **more):
    return {"topic": "t", "partition": partition, "replicas": replicas, **more}


def test_log_dirs_that_are_not_any_are_kept():
    asked = parse_reassignment(plan(entry([1, 2], log_dirs=["any", "/d"])))
    assert asked.partitions == ((TP, (1, 2)),)
    assert asked.log_dirs == {(2, TP): "/d"}


def test_a_plan_is_printed_as_apache_prints_it():
    assert format_reassignment({TopicPartition("t", 1): (2,), TP: (1, 2)}) == (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"]},'
        '{"topic":"t","partition":1,"replicas":[2],"log_dirs":["any"]}]}'
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (plan(), "Partition reassignment list cannot be empty"),
        (plan(entry([])), "Partition replica list cannot be empty"),
        (plan(entry([1]), entry([2])), "Partition reassignment contains duplicate topic partitions: t-0"),
        (
            plan(entry([1, 1])),
            "Partition replica lists may not contain duplicate entries: t-0 contains multiple entries for 1",
        ),
        (plan(version=2), "Not supported version field value 2"),
        (
            plan(entry([1, 2], log_dirs=["any"])),
            "Size of replicas list [1, 2] is different from size of log dirs list [any] for partition t-0",
        ),
    ],
)
def test_what_cannot_be_executed(text, told):
    with pytest.raises(ToolInputRefused) as refused:
        check_executable(parse_reassignment(text), cancels=False)
    assert str(refused.value) == told


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (plan({"partition": 0, "replicas": [1]}), "No such field exists: `topic`"),
        (plan(entry([1], partition=2**31)), "Expected `Integer` value, received 2147483648"),
        (plan(entry([True])), "Expected `Integer` value, received true"),
        (plan(entry(None)), "Expected `JSON array` value, received null"),
        (plan({**entry([1]), "log_dirs": None}), "Expected `JSON array` value, received null"),
        (plan({**entry([1]), "log_dirs": [None]}), "Expected `String` value, received null"),
        (plan({**entry([1]), "log_dirs": ["a", "b"]}), "Size of replicas list [1] is different from size of log dirs"),
        ('{"partitions": {"a": [1, "é"]}}', 'Expected JSON array, received {"a":[1,"é"]}'),
        ("[1]", "Expected JSON object, received [1]"),
        ('{"version": null}', "Expected `Integer` value, received null"),
    ],
)
def test_wrong_types_are_told_in_apaches_words(document, told):
    with pytest.raises(ToolInputRefused) as refused:
        parse_reassignment(document)
    assert str(refused.value).startswith(told)


def test_null_and_empty_replicas_may_cancel():
    check_executable(parse_reassignment(plan(entry(None), entry([], partition=1)), nulls=True), cancels=True)
    check_executable(parse_reassignment("{}"), cancels=True)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"partitions": NaN}', '{"partitions": 3}', plan({"topic": "t"}), plan(entry(["x"]))]
)
def test_nonsense_is_refused(text):
    with pytest.raises(ToolInputRefused):
        parse_reassignment(text)


def test_topics_come_in_their_order():
    assert parse_topics('{"topics": [{"topic": "b"}, {"topic": "a"}], "version": 1}') == ("b", "a")


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"version":9}', b'{"assignments":{"t":{"x":[1]}}}', b'{"assignments":{"t":{"0":[1,1]}}}']
)
def test_a_request_that_cannot_be_read_is_refused_whole(data):
    with pytest.raises(FormatError):
        decode_request("request_1", data, czxid=1)
